"""Every emitter of MindSpore source: what it writes, run by MindSpore, against ONNX Runtime."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch._higher_order_ops.while_loop import while_loop

import regraft
from regraft.backends.mindspore_source import write
from regraft.backends.mindspore_source.dialect import can_emit
from regraft.backends.mindspore_source.emitters import TABLE
from regraft.backends.mindspore_source.operators import DOMAIN
from regraft.backends.onnx_model import to_model
from regraft.backends.source.emission import Probe
from regraft.backends.source.emitting import View
from regraft.backends.source.lowering.write_out_operators import WriteOutOperators
from regraft.backends.source.lowering.written_out import TABLE as FORMULAS
from regraft.backends.source.operators import DOMAIN as SOURCE
from regraft.ir import COMPOSITES, Builder, Graph, TensorType, parse, validate

from .operators import CASES
from .operators.case import Case, Input, floats, graph_of
from .operators.written_out import BATCH_FIRST, WRITTEN_OUT
from .recording import rows_that_run

pytestmark = pytest.mark.xdist_group("mindspore")


def taken(cases: Sequence[Case]) -> list[Case]:
    rows = {*TABLE.layers, *TABLE.calls}
    every = [case for case in cases if case.row in rows and "mindspore" in case.backends]
    return [*every, *(first for case in every for first in case.firsts())]


def is_written(view: View) -> bool:
    return not isinstance(view.scope, Probe)


def emitted(folder: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"emitter_rows_{name}", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.build()


@pytest.mark.parametrize("kind", ["calls", "layers"])
def test_rows_are_onnxs(kind: str, tmp_path: Path) -> None:
    """In the root's own `construct`, and each in a module of its own, which becomes a layer if it can."""
    import mindspore as ms

    cases = taken(CASES)
    graph, given = graph_of(cases, modules=kind == "layers")
    validate(graph)
    with rows_that_run(TABLE, kind, counts=is_written) as ran:
        write(graph, tmp_path / "out", attention_layers=True)
    ran |= {row.removeprefix(f"{DOMAIN}.") for row in ran}
    assert {case.row for case in cases if case.row in getattr(TABLE, kind)} - ran == set()
    assert {row for row in getattr(TABLE, kind) if row.startswith(DOMAIN)} - ran - ELSEWHERE == set()
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString())
    expected = session.run(None, {i.name: given[i.name] for i in session.get_inputs()})
    net = emitted(tmp_path / "out", kind)
    for turn in (1, 2):  # some kernels of MindSpore's are another function at every second call
        got = net(*map(ms.Tensor, given.values()))
        for (name, _), e, g in zip(graph.outputs, expected, got, strict=True):
            np.testing.assert_allclose(g.asnumpy(), e, rtol=1e-4, atol=2e-5, err_msg=f"{name}, call {turn}")
            assert g.asnumpy().dtype == e.dtype, name


def flat(found: Any) -> list[np.ndarray]:
    return [a for f in found for a in flat(f)] if isinstance(found, (list, tuple)) else [found.asnumpy()]


@pytest.mark.parametrize("modules", [True, False])
def test_composites_that_draw_in_training_do_so_in_mindspore(modules: bool, tmp_path: Path) -> None:
    """As layers and as functions, and in training only."""
    import mindspore as ms

    names = {n for n, c in COMPOSITES.items() if c.traits.random and c.traits.trains_differently}
    cases = [case for case in taken(CASES) if case.row.removeprefix("regraft.") in names]
    graph, given = graph_of(cases, modules=modules)
    write(graph, tmp_path / "out")
    net = emitted(tmp_path / "out", f"drawn{modules}")
    for training in (True, False):
        net.set_train(training)
        first, second = ([net(*map(ms.Tensor, given.values()))] for _ in range(2))
        for (name, _), a, b in zip(graph.outputs, flat(first), flat(second), strict=True):
            assert np.array_equal(a, b) != training, name


def run_in_runtime(model: Any, given: dict[str, np.ndarray]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return list(session.run(None, {i.name: given[i.name] for i in session.get_inputs()}))


def evaluate(model: Any, given: dict[str, np.ndarray]) -> list[Any]:
    return list(ReferenceEvaluator(model).run(None, given))


@pytest.mark.parametrize(("cases", "run"), [(WRITTEN_OUT, run_in_runtime), (BATCH_FIRST, evaluate)])
def test_what_mindspore_has_no_function_for_is_onnxs(cases: list[Case], run: Any, tmp_path: Path) -> None:
    """Every formula of operators that are written in others, one graph of all."""
    import mindspore as ms

    graph, given = graph_of(cases, modules=False)
    model = to_model(graph)
    found = [change for change in WriteOutOperators(can_emit).run(graph) if change.code == "MS131"]
    assert len(found) >= len(cases)
    write(graph, tmp_path / "out")
    got = emitted(tmp_path / "out", f"written_out{len(cases)}")(*map(ms.Tensor, given.values()))
    for (name, _), e, g in zip(graph.outputs, run(model, given), got, strict=True):
        np.testing.assert_allclose(g.asnumpy(), e, rtol=1e-4, atol=2e-5, err_msg=name)
        assert g.asnumpy().dtype == e.dtype, name


def test_every_formula_has_a_case() -> None:
    assert {case.row for case in (*WRITTEN_OUT, *BATCH_FIRST)} == set(FORMULAS)


COUNTED = """
graph main {
  module "" Net
  %x = input "x" : f32[4]
  %n = input "n" : i64[]
  %0 = Loop(%n, _, %x) : f32[4], f32[?,4] @ "#1" with
    body =
    graph body {
      %turn = input "turn" : i64[]
      %keep = input "keep" : bool[]
      %x = input "x" : f32[4]
      %0 = Cast(%turn) {to=1} : f32[]
      %1 = Sub(%0, %x) : f32[4]
      %2 = ReduceMax(%1) {keepdims=0} : f32[]
      %3 = const 5.0 : f32[]
      %4 = Less(%2, %3) : bool[]
      return "more" = %4
      return "x" = %1
      return "all" = %1
    }
  end
  return "y" = %0
  return "all" = %0:1
}
"""


def test_a_loop_that_counts_its_turns_and_collects_what_they_give(tmp_path: Path) -> None:
    """Ended by the number of its turns, by its condition, and before its first turn."""
    import mindspore as ms

    graph = parse(COUNTED)
    model, x = to_model(graph), np.arange(4, dtype=np.float32)
    write(graph, tmp_path / "out")
    net = emitted(tmp_path / "out", "counted")
    for turns in (0, 3, 50):
        got = net(ms.Tensor(x), ms.Tensor(turns, ms.int64))
        for e, g in zip(run_in_runtime(model, {"x": x, "n": np.array(turns)}), got, strict=True):
            np.testing.assert_array_equal(g.asnumpy(), e)


def test_remainders_by_infinite_numbers(tmp_path: Path) -> None:
    """As Python has them; ONNX Runtime takes no remainders of floats with the sign of the divisor."""
    import mindspore as ms

    x = np.array([1, -1, 0, 7, -7, np.inf, 7, 5], np.float32)
    y = np.array([np.inf, np.inf, -np.inf, -np.inf, -np.inf, 2, -2, np.nan], np.float32)
    graph, given = graph_of([Case("Mod", Input(x), Input(y), backends=["mindspore"])], modules=False)
    write(graph, tmp_path / "out")
    got = emitted(tmp_path / "out", "remainders")(*map(ms.Tensor, given.values()))
    np.testing.assert_array_equal(got.asnumpy(), [1, np.inf, 0, -np.inf, -7, np.nan, -1, np.nan])


class Branch(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


class Turns(torch.nn.Module):
    def forward(self, x):
        return while_loop(lambda n, y: y.sum() < 9, lambda n, y: (n + 1, y * y + 1), (torch.tensor(0), x))


NETS = {"If": Branch(), "While": Turns()}


@pytest.mark.parametrize("row", NETS)
def test_control_flow_is_torchs(row: str, tmp_path: Path) -> None:
    import mindspore as ms

    x = floats(2, 3)
    graph = regraft.rewrite(regraft.load(NETS[row], (x,))).graph
    with rows_that_run(TABLE, "calls") as ran:
        write(graph, tmp_path / "out")
    assert f"{SOURCE}.{row}" in ran
    net = emitted(tmp_path / "out", row)
    for given in (np.abs(x), -np.abs(x)):
        want, got = NETS[row](torch.from_numpy(given)), net(ms.Tensor(given))
        for w, g in zip(*(v if isinstance(v, tuple) else (v,) for v in (want, got)), strict=True):
            np.testing.assert_allclose(g.asnumpy(), w.numpy(), rtol=1e-5)


def test_what_is_left_to_be_written_says_so(tmp_path: Path) -> None:
    import mindspore as ms

    words = {"operator": "aten.foo.default", "call": "foo(x0)", "reason": "it is odd"}
    b = Builder(Graph())
    b.call = b.graph.modules.add_call(b.graph.modules.add("Net"))
    x = b.graph.add_input("x", TensorType("float32", (2, 3)))
    b.graph.outputs.append(("y", b.op("regraft.Stub", x, types=[TensorType("float32", (2, 3))], **words)))
    write(b.graph, tmp_path / "out", partial=True)
    with pytest.raises(NotImplementedError, match=r"foo\(x0\) -> .*: it is odd"):
        emitted(tmp_path / "out", "stub")(ms.Tensor(floats(2, 3)))


def test_matrices_too_large_to_be_written_out(tmp_path: Path) -> None:
    """Factors without a gradient stand for what ONNX has no way to say."""
    import mindspore as ms

    a = floats(66, 66) * 0.1
    a = a @ a.T + np.eye(66, dtype=np.float32)
    b = Builder(Graph())
    b.call = b.graph.modules.add_call(b.graph.modules.add("Net"))
    x = b.graph.add_input("x", TensorType("float32", a.shape))
    for number, upper in enumerate((0, 1)):
        b.graph.outputs.append((f"factor{number}", b.op("regraft.Cholesky", x, upper=upper)))
    for number, value in enumerate(b.ops("regraft.QR", x, outputs=2)):
        b.graph.outputs.append((f"part{number}", value))
    validate(b.graph)
    with rows_that_run(TABLE, "calls") as ran:
        write(b.graph, tmp_path / "out")
    assert {"regraft.Cholesky", "regraft.QR"} <= ran
    lower = np.linalg.cholesky(a)
    want = [lower, lower.T, *np.linalg.qr(a)]
    for w, g in zip(want, emitted(tmp_path / "out", "large")(ms.Tensor(a)), strict=True):
        np.testing.assert_allclose(g.asnumpy(), w, atol=1e-4)


ELSEWHERE = (
    {
        "regraft.Stub",
        "regraft.Cholesky",
        "regraft.QR",
        f"{SOURCE}.If",
        f"{SOURCE}.While",
        f"{SOURCE}.Entry",
        f"{SOURCE}.SizeTensor",  # behind Shape and Size
    }
    | {  # of models of an older opset, and of no fixed value: test_mxnet_rows.py
        *("RoiAlign", "Multinomial"),
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    }
    | {
        f"{DOMAIN}.Sigmoid",  # of nets with dozens of them: test_mindspore_constructs.py
        f"{DOMAIN}.Softmax",  # of masked rows, likewise
        f"{DOMAIN}.LogSoftmax",  # computed with: likewise
    }
)
"""Rows with tests of their own."""


def test_every_row_has_a_case() -> None:
    """A row of the target's own operators is proved by a case of what is lowered to it."""
    named = {case.row for case in taken(CASES)} | ELSEWHERE
    rows = {*TABLE.layers, *TABLE.calls} - ELSEWHERE
    plain = {row.removeprefix(f"{DOMAIN}.").removeprefix(f"{SOURCE}.") for row in rows}
    assert plain - named == set(), "declare a case in tests/rows/operators"
