"""A difference that another draw does not show counts, unless a value was close to a jump or a pole."""

import numpy as np
import pytest

from regraft.ir import Builder, Graph, TensorType
from regraft.verification import verify
from regraft.verification.inputs import make_inputs
from regraft.verification.jumps.singular import Singularities

WIDTH = 40


def rare(slope: float, threshold: float) -> Graph:
    """The identity, but that it rises faster above a threshold."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input("x", TensorType("float32", ("N", WIDTH)))
    above = b.op("Relu", b.op("Sub", x, b.constant(np.float32(threshold))))
    graph.outputs = [("y", b.op("Add", x, b.op("Mul", above, b.constant(np.float32(slope)))))]
    graph.origin.inputs = {"x": np.zeros((2, WIDTH), np.float32)}
    return graph


def largest(graph: Graph, batch: int, seed: int) -> float:
    return float(make_inputs(graph, {"N": batch}, seed, "x10")["x"].max())


def test_a_fault_that_one_draw_shows_and_another_does_not_is_a_fault() -> None:
    graph = rare(0.25, 0.0)
    seeds = {s: (largest(graph, 1, s + 1), largest(graph, 2, s + 101)) for s in range(50)}
    seed, (first, again) = next((s, pair) for s, pair in seeds.items() if pair[0] > 1.05 * pair[1])
    threshold = (first + 19 * again) / 20
    report = verify(rare(0.25, threshold), rare(0.26, threshold), seed=seed)
    row = next(row for row in report.outputs if "x10" in row.case)
    assert not row.passed
    assert 0 < row.max_rel < 0.05
    assert not report.passed


@pytest.mark.parametrize(
    ("op", "near", "far"),
    [
        ("Div", [1.0, 2.0, 1e-3], [1.0, 2.0, 0.5]),
        ("Log", [1.0, 1e-3], [1.0, 0.5]),
        ("Floor", [0.5, 1.0 - 1e-6], [0.5, 0.25]),
        ("Round", [0.25, 0.5 + 1e-6], [0.25, 1.0]),
        ("Greater", [1.0, 1e-6], [1.0, -0.5]),
        ("Cast", [0.5, 3.000001], [0.5, 2.25]),
        ("Relu", [], [1.0, 1e-9]),
    ],
)
def test_what_is_close_to_a_jump_or_a_pole(op: str, near: list[float], far: list[float]) -> None:
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input("x", TensorType("float32", ("N",)))
    y = graph.add_input("y", TensorType("float32", ("N",)))
    one, zero = b.constant(np.float32(1)), b.constant(np.float32(0))
    operands = {"Div": (one, x), "Greater": (x, zero)}.get(op, (x,))
    found = b.op(op, *operands, **({"to": 7} if op == "Cast" else {}))
    graph.outputs = [("found", b.op("Cast", found, to=1)), ("other", b.op("Relu", y))]
    singular = Singularities(graph)

    def near_to(values: list[float], output: str) -> str:
        array = np.array(values, np.float32)
        return singular.near({"x": array, "y": array}, [output])

    if near:
        assert f"`{op}`" in near_to(near, "found")
    assert not near_to(far, "found")
    assert not near_to(near or far, "other")
