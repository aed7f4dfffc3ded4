"""Names of a symbol that are code, quotes, line breaks or markup: emitted source holds them as names only."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from regraft.cli import main

from ..corpora.mxnet.cases import save_params
from ..fuzz.mutation import MARK, TEXTS

SHORT = [t for t in TEXTS if len(t) <= 300]
CONTROL = [t for t in SHORT if not t.isprintable()]


def write(folder: Path, names: list[str], attributes: dict[str, str], stem: str = "net") -> Path:
    data, weight, conv, grad, out = names
    nodes = [
        {"op": "null", "name": data, "attrs": {"__shape__": "(2, 1, 3, 3)"}, "inputs": []},
        {"op": "null", "name": weight, "attrs": attributes, "inputs": []},
        {
            "op": "Convolution",
            "name": conv,
            "attrs": {"kernel": "(2, 2)", "num_filter": "1", "no_bias": "True"},
            "inputs": [[0, 0], [1, 0]],
        },
        {"op": "BlockGrad", "name": grad, "inputs": [[2, 0]]},
        {"op": "relu", "name": out, "inputs": [[3, 0]]},
    ]
    path = folder / f"{stem}-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": [[4, 0], [3, 0]]}))
    values = {f"arg:{weight}": np.ones((1, 1, 2, 2), np.float32)}
    if weight.isprintable():
        save_params(folder / f"{stem}-0000.params", values)
    return path


def emitted(path: Path, out: Path, *options: str) -> int:
    result = CliRunner().invoke(main, ["rewrite", str(path), "-o", str(out), "--to", "mindspore", *options])
    assert result.exit_code in (0, 2), (result.output, result.exception)
    if result.exit_code == 2:
        assert result.output.count("error E") == 1, result.output
        assert not out.exists()
    return result.exit_code


def assert_only_source(out: Path) -> None:
    """Every file parses, and calls nothing that came with a name."""
    files = sorted(out.glob("*.py"))
    assert files
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = node.func.id
                assert name not in (MARK, "open", "__import__", "exec", "eval", "compile"), path
            assert not isinstance(node, ast.Lambda) or "os" not in ast.dump(node), path
        imported = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        assert {name.partition(".")[0] for name in imported} <= {"mindspore", "numpy", "math", "os", "pytest"}


@pytest.mark.parametrize("text", SHORT, ids=[f"{n}" for n in range(len(SHORT))])
def test_every_name_at_once(text: str, tmp_path: Path) -> None:
    names = [f"{text}{suffix}" for suffix in ("", "_weight", "_c", "_b", "_o")]
    code = emitted(write(tmp_path, names, {}), tmp_path / "out", "--no-verify")
    if text in CONTROL and any(c in text for c in "\0\n\r\x1b\ud800\u2028"):
        assert code == 2
    if code == 0:
        assert_only_source(tmp_path / "out")


@pytest.mark.parametrize("key", ["__init__", "__lr_mult__", "__storage_type__", "__ctx_group__"])
def test_hidden_attributes(key: str, tmp_path: Path) -> None:
    for number, text in enumerate(SHORT[::7]):
        names = ["data", "weight", "conv", "grad", "out"]
        folder = tmp_path / str(number)
        folder.mkdir()
        if emitted(write(folder, names, {key: text}), folder / "out", "--no-verify") == 0:
            assert_only_source(folder / "out")


@pytest.mark.slow
def test_nothing_of_it_runs(tmp_path: Path) -> None:
    """The emitted module is imported, and its tests run, with names that are code."""
    code = f"x'''\"\"\");open('{MARK}','w')#"
    path = write(tmp_path, [code, f"{code}_weight", f"{code}c", f"{code}b", f"{code}o"], {}, stem="a');x#")
    assert emitted(path, tmp_path / "out", "--emit-tests") == 0
    assert_only_source(tmp_path / "out")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--rootdir",
            str(tmp_path / "out"),
        ],
        cwd=tmp_path / "out",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert not list(tmp_path.rglob(MARK))
    renames = json.loads((tmp_path / "out" / "renames.json").read_text(encoding="utf-8"))
    assert renames["parameters"][0]["source"] == f"{code}_weight"
