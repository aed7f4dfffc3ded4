"""Classes of modules as functions of an ONNX file: written, run in ONNX Runtime, read back as modules."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from onnx import helper, numpy_helper
from torch import nn

import regraft
from regraft.api.targets import rewrite_file
from regraft.backends.onnx_model import to_model
from regraft.backends.onnx_model.counting import count_functions, count_nodes
from regraft.cli import main
from regraft.ir import Graph, ModelError, parse
from regraft.ir.outside import onnx_functions
from regraft.ir.outside.onnx_functions import CALLS, FUNCTIONS, NODE_CALL, inline_functions


class Conv(nn.Module):
    """A layer that another is folded into."""

    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(o)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)).relu()


class Attention(nn.Module):
    """Reads a mask of outside, a number of its own and a module of elsewhere; calls one layer twice."""

    def __init__(self, scale: float, mix: nn.Module) -> None:
        super().__init__()
        self.scale, self.mix = scale, mix
        self.q, self.v = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.q(x).reshape(-1, 4, 2, 4).transpose(1, 2)
        weights = (y @ y.transpose(-1, -2) * self.scale + mask).softmax(-1)
        y = weights @ self.v(self.q(x)).reshape(-1, 4, 2, 4).transpose(1, 2)
        return self.mix(y.transpose(1, 2).reshape(-1, 4, 8)), weights


class Mix(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).sin())


class Wave(nn.Module):
    """Two operators and no parameter."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2


class Choice(nn.Module):
    """A branch that a run takes, with a module in it that is called outside, too."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.wave = nn.Linear(8, 8), Wave()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        taken = torch.cond(x.sum() > 0, lambda x: self.wave(x) - x, lambda x: x - 1, (x,))
        return taken + self.wave(self.line(x))


class Net(nn.Module):
    """All of them, several times."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Conv(3, 4), Conv(4, 4), Conv(4, 4))
        self.mix = Mix()
        self.blocks = nn.ModuleList([Attention(0.5 + k, self.mix) for k in range(3)])
        self.choices = nn.ModuleList([Choice() for _ in range(2)])
        self.choices[1].line.bias = self.choices[0].line.bias

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.stem(x).mean((2, 3)).repeat(1, 8).reshape(-1, 4, 8)
        mask = (x.sum() > 0).float() * torch.triu(torch.ones(4, 4))
        for block in self.blocks:
            y, weights = block(x, mask)
            x = x + y
        for choice in self.choices:
            x = choice(x)
        return self.mix(x), weights


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Path, Path]:
    """The source, its file with functions, which verification let pass, and its flat file."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("functions")
    graph = regraft.load(Net(), [torch.randn(2, 3, 6, 6)])
    rewritten = regraft.rewrite(graph)
    _, report = rewrite_file(graph, rewritten, folder / "net.onnx", functions=True)
    assert report is not None
    assert report.passed
    regraft.save(rewritten, folder / "flat.onnx")
    return graph, folder / "net.onnx", folder / "flat.onnx"


def calls_of(model: onnx.ModelProto) -> dict[str, dict[str, object]]:
    """What a model states of its calls, apart from the calls that make them."""
    text = next(entry.value for entry in model.metadata_props if entry.key == CALLS)
    records = json.loads(text).items()
    return {call: {k: v for k, v in record.items() if k != "in"} for call, record in records}


def test_every_class_with_several_operators_and_calls_is_a_function(
    written: tuple[Graph, Path, Path],
) -> None:
    _, path, flat = written
    model, plain = onnx.load(path), onnx.load(flat)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    functions = {f.name: f for f in model.functions}
    # of one operator there is no function
    assert set(functions) == {"Conv", "Attention", "Linear", "Mix", "Choice", "Wave"}
    assert {f.domain for f in model.functions} == {FUNCTIONS}
    inner = {node.op_type for node in functions["Attention"].node if node.domain == FUNCTIONS}
    assert inner == {"Linear", "Mix"}
    assert "q.weight" in functions["Attention"].input
    assert len(functions["Attention"].output) == 2
    assert sum("constant" in name for name in functions["Attention"].input) == 1  # the numbers that differ
    called = [node for node in model.graph.node if node.op_type == "Attention"]
    assert [node.name for node in called] == ["blocks.0", "blocks.1", "blocks.2"]
    weights = functions["Attention"].output[0]
    assert "Softmax" in weights
    assert [bool(node.output[0]) for node in called] == [False, False, True]  # the last one's are returned
    counts = count_functions(path)
    assert count_nodes(path) == count_nodes(flat)
    assert counts.operators == count_nodes(flat).total()
    assert counts.graph == len(model.graph.node) < len(plain.graph.node) / 3


def test_bodies_in_place_of_calls_give_the_flat_file(written: tuple[Graph, Path, Path]) -> None:
    _, path, flat = written
    model, plain = onnx.load(path), onnx.load(flat)
    whole = inline_functions(model)

    def nodes(model: onnx.ModelProto) -> set[tuple[object, ...]]:
        return {
            (n.op_type, n.name, *n.output, *((e.key, e.value) for e in n.metadata_props))
            for n in model.graph.node
        }

    assert not whole.functions
    assert model.functions
    assert nodes(whole) == nodes(plain)
    assert calls_of(whole) == calls_of(plain)
    types = {info.name: info.type.tensor_type for info in plain.graph.value_info}
    assert {i.name for i in whole.graph.value_info} == set(types)
    for info in whole.graph.value_info:  # a function states the sizes that all its calls have
        mine, its = info.type.tensor_type, types[info.name]
        assert mine.elem_type == its.elem_type
        pairs = zip(mine.shape.dim, its.shape.dim, strict=True)
        assert all(a == b or not a.WhichOneof("value") for a, b in pairs)
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
    results = [
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {m.graph.input[0].name: x})
        for m in (model, whole, plain)
    ]
    for one, other in [*zip(*results[:2], strict=True), *zip(*results[1:], strict=True)]:
        np.testing.assert_array_equal(one, other)


def test_file_is_read_with_its_modules(written: tuple[Graph, Path, Path], tmp_path: Path) -> None:
    graph, path, flat = written
    read, plain = regraft.load(path), regraft.load(flat)
    source = {m.class_name for m in graph.modules} - {"BatchNorm2d"}
    assert {m.class_name for m in read.modules} == source
    paths = [{p for m in g.modules for p in g.modules.paths(m.key)} for g in (read, plain, graph)]
    assert paths[0] == paths[1]
    assert "blocks.2.mix.up" in paths[0]
    assert paths[2] - paths[0] == {*(f"stem.{n}.norm" for n in range(3)), "mix", "mix.up", "mix.down"}
    names = [sorted(g.modules.call_names().values()) for g in (read, plain)]
    assert names[0] == names[1]
    assert "mix.up#4" not in names[0]
    assert "blocks.0.mix.up#4" in names[0]
    assert {p.name for p in read.parameters()} == {t.name for t in onnx.load(path).graph.initializer} - {
        t.name for t in onnx.load(path).graph.initializer if "constant" in t.name
    }
    classes: list[list[str]] = []
    for number, each in enumerate((graph, read)):
        regraft.save(regraft.rewrite(each), tmp_path / str(number), "torch")
        classes.append(re.findall(r"^class (\w+)", (tmp_path / str(number) / "model.py").read_text(), re.M))
    assert classes[0] == classes[1]


def test_bodies_that_another_tool_put_in_place_are_layers_by_their_weights(
    written: tuple[Graph, Path, Path], tmp_path: Path
) -> None:
    graph, path, _ = written
    onnx.save(onnx.inliner.inline_local_functions(onnx.load(path)), tmp_path / "net.onnx")
    classes = {module.class_name for module in regraft.load(tmp_path / "net.onnx").modules}
    assert "Attention" not in classes
    assert regraft.verify(graph, tmp_path / "net.onnx").passed


def test_change_within_a_function_is_found(written: tuple[Graph, Path, Path], tmp_path: Path) -> None:
    graph, path, _ = written
    model = onnx.load(path)
    body = next(f for f in model.functions if f.name == "Mix")
    next(n for n in body.node if n.op_type == "Sin").op_type = "Cos"
    onnx.save(model, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert not report.passed
    assert "mix" in str(report.first_divergence)


LEAVING = """
graph main {
  module "" Net
  module "a" Block called from ["#1"]
  module "b" Block called from ["#1"]
  %x = input "x" : f32[4]
  %0 = Sin(%x) : f32[4] @ "a#1"
  %1 = Exp(%0) : f32[4] @ "#1"
  %2 = Add(%0, %1) : f32[4] @ "a#1"
  %3 = Sin(%2) : f32[4] @ "b#1"
  %4 = Exp(%3) : f32[4] @ "#1"
  %5 = Add(%3, %4) : f32[4] @ "b#1"
  return "y" = %5
}
"""
TWO = LEAVING.replace('Exp(%0) : f32[4] @ "#1"', 'Exp(%0) : f32[4] @ "a#1"').replace(
    'Exp(%3) : f32[4] @ "#1"', 'Exp(%3) : f32[4] @ "b#1"'
)


def test_call_that_values_leave_and_enter_again_is_no_call_of_a_function() -> None:
    assert not to_model(parse(LEAVING), functions=True).functions
    model = to_model(parse(TWO), functions=True)
    assert [(f.name, len(f.node)) for f in model.functions] == [("Block", 3)]
    assert [list(n.output) for n in model.graph.node] == [["a/Add"], ["y"]]


def test_node_that_a_tool_adds_is_in_the_call_of_its_neighbours() -> None:
    model = to_model(parse(TWO))
    for node in model.graph.node:
        if node.op_type == "Exp":
            del node.metadata_props[:]
    model.graph.node.append(helper.make_node("Neg", ["y"], ["z"]))
    model.graph.output[0].name = "z"
    graph = regraft.load(model)
    names = graph.modules.call_names()
    calls = [names[node.call or 0] for node in graph.operators()]
    assert calls == ["a#1", "a#1", "a#1", "b#1", "b#1", "b#1", "#1"]
    assert [f.name for f in to_model(graph, functions=True).functions] == ["Block"]


def test_functions_of_classes_that_sound_alike_have_names_of_their_own() -> None:
    text = LEAVING.replace("  %x = input", '  module "c" Block_1\n  module "d" Block_1\n  %x = input')
    text = text.replace("%0 = Sin(%x)", "%0 = Sin(%9)").replace("%3 = Sin(%2)", "%3 = Cos(%2)")
    body = "\n".join(
        f'  %{a} = Sin(%{x}) : f32[4] @ "{call}#1"\n  %{b} = {kind}(%{a}) : f32[4] @ "{call}#1"'
        for x, a, b, call, kind in (
            ("x", 6, 7, "c", "Exp"),
            ("7", 8, 10, "d", "Exp"),
            ("10", 11, 12, "e", "Exp"),
            ("12", 13, 14, "f", "Exp"),
            ("14", 15, 16, "g", "Cos"),
            ("16", 17, 9, "h", "Cos"),
        )
    )
    more = "\n".join(f'  module "{name}" Block' for name in "efgh")
    text = text.replace("  %x = input", f"{more}\n  %x = input").replace("  %0 = Sin", f"{body}\n  %0 = Sin")
    names = [f.name for f in to_model(parse(text), functions=True).functions]
    assert sorted(names) == ["Block_1", "Block_1_2", "Block_2"]


def test_modules_nested_deeper_than_functions_may_be_are_written() -> None:
    paths = [".".join([first, *["i"] * depth]) for first in "ab" for depth in range(90)]
    modules = "\n".join(f'  module "{path}" Block' for path in paths)
    nodes = "\n".join(
        f'  %{at} = Sin(%{at - 1 if at else "x"}) : f32[4] @ "{path}#1"' for at, path in enumerate(paths)
    )
    text = f'graph main {{\n  module "" Net\n{modules}\n  %x = input "x" : f32[4]\n{nodes}\n'
    model = to_model(parse(f'{text}  return "y" = %179\n}}\n'), functions=True)
    onnx.checker.check_model(model, full_check=True)
    assert len(model.functions) == 60
    assert len(inline_functions(model).graph.node) == 180


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('Exp(%3) : f32[4] @ "b#1"', 'Cos(%3) : f32[4] @ "b#1"'),  # another operator
        ("Add(%3, %4)", "Add(%4, %3)"),  # other operands
        ('module "b" Block', 'module "b" Other'),  # another class
    ],
)
def test_bodies_that_differ_are_of_no_function(old: str, new: str) -> None:
    assert old in TWO
    model = to_model(parse(TWO.replace(old, new)), functions=True)
    assert not model.functions


def block(*nodes: onnx.NodeProto, name: str = "Block") -> onnx.ModelProto:
    """A file that calls a function of some nodes."""
    info = helper.make_tensor_value_info
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(FUNCTIONS, 1)]
    function = helper.make_function(FUNCTIONS, name, ["x"], ["y"], list(nodes), opsets)
    graph = helper.make_graph(
        [helper.make_node(name, ["x"], ["y"], domain=FUNCTIONS)],
        "net",
        [info("x", onnx.TensorProto.FLOAT, [4])],
        [info("y", onnx.TensorProto.FLOAT, [4])],
    )
    return helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)


def test_functions_that_call_themselves_or_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = block(helper.make_node("Block", ["x"], ["y"], domain=FUNCTIONS))
    with pytest.raises(ModelError, match="without recursion"):
        regraft.load(endless)
    many = block(helper.make_node("Sin", ["x"], ["y"]), name="F0")
    for level in range(1, 40):
        calls = [helper.make_node(f"F{level - 1}", [a], [b], domain=FUNCTIONS) for a, b in ("xz", "zy")]
        many.functions.append(block(*calls, name=f"F{level}").functions[0])
    many.graph.node[0].op_type = "F39"
    monkeypatch.setattr(onnx_functions, "_FEW", 1000)  # for the time of the test
    with pytest.raises(ModelError, match="in proportion"):
        regraft.load(many)


@pytest.mark.parametrize("text", ["[1]", "{", '{"#1": {"inputs": [1], "in": 3}}', '{"#1": 4}', "{}"])
def test_metadata_of_a_function_may_be_anything(text: str) -> None:
    model = block(helper.make_node("Sin", ["x"], ["y"]))
    model.functions[0].metadata_props.add(key=CALLS, value=text)
    model.graph.node[0].metadata_props.add(key=NODE_CALL, value="a.b#1")
    model.metadata_props.add(key=CALLS, value="{}")
    if text in ("[1]", "{"):
        with pytest.raises(ModelError, match="E101"):
            regraft.load(model)
    else:
        assert [n.op_type for n in regraft.load(model).operators()] == ["Sin"]


def test_function_of_a_file_without_names_is_put_in_place() -> None:
    weight = numpy_helper.from_array(np.arange(4, dtype=np.float32))
    model = block(
        helper.make_node("Constant", [], ["w"], value=weight), helper.make_node("Mul", ["x", "w"], ["y"])
    )
    whole = inline_functions(model)
    assert [n.op_type for n in whole.graph.node] == ["Mul"]
    assert len(whole.graph.initializer) == 1
    x = np.ones(4, np.float32)
    session = onnxruntime.InferenceSession(whole.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.arange(4))


def test_command_states_what_functions_save_and_finds_the_blocks_of_a_flat_file(tmp_path: Path) -> None:
    rng, nodes, weights = np.random.default_rng(0), [], []
    for at in range(4):
        value, end = f"v{at}", f"v{at + 1}"
        for name, shape in ((f"g{at}", [8]), (f"c{at}", [8]), (f"w{at}", [8, 16]), (f"u{at}", [16, 8])):
            weights.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
        nodes += [
            helper.make_node("LayerNormalization", [value, f"g{at}", f"c{at}"], [f"n{at}"]),
            helper.make_node("MatMul", [f"n{at}", f"w{at}"], [f"m{at}"]),
            helper.make_node("Relu", [f"m{at}"], [f"r{at}"]),
            helper.make_node("MatMul", [f"r{at}", f"u{at}"], [f"o{at}"]),
            helper.make_node("Add", [value, f"o{at}"], [end]),
        ]
    info = helper.make_tensor_value_info
    ends = [info(name, onnx.TensorProto.FLOAT, [3, 8]) for name in ("v0", "v4")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "flat.onnx")
    command = ["rewrite", str(tmp_path / "flat.onnx"), "-o", str(tmp_path / "out.onnx"), "--functions"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert (
        "functions: 1, called 4 times; 20 operators are 4 nodes of the graph and 5 of the functions; "
        "0.0 MB" in result.output
    )
    refused = CliRunner().invoke(main, [*command[:3], str(tmp_path / "o"), "--to", "torch", "--functions"])
    assert refused.exit_code == 2
    assert "`functions`" in refused.output
