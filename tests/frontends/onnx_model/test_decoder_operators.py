"""Operators of decoders with a cache, of ONNX Runtime's own domain, against ONNX Runtime itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import regraft
from regraft.ir import UnsupportedError

from .single_node import compare, made

DRAW = np.random.default_rng(0)
HEADS, GROUPS, SIZE = 4, 2, 16


def drawn(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Whole numbers in bytes, the first in the low bits."""
    parts = numbers.reshape(*numbers.shape[:-1], -1, 8 // bits).astype(np.uint16)
    return sum(parts[..., i] << bits * i for i in range(8 // bits)).astype(np.uint8)


ATTENTION: dict[str, dict[str, Any]] = {
    "a prompt": {"length": 5},
    "a rotated prompt of two": {"batch": 2, "length": 5, "do_rotary": 1},
    "a prompt of other lengths": {"batch": 2, "length": 5, "lengths": [4, 2]},
    "a step": {"batch": 2, "past": 6},
    "a rotated step of pairs": {"batch": 2, "past": 6, "do_rotary": 1, "rotary_interleaved": 1},
    "a step behind other lengths": {"batch": 2, "past": 6, "lengths": [6, 4], "do_rotary": 1},
    "several steps": {"length": 3, "past": 4, "do_rotary": 1},
    "room for more": {"past": 9, "lengths": [4], "total": 5, "do_rotary": 1},
    "a window": {"length": 6, "local_window_size": 3},
    "a window of the cache": {"past": 6, "local_window_size": 3},
    "a soft limit": {"length": 4, "past": 2, "softcap": 2.0},
    "one operand and a scale": {"length": 4, "packed": True, "do_rotary": 1, "scale": 0.3},
    "a bias": {"length": 4, "past": 3, "bias": True},
    "a share for no key": {"length": 4, "smooth_softmax": 1},
    "a sink for each head": {"past": 5, "sinks": True, "do_rotary": 1, "local_window_size": 3},
}


def attention(
    *, batch: int = 1, length: int = 1, past: int = 0, lengths: list[int] | None = None, **how: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    total, bias = how.pop("total", past + length), how.pop("bias", False)
    sinks = how.pop("sinks", False)
    if how.pop("packed", False):
        new: list[np.ndarray | None] = [drawn(batch, length, (HEADS + 2 * GROUPS) * SIZE), None, None]
    else:
        new = [drawn(batch, length, n * SIZE) for n in (HEADS, GROUPS, GROUPS)]
    cache = [drawn(batch, GROUPS, past, SIZE) if past else None for _ in range(2)]
    ends = np.array(lengths or [total - 1] * batch, np.int32)
    angles = drawn(32, SIZE // 2)
    tables = [np.cos(angles), np.sin(angles)] if how.get("do_rotary") else [None, None]
    operands = [*new, *cache, ends, np.array(total, np.int32), *tables, None]
    operands += [drawn(batch, HEADS, length, total) if bias else None, drawn(HEADS) if sinks else None]
    while operands[-1] is None:
        operands.pop()
    how |= {"num_heads": HEADS, "kv_num_heads": GROUPS}
    return made("GroupQueryAttention", operands, how, [0, 1, 2, 3, 4], 3)


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_of_groups_with_its_cache(name):
    compare(*attention(**ATTENTION[name]))


@pytest.mark.parametrize(
    ("bits", "rows", "columns", "block", "zeros", "bias"),
    [
        (4, 64, 5, 32, "packed", False),
        (4, 40, 6, 16, "", True),
        (4, 48, 3, 32, "floats", False),
        (8, 64, 5, 32, "packed", False),
        (2, 64, 4, 32, "packed", False),
        (4, 64, 4, 16, "groups", False),
        (4, 64, 4, 16, "groups and floats", True),
    ],
)
def test_weights_of_few_bits(bits, rows, columns, block, zeros, bias):
    blocks = -(-rows // block)
    each = DRAW.integers(0, 2**bits, (columns, blocks))
    room = -blocks % (8 // bits)
    zero = {"packed": packed(np.pad(each, ((0, 0), (0, room))), bits), "floats": each.astype(np.float32)}
    weight = packed(DRAW.integers(0, 2**bits, (columns, blocks, block)), bits)
    zero["groups and floats"] = zero["floats"]
    operands = [drawn(2, 3, rows), weight, np.abs(drawn(columns, blocks)), zero.get(zeros), None]
    if "groups" in zeros:
        operands[4] = (DRAW.permutation(rows) // block).astype(np.int32)
    operands.append(drawn(columns) if bias else None)
    while operands[-1] is None:
        operands.pop()
    how = {"K": rows, "N": columns, "bits": bits, "block_size": block}
    proto, given = made("MatMulNBits", operands, how, [0], 1)
    compare(proto, given)
    assert any("MatMulNBits" in note for note in regraft.load(proto, given).origin.notes)


def test_products_that_may_be_rounded_to_8_bits_are_compared_as_floats(tmp_path):
    weight = packed(DRAW.integers(0, 16, (6, 4, 16)), 4)
    how = {"K": 64, "N": 6, "bits": 4, "block_size": 16, "accuracy_level": 4}
    proto, given = made("MatMulNBits", [drawn(2, 3, 64), weight, drawn(6, 4)], how, [0], 1)
    graph = regraft.load(proto, given)
    assert any("accuracy_level" in note for note in graph.origin.notes)
    regraft.save(regraft.rewrite(graph, to="torch"), tmp_path / "net", to="torch")
    assert regraft.verify(graph, tmp_path / "net").passed
    assert {a.name: a.i for a in proto.graph.node[0].attribute} == how  # the caller's model is as it was


BATCH, KEYS, WIDTH = 2, 5, 8
BEFORE = [drawn(BATCH, 2, 4, 4), drawn(BATCH, 2, 4, 4)]
PARTS = [drawn(BATCH, 3, WIDTH), drawn(BATCH, KEYS, WIDTH), drawn(BATCH, KEYS, WIDTH)]
LENGTHS = np.array([4, 3], np.int32)
KEPT = np.array([[1, 1, 1, 0, 1], [1, 2, 0, -1, 0]], np.int32)  # what is above 0 is kept
TABLE = DRAW.integers(0, 256, (9, 16)).astype(np.uint8)
PLACES = DRAW.integers(0, 9, (2, 3))
FUSED: dict[str, tuple[str, list[np.ndarray | None], list[int], dict[str, Any], int]] = {
    "lengths of keys": ("MultiHeadAttention", [*PARTS, None, LENGTHS], [0, 1, 2, 4], {"num_heads": 2}, 1),
    "a mask of any numbers": ("MultiHeadAttention", [*PARTS, None, KEPT], [0, 1, 2, 4], {"num_heads": 2}, 1),
    "behind earlier keys": (
        "MultiHeadAttention",
        [*([drawn(BATCH, 2, WIDTH)] * 3), None, None, None, *BEFORE],
        [0, 1, 2, 6, 7],
        {"num_heads": 2, "unidirectional": 1},
        3,
    ),
    "keys in heads": ("MultiHeadAttention", [PARTS[0], *BEFORE], [0, 1, 2], {"num_heads": 2}, 1),
    "a projection behind earlier keys": (
        "Attention",
        [drawn(BATCH, 2, WIDTH), drawn(WIDTH, 24), drawn(24), None, np.stack(BEFORE)],
        [0, 4],
        {"num_heads": 2, "unidirectional": 1},
        2,
    ),
    "a quantised projection": (
        "QAttention",
        [
            DRAW.integers(0, 256, (BATCH, KEYS, WIDTH)).astype(np.uint8),
            # two products with a byte fit 16 bits: ONNX Runtime saturates them on processors without VNNI
            DRAW.integers(-64, 64, (WIDTH, 24)).astype(np.int8),
            *(drawn(24), np.float32(0.02), np.float32(0.01), KEPT, np.uint8(120), np.int8(0)),
        ],
        [0, 5],
        {"num_heads": 2},
        1,
    ),
    "rotation of heads from a place": (
        "RotaryEmbedding",
        [drawn(BATCH, 4, 5, 16), np.array([3]), drawn(9, 8), drawn(9, 8)],
        [0, 1],
        {},
        1,
    ),
    "rows before batches": (
        "FusedMatMul",
        [drawn(3, 2, 4), drawn(2, 4, 5)],
        [0, 1],
        {"transBatchA": 1, "alpha": 0.5},
        1,
    ),
    "a table of 4 bits": (
        "GatherBlockQuantized",
        [TABLE, PLACES, drawn(9, 2)],
        [1],
        {"bits": 4, "block_size": 16, "quantize_axis": 1},
        1,
    ),
    "a table of 8 bits with zeros": (
        "GatherBlockQuantized",
        [TABLE, PLACES, drawn(9, 1), DRAW.integers(0, 256, (9, 1)).astype(np.uint8)],
        [1],
        {"bits": 8, "block_size": 16, "quantize_axis": 1},
        1,
    ),
    "channels last": (
        "QLinearConv",
        [
            DRAW.integers(0, 256, (1, 8, 8, 3)).astype(np.uint8),
            *(np.float32(0.1), np.uint8(120), DRAW.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8)),
            *(np.float32(0.02), np.uint8(128), np.float32(0.3), np.uint8(120)),
            DRAW.integers(-99, 99, 4).astype(np.int32),
        ],
        [0],
        {"channels_last": 1, "pads": [1, 1, 1, 1]},
        1,
    ),
    "no mask": (
        "EmbedLayerNormalization",
        [
            *(PLACES.astype(np.int32), None, drawn(9, 8), drawn(6, 8), None, drawn(8), drawn(8), None),
            np.array([[2, 0, 1], [5, 4, 3]], np.int32),
        ],
        [0, 8],
        {},
        2,
    ),
    "an axis more": ("ExpandDims", [drawn(3, 3), np.array(1, np.int32)], [0], {}, 1),
    "a triangle": ("Trilu", [drawn(4, 4)], [0], {"upper": 0}, 1),
}


@pytest.mark.parametrize("name", FUSED)
def test_what_builders_write_is_what_onnx_runtime_computes(name):
    operator, operands, inputs, how, outputs = FUSED[name]
    compare(*made(operator, operands, how, inputs, outputs))


def test_other_forms_are_refused():
    proto, given = attention(length=3)
    proto.graph.node[0].attribute.append(helper.make_attribute("qk_output", 1))
    with pytest.raises(UnsupportedError, match="without `qk_output`"):
        regraft.load(proto, given)
    proto, given = attention(length=3)
    proto.graph.node[0].attribute.append(helper.make_attribute("causal", 0))
    with pytest.raises(UnsupportedError, match="expected causal attention"):
        regraft.load(proto, given)
    proto.graph.node[0].attribute[-1].CopyFrom(helper.make_attribute("unheard_of", 2))
    with pytest.raises(UnsupportedError, match="an operator without `unheard_of`"):
        regraft.load(proto, given)
    operands: list[np.ndarray | None] = [drawn(2, 32), packed(DRAW.integers(0, 16, (3, 1, 32)), 4)]
    how = {"K": 32, "N": 3, "bits": 4, "block_size": 32}
    proto, given = made("MatMulNBits", [*operands, np.abs(drawn(3, 1))], how, [0, 1], 1)
    with pytest.raises(UnsupportedError, match="weights and scales that the file holds"):
        regraft.load(proto, given)
