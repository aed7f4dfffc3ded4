"""The difference of two models: a planted edit is named at its module, and a right pair has none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from regraft import diff_models, load, rewrite, save
from regraft.cli import main
from regraft.ir import Graph
from regraft.ir.difference.alignment import align
from regraft.ir.difference.lines import lines_of, verdict


class Block(nn.Module):
    def __init__(self, width: int = 8, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=eps)
        self.fc = nn.Linear(width, width)
        self.act = nn.ReLU()

    def forward(self, x):
        return x + self.act(self.fc(self.norm(x)))


class Net(nn.Module):
    def __init__(self, *, eps: float = 1e-5, head: str = "head", scale: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv1d(8, 8, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(eps=eps) for _ in range(4)])
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.add_module(head, nn.Linear(8, 3))
        self.named, self.scale, self.swapped = head, scale, False

    def forward(self, x):
        x = self.blocks(self.stem(x[..., None]).squeeze(-1))
        a, b = self.first(x), self.second(x)
        return getattr(self, self.named)((b - a if self.swapped else a - b) * self.scale)


INPUT = (torch.zeros(2, 8),)


def read(net: nn.Module) -> Graph:
    return load(net.eval(), INPUT)


@pytest.fixture(scope="module")
def net() -> Graph:
    return read(Net())


def lines(first: object, second: object) -> list[str]:
    found = diff_models(first, second)
    text = [f"{line.mark}{'  ' * line.depth} {line.text}" for line in lines_of(found)]
    assert found.equal == (not text)
    assert verdict(found).startswith("equal" if found.equal else "different")
    json.dumps(found.to_json(), allow_nan=False)
    return [line for line in text if not re.match("~ (elements|bytes|multiply-adds)", line)]


def edited(edit) -> nn.Module:
    net = Net()
    edit(net)
    return net


def drop_second(net: Net) -> None:
    del net.blocks[1]


def insert(net: Net) -> None:
    net.blocks.insert(2, Block())


def activate(net: Net) -> None:
    net.blocks[1].act = nn.GELU()


def move_a_weight(net: Net) -> None:
    net.second.weight.data[0, 0] += 0.5


def dilate(net: Net) -> None:
    net.stem.dilation, net.stem.padding = (2,), (2,)


def widen(net: Net) -> None:
    net.head = nn.Linear(8, 5)


def freeze(net: Net) -> None:
    net.first.bias.requires_grad_(False)


def swap(net: Net) -> None:
    net.swapped = True


def use_one_twice(net: Net) -> None:
    net.second = net.first


EDITS = {
    "nothing": (Net, []),
    "an attribute everywhere": (
        lambda: Net(eps=1e-3),
        [
            "~ blocks  Sequential",
            "~   0  Block, and 3 more beside it",
            "~     norm  LayerNorm",
            "~       LayerNormalization: epsilon 1e-05 -> 0.001",
        ],
    ),
    "another name": (lambda: Net(head="classifier"), ["~ head -> classifier  Linear"]),
    "a number": (lambda: Net(scale=3.0), ["~ (root)  Net", "~   Mul: operand B 2.0 -> 3.0"]),
    "a layer fewer": (
        lambda: edited(drop_second),
        [
            "~ blocks  Sequential",
            "-   1  Block: 4 operators, 4 tensors, 88 elements",
            "~   2 … 3 -> 1 … 2  Block",
        ],
    ),
    "a layer more": (
        lambda: edited(insert),
        [
            "~ blocks  Sequential",
            "+   2  Block: 4 operators, 4 tensors, 88 elements",
            "~   2 … 3 -> 3 … 4  Block",
        ],
    ),
    "another layer": (
        lambda: edited(activate),
        ["~ blocks.1.act  ReLU -> GELU", "-   Relu", "+   Gelu"],
    ),
    "a weight": (
        lambda: edited(move_a_weight),
        ["~ second  Linear", "~   weight: values, largest difference 0.5, relative 1.5"],
    ),
    "a layer's attributes": (
        lambda: edited(dilate),
        ["~ stem  Conv1d", "~   Conv: dilations [1] -> [2]; pads [1, 1] -> [2, 2]"],
    ),
    "another width": (
        lambda: edited(widen),
        [
            "~ output `output`: type f32[N,3] -> f32[N,5]",
            "~ head  Linear",
            "~   weight: type f32[3,8] -> f32[5,8]",
            "~   bias: type f32[3] -> f32[5]",
        ],
    ),
    "a frozen weight": (lambda: edited(freeze), ["~ first  Linear", "~   bias: trained yes -> no"]),
    "operands the other way around": (
        lambda: edited(swap),
        [
            "~ (root)  Net",
            "~   Sub: operand A Linear of `first` -> Linear of `second`; "
            "operand B Linear of `second` -> Linear of `first`",
        ],
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_module_is_named(net: Graph, edit: str) -> None:
    make, expected = EDITS[edit]
    assert lines(net, read(make())) == expected


def test_one_module_in_the_place_of_two(net: Graph) -> None:
    found = lines(net, read(edited(use_one_twice)))
    assert "- second  Linear: 1 operators, 2 tensors, 72 elements" in found
    assert not any("first" in line for line in found if line.startswith("-"))


def test_modules_without_inputs_have_their_weights_compared() -> None:
    found = diff_models(Net(), edited(move_a_weight))
    assert found.notes == ["operators were not compared, as no inputs were given"]
    assert [line.text for line in lines_of(found)][-1].startswith("weight: values, largest difference 0.5")


@pytest.fixture(scope="module")
def files(net: Graph, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    found: dict[str, Path] = {}
    for name, graph in {"a": net, "b": read(Net(eps=1e-3, scale=3.0))}.items():
        save(rewrite(graph), folder / f"{name}.onnx", to="onnx")
        found[name] = folder / f"{name}.onnx"
    return found


def test_files_of_one_exporter(files) -> None:
    assert lines(files["a"], files["a"]) == []
    found = lines(files["a"], files["b"])
    norms = [line for line in found if line.endswith("LayerNormalization: epsilon 1e-05 -> 0.001")]
    assert len(norms) == 1, "four blocks that changed alike share a line"
    assert len([line for line in found if "-> 3.0" in line]) == 1
    assert not any(line.startswith(("+", "-")) for line in found)


def test_a_net_and_the_file_written_from_it(net: Graph, files) -> None:
    found = diff_models(net, files["a"])
    assert found.equal, [line.text for line in lines_of(found)]
    assert "two frameworks" in found.notes[0]
    assert not diff_models(net, files["b"]).equal


def flat(path: Path, *, last: str = "Relu", opset: int = 17, output: str = "y") -> Path:
    """A file without modules: two products, a sum, an activation."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p"], name="p"),
        helper.make_node("MatMul", ["p", "w1"], ["q"], name="q"),
        helper.make_node("Add", ["p", "q"], ["s"], name="s"),
        helper.make_node(last, ["s"], [output], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "flat",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.save(model, path)
    return path


def test_a_flat_file(tmp_path: Path) -> None:
    first = flat(tmp_path / "a.onnx")
    assert lines(first, flat(tmp_path / "b.onnx")) == []
    found = lines(first, flat(tmp_path / "c.onnx", last="Tanh", opset=18, output="z"))
    assert found[0] == "~ opset of ai.onnx 17 -> 18"
    assert found[1] == "~ output `y`: name y -> z"
    assert {"-", "+"} == {line[0] for line in found[2:] if not line.startswith("~")}
    assert sum("Relu" in line for line in found) == sum("Tanh" in line for line in found) == 1


def run(*arguments: str | Path):
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


def test_the_command(tmp_path: Path, files) -> None:
    same = run(files["a"], files["a"])
    assert (same.exit_code, same.output.split(":")[0]) == (0, "equal")
    page = tmp_path / "d.html"
    other = run(files["a"], files["b"], "--html", page)
    assert other.exit_code == 1
    assert other.stdout.startswith("different: operators 5\n")
    assert "LayerNormalization: epsilon 1e-05 -&gt; 0.001" in page.read_text()
    assert "<script" not in page.read_text()
    document = json.loads(run(files["a"], files["b"], "--json").output)
    assert document["equal"] is False
    assert {o["op"] for m in document["modules"] for o in m["operators"]} >= {"LayerNormalization"}
    comment = run(files["a"], files["b"], "--output-format", "markdown").output
    assert comment.startswith("### `regraft diff`: different")
    assert "\n```diff\n! " in comment
    tensors = run(files["a"], files["b"], "--weights")
    assert "tensors compared" in tensors.output
    refused = run(tmp_path / "x.ckpt", files["a"], "--html", page)
    assert refused.exit_code == 2


def test_names_are_no_markup(tmp_path: Path) -> None:
    bad = flat(tmp_path / "a.onnx", output="</code><script>alert(1)</script>```")
    page = tmp_path / "p.html"
    run(flat(tmp_path / "b.onnx"), bad, "--html", page)
    assert "<script" not in page.read_text()
    comment = run(flat(tmp_path / "b.onnx"), bad, "--output-format", "markdown").output
    assert comment.count("```") == 2


def test_long_lists_are_aligned_in_little_time() -> None:
    rng = np.random.default_rng(0)
    a = [int(k) for k in rng.integers(0, 5, 20000)]
    b = [*a[:700], 9, *a[700:11000], *a[11003:], 9]
    pairs = align(a, b)
    assert len(pairs) >= len(a) - 3 - 10
    assert all(a[i] == b[j] for i, j in pairs)
    assert pairs == sorted(set(pairs)) == sorted(pairs, key=lambda pair: pair[::-1])


def test_a_default_that_one_file_writes_out_is_no_difference(tmp_path: Path) -> None:
    """ONNX's defaults of windows depend on the rank, so that the schema has none."""
    weight = numpy_helper.from_array(np.ones((2, 1, 3, 3), np.float32), "w")
    written = {"strides": [1, 1], "dilations": [1, 1], "kernel_shape": [3, 3], "group": 1}

    def read_with(**settings: object) -> Graph:
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"], name="c", **settings),
            helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2]),
        ]
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", [1, 1, 8, 8]), ("y", None))
        ]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "n.onnx")
        return load(tmp_path / "n.onnx")

    bare, full, strided = read_with(), read_with(**written), read_with(strides=[1, 2], pads=[0, 0, 0, 0])
    assert diff_models(bare, full).equal
    for other, was in ((bare, "none"), (full, "[1, 1]")):
        text = "\n".join(line.text for line in lines_of(diff_models(other, strided)))
        assert f"Conv: strides {was} -> [1, 2]" in text
        assert "dilations" not in text
