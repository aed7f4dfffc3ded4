"""Running variances with numbers below 0, which no training gives: the file may have exchanged them."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import TensorData
from .spelling import universal_name

_SHOWN = 3


def note_of_negative_variances(given: Mapping[str, TensorData]) -> str | None:
    """Return a note on the running variances of a checkpoint that have numbers below 0; None if none has."""
    found = [
        name
        for name, data in given.items()
        if universal_name(name).rpartition(".")[2] == "running_var"
        and "float" in data.dtype
        and bool((data.numpy() < 0).any())
    ]
    if not found:
        return None
    shown = ", ".join(f"`{name}`" for name in found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    return (
        f"{shown}: a running variance with numbers below 0, for which a normalisation gives NaN; carried "
        "over as stored: the file may have running means and variances exchanged"
    )
