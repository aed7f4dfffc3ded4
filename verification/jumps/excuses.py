"""Rows of outputs that prove nothing, and are no faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..compare import kind_of
from ..report import OutputRow


def is_void(array: np.ndarray) -> bool:
    """Whether an array holds floating-point elements of which none is a number."""
    return kind_of(array) in "fc" and array.size > 0 and bool(np.isnan(array).all())


def excuse_failed(rows: Sequence[OutputRow], why: str) -> list[OutputRow]:
    """Return rows of which those that failed prove nothing."""
    said = f"proves nothing: {why}"
    return [r if r.passed else replace(r, passed=True, reason=said, unproven=why) for r in rows]


def excuse_void(row: OutputRow) -> OutputRow:
    """Return a passed row for an output that is NaN everywhere in the source, which proves nothing."""
    why = "NaN everywhere"
    return replace(row, passed=True, reason=f"proves nothing: {why} in the source", unproven=why)
