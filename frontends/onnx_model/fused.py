"""Operators of ONNX Runtime's own domain, written out in ONNX's: what its optimiser leaves in a file."""

from __future__ import annotations

import numpy as np

from ...ir import Value, numpy_dtype
from ...ir.table import Table
from .attention_heads import attend, heads_apart, size_of_heads
from .call import Call
from .classical import CLASSICAL
from .contributed import CONTRIBUTED
from .fused_decoder import DECODERS
from .fused_quantised import QUANTISED, Rule, real
from .traced_operators import RULES, TRACED

FUSED = Table[Rule](QUANTISED, DECODERS, CONTRIBUTED)
"""Operator of ONNX Runtime's own domain -> what it becomes."""


def find_fused(domain: str, operator: str) -> Rule | None:
    """Return what an operator becomes; None for one of another domain, or of ONNX's."""
    if domain == TRACED:
        return RULES.get(operator)
    if domain == "ai.onnx.ml":
        return CLASSICAL.get(operator)
    is_own = domain == "com.microsoft" or (domain, operator) == ("", "SimplifiedLayerNormalization")
    return FUSED.get(operator) if is_own else None


def _only_first(call: Call, least: int = 1) -> None:
    if call.outputs > least:
        raise call.unsupported(f"expected one output, got {call.outputs}: the others are for training")


def _transposed(call: Call, value: Value) -> Value:
    """Return matrices with rows and columns exchanged; a vector as it is."""
    rank = len(call.graph.known_type(value).shape or ())
    if rank < 2:
        return value
    return call.op("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def _batches_first(call: Call, value: Value) -> Value:
    """Return a matrix whose rows stand before its batches with the rows behind them."""
    rank = len(call.graph.known_type(value).shape or ())
    return call.op("Transpose", value, perm=[*range(1, rank - 1), 0, rank - 1])


@FUSED.op("FusedMatMul", "TransposeMatMul")
def fused_matmul(call: Call) -> Value:
    """Return a product of matrices, transposed where asked, times a number."""
    a, b = call.value(0), call.value(1)
    a = _batches_first(call, a) if call.take("transBatchA", 0) else a
    b = _batches_first(call, b) if call.take("transBatchB", 0) else b
    a = _transposed(call, a) if call.take("transA", 0) else a
    b = _transposed(call, b) if call.take("transB", 0) else b
    product, alpha = call.op("MatMul", a, b), call.take("alpha", 1.0)
    return product if alpha == 1.0 else call.op("Mul", product, call.scalar_like(alpha, product))


@FUSED.op("FusedGemm")
def fused_gemm(call: Call) -> Value:
    """Return a Gemm and an activation behind it."""
    how = {name: call.take(name) for name in ("alpha", "beta", "transA", "transB")}
    found = call.op("Gemm", *call.operands[:3], **how)
    return _activated(call, found)


@FUSED.op("FusedConv")
def fused_conv(call: Call) -> Value:
    """Return a convolution, a sum where there is a fourth operand, and an activation behind it."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    found = call.op("Conv", *call.operands[:3], **{name: call.take(name) for name in names})
    extra = call.optional(3)
    return _activated(call, found if extra is None else call.op("Add", found, extra))


def _activated(call: Call, value: Value) -> Value:
    kind = call.take("activation", "")
    numbers = call.take("activation_params") or []
    numbers += [
        call.take(f"activation_{n}")
        for n in ("alpha", "beta", "gamma")
        if f"activation_{n}" in call.attributes
    ]
    match kind:
        case "":
            return value
        case "Relu" | "Sigmoid" | "Tanh":
            return call.op(kind, value)
        case "LeakyRelu":
            return call.op(kind, value, alpha=numbers[0] if numbers else 0.01)
        case "Clip":
            return call.op(kind, value, *(call.scalar_like(n, value) for n in numbers[:2]))
        case "HardSigmoid":
            return call.op(kind, value, **dict(zip(("alpha", "beta"), numbers, strict=False)))
        case _:
            raise call.unsupported(f"expected another activation than `{kind}`")


@FUSED.op("Gelu")
def gelu(call: Call) -> Value:
    """Return GELU by the error function."""
    return call.op("Gelu", call.value(0))


@FUSED.op("BiasGelu")
def bias_gelu(call: Call) -> Value:
    """Return GELU by the error function, of a sum."""
    return call.op("Gelu", call.op("Add", call.value(0), call.value(1)))


@FUSED.op("FastGelu")
def fast_gelu(call: Call) -> Value:
    """Return GELU by tanh, of a sum where there is a bias."""
    x, bias = call.value(0), call.optional(1)
    return call.op("Gelu", x if bias is None else call.op("Add", x, bias), approximate="tanh")


@FUSED.op("QuickGelu")
def quick_gelu(call: Call) -> Value:
    """Return the operand times the sigmoid of a multiple of it."""
    x = call.value(0)
    return call.op(
        "Mul", x, call.op("Sigmoid", call.op("Mul", x, call.scalar_like(call.take("alpha", 1.702), x)))
    )


def _normalised(
    call: Call, x: Value, gamma: Value, beta: Value | None, *, simple: bool, epsilon: float
) -> Value:
    if simple:
        found = call.op("RMSNormalization", x, gamma, axis=-1, epsilon=epsilon)
        return found if beta is None else call.op("Add", found, beta)
    return call.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=epsilon)


@FUSED.op("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_layer_norm(call: Call) -> list[Value] | Value:
    """Return a normalisation of a sum, which is the fourth output."""
    simple = call.operator == "SkipSimplifiedLayerNormalization"
    x, gamma = call.op("Add", call.value(0), call.value(1)), call.value(2)
    beta, bias = (None, call.optional(3)) if simple else (call.optional(3), call.optional(4))
    x = x if bias is None else call.op("Add", x, bias)
    found = _normalised(call, x, gamma, beta, simple=simple, epsilon=call.take("epsilon", 1e-12))
    if any(call.node.output[1:3]):
        raise call.unsupported("expected no output of means and variances")
    return [found, found, found, x]


@FUSED.op("SimplifiedLayerNormalization")
def simplified_layer_norm(call: Call) -> Value:
    """RMSNormalization by its first name."""
    _only_first(call)
    how = {"axis": call.take("axis", -1), "epsilon": call.take("epsilon", 1e-5)}
    return call.op("RMSNormalization", call.value(0), call.value(1), **how)


@FUSED.op("LayerNormalization")
def layer_norm(call: Call) -> Value:
    """ONNX's own, before it was there."""
    _only_first(call)
    return call.op("LayerNormalization", *call.operands, **call.take_rest())


@FUSED.op("QEmbedLayerNormalization")
def quantised_embed_layer_norm(call: Call) -> list[Value]:
    """Return `embed_layer_norm` of tables of whole numbers, each with a scale and a zero point."""
    ids, segments, mask = call.value(0), call.optional(1), call.optional(7)
    tables = [
        None if table is None else real(call, table, call.value(8 + at), call.optional(13 + at))
        for at, table in enumerate(call.operands[2:7])
    ]
    call.operands = [ids, segments, *tables, mask]
    return embed_layer_norm(call)


@FUSED.op("EmbedLayerNormalization")
def embed_layer_norm(call: Call) -> list[Value]:
    """Return words, positions and segments, added and normalised."""
    words, segments = call.value(0), call.optional(1)
    total = call.op("Gather", call.value(2), words, axis=0)
    given = call.optional(8)
    if given is None:
        length = call.graph.known_type(words).shape
        if length is None or not isinstance(length[1], int):
            raise call.unsupported("expected positions, or a static length")
        rows = call.op("Slice", call.value(3), call.ints([0]), call.ints([length[1]]), call.ints([0]))
    else:
        rows = call.op("Gather", call.value(3), given, axis=0)
    total = call.op("Add", total, rows)
    table = call.optional(4)
    if table is not None and segments is not None:
        total = call.op("Add", total, call.op("Gather", table, segments, axis=0))
    epsilon = call.take("epsilon", 1e-12)
    call.take("mask_index_type")
    found = call.op("LayerNormalization", total, call.value(5), call.value(6), axis=-1, epsilon=epsilon)
    mask = call.optional(7)
    if mask is None:
        batch = call.op("Slice", call.op("Shape", words), call.ints([0]), call.ints([1]))
        index = call.op("Expand", call.constant(0, "int32"), batch)
    else:
        kept = call.op("Cast", call.op("Equal", mask, call.constant(1, "int32")), to=6)
        index = call.op("ReduceSum", kept, call.ints([1]), keepdims=0)
    return [found, index, total]


def _mask_bias(call: Call, mask: Value, keys: Value) -> Value:
    """Return the bias that a mask, above 0 for what is kept, adds to the scores.

    Args:
        call: the operator.
        mask: the mask, or how many keys each example has.
        keys: in heads, (batch, heads, length, size).
    """
    filter_value = call.take("mask_filter_value", -10000.0)
    rank = len(call.graph.known_type(mask).shape or ())
    if rank == 1:
        kept = _kept_keys(call, mask, keys)
    elif rank in (2, 3):
        mask = call.op("Unsqueeze", mask, call.ints([1, 2] if rank == 2 else [1]))
        kept = call.op("Greater", mask, call.scalar_like(0, mask))
    else:
        raise call.unsupported(f"expected a mask of 1 to 3 dimensions, got {rank}")
    return call.op("Where", kept, call.scalar_like(0.0, keys), call.scalar_like(filter_value, keys))


def _kept_keys(call: Call, lengths: Value, keys: Value) -> Value:
    """Whether each key lies within the length of its example, as (batch, 1, 1, keys)."""
    stated, shape = call.graph.known_type(lengths).shape, call.graph.known_type(keys).shape
    if stated is None or shape is None or stated[0] != shape[0] or stated[0] is None:
        raise call.unsupported("expected a mask of one length for each example")
    rows = call.op("Unsqueeze", call.op("Cast", lengths, to=7), call.ints([1, 2, 3]))
    return call.op("Less", _places(call, keys, 2), rows)


def _places(call: Call, x: Value, axis: int) -> Value:
    """Return 0, 1, 2… for an axis of a value."""
    length = call.op("Gather", call.op("Shape", x), call.constant(axis), axis=0)
    return call.op("Range", call.constant(0), length, call.constant(1))


def _without_later_keys(call: Call, bias: Value | None, q: Value, k: Value, *, behind: bool) -> Value:
    """Return what is added to scores, with the least number there is where a key lies behind the query.

    Args:
        call: the operator.
        bias: what is added to all scores.
        q: queries in heads.
        k: keys in heads.
        behind: whether the queries are the last of the keys, behind those of earlier runs.
    """
    queries, keys = _places(call, q, 2), _places(call, k, 2)
    if behind:
        length = call.op("Gather", call.op("Shape", q), call.constant(2), axis=0)
        total = call.op("Gather", call.op("Shape", k), call.constant(2), axis=0)
        queries = call.op("Add", queries, call.op("Sub", total, length))
    hidden = call.op("Greater", keys, call.op("Unsqueeze", queries, call.ints([1])))
    least = call.scalar_like(float(np.finfo(numpy_dtype(call.graph.known_type(q).dtype)).min), q)
    return call.op("Where", hidden, least, call.scalar_like(0.0, q) if bias is None else bias)


def _masked_attention(
    call: Call, q: Value, k: Value, v: Value, past: tuple[Value, Value] | None, mask: Value | None
) -> tuple[Value, Value, Value]:
    """Return attention of heads behind the keys and values of earlier runs, and all keys and values."""
    scale, added, causal = call.take("scale"), call.optional(5), call.take("unidirectional", 0)
    if past is not None:
        k, v = (call.op("Concat", old, new, axis=2) for old, new in zip(past, (k, v), strict=True))
    total = None if mask is None else _mask_bias(call, mask, k)
    if added is not None:
        total = added if total is None else call.op("Add", total, added)
    if causal:
        total = _without_later_keys(call, total, q, k, behind=past is not None)
    return attend(call, q, k, v, total, scale, width=size_of_heads(call, v)), k, v


@FUSED.op("Attention", "QAttention")
def attention(call: Call) -> list[Value]:
    """Return self-attention of a projection: x W + b, in heads; of whole numbers as what they stand for."""
    heads = call.take("num_heads")
    if call.take("do_rotary", 0):
        raise call.unsupported("expected attention without rotation of its own")
    call.take("rotary_embedding_dim")
    if call.take("past_present_share_buffer", 0):
        raise call.unsupported("expected keys and values of earlier runs of their own length")
    sizes = call.take("qkv_hidden_sizes")
    x, weight, bias, mask, before = call.value(0), call.value(1), call.optional(2), call.optional(3), None
    if call.operator == "QAttention":
        x = real(call, x, call.value(3), call.optional(6))
        weight = real(call, weight, call.value(4), call.optional(7), axis=1)
        mask, before = call.optional(5), call.optional(8)
        call.operands = [x, weight, bias]  # which has no bias of scores
    else:
        before = call.optional(4)
    fused = call.op("MatMul", x, weight)
    fused = fused if bias is None else call.op("Add", fused, bias)
    shape = call.graph.known_type(fused).shape
    if shape is None or not isinstance(shape[-1], int):
        raise call.unsupported("expected a projection of static width")
    parts = sizes or [shape[-1] // 3] * 3
    projected = call.ops("Split", fused, call.ints(parts), outputs=3, axis=-1)
    q, k, v = (heads_apart(call, part, heads) for part in projected)
    past = None
    if before is not None:
        past = (
            call.op("Gather", before, call.constant(0), axis=0),
            call.op("Gather", before, call.constant(1), axis=0),
        )
    found, k, v = _masked_attention(call, q, k, v, past, mask)
    if not any(call.node.output[1:]):
        return [found]
    both = (call.op("Unsqueeze", each, call.ints([0])) for each in (k, v))
    return [found, call.op("Concat", *both, axis=0)]


@FUSED.op("MultiHeadAttention")
def multi_head_attention(call: Call) -> list[Value]:
    """Attention of projections that are made before it; keys and values may be in heads already."""
    heads = call.take("num_heads")
    if any(call.optional(slot) is not None for slot in (8, 9)) or any(call.node.output[3:]):
        raise call.unsupported("expected no buffer of earlier runs, and no scores as an output")
    q, k, v = call.value(0), call.optional(1), call.optional(2)
    if k is None or v is None:
        raise call.unsupported("expected query, key and value")
    given = [q, k, v]
    ranks = [len(call.graph.known_type(each).shape or ()) for each in given]
    bias = call.optional(3)
    if ranks not in ([3, 3, 3], [3, 4, 4]) or (bias is not None and ranks[1] == 4):
        raise call.unsupported("expected query, key and value of 3 dimensions")
    if bias is not None:
        widths = [call.graph.known_type(each).shape[-1] for each in given]  # type: ignore[index]
        if not all(isinstance(width, int) for width in widths):
            raise call.unsupported("expected static widths")
        biases = call.ops("Split", bias, call.ints(widths), outputs=3, axis=0)  # type: ignore[arg-type]
        given = [call.op("Add", each, b) for each, b in zip(given, biases, strict=True)]
    pairs = zip(given, ranks, strict=True)
    q, k, v = (each if rank == 4 else heads_apart(call, each, heads) for each, rank in pairs)
    if call.attributes.get("unidirectional") and not _as_many(call, q, k):
        raise call.unsupported(
            "expected as many keys as queries where later ones are hidden: ONNX Runtime shows the last all"
        )
    keys, values = call.optional(6), call.optional(7)
    past = None if keys is None or values is None else (keys, values)
    return list(_masked_attention(call, q, k, v, past, call.optional(4)))


def _as_many(call: Call, q: Value, k: Value) -> bool:
    """Whether keys are as many as queries, or fewer, both in heads."""
    queries, keys = (shape and shape[2] for shape in (call.graph.known_type(each).shape for each in (q, k)))
    if isinstance(queries, int) and isinstance(keys, int):
        return keys <= queries
    return queries is not None and queries == keys


@FUSED.op("RotaryEmbedding")
def rotary_embedding(call: Call) -> Value:
    """ONNX's own of opset 23, whose operands stand in another order."""
    how = {name: call.take(name) for name in ("interleaved", "num_heads", "rotary_embedding_dim")}
    if call.take("scale", 1.0) != 1.0 or call.take("is_packed_batching", 0):
        raise call.unsupported("expected a scale of 1, and every example in a row of its own")
    positions = call.value(1)
    if call.rank(1) == 1:  # where the first element of each example stands
        x, axis = call.value(0), 1 if call.rank() == 3 else 2
        rows = call.op("Unsqueeze", call.op("Add", positions, _places(call, x, axis)), call.ints([0]))
        lead = call.op("Gather", call.op("Shape", x), call.ints([0, axis]), axis=0)
        positions = call.op("Expand", rows, lead)
    how = {name: value for name, value in how.items() if value}
    return call.op("RotaryEmbedding", call.value(0), call.value(2), call.value(3), positions, **how)
