"""Lowerings of operators that make tensors or change their element type."""

from __future__ import annotations

import numpy as np

from ....ir import Value, numpy_dtype
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


@TABLE.op(
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.to.other",
    "aten._to_copy.default",
    "aten.type_as.default",
)
def to(call: Call) -> Value:
    """Return a cast; devices, layouts and copies are not part of a graph."""
    call.ignore("dtype", "layout", "device", "pin_memory", "non_blocking", "copy", "memory_format", "other")
    given = call.arg("self")
    if isinstance(given, (bool, int, float)):  # a number among tensors in a region of vmap
        return call.constant(given, call.dtype)
    value = call.value("self")
    if call.dtype_of(value).startswith("float8"):  # stored numbers, which stay as they are in a file
        value = call.op("DequantizeLinear", value, call.constant(1.0, "float32"))
    return call.cast(value, call.dtype)


def _filled(call: Call, value: object) -> Value:
    call.ignore("size", "self", "dtype", "layout", "device", "pin_memory", "memory_format", "names")
    call.ignore("stride", "physical_layout")
    number = value if isinstance(value, Value) else call.constant(value, call.dtype)
    shape = call.result_shape
    if not shape:
        return number
    like = call.arg("self") if "self" in call and "size" not in call else None
    wanted = call.result_shape_like(like) if isinstance(like, Value) else call.shape_value(shape)
    return call.op("Expand", number, wanted)


@TABLE.op("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default")
def zeros(call: Call) -> Value:
    """Zeros."""
    return _filled(call, 0)


@TABLE.op("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(call: Call) -> Value:
    """Ones."""
    return _filled(call, 1)


@TABLE.op("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(call: Call) -> Value:
    """Return a number everywhere."""
    return _filled(call, call.operand("fill_value", call.dtype))


@TABLE.op(
    *("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default"),
    *("aten.empty_permuted.default", "aten.empty_strided.default", "aten.new_empty_strided.default"),
)
def empty(call: Call) -> Value:
    """Return zeros for an uninitialised tensor."""
    return _filled(call, 0)


@TABLE.op("aten.scalar_tensor.default")
def scalar_tensor(call: Call) -> Value:
    """Return a number as a tensor."""
    call.ignore("dtype", "layout", "device", "pin_memory")
    return call.operand("s", call.dtype)


@TABLE.op("aten.fill.Scalar", "aten.fill.Tensor")
def fill(call: Call) -> Value:
    """Return a number in place of every element."""
    return _filled(call, call.operand("value", call.dtype))


@TABLE.op("aten.zero.default")
def zero(call: Call) -> Value:
    """Zero in place of every element."""
    return _filled(call, 0)


@TABLE.op("aten.copy.default")
def copy(call: Call) -> Value:
    """Another tensor's values in place of these."""
    call.ignore("non_blocking")
    source, of = call.cast(call.value("src"), call.dtype), call.value("self")
    if call.shape("src") == call.result_shape:
        return source
    return call.op("Expand", source, call.result_shape_like(of))


@TABLE.op("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(call: Call) -> Value:
    """Evenly spaced numbers: a constant where the bounds are static."""
    call.ignore("dtype", "layout", "device", "pin_memory")
    start = call.arg("start") if "start" in call else 0
    step, end = call.arg("step") if "step" in call else 1, call.arg("end")
    if all(isinstance(v, (int, float)) for v in (start, end, step)):
        import torch

        values = torch.arange(start, end, step, dtype=call.fake.dtype)
        return call.constant(values.numpy().astype(numpy_dtype(call.dtype)))
    if not call.dtype.startswith("int"):
        numbers = [call.size_value(v) for v in (start, end, step)]
        return call.cast(call.op("Range", *numbers), call.dtype)
    bounds = [call.cast(call.size_value(v), call.dtype) for v in (start, end, step)]
    return call.op("Range", *bounds)


@TABLE.op("aten.tril.default", "aten.triu.default")
def tril(call: Call) -> Value:
    """Return the lower or upper triangle; ONNX has it for numbers and truth values alike."""
    diagonal = call.constant(call.int("diagonal"))
    return call.op("Trilu", call.value("self"), diagonal, upper="triu" in call.operator)


@TABLE.op("aten.eye.default", "aten.eye.m")
def eye(call: Call) -> Value:
    """Return ones on the diagonal: a constant where the size is static."""
    call.ignore("n", "m", "dtype", "layout", "device", "pin_memory")
    rows, columns = call.result_shape
    if isinstance(rows, int) and isinstance(columns, int):
        return call.constant(np.eye(rows, columns, dtype=numpy_dtype(call.dtype)))
    down, across = (call.op("Range", *map(call.size_value, (0, n, 1))) for n in (rows, columns))
    return call.cast(call.op("Equal", call.op("Unsqueeze", down, call.constant([1])), across), call.dtype)


@TABLE.op("aten.linspace.default")
def linspace(call: Call) -> Value:
    """Evenly spaced numbers between two bounds, as torch rounds them."""
    import torch

    call.ignore("dtype", "layout", "device", "pin_memory")
    values = torch.linspace(call.float("start"), call.float("end"), call.int("steps"), dtype=call.fake.dtype)
    return call.constant(values.numpy())


_WINDOWS = {
    "bartlett_window": ("default", "periodic"),
    "blackman_window": ("default", "periodic"),
    "hamming_window": ("default", "periodic", "periodic_alpha", "periodic_alpha_beta"),
    "hann_window": ("default", "periodic"),
    "kaiser_window": ("default", "periodic", "beta"),
    "fft_fftfreq": ("default",),
    "fft_rfftfreq": ("default",),
    "range": ("default", "step"),
}
"""Operators that make a vector of numbers alone: name -> overloads."""
_NUMBERS = ("window_length", "periodic", "alpha", "beta", "start", "end", "step", "n", "d")


@TABLE.op(*(f"aten.{name}.{overload}" for name, overloads in _WINDOWS.items() for overload in overloads))
def window(call: Call) -> Value:
    """Return the numbers of a window, computed by torch itself."""
    import torch

    call.ignore("dtype", "layout", "device", "pin_memory")
    given = {name: call.arg(name) for name in _NUMBERS if name in call}
    if not all(isinstance(number, (bool, int, float)) for number in given.values()):
        raise call.unsupported(f"expected static numbers, got {given}")
    _, name, overload = call.operator.split(".")
    values = getattr(getattr(torch.ops.aten, name), overload)(**given, dtype=call.fake.dtype)
    return call.constant(values.numpy())
