"""The command line: exit codes, one clear error for every bad input, and nothing left behind."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from regraft.cli import main

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.conv(x))

class Other(Net):
    def __init__(self):
        super().__init__()
        nn.init.constant_(self.conv.bias, 0.5)

class Raises(Net):
    def forward(self, x):
        raise RuntimeError("the weights are on strike")

class Unknown(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x) + torch.special.airy_ai(x)

def broken_factory():
    raise ValueError("no such config")
"""


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def assert_refused(result: Result, code: str, *words: str) -> None:
    """Exit code 2, one error with its code and these words, and no traceback."""
    assert result.exit_code == 2, result.output
    assert result.output.count("error") >= 1
    assert code in result.output
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.output, result.output


def rewrite(model: object, tmp_path: Path, *more: object) -> Result:
    """Rewrite to a fresh output and check that a refusal leaves nothing behind."""
    before = {p for p in tmp_path.rglob("*") if "__pycache__" not in p.parts}
    result = invoke("rewrite", model, "-o", tmp_path / "out.onnx", *more)
    if result.exit_code:
        after = {p for p in tmp_path.rglob("*") if "__pycache__" not in p.parts}
        assert after == before, after - before
    return result


class TestBadInput:
    def test_model_that_raises_when_called(self, net: Path, tmp_path: Path) -> None:
        result = rewrite(f"{net}:Raises", tmp_path, "--input", "2x3x8x8")
        assert_refused(result, "E103", "the weights are on strike", "net.py:21")

    def test_factory_that_raises(self, net: Path, tmp_path: Path) -> None:
        result = rewrite(f"{net}:broken_factory", tmp_path, "--input", "2x3x8x8")
        assert_refused(result, "E102", "no such config", "net.py:28")

    def test_file_with_a_syntax_error(self, tmp_path: Path) -> None:
        (tmp_path / "bad.py").write_text("class Net(:\n    pass\n")
        result = rewrite(f"{tmp_path / 'bad.py'}:Net", tmp_path, "--input", "2x3x8x8")
        assert_refused(result, "E102", "SyntaxError", "bad.py:1")

    def test_name_that_is_not_there(self, net: Path, tmp_path: Path) -> None:
        assert_refused(rewrite(f"{net}:Nett", tmp_path), "E102", "Nett", "Net")

    def test_file_that_is_not_there(self, tmp_path: Path) -> None:
        assert_refused(rewrite(tmp_path / "no.py:Net", tmp_path), "E101", "no.py")

    def test_pickled_model_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "model.pth").write_bytes(b"\x80\x04N.")
        assert_refused(rewrite(tmp_path / "model.pth", tmp_path), "E001", "pickled")

    def test_wrong_input_shape(self, net: Path, tmp_path: Path) -> None:
        result = rewrite(f"{net}:Net", tmp_path, "--input", "2x4x8x8")
        assert_refused(result, "E10", "4")

    def test_unreadable_input_spec(self, net: Path, tmp_path: Path) -> None:
        assert_refused(rewrite(f"{net}:Net", tmp_path, "--input", "2by3"), "E001", "2by3", "2x3x224x224")

    def test_every_unknown_torch_operator_at_once(self, net: Path, tmp_path: Path) -> None:
        result = rewrite(f"{net}:Unknown", tmp_path, "--input", "3x3")
        assert_refused(result, "E201", "eigvals", "airy_ai")

    def test_unknown_pass_names_the_near_one(self, net: Path, tmp_path: Path) -> None:
        result = rewrite(f"{net}:Net", tmp_path, "--input", "2x3x8x8", "--pass", "tie-weight")
        assert_refused(result, "E502", "tie-weights")

    def test_target_that_cannot_be_told(self, net: Path, tmp_path: Path) -> None:
        result = invoke("rewrite", f"{net}:Net", "-o", tmp_path / "out", "--input", "2x3x8x8")
        assert_refused(result, "E001", "--to")

    def test_output_that_exists_is_kept(self, net: Path, tmp_path: Path) -> None:
        (tmp_path / "out.onnx").write_text("mine")
        assert_refused(rewrite(f"{net}:Net", tmp_path, "--input", "2x3x8x8"), "E002", "--force")
        assert (tmp_path / "out.onnx").read_text() == "mine"
        assert rewrite(f"{net}:Net", tmp_path, "--input", "2x3x8x8", "--force").exit_code == 0
        assert (tmp_path / "out.onnx").read_bytes()[:4] != b"mine"

    def test_a_file_of_an_earlier_output_that_stays_is_told(self, net: Path, tmp_path: Path) -> None:
        (tmp_path / "out.onnx").write_text("of before")
        (tmp_path / "out.onnx.data").write_text("of before")
        result = rewrite(f"{net}:Net", tmp_path, "--input", "2x3x8x8", "--force")
        assert "out.onnx.data` is left from an earlier output" in result.output
        assert (tmp_path / "out.onnx.data").read_text() == "of before"


class TestBadSymbolFiles:
    def symbol(self, tmp_path: Path) -> dict:
        return json.loads((EXAMPLES / "shared_weight-symbol.json").read_text())

    def write(self, tmp_path: Path, symbol: object, params: bytes | None = None) -> Path:
        path = tmp_path / "net-symbol.json"
        path.write_text(json.dumps(symbol))
        data = (EXAMPLES / "shared_weight-0000.params").read_bytes() if params is None else params
        (tmp_path / "net-0000.params").write_bytes(data)
        return path

    def test_truncated_params(self, tmp_path: Path) -> None:
        whole = (EXAMPLES / "shared_weight-0000.params").read_bytes()
        path = self.write(tmp_path, self.symbol(tmp_path), whole[: len(whole) // 2])
        assert_refused(rewrite(path, tmp_path, "--input", "data=1x1x3x3"), "E101", "net-0000.params")

    def test_params_that_claim_too_much(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, self.symbol(tmp_path), struct.pack("<QQQ", 0x112, 0, 1 << 60))
        assert_refused(rewrite(path, tmp_path, "--input", "data=1x1x3x3"), "E101", "net-0000.params")

    def test_cycle(self, tmp_path: Path) -> None:
        symbol = self.symbol(tmp_path)
        conv = next(i for i, n in enumerate(symbol["nodes"]) if n["op"] == "Convolution")
        symbol["nodes"][conv]["inputs"][0] = [len(symbol["nodes"]) - 1, 0, 0]
        path = self.write(tmp_path, symbol)
        assert_refused(rewrite(path, tmp_path, "--input", "data=1x1x3x3"), "E101")

    def test_unknown_operator(self, tmp_path: Path) -> None:
        symbol = self.symbol(tmp_path)
        symbol["nodes"][-1]["op"] = "_contrib_Nonsense"
        path = self.write(tmp_path, symbol)
        assert_refused(rewrite(path, tmp_path, "--input", "data=1x1x3x3"), "E201", "_contrib_Nonsense")

    def test_not_json(self, tmp_path: Path) -> None:
        path = tmp_path / "net-symbol.json"
        path.write_text('{"nodes": [')
        assert_refused(rewrite(path, tmp_path), "E101", "net-symbol.json")


class TestCommands:
    def test_rewrite_reports_and_verifies(self, net: Path, tmp_path: Path) -> None:
        result = rewrite(f"{net}:Net", tmp_path, "--input", "2x3x8x8", "--json")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["verified"]["passed"] is True
        assert any(f.endswith("out.onnx") for f in document["files"])

    def test_constructor_arguments(self, net: Path) -> None:
        result = invoke("show", f"{net}:Net", "--input", "2x3x8x8", "--arg", "width=7", "--json")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["trainable"] == 7 * 3 * 9 + 7

    def test_clean_model_is_clean(self, net: Path) -> None:
        result = invoke("check", f"{net}:Net", "--input", "2x3x8x8", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["clean"] is True

    def test_check_without_inputs_says_what_it_skipped(self, net: Path) -> None:
        result = invoke("check", f"{net}:Net", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["skipped"]

    def test_verify_finds_the_layer_that_differs(self, net: Path, tmp_path: Path) -> None:
        assert rewrite(f"{net}:Net", tmp_path, "--input", "2x3x8x8").exit_code == 0
        same = invoke("verify", f"{net}:Net", tmp_path / "out.onnx", "--input", "2x3x8x8")
        assert same.exit_code == 0, same.output  # named again, the class starts from the same weights
        result = invoke("verify", f"{net}:Other", tmp_path / "out.onnx", "--input", "2x3x8x8", "--json")
        assert result.exit_code == 1, result.output
        document = json.loads(result.stdout)
        assert document["passed"] is False
        assert document["first_divergence"].startswith("conv")

    def test_passes_lists_the_default_pipeline_in_order(self) -> None:
        result = invoke("passes", "--json")
        rows = [r for r in json.loads(result.stdout) if r["position"]]
        assert [r["position"] for r in rows] == list(range(1, len(rows) + 1))
        assert rows[-1]["name"] == "rename-parameters"

    def test_passes_of_a_target_follow_those_of_all(self) -> None:
        rows = json.loads(invoke("passes", "--to", "mindspore", "--json").stdout)
        names = [r["name"] for r in rows if r["position"]]
        assert names[0] == "freeze-state"
        assert names[-2:] == ["dissolve-calls", "separate-arguments"]
        assert names.index("rename-parameters") < names.index("lower-control-flow") < names.index("legalise")

    def test_the_graph_after_a_pass_of_the_target(self, tmp_path: Path) -> None:
        arguments = (
            "rewrite",
            EXAMPLES / "shared_weight-symbol.json",
            "--input",
            "data=1x1x3x3",
            "--no-verify",
        )
        to = ("--to", "mindspore", "-o", tmp_path / "out")
        result = invoke(*arguments, *to, "--print-after", "enclose-in-root-call", "--verify-each")
        assert result.exit_code == 0, result.output
        assert result.output.count("graph main {") == 1
        assert "NOT COMPARED (--no-verify)\n" in result.output
        assert '@ "conv#1"' in result.output
        again = invoke(*arguments, *to, "--force", "--print-after", "turn-weights")
        assert_refused(again, "E502", "hoist-calls")

    def test_the_graph_after_a_pass_is_that_of_the_options(self, tmp_path: Path) -> None:
        net = tmp_path / "net.py"
        net.write_text(
            "import torch\n"
            "class Net(torch.nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.attention = torch.nn.MultiheadAttention(8, 2)\n"
            "    def forward(self, x):\n"
            "        return self.attention(x, x, x, need_weights=False)[0]\n"
        )
        arguments = ("rewrite", f"{net}:Net", "--input", "5x2x8", "--to", "mindspore", "--no-verify")
        whole: list[bool] = []
        for number, options in enumerate(((), ("--attention-layers",))):
            out = ("-o", tmp_path / str(number), "--print-after", "write-out-attention")
            result = invoke(*arguments, *out, *options)
            assert result.exit_code == 0, result.output
            whole.append("regraft.MultiheadAttention(" in result.output)
        assert whole == [False, True]

    @pytest.mark.parametrize("to", ["torch", "mindspore"])
    def test_renamed_parameters_are_said_as_the_file_has_them(self, to: str, tmp_path: Path) -> None:
        vectors = [helper.make_tensor(f"p{n}", TensorProto.FLOAT, [3], [n + 1.0] * 3) for n in range(4)]
        graph = helper.make_graph(
            [helper.make_node("BatchNormalization", ["x", "p0", "p1", "p2", "p3"], ["y"])],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 4, 4])],
            vectors,
        )
        model, out = tmp_path / "net.onnx", tmp_path / "out"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), model)
        result = invoke("rewrite", model, "--to", to, "-o", out, "-v")
        assert result.exit_code == 0, result.output
        told = re.findall(r"`p\d` is now called `([^`]+)`", result.output)
        rows = json.loads((out / "renames.json").read_text())["parameters"]
        assert len(told) == 4
        assert set(told) == {row["target"] for row in rows if row["source"]}

    @pytest.mark.parametrize("name", ["rename-parameters", "E201", "tie-weights", "hoist-calls", "OX103"])
    def test_explain(self, name: str) -> None:
        result = invoke("explain", name)
        assert result.exit_code == 0, result.output
        assert len(result.output) > 30

    def test_explain_lists_every_code(self) -> None:
        lines = invoke("explain").stdout.splitlines()
        assert {"errors:", "regraft check:", "rename-parameters:", "lower-control-flow:"} <= set(lines)
        for code in ("E701", "RP101", "PT101", "MS101"):
            assert any(line.startswith(f"  {code}  ") for line in lines)

    def test_every_command_has_a_whole_summary(self) -> None:
        commands = invoke("--help").stdout.partition("Commands:")[2].strip().partition("\n\n")[0]
        lines = commands.splitlines()
        assert len(lines) == len(main.commands)
        assert all(line.endswith(".") and not line.endswith("...") for line in lines)

    @pytest.mark.parametrize(
        ("given", "typed"),
        [("data=2,3", "data=2x3"), ("(2, 3)", "2x3"), ("data=[2,3]:int64", "data=2x3:int64")],
    )
    def test_a_shape_as_python_writes_it_is_told_what_to_type(self, given: str, typed: str) -> None:
        result = invoke("show", str(EXAMPLES / "shared_weight-symbol.json"), "--input", given)
        assert_refused(result, "E001", f"write `{typed}`")

    def test_an_input_of_almost_that_name_is_suggested(self) -> None:
        result = invoke("show", str(EXAMPLES / "shared_weight-symbol.json"), "--input", "dat=1x1x3x3")
        assert_refused(result, "E103", "did you mean `data`?")

    def test_explain_of_nothing_known(self) -> None:
        assert_refused(invoke("explain", "no-such-thing"), "E502")


@pytest.mark.parametrize(
    ("option", "named", "output"),
    [
        (["--explicit-initializers"], "explicit_initializers", "x.onnx"),
        (["--checkpoint-format", "safetensors"], "checkpoint_format", "x.onnx"),
        (["--no-fold", "--to", "torch"], "fold", "x"),
        (["--no-fold", "--to", "mindspore"], "fold", "x"),
    ],
)
def test_an_option_of_another_target_is_an_error_of_the_user(
    option: list[str], named: str, output: str, tmp_path: Path
) -> None:
    model = f"{EXAMPLES / 'shared_weight-symbol.json'}"
    arguments = ["rewrite", model, "--input", "data=1x1x3x3", "-o", str(tmp_path / output), *option]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert f"`{named}`" in result.output
    assert not list(tmp_path.iterdir())


def test_a_damaged_program_is_one_error_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.pt2").write_text("garbage")
    command = [sys.executable, "-m", "regraft", "show", str(tmp_path / "bad.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "E101" in done.stderr
    assert "Traceback" not in done.stderr


PACKAGE = """
import torch
from ..common import Base

class Net(Base):
    def __init__(self, depth=2, *, wide=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(depth))
        self.extra = torch.nn.Linear(4, 4) if wide else None

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x if self.extra is None else self.extra(x)
"""


@pytest.mark.parametrize(("arguments", "layers"), [((), 2), (("--arg", "depth=5", "--arg", "wide=True"), 6)])
def test_a_model_of_a_package_in_the_working_directory(
    arguments: tuple[str, ...], layers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "zoo_of_tests" / "deep"
    folder.mkdir(parents=True)
    for file in (folder / "__init__.py", folder.parent / "__init__.py"):
        file.write_text("")
    (folder.parent / "common.py").write_text("import torch\n\nclass Base(torch.nn.Module):\n    pass\n")
    (folder / "net.py").write_text(PACKAGE)
    monkeypatch.chdir(tmp_path)
    for name in [n for n in sys.modules if n.startswith("zoo_of_tests")]:
        monkeypatch.delitem(sys.modules, name)
    model = "zoo_of_tests.deep.net:Net"
    result = rewrite(model, tmp_path, "--input", "2x4", *arguments)
    assert result.exit_code == 0, result.output
    shown = invoke("show", model, *arguments)
    assert shown.output.count(" Linear ") == layers
    assert str(tmp_path) not in sys.path
    lost = invoke("show", "zoo_of_tests.deeper.net:Net")
    assert_refused(lost, "E101", "no module `zoo_of_tests.deeper`", "folder that holds the package")


PARTIAL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = self.first(x).relu()
        q, r = torch.linalg.ldl_factor(h.T @ h)
        return self.last(h @ q), torch.nextafter(x[:, 0], x[:, 1])
"""


class TestPartial:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        path = tmp_path / "partial.py"
        path.write_text(PARTIAL)
        return path

    def test_onnx_is_refused_with_every_operator(self, model: Path, tmp_path: Path) -> None:
        result = rewrite(f"{model}:Net", tmp_path, "--input", "5x4", "--partial")
        assert_refused(result, "E601", "linalg_ldl_factor.default: 1 use", "aten.nextafter.default: 1 use")
        assert "partial.py:12" in result.output
        assert "instead: compute it outside the model" in result.output

    def test_mindspore_has_a_cell_in_the_place_of_each(self, model: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        result = invoke(
            "rewrite", f"{model}:Net", "--input", "5x4", "--partial", "--to", "mindspore", "-o", out
        )
        assert result.exit_code == 0, result.output
        for operator in ("aten.linalg_ldl_factor.default", "aten.nextafter.default"):
            assert result.output.count(f"note: stub to be written by hand: `{operator}` - at ") == 1
        text = (out / "model.py").read_text()
        assert "self.linalg_ldl_factor = Unsupported(" in text
        assert "self.nextafter = Unsupported(" in text
        assert "STUB: an operator that regraft cannot write" in text
        assert "self.first = nn.Dense(" in text

    def test_what_only_the_backend_lacks_is_a_stub_too(self, tmp_path: Path) -> None:
        graph = helper.make_graph(
            [helper.make_node("ImageDecoder", ["file"], ["image"])],
            "reader",
            [helper.make_tensor_value_info("file", TensorProto.UINT8, ["bytes"])],
            [helper.make_tensor_value_info("image", TensorProto.UINT8, ["high", "wide", 3])],
        )
        model, out = tmp_path / "reader.onnx", tmp_path / "out"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), model)
        arguments = ("rewrite", model, "--input", "file=64:uint8", "--to", "mindspore", "-o", out)
        assert_refused(invoke(*arguments), "E601", "ImageDecoder: 1 use")
        result = invoke(*arguments, "--partial")
        assert "NOT COMPARED (" in result.output
        assert result.exit_code == 0, result.output
        assert "note: stub to be written by hand: `onnx.ImageDecoder` - at " in result.output
        assert "Unsupported(" in (out / "model.py").read_text()

    def test_what_converts_whole_is_verified_as_ever(self, net: Path, tmp_path: Path) -> None:
        result = rewrite(f"{net}:Net", tmp_path, "--input", "2x3x8x8", "--partial")
        assert result.exit_code == 0, result.output
        assert "equal: " in result.output


CONSTRUCTED = """
import sys
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4, *, bias=True, sizes=(), options=None):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, n, bias=bias) for n in (*sizes, width)])
        self.options = options

    def forward(self, x):
        return [layer(x) for layer in self.layers]

def factory(depth):
    return Net(sizes=[4] * depth)

def leaves():
    sys.exit(3)

built = Net()
"""


class TestConstructorArguments:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        path = tmp_path / "constructed.py"
        path.write_text(CONSTRUCTED)
        return path

    @pytest.mark.parametrize(
        ("arguments", "count"),
        [
            (("bias=false",), 16),
            (("bias=False", "width=3"), 12),
            (("sizes=[2,3]", "bias=true", 'options={"a": [null, 1.5]}'), 45),
            (("options=None", "sizes=(1,)"), 25),
        ],
    )
    def test_values_of_python_and_of_json(self, model: Path, arguments: tuple[str, ...], count: int) -> None:
        given = [part for argument in arguments for part in ("--arg", argument)]
        result = invoke("show", f"{model}:Net", *given)
        assert f"\n{count} trainable parameters" in result.output, result.output

    def test_what_does_not_fit_says_what_would(self, model: Path) -> None:
        wanted = "hint: it is called as Net(width=4, *, bias=True, sizes=(), options=None)"
        for argument in ("width=three", "depth=2", "sizes=3"):
            assert_refused(invoke("show", f"{model}:Net", "--arg", argument), "E102", wanted)
        assert_refused(invoke("show", f"{model}:factory"), "E102", "called as factory(depth)")
        assert_refused(invoke("show", f"{model}:leaves"), "E102", "SystemExit: 3")
        assert_refused(invoke("show", f"{model}:Nets"), "E102", "it defines Net, built, factory, leaves")

    def test_inputs_of_another_type_are_the_users_fault(self, model: Path) -> None:
        result = invoke("show", f"{model}:Net", "--input", "2x4:int64")
        assert_refused(result, "E103", "the model raised RuntimeError", "constructed.py:12")


class TestErrorsAsJson:
    def test_every_operator_is_a_row(self, net: Path, tmp_path: Path) -> None:
        out = tmp_path / "net.onnx"
        arguments = ("rewrite", f"{net}:Unknown", "--input", "3x3", "-o", out, "--json")
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == 2
        error = json.loads(result.stdout)["error"]
        assert error["code"] == "E201"
        operators = {row["operator"]: row for row in error["operators"]}
        assert set(operators) == {"aten.linalg_eigvals.default", "aten.special_airy_ai.default"}
        row = operators["aten.linalg_eigvals.default"]
        assert "net.py" in row["places"][0]
        assert row["instead"]
        assert "class Smallest" in row["reproduction"]
        assert result.stderr.startswith("error E201")

    def test_a_mismatch_has_its_report(self, tmp_path: Path) -> None:
        model = tmp_path / "branch.py"
        model.write_text(BRANCH)
        result = rewrite(f"{model}:Net", tmp_path, "--input", "2x4", "--json")
        assert result.exit_code == 1
        found = json.loads(result.stdout)
        assert found["error"]["code"] == "E701"
        assert found["verified"]["passed"] is False
        assert result.stderr.startswith("error E701")


BRANCH = """
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x
"""
