"""Branches and loops on tensors as If and Loop, and as `if` and `while` again, on inputs of every way."""

import importlib.util
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import onnxruntime
import pytest

import regraft
from regraft.frontends.mindspore_cell import capture
from regraft.frontends.python_file import load_object
from regraft.ir import Graph, ModelError, UnsupportedError, parse, render, validate, walk_operators

CORPUS = Path(__file__).parents[2] / "corpora" / "mindspore"


def cell(name: str):
    ms.set_seed(3)
    return load_object(f"{CORPUS / 'branching.py'}:{name}", {}).set_train(False)


def inputs(seed: int, batch: int = 2) -> np.ndarray:
    """Draw an input; eight kinds of signs and sizes, so that every way is taken."""
    x = np.random.default_rng(seed).standard_normal((batch, 4))
    kinds = (x + 0.6, x - 0.6, abs(x) + 0.1, -abs(x) - 0.1, x * 0.2 + 0.3, x * 0.2 - 0.1, x * 3, x * 0.05)
    return kinds[seed % 8].astype(np.float32)


def given(name: str, seed: int, batch: int = 2) -> list[np.ndarray]:
    counts = {"Fibonacci": seed, "ChosenLayer": seed % 2}
    count = [np.array(counts[name], np.int32)] if name in counts else []
    return [inputs(seed, batch), *count]


def arrays(found: object) -> list[np.ndarray]:
    if isinstance(found, (tuple, list)):
        return [a for part in found for a in arrays(part)]
    return [found.asnumpy() if isinstance(found, ms.Tensor) else np.asarray(found)]


def assert_equal(got: list[np.ndarray], expected: list[np.ndarray], what: object) -> None:
    assert [(g.shape, g.dtype) for g in got] == [(e.shape, e.dtype) for e in expected], what
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5, err_msg=str(what))


def emitted(folder: Path, name: str):
    spec = importlib.util.spec_from_file_location(f"branching_{name}", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.build()


def ways(graph: Graph) -> dict[str, int]:
    found = [node.op_type for _, node in walk_operators(graph)]
    return {name: found.count(name) for name in ("If", "Loop")}


CASES = {
    "TwoLayers": {"If": 1, "Loop": 0},
    "Counted": {"If": 1, "Loop": 1},
    "EarlyReturns": {"If": 2, "Loop": 0},
    "BreakAndContinue": {"If": 3, "Loop": 1},
    "ReturnFromLoop": {"If": 2, "Loop": 1},
    "LoopInLoop": {"If": 0, "Loop": 2},
    "LeavesBothLoops": {"If": 5, "Loop": 2},
    "Condition": {"If": 3, "Loop": 0},
    "Chain": {"If": 4, "Loop": 0},
    "BranchInModule": {"If": 2, "Loop": 0},
    "PythonCounter": {"If": 0, "Loop": 1},
    "OfNumbers": {"If": 3, "Loop": 0},
    "LayersInCondition": {"If": 0, "Loop": 1},
    "Nested": {"If": 2, "Loop": 0},
    "Newton": {"If": 0, "Loop": 1},
    "Fibonacci": {"If": 1, "Loop": 1},
    "Methods": {"If": 1, "Loop": 2},
    "Optional": {"If": 1, "Loop": 0},
    "Endless": {"If": 0, "Loop": 1},
    "Places": {"If": 2, "Loop": 1},
    "RecurrentBranch": {"If": 1, "Loop": 0},
    "ChosenLayer": {"If": 1, "Loop": 0},
}
"""Cell -> numbers of Ifs and Loops that it becomes."""


@pytest.mark.parametrize("name", CASES)
def test_both_targets_take_the_ways_of_the_source(name: str, tmp_path: Path) -> None:
    net = cell(name)
    graph = regraft.load(net, given(name, 0))
    validate(graph)
    assert not [n for n in graph.origin.notes if "static" in n]
    assert ways(graph) == CASES[name]
    assert render(parse(render(graph))) == render(graph)
    graph = regraft.rewrite(graph, verify_each=True).graph
    regraft.save(graph, tmp_path / "net.onnx")
    regraft.save(graph, tmp_path / "net", to="mindspore")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    target = emitted(tmp_path / "net", name)
    for seed in range(16):
        xs = given(name, seed, batch=1 + seed % 3)
        expected = arrays(net(*map(ms.Tensor, xs)))
        assert_equal(session.run(None, dict(zip(names, xs, strict=True))), expected, seed)
        assert_equal(arrays(target(*map(ms.Tensor, xs))), expected, seed)


def test_what_follows_many_branches_is_read_once() -> None:
    graph = regraft.load(cell("ManyReturns"), given("ManyReturns", 0))
    assert ways(graph)["If"] <= 3 * 10
    assert len(list(walk_operators(graph))) < 250


def test_cells_that_run_by_the_size_of_the_batch_keep_it() -> None:
    """Two compiles agree with each other where the example, which is smaller, does not."""
    net = cell("LayersBySize")
    graph = regraft.load(net, [inputs(0)])
    assert any("which Cells are called depends on the batch size" in n for n in graph.origin.notes)
    assert graph.operators() == [] or {n.op_type for n in graph.operators()} == {"Reshape"}


def test_calls_in_branches_and_loops_are_those_of_their_modules() -> None:
    """Also of the branch that the recorded run did not take, and once for all turns of a loop."""
    graph = regraft.load(cell("Counted"), given("Counted", 0))
    found = {
        graph.modules.call_name(node.call)
        for _, node in walk_operators(graph)
        if node.op_type == "Linear" and node.call is not None
    }
    assert found == {"a#1", "c#1"}
    assert {graph.modules.path(c.module) for c in graph.modules.calls()} == {"", "a", "c"}


def test_the_emitted_source_reads_as_it_was_written(tmp_path: Path) -> None:
    graph = regraft.rewrite(regraft.load(cell("Counted"), given("Counted", 0))).graph
    regraft.save(graph, tmp_path / "net", to="mindspore")
    text = (tmp_path / "net" / "model.py").read_text()
    for line in ("while running:", "if y.sum() > 0.0:", "self.a(", "self.c("):
        assert line in text


def test_verification_draws_inputs_into_every_branch(tmp_path: Path) -> None:
    graph = regraft.rewrite(regraft.load(cell("TwoLayers"), [inputs(2)])).graph
    regraft.save(graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed
    assert not report.notes


LEFT = CORPUS / "left_graph.py"


def line_of(name: str) -> int:
    lines = LEFT.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# LEAVES {name}"))


@pytest.mark.parametrize(
    ("name", "line", "hint"),
    [
        ("OfShapes", "OfShapes", "NumPy leaves the graph"),
        ("Largest", "Largest", "`ops.maximum`"),
        ("Inside", "Largest", "`ops.maximum`"),
        ("NothingYet", "NothingYet", "give every branch a tensor"),
        ("OfNumber", "OfNumber", "make a tensor of a tensor"),
    ],
)
def test_what_only_python_can_run_is_refused_at_its_line(name: str, line: str, hint: str) -> None:
    net = load_object(f"{LEFT}:{name}", {})
    before = ms.get_context("save_graphs"), ms.get_context("save_graphs_path")
    with pytest.raises(ModelError, match=r"E104 .*code that only Python can run") as caught:
        regraft.load(net, [inputs(2)])
    assert caught.value.place.split(", ")[0] == f"left_graph.py:{line_of(line)}"
    assert hint in caught.value.hint
    assert (ms.get_context("save_graphs"), ms.get_context("save_graphs_path")) == before


def test_what_only_python_can_run_is_compiled_in_one_marked_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another form of its calls would be refused as well: an open batch, a size and the example, twice."""
    compiled: list[object] = []
    compile_ = capture._compile

    def counting(root: object, arguments: list[object]) -> object:
        compiled.append(root)
        return compile_(root, arguments)

    monkeypatch.setattr(capture, "_compile", counting)
    with pytest.raises(ModelError, match=r"E104 .*code that only Python can run"):
        regraft.load(load_object(f"{LEFT}:Largest", {}), [inputs(2)])
    assert len(compiled) <= len(("open", "marked", "marked", "plain", "plain", "for its lines"))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Checked", "no `raise` that tensors decide on"),
        ("Growing", "no list that grows in a loop"),
        ("TwoRanks", "results of one element type and rank"),
        ("TwoTypes", "results of one element type and rank"),
    ],
)
def test_forms_that_no_graph_holds_are_refused_by_name(name: str, what: str) -> None:
    net = load_object(f"{LEFT}:{name}", {})
    with pytest.raises(UnsupportedError, match=f"E203 expected .*{what}") as caught:
        regraft.load(net, [inputs(2)])
    assert "left_graph.py:" in caught.value.place
    assert caught.value.hint
