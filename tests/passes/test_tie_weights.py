"""Ties that need data: by memory, by value, and what a tie does to values and twins."""

from dataclasses import replace

import numpy as np
import pytest

from regraft.ir import Builder, Graph, Origin, Parameter, TensorData, Value, validate
from regraft.passes import TieWeights

from .oracle import evaluate, input_like


def graph_of(**arrays):
    """A graph whose root holds one parameter per array, each added to the input; storage by memory."""
    graph = Graph()
    root = graph.modules.add("Net")
    call = graph.modules.add_call(root)
    b = Builder(graph, call=call)
    x = input_like(graph, "x", np.zeros((1,), np.float32))
    for name, array in arrays.items():
        base = array if array.base is None else array.base
        value = graph.add_parameter(Parameter(name, name, TensorData.of(array, storage=id(base))))
        graph.modules.module(root).parameters[name] = value.node
        x = b.op("ReduceSum", b.op("Add", x, value), keepdims=0)
    graph.outputs.append(("y", x))
    return graph


def names(graph):
    return sorted(p.name for p in graph.parameters())


def codes(changes):
    return [(change.code, change.fixed) for change in changes]


TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_one_memory_is_one_parameter_without_being_asked():
    graph = graph_of(a=TABLE, b=TABLE)
    expected = evaluate(graph, np.ones(1, np.float32))
    assert codes(TieWeights().run(graph)) == [("TW102", True)]
    validate(graph)
    assert names(graph) == ["a"]
    assert graph.parameter_paths() == {graph.parameters()[0].key: ["a", "b"]}
    assert graph.parameters()[0].absorbed == ("b",)
    np.testing.assert_array_equal(evaluate(graph, np.ones(1, np.float32)), expected)
    assert TieWeights().run(graph) == []


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 0, 1)])
def test_a_view_with_its_axes_in_another_order_becomes_a_transpose(axes):
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    graph = graph_of(a=cube, b=cube.transpose(axes))
    graph.outputs.append(("b", Value(graph.parameters()[1].key)))
    expected = evaluate(graph, np.ones(1, np.float32))
    assert codes(TieWeights().run(graph)) == [("TW106", True)]
    validate(graph)
    assert names(graph) == ["a"]
    turned = [node for node in graph.operators() if node.op_type == "Transpose"]
    assert all(node.ints("perm") == list(axes) for node in turned)
    for got, want in zip(evaluate(graph, np.ones(1, np.float32)), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    assert TieWeights().run(graph) == []


@pytest.mark.parametrize("view", [TABLE[:1], TABLE.reshape(3, 2)])
def test_another_view_of_one_memory_is_reported_and_stays(view):
    graph = graph_of(a=TABLE, b=view)
    assert codes(TieWeights().run(graph)) == [("TW103", False)]
    assert names(graph) == ["a", "b"]


def test_two_slices_of_one_memory_are_two_parameters_even_when_equal():
    twice = np.concatenate([TABLE, TABLE])
    graph = graph_of(a=twice[:2], b=twice[2:])
    assert codes(TieWeights().run(graph)) == [("TW103", False), ("TW104", False)]
    assert names(graph) == ["a", "b"]


def test_equal_values_are_a_coincidence_until_somebody_says_otherwise():
    graph = graph_of(a=TABLE, b=TABLE.copy(), c=TABLE + 1)
    changes = TieWeights().run(graph)
    assert codes(changes) == [("TW104", False)]
    assert "`a`, `b`" in changes[0].message
    assert names(graph) == ["a", "b", "c"]
    assert codes(TieWeights(by="value").run(graph)) == [("TW101", True)]
    assert names(graph) == ["a", "c"]
    assert TieWeights(by="value").run(graph) == []


def test_values_in_a_file_are_equal_to_those_in_memory(tmp_path):
    long = np.arange(1000, dtype=np.float32).reshape(10, 100)
    other = long.copy()
    other[-1, -1] = 0  # which is not among the elements that are looked at first
    graph = graph_of(a=long, b=long.copy(), c=other, d=long + 1)
    path = tmp_path / "weights"
    with path.open("wb") as file:
        file.write(b"head")
        for parameter in graph.parameters():
            if parameter.name != "a":
                start = file.tell()
                parameter.data = replace(parameter.data, place=(path, start))
                file.write(parameter.data.numpy().tobytes())
    changes = TieWeights().run(graph)
    assert codes(changes) == [("TW104", False)]
    assert "`a`, `b` have" in changes[0].message


def test_tensors_of_one_repeated_number_are_never_compared():
    graph = graph_of(a=np.ones(4, np.float32), b=np.ones(4, np.float32))
    assert TieWeights(by="value").run(graph) == []
    assert names(graph) == ["a", "b"]


def test_nothing_is_tied_unasked_with_by_none():
    graph = graph_of(a=TABLE, b=TABLE)
    assert TieWeights(by="none").run(graph) == []


def test_a_tie_of_different_values_keeps_the_first_and_warns():
    graph = graph_of(a=TABLE, b=TABLE + 1)
    (change,) = TieWeights(tie=(("a", "b"),), by="none").run(graph)
    assert change.severity == "warning"
    assert "differ" in change.message
    np.testing.assert_array_equal(graph.parameters()[0].data.numpy(), TABLE)


def test_a_tie_of_three():
    graph = graph_of(a=TABLE, b=TABLE.copy(), c=TABLE.copy())
    TieWeights(tie=(("b", "a", "c"),), by="none").run(graph)
    assert names(graph) == ["b"]
    assert graph.parameters()[0].absorbed == ("a", "c")


def test_a_twin_computes_on_its_own_input_with_the_same_weight():
    kernel = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    graph = graph_of(w=kernel)
    root = 0
    conv = graph.modules.add("Convolution", root, "conv")
    b = Builder(graph, call=graph.modules.add_call(conv, 0))
    data = input_like(graph, "data", kernel)
    graph.outputs = [("loss", b.op("Conv", data, Value(graph.parameters()[0].key)))]
    graph.origin = Origin("mxnet", inputs={"data": kernel})
    TieWeights(twin=(("data", "data2"),)).run(graph)
    validate(graph)
    assert [name for name, _ in graph.outputs] == ["loss", "loss_data2"]
    one, other = evaluate(graph, np.zeros(1, np.float32), kernel, 2 * kernel)
    assert (one.item(), other.item()) == ((kernel**2).sum(), 2 * (kernel**2).sum())
    assert len(graph.parameters()) == 1
    assert len(graph.modules.calls(conv)) == 2
    assert set(graph.origin.inputs) == {"data", "data2"}
    assert TieWeights(twin=(("data", "data2"),)).run(graph) == []
