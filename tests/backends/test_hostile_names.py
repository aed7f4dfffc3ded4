"""Names of a symbol that are code, quotes, line breaks or markup: emitted source holds them as names only."""

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import helper, numpy_helper
from torch import nn

import regraft
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


NAMES = [
    "\ufb01",
    "\u210c",
    "CHECKPOINT",
    "__conv",
    "__init__",
    "self",
    "forward",
    "training",
    "import",
    'a"""b',
    "x\\",
]
"""Names that Python normalises, mangles or needs for itself, and quotes."""


def of_modules(name: str) -> onnx.ModelProto:
    """A net whose only module, its class, its weights and the net itself bear a name."""
    stored = {
        f"{name}.weight": np.full((2, 3, 1, 1), 0.5, np.float32),
        f"{name}.bias": np.ones(2, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", *stored], ["h"], "/conv/Conv"),
        helper.make_node("Relu", ["h"], ["y"], "/act/Relu"),
    ]
    for node in nodes:
        scopes = {
            "name_scopes": ["", name, node.name],
            "class_hierarchy": ["m.Net", f"m.{name}", node.op_type],
        }
        for key, listed in scopes.items():
            node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=str(listed))
    ends = [[helper.make_tensor_value_info(n, 1, ["N", c, 4, 4])] for n, c in (("x", 3), ("y", 2))]
    tensors = [numpy_helper.from_array(value, key) for key, value in stored.items()]
    graph = helper.make_graph(nodes, name, *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def imported(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hostile_{name}", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("is_scoped", [True, False])
def test_a_name_is_one_that_python_keeps(is_scoped: bool, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        model, out = of_modules(name), tmp_path / f"net{number}"
        for node in () if is_scoped else model.graph.node:
            del node.metadata_props[:]
        regraft.save(regraft.rewrite(regraft.load(model), to="torch").graph, out, to="torch")
        module = imported(out, f"{number}_{is_scoped}")
        x = torch.rand(2, 3, 4, 4)
        wanted = torch.relu(x.sum(1, keepdim=True) * 0.5 + 1).expand(2, 2, 4, 4)
        net = module.build()
        torch.testing.assert_close(net(x).detach(), wanted)
        assert not net.train(False).training


class Numbered(nn.Module):
    """Parameters and a module that only `setattr` can name."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.ParameterList([torch.full((3,), 2.0), torch.ones(3)])
        self.register_parameter("1", nn.Parameter(torch.rand(3)))
        self.register_buffer("\ufb01", torch.rand(3))
        self.add_module("__conv", nn.Linear(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a sum."""
        x = self._modules["__conv"](x * self._parameters["1"] + self._buffers["\ufb01"])  # type: ignore[misc]
        return x * self.plain[0] + self.plain[1]


def test_names_of_torch_that_no_attribute_has_stay(tmp_path: Path) -> None:
    source = Numbered().eval()
    regraft.save(regraft.rewrite(regraft.load(source, ["2x3"]), to="torch").graph, tmp_path / "o", to="torch")
    assert "* self.plain[0]" in (tmp_path / "o" / "model.py").read_text()
    net, x = imported(tmp_path / "o", "numbered").build(), torch.rand(2, 3)
    torch.testing.assert_close(net(x), source(x))
    net.load_state_dict(source.state_dict())


class Halved(nn.Module):
    """A module whose name no file can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("a\ud800", nn.Linear(2, 2))

    def forward(self, x):
        return self._modules["a\ud800"](x)


@pytest.mark.parametrize("to", ["torch", "mindspore", "onnx", "mxnet"])
def test_a_lone_surrogate_is_one_error(to: str, tmp_path: Path) -> None:
    graph = regraft.load(Halved(), (torch.ones(1, 2),))
    out = tmp_path / ("net.onnx" if to == "onnx" else "net")
    with pytest.raises(regraft.RegraftError, match=r"E602 expected names in UTF-8, got .*U\+D800"):
        regraft.save(regraft.rewrite(graph).graph, out, to=to)
    assert not out.exists()
