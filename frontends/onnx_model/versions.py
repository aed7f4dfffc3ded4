"""Translates operators of other opsets into ours: a function for each operator whose form has changed.

ONNX's own version converter goes through a C++ copy of the model, weights included, stops at the first
operator that it lacks, and drops names of scopes; here each node is brought up as it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir import Value
from ...ir.dims import differ
from ...ir.functions.stated import constant_array
from . import experimental, newer_operators
from .call import Call

Outputs = list[Value] | Value | None
"""The results of an upgrade; None passes the changed call on to the operator of the same name."""

Adapter = Callable[[Call], Outputs]

ADAPTERS: dict[str, list[tuple[int, Adapter]]] = {}
"""Operator -> (opset below which it applies, adapter), in the order in which they apply."""

OLDEST = 1
_ALWAYS = 1 << 30


def _below(version: int, *operators: str) -> Callable[[Adapter], Adapter]:
    def register(function: Adapter) -> Adapter:
        for operator in operators:
            ADAPTERS.setdefault(operator, []).append((version, function))
        return function

    return register


def adapt(call: Call) -> Outputs:
    """Bring a call up to our opset; returns outputs, or None when the operator of the same name is left."""
    call.attributes.pop("consumed_inputs", None)  # of opsets below 6: a hint for in-place runs
    for version, adapter in ADAPTERS.get(call.operator, ()):
        if call.version < version:
            found = adapter(call)
            if found is not None:
                return found
    return None


# -- attributes that became operands --------------------------------------------------------------------


def _to_operand(call: Call, name: str, slot: int, dtype: str = "int64") -> None:
    found = call.take(name)
    if found is not None:
        call.operands += [None] * (slot + 1 - len(call.operands))
        call.operands[slot] = call.constant(found, dtype)


@_below(13, "Squeeze", "Unsqueeze", "ReduceSum")
@_below(
    18,
    *("ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp"),
)
def axes(call: Call) -> Outputs:
    """Turn the attribute of axes into an operand."""
    _to_operand(call, "axes", 1)
    return None


@_below(13, "Split")
def split_sizes(call: Call) -> Outputs:
    """Turn the attribute of sizes into an operand."""
    _to_operand(call, "split", 1)
    return None


@_below(18, "Split")
def split_count(call: Call) -> Outputs:
    """State the number of parts of one size, which was the number of outputs."""
    if call.optional(1) is None:
        call.attributes["num_outputs"] = call.outputs
    return None


@_below(11, "Clip")
def clip(call: Call) -> Outputs:
    """Turn the attributes of bounds into operands; the largest float32 stood for none."""
    for slot, name in enumerate(("min", "max"), 1):
        bound = call.take(name)
        if bound is not None and abs(bound) < float(np.finfo(np.float32).max):
            call.operands += [None] * (slot + 1 - len(call.operands))
            call.operands[slot] = call.scalar_like(bound, call.value(0))
    return None


@_below(11, "Pad")
def pad(call: Call) -> Outputs:
    """Turn the attributes of widths and value into operands."""
    if call.version < 2:
        call.attributes["pads"] = call.take("paddings")
    value = call.take("value", 0.0)
    _to_operand(call, "pads", 1)
    if call.attributes.get("mode", "constant") == "constant":
        call.operands.append(call.scalar_like(value, call.value(0)))
    return None


@_below(10, "Slice")
def slice_(call: Call) -> Outputs:
    """Turn the attributes of bounds and axes into operands."""
    for slot, name in enumerate(("starts", "ends", "axes"), 1):
        _to_operand(call, name, slot)
    return None


@_below(10, "TopK")
def top_k(call: Call) -> Outputs:
    """Turn the attribute of the count into an operand."""
    call.operands[1:] = [call.ints([call.take("k")])]
    return None


@_below(12, "Dropout")
def dropout(call: Call) -> Outputs:
    """Turn the attribute of the ratio into an operand; below 7, the test mode was an attribute too."""
    ratio = call.take("ratio", 0.5)
    if not call.take("is_test", 1) and call.version < 7:
        raise call.unsupported("expected a model for inference, got is_test=0")
    call.operands.append(call.constant(ratio, "float32"))
    return None


@_below(20, "DFT")
def dft(call: Call) -> Outputs:
    """Turn the attribute of the axis into an operand."""
    axis = call.take("axis", 1)
    call.operands += [None] * (2 - len(call.operands))
    call.operands.append(call.constant(axis, "int64"))
    return None


@_below(5, "Reshape")
def reshape(call: Call) -> Outputs:
    """Turn the attribute of the shape into an operand."""
    _to_operand(call, "shape", 1)
    return None


# -- meanings that changed ------------------------------------------------------------------------------


@_below(13, "Softmax", "LogSoftmax", "Hardmax")
def softmax(call: Call) -> Outputs:
    """Upgrade Softmax, which took every axis from the given one on as one."""
    axis, rank = call.take("axis", 1), call.rank()
    axis += rank if axis < 0 else 0
    if axis == rank - 1:
        call.attributes["axis"] = -1
        return None
    flat = call.op("Flatten", call.value(0), axis=axis)
    shape = call.type().shape or ()
    sizes = [d if isinstance(d, int) else 0 for d in shape]  # 0 keeps what is in its place
    keeps = axis == 1 and sizes.count(0) == (sizes[0] == 0)
    whole = call.ints(sizes) if 0 not in shape and keeps else call.op("Shape", call.value(0))
    return call.op("Reshape", call.op(call.operator, flat, axis=-1), whole)


@_below(4, "Concat")
def concat(call: Call) -> Outputs:
    """State the axis, which was 1 by default."""
    call.attributes.setdefault("axis", 1)
    return None


@_below(
    7,
    *("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"),
)
def broadcast(call: Call) -> Outputs:
    """Return the second operand spread from an axis on, where that was asked for."""
    axis, spreads = call.take("axis"), call.take("broadcast", 0)
    if spreads and axis is not None:
        rank, own = call.rank(0), call.rank(1)
        behind = rank - (axis + rank if axis < 0 else axis) - own
        if behind > 0:
            wanted = list(range(own, own + behind))
            call.operands[1] = call.op("Unsqueeze", call.value(1), call.ints(wanted))
    return None


@_below(7, "Gemm")
def gemm(call: Call) -> Outputs:
    """Whether the third operand spreads was an attribute."""
    call.take("broadcast")
    return None


@_below(7, "PRelu")
def prelu(call: Call) -> Outputs:
    """Return a slope for each channel spread from axis 1 on."""
    behind = call.rank(0) - 2
    if call.rank(1) == 1 and behind > 0 and call.type(1).shape != (1,):
        call.operands[1] = call.op("Unsqueeze", call.value(1), call.ints(range(1, 1 + behind)))
    return None


@_below(_ALWAYS, "PRelu")
def slope(call: Call) -> Outputs:
    """A slope spreads from the last axis on; MXNet's exporter wrote those of channels without axes behind."""
    shape, own = call.type(0).shape or (), call.type(1).shape or ()
    fits = len(own) <= len(shape) and not any(
        one != 1 and differ(one, size) for one, size in zip(own[::-1], shape[::-1], strict=False)
    )
    of_channels = len(own) == 1 and len(shape) > 2 and own[0] != 1 and not differ(own[0], shape[1])
    if fits and not (of_channels and call.of_mxnet):
        return None
    meant = [*own, *[1] * (len(shape) - 2)]
    hint = (
        f"a slope of each channel has the shape {meant}: set the `dims` of `{call.node.input[1]}` in the file"
    )
    x, slope_ = (f"[{', '.join(map(str, dims))}]" for dims in (shape, own))
    if call.of_mxnet and of_channels:
        raise call.unsupported(
            f"expected a slope that spreads over {x}, got {slope_}, as MXNet's exporter writes it", hint
        )
    raise call.unsupported(
        f"expected a slope that spreads over {x}, got {slope_}", hint if of_channels else ""
    )


@_below(9, "Cast")
def cast(call: Call) -> Outputs:
    """Read the element type, which was a word below 6."""
    import onnx

    to = call.attributes.get("to")
    if isinstance(to, str):
        call.attributes["to"] = onnx.TensorProto.DataType.Value(to.upper())
    return None


@_below(14, "BatchNormalization")
def batch_normalization(call: Call) -> Outputs:
    """Refuse a model for training: outputs for batch statistics, or `is_test`, imply one."""
    of_elements = not call.take("spatial", 1)
    tests = call.take("is_test", 0)
    if call.outputs > 1 or (call.version < 7 and not tests):
        raise call.unsupported(
            "expected a model for inference, got one that computes statistics of the batch",
            hint="export it in inference mode",
        )
    return _of_elements(call) if of_elements else None


def _of_elements(call: Call) -> Value:
    """Normalise each element of a sample by statistics of its own, as spatial=0 stands for."""
    x, scale, bias, mean, variance = (call.value(slot) for slot in range(5))
    if call.rank(1) != call.rank(0) - 1:
        raise call.unsupported(
            f"expected statistics of each element for spatial=0, got {call.type(1)} beside {call.type(0)}",
            hint="statistics of channels are spatial=1: take the attribute `spatial` out of the file",
        )
    apart = call.op("Sub", x, mean)
    variance = call.op("Add", variance, call.scalar_like(call.take("epsilon", 1e-5), variance))
    unit = call.op("Div", apart, call.op("Sqrt", variance))
    return call.op("Add", call.op("Mul", unit, scale), bias)


@_below(21, "GroupNormalization")
def group_normalization(call: Call) -> Outputs:
    """Scale and bias were of groups, and are of channels."""
    channels, groups = (call.type().shape or (0, 0))[1], call.attributes["num_groups"]
    if not isinstance(channels, int):
        raise call.unsupported(f"expected a static number of channels, got {call.type()}")
    for slot in (1, 2):
        rows = call.op("Unsqueeze", call.value(slot), call.ints([1]))
        wide = call.op("Expand", rows, call.ints([groups, channels // groups]))
        call.operands[slot] = call.op("Reshape", wide, call.ints([channels]))
    return None


@_below(20, "GridSample")
def grid_sample(call: Call) -> Outputs:
    """Rename the modes, which had the names of images."""
    mode = call.attributes.get("mode", "bilinear")
    call.attributes["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return None


@_below(11, "Scatter")
def scatter(call: Call) -> Outputs:
    """Rename to ScatterElements."""
    return call.op("ScatterElements", *(call.value(slot) for slot in range(3)), **call.attributes)


@_below(10, "Upsample")
def upsample(call: Call) -> Outputs:
    """Upgrade to Resize, with the settings that the old form implied."""
    mode = call.take("mode", "nearest")
    if call.version < 7 and "scales" not in call.attributes:
        rank = call.rank()
        factors = [call.take("height_scale"), call.take("width_scale")]
        scales = call.constant([1.0] * (rank - 2) + factors, "float32")
    elif call.version < 9:
        scales = call.constant(call.take("scales"), "float32")
    else:
        scales = call.value(1)
    return _resized(call, scales, "linear" if "linear" in mode else mode)


@_below(11, "Resize")
def resize(call: Call) -> Outputs:
    """Upgrade to Resize, with the settings that the old form implied."""
    return _resized(call, call.value(1), call.take("mode", "nearest"))


def _resized(call: Call, scales: Value, mode: str) -> Value:
    how: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "mode": mode}
    if mode == "nearest":
        how["nearest_mode"] = "floor"
    return call.op("Resize", call.value(0), None, scales, **how)


@_below(_ALWAYS, "Resize")
def resize_without_empty(call: Call) -> Outputs:
    """Drop operands without elements, which stood for none where opset 11 required all."""
    if call.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        call.attributes.pop("extrapolation_value", None)
        call.operands[1:2] = [None] if len(call.operands) > 1 else []
    for slot, operand in enumerate(call.operands):
        found = call.graph.constant_value(operand) if slot else None
        if found is not None and not found.size:
            call.operands[slot] = None
    return None


@_below(_ALWAYS, "Constant")
def constant(call: Call) -> Outputs:
    """Return a constant in any of its forms."""
    found = constant_array(call.attributes)
    call.attributes.clear()
    if found is None:
        raise call.unsupported("expected one dense value")
    return call.graph.add_constant(found)


@_below(_ALWAYS, "Conv", "ConvTranspose")
def conv(call: Call) -> Outputs:
    """Require a kernel with as many axes as its input, which ONNX's rule does not state."""
    if call.rank(1) != call.rank(0) or call.rank(0) < 3:
        raise call.unsupported(f"expected a kernel of {call.rank(0)} axes, 3 or more, got {call.type(1)}")
    return None


@_below(_ALWAYS, "Range")
def range_(call: Call) -> Outputs:
    """Turn bounds that are vectors of one element, which runtimes take, into scalars."""
    for slot, operand in enumerate(call.operands):
        known = None if operand is None else call.graph.type_of(operand)
        if known is not None and known.shape == (1,):
            call.operands[slot] = call.op("Squeeze", operand, call.ints([0]))
    return None


@_below(_ALWAYS, "Identity")
def identity(call: Call) -> Outputs:
    """Return a name for a value."""
    return call.value(0)


@_below(_ALWAYS, "OptionalGetElement")
def optional_element(call: Call) -> Outputs:
    """Return the tensor, which is its own element; values of other types are refused at their origin."""
    return call.value(0)


@_below(_ALWAYS, "OptionalHasElement")
def has_optional_element(call: Call) -> Outputs:
    """Whether there is a tensor."""
    return call.b.constant(call.optional(0) is not None)


# -- what was on trial ----------------------------------------------------------------------------------

for _name, _trial in experimental.EXPERIMENTAL.items():
    _below(_ALWAYS, _name)(_trial)
_below(9, "MeanVarianceNormalization")(experimental.mean_variance)
_below(6, "Tile")(experimental.tile)


@_below(2, "LpPool", "GlobalLpPool")
def lp_pool(call: Call) -> Outputs:
    """Read the power, which was a real number."""
    power = call.attributes.get("p", 2.0)
    if power != int(power):
        raise call.unsupported(f"expected a whole power, got {power}")
    call.attributes["p"] = int(power)
    return None


# -- what came after our opset --------------------------------------------------------------------------

for _name, _adapter in {
    "Swish": newer_operators.swish,
    "CastLike": newer_operators.cast_like,
    "CumProd": newer_operators.cum_prod,
    "TensorScatter": newer_operators.tensor_scatter,
    "BitCast": newer_operators.bit_cast,
    "BitShift": newer_operators.bit_shift,
    "Mod": newer_operators.mod,
    "SpaceToDepth": newer_operators.space_to_depth,
    "MeanVarianceNormalization": newer_operators.mean_variance,
}.items():
    _below(_ALWAYS, _name)(_adapter)
