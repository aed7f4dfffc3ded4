"""Emitters of layers: convolutions, pools, normalisations, fully connected layers, embeddings, dropout."""

from __future__ import annotations

import numpy as np

from ...ir import Constant, Operator, Parameter, Value
from .symbol import Emission, EmitterTable, Reference

TABLE = EmitterTable()


def _window(e: Emission, x: Reference, rank: int, value: float) -> tuple[Reference, list[int]]:
    """The symmetric pads of a window; what is more at one end becomes a Pad before it."""
    o = e.operator
    if o.str("auto_pad", "NOTSET") == "VALID":
        return x, [0] * rank
    if o.str("auto_pad", "NOTSET") != "NOTSET":
        raise e.refused("expected explicit pads (run normalise-conv-padding)")
    pads = o.ints("pads", [0] * 2 * rank)
    begins, ends = pads[:rank], pads[rank:]
    if begins == ends:
        return x, begins
    if rank == 1:
        raise e.refused("expected equal pads at both ends of a 1-d window, the only ones that MXNet has")
    widths = [0, 0, 0, 0, *(w for pair in zip(begins, ends, strict=True) for w in pair)]
    return e.node("Pad", [x], mode="constant", pad_width=widths, constant_value=value), [0] * rank


@TABLE.op("Conv")
def convolution(e: Emission) -> Reference:
    weight = e.static_shape(1)
    rank, o = len(weight) - 2, e.operator
    x, pad = _window(e, e.input(), rank, 0.0)
    return e.node(
        "Convolution", [x, *e.inputs()[1:]], kernel=weight[2:], num_filter=weight[0],
        stride=o.ints("strides", [1] * rank), dilate=o.ints("dilations", [1] * rank), pad=pad,
        num_group=o.int("group", 1), no_bias=not e.has(2),
    )  # fmt: skip


@TABLE.op("ConvTranspose")
def deconvolution(e: Emission) -> Reference:
    weight = e.static_shape(1)
    rank, o = len(weight) - 2, e.operator
    pads = o.ints("pads", [0] * 2 * rank)
    if (
        pads[:rank] != pads[rank:]
        or "output_shape" in o.attributes
        or o.str("auto_pad", "NOTSET") != "NOTSET"
    ):
        raise e.refused("expected equal explicit pads at both ends of a transposed convolution")
    return e.node(
        "Deconvolution", e.inputs(), kernel=weight[2:], num_filter=weight[1] * o.int("group", 1),
        stride=o.ints("strides", [1] * rank), dilate=o.ints("dilations", [1] * rank), pad=pads[:rank],
        adj=o.ints("output_padding", [0] * rank), num_group=o.int("group", 1), no_bias=not e.has(2),
    )  # fmt: skip


@TABLE.op("regraft.Linear")
def fully_connected(e: Emission) -> Reference:
    x, flatten = e.input(), len(e.shape()) == 2
    before = e.producer(0)
    if before is not None and before.op_type == "Flatten" and before.location == e.operator.location:
        source = e.graph.operands(before.key)[0]  # the layer's own flattening
        assert source is not None
        x, flatten = e.builder.reference(source, e.name), True
    units = e.static_shape(1)[0]
    return e.node(
        "FullyConnected", [x, *e.inputs()[1:]], num_hidden=units, no_bias=not e.has(2), flatten=flatten
    )


@TABLE.op("BatchNormalization")
def batch_norm(e: Emission) -> Reference:
    o, scale, gamma = e.operator, e.constant(1), e.held("gamma")
    fixed = scale is not None and gamma is not None and bool((scale == 1).all())
    weight = e.builder.values[Value(gamma)] if fixed and gamma is not None else e.input(1)
    return e.node(
        "BatchNorm", [e.input(), weight, e.input(2), e.auxiliary(3), e.auxiliary(4)],
        eps=o.float("epsilon", 1e-5), momentum=o.float("momentum", 0.9), fix_gamma=fixed,
        use_global_stats=e.argument("use_global_stats", "False"), axis=1,
    )  # fmt: skip


@TABLE.op("LayerNormalization")
def layer_norm(e: Emission) -> Reference:
    axis = e.operator.int("axis", -1)
    if axis not in (-1, len(e.shape()) - 1) or not e.has(2):
        raise e.refused("expected a layer normalisation with a bias over the last axis")
    return e.node("LayerNorm", e.inputs(), axis=-1, eps=e.operator.float("epsilon", 1e-5))


@TABLE.op("InstanceNormalization")
def instance_norm(e: Emission) -> Reference:
    return e.node("InstanceNorm", e.inputs(), eps=e.operator.float("epsilon", 1e-5))


@TABLE.op("LRN")
def local_response_norm(e: Emission) -> Reference:
    o = e.operator
    return e.node(
        "LRN", e.inputs(), nsize=o.int("size"), alpha=o.float("alpha", 1e-4), beta=o.float("beta", 0.75),
        knorm=o.float("bias", 1.0),
    )  # fmt: skip


def _pool(e: Emission, kind: str, convention: str = "valid", **extra: object) -> Reference:
    o = e.operator
    kernel = o.ints("kernel_shape")
    if o.int("ceil_mode", 0) or any(d != 1 for d in o.ints("dilations", [1] * len(kernel))):
        raise e.refused(
            "expected a pool without dilation that rounds down, or MXNet's own way of rounding up"
        )
    x, pad = e.input(), o.ints("pads", [0] * 2 * len(kernel))
    counted = extra.get("count_include_pad", True)
    if pad[: len(kernel)] != pad[len(kernel) :] and not counted:
        raise e.refused("expected equal pads at both ends of an average that does not count them")
    x, pad = _window(e, x, len(kernel), float(np.finfo(np.float32).min) if kind == "max" else 0.0)
    return e.node(
        "Pooling", [x], pool_type=kind, kernel=kernel, stride=o.ints("strides", [1] * len(kernel)), pad=pad,
        pooling_convention=convention, **extra,
    )  # fmt: skip


@TABLE.op("MaxPool")
def max_pool(e: Emission) -> Reference:
    if len(e.operator.types) > 1:
        raise e.refused("expected a maximum pool without indices")
    return _pool(e, "max")


@TABLE.op("AveragePool")
def average_pool(e: Emission) -> Reference:
    return _pool(e, "avg", count_include_pad=bool(e.operator.int("count_include_pad", 0)))


@TABLE.op("regraft.FullPool")
def full_pool(e: Emission) -> Reference:
    mode = {"max": "max", "average": "avg", "sum": "sum"}[e.operator.str("mode")]
    if mode == "max":
        return _pool(e, mode, "full")
    return _pool(e, mode, "full", count_include_pad=bool(e.operator.int("count_include_pad", 1)))


@TABLE.op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(e: Emission) -> Reference:
    kind = "avg" if e.operator.op_type == "GlobalAveragePool" else "max"
    return e.node("Pooling", e.inputs(), pool_type=kind, kernel=[1] * (len(e.shape()) - 2), global_pool=True)


@TABLE.op("regraft.AdaptiveAveragePool")
def adaptive_average_pool(e: Emission) -> Reference:
    size = e.operator.ints("output_size")
    if len(size) != 2:
        raise e.refused("expected an adaptive pool over two axes, the only one that MXNet has")
    return e.node("_contrib_AdaptiveAvgPooling2D", e.inputs(), output_size=size)


@TABLE.op("Dropout")
def dropout(e: Emission) -> Reference:
    ratio = e.constant(1) if e.has(1) else np.float32(0.5)
    if ratio is None:
        raise e.refused("expected a constant ratio")
    return e.node("Dropout", [e.input()], p=float(np.float32(ratio)) and round(float(ratio), 7))


@TABLE.op("Gather")
def gather(e: Emission) -> Reference:
    """Rows of a matrix by clipped indices are MXNet's Embedding; one index is a slice; the rest is take."""
    axis, indices = e.operator.int("axis", 0), e.constant(1)
    if indices is not None and indices.ndim == 0:
        at = int(indices)
        part = e.node("slice_axis", [e.input()], axis=axis, begin=at, end="None" if at == -1 else at + 1)
        return e.node("squeeze", [part], axis=(axis,))
    source = _clipped_indices(e)
    weight = e.graph.producer(e.value(0))
    if axis == 0 and source is not None and isinstance(weight, Parameter) and len(weight.data.shape) == 2:
        rows, width = weight.data.shape
        ids = e.builder.reference(source, e.name)
        return e.node("Embedding", [ids, e.input()], input_dim=rows, output_dim=width)
    return e.node("take", e.inputs(), axis=axis, mode="clip")


def _clipped_indices(e: Emission) -> Value | None:
    """The value behind ``Clip(Cast(value), 0, rows - 1)``, else None."""
    clip = e.producer(1)
    if clip is None or clip.op_type != "Clip":
        return None
    source, low, high = (*e.graph.operands(clip.key), None, None)[:3]
    bounds = [e.graph.producer(v) for v in (low, high) if v is not None]
    limits = [int(c.data.numpy()) for c in bounds if isinstance(c, Constant)]
    if source is None or limits != [0, e.static_shape(0)[0] - 1]:
        return None
    cast = e.graph.producer(source)
    if isinstance(cast, Operator) and cast.op_type == "Cast":
        return e.graph.operands(cast.key)[0]
    return source


@TABLE.op("MatMul")
def matrix_product(e: Emission) -> Reference:
    left, right = e.shape(0), e.shape(1)
    if len(right) == 2:
        return e.node("dot", e.inputs())
    if len(left) != len(right) or left[:-2] != right[:-2]:
        raise e.refused("expected matrix products without broadcasting")
    return e.node("batch_dot" if len(left) == 3 else "_linalg_gemm2", e.inputs())


@TABLE.op("Gemm")
def gemm(e: Emission) -> Reference:
    o = e.operator
    if not o.int("transB") or o.int("transA") or o.float("alpha", 1.0) != 1 or o.float("beta", 1.0) != 1:
        raise e.refused("expected a Gemm that is a fully connected layer")
    return e.node("FullyConnected", e.inputs(), num_hidden=e.static_shape(1)[0], no_bias=not e.has(2))
