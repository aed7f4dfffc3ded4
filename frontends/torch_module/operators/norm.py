"""Lowerings of normalisations."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...formulas import normalise_by_batch
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


def _filled(call: Call, value: float, size: int, dtype: str) -> Value:
    """Return a constant vector in place of an absent scale or bias."""
    return call.constant(np.full((size,), value), dtype)


def _input(call: Call) -> Value:
    """The input in the element type of the parameters, in which torch computes; autocast makes two of it."""
    given = (call.optional(n) for n in ("weight", "bias", "running_mean") if n in call)
    dtypes = [call.dtype_of(value) for value in given if value is not None]
    return call.cast(call.value("input"), dtypes[0]) if dtypes else call.value("input")


def _scale_and_bias(call: Call, size: int) -> tuple[Value, Value]:
    dtype = call.dtype_of(_input(call))
    scale, bias = call.optional("weight"), call.optional("bias")
    return (
        _filled(call, 1.0, size, dtype) if scale is None else scale,
        _filled(call, 0.0, size, dtype) if bias is None else bias,
    )


@TABLE.op("aten.batch_norm.default")
def batch_norm(call: Call) -> Value:
    """Lower BatchNorm with running statistics or, without any, the batch's own mean and variance."""
    call.ignore("cudnn_enabled")
    mean, variance = call.optional("running_mean"), call.optional("running_var")
    if call.flag("training") and mean is not None:
        call.context.notes.append(
            f"batches are normalised by their own statistics, as in training mode - at {call.place}: "
            "export a program for inference after model.eval()"
        )
        raise call.unsupported(
            "expected inference with running statistics, got training",
            hint="export the program after model.eval()",
        )
    if call.rank("input") < 2:
        raise call.unsupported("expected channels on axis 1, got a vector")
    if mean is None or variance is None:
        call.ignore("momentum")
        scale, bias = _scale_and_bias(call, int(call.shape("input")[1]))
        found = normalise_by_batch(call, _input(call), scale, bias, call.float("eps"))
        return call.cast(found, call.dtype)
    return _with_running_statistics(call)


@TABLE.op("aten._native_batch_norm_legit_no_training.default")
def batch_norm_without_training(call: Call) -> list[Value | None]:
    """Lower a batch norm for inference; it has no batch statistics."""
    return [_with_running_statistics(call), None, None]


def _with_running_statistics(call: Call) -> Value:
    scale, bias = _scale_and_bias(call, int(call.shape("input")[1]))
    found = call.op(
        "BatchNormalization",
        _input(call),
        scale,
        bias,
        call.value("running_mean"),
        call.value("running_var"),
        epsilon=call.float("eps"),
        momentum=1 - call.float("momentum"),
    )
    return call.cast(found, call.dtype_of(call.value("input")))


@TABLE.op("aten.layer_norm.default")
def layer_norm(call: Call) -> Value:
    """Normalise over the trailing axes that `normalized_shape` covers."""
    call.ignore("cudnn_enable")
    sizes = call.ints("normalized_shape")
    x, weight, bias = _input(call), call.optional("weight"), call.optional("bias")
    if weight is None:
        weight = call.constant(np.ones(sizes), call.dtype_of(x))
    found = call.op("LayerNormalization", x, weight, bias, axis=-len(sizes), epsilon=call.float("eps"))
    return call.cast(found, call.dtype)


@TABLE.op("aten.group_norm.default")
def group_norm(call: Call) -> Value:
    """Lower GroupNorm with one scale and bias per channel, as ONNX has it since opset 21."""
    call.ignore("cudnn_enabled")
    scale, bias = _scale_and_bias(call, int(call.shape("input")[1]))
    found = call.op(
        "GroupNormalization",
        _input(call),
        scale,
        bias,
        num_groups=call.int("num_groups"),
        epsilon=call.float("eps"),
    )
    return call.cast(found, call.dtype)


@TABLE.op("aten.instance_norm.default")
def instance_norm(call: Call) -> Value:
    """Normalise with each instance's own statistics."""
    call.ignore("cudnn_enabled")
    if not call.flag("use_input_stats"):
        return _with_running_statistics(call)
    call.ignore("running_mean", "running_var", "momentum")
    scale, bias = _scale_and_bias(call, int(call.shape("input")[1]))
    return call.op("InstanceNormalization", call.value("input"), scale, bias, epsilon=call.float("eps"))


@TABLE.op("aten.rms_norm.default")
def rms_norm(call: Call) -> Value:
    """Normalise over the trailing axes, without a mean; torch's default epsilon is the element type's."""
    sizes = call.ints("normalized_shape")
    x, weight, epsilon = call.value("input"), call.optional("weight"), call.arg("eps")
    dtype = call.dtype_of(x)
    if weight is None:
        weight = call.constant(np.ones(sizes), dtype)
    if epsilon is None:
        epsilon = float(np.finfo(np.float64 if dtype == "float64" else np.float32).eps)
    return call.op("RMSNormalization", x, weight, axis=-len(sizes), epsilon=epsilon)
