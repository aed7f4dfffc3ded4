"""Every emitter of MindSpore source: what it writes, run by MindSpore, against ONNX Runtime on the same graph."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from regraft.backends.mindspore_source import write
from regraft.backends.mindspore_source.emitting import View
from regraft.backends.mindspore_source.families import TABLE, _Probe
from regraft.backends.onnx_model import to_model
from regraft.ir import validate

from .operators import CASES
from .operators.case import Case, graph_of
from .recording import rows_that_run

pytestmark = pytest.mark.xdist_group("mindspore")


def taken(cases: Sequence[Case]) -> list[Case]:
    rows = {*TABLE.layers, *TABLE.calls}
    return [case for case in cases if case.row in rows and "mindspore" in case.backends]


def is_written(view: View) -> bool:
    return not isinstance(view.scope, _Probe)


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
    """In the root's own `construct`, and each in a module of its own, which becomes a layer where there is one."""
    import mindspore as ms

    cases = taken(CASES)
    graph, given = graph_of(cases, modules=kind == "layers")
    validate(graph)
    with rows_that_run(TABLE, kind, counts=is_written) as ran:
        write(graph, tmp_path / "out")
    assert {case.row for case in cases if case.row in getattr(TABLE, kind)} - ran == set()
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString())
    expected = session.run(None, {i.name: given[i.name] for i in session.get_inputs()})
    got = emitted(tmp_path / "out", kind)(*map(ms.Tensor, given.values()))
    for (name, _), e, g in zip(graph.outputs, expected, got, strict=True):
        np.testing.assert_allclose(g.asnumpy(), e, rtol=1e-4, atol=2e-5, err_msg=name)


def test_every_row_has_a_case() -> None:
    assert {*TABLE.layers, *TABLE.calls} - {case.row for case in taken(CASES)} == set(), "declare a case in tests/rows/operators"
