"""ONNX operators that select elements by numbers, or that jump where numbers pass a bound."""

from __future__ import annotations

ORDERS = frozenset({"ArgMax", "ArgMin", "NonMaxSuppression", "TopK"})
"""Operators that put elements in an order."""

FINDS = frozenset({"Compress", "NonMaxSuppression", "NonZero"})
"""Operators that give as many elements as they find."""

_COMPARES = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_STEPS = frozenset({"Cast", "Ceil", "Floor", "Round"})


def selecting_operands(op_type: str, *, finds: bool) -> slice:
    """Return which operands of an operator are numbers that it selects by.

    A RoiAlign takes no sample outside the image, of which a corner of a region decides.

    Args:
        op_type: of ONNX's own domain.
        finds: whether the graph has an operator that finds elements, so that thresholds and steps decide too.
    """
    if op_type in ORDERS:
        return slice(2 if op_type == "NonMaxSuppression" else 1)
    if op_type == "RoiAlign":
        return slice(1, 2)
    if not finds:
        return slice(0)
    return slice(2 if op_type in _COMPARES else int(op_type in _STEPS))
