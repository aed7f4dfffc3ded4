"""Operators of decoders with a cache, of ONNX Runtime's own domain, against ONNX Runtime itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession

import regraft
from regraft.backends.onnx_model import to_model
from regraft.ir import UnsupportedError

DRAW = np.random.default_rng(0)
HEADS, GROUPS, SIZE = 4, 2, 16


def drawn(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Whole numbers in bytes, the first in the low bits."""
    parts = numbers.reshape(*numbers.shape[:-1], -1, 8 // bits).astype(np.uint16)
    return sum(parts[..., i] << bits * i for i in range(8 // bits)).astype(np.uint8)


def made(
    operator: str,
    operands: list[np.ndarray | None],
    attributes: dict[str, Any],
    inputs: list[int],
    outputs: int,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one operator, and the values of its inputs; other operands are initializers."""
    names = ["" if each is None else f"v{at}" for at, each in enumerate(operands)]
    given = {names[at]: each for at in inputs if (each := operands[at]) is not None}
    info = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in given.items()
    ]
    stored = [
        numpy_helper.from_array(np.asarray(each), names[at])
        for at, each in enumerate(operands)
        if each is not None and names[at] not in given
    ]
    ends = [f"y{at}" for at in range(outputs)]
    node = helper.make_node(operator, names, ends, "node", domain="com.microsoft", **attributes)
    ends = [helper.make_empty_tensor_value_info(name) for name in ends]
    graph = helper.make_graph([node], "net", info, ends, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), given


def compare(proto: onnx.ModelProto, given: dict[str, np.ndarray]) -> None:
    """Compare a model with what regraft writes of it, both in ONNX Runtime."""
    wanted = InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    written = to_model(regraft.load(proto, given))
    assert not any(node.domain == "com.microsoft" for node in written.graph.node)
    session = InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    for a, b in zip(session.run(None, dict(zip(names, given.values(), strict=True))), wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6 * max(1.0, float(np.abs(b).max())))


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
}


def attention(
    *, batch: int = 1, length: int = 1, past: int = 0, lengths: list[int] | None = None, **how: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    total, bias = how.pop("total", past + length), how.pop("bias", False)
    if how.pop("packed", False):
        new: list[np.ndarray | None] = [drawn(batch, length, (HEADS + 2 * GROUPS) * SIZE), None, None]
    else:
        new = [drawn(batch, length, n * SIZE) for n in (HEADS, GROUPS, GROUPS)]
    cache = [drawn(batch, GROUPS, past, SIZE) if past else None for _ in range(2)]
    ends = np.array(lengths or [total - 1] * batch, np.int32)
    angles = drawn(32, SIZE // 2)
    tables = [np.cos(angles), np.sin(angles)] if how.get("do_rotary") else [None, None]
    operands = [*new, *cache, ends, np.array(total, np.int32), *tables, None]
    operands.append(drawn(batch, HEADS, length, total) if bias else None)
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
    ],
)
def test_weights_of_few_bits(bits, rows, columns, block, zeros, bias):
    blocks = -(-rows // block)
    each = DRAW.integers(0, 2**bits, (columns, blocks))
    room = -blocks % (8 // bits)
    zero = {"packed": packed(np.pad(each, ((0, 0), (0, room))), bits), "floats": each.astype(np.float32)}
    weight = packed(DRAW.integers(0, 2**bits, (columns, blocks, block)), bits)
    operands = [drawn(2, 3, rows), weight, np.abs(drawn(columns, blocks)), zero.get(zeros), None]
    operands.append(drawn(columns) if bias else None)
    while operands[-1] is None:
        operands.pop()
    how = {"K": rows, "N": columns, "bits": bits, "block_size": block}
    proto, given = made("MatMulNBits", operands, how, [0], 1)
    compare(proto, given)
    assert any("MatMulNBits" in note for note in regraft.load(proto, given).origin.notes)


def test_other_forms_are_refused():
    proto, given = attention(length=3)
    proto.graph.node[0].attribute.append(helper.make_attribute("smooth_softmax", 1))
    with pytest.raises(UnsupportedError, match="without `smooth_softmax`"):
        regraft.load(proto, given)
    operands: list[np.ndarray | None] = [drawn(2, 32), packed(DRAW.integers(0, 16, (3, 1, 32)), 4)]
    how = {"K": 32, "N": 3, "bits": 4, "block_size": 32}
    proto, given = made("MatMulNBits", [*operands, np.abs(drawn(3, 1))], how, [0, 1], 1)
    with pytest.raises(UnsupportedError, match="weights and scales that the file holds"):
        regraft.load(proto, given)
