"""Undoes the rounding of an emitted net's numbers to bfloat16, which its source has as they are."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from ...ir import numpy_dtype
from .widening import half_unit, rounded_from


class Literals:
    """The numbers of an emitted file that may have been rounded to bfloat16.

    Args:
        source: numbers of the source, which they may be rounded from.
        sign: of half a unit that is added where they are rounded from none of those: 0 for none, 1 for all,
            -1 for every other one with the other sign.

    Attributes:
        source: as given.
        unknown: how many are rounded from none.
    """

    def __init__(self, source: Sequence[float], sign: int = 0) -> None:
        self.source, self._sign = source, sign
        self.unknown = 0

    def __call__(self, tree: ast.Module) -> None:
        """Put what numbers were rounded from in their places."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                node.value = self._exact(node.value)

    def _exact(self, number: float) -> float:
        narrow = np.asarray(number, numpy_dtype("bfloat16"))
        step = float(half_unit(narrow))
        if not step or np.float32(number) != np.float32(narrow):
            return number
        found = rounded_from(number, step, self.source)
        if found is not None:
            return found
        self.unknown += 1
        return number + step * self._sign**self.unknown if self._sign else number
