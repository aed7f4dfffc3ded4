"""Inputs made for a comparison fit what the graph does with them."""

import numpy as np
import pytest

from regraft.ir import Builder, Graph, TensorType, UsageError, Value
from regraft.verification.inputs import add_nonfinite, bindings, make_inputs, other_sizes, resize_inputs
from regraft.verification.meaning import notes_of, with_meaning


def lookup(rows: int = 50) -> Graph:
    """Two tables; the second is reached by way of a cast and a reshape, from float indices."""
    graph = Graph()
    b = Builder(graph)
    ids = graph.add_input("ids", TensorType("int64", ("N", 7)))
    floats = graph.add_input("floats", TensorType("float32", ("N", 3)))
    x = graph.add_input("x", TensorType("float32", ("N", "S")))
    table = b.constant(np.zeros((rows, 4), np.float32))
    small = b.constant(np.zeros((5, 4), np.float32))
    first = b.op("Gather", table, ids, axis=0)
    indices = b.op("Reshape", b.op("Cast", floats, to=7), b.constant([-1]))
    graph.outputs = [("a", first), ("b", b.op("Gather", small, indices, axis=0)), ("c", b.op("Relu", x))]
    graph.origin.inputs = {
        "ids": np.zeros((4, 7), np.int64),
        "floats": np.zeros((4, 3), np.float32),
        "x": np.zeros((4, 6), np.float32),
    }
    return graph


def test_indices_lie_in_their_table_and_use_it() -> None:
    graph = lookup()
    arrays = make_inputs(graph, bindings(graph))
    assert arrays["ids"].min() >= 0
    assert 5 < arrays["ids"].max() < 50
    assert set(np.unique(arrays["floats"])) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert arrays["floats"].dtype == np.float32


def test_floats_are_standard_normal_and_seeded() -> None:
    graph = lookup()
    sizes = {"N": 200, "S": 50}
    x = make_inputs(graph, sizes, seed=3)["x"]
    assert x.shape == (200, 50)
    assert abs(x.mean()) < 0.05
    assert abs(x.std() - 1) < 0.05
    np.testing.assert_array_equal(x, make_inputs(graph, sizes, seed=3)["x"])
    assert not np.array_equal(x, make_inputs(graph, sizes, seed=4)["x"])


def test_symbols_take_the_examples_sizes_then_others() -> None:
    graph = lookup()
    sizes = bindings(graph)
    assert sizes == {"N": 4, "S": 6}
    further = [(1, 6), (2, 6), (5, 6), (4, 12), (4, 1), (1, 1), (5, 12)]
    assert [(found["N"], found["S"]) for found in other_sizes(graph, sizes)] == further
    assert [found["N"] for found in other_sizes(graph, {"N": 2, "S": 6})][:3] == [1, 5, 2]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13, 30])
def test_every_open_axis_is_1_alone_and_beside_others_that_are_not(count: int) -> None:
    graph = Graph()
    names = [f"S{n}" for n in range(count)]
    graph.add_input("x", TensorType("float32", (None, *names)))
    sizes = dict.fromkeys(names, 3)
    found = other_sizes(graph, sizes)
    assert len(found) <= 3 + 4 * max(4, count.bit_length())
    assert dict.fromkeys(names, 1) in found
    assert dict.fromkeys(names, 6) in found
    for one in names:
        for other in set(names) - {one}:
            assert any(f[one] == 1 and f[other] == 3 for f in found)
            assert any(f[one] == 6 and f[other] == 3 for f in found)


def test_given_inputs_are_resized_along_their_symbols() -> None:
    graph = lookup()
    given = {"x": np.arange(8).reshape(2, 4)}
    found = resize_inputs(graph, given, {"N": 3, "S": 2})["x"]
    np.testing.assert_array_equal(found, [[0, 1], [4, 5], [0, 1]])


def test_integers_that_index_nothing_and_flags_follow_the_example() -> None:
    graph = Graph()
    b = Builder(graph)
    lengths = graph.add_input("lengths", TensorType("int64", ("N",)))
    mask = graph.add_input("mask", TensorType("bool", ("N", 2)))
    graph.outputs = [("y", b.op("Neg", lengths)), ("z", b.op("Not", mask))]
    graph.origin.inputs = {"lengths": np.array([5, 9]), "mask": np.array([[True, False], [True, True]])}
    arrays = make_inputs(graph, {"N": 3})
    np.testing.assert_array_equal(arrays["lengths"], [5, 9, 5])
    np.testing.assert_array_equal(arrays["mask"], [[True, False], [True, True], [True, False]])


def test_unknown_shape_is_refused_with_the_option_to_give() -> None:
    graph = Graph()
    graph.add_input("x", TensorType("float32", None))
    with pytest.raises(UsageError, match=r'E103[\s\S]*inputs={"x": "SHAPE"}'):
        make_inputs(graph, {})


def meaning() -> Graph:
    """A length below a bound, places in order, scores, and a table to look up in."""
    graph = Graph()
    b = Builder(graph)
    given = {
        "lengths": np.array([5, 9, 3]),
        "offsets": np.array([0, 2, 5]),
        "scores": np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], np.float32),
        "edges": np.array([[0.5, -1.0, 0.25]], np.float32),
    }
    for name, array in given.items():
        rank = [f"{name}{axis}" for axis in range(array.ndim)]
        graph.add_input(name, TensorType(str(array.dtype), tuple(rank)))
    values = {n.name: Value(n.key) for n in graph.input_nodes()}
    found = b.op("regraft.SearchSorted", values["edges"], b.constant(np.zeros((1, 2), np.float32)))
    graph.outputs = [("found", found), *((n, b.op("Neg", v)) for n, v in values.items() if n != "edges")]
    graph.origin.inputs, graph.origin.given, graph.origin.ranges = given, True, {"lengths": (1, 10)}
    return graph


@pytest.mark.parametrize("draw", [0, 3, "x10", "+3", "sparse"])
def test_inputs_keep_their_range_and_their_order(draw: int | str) -> None:
    """What is searched is in order, and so is a vector that the example has so; rows of numbers are not."""
    graph = meaning()
    sizes = {"lengths0": 50, "offsets0": 7, "scores0": 20, "scores1": 8, "edges0": 3, "edges1": 9}
    for inputs in (drawn := make_inputs(graph, sizes, draw=draw), with_meaning(graph, add_nonfinite(drawn))):
        assert set(np.unique(inputs["lengths"])) <= set(range(1, 10))
        assert inputs["offsets"][0] == 0
        for name in ("offsets", "edges"):
            assert (np.diff(inputs[name]) >= 0).all()
    assert not (np.diff(drawn["scores"]) >= 0).all()


def test_how_inputs_are_drawn_is_said() -> None:
    ordered, ranges = notes_of(meaning())
    assert ordered.endswith("`offsets`, `edges`")
    assert ranges.endswith("`lengths` in [1,10)")
