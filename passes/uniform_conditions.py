"""Finds conditions and masks whose elements are all one constant, for fold-constants."""

from __future__ import annotations

import numpy as np

from ..ir import DOMAIN, Graph, Operator, Value

TAKEN_WHERE_TRUE, TAKEN_WHERE_FALSE = 1, 2
"""The slots of Where after its condition."""

MASK = 3
"""The slot of the mask in ScaledDotProductAttention."""


def find_whole_operand(part: Graph, node: Operator) -> int:
    """Return the slot of the operand that a Where always returns whole; 0 if there is none."""
    if node.op_type != "Where" or node.domain:
        return 0
    condition = _everywhere(part, part.operands(node.key)[0])
    if condition is None:
        return 0
    slot = TAKEN_WHERE_TRUE if condition else TAKEN_WHERE_FALSE
    taken, whole = part.operands(node.key)[slot], node.types[0]
    if taken is None or whole is None or whole.shape is None or None in whole.shape:
        return 0
    return slot if part.type_of(taken) == whole else 0


def hides_nothing(part: Graph, node: Operator) -> bool:
    """Whether an attention's boolean mask is true everywhere."""
    if node.qualified_name != f"{DOMAIN}.ScaledDotProductAttention":
        return False
    operands = part.operands(node.key)
    return len(operands) > MASK and _everywhere(part, operands[MASK]) is True


def _everywhere(part: Graph, value: Value | None) -> bool | None:
    """Return the truth value of all elements of a constant, also behind moves; None for any other."""
    while value is not None and isinstance(producer := part.producer(value), Operator):
        first, *others = part.operands(producer.key)
        if not producer.traits.moving or (producer.op_type == "Concat" and others):
            return None
        value = first
    found = part.constant_value(value)
    if found is None or found.dtype != np.bool_ or not found.size or found.any() != found.all():
        return None
    return bool(found.all())
