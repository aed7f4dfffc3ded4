"""Graphs without a live model, nested ones included, in ONNX Runtime."""

import numpy as np
import pytest
import torch

import regraft
from regraft.ir import Builder, Graph, TensorType, validate
from regraft.verification import verify
from regraft.verification.runners.onnx_runner import OnnxRunner

KIND = TensorType("float32", ("N", 4))


def nested(step: float = 2.0) -> Graph:
    """A module before an If, one inside its branches, one after it."""
    graph = Graph()
    tree = graph.modules
    root = tree.add("Nested")
    outer = tree.add_call(root)
    calls = {
        name: tree.add_call(tree.add("Part", root, name), outer) for name in ("before", "inside", "after")
    }
    b = Builder(graph, call=outer)
    x = graph.add_input("x", KIND)
    with b.inside(calls["before"]):
        y = b.op("Mul", x, b.constant(3.0))
    condition = b.op("Greater", b.op("ReduceMax", x, keepdims=0), b.constant(0.0))

    def branch(name: str, factor: float) -> Graph:
        body = Graph(name, tree)
        inner = Builder(body, call=calls["inside"])
        captured = body.add_capture(KIND)
        body.outputs.append(("r", inner.op("Add", captured, inner.constant(factor))))
        return body

    chosen = b.ops(
        "If",
        condition,
        captures=[y],
        types=[KIND],
        then_branch=branch("yes", step),
        else_branch=branch("no", 1.0),
    )[0]
    with b.inside(calls["after"]):
        graph.outputs.append(("y", b.op("Tanh", chosen)))
    validate(graph)
    return graph


def test_nested_graph_equals_itself() -> None:
    report = verify(nested(), nested())
    assert report.passed, report.render()
    assert {row.call: row.passed for row in report.modules} == {"before#1": True, "after#1": True}
    assert report.yardstick.startswith(
        "16 units in the last place of the largest value; beyond them, 4 times"
    )


def test_fault_inside_a_branch_is_found() -> None:
    report = verify(nested(), nested(step=2.5))
    assert not report.passed
    assert report.first_divergence == "after#1"
    row = next(r for r in report.modules if r.call == "after#1")
    assert row.isolated_passed
    assert "at its boundary" in row.reason


@pytest.mark.parametrize("batch", [1, 5])
def test_inputs_given_by_name(batch: int) -> None:
    x = np.linspace(-0.2, 0.2, 4 * batch, dtype=np.float32).reshape(batch, 4)
    report = verify(nested(), nested(), {"x": x})
    assert report.passed
    assert report.outputs[0].case == f"N={batch}"


def test_recorded_outputs_are_compared_with_both_sides() -> None:
    x = np.linspace(-0.2, 0.2, 8, dtype=np.float32).reshape(2, 4)
    right = np.tanh(x * 3 + 2)
    report = verify(nested(), nested(), {"x": x}, expected=[right])
    assert report.passed, report.render()
    assert [row.case for row in report.outputs] == [
        "recorded, source",
        "recorded, target",
        "N=2",
        "N=1",
        "N=5",
    ]
    assert not verify(nested(), nested(), {"x": x}, expected=[right + np.float32(1e-3)]).passed


def test_report_says_when_the_lowering_is_not_checked() -> None:
    assert any("lowered" in note for note in verify(nested(), nested()).notes)


def test_a_graph_runs_with_the_weights_that_a_live_model_has() -> None:
    """No copy is made of them, and they may be altered as those of a file."""
    net = torch.nn.Linear(64, 32).eval()
    graph = regraft.load(net, ("2x64",))
    runner = OnnxRunner(graph)
    shared = runner._shared["weight"].numpy()
    assert np.shares_memory(shared, net.weight.detach().numpy())
    inputs = {"input": np.ones((2, 64), np.float32)}
    wanted = net(torch.ones(2, 64)).detach().numpy()
    np.testing.assert_allclose(runner.run(inputs).outputs[0][1], wanted, rtol=1e-5, atol=1e-6)
    with runner.altered(np.zeros_like):
        assert not runner.run(inputs).outputs[0][1].any()
    np.testing.assert_allclose(runner.run(inputs).outputs[0][1], wanted, rtol=1e-5, atol=1e-6)
