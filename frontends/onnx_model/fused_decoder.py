"""Operators of ONNX Runtime's own domain in decoders: attention with a cache, weights of few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value, numpy_dtype
from ...ir.table import Table
from .attention_heads import attend, heads_apart, size_of_heads, width_of
from .call import Call
from .fused_quantised import Rule

DECODERS = Table[Rule]()
"""Operator of ONNX Runtime's own domain -> what it becomes."""


@DECODERS.op("MatMulNBits")
def matmul_of_few_bits(call: Call) -> Value:
    """Return a product with a matrix whose columns are blocks of small whole numbers, each with its scale."""
    k, n = call.take("K"), call.take("N")
    bits, size = call.take("bits", 4), call.take("block_size")
    if call.take("accuracy_level", 0) > 1:
        _note(
            call,
            "ONNX Runtime may round what the file's MatMulNBits multiply to fewer bits (`accuracy_level`); "
            "they are read, and compared, as products of floats",
        )
    call.take("weight_prepacked")
    packed, scales = call.array(1), call.array(2)
    if packed is None or scales is None:
        raise call.unsupported("expected weights and scales that the file holds")
    if bits not in (2, 4, 8):
        raise call.unsupported(f"expected whole numbers of 2, 4 or 8 bits, got {bits} bits")
    blocks = -(-k // size)
    zeros, groups = call.array(3), call.array(4)
    if call.optional(4) is not None and (groups is None or groups.min() < 0 or groups.max() >= blocks):
        raise call.unsupported("expected groups that the file holds, below the number of blocks")
    if groups is not None and zeros is not None and zeros.dtype == np.uint8:
        raise call.unsupported(
            "expected no whole zero points beside groups, which ONNX Runtime leaves out on the CPU",
            hint="store the zero points as floats, or the rows in the order of their groups",
        )
    if call.optional(3) is not None and zeros is None:
        raise call.unsupported("expected zero points that the file holds")
    whole = _unpacked(packed.reshape(n, blocks, -1), bits)[:, :, :size]
    if zeros is None:
        zero = np.full((n, blocks, 1), 2 ** (bits - 1), np.float32)
    elif zeros.dtype == np.uint8:
        zero = _unpacked(zeros.reshape(n, -1), bits)[:, :blocks, None].astype(np.float32)
    else:
        zero = zeros.reshape(n, blocks, 1).astype(np.float32)
    dtype = numpy_dtype(call.dtype(0))
    scale = scales.reshape(n, blocks, 1).astype(np.float32)
    if groups is not None:  # the block of each row, whose scale and zero point it has
        whole, zero, scale = whole.reshape(n, -1)[:, :k], zero[:, groups[:k], 0], scale[:, groups[:k], 0]
    wide = (whole.astype(np.float32) - zero) * scale
    weight = np.ascontiguousarray(wide.reshape(n, -1)[:, :k].T.astype(dtype))
    _note_width(call, bits, call.dtype(0))
    product = call.op("MatMul", call.value(0), call.constant(weight))
    bias = call.optional(5)
    return product if bias is None else call.op("Add", product, bias)


_FLOATS_OF_4_BITS = [0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4]  # and eight of the other sign
_QUANTILES = [
    *(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0),
    *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
]  # of a normal distribution, bitsandbytes' NF4


@DECODERS.op("MatMulBnb4")
def matmul_of_bitsandbytes(call: Call) -> Value:
    """Return a product with a matrix of 4-bit numbers, whose blocks each have a largest magnitude."""
    k, n, size, kind = (call.take(name) for name in ("K", "N", "block_size", "quant_type"))
    packed, largest = call.array(1), call.array(2)
    call.take("training_mode")
    if packed is None or largest is None or not call.take("transB", 1) or kind not in (0, 1):
        raise call.unsupported("expected weights of FP4 or NF4, transposed, that the file holds")
    table = np.array(_QUANTILES if kind else [*_FLOATS_OF_4_BITS, *(-x for x in _FLOATS_OF_4_BITS)])
    codes = np.stack([packed.ravel() >> 4, packed.ravel() & 15], -1).ravel()[: k * n]
    wide = table.astype(np.float32)[codes] * np.repeat(largest.astype(np.float32), size)[: k * n]
    weight = np.ascontiguousarray(wide.reshape(n, k).T.astype(numpy_dtype(call.dtype(0))))
    _note_width(call, 4, call.dtype(0))
    return call.op("MatMul", call.value(0), call.constant(weight))


def _note_width(call: Call, bits: int, dtype: str) -> None:
    _note(call, f"weights of {bits} bits in the file, of its {call.operator}, are {dtype} in the graph")


def _note(call: Call, note: str) -> None:
    if note not in call.graph.origin.notes:
        call.graph.origin.notes.append(note)


@DECODERS.op("GatherBlockQuantized")
def gather_of_few_bits(call: Call) -> Value:
    """Return rows of a table that holds small whole numbers and a scale for each block of them."""
    stored, scales, zeros = call.array(0), call.array(2), call.array(3)
    if stored is None or scales is None or (zeros is None and call.optional(3) is not None):
        raise call.unsupported("expected a table, scales and zero points that the file holds")
    rank, size = stored.ndim, call.take("block_size", 128)
    axis, gathered = call.take("quantize_axis", 1) % rank, call.take("gather_axis", 0)
    bits, is_packed = call.take("bits", 4), stored.dtype == np.uint8
    if axis != rank - 1 or (is_packed and bits not in (2, 4, 8)):
        raise call.unsupported("expected blocks on the last axis, of whole numbers of 2, 4 or 8 bits")
    whole = _unpacked(stored, bits) if is_packed else stored
    if zeros is not None:
        zero = (_unpacked(zeros, bits)[..., : scales.shape[-1]] if is_packed else zeros).astype(np.float32)
    else:
        zero = np.full(scales.shape, 2 ** (bits - 1) if is_packed else 0, np.float32)
    width = whole.shape[-1]
    scale, zero = (np.repeat(each, size, -1)[..., :width] for each in (scales.astype(np.float32), zero))
    table = ((whole.astype(np.float32) - zero) * scale).astype(scales.dtype)
    _note_width(call, bits if is_packed else 4, call.dtype(2))
    return call.op("Gather", call.constant(table), call.value(1), axis=gathered)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Return the whole numbers of bytes along the last axis, those of the low bits first."""
    each = [packed >> shift & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(each, -1).reshape(*packed.shape[:-1], -1)


@DECODERS.op("GroupQueryAttention")
def group_query_attention(call: Call) -> list[Value]:
    """Return attention of more queries than keys, behind a cache, each row as long as it is said to be."""
    heads, groups = call.take("num_heads"), call.take("kv_num_heads")
    smooth, sinks = call.take("smooth_softmax", 0), call.optional(11)
    for name in ("qk_output", "k_quant_type", "v_quant_type"):
        if call.take(name, 0) not in (0, -1, "NONE", b"NONE"):
            raise call.unsupported(f"expected attention without `{name}`")
    for name in ("qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon", "kv_cache_bit_width"):
        call.take(name)
    if any(operand is not None for operand in call.operands[12:]) or not call.take("causal", 1):
        raise call.unsupported("expected causal attention of floats, without norms of queries and keys")
    if call.take("sliding_window_cache", 0):
        raise call.unsupported("expected a cache of all keys and values")
    if any(call.node.output[3:]):
        raise call.unsupported("expected attention without scores as outputs")
    q, k, v = _projections(call, heads, groups)
    lengths = call.op("Reshape", call.op("Cast", call.value(5), to=7), call.ints([-1]))
    length = _size(call, q, 2)
    before = call.op(
        "Max", call.op("Sub", call.op("Add", lengths, call.constant(1)), length), call.constant(0)
    )
    before = call.op("Unsqueeze", before, call.ints([1]))  # (batch, 1): the tokens before these
    steps = call.op("Range", call.constant(0), length, call.constant(1))
    places = call.op("Add", before, steps)  # (batch, length)
    if call.take("do_rotary", 0):
        q, k = _rotated(call, q, k, places)
    else:
        call.take("rotary_interleaved")
    keys, values = (_cached(call, slot, new, before) for slot, new in ((3, k), (4, v)))
    bias = _hidden(call, q, keys, places, lengths)
    size, scale, cap = size_of_heads(call, q), call.take("scale"), call.take("softcap", 0.0)
    k, v = (_repeated(call, x, groups, heads, size) for x in (keys, values))
    if sinks is not None:
        sinks = call.op("Reshape", sinks, call.ints([1, heads, 1, 1]))
    elif smooth == 1:
        sinks = call.op("Reshape", call.scalar_like(0.0, q), call.ints([1, 1, 1, 1]))
    y = attend(call, q, k, v, bias, scale, width=size, cap=cap, sinks=sinks)
    return [y, keys, values]


def _projections(call: Call, heads: int, groups: int) -> tuple[Value, Value, Value]:
    """Return query, keys and values as (batch, heads, length, size)."""
    q, k, v = call.value(0), call.optional(1), call.optional(2)
    if k is None or v is None:
        size = width_of(call, q) // (heads + 2 * groups)
        parts = call.ints([heads * size, groups * size, groups * size])
        q, k, v = call.ops("Split", q, parts, outputs=3, axis=-1)
    return heads_apart(call, q, heads), heads_apart(call, k, groups), heads_apart(call, v, groups)


def _size(call: Call, value: Value, axis: int) -> Value:
    return call.op("Gather", call.op("Shape", value), call.constant(axis), axis=0)


def _rotated(call: Call, q: Value, k: Value, places: Value) -> tuple[Value, Value]:
    cosines, sines, given = call.value(7), call.value(8), call.optional(9)
    width, size = call.graph.known_type(cosines).shape, call.graph.known_type(q).shape
    if width is None or size is None or not isinstance(width[-1], int):
        raise call.unsupported("expected tables of a static width")
    how: dict[str, Any] = {"interleaved": call.take("rotary_interleaved", 0)}
    if size[3] != 2 * width[-1]:
        how["rotary_embedding_dim"] = 2 * width[-1]
    places = places if given is None else given
    q, k = (call.op("RotaryEmbedding", x, cosines, sines, places, **how) for x in (q, k))
    return q, k


def _cached(call: Call, slot: int, new: Value, before: Value) -> Value:
    """Return a cache with what is new behind the tokens that each row has, and zeros after them."""
    past = call.optional(slot)
    if past is None:
        return new
    both = call.op("Concat", past, new, axis=2)
    room = _size(call, past, 2)
    total = call.op("Reshape", call.op("Cast", call.value(6), to=7), call.ints([]))
    length = call.op("Max", room, total)  # a cache with room for more keeps its length
    every = call.op("Range", call.constant(0), length, call.constant(1))
    later = call.op("Min", call.op("Sub", call.op("Add", every, room), before), _last(call, both))
    index = call.op("Where", call.op("Less", every, before), every, later)  # (batch, all)
    index = call.op("Unsqueeze", index, call.ints([1, 3]))
    shape = call.op("Shape", both)
    lead = call.op("Slice", shape, call.ints([0]), call.ints([2]))
    width = call.op("Slice", shape, call.ints([3]), call.ints([4]))
    sizes = call.op("Concat", lead, call.op("Unsqueeze", length, call.ints([0])), width, axis=0)
    found = call.op("GatherElements", both, call.op("Expand", index, sizes), axis=2)
    ends = call.op("Add", before, _size(call, new, 2))
    beyond = call.op("Unsqueeze", call.op("GreaterOrEqual", every, ends), call.ints([1, 3]))
    return call.op("Where", beyond, call.scalar_like(0.0, found), found)


def _last(call: Call, value: Value) -> Value:
    return call.op("Sub", _size(call, value, 2), call.constant(1))


def _hidden(call: Call, q: Value, keys: Value, places: Value, lengths: Value) -> Value:
    """Return what is added to scores: the least number there is where a key is hidden from a query."""
    window = call.take("local_window_size", -1)
    every = call.op("Range", call.constant(0), _size(call, keys, 2), call.constant(1))
    rows = call.op("Unsqueeze", places, call.ints([1, 3]))  # (batch, 1, length, 1)
    ends = call.op("Unsqueeze", lengths, call.ints([1, 2, 3]))  # the last key that a row has
    hidden = call.op("Greater", every, call.op("Min", rows, ends))
    if window >= 0:
        first = call.op("Sub", rows, call.constant(window))
        hidden = call.op("Or", hidden, call.op("LessOrEqual", every, first))
    least = call.scalar_like(float(np.finfo(numpy_dtype(call.graph.known_type(q).dtype)).min), q)
    added = call.optional(10)
    return call.op("Where", hidden, least, call.scalar_like(0.0, q) if added is None else added)


def _repeated(call: Call, value: Value, groups: int, heads: int, size: int) -> Value:
    """Return keys or values of groups as of all heads: each group's for its queries."""
    if groups == heads:
        return value
    apart, shape = call.op("Unsqueeze", value, call.ints([2])), call.op("Shape", value)
    lead = call.op("Slice", shape, call.ints([0]), call.ints([2]))
    rest = call.op("Slice", shape, call.ints([2]), call.ints([4]))
    wide = call.op("Expand", apart, call.op("Concat", lead, call.ints([heads // groups]), rest, axis=0))
    return call.op("Reshape", wide, call.ints([0, heads, -1, size]))
