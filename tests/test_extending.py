"""What users add of their own: passes of any file, and operators of three frameworks for four targets."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import regraft
from regraft.api import extensions
from regraft.backends.mindspore_source.emitters import TABLE as mindspore_emitters
from regraft.backends.mxnet_symbol.emitters import TABLE as mxnet_emitters
from regraft.backends.torch_source.emitters import TABLE as torch_emitters
from regraft.cli import main
from regraft.frontends.registry import FRONTENDS, frontend
from regraft.ir import COMPOSITES

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / "examples" / "extending"
SYMBOL = ROOT / "examples" / "shared_weight-symbol.json"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def symbol(folder: Path, operator: str, **attributes: str) -> Path:
    """A symbol of one operator."""
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": operator, "name": "act", "attrs": attributes, "inputs": [[0, 0, 0]]},
    ]
    path = folder / "net-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]}))
    return path


class TestPasses:
    def test_of_a_file_with_an_option_after_the_default_ones(self, tmp_path: Path) -> None:
        path = symbol(tmp_path, "Activation", act_type="relu")
        own = f"{OWN / 'relu_to_gelu.py'}:ReluToGelu:approximate=tanh"
        graph = regraft.load(str(path), {"data": "2x3"})
        result = regraft.rewrite(graph, [*regraft.default_pipeline(), own])
        (node,) = result.graph.operators()
        assert (node.op_type, node.attributes) == ("Gelu", {"approximate": "tanh"})
        assert [c.code for c in result.changes if c.code == "RG101"] == ["RG101"]

    def test_on_the_command_line_after_the_default_ones_or_instead(self, tmp_path: Path) -> None:
        path = symbol(tmp_path, "Activation", act_type="relu")
        given = ("rewrite", path, "--input", "data=2x3", "--no-verify")
        own = f"{OWN / 'relu_to_gelu.py'}:ReluToGelu"
        for option in ("--pass", "--only-pass"):
            out = tmp_path / f"{option}.onnx"
            result = invoke(*given, option, own, "-o", out)
            assert result.exit_code == 0, result.output
            assert "RG101" in result.output
            assert [n.op_type for n in onnx.load(out).graph.node] == ["Gelu"]

    def test_a_pass_that_computes_something_else_is_not_kept(self, tmp_path: Path) -> None:
        path = symbol(tmp_path, "Activation", act_type="relu")
        own = f"{OWN / 'relu_to_gelu.py'}:ReluToGelu"
        out = tmp_path / "out.onnx"
        result = invoke("rewrite", path, "--input", "data=2x3", "--pass", own, "-o", out)
        assert result.exit_code == 1, result.output
        assert "E701" in result.output
        assert not out.exists()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("class Mine: pass", ["subclass of `regraft.Pass`", "the class `Mine`"]),
            ("Mine = 3", ["got a value", "`Mine`"]),
            ("def Mine(): pass", ["subclass of `regraft.Pass`", "`function`"]),
            ("import regraft\nclass Mine(regraft.Pass):\n    name = 'mine'", ["dataclass(frozen=True)"]),
            (
                "import regraft, dataclasses as d\n@d.dataclass(frozen=True)\nclass Mine(regraft.Pass): 0",
                ["a name of `Mine`", "ClassVar[str]"],
            ),
            ("raise ValueError('broken on purpose')", ["broken on purpose", "own.py:1"]),
        ],
    )
    def test_what_is_no_pass_is_one_error_before_the_model_is_loaded(
        self, text: str, words: list[str], tmp_path: Path
    ) -> None:
        (tmp_path / "own.py").write_text(text)
        result = invoke(
            *("rewrite", "no-such-model.py:Net", "-o", tmp_path / "o.onnx"),
            *("--pass", f"{tmp_path / 'own.py'}:Mine"),
        )
        assert result.exit_code == 2
        assert "no-such-model" not in result.output
        for word in words:
            assert word in result.output, result.output

    def test_of_an_installed_package_by_its_entry_point(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        info = tmp_path / "mine-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
        (info / "entry_points.txt").write_text(
            "[regraft.passes]\nrelu-to-gelu = relu_to_gelu:ReluToGelu\nlost = nowhere_at_all:Lost\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.syspath_prepend(str(OWN))
        extensions._entry_points.cache_clear()
        try:
            assert (
                str(regraft.parse_pass("relu-to-gelu:approximate=tanh")) == "ReluToGelu(approximate='tanh')"
            )
            with pytest.raises(regraft.RegraftError, match=r"entry point `lost = nowhere_at_all:Lost`"):
                regraft.parse_pass("lost")
            with pytest.raises(regraft.RegraftError, match="did you mean `relu-to-gelu`"):
                regraft.parse_pass("relu-to-gel")
        finally:
            extensions._entry_points.cache_clear()
            sys.modules.pop("relu_to_gelu", None)


@pytest.fixture(scope="module", autouse=True)
def extension() -> Iterator[None]:
    """The operators of a file, which other tests of this process do not have."""
    tables = [frontend(row.framework).load_table().functions for row in FRONTENDS if row.has_lowerings]
    tables += [COMPOSITES, mindspore_emitters.calls, torch_emitters.calls, mxnet_emitters, extensions._CUSTOM]
    before, claimed = [dict(table) for table in tables], set(extensions._OWN)
    regraft.load_extension(OWN / "scaled_softsign.py")
    yield
    for table, rows in zip(tables, before, strict=True):
        table.clear()
        table.update(rows)
    extensions._OWN.intersection_update(claimed)
    for name in [n for n in sys.modules if n.startswith("regraft_model_scaled_softsign")]:
        del sys.modules[name]


def expected(x: np.ndarray, scale: float) -> np.ndarray:
    return scale * x / (1 + abs(x))


class TestOperators:
    def test_of_mxnet_is_read_and_written_again(self, tmp_path: Path) -> None:
        path = symbol(tmp_path, "scaled_softsign", scale="3.0")
        graph = regraft.load(str(path), {"data": "2x3"})
        assert [n.qualified_name for n in graph.operators()] == ["regraft.ScaledSoftsign"]
        regraft.save(graph, tmp_path / "out", to="mxnet")
        again = json.loads((tmp_path / "out" / "net-symbol.json").read_text())["nodes"][-1]
        assert (again["op"], again["attrs"]) == ("scaled_softsign", {"scale": "3.0"})
        written = regraft.load(str(tmp_path / "out" / "net-symbol.json"), {"data": "2x3"})
        assert regraft.verify(graph, written).passed

    def test_in_onnx_it_is_its_expansion_and_computes_what_it_should(self, tmp_path: Path) -> None:
        import onnxruntime

        path = symbol(tmp_path, "scaled_softsign", scale="3.0")
        result = invoke(
            *("rewrite", path, "--input", "data=2x3", "-o", tmp_path / "out.onnx"),
            *("--extension", OWN / "scaled_softsign.py"),
        )
        assert result.exit_code == 0, result.output
        x = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
        session = onnxruntime.InferenceSession(tmp_path / "out.onnx")
        np.testing.assert_allclose(session.run(None, {"data": x})[0], expected(x, 3.0), rtol=1e-6)

    @pytest.mark.parametrize(
        ("to", "text"), [("mindspore", "2.0 * ops.softsign("), ("torch", "2.0 * F.softsign(")]
    )
    def test_of_torch_in_source(self, to: str, text: str, tmp_path: Path) -> None:
        import torch

        if not hasattr(torch.ops.mylib, "scaled_softsign"):

            @torch.library.custom_op("mylib::scaled_softsign", mutates_args=())
            def scaled_softsign(x: torch.Tensor, scale: float) -> torch.Tensor:
                return scale * torch.nn.functional.softsign(x)

            scaled_softsign.register_fake(lambda x, scale: torch.empty_like(x))

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.dense = torch.nn.Linear(4, 4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.ops.mylib.scaled_softsign(self.dense(x), 2.0) + 1

        graph = regraft.load(Net(), "2x4")
        regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to=to)
        source = (tmp_path / "out" / "model.py").read_text()
        assert text in source
        assert regraft.verify(graph, tmp_path / "out").passed

    def test_of_mindspore_is_told_by_the_name_of_its_function(self) -> None:
        import mindspore as ms

        def twice_softsign(x: np.ndarray) -> np.ndarray:
            return expected(x, 2.0).astype(np.float32)

        def another(x: np.ndarray) -> np.ndarray:
            return x

        class Net(ms.nn.Cell):
            def __init__(self, function: object) -> None:
                super().__init__()
                same = {"out_shape": lambda x: x, "out_dtype": lambda x: x, "func_type": "pyfunc"}
                self.own = ms.ops.Custom(function, **same)

            def construct(self, x):
                return self.own(x)

        graph = regraft.load(Net(twice_softsign), "2x4")
        assert [n.qualified_name for n in graph.operators()] == ["regraft.ScaledSoftsign"]
        with pytest.raises(regraft.UnsupportedError, match=r'"Custom\.another"'):
            regraft.load(Net(another), "2x4")

    def test_what_regraft_has_itself_is_not_replaced(self) -> None:
        for add in (
            lambda: regraft.add_lowering("mxnet", "Convolution")(print),
            lambda: regraft.add_emitter("mxnet", "Conv")(print),
            lambda: regraft.add_operator("Linear", print),
        ):
            with pytest.raises(regraft.UsageError, match="expected an operator that regraft does not have"):
                add()
        with pytest.raises(regraft.UsageError, match="mindspore, torch, mxnet"):
            regraft.add_emitter("onnx", "Conv")
        for framework in ("tensorflow", "onnx"):
            with pytest.raises(regraft.UsageError, match=f"torch, mindspore, mxnet, got `{framework}`"):
                regraft.add_lowering(framework, "Conv2D")

    def test_ones_own_may_be_registered_again(self) -> None:
        regraft.load_extension(OWN / "scaled_softsign.py")
        assert regraft.add_lowering("mxnet", "scaled_softsign")(print) is print
        sys.modules.pop(next(n for n in sys.modules if n.startswith("regraft_model_scaled_softsign")))
        regraft.load_extension(OWN / "scaled_softsign.py")


def test_the_document_shows_the_files_that_are_tested() -> None:
    text = (ROOT / "docs" / "en" / "guides" / "extending.md").read_text()
    for path in sorted(OWN.glob("*.py")):
        assert f"```python\n{path.read_text()}```" in text, path.name
