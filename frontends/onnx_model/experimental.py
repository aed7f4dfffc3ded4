"""Operators that ONNX had on trial before opset 10, as exporters of that time wrote them, in ours."""

from __future__ import annotations

from ...ir import Value
from .call import Call


def _number(call: Call, name: str, default: float) -> Value:
    return call.scalar_like(call.take(name, default), call.value(0))


def affine(call: Call) -> Value:
    """Return a multiple of the operand and a number."""
    scaled = call.op("Mul", call.value(0), _number(call, "alpha", 1.0))
    return call.op("Add", scaled, _number(call, "beta", 0.0))


def scale(call: Call) -> Value:
    """Return a multiple of the operand."""
    return call.op("Mul", call.value(0), _number(call, "scale", 1.0))


def image_scaler(call: Call) -> Value:
    """Return a multiple of an image and a number for each of its channels."""
    bias, scaled = call.take("bias", []), call.op("Mul", call.value(0), _number(call, "scale", 1.0))
    if not bias:
        return scaled
    vector = call.constant(bias, call.dtype())
    return call.op("Add", scaled, call.op("Unsqueeze", vector, call.ints([1, 2])))


def crop(call: Call) -> Value:
    """Return an image without its border, or so much of it as `scale` says."""
    left, top, right, bottom = call.take("border", [0, 0, 0, 0])
    size = call.take("scale", None)
    ends = [-bottom or 1 << 62, -right or 1 << 62] if not size else [top + size[0], left + size[1]]
    return call.op("Slice", call.value(0), call.ints([top, left]), call.ints(ends), call.ints([2, 3]))


def scaled_tanh(call: Call) -> Value:
    """Return a multiple of the tangent of a multiple."""
    alpha, beta = _number(call, "alpha", 1.0), _number(call, "beta", 1.0)
    return call.op("Mul", call.op("Tanh", call.op("Mul", call.value(0), beta)), alpha)


def parametric_softplus(call: Call) -> Value:
    """Return a multiple of the soft ramp of a multiple."""
    alpha, beta = _number(call, "alpha", 1.0), _number(call, "beta", 1.0)
    return call.op("Mul", call.op("Softplus", call.op("Mul", call.value(0), beta)), alpha)


def mean_variance(call: Call) -> None:
    """Upgrade axes that were those of one image, with or without its channels; refuse a missing variance."""
    across, divided = call.take("across_channels", 0), call.take("normalize_variance", 1)
    if not divided:
        raise call.unsupported("expected normalize_variance=1, got 0")
    call.attributes["axes"] = [1, 2, 3] if across else [2, 3]


def tile(call: Call) -> Value:
    """Upgrade Tile, which repeated one axis."""
    counts, axis = call.array(1), call.array(2)
    if counts is None or axis is None:
        raise call.unsupported("expected a number of tiles and an axis that are constants")
    repeats = [1] * call.rank()
    repeats[int(axis.reshape(-1)[0])] = int(counts.reshape(-1)[0])
    return call.op("Tile", call.value(0), call.ints(repeats))


EXPERIMENTAL = {
    "Affine": affine,
    "Crop": crop,
    "ImageScaler": image_scaler,
    "ParametricSoftplus": parametric_softplus,
    "Scale": scale,
    "ScaledTanh": scaled_tanh,
}
"""Operator -> what it becomes."""
