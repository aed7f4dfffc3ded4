"""Random groups of operators between transposes, before and after the pass, in the reference evaluator."""

from collections.abc import Callable

import numpy as np
import pytest

from regraft.ir import Builder, Graph, TensorType, Value, validate
from regraft.passes import MoveTransposes

from .oracle import evaluate, parameter

PERMS = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (3, 1, 0, 2)]
Step = Callable[[Builder, Value, np.random.Generator], Value]


def _with_bias(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    size = b.type_of(x).static_shape()[-1]
    return b.op(
        "Add", x, parameter(b.graph, f"b{len(b.graph)}", draw.standard_normal(size).astype(np.float32))
    )


def _with_constant(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    shape = b.type_of(x).static_shape()
    kept = tuple(int(d) if draw.random() < 0.5 else 1 for d in shape)[int(draw.integers(0, 4)) :]
    return b.op("Mul", b.constant(draw.standard_normal(kept).astype(np.float32)), x)


def _padded(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    return b.op("Pad", x, b.constant(draw.integers(0, 3, 8)))


def _sliced(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    axis = int(draw.integers(-4, 4))
    return b.op("Slice", x, b.constant([0]), b.constant([-1]), b.constant([axis]))


def _joined(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    axis = int(draw.integers(-4, 4))
    first, second = b.ops(
        "Split", b.op("Concat", x, b.op("Relu", x), axis=axis), outputs=2, axis=axis, num_outputs=2
    )
    return b.op("Sub", first, second)


def _centred(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    axes = sorted(int(a) for a in draw.choice(4, 2, replace=False))
    return b.op("Sub", x, b.op("ReduceMean", x, b.constant(axes), keepdims=1))


def _normed(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    return b.op("Softmax", x, axis=int(draw.integers(-4, 4)))


def _tiled(b: Builder, x: Value, draw: np.random.Generator) -> Value:
    return b.op("Tile", x, b.constant(draw.integers(1, 3, 4)))


STEPS: list[Step] = [_with_bias, _with_constant, _padded, _sliced, _joined, _centred, _normed, _tiled]


@pytest.mark.parametrize("seed", range(16))
def test_a_random_group_computes_the_same_with_fewer_operators(seed: int) -> None:
    draw = np.random.default_rng(seed)
    perm = PERMS[seed % len(PERMS)]
    back = [int(a) for a in np.argsort(perm)]
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (2, 3, 4, 5)))
    y = b.op("Transpose", x, perm=list(perm))
    for step in draw.choice(len(STEPS), 5, replace=False):
        y = STEPS[step](b, y, draw)
    left = b.op("ReduceMax", y, b.constant([back[0], back[1]]), keepdims=0)
    b.graph.outputs += [("y", b.op("Transpose", y, perm=back)), ("left", left)]
    given = draw.standard_normal((2, 3, 4, 5)).astype(np.float32)
    expected = evaluate(b.graph, given)
    changes = MoveTransposes().run(b.graph)
    validate(b.graph)
    in_order = perm.index(2) < perm.index(3)  # the axes that the maximum leaves
    transposes = sum(node.op_type == "Transpose" for node in b.graph.operators())
    assert (transposes == 0 and changes) if in_order else transposes in (1, 2)
    for got, wanted in zip(evaluate(b.graph, given), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
