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


@dataclass(frozen=True, slots=True)
class DataNumber:
    """A number or truth value that a tensor holds while a model is traced.

    Attributes:
        tensor: has no axes.
        kind: bool, int or float.
        asked: the relation of sizes by data that it is, as torch has it; None for all others.
    """

    tensor: Any
    kind: type
    asked: Any = None

    def __bool__(self) -> bool:
        # where no two ways can be run, torch takes that of the examples
        return bool(self.tensor if self.asked is None else self.asked)


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
        found = [_number_in_data(bound) for bound in bounds]
        if not any(isinstance(bound, DataNumber) for bound in found):
            return None
        start, stop = found[:2] if len(found) > 1 else (0, found[0])
        return DataRange(start, stop, found[2] if len(found) > 2 else 1)


def _number_in_data(value: Any) -> Any:
    """Return a symbolic number that came out of a tensor as the number of one; all else as it is."""
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if not isinstance(value, torch.SymInt) or not free_unbacked_symbols(value):
        return value
    number: Any = value
    return DataNumber(torch.scalar_tensor(number, dtype=torch.int64), int)


class Uninitialized:
    """A value that TorchScript states for a name which nothing reads."""


def number_of_data(value: Any, kind: type) -> DataNumber | None:
    """Return ``bool(value)``, ``float(value)`` or ``int(value)`` of what a tensor holds, or None."""
    import torch
    from torch._subclasses.fake_tensor import is_fake

    if isinstance(value, DataNumber) and value.kind is kind:
        return value
    tensor = value.tensor if isinstance(value, DataNumber) else value
    if not isinstance(tensor, torch.Tensor) or not is_fake(tensor):
        return None
    if any(not isinstance(size, int) or size != 1 for size in tensor.shape):
        return None
    wanted = {bool: torch.bool, int: torch.int64, float: torch.float64}[kind]
    tensor = tensor.reshape(()) if tensor.dim() else tensor
    return DataNumber(tensor if tensor.dtype == wanted else tensor.to(wanted), kind)


def of_data(name: str, arguments: list[Any]) -> Any:
    """Return what an operator makes of numbers of which a tensor holds one; NotImplemented for all others."""
    import torch

    if name in _COMPARISONS:
        arguments, asked = _compared_sizes(name, arguments)
        if isinstance(asked, bool):
            return asked
    else:
        asked = None
    numbers = (DataNumber, bool, int, float, torch.SymInt)
    if not any(isinstance(a, DataNumber) for a in arguments) or not all(
        isinstance(a, numbers) for a in arguments
    ):
        return NotImplemented
    kinds = [_kind_of(a) for a in arguments]
    logic = {"__and__": "logical_and", "__or__": "logical_or", "__xor__": "logical_xor"}.get(name)
    if logic is not None and set(kinds) == {bool}:
        return DataNumber(getattr(torch, logic)(*(_tensor_of(a, torch.bool) for a in arguments)), bool)
    known = _OF_DATA.get(name)
    if known is None:
        return NotImplemented
    function, kind = known
    widest = max(*kinds, int, key=_KINDS.index)
    wide = float if kind is float or widest is float else int
    dtypes = {bool: torch.bool, int: torch.int64, float: torch.float64}
    found = getattr(torch, function)(*(_tensor_of(a, dtypes[wide]) for a in arguments))
    kind = kind or widest
    return DataNumber(found if found.dtype == dtypes[kind] else found.to(dtypes[kind]), kind, asked)


def _compared_sizes(name: str, arguments: list[Any]) -> tuple[list[Any], Any]:
    """Return operands of a comparison, sizes by data as numbers of tensors, and what torch says of them."""
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    found = [_number_in_data(value) for value in arguments]
    if all(map(operator.is_, found, arguments)) or any(isinstance(a, DataNumber) for a in arguments):
        return found, None
    asked = getattr(operator, name)(*arguments)
    if not isinstance(asked, torch.SymBool):
        return found, asked
    if statically_known_true(asked):
        return found, True
    return found, False if statically_known_true(torch.sym_not(asked)) else asked


def _kind_of(value: Any) -> type:
    if isinstance(value, DataNumber):
        return value.kind
    return next((kind for kind in _KINDS if isinstance(value, kind)), int)  # a symbolic size is whole


def _tensor_of(value: Any, dtype: Any) -> Any:
    import torch

    if isinstance(value, DataNumber):
        return value.tensor if value.tensor.dtype == dtype else value.tensor.to(dtype)
    return torch.scalar_tensor(value, dtype=dtype)


def with_numbers_of_data(arguments: list[Any]) -> list[Any]:
    """Return operands of an operator on tensors, with tensors in the place of the numbers that these hold.

    A number widens no element type within its kind, as a tensor of no axes does beside one of no axes.
    """
    import torch

    beside = [a for a in arguments if isinstance(a, torch.Tensor)]
    if not beside or beside[0].dim():
        return arguments
    return [
        _tensor_of(a, torch.result_type(beside[0], a.kind(1))) if isinstance(a, DataNumber) else a
        for a in arguments
    ]


def out_of_tensors(value: Any) -> Any:
    """Return a value with the numbers that tensors hold taken out of them, as sizes and places must be."""
    if isinstance(value, DataNumber):
        return value.tensor.item()
    if isinstance(value, list):
        return [out_of_tensors(item) for item in value]
    return value


_KINDS = [bool, int, float]
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_OF_DATA: dict[str, tuple[str, type | None]] = {
    **{name: (name, bool) for name in _COMPARISONS},
    **{name: (name, float) for name in ("pow", "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan")},
    **{name: (name, float) for name in ("atan", "tanh", "round")},
    **{name: (name, int) for name in ("floor", "ceil", "trunc")},
    "__not__": ("logical_not", bool),
    "add": ("add", None),
    "sub": ("sub", None),
    "mul": ("mul", None),
    "neg": ("neg", None),
    "abs": ("abs", None),
    "max": ("maximum", None),
    "min": ("minimum", None),
    "div": ("div", float),
    "floordiv": ("floor_divide", None),
    "remainder": ("remainder", None),
}
"""Operator on numbers -> torch's on tensors of no axes, and the kind of its result; None for the widest."""


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
