"""Sizes that a trace wraps into tensors of one number, which stay sizes here."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class NumberTensor:
    """A tensor of no axes that a size was made: a trace computes with sizes as tensors, and takes them out.

    Attributes:
        value: the number, which may be symbolic.
    """

    value: Any

    @staticmethod
    def of(value: Any) -> NumberTensor:
        """Return ``prim::NumToTensor(value)``: a number that is not whole has the precision of float32."""
        return NumberTensor(float(np.float32(value)) if isinstance(value, float) else value)


def tensors_of_numbers(value: Any) -> Any:
    """Return a value with tensors in the place of sizes that were wrapped."""
    import torch

    if isinstance(value, NumberTensor):
        kind = torch.int64 if is_whole(value.value) else torch.float32
        return torch.scalar_tensor(value.value, dtype=kind)
    if isinstance(value, list) and any(isinstance(item, NumberTensor) for item in value):
        return [tensors_of_numbers(item) for item in value]
    return value


def computed(name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Return what an operator makes of wrapped sizes and numbers alone; NotImplemented for all others.

    Whole numbers stay exact: the operators here are those of tensors of int64 on values that fit.
    """
    if not any(isinstance(value, NumberTensor) for value in arguments[:2]):
        return NotImplemented
    if name in _UNARY and len(arguments) == 1 and not keywords:
        return NumberTensor.of(_UNARY[name](arguments[0].value))
    if name == "to" and len(arguments) > 1 and arguments[1] in _CASTS:
        return NumberTensor.of(_CASTS[arguments[1]](arguments[0].value))
    operands = [_number(value) for value in arguments[:2]]
    if len(operands) < 2 or None in operands:
        return NotImplemented
    a, b = operands
    rest = [*arguments[2:], *(v for k, v in keywords.items() if k == "alpha")]
    if name in _BINARY and all(value == 1 for value in rest) and set(keywords) <= {"alpha"}:
        return NumberTensor.of(_BINARY[name](a, b))
    if name not in ("div", "floor_divide"):
        return NotImplemented
    rounding = keywords.get("rounding_mode") or (arguments[2] if len(arguments) > 2 else None)
    if name == "floor_divide" or rounding == "floor":
        return NumberTensor.of(a // b)
    if rounding == "trunc" and is_whole(a) and is_whole(b) and a >= 0 and b > 0:
        return NumberTensor.of(a // b)
    return NotImplemented if rounding is not None else NumberTensor.of(a / b)


def is_whole(value: Any) -> bool:
    """Whether a number is whole, or symbolic and whole."""
    import torch

    return isinstance(value, (int, torch.SymInt))


_UNARY = {
    "neg": operator.neg,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "detach": lambda value: value,
    "clone": lambda value: value,
    "cpu": lambda value: value,
}
_BINARY = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "remainder": operator.mod}
_CASTS = {4: lambda value: value if is_whole(value) else math.trunc(value), 6: lambda value: value * 1.0}
"""TorchScript's number of an element type (int64, float32) -> the conversion of a number."""


def _number(value: Any) -> Any:
    """Return the number of an operand, or None where it is no single known one."""
    import torch

    if isinstance(value, NumberTensor):
        return value.value
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
        return value
    if type(value) is torch.Tensor and value.dim() == 0:  # a constant of the archive
        return value.item()
    return None
