"""The batch of a symbol: axis 0 is symbolic where several sizes prove it, and only there."""

import json

import numpy as np
import pytest

from regraft.frontends.mxnet_symbol import read
from regraft.frontends.options import LoadOptions
from regraft.ir import ModelError, validate
from regraft.verification import verify

from ..corpora.mxnet.cases import cases
from ..passes.oracle import evaluate


def loaded(folder, operators, inputs, **options):
    """The graph of a chain of operators: (op, attributes, names of the inputs); the last is the output."""
    nodes, numbers = [], {}
    for name in inputs:
        numbers[name] = len(nodes)
        nodes.append({"op": "null", "name": name, "inputs": []})
    for at, (op, attributes, names) in enumerate(operators):
        attrs = {k: str(v) for k, v in attributes.items()}
        nodes.append(
            {"op": op, "name": f"n{at}", "attrs": attrs, "inputs": [[numbers[n], 0, 0] for n in names]}
        )
        numbers[f"n{at}"] = len(nodes) - 1
    symbol = {
        "nodes": nodes,
        "arg_nodes": list(range(len(inputs))),
        "heads": [[len(nodes) - 1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    path = folder / "net-symbol.json"
    path.write_text(json.dumps(symbol), encoding="utf-8")
    given = [(n, np.random.default_rng(0).random(s).astype(np.float32)) for n, s in inputs.items()]
    graph = read(path, given, LoadOptions(**options))
    validate(graph)
    return graph


def shapes(graph):
    """Of the inputs and the output."""
    (_, output), *_ = graph.outputs
    return [list(n.type.shape) for n in graph.input_nodes()], list(graph.known_type(output).shape)


def is_fixed(graph):
    return any("the batch size is fixed" in note for note in graph.origin.notes)


def test_a_squeeze_of_every_axis_of_one_takes_a_batch_of_one(tmp_path):
    """MXNet gives (3,) at batch 1 and (2, 3) at batch 2: no one symbolic graph does both."""
    graph = loaded(tmp_path, [("squeeze", {}, ["data"])], {"data": (1, 1, 1, 3)})
    assert shapes(graph) == ([[1, 1, 1, 3]], [3])
    assert is_fixed(graph)
    assert evaluate(graph, np.ones((1, 1, 1, 3), np.float32))[0].shape == (3,)
    graph = loaded(tmp_path, [("squeeze", {}, ["data"])], {"data": (2, 1, 1, 3)})
    assert shapes(graph) == ([["N", 1, 1, 3]], ["N", 3])
    assert not is_fixed(graph)
    graph = loaded(tmp_path, [("squeeze", {"axis": "(1, 2)"}, ["data"])], {"data": (1, 1, 1, 3)})
    assert shapes(graph) == ([["N", 1, 1, 3]], ["N", 3])


def test_a_squeeze_without_an_axis_is_another_function_of_a_batch_of_one(tmp_path):
    graph = loaded(tmp_path, [("squeeze", {}, ["x"])], {"x": (2, 1, 3)})
    assert shapes(graph) == ([["N", 1, 3]], ["N", 3])
    ((symbol, size, why),) = graph.origin.otherwise
    assert (symbol, size) == ("N", 1)
    assert any(why in note for note in graph.origin.notes)
    found = verify(graph, graph)
    assert found.passed
    assert any("N=1" in note for note in found.notes)


def test_a_squeeze_of_one_axis_is_the_same_function_of_a_batch_of_one(tmp_path):
    graph = loaded(tmp_path, [("squeeze", {"axis": 1}, ["x"])], {"x": (2, 1, 3)})
    assert not graph.origin.otherwise


def test_indices_as_many_as_the_batch_are_no_batch(tmp_path):
    inputs = {"data": (2, 5, 6), "indices": (2, 4)}
    graph = loaded(tmp_path, [("gather_nd", {}, ["data", "indices"])], inputs)
    assert shapes(graph) == ([["N", 5, 6], [2, 4]], [4, 6])
    assert not is_fixed(graph)
    found = evaluate(graph, np.ones((2, 5, 6), np.float32), np.zeros((2, 4), np.float32))
    assert found[0].shape == (4, 6)


def test_a_weight_with_as_many_filters_as_the_batch_is_no_batch(tmp_path):
    attributes = {"kernel": "(3, 3)", "num_filter": 2, "no_bias": True}
    inputs = {"data": (2, 2, 8, 8), "kernel": (2, 2, 3, 3)}
    graph = loaded(tmp_path, [("Convolution", attributes, ["data", "kernel"])], inputs)
    assert shapes(graph) == ([["N", 2, 8, 8], [2, 2, 3, 3]], ["N", 2, 6, 6])
    assert not is_fixed(graph)


def test_of_three_inputs_of_one_size_the_one_that_is_no_batch_is_left_out(tmp_path):
    attributes = {"kernel": "(1, 1)", "num_filter": 3, "no_bias": True}
    operators = [("elemwise_add", {}, ["data", "other"]), ("Convolution", attributes, ["n0", "kernel"])]
    inputs = {"data": (3, 4, 8, 8), "kernel": (3, 4, 1, 1), "other": (3, 4, 8, 8)}
    graph = loaded(tmp_path, operators, inputs)
    batches = {node.name: node.type.shape[0] for node in graph.input_nodes()}
    assert batches == {"data": "N", "kernel": 3, "other": "N"}
    assert shapes(graph)[1] == ["N", 3, 8, 8]


def test_two_inputs_that_are_the_batch_both_stay_so(tmp_path):
    graph = loaded(tmp_path, [("elemwise_add", {}, ["a", "b"])], {"a": (2, 3), "b": (2, 3)})
    assert shapes(graph) == ([["N", 3], ["N", 3]], ["N", 3])


def test_a_size_that_is_broadcast_only_at_one_is_no_batch(tmp_path):
    inputs = {"a": (1, 3), "b": (2, 3)}
    graph = loaded(tmp_path, [("broadcast_add", {}, ["a", "b"])], inputs)
    assert shapes(graph) == ([[1, 3], [2, 3]], [2, 3])
    assert is_fixed(graph)


def test_axes_that_are_asked_for_are_proved_too(tmp_path):
    operators, inputs = [("Reshape", {"shape": "(0, -1)"}, ["data-1"])], {"data-1": (2, 3, 4)}
    graph = loaded(tmp_path, operators, inputs, dynamic={"data-1": (0, 2)})
    assert shapes(graph) == ([["N", 3, "data_1_2"]], ["N", "3*data_1_2"])
    graph = loaded(
        tmp_path, [("Reshape", {"shape": "(2, 12)"}, ["data-1"])], inputs, dynamic={"data-1": (2,)}
    )
    assert shapes(graph) == ([[2, 3, 4]], [2, 12])
    assert is_fixed(graph)
    with pytest.raises(ModelError, match="expected an axis below 3"):
        loaded(tmp_path, operators, inputs, dynamic={"data-1": (5,)})
    graph = loaded(tmp_path, operators, inputs, dynamic_batch=False)
    assert shapes(graph) == ([[2, 3, 4]], [2, 12])
    assert not is_fixed(graph)


@pytest.mark.parametrize("name", ["net/lenet", "net/siamese", "net/transformer_batch_dot", "net/unet"])
def test_a_net_keeps_its_batch(tmp_path, name):
    case = cases("models")[name]
    graph = read(case.write(tmp_path), list(case.inputs().items()), LoadOptions())
    assert not is_fixed(graph)
    assert all(n.type.shape[0] == "N" for n in graph.input_nodes())
