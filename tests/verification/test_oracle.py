"""A symbol in MXNet itself, by way of a Python that has it, and all that can be wrong with that Python."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

import regraft
from regraft.cli import main
from regraft.ir import ModelError, UsageError
from regraft.verification.oracle.mxnet_runner import MXNetRunner
from regraft.verification.oracle.nodes import compare_nodes

PYTHON = os.environ.get("REGRAFT_MXNET_PYTHON", "")
SYMBOL = Path(__file__).parents[2] / "examples" / "shared_weight-symbol.json"
KERNEL = {"data": np.ones((1, 1, 3, 3), np.float32)}

needs_mxnet = pytest.mark.skipif(not PYTHON, reason="REGRAFT_MXNET_PYTHON names no Python that has MXNet")


def imported(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


corpus = imported("oracle_cases", Path(__file__).parents[1] / "corpora" / "mxnet" / "cases.py")


@pytest.fixture(autouse=True)
def without_an_oracle_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGRAFT_MXNET_PYTHON", raising=False)


@pytest.fixture(scope="module")
def graph() -> regraft.Graph:
    return regraft.load(str(SYMBOL), KERNEL)


def test_without_an_oracle_the_first_line_says_what_was_compared(
    graph: regraft.Graph, tmp_path: Path
) -> None:
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.summary().startswith("equal to what was read: ")
    assert report.to_json()["proved_against"] == "graph"


def answering(folder: Path, body: str) -> str:
    """A program in the place of an interpreter, in Python; it reads nothing that is not asked of it."""
    file = folder / "python"
    file.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_no_such_python(graph: regraft.Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot start `.*nothing`: No such file or directory"):
        MXNetRunner(graph, tmp_path / "nothing")


def test_a_python_without_mxnet(graph: regraft.Graph) -> None:
    with pytest.raises(ModelError, match="raised ModuleNotFoundError: No module named 'mxnet'") as caught:
        MXNetRunner(graph, sys.executable)
    assert caught.value.hint == f"it needs `{sys.executable} -I -c 'import mxnet'` to work"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("time.sleep(60)", "gave no answer in 1 seconds"),
        ("sys.stderr.write('out of luck\\n'); sys.exit(7)", "ended with code 7: out of luck"),
        ("os.kill(os.getpid(), 9)", "ended with code -9"),
        ("sys.stdin.readline(); print('hello')", "answered with no JSON"),
        ("sys.stdin.readline(); print('[1]')", "answered with something else than an object"),
        ("sys.stdin.readline(); print(json.dumps({'error': 'Broken: no\\nmore'}))", "raised Broken: no"),
        (
            "sys.stdin.readline(); print('x', end='', flush=True); time.sleep(60)",
            "gave no answer in 1 seconds",
        ),
    ],
)
def test_a_process_that_does_not_answer(
    graph: regraft.Graph, tmp_path: Path, body: str, expected: str
) -> None:
    with pytest.raises(ModelError, match=expected) as caught:
        MXNetRunner(graph, answering(tmp_path, body), timeout=1)
    assert caught.value.code == "E702"


def test_a_process_that_ends_between_two_questions(graph: regraft.Graph, tmp_path: Path) -> None:
    described = json.dumps({"version": "0", "values": []})
    python = answering(tmp_path, f"sys.stdin.readline(); print({described!r}, flush=True)")
    runner = MXNetRunner(graph, python, timeout=10)
    try:
        with pytest.raises(ModelError, match="ended with code 0"):
            runner.run(KERNEL)
    finally:
        folder = runner._process.folder
        runner.close()
    assert not folder.exists()


def test_a_source_of_another_framework_has_no_oracle(tmp_path: Path) -> None:
    import torch

    net = regraft.load(torch.nn.Linear(2, 2), (np.ones((1, 2), np.float32),))
    regraft.save(net, tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="expected an MXNet symbol as the source, got Linear"):
        regraft.verify(net, tmp_path / "net.onnx", oracle=sys.executable)


def test_the_command_names_a_python_that_cannot_be_started(tmp_path: Path) -> None:
    arguments = ["rewrite", str(SYMBOL), "--input", "data=1x1x3x3", "-o", str(tmp_path / "x.onnx")]
    for further, environment in (
        (["--oracle", "/no/python"], {}),
        ([], {"REGRAFT_MXNET_PYTHON": "/no/python"}),
    ):
        result = CliRunner().invoke(main, [*arguments, *further], env=environment)
        assert result.exit_code == 2
        assert "cannot start `/no/python`" in result.output
    assert not (tmp_path / "x.onnx").exists()


def test_the_environments_python_is_for_symbols_only(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch\n\n\ndef build():\n    return torch.nn.Linear(2, 2)\n")
    arguments = ["rewrite", f"{tmp_path / 'net.py'}:build", "--input", "1x2", "-o", str(tmp_path / "x.onnx")]
    result = CliRunner().invoke(main, arguments, env={"REGRAFT_MXNET_PYTHON": "/no/python"})
    assert result.exit_code == 0, result.output


@needs_mxnet
@pytest.mark.parametrize("to", ["onnx", "mindspore", "mxnet"])
def test_the_symbol_itself_is_the_source(graph: regraft.Graph, tmp_path: Path, to: str) -> None:
    out = tmp_path / ("net.onnx" if to == "onnx" else "net")
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), out, to, oracle=PYTHON)
    assert report is not None
    assert report.summary().startswith("equal: ")
    assert "outputs of the source's nodes" in report.summary()
    assert report.proved_against == "source"
    assert "shared_weight-symbol.json in MXNet 1." in report.source
    assert [row.call for row in report.nodes]
    assert all(row.passed for row in report.nodes)


@needs_mxnet
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["lenet", "resnet_v2_cifar", "siamese", "text_cnn", "transformer_batch_dot", "unet"]
)
def test_every_node_gives_what_it_gives_in_mxnet(name: str, tmp_path: Path) -> None:
    (case,) = [c for key, c in corpus.cases("models").items() if key == f"net/{name}"]
    graph = regraft.load(str(case.write(tmp_path)), case.inputs())
    runner = MXNetRunner(graph, PYTHON)
    try:
        rows = compare_nodes(graph, runner, graph.origin.inputs)
        case.check([array for _, array in runner.run(graph.origin.inputs, calls=False).outputs])
    finally:
        runner.close()
    assert len(rows) >= 4
    assert [row.call for row in rows if not row.passed] == []


@needs_mxnet
def test_a_wrong_lowering_is_named_at_its_node(tmp_path: Path) -> None:
    (case,) = [c for key, c in corpus.cases("models").items() if key == "net/lenet"]
    symbol = case.write(tmp_path)
    graph = regraft.load(str(symbol), case.inputs())
    pool = next(o for o in graph.operators() if o.op_type in ("MaxPool", "AveragePool"))
    pool.op_type = "AveragePool" if pool.op_type == "MaxPool" else "MaxPool"
    pool.attributes.pop("storage_order", None)
    pool.attributes.pop("count_include_pad", None)
    regraft.save(graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx", oracle=PYTHON)
    assert not report.passed
    first = next(row for row in report.nodes if not row.passed)
    assert first.class_name == "Pooling"
    assert f"the graph that was read differs from the source first at `{first.call}`" in report.render()
