"""Quantised operators of ONNX Runtime's own domain, which `quantize_static` writes as QOperator.

Each is read as it is defined: its operands made real, the operator on them, and the result quantised again;
products are of integers, as ONNX Runtime's are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import Value
from ...ir.table import Table
from .call import Call

Rule = Callable[[Call], list[Value] | Value]
QUANTISED = Table[Rule]()
"""Operator of ONNX Runtime's own domain -> what it becomes."""

_FLOAT = 1


def _real(call: Call, slot: int) -> Value:
    """Return a quantised operand as a float; its scale and zero point are the next two."""
    return real(call, call.value(slot), call.value(slot + 1), call.optional(slot + 2))


def real(call: Call, value: Value, scale: Value, zero: Value | None, **how: Any) -> Value:
    """Return a quantised value as a float.

    Args:
        call: the operator that reads it.
        value: the value.
        scale: the scale, of one element or for each place on an axis.
        zero: the zero point, likewise.
        how: that axis, ``axis``.
    """
    return call.op("DequantizeLinear", value, _single(call, scale), _single(call, zero), **how)


def _quantised(call: Call, value: Value, slot: int) -> Value:
    """Return a result in the scale in a slot and the zero point in the next; uint8 without one."""
    return call.op(
        "QuantizeLinear", value, _single(call, call.value(slot)), _single(call, call.optional(slot + 1))
    )


def _single(call: Call, value: Value | None) -> Value | None:
    """Return a scale or zero point of one element as a scalar."""
    known = None if value is None else call.graph.type_of(value)
    if value is None or known is None or known.shape != (1,):
        return value
    return call.op("Squeeze", value, call.ints([0]))


def _channels_second(call: Call, x: Value, *, are_last: bool) -> Value:
    """Return pictures with channels on axis 1, where they are last."""
    rank = len(call.graph.known_type(x).shape or ())
    return call.op("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]) if are_last else x


def _channels_last(call: Call, x: Value, *, are_last: bool) -> Value:
    """Return pictures with channels on the last axis again, where they were."""
    rank = len(call.graph.known_type(x).shape or ())
    return call.op("Transpose", x, perm=[0, *range(2, rank), 1]) if are_last else x


def _pooled(call: Call, operator: str, **how: Any) -> Value:
    """Return pools of a quantised picture, whose channels may be last."""
    are_last = bool(call.take("channels_last", 0))
    x = call.op(operator, _channels_second(call, _real(call, 0), are_last=are_last), **how)
    return _quantised(call, _channels_last(call, x, are_last=are_last), 3)


@QUANTISED.op("QLinearAdd", "QLinearMul")
def elementwise(call: Call) -> Value:
    """Return a sum or product of two."""
    operator = call.operator.removeprefix("QLinear")
    return _quantised(call, call.op(operator, _real(call, 0), _real(call, 3)), 6)


@QUANTISED.op("QLinearConv")
def convolution(call: Call) -> Value:
    """Return a convolution, of pictures whose channels may be last."""
    are_last = bool(call.take("channels_last", 0))
    x = _channels_second(call, call.value(0), are_last=are_last)
    found = call.op("QLinearConv", x, *call.operands[1:], **call.take_rest())
    return _channels_last(call, found, are_last=are_last)


@QUANTISED.op("QLinearSigmoid")
def sigmoid(call: Call) -> Value:
    """Return a sigmoid."""
    return _quantised(call, call.op("Sigmoid", _real(call, 0)), 3)


@QUANTISED.op("QLinearLeakyRelu")
def leaky_relu(call: Call) -> Value:
    """Return a leaky ReLU."""
    return _quantised(call, call.op("LeakyRelu", _real(call, 0), alpha=call.take("alpha", 0.01)), 3)


@QUANTISED.op("QLinearSoftmax")
def softmax(call: Call) -> Value:
    """Return a softmax along an axis; before opset 13 along that and all behind it."""
    axis, rank = call.take("axis", -1), call.rank()
    if call.take("opset") < 13 and axis % rank != rank - 1:
        raise call.unsupported("expected the last axis, as of opset 13")
    return _quantised(call, call.op("Softmax", _real(call, 0), axis=axis), 3)


@QUANTISED.op("QLinearGlobalAveragePool")
def global_average_pool(call: Call) -> Value:
    """Return the mean of each channel."""
    return _pooled(call, "GlobalAveragePool")


@QUANTISED.op("QLinearAveragePool")
def average_pool(call: Call) -> Value:
    """Return means of windows."""
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    how: dict[str, Any] = {name: call.take(name) for name in names if name in call.attributes}
    return _pooled(call, "AveragePool", **how)


@QUANTISED.op("NhwcMaxPool")
def max_pool(call: Call) -> Value:
    """Return maxima of windows of a picture of whole numbers, whose channels are last."""
    found = call.op("MaxPool", _channels_second(call, call.value(0), are_last=True), **call.take_rest())
    return _channels_last(call, found, are_last=True)


@QUANTISED.op("QLinearReduceMean")
def reduce_mean(call: Call) -> Value:
    """Return means along axes."""
    axes = call.take("axes")
    operands = [_real(call, 0)] if axes is None else [_real(call, 0), call.ints(axes)]
    return _quantised(call, call.op("ReduceMean", *operands, keepdims=call.take("keepdims", 1)), 3)


@QUANTISED.op("QLinearConcat")
def concat(call: Call) -> Value:
    """Several, one behind the other, in one scale."""
    parts = [_real(call, slot) for slot in range(2, len(call.operands), 3)]
    return _quantised(call, call.op("Concat", *parts, axis=call.take("axis")), 0)


@QUANTISED.op("QLinearWhere")
def where(call: Call) -> Value:
    """Return elements of one or the other."""
    return _quantised(call, call.op("Where", call.value(0), _real(call, 1), _real(call, 4)), 7)


@QUANTISED.op("QGemm")
def gemm(call: Call) -> Value:
    """Return a product of integers with a bias of int32; float32 where no scale of the result is given."""
    a, b = call.value(0), call.value(3)
    a = call.op("Transpose", a, perm=[1, 0]) if call.take("transA", 0) else a
    b = call.op("Transpose", b, perm=[1, 0]) if call.take("transB", 0) else b
    found = call.op("MatMulInteger", a, b, _single(call, call.optional(2)), _single(call, call.optional(5)))
    bias, alpha = call.optional(6), call.take("alpha", 1.0)
    found = found if bias is None else call.op("Add", found, bias)
    scale = call.op("Mul", call.value(1), call.value(4))
    scale = scale if alpha == 1.0 else call.op("Mul", scale, call.scalar_like(alpha, scale))
    found = call.op("Mul", call.op("Cast", found, to=_FLOAT), scale)
    return found if call.optional(7) is None else _quantised(call, found, 7)


@QUANTISED.op("MatMulIntegerToFloat")
def matmul_to_float(call: Call) -> Value:
    """Return a product of integers times both scales, and a bias."""
    zeros = [_single(call, call.optional(slot)) for slot in (4, 5)]
    return _scaled(call, call.value(0), call.value(1), zeros, call.op("Mul", call.value(2), call.value(3)), 6)


@QUANTISED.op("DynamicQuantizeMatMul")
def dynamic_matmul(call: Call) -> Value:
    """Return a product with what is quantised by its own range, and a bias."""
    x, x_scale, x_zero = call.ops("DynamicQuantizeLinear", call.value(0), outputs=3)
    zeros = [x_zero, _single(call, call.optional(3))]
    return _scaled(call, x, call.value(1), zeros, call.op("Mul", x_scale, call.value(2)), 4)


def _scaled(call: Call, a: Value, b: Value, zeros: list[Value | None], scale: Value, slot: int) -> Value:
    found = call.op("Cast", call.op("MatMulInteger", a, b, *zeros), to=_FLOAT)
    found, bias = call.op("Mul", found, scale), call.optional(slot)
    return found if bias is None else call.op("Add", found, bias)


@QUANTISED.op("QuantizeLinear")
def quantize_linear(call: Call) -> Value:
    """ONNX's own, before it had all element types."""
    return call.op("QuantizeLinear", *call.operands, **call.take_rest())


@QUANTISED.op("DequantizeLinear")
def dequantize_linear(call: Call) -> Value:
    """ONNX's own, before it had all element types."""
    return call.op("DequantizeLinear", *call.operands, **call.take_rest())
