"""Differences between PyTorch and MindSpore: one row per call, for `check`, the tests and the site.

A difference is added as one row of the file of its family. The tests run it in both frameworks, `check`
reports it where the row names an argument that is left out, and the site's page shows it.
"""

from __future__ import annotations

from functools import cache

from .arithmetic import ARITHMETIC
from .arrays import ARRAYS
from .convolutions import CONVOLUTIONS
from .former import FORMER, Former
from .layers import LAYERS
from .losses import LOSSES
from .record import Difference
from .reductions import REDUCTIONS
from .sampling import SAMPLING
from .training import DRAWN, INITIAL_VALUES, OPTIMIZERS, SCHEDULES, STATE

__all__ = [
    "COMPUTED",
    "DRAWN",
    "FAMILIES",
    "FORMER",
    "INITIAL_VALUES",
    "OPTIMIZERS",
    "SCHEDULES",
    "STATE",
    "Difference",
    "Former",
    "with_other_defaults",
]

COMPUTED: dict[str, tuple[Difference, ...]] = {
    "Convolutions and pools": CONVOLUTIONS,
    "Layers": LAYERS,
    "Reductions": REDUCTIONS,
    "Shapes, indices and linear algebra": ARRAYS,
    "Resizing, sampling and padding": SAMPLING,
    "Arithmetic": ARITHMETIC,
    "Losses": LOSSES,
}
"""Title -> what nets compute otherwise."""

FAMILIES: dict[str, tuple[Difference, ...]] = {
    **COMPUTED,
    "Optimizers": OPTIMIZERS,
    "Learning rates": SCHEDULES,
    "Initial values": INITIAL_VALUES,
    "Training state": STATE,
    "Random numbers": DRAWN,
}
"""Title -> its rows."""


@cache
def with_other_defaults(name: str) -> tuple[Difference, ...]:
    """Return the rows of a function or class of MindSpore whose default is another, one an argument.

    Args:
        name: its own, without the module.
    """
    found: dict[str, Difference] = {}
    for rows in FAMILIES.values():
        for row in rows:
            if row.left_out and row.code and row.called.rpartition(".")[2] == name:
                found.setdefault(row.left_out, row)
    return tuple(found.values())
