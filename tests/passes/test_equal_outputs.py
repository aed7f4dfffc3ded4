"""What passes leave computes what they were given: numbers, on the ONNX reference evaluator."""

import numpy as np
import pytest

from regraft.ir import Builder, Graph, Operator
from regraft.passes import (
    DeduplicateModules,
    EliminateIdentities,
    FoldConstants,
    NormaliseConvPadding,
    PrepareForInference,
)

from .oracle import evaluate, input_like, parameter


def operators(graph):
    return [node.op_type for node in graph.operators()]


def same_outputs(graph, pass_, *arrays, rtol=1e-5):
    """Run the pass and compare; a second run must change nothing."""
    expected = evaluate(graph, *arrays)
    changes = pass_.run(graph)
    for before, after in zip(expected, evaluate(graph, *arrays), strict=True):
        assert before.shape == after.shape
        np.testing.assert_allclose(after, before, rtol=rtol, atol=1e-5)
    assert not any(change.fixed for change in pass_.run(graph))
    return changes


def padded(op_type, random, *, pad, value=None, **attributes):
    """x -> Pad -> a window of 3 with stride 2, as a graph and an input."""
    x = (random.standard_normal((1, 2, 7, 8)) - 2).astype(np.float32)
    b = Builder(Graph())
    fill = None if value is None else b.constant(np.asarray(value, np.float32))
    y = b.op("Pad", input_like(b.graph, "x", x), b.constant(pad), fill)
    if op_type == "Conv":
        weight = parameter(b.graph, "w", random.standard_normal((3, 2, 3, 3)).astype(np.float32))
        z = b.op("Conv", y, weight, strides=[2, 2], **attributes)
    else:
        z = b.op(op_type, y, kernel_shape=[3, 3], strides=[2, 2], **attributes)
    b.graph.outputs.append(("z", z))
    return b.graph, x


@pytest.mark.parametrize("pads", [None, [1, 0, 0, 1], [2, 2, 2, 2]])
@pytest.mark.parametrize("pad", [[0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 2, 0, 0, 1, 0]])
@pytest.mark.parametrize(
    ("op_type", "value", "more"),
    [
        ("Conv", None, {}),
        ("Conv", 0.0, {"dilations": [2, 1]}),
        ("AveragePool", None, {"count_include_pad": 1}),
        ("AveragePool", None, {"count_include_pad": 0}),
        ("AveragePool", None, {"count_include_pad": 1, "ceil_mode": 1}),
        ("MaxPool", -np.inf, {}),
        ("MaxPool", -np.inf, {"ceil_mode": 1}),
        ("MaxPool", 0.0, {}),
    ],
)
def test_a_pad_is_folded_only_where_that_is_exact(op_type, value, more, pad, pads):
    graph, x = padded(op_type, np.random.default_rng(0), pad=pad, value=value, pads=pads, **more)
    same_outputs(graph, NormaliseConvPadding(), x)
    must_stay = (op_type, value) == ("MaxPool", 0.0) or more.get("ceil_mode")
    if must_stay:
        assert "Pad" in operators(graph)
    elif op_type == "Conv" or pads is None:
        assert "Pad" not in operators(graph)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose", "regraft.Linear"])
def test_a_norm_folds_into_the_layer_before_it(op_type, bias):
    random = np.random.default_rng(1)

    def draw(*shape):
        return random.standard_normal(shape).astype(np.float32)

    x = draw(2, 4, 5, 5) if op_type != "regraft.Linear" else draw(3, 4)
    shape = {"Conv": (6, 4, 3, 3), "ConvTranspose": (4, 6, 2, 2), "regraft.Linear": (6, 4)}[op_type]
    b = Builder(Graph())
    operands = [parameter(b.graph, "fc.weight", draw(*shape))]
    operands += [parameter(b.graph, "fc.bias", draw(6))] if bias else []
    y = b.op(op_type, input_like(b.graph, "x", x), *operands)
    norm = [
        parameter(b.graph, name, np.abs(draw(6)) + 0.5 if name == "var" else draw(6))
        for name in ("gamma", "beta", "mean", "var")
    ]
    b.graph.outputs.append(("y", b.op("BatchNormalization", y, *norm, epsilon=1e-3)))
    changes = same_outputs(b.graph, PrepareForInference(), x, rtol=1e-4)
    assert [change.code for change in changes] == ["PI101"]
    assert operators(b.graph) == [op_type.rpartition(".")[2]]
    assert sorted(p.name for p in b.graph.parameters()) == ["fc.bias", "fc.weight"]


def test_a_norm_over_another_axis_than_the_layers_channels_stays():
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 6, 6)).astype(np.float32)
    b = Builder(Graph())
    weight = parameter(b.graph, "w", random.standard_normal((6, 6)).astype(np.float32))
    y = b.op("regraft.Linear", input_like(b.graph, "x", x), weight)
    norm = [parameter(b.graph, n, np.abs(random.standard_normal(6)).astype(np.float32)) for n in "gbmv"]
    b.graph.outputs.append(("y", b.op("BatchNormalization", y, *norm)))
    assert same_outputs(b.graph, PrepareForInference(), x) == []


def random_program(seed, size=30):
    """Elementwise operators on random operands, many of them repeated: as in torch.fx's CSE test."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((3, 4)).astype(np.float32)
    b = Builder(Graph())
    values = [input_like(b.graph, "x", x)]
    for _ in range(size):
        op_type = str(random.choice(["Add", "Mul", "Tanh", "Sigmoid", "Identity", "constant"]))
        first, second = (values[int(i)] for i in random.integers(0, len(values), 2))
        if op_type == "constant":
            values.append(b.op("Add", first, b.constant(float(random.integers(0, 3)))))
        elif op_type in ("Add", "Mul"):
            values.append(b.op(op_type, b.op("Tanh", first), second))
        else:
            values.append(b.op(op_type, first))
    b.graph.outputs += [("y", values[-1]), ("z", b.op("Sum", *values[1:]))]
    return b.graph, x


@pytest.mark.parametrize("seed", range(10))
def test_repeated_computations_go_one_operator_a_change(seed):
    graph, x = random_program(seed)
    before = len(operators(graph))
    changes = same_outputs(graph, DeduplicateModules(), x)
    assert changes
    assert len(operators(graph)) == before - len(changes)
    described = {
        (n.op_type, *graph.operands(n.key))
        for n in graph.operators()
        if not any(graph.constant_value(v) is not None for v in graph.operands(n.key))
    }
    plain = [
        n
        for n in graph.operators()
        if not any(graph.constant_value(v) is not None for v in graph.operands(n.key))
    ]
    repeated = len(plain) - len(described)
    assert repeated <= 1  # at most the one that is an output of its own


@pytest.mark.parametrize("seed", range(10))
def test_identities_go_one_operator_a_change(seed):
    graph, x = random_program(seed)
    before = operators(graph)
    changes = same_outputs(graph, EliminateIdentities(), x)
    assert len(operators(graph)) == len(before) - len(changes)
    for node in graph.operators():
        if node.op_type == "Identity":
            (operand,) = graph.operands(node.key)
            assert graph.is_output(operand) or not isinstance(graph.producer(operand), Operator)


def test_constants_fold_to_what_the_operators_give():
    b = Builder(Graph())
    x = np.ones((2, 6), np.float32)
    value = input_like(b.graph, "x", x)
    table = b.op("Mul", b.op("Range", b.constant(0.0), b.constant(6.0), b.constant(1.0)), b.constant(0.5))
    shape = b.op("Concat", b.constant([-1]), b.op("Cast", b.constant([3.0]), to=7), axis=0)
    b.graph.outputs.append(("y", b.op("Reshape", b.op("Add", value, table), shape)))
    changes = same_outputs(b.graph, FoldConstants(), x)
    assert {change.code for change in changes} == {"CF101"}
    assert operators(b.graph) == ["Add", "Reshape"]
