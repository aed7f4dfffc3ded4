"""The canonical order follows every change of the dataflow, also those made with networkx's own methods."""

import gc
import subprocess
import sys
from contextlib import contextmanager

import pytest

from regraft.ir import Builder, Graph, InvalidGraphError, Parameter, TensorData, TensorType, Value, collector
from regraft.ir.collector import freeze_live_objects, pause_collector


def diamond():
    """y = Add(Relu(x), Sigmoid(x))."""
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (4,)))
    b.graph.outputs.append(("y", b.op("Add", b.op("Relu", x), b.op("Sigmoid", x))))
    return b.graph


def kinds(graph):
    return [node.op_type for node in graph.operators()]


def test_the_order_follows_operands_outputs_and_networkx():
    graph = diamond()
    assert kinds(graph) == ["Relu", "Sigmoid", "Add"]
    relu, sigmoid, add = (node.key for node in graph.operators())
    graph.set_operand(add, 0, Value(sigmoid))
    graph.set_operand(add, 1, Value(relu))
    assert kinds(graph) == ["Sigmoid", "Relu", "Add"]
    graph.outputs.append(("z", Value(Builder(graph).op("Neg", Value(relu)).node)))
    assert kinds(graph) == ["Sigmoid", "Relu", "Add", "Neg"]
    graph.outputs.reverse()
    assert kinds(graph) == ["Relu", "Neg", "Sigmoid", "Add"]
    del graph.outputs[0]
    graph.flow.remove_nodes_from([n.key for n in graph.operators() if n.op_type == "Neg"])
    assert kinds(graph) == ["Sigmoid", "Relu", "Add"]
    graph.flow.add_edge(add, relu, key=0, output=0)
    with pytest.raises(InvalidGraphError, match="cycle"):
        graph.order()


def test_an_order_given_out_is_the_callers_own():
    graph = diamond()
    expected = graph.order()
    graph.order().clear()
    assert graph.order() == expected


def test_a_copy_changes_apart_from_its_original():
    graph = diamond()
    twin = graph.copy()
    add = graph.operators()[-1].key
    twin.set_operand(add, 0, twin.operands(add)[1])
    twin.remove_dead()
    assert kinds(graph) == ["Relu", "Sigmoid", "Add"]
    assert kinds(twin) == ["Sigmoid", "Add"]


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (lambda flow: flow.add_node(9), {9}),
        (lambda flow: flow.add_nodes_from([8, (9, {"a": 1})]), {8, 9}),
        (lambda flow: flow.add_edge(0, 3, key=7, output=0), {3}),
        (lambda flow: flow.add_edges_from([(0, 3, 7, {"output": 0})]), {3}),
        (lambda flow: flow.remove_edge(1, 3, key=0), {3}),
        (lambda flow: flow.remove_edges_from([(1, 3, 0)]), {3}),
        (lambda flow: flow.remove_node(0), {1, 2}),
        (lambda flow: flow.remove_nodes_from([0]), {1, 2}),
        (lambda flow: flow.clear_edges(), {0, 1, 2, 3}),
        (lambda flow: flow.clear(), set()),
    ],
)
def test_every_change_is_counted_and_its_nodes_are_noted(change, touched):
    flow = diamond().flow
    before = flow.version
    flow.touched.clear()
    change(flow)
    assert flow.version > before
    assert flow.touched == touched


def test_unused_parameters_follow_by_module_path_although_the_order_is_kept():
    graph = diamond()
    root = graph.modules.add("Net")
    keys = [graph.add_parameter(Parameter(n, n, TensorData("float32", (2,), None))).node for n in "ab"]
    held = graph.modules.module(root).parameters
    held.update({"a": keys[0], "b": keys[1]})
    assert graph.order()[-2:] == keys
    held.clear()
    held.update({"b": keys[1], "a": keys[0]})
    assert graph.order()[-2:] == keys[::-1]


@pytest.mark.parametrize("threshold", [(700, 10, 10), (90_000, 5, 5), (0, 10, 10)])
def test_the_collector_is_as_it_was_after_a_pause_also_after_an_error(threshold):
    was = gc.get_threshold()
    seen = []

    def fail():
        with pause_collector():
            seen.append(gc.get_threshold())
            with pause_collector():
                seen.append(gc.get_threshold())
            raise ZeroDivisionError

    try:
        gc.set_threshold(*threshold)
        with pytest.raises(ZeroDivisionError):
            fail()
        assert gc.get_threshold() == threshold
    finally:
        gc.set_threshold(*was)
    assert seen[0] == seen[1]
    young, _, old = seen[0]
    assert young >= threshold[0]
    assert (old > 10**6) is (young > 0) is (threshold[0] > 0)  # old objects are left alone


@contextmanager
def nothing_spared():
    """A with block without what `conftest.py` spares in each test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collector, "_frozen", False)
        gc.unfreeze()
        yield


SPARING = """
import gc
import weakref

from regraft.ir.collector import freeze_live_objects


class Cycle:
    def __init__(self):
        self.me = self


before = weakref.ref(Cycle())  # garbage already, and left alone until the end
with freeze_live_objects():
    assert gc.get_freeze_count() > 0
    inside = weakref.ref(Cycle())
    gc.collect()
    assert inside() is None
    assert before() is not None
    with freeze_live_objects():
        pass
    assert gc.get_freeze_count() > 0  # the outer one's
assert gc.get_freeze_count() == 0
gc.collect()
assert before() is None
"""


def test_what_comes_to_be_in_cycles_is_freed_while_the_living_are_spared():
    """In a process of its own: to search that of all tests takes seconds."""
    done = subprocess.run([sys.executable, "-c", SPARING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_somebody_else_spares_stays_spared():
    with nothing_spared():
        gc.freeze()
        with freeze_live_objects(), freeze_live_objects():
            pass
        assert gc.get_freeze_count() > 0
