"""The pipeline on random graphs: valid after each pass, converged after one run, the same outputs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regraft.ir import Builder, Graph, InvalidGraphError, TensorData, TensorType, parse, render, validate
from regraft.ir.validation import verify_each
from regraft.passes import PASSES, Change, Pass, RenameParameters, default_pipeline, run_passes

from ..ir.random_graphs import graphs
from .oracle import evaluate


@settings(max_examples=60, deadline=None)
@given(graphs(), st.permutations(sorted(PASSES)))
def test_every_pass_leaves_a_valid_graph_and_converges_in_one_run(graph, names):
    for name in names:
        pass_ = PASSES[name]()
        before = render(graph)
        changes = pass_.run(graph)
        validate(graph)
        after = render(graph)
        assert (before != after) <= any(change.fixed for change in changes), name
        again = pass_.run(graph)
        assert not any(change.fixed for change in again), (name, [str(c) for c in again])
        assert render(graph) == after, name
        assert all(change.code in pass_.codes for change in changes)


@settings(max_examples=40, deadline=None)
@given(graphs(nested=False), st.integers(0, 1000))
def test_the_default_pipeline_keeps_what_a_graph_computes(graph, seed):
    random = np.random.default_rng(seed)
    for parameter in graph.parameters():
        parameter.data = TensorData.of(random.standard_normal(parameter.data.shape).astype(np.float32))
    arrays = [random.standard_normal((3, 4)).astype(np.float32) for _ in graph.inputs]
    new = graph.copy()
    run_passes(new, default_pipeline(), verify_each=True)
    names = [parameter.name for parameter in new.parameters()]
    assert len(set(names)) == len(names)
    paths = new.parameter_paths()
    assert all(p.name == paths[p.key][0] for p in new.parameters() if p.key in paths)
    assert [name for name, _ in new.outputs] == [name for name, _ in graph.outputs]
    for expected, found in zip(evaluate(graph, *arrays), evaluate(new, *arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@dataclass(frozen=True)
class Spoil(Pass):
    """A pass with a bug: it leaves an operator without its operand."""

    name: ClassVar[str] = "spoil"

    def run(self, graph: Graph) -> list[Change]:
        graph.set_operand(graph.operators()[0].key, 0, None)
        return [Change("XX101", "spoilt")]


class SpoilAttribute(Pass):
    """A pass with a bug that changes no edge: it gives an operator an attribute that it does not have."""

    name: ClassVar[str] = "spoil"

    def run(self, graph: Graph) -> list[Change]:
        graph.operators()[0].attributes["axis"] = 1
        return [Change("XX101", "spoilt")]


def small():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (4,)))
    b.graph.outputs.append(("y", b.op("Relu", x)))
    return b.graph


def test_the_pass_that_broke_the_graph_is_named():
    with pytest.raises(InvalidGraphError, match="after the pass `spoil`"):
        run_passes(small(), [RenameParameters(), Spoil(), RenameParameters()])


def test_a_graph_that_is_invalid_beforehand_is_nobodys_fault_here():
    graph = small()
    Spoil().run(graph)
    with pytest.raises(InvalidGraphError, match="expected 1 to 1 inputs, got 0") as caught:
        run_passes(graph, [RenameParameters()])
    assert "after the pass" not in str(caught.value)


def test_the_graph_is_shown_after_each_pass():
    seen = []
    run_passes(
        small(), default_pipeline(), print_after=lambda pass_, graph: seen.append((pass_.name, len(graph)))
    )
    assert [name for name, _ in seen] == [pass_.name for pass_ in default_pipeline()]


def test_what_needs_operators_is_skipped_on_a_static_tree_and_says_so():
    graph = parse(
        """graph main {
          module "" Net never called
          module "a" Dense {weight=%0} never called
          module "b" Dense {weight=%1} never called
          %0 = param "weight" : f32[2]
          %1 = param "weight" : f32[2]
        }"""
    )
    skipped = {pass_.name for pass_ in default_pipeline() if pass_.skipped(graph)}
    assert "drop-unused-modules" in skipped
    assert "rename-parameters" not in skipped
    results = run_passes(graph, default_pipeline())
    assert {change.code for _, changes in results for change in changes if change.severity == "error"} == {
        "RP101"
    }
    assert len(graph.parameters()) == 2


def test_a_large_graph_is_validated_at_both_ends_and_all_passes_between_are_suspects():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (4,)))
    for _ in range(2100):
        x = b.op("Relu", x)
    b.graph.outputs.append(("y", x))
    verify_each(on=False)
    try:
        with pytest.raises(InvalidGraphError, match="after the passes `spoil`, `rename-parameters`"):
            run_passes(b.graph.copy(), [SpoilAttribute(), RenameParameters()])
    finally:
        verify_each(on=True)
    with pytest.raises(InvalidGraphError, match="after the pass `spoil`"):
        run_passes(b.graph.copy(), [SpoilAttribute(), RenameParameters()], verify_each=True)
    with pytest.raises(InvalidGraphError, match="after the pass `spoil`"):  # at the nodes whose edges changed
        run_passes(b.graph, [Spoil(), RenameParameters()])


def test_the_default_pipeline_moves_transposes_of_onnx_models_alone():
    text = """
    graph main {
      %x = input "x" : f32[N,4,6,8]
      %0 = Transpose(%x) {perm=[0, 2, 3, 1]} : f32[N,6,8,4]
      %1 = Relu(%0) : f32[N,6,8,4]
      %2 = Transpose(%1) {perm=[0, 3, 1, 2]} : f32[N,4,6,8]
      %y = Exp(%2) : f32[N,4,6,8]
      return "y" = %y
    }"""
    for framework, left in (("onnx", 2), ("torch", 4)):
        graph = parse(text)
        graph.origin.framework = framework
        run_passes(graph, default_pipeline())
        assert len(graph.operators()) == left
