"""`regraft show`: columns, multiply-adds, folded rows, Graphviz, for all three frameworks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from torch import nn

import regraft
from regraft.cli import main
from regraft.ir import parse
from regraft.ir.analysis.costs import count_costs
from regraft.ir.analysis.summary import summarise
from regraft.ir.text_form.dot import render_dot

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["show", *map(str, arguments)])


def table(result: Result) -> list[dict[str, str]]:
    """The rows of a printed table."""
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    head = next(line for line in lines if line.startswith("path "))
    rows = []
    for line in lines[lines.index(head) + 1 :]:
        if "trainable parameters" in line:
            break
        cells = re.split(r"\s{2,}", line.strip())
        rows.append({"path": cells[0], "line": " ".join(line.split())})
    return rows


def costs(net: nn.Module, *inputs: str) -> int:
    counted = count_costs(regraft.load(net.eval(), list(inputs)))
    assert counted.uncounted == []
    return counted.total


class TestMultiplyAdds:
    @pytest.mark.slow
    def test_of_resnet18_are_what_torchvision_states(self) -> None:
        graph = regraft.load(f"{EXAMPLES / 'resnet.py'}:resnet18", ["1x3x224x224"], dynamic_batch=False)
        assert count_costs(graph).total / 1e9 == pytest.approx(1.814, abs=0.0005)

    @pytest.mark.parametrize(
        ("net", "shape", "expected"),
        [
            (nn.Conv2d(4, 6, 3, padding=1, groups=2), "2x4x5x5", 2 * 6 * 25 * 2 * 9),
            (nn.ConvTranspose2d(4, 6, 3, groups=2), "2x4x5x5", 2 * 4 * 25 * 3 * 9),
            (nn.Conv1d(3, 2, 2, stride=2, bias=False), "2x3x8", 2 * 2 * 4 * 3 * 2),
            (nn.Linear(7, 3), "2x5x7", 2 * 5 * 7 * 3),
            (nn.LSTM(4, 5, batch_first=True), "2x3x4", 2 * 3 * 4 * (5 * 4 + 5 * 5)),
            (nn.GRU(4, 5, bidirectional=True), "3x2x4", 2 * 3 * 2 * 3 * (5 * 4 + 5 * 5)),
            (nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(3)), "2x3x4x4", 0),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
    )
    def test_of_layers_are_those_of_their_definition(self, net: nn.Module, shape: str, expected: int) -> None:
        assert costs(net, shape) == expected

    def test_of_attention_are_its_projections_and_its_products(self) -> None:
        class Attention(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

            def forward(self, x):
                return self.inner(x, x, x)[0]

        batch, length, width = 2, 5, 8
        projections = 4 * batch * length * width * width
        assert costs(Attention(), "2x5x8") == projections + 2 * batch * length * length * width

    def test_a_layer_called_twice_counts_twice_and_weights_once(self) -> None:
        class Twice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(self.layer(x))

        graph = regraft.load(Twice().eval(), ["2x4"])
        counted = count_costs(graph)
        row = next(r for r in summarise(graph, costs=counted.by_module).rows if r.path == "layer")
        assert (row.multiply_adds, row.parameters, row.nbytes) == (2 * 2 * 16, 20, 80)
        assert counted.total == 64

    def test_at_the_sizes_of_the_example(self) -> None:
        totals = [count_costs(regraft.load(nn.Linear(3, 2).eval(), [f"{n}x3"])).total for n in (1, 10)]
        assert totals == [6, 60]

    def test_what_is_not_known_is_named_and_not_counted(self) -> None:
        graph = parse("""
        graph main {
          %x = input "x" : f32[M,4]
          %w = param "w" : f32[4,2]
          %y = MatMul(%x, %w) : f32[M,2]
          return "y" = %y
        }""")
        counted = count_costs(graph)
        assert counted.total == 0
        assert counted.uncounted == ["MatMul"]

    def test_counting_leaves_the_graph_as_it_is(self) -> None:
        graph = regraft.load(nn.LSTM(3, 4).eval(), ["3x2x3"])
        before = str(graph)
        assert count_costs(graph).total > 0
        assert str(graph) == before


class TestTable:
    REUSED = (f"{EXAMPLES / 'reused_layer.py'}:ReusedLayer", "--input", "2x3x64x64")

    def test_all_columns(self) -> None:
        result = invoke(*self.REUSED, "--columns", "all")
        rows = {row["path"]: row["line"] for row in table(result)}
        assert rows["layer0.0"] == (
            "layer0.0 Conv2d f32[N,3,64,64] f32[N,64,32,32] 7x7 9,408 yes 19,267,584 0.04 1 also base.conv1"
        )
        assert "19,267,584 multiply-adds at N=2; 46.80 MB of parameters and state" in result.stdout

    def test_what_is_never_called_is_one_row(self) -> None:
        rows = [row for row in table(invoke(*self.REUSED)) if row["path"].startswith("base")]
        assert [row["line"] for row in rows] == ["base ResNet 11,679,976 never called; with 64 modules in it"]

    def test_json_has_every_module(self) -> None:
        document = json.loads(invoke(*self.REUSED, "--json").stdout)
        assert sum(m["path"].startswith("base") for m in document["modules"]) == 65
        assert document["multiply_adds"] == 19_267_584
        assert sum(m["bytes"] for m in document["modules"]) == document["bytes"]

    def test_columns_in_the_order_asked_for(self) -> None:
        result = invoke(*self.REUSED, "--columns", "kernel,output", "--depth", "2")
        assert re.search(r"^path +class +kernel +output *$", result.stdout, re.MULTILINE)

    def test_another_column_is_refused_with_those_there_are(self) -> None:
        result = invoke(*self.REUSED, "--columns", "output,flops")
        assert result.exit_code == 2
        assert "multiply-adds" in result.output
        assert "`flops`" in result.output

    def test_what_is_frozen_is_said(self) -> None:
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        net[0].requires_grad_(False)
        net[1].bias.requires_grad_(False)
        graph = regraft.load(net.eval(), ["2x3"])
        assert [r.trainable for r in summarise(graph).rows] == ["", "no", "partly", "", "yes"]

    def test_of_a_mindspore_net(self) -> None:
        model = f"{EXAMPLES / 'mindspore_lenet.py'}:LeNet"
        shown = table(invoke(model, "--input", "2x1x28x28", "--columns", "all"))
        row = "features.0.conv Conv2d f32[N,1,28,28] f32[N,8,28,28] 3x3 72 yes 112,896 0.00 1"
        assert [r["line"] for r in shown if r["path"] == "features.0.conv"] == [row]

    def test_of_an_mxnet_symbol(self) -> None:
        symbol = EXAMPLES / "shared_weight-symbol.json"
        rows = table(invoke(symbol, "--input", "data=1x1x3x3", "--columns", "all"))
        assert rows[-1]["line"] == "conv Convolution f32[N,1,3,3] f32[N,1,1,1] 3x3 9 yes 9 0.00 1"

    def test_of_an_onnx_file(self, tmp_path: Path) -> None:
        graph = regraft.load(EXAMPLES / "shared_weight-symbol.json", {"data": "1x1x3x3"})
        regraft.save(graph, tmp_path / "net.onnx", to="onnx")
        rows = table(invoke(tmp_path / "net.onnx", "--columns", "all"))
        assert rows[-1]["line"].split()[1] == "Convolution"
        assert "f32[N,1,1,1] 3x3 9" in rows[-1]["line"]


class TestGraphviz:
    def test_clusters_are_balanced_and_edges_have_types(self) -> None:
        result = invoke(f"{EXAMPLES / 'resnet.py'}:resnet18", "--input", "2x3x64x64", "--dot")
        assert result.exit_code == 0, result.output
        text = result.stdout
        assert text.startswith("digraph {")
        assert text.count("{") == text.count("}")
        assert 'label="layer1.0.conv1: Conv2d";' in text
        nodes = set(re.findall(r"^\s+(\w+) \[(?:shape=oval, )?label=", text, re.MULTILINE))
        edges = re.findall(r'^  (\w+) -> (\w+) \[label="f32\[', text, re.MULTILINE)
        assert len(edges) > 60
        assert {end for edge in edges for end in edge} <= nodes

    def test_a_name_cannot_end_its_string(self) -> None:
        graph = regraft.load(nn.ReLU().eval(), ["2x3"])
        graph.outputs = [('"]; evil [label="\\', graph.outputs[0][1])]
        line = next(line for line in render_dot(graph).splitlines() if "evil" in line)
        assert line.strip() == 'o0 [shape=oval, label="\\"]; evil [label=\\"\\\\"];'

    def test_ir_and_dot_are_not_both(self) -> None:
        result = invoke(f"{EXAMPLES / 'resnet.py'}:resnet18", "--ir", "--dot")
        assert result.exit_code == 2
