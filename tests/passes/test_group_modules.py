"""What group-modules finds in a flat graph, and that it never changes what is computed."""

import doctest
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regraft.ir import Builder, Graph, Parameter, TensorData, TensorType, validate
from regraft.passes import GroupModules
from regraft.passes.module_grouping import name_scopes as scopes
from regraft.passes.module_grouping import repeats
from regraft.passes.module_grouping.chains import Block, Reduction, find_steps, steps_of
from regraft.passes.module_grouping.repeats import Numbers, units_in

from .oracle import evaluate


class Flat:
    """A flat graph of matrices (N, 4): `layer` is a module of its own, everything else the root's."""

    def __init__(self):
        self.graph = Graph()
        tree = self.graph.modules
        tree.add("Net")
        self.root = tree.add_call(0)
        self.x = self.graph.add_input("x", TensorType("float32", ("N", 4)))
        self.weights = []

    def layer(self, value, name, kind="MatMul", weight=None):
        tree = self.graph.modules
        module = tree.add("FullyConnected", 0, name)
        number = len(self.graph.parameters())
        if weight is None:
            array = np.random.default_rng(number).normal(size=(4, 4)).astype(np.float32)
            weight = self.graph.add_parameter(Parameter(f"w{number}", f"w{number}", TensorData.of(array)))
            self.weights.append(weight)
        tree.module(module).parameters["weight"] = weight.node
        return self.op(kind, value, weight, call=tree.add_call(module, self.root))

    def op(self, kind, *values, call=None):
        return Builder(self.graph, call=self.root if call is None else call).op(kind, *values)

    def unit(self, value, first):
        """Two layers with a way around."""
        inner = self.op("Relu", self.layer(value, f"fc{first}"))
        return self.op("Relu", self.op("Add", self.layer(inner, f"fc{first + 1}"), value))


def paths(graph):
    return {graph.modules.path(m.key): m.class_name for m in graph.modules}


def test_chains_and_blocks_are_found_bottom_up():
    net = Flat()
    value = net.unit(net.unit(net.x, 0), 2)
    net.graph.outputs = [("y", net.op("Tanh", value))]
    (chain,) = Reduction(net.graph, find_steps(net.graph)).chains
    kinds = ["block" if isinstance(e, Block) else e.step.kind for e in chain.elements]
    assert kinds == ["block", "Relu", "block", "Relu", "Tanh"]
    assert all(e.shortcut == 1 and e.ways[1] is None for e in chain.elements[:3:2])
    assert len(list(steps_of(chain))) == len(net.graph.operators())


def test_a_value_that_others_use_ends_a_chain():
    net = Flat()
    tapped = net.layer(net.layer(net.x, "fc0"), "fc1")
    net.graph.outputs = [("tap", tapped), ("y", net.layer(tapped, "fc2"))]
    found = Reduction(net.graph, find_steps(net.graph)).chains
    assert sorted(len(chain.elements) for chain in found) == [1, 2]


def test_what_repeats_is_told_by_the_shortest_period():
    net = Flat()
    value = net.x
    for number in range(6):
        value = net.unit(value, 2 * number)
    net.graph.outputs = [("y", value)]
    (chain,) = Reduction(net.graph, find_steps(net.graph)).chains
    numbers = Numbers()
    key = numbers.key(chain.elements)
    assert key == key[:2] * 6
    assert key[:2] in set(units_in(numbers, chain.elements))


def test_names_without_structure_leave_the_units_to_what_repeats():
    net = Flat()
    value = net.x
    for number in range(5):
        value = net.unit(value, 2 * number)
    net.graph.outputs = [("y", net.layer(value, "out"))]
    assert GroupModules().run(net.graph)
    found = paths(net.graph)
    assert [found[f"blocks.{i}"] for i in range(5)] == ["ResidualBlock"] * 5
    assert {"blocks.0.fc1", "blocks.4.fc2", "out"} <= set(found)
    assert not any(re.fullmatch(r"fc\d+", path) for path in found)


def branched(between=lambda net, value: value, second=None, last="Relu"):
    """Two runs of two layers with the same weights, the second on what `second` makes of the first."""
    net = Flat()
    first = net.layer(between(net, net.op("Tanh", net.layer(net.x, "a_fc0"))), "a_fc1")
    start = net.op("Neg", net.x) if second is None else second(net, first)
    other = net.layer(start, "b_fc0", weight=net.weights[0])
    other = net.op(last, net.layer(net.op("Tanh", other), "b_fc1", weight=net.weights[1]))
    net.graph.outputs = [("y", net.op("Sub", net.op("Relu", first), other))]
    return net.graph


def test_parts_with_the_same_weights_are_calls_of_one_module():
    graph = branched()
    assert any(change.code == "GM103" for change in GroupModules().run(graph))
    validate(graph)
    assert paths(graph) == {
        "": "Net",
        "branch": "Branch",
        "branch.fc0": "FullyConnected",
        "branch.fc1": "FullyConnected",
    }
    assert sorted(graph.modules.call_names().values()) == [
        "#1", "branch#1", "branch#2", "branch.fc0#1", "branch.fc0#2", "branch.fc1#1", "branch.fc1#2",
    ]  # fmt: skip
    called = {o.op_type: graph.modules.call_name(o.call) for o in graph.operators()}
    assert (called["Relu"], called["Neg"], called["Sub"]) == ("branch#2", "#1", "#1")


@pytest.mark.parametrize(
    "graph",
    [
        branched(between=lambda net, value: net.op("Abs", value)),  # another step in one of the runs
        branched(second=lambda net, first: first),  # one run takes what the other gives: no branches
    ],
)
def test_parts_that_differ_or_follow_each_other_are_left_alone(graph):
    assert not any(change.code == "GM103" for change in GroupModules().run(graph))
    assert "branch" not in paths(graph)


def test_a_part_ends_where_its_runs_differ():
    graph = branched(last="Sigmoid")
    GroupModules().run(graph)
    called = {o.op_type: graph.modules.call_name(o.call) for o in graph.operators()}
    assert (called["Relu"], called["Sigmoid"]) == ("#1", "#1")
    assert "branch.fc1#2" in graph.modules.call_names().values()


@pytest.mark.parametrize("module", [repeats, scopes])
def test_examples_of_the_parts_run(module):
    results = doctest.testmod(module)
    assert results.failed == 0


@st.composite
def flat_graphs(draw):
    """Chains, blocks and crossings of layers whose names share prefixes or tell nothing."""
    net = Flat()
    live = [net.x]
    for number in range(draw(st.integers(2, 14))):
        value = draw(st.sampled_from(live[-3:]))
        scope = draw(st.sampled_from(["", "net0_", "stage1_", "stage1_unit1_", "stage2_", "1_", "a.b_"]))
        match draw(st.integers(0, 5)):
            case 0 | 1:
                value = net.layer(value, f"{scope}in{number}".replace(".", "_"))
            case 2:
                value = net.op(draw(st.sampled_from(["Relu", "Tanh"])), value)
            case 3:
                value = net.op("Add", value, draw(st.sampled_from(live)))
            case 4 if len(net.weights) > 1:
                for at, weight in enumerate(net.weights[:3]):  # once more, with other things between
                    value = net.layer(value, f"again{number}_{at}", weight=weight)
                    value = net.op("Relu", value) if draw(st.booleans()) else value
                value = net.op("Add", value, draw(st.sampled_from(live))) if draw(st.booleans()) else value
            case _:
                for _ in range(draw(st.integers(2, 3))):
                    value = net.unit(value, 100 * number + len(net.graph))
        live.append(value)
    chosen = draw(st.lists(st.sampled_from(live[1:]), min_size=1, max_size=3))
    net.graph.outputs = [(f"y{i}", value) for i, value in enumerate([live[-1], *chosen])]
    return net.graph


@given(flat_graphs())
@settings(max_examples=60, deadline=None)
def test_any_flat_graph_stays_valid_and_computes_the_same_and_a_second_run_changes_nothing(graph):
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    before = evaluate(graph, x)
    held = {p.key: p.declared for p in graph.parameters()}
    GroupModules().run(graph)
    validate(graph)
    for mine, theirs in zip(evaluate(graph, x), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert {p.key: p.declared for p in graph.parameters()} == held
    assert set(graph.parameter_paths()) == set(held)
    text = str(graph)
    assert not any(change.fixed for change in GroupModules().run(graph))
    assert str(graph) == text
