"""Bodies that ONNX states for its operators, in operators of our opset, computing the same."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from regraft.backends.onnx_model import to_model
from regraft.ir import OPSET, Builder, Graph, InvalidGraphError, TensorType, Value, validate
from regraft.ir.functions.inlining import expand_function
from regraft.ir.functions.stated import has_function, stated_function
from regraft.ir.operators import onnx_schema

DRAW = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def applied(
    op_type: str, *arrays: np.ndarray | list[int] | int | None, outputs: int = 1, **attributes: object
) -> Graph:
    """A graph of one operator on inputs; lists of integers are constants."""
    graph = Graph()
    b = Builder(graph)
    operands: list[Value | None] = []
    for slot, array in enumerate(arrays):
        if isinstance(array, np.ndarray):
            operands.append(graph.add_input(f"x{slot}", TensorType(str(array.dtype), array.shape)))
        else:
            operands.append(None if array is None else b.constant(np.asarray(array, np.int64)))
    for number, value in enumerate(b.ops(op_type, *operands, outputs=outputs, **attributes)):
        graph.outputs.append((f"y{number}", value))
    return graph


def computed(graph: Graph, *arrays: object) -> list[np.ndarray]:
    feeds = {f"x{slot}": array for slot, array in enumerate(arrays) if isinstance(array, np.ndarray)}
    return list(ReferenceEvaluator(to_model(graph)).run(None, feeds))


CASES = {
    "attention": (
        "Attention",
        (normal(2, 4, 3, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 6)),
        1,
        {"is_causal": 1},
    ),
    "attention of rows": (
        "Attention",
        (normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8), normal(3, 5)),
        1,
        {"q_num_heads": 2, "kv_num_heads": 2, "softcap": 2.0},
    ),
    "layer norm": ("LayerNormalization", (normal(2, 3, 4), normal(3, 4), normal(3, 4)), 3, {"axis": 1}),
    "negative log": (
        "NegativeLogLikelihoodLoss",
        (normal(3, 5, 2), np.array([[0, 4], [2, 1], [1, 1]]), normal(5)),
        1,
        {"ignore_index": 1},
    ),
    "cross entropy": (
        "SoftmaxCrossEntropyLoss",
        (normal(3, 5), np.array([0, 4, 2])),
        2,
        {"reduction": "sum"},
    ),
    "crop": ("CenterCropPad", (normal(5, 7), [7, 4]), 1, {}),
    "window": ("HannWindow", (6,), 1, {}),
    "rotary": (
        "RotaryEmbedding",
        (normal(2, 3, 4, 6), normal(9, 3), normal(9, 3), np.array([[0, 1, 2, 3], [4, 5, 6, 8]])),
        1,
        {"interleaved": 1},
    ),
    "clip": ("Clip", (normal(3, 4), np.float32([-0.5]).reshape(()), np.float32([0.5]).reshape(())), 1, {}),
    "mvn": ("MeanVarianceNormalization", (normal(2, 3, 4, 5),), 1, {"axes": [0, 2, 3]}),
    "cast": ("CastLike", (normal(3), np.zeros(1, np.int64)), 1, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_body_computes_what_the_operator_does(case):
    op_type, arrays, outputs, attributes = CASES[case]
    graph = applied(op_type, *arrays, outputs=outputs, **attributes)
    expected = computed(graph, *arrays)
    before = graph.known_type(graph.outputs[0][1])
    (operator,) = graph.operators()
    assert expand_function(graph, operator.key)
    validate(graph)
    assert op_type not in {node.op_type for node in graph.operators()}
    assert graph.known_type(graph.outputs[0][1]) == before
    for found, wanted in zip(computed(graph, *arrays), expected, strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_known_sizes_are_numbers_and_unknown_ones_are_computed():
    graph = applied("Attention", *(normal(2, 2, 3, 8) for _ in range(3)))
    assert expand_function(graph, graph.operators()[0].key)
    assert "Shape" not in {node.op_type for node in graph.operators()}
    graph = Graph()
    rows = [graph.add_input(name, TensorType("float32", ("N", 2, "L", 8))) for name in "qkv"]
    graph.outputs.append(("y", Builder(graph).op("Attention", *rows)))
    assert expand_function(graph, graph.operators()[0].key)
    validate(graph)
    for length in (3, 5):
        given = {name: normal(2, 2, length, 8) for name in "qkv"}
        (found,) = ReferenceEvaluator(to_model(graph)).run(None, given)
        scores = given["q"] @ given["k"].swapaxes(2, 3) / np.sqrt(np.float32(8))
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        np.testing.assert_allclose(found, weights @ given["v"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op_type", ["Relu6", "Conv", "Sin"])
def test_an_operator_without_a_body_is_left_alone(op_type):
    assert not has_function(op_type)


def test_a_body_with_a_loop_is_left_alone_and_leaves_nothing_behind():
    scalars = [np.zeros((), np.int64)] * 3
    graph = applied("Range", *scalars)
    before = str(graph)
    assert has_function("Range", OPSET)
    assert not expand_function(graph, graph.operators()[0].key)
    assert str(graph) == before


def test_stated_bodies_are_of_operators_of_our_opset():
    """A body of an older opset is built as it stands: its nodes must be valid in ours."""
    judged = 0
    for name in {s.name for s in onnx.defs.get_all_schemas() if not s.domain and has_function(s.name)}:
        try:
            schema = onnx_schema(name)
        except InvalidGraphError:  # younger than our opset: the frontend's adapters read those
            continue
        if schema.has_context_dependent_function or not schema.has_function:
            continue
        function = stated_function(onnx.NodeProto(op_type=name), OPSET, [])
        assert function is not None
        for node in function.node:
            known = onnx_schema(node.op_type)
            assert {a.name for a in node.attribute} <= set(known.attributes), (name, node.op_type)
            assert known.min_input <= len(node.input) <= known.max_input, (name, node.op_type)
        judged += 1
    assert judged > 20
