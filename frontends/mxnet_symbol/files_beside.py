"""Finds the symbol and the parameters of a model beside each other."""

from __future__ import annotations

import re
from pathlib import Path

_EPOCH = re.compile("[0-9]{1,18}")
_NUMBERED = re.compile("-[0-9]{1,18}$")


def symbol_beside(params: Path) -> Path | None:
    """Return the ``x-symbol.json`` beside ``x-NNNN.params`` or ``x.params``; None where there is none."""
    prefixes = dict.fromkeys([params.stem, _NUMBERED.sub("", params.stem)])
    paths = [params.parent / f"{prefix}-symbol.json" for prefix in prefixes]
    return next((path for path in paths if path.is_file()), None)


def find_params(symbol: Path) -> Path | None:
    """Return the file beside ``x-symbol.json``: the highest ``x-NNNN.params``, or ``x.params``."""
    prefix = symbol.name.removesuffix(".json").removesuffix("-symbol")
    numbered = [
        p
        for p in symbol.parent.glob("*.params")
        if p.name.startswith(f"{prefix}-") and _EPOCH.fullmatch(p.stem[len(prefix) + 1 :])
    ]
    if numbered:
        return max(numbered, key=lambda p: int(p.stem[len(prefix) + 1 :]))
    plain = symbol.parent / f"{prefix}.params"
    return plain if plain.exists() else None
