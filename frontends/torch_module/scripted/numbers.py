"""Sizes that a trace wraps into tensors of one number, which stay sizes here."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
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


@dataclass(frozen=True, slots=True)
class DataNumber:
    """A number or truth value that a tensor holds while a model is traced.

    Attributes:
        tensor: has no axes.
        kind: bool, int or float.
    """

    tensor: Any
    kind: type

    def __bool__(self) -> bool:
        return bool(self.tensor)  # where no two ways can be run, torch takes that of the examples


@dataclass(frozen=True, slots=True)
class DataRange:
    """A range of which a tensor holds a bound while a model is traced.

    Attributes:
        start: the first number.
        stop: the number that is not reached.
        step: between two numbers.
    """

    start: Any
    stop: Any
    step: Any

    @staticmethod
    def of(bounds: list[Any]) -> DataRange | None:
        """Return a range with these bounds; None if all of them are known."""
        import torch
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        symbolic = [isinstance(b, torch.SymInt) and bool(free_unbacked_symbols(b)) for b in bounds]
        if not any(symbolic):
            return None
        found = [
            DataNumber(torch.scalar_tensor(b, dtype=torch.int64), int) if is_data else b
            for b, is_data in zip(bounds, symbolic, strict=True)
        ]
        start, stop = found[:2] if len(found) > 1 else (0, found[0])
        return DataRange(start, stop, found[2] if len(found) > 2 else 1)


class Uninitialized:
    """A value that TorchScript states for a name which nothing reads."""


def number_of_data(value: Any, kind: type) -> DataNumber | None:
    """Return ``bool(value)``, ``float(value)`` or ``int(value)`` of a number that a tensor holds.

    None for all others, and for the whole number that a tensor of whole numbers holds: it may be a size.
    """
    import torch
    from torch._subclasses.fake_tensor import is_fake

    tensor = value.tensor if isinstance(value, DataNumber) else value
    if not isinstance(tensor, torch.Tensor) or not is_fake(tensor):
        return None
    if any(not isinstance(size, int) or size != 1 for size in tensor.shape):
        return None
    if kind is int and not isinstance(value, DataNumber):
        return None
    wanted = {bool: torch.bool, int: torch.int64, float: torch.float64}[kind]
    tensor = tensor.reshape(()) if tensor.dim() else tensor
    return DataNumber(tensor if tensor.dtype == wanted else tensor.to(wanted), kind)


def selected_by_data(tensor: Any, axis: int, number: DataNumber) -> Any:
    """Return the item of a tensor whose place a tensor holds; a negative place counts from the end."""
    place = number.tensor.reshape(1)
    place = place.where(place >= 0, place + tensor.shape[axis])
    return tensor.index_select(axis, place).squeeze(axis)


def of_data(name: str, arguments: list[Any], call: Callable[..., Any]) -> Any:
    """Return what an operator makes of numbers of which a tensor holds one; NotImplemented for all others."""
    import torch

    numbers = (DataNumber, bool, int, float, torch.SymInt)
    if not any(isinstance(a, DataNumber) for a in arguments) or not all(
        isinstance(a, numbers) for a in arguments
    ):
        return NotImplemented
    kinds = [a.kind if isinstance(a, DataNumber) else type(a) for a in arguments]
    if name == "__not__":
        return DataNumber(torch.logical_not(arguments[0].tensor), bool)
    logic = {"__and__": torch.logical_and, "__or__": torch.logical_or}.get(name)
    if logic is not None and set(kinds) == {bool}:
        return DataNumber(logic(*(_tensor_of(a, torch.bool) for a in arguments)), bool)
    wide = torch.float64 if float in kinds else torch.int64
    if name in ("max", "min"):
        both = (_tensor_of(a, wide) for a in arguments)
        return DataNumber(
            (torch.maximum if name == "max" else torch.minimum)(*both), max(kinds, key=_KINDS.index)
        )
    if name not in _OF_DATA:
        return NotImplemented
    if float in kinds or name == "div":  # Python's numbers have the precision of float64
        found = call(*(_tensor_of(a, torch.float64) for a in arguments))
    else:
        found = call(*(a.tensor if isinstance(a, DataNumber) else a for a in arguments))
    if name in _COMPARISONS:
        return DataNumber(found, bool)
    return DataNumber(found, float if float in kinds or name == "div" else int)


def _tensor_of(value: Any, dtype: Any) -> Any:
    import torch

    if isinstance(value, DataNumber):
        return value.tensor if value.tensor.dtype == dtype else value.tensor.to(dtype)
    return torch.scalar_tensor(value, dtype=dtype)


def out_of_tensors(value: Any) -> Any:
    """Return a value with the numbers that tensors hold taken out of them, as sizes and places must be."""
    if isinstance(value, DataNumber):
        return value.tensor.item()
    if isinstance(value, list):
        return [out_of_tensors(item) for item in value]
    return value


_KINDS = [bool, int, float]
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_OF_DATA = _COMPARISONS | {"add", "sub", "mul", "neg", "div"}
"""Operators on numbers that are those on tensors of no axes."""


def tensors_of_numbers(value: Any) -> Any:
    """Return a value with tensors in the place of sizes that were wrapped, and of numbers of data."""
    import torch

    if isinstance(value, DataNumber):
        return value.tensor
    if isinstance(value, NumberTensor):
        kind = torch.int64 if is_whole(value.value) else torch.float32
        return torch.scalar_tensor(value.value, dtype=kind)
    if isinstance(value, list) and any(isinstance(item, (NumberTensor, DataNumber)) for item in value):
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
