"""Initial distributions: MXNet's ``__init__`` attributes, and its defaults by what a parameter is for."""

from __future__ import annotations

import json
from functools import lru_cache

from ...frameworks.mxnet import GLUON, MODULE, law_of_xavier
from ...ir import Initializer


def default_initializer(role: str, *, gluon: bool) -> Initializer | None:
    """Return MXNet's default distribution for a parameter without a stated one.

    None where that depends on how it is trained: Gluon and Module start weights from other laws.
    """
    law = GLUON.default_law("", role, ())
    return law if gluon or law == MODULE.default_law("", role, ()) else None


@lru_cache(maxsize=1024)
def stated_initializer(text: str, shape: tuple[int, ...]) -> Initializer | None:
    """Return the distribution of an ``__init__`` attribute: ``zeros``, or ``["xavier", {"magnitude": 3}]``.

    None for one we do not know, such as Load and Mixed, which choose by the names of other parameters.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    name, arguments = value if isinstance(value, list) and len(value) == 2 else (value, {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None

    name = name.lower()
    factor = str(arguments.get("factor_type", "avg"))
    try:
        if name == "xavier":
            magnitude = float(arguments.get("magnitude", 3.0))
            return law_of_xavier(str(arguments.get("rnd_type", "uniform")), factor, magnitude, shape)
        if name == "msraprelu":
            magnitude = 2.0 / (1 + float(arguments.get("slope", 0.25)) ** 2)
            return law_of_xavier("gaussian", factor, magnitude, shape)
    except (TypeError, ValueError):
        return None
    drawing = GLUON.drawing(name)
    return None if drawing is None else drawing.read(arguments)
