"""The operators that source text of TorchScript may call: torch's on tensors, and those on plain values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir import UnsupportedError
from ..saved.operators import writes_files
from .grown_lists import of_lists
from .memory import MEMORY, writes
from .numbers import (
    DataNumber,
    NumberTensor,
    computed,
    number_of_data,
    of_data,
    out_of_tensors,
    tensors_of_numbers,
    with_numbers_of_data,
)
from .packed import of_packed

if TYPE_CHECKING:
    import torch

_TYPES = """
uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool
qint8 quint8 qint32 bfloat16
"""
_NAMES_OF_TYPES = _TYPES.split()
"""The element types in the order of the numbers that TorchScript has for them."""
_NUMBERS_OF_TYPES = {f"torch.{name}": number for number, name in enumerate(_NAMES_OF_TYPES)}

_LOGIC = frozenset(
    f"__{start}{name}__" for name in ("and", "or", "xor", "lshift", "rshift") for start in ("", "i")
)
"""Operators of tensors under the names of Python's methods."""
_AT_PLACES = frozenset({"__getitem__", "select", "slice", "pop", "insert", "mul"})
"""Operators on lists whose further operands are places or counts."""
_WITHOUT_BOUNDS = frozenset({"factorial"})
"""Operators on numbers of torch's that may take any time."""
_LONGEST = 1 << 20
"""Elements of a list, and letters of a text, that a program may make by repetition."""


class RaisedError(Exception):
    """The program raises: ``raise`` of its author's code."""


def call_operator(namespace: str, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Return the value of an operator.

    Args:
        namespace: ``aten`` (written ``torch`` in source text), ``prim``, or a library's.
        name: its name, without an overload.
        arguments: by position.
        keywords: by name.

    Raises:
        RaisedError: where the program raises.
        UnsupportedError: for an operator that is not torch's, or that touches files.
    """
    if namespace in ("aten", "prim"):
        if name == "select" and len(arguments) == 3 and isinstance(arguments[2], DataNumber):
            return MEMORY.select(*arguments)
        found = of_lists(name, arguments, keywords, call_operator)
        if found is not NotImplemented:
            return found
        found = of_packed(name, arguments)
        if found is not NotImplemented:
            return found
        found = of_data(name, arguments)
        if found is not NotImplemented:
            return found
        always = (_ALWAYS if namespace == "aten" else _PRIMITIVES).get(name)
        if always is not None:
            return always(*arguments, **keywords)
        found = computed(name, arguments, keywords)
        if found is not NotImplemented:
            return found
        if name == "_convolution":
            return _convolution(*arguments)
        plain = _ON_VALUES.get(name)
        of_values = bool(arguments) and isinstance(arguments[0], (list, tuple, dict, str))
        if plain is not None and (of_values or not any(map(_holds_tensor, arguments))):
            if of_values and name in _AT_PLACES and any(map(_holds_data, arguments[1:])):
                return _at_place_of_data(name, *arguments)
            return _within_bounds(plain(*arguments, **keywords))
        if name in _WITHOUT_BOUNDS or (arguments and isinstance(arguments[0], str)):
            raise _unknown(namespace, name)
    found = _on_tensors(_dispatched(namespace, name), arguments, keywords)
    if writes(name) and arguments and _holds_tensor(arguments[0]):
        MEMORY.wrote(_tensor(arguments[0]))
    return found


def _on_tensors(called: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    given = (
        list(map(tensors_of_numbers, with_numbers_of_data(arguments))),
        {k: tensors_of_numbers(v) for k, v in keywords.items()},
    )
    MEMORY.read(_tensors_in([*given[0], *given[1].values()]))
    try:
        return called(*given[0], **given[1])
    except (RuntimeError, TypeError):
        if not any(map(_holds_data, [*arguments, *keywords.values()])):
            raise
    arguments, keywords = (
        list(map(out_of_tensors, arguments)),
        {k: out_of_tensors(v) for k, v in keywords.items()},
    )
    return called(
        *map(tensors_of_numbers, arguments), **{k: tensors_of_numbers(v) for k, v in keywords.items()}
    )


def _tensors_in(values: list[Any]) -> list[torch.Tensor]:
    import torch

    found = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _tensors_in(list(value))
        elif isinstance(value, torch.Tensor):
            found.append(value)
    return found


def _at_place_of_data(name: str, items: Any, *places: Any) -> Any:
    """Return the item of a list at a place that a tensor holds, or what an operator does at such places."""
    import torch

    alike = isinstance(items, list) and all(isinstance(item, torch.Tensor) for item in items)
    kinds = [(item.dtype, tuple(item.shape)) for item in items] if alike else []
    if name != "slice" and kinds and all(kind == kinds[0] for kind in kinds):
        return MEMORY.select(torch.stack(items), 0, places[0])
    return _ON_VALUES[name](items, *map(out_of_tensors, places))


def _convolution(
    tensor: Any,
    weight: Any,
    bias: Any,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    *_: Any,
) -> Any:
    """Compute the operator that a trace records of every convolution by that of the layer."""
    import torch

    settings = (stride, padding, output_padding, groups, dilation)
    functions: Any = torch.ops.aten
    dimensions = len(stride)
    if transposed:
        names = {1: functions.conv_transpose1d, 2: functions.conv_transpose2d, 3: functions.conv_transpose3d}
        return names[dimensions](tensor, weight, bias, *settings)
    names = {1: functions.conv1d, 2: functions.conv2d, 3: functions.conv3d}
    return names[dimensions](tensor, weight, bias, stride, padding, dilation, groups)


def _dispatched(namespace: str, name: str) -> Any:
    import torch

    is_special = name.startswith("__") and name not in _LOGIC
    known = namespace in ("aten", "torchvision") and not writes_files(name) and not is_special
    packet = getattr(getattr(torch.ops, namespace), name, None) if known else None
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        raise _unknown(namespace, name)
    return packet


def _unknown(namespace: str, name: str) -> UnsupportedError:
    return UnsupportedError(
        "E203",
        f"the program calls `{namespace}::{name}`, which is no operator of torch on tensors",
        hint="export the module that was scripted: name it as file.py:Net",
    )


def _within_bounds(value: Any) -> Any:
    """Return what an operator on plain values gives, unless it grows without bounds."""
    if isinstance(value, int) and value.bit_length() > 64:
        raise RaisedError("a number beyond 64 bits")
    if isinstance(value, (str, list)) and len(value) > _LONGEST:
        raise RaisedError(f"a list of {len(value):,} elements")
    return value


def _holds_tensor(value: Any) -> bool:
    import torch

    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    return isinstance(value, (torch.Tensor, NumberTensor, DataNumber))


def _holds_data(value: Any) -> bool:
    return any(map(_holds_data, value)) if isinstance(value, list) else isinstance(value, DataNumber)


def _element_type(number: int | None) -> torch.dtype | None:
    """Return the element type of TorchScript's number."""
    import torch

    return None if number is None else getattr(torch, _NAMES_OF_TYPES[number])


def _number_of_type(tensor: torch.Tensor) -> int:
    return _NUMBERS_OF_TYPES[str(_tensor(tensor).dtype)]


def _tensor(value: Any) -> Any:
    return tensors_of_numbers(value)


def _raise(message: object = "", kind: object = None) -> None:
    del kind
    raise RaisedError(str(message))


def _size(tensor: Any, axis: int | None = None) -> Any:
    shape = _tensor(tensor).shape
    return list(shape) if axis is None else shape[axis]


def _length(value: Any) -> int:
    return (
        _tensor(value).shape[0]
        if _holds_tensor(value) and not isinstance(value, (list, tuple))
        else len(value)
    )


def _format(text: str, *values: object) -> str:
    """Return a text with its ``{}`` filled, which format no attributes."""
    parts = text.split("{}")
    shown = [str(value)[:200] for value in values]
    return "".join(part + (shown[at] if at < len(shown) else "") for at, part in enumerate(parts))


def _is(a: Any, b: Any) -> bool:
    return a is b


def _repeated(a: Any, b: Any) -> Any:
    for items, times in ((a, b), (b, a)):
        if isinstance(items, (list, str)) and len(items) * times > _LONGEST:
            raise RaisedError(f"a list of {len(items) * times:,} elements")
    return a * b


def _repeated_in_place(items: list[Any], times: int) -> list[Any]:
    items[:] = _repeated(items, times)
    return items


def _power(a: Any, b: Any) -> Any:
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return a**b  # of sizes
    return _by_ieee(np.power)(a, b)


def _round(value: Any) -> Any:
    return float(round(value)) if isinstance(value, (int, float)) else value


def _by_ieee(function: Callable[..., Any]) -> Callable[..., float]:
    """Return a function of numbers that is infinite or NaN where Python's raises."""

    def compute(*values: Any) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, values)))

    return compute


def _log(value: Any, base: Any = None) -> float:
    log = _by_ieee(np.log)
    return log(value) if base is None else _by_ieee(np.divide)(log(value), log(base))


def _joined_text(text: str, parts: list[str]) -> str:
    if len(text) * len(parts) + sum(map(len, parts)) > _LONGEST:
        raise RaisedError("a long text")
    return text.join(parts)


def _replaced(text: str, old: str, new: str, most: int = -1) -> str:
    if text.count(old) * len(new) > _LONGEST:
        raise RaisedError("a long text")
    return text.replace(old, new, most)


def _slice(items: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return items[start:end:step]


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _insert(items: list[Any], at: int, item: Any) -> None:
    if len(items) > 1 << 14:  # all items behind it move
        raise RaisedError("a list without an end")
    items.insert(at, item)


def _extend(items: list[Any], more: list[Any]) -> None:
    if len(items) + len(more) > _LONGEST:
        raise RaisedError("a list without an end")
    items.extend(more)


def _set_item(items: Any, key: Any, value: Any) -> Any:
    items[key] = value
    return items


def _tensor_of(
    value: Any, *, dtype: int | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    import torch

    del device
    if _holds_data(value):
        found = _joined(value)
        kind = torch.get_default_dtype() if found.is_floating_point() else found.dtype
        found = found.to(kind if dtype is None else _element_type(dtype))
    else:
        found = torch.tensor(value, dtype=_element_type(dtype))
    return found.requires_grad_() if requires_grad else found


def _joined(value: Any) -> Any:
    """Return a tensor of numbers, of which tensors hold some, in lists within lists."""
    import torch

    if not isinstance(value, (list, tuple)):
        return value.tensor if isinstance(value, DataNumber) else torch.tensor(value)
    parts = [_joined(item) for item in value]
    return torch.stack([part.to(torch.float64) if part.is_floating_point() else part for part in parts])


def _as_tensor(value: Any, *, dtype: int | None = None, device: Any = None) -> Any:
    if not _holds_tensor(value):
        return _tensor_of(value, dtype=dtype, device=device)
    return _tensor(value) if dtype is None else _tensor(value).to(_element_type(dtype))


def holds_number(value: Any) -> bool:
    """Whether a value is a tensor, or a number that stands for one."""
    import torch

    return isinstance(value, (torch.Tensor, NumberTensor))


def to_number(value: Any, kind: type) -> Any:
    """Return ``int(value)``, ``float(value)`` or ``bool(value)``, symbolic where the value is."""
    import torch

    if isinstance(value, NumberTensor):
        value = value.value
    found = number_of_data(value, kind)
    if found is not None:
        return found
    if isinstance(value, torch.Tensor):
        value = value.item() if kind is not bool else value
    if kind is int and isinstance(value, (torch.SymInt, torch.SymFloat)):
        return torch.sym_int(value)
    if kind is float and isinstance(value, (torch.SymInt, torch.SymFloat)):
        return torch.sym_float(value)
    return kind(value)


def _item(value: Any) -> Any:
    """Return the number that a tensor holds."""
    import torch

    if isinstance(value, NumberTensor):
        return value.value
    if isinstance(value, DataNumber):
        return value
    kind = bool if value.dtype == torch.bool else float if value.is_floating_point() else int
    found = number_of_data(value, kind)
    return value.item() if found is None else found


def _root(value: Any) -> Any:
    import torch

    return (
        torch.sym_float(value) ** 0.5
        if isinstance(value, (torch.SymInt, torch.SymFloat))
        else _by_ieee(np.sqrt)(value)
    )


def _attribute(name: str) -> Callable[[Any], Any]:
    return lambda tensor: getattr(_tensor(tensor), name)


def _nothing(*_: Any, **__: Any) -> None:
    """Stand for what computes nothing: warnings and hints."""


_PRIMITIVES: dict[str, Callable[..., Any]] = {
    "NumToTensor": lambda value: value if isinstance(value, DataNumber) else NumberTensor.of(value),
    "RaiseException": _raise,
    "dtype": _number_of_type,
    "device": _attribute("device"),
    "layout": lambda _: 0,
    "is_cuda": lambda _: False,
    "is_nested": lambda _: False,
    "is_sparse": lambda _: False,
    "is_quantized": lambda _: False,
    "is_meta": lambda _: False,
    "is_mps": lambda _: False,
    "is_mkldnn": lambda _: False,
    "is_xla": lambda _: False,
    "requires_grad": lambda _: True,
    "data": lambda tensor: _tensor(tensor).detach(),
    "shape": lambda tensor: list(_tensor(tensor).shape),
    "type": lambda device: device.type,
    "index": lambda device: device.index,
    "TupleIndex": operator.getitem,
    "unchecked_unwrap_optional": lambda value: value,
    "_unwrap_optional": lambda value: value,
    "IsTrue": lambda value: to_number(value, bool),
    "name": lambda member: member.name,
    "value": lambda member: member.value,
}
"""Operators of ``prim``: facts of tensors, and what stands for syntax."""

_ALWAYS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "len": _length,
    "dim": _attribute("ndim"),
    "is_floating_point": lambda tensor: _tensor(tensor).is_floating_point(),
    "is_complex": lambda tensor: _tensor(tensor).is_complex(),
    "numel": lambda tensor: _tensor(tensor).numel(),
    "stride": lambda tensor, *axis: _strides(_tensor(tensor), *axis),
    "is_contiguous": lambda tensor, *_: _tensor(tensor).is_contiguous(),
    "__is__": _is,
    "__isnot__": lambda a, b: a is not b,
    "__not__": operator.not_,
    "Int": lambda value: to_number(value, int),
    "IntImplicit": lambda value: to_number(value, int),
    "Float": lambda value: to_number(value, float),
    "FloatImplicit": lambda value: to_number(value, float),
    "ScalarImplicit": lambda value: _item(value),
    "item": lambda value: _item(value),
    "Bool": lambda value: to_number(value, bool),
    "tensor": _tensor_of,
    "as_tensor": _as_tensor,
    "is_grad_enabled": lambda: True,
    "is_autocast_enabled": lambda *_: False,
    "is_autocast_cpu_enabled": lambda *_: False,
    "is_scripting": lambda: True,
    "is_tracing": lambda: False,
    "warn": _nothing,
    "manual_seed": _nothing,
    "set_grad_enabled": _nothing,
    "_set_item": _set_item,
    "device_of": _attribute("device"),
    "append": _append,
    "extend": _extend,
    "format": _format,
    "get_device": lambda _: -1,
}
"""Operators whose value is no tensor, or whose operands may be tensors and anything else.

Gradients are said to be wanted: else torch's layers take kernels that compute a whole layer at once.
"""


def _strides(tensor: torch.Tensor, axis: int | None = None) -> Any:
    return list(tensor.stride()) if axis is None else tensor.stride(axis)


_ON_VALUES: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "add_": operator.iadd,
    "sub": operator.sub,
    "mul": _repeated,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "fmod": math.fmod,
    "pow": _power,
    "neg": operator.neg,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": lambda a, b: a << min(b, 64),
    "__rshift__": operator.rshift,
    "abs": abs,
    "min": min,
    "max": max,
    "round": _round,
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "sqrt": _root,
    "exp": _by_ieee(np.exp),
    "log": _log,
    "log2": _by_ieee(np.log2),
    "log10": _by_ieee(np.log10),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "atan": math.atan,
    "atan2": math.atan2,
    "tanh": math.tanh,
    "gcd": math.gcd,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "sum": sum,
    "any": any,
    "all": all,
    "slice": _slice,
    "select": operator.getitem,
    "__getitem__": operator.getitem,
    "__contains__": operator.contains,
    "__range_length": lambda start, end, step: len(range(start, end, step)),
    "list": lambda items: list(items) if len(items) <= _LONGEST else _raise("a long list"),
    "copy": lambda value: value.copy(),
    "dict": dict,
    "keys": lambda table: list(table.keys()),
    "values": lambda table: list(table.values()),
    "items": lambda table: list(table.items()),
    "get": lambda table, key, other=None: table.get(key, other),
    "insert": _insert,
    "pop": lambda items, at=-1: items.pop(at),
    "reverse": lambda items: items.reverse(),
    "sort": lambda items, reverse=False: items.sort(reverse=reverse),
    "sorted": sorted,
    "count": lambda items, item, *at: items.count(item, *at),
    "clear": lambda items: items.clear(),
    "Delete": operator.delitem,
    "remove": lambda items, item: items.remove(item),
    "index": lambda items, item, *at: items.index(item, *at),
    "update": lambda table, other: table.update(other),
    "setdefault": lambda table, key, other: table.setdefault(key, other),
    "popitem": lambda table: table.popitem(),
    "mul_": _repeated_in_place,
    "str": str,
    "lower": lambda text: text.lower(),
    "upper": lambda text: text.upper(),
    "strip": lambda text, letters=None: text.strip(letters),
    "split": lambda text, mark=None, most=-1: text.split(mark, most),
    "join": _joined_text,
    "startswith": lambda text, part, *at: text.startswith(part, *at),
    "endswith": lambda text, part, *at: text.endswith(part, *at),
    "find": lambda text, part, *at: text.find(part, *at),
    "replace": _replaced,
    "rfind": lambda text, part, *at: text.rfind(part, *at),
    "lstrip": lambda text, letters=None: text.lstrip(letters),
    "rstrip": lambda text, letters=None: text.rstrip(letters),
    "isdigit": lambda text: text.isdigit(),
    "isalpha": lambda text: text.isalpha(),
    "capitalize": lambda text: text.capitalize(),
    "title": lambda text: text.title(),
    "percentFormat": lambda text, *values: _format(text.replace("%s", "{}").replace("%d", "{}"), *values),
    "unbind": list,
}
"""Operators on numbers, texts, lists and dictionaries; with a tensor among the operands they are torch's."""
