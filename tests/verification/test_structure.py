"""Faults that numbers do not show: weights that are shared differently, and what acts in training only."""

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

import regraft
from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.formats.renames import Rename
from regraft.ir import TensorData
from regraft.verification.structure.sharing import compare_sharing, held_by_graph

pytestmark = pytest.mark.xdist_group("mindspore")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        y, _ = self.attention(x, x, x, need_weights=False)
        return F.dropout(self.norm(x + self.drop(y)), 0.3, self.training)


class Net(nn.Module):
    """Every kind of Dropout, a tied weight, a convolution that runs twice, and two equal layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.block = Block()
        self.lstm = nn.LSTM(16, 16, num_layers=2, dropout=0.4, batch_first=True)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2, momentum=0.2)
        self.drop = nn.Dropout2d(0.15)
        self.left = nn.Linear(6, 6)
        self.right = copy.deepcopy(self.left)

    def forward(self, ids, image):
        x, _ = self.lstm(self.block(self.embed(ids)))
        y = self.drop(self.norm(self.conv(self.conv(image))))
        return self.head(x), self.left(y) + self.right(y * 2)


class Emitted:
    """A net, and what was written from it."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.graph = regraft.load(Net(), (torch.zeros(2, 5, dtype=torch.int64), torch.randn(2, 2, 6, 6)))
        rewritten = regraft.rewrite(self.graph).graph
        self.mindspore, self.onnx = folder / "net", folder / "net.onnx"
        regraft.save(rewritten, self.mindspore, "mindspore", attention_layers=True)
        regraft.save(rewritten, self.onnx)
        self.scratch = folder / "edited"

    def edited(self, *edits: tuple[str, str]) -> Path:
        """A copy of the MindSpore folder with edits in its source."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.mindspore, self.scratch, ignore=shutil.ignore_patterns("__pycache__"))
        source = self.scratch / "model.py"
        text = source.read_text()
        for old, new in edits:
            assert old in text
            text = text.replace(old, new) if old else text
        source.write_text(text)
        return self.scratch


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return Emitted(tmp_path_factory.mktemp("structure"))


SETTINGS = {
    "other ratios": [
        ("nn.Dropout(p=0.2)", "nn.Dropout(p=0.3)", "Dropout 0.2 against 0.3: `block.drop`"),
        ("p=0.3, training", "p=0.2, training", "Dropout 0.3 against 0.2: `block`"),
        ("16, 2, dropout=0.1", "16, 2, dropout=0.4", "Dropout 0.1 against 0.4: `block.attention`"),
        ("batch_first=True, dropout=0.4", "batch_first=True, dropout=0.5", "Dropout 0.4 against 0.5: `lstm`"),
    ],
    "none": [
        ("self.drop(out)", "out", "Dropout 0.2 against none: `block.drop`"),
        ("16, 2, dropout=0.1", "16, 2", "Dropout 0.1 against none: `block.attention`"),
        ("training=self.training", "training=False", "Dropout 0.3 against none: `block`"),
        ("batch_first=True, dropout=0.4", "batch_first=True", "Dropout 0.4 against none: `lstm`"),
    ],
    "one more": [
        (
            "x = self.embed(ids)",
            "x = ops.dropout(self.embed(ids), p=0.7, training=self.training)",
            "Dropout none against 0.7: `(root)`",
        )
    ],
    "elements for channels": [
        ("nn.Dropout2d(p=0.15)", "nn.Dropout(p=0.15)", "Dropout of channels 0.15 against none: `drop`"),
        ("", "", "Dropout none against 0.15: `drop`"),
    ],
    "momentum": [("momentum=0.8", "momentum=0.9", "momentum 0.8 against 0.9: `norm`")],
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SETTINGS)
def test_what_acts_in_training_only_is_compared_by_settings(emitted: Emitted, what: str) -> None:
    faults = SETTINGS[what]
    folder = emitted.edited(*((old, new) for old, new, _ in faults))
    report = regraft.verify(emitted.graph, folder, train=True)
    assert not report.passed
    assert report.structure is not None
    assert sorted(map(str, report.structure.settings)) == sorted(row for *_, row in faults)
    if what != "momentum":  # which the running statistics show too
        assert report.summary().startswith(f"DIFFERENT in {len(faults)} setting")


def test_a_setting_that_differs_is_said_by_default_and_counts_in_training(emitted: Emitted) -> None:
    folder = emitted.edited(("nn.Dropout(p=0.2)", "nn.Dropout(p=0.5)"))
    report = regraft.verify(emitted.graph, folder)
    assert report.passed
    assert report.structure is not None
    assert list(map(str, report.structure.settings)) == ["Dropout 0.2 against 0.5: `block.drop`"]
    assert "  Dropout 0.2 against 0.5: `block.drop`\n  with --train this counts" in report.render()


def test_the_right_net_has_the_settings_of_its_source(emitted: Emitted) -> None:
    report = regraft.verify(emitted.graph, emitted.mindspore, train=True)
    assert report.passed, report.render()
    assert report.structure is not None
    assert (report.structure.shared, report.structure.settings) == ([], [])
    told = report.to_json()["structure"]
    assert isinstance(told, dict)
    assert (told["shared"], told["settings"], told["train"]) == ([], [], True)


def test_an_onnx_model_is_said_to_have_no_dropout(emitted: Emitted) -> None:
    report = regraft.verify(emitted.graph, emitted.onnx)
    assert report.passed
    (note,) = [n for n in report.notes if "Dropout" in n]
    assert note == (
        "the ONNX model has no Dropout and cannot train as the source does, which drops 0.1 in "
        "`block.attention`, 0.2 in `block.drop`, 0.3 in `block`, and in 2 more places"
    )


def split(model: onnx.ModelProto, name: str, op_type: str, *, transposed: bool = False) -> None:
    """Give the last operator of a type that reads an initializer a copy of its own."""
    (tensor,) = [t for t in model.graph.initializer if t.name == name]
    node = [n for n in model.graph.node if name in n.input and n.op_type == op_type][-1]
    values = numpy_helper.to_array(tensor)
    model.graph.initializer.append(numpy_helper.from_array(values.T if transposed else values, "twin"))
    node.input[list(node.input).index(name)] = "twin"
    if transposed:  # a Transpose that makes nothing else of it
        node.op_type, node.name = "Identity", "plain"
        del node.attribute[:]


def shared(report: regraft.Report) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    assert report.structure is not None
    return [(row.sources, row.targets) for row in report.structure.shared]


@pytest.mark.parametrize(
    ("name", "op_type", "transposed"),
    [
        ("embed.weight", "Transpose", False),
        ("embed.weight", "Transpose", True),
        ("conv.weight", "Conv", False),
    ],
)
def test_a_weight_written_twice_into_an_onnx_file(
    emitted: Emitted, tmp_path: Path, name: str, op_type: str, transposed: bool
) -> None:
    model = onnx.load(emitted.onnx)
    split(model, name, op_type, transposed=transposed)
    onnx.save(model, tmp_path / "net.onnx")
    for file in (emitted.onnx.with_suffix(".renames.json"), None):
        if file is not None:
            shutil.copy(file, tmp_path / file.name)
        else:
            (tmp_path / "net.renames.json").unlink()  # the file alone tells
        report = regraft.verify(emitted.graph, tmp_path / "net.onnx")
        assert not report.passed
        assert shared(report) == [((name,), (name, "twin"))]
        assert report.summary().startswith("DIFFERENT in 1 shared weight: ")
        assert f"`{name}` is 1 parameter in the source and 2 tensors in the target" in report.render()


def test_two_equal_weights_that_became_one_in_an_onnx_file(emitted: Emitted, tmp_path: Path) -> None:
    model = onnx.load(emitted.onnx)
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = name.replace("right.weight", "left.weight")
    (tensor,) = [t for t in model.graph.initializer if t.name == "right.weight"]
    model.graph.initializer.remove(tensor)
    onnx.save(model, tmp_path / "net.onnx")
    shutil.copy(emitted.onnx.with_suffix(".renames.json"), tmp_path / "net.renames.json")
    report = regraft.verify(emitted.graph, tmp_path / "net.onnx")
    assert shared(report) == [(("left.weight", "right.weight"), ("left.weight",))]
    assert not report.passed


def add_to_checkpoint(folder: Path, name: str, like: str) -> None:
    held = dict(read_checkpoint(folder / "model.ckpt"))
    held = {n: TensorData.of(np.array(d.numpy())) for n, d in held.items()}
    write_checkpoint(folder / "model.ckpt", {**held, name: held[like]}, force=True)


def test_a_weight_written_twice_into_a_mindspore_folder(emitted: Emitted) -> None:
    folder = emitted.edited(("        self.head.weight = self.embed.embedding_table  # tied\n", ""))
    add_to_checkpoint(folder, "head.weight", "embed.embedding_table")
    report = regraft.verify(emitted.graph, folder)
    assert not report.passed
    assert shared(report) == [(("embed.weight",), ("embed.embedding_table", "head.weight"))]
    document = json.loads((folder / "renames.json").read_text())
    tied = [row for row in document["parameters"] if row["source"] == "head.weight"]
    for row in tied:  # a map that says otherwise is not believed
        row.update(target="head.weight", tie="")
    (folder / "renames.json").write_text(json.dumps(document))
    assert shared(regraft.verify(emitted.graph, folder)) == [
        (("embed.weight",), ("embed.embedding_table", "head.weight"))
    ]


def test_two_equal_weights_that_became_one_in_a_mindspore_folder(emitted: Emitted) -> None:
    construct = "    def construct(self, ids, image):"
    folder = emitted.edited((construct, f"        self.right = self.left\n\n{construct}"))
    held = read_checkpoint(folder / "model.ckpt")
    kept = {n: TensorData.of(np.array(d.numpy())) for n, d in held.items() if not n.startswith("right.")}
    write_checkpoint(folder / "model.ckpt", kept, force=True)
    report = regraft.verify(emitted.graph, folder)
    assert not report.passed
    assert shared(report) == [
        (("left.weight", "right.weight"), ("left.weight",)),
        (("left.bias", "right.bias"), ("left.bias",)),
    ]


def symbol(folder: Path, ratio: float, *, second: str = "w") -> Path:
    """A symbol that drops and reads one weight twice, or two."""

    def node(op: str, name: str, inputs: list[int], **attributes: str) -> dict[str, object]:
        return {"op": op, "name": name, "attrs": attributes, "inputs": [[i, 0, 0] for i in inputs]}

    layer = {"num_hidden": "8", "no_bias": "True"}
    nodes = [
        node("null", "data", []),
        node("null", "w", []),
        node("FullyConnected", "one", [0, 1], **layer),
        node("Dropout", "drop", [2], p=str(ratio)),
        node("null", "v", []),
        node("FullyConnected", "two", [3, 1 if second == "w" else 4], **layer),
    ]
    folder.mkdir()
    file = folder / "net-symbol.json"
    file.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0, 1, 4], "heads": [[5, 0, 0]]}))
    values = TensorData.of(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
    write_checkpoint(folder / "net-0000.params", {f"arg:{name}": values for name in {"w", second}})
    return file


DATA = {"data": np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)}


def test_a_symbols_settings_count_where_nothing_can_be_trained(tmp_path: Path) -> None:
    source = regraft.load(str(symbol(tmp_path / "a", 0.5)), DATA)
    same = regraft.verify(source, str(symbol(tmp_path / "b", 0.5)))
    assert same.passed, same.render()
    other = regraft.verify(source, str(symbol(tmp_path / "c", 0.25)))
    assert other.summary().startswith("DIFFERENT in 1 setting: ")
    assert "ratio 0.5 against 0.25 (in training only)" in other.render()
    none = regraft.verify(source, str(symbol(tmp_path / "d", 0.0)))
    assert "ratio 0.5 against 0" in none.render()
    assert not none.passed


def test_what_is_written_from_a_symbol_drops_as_it_does(tmp_path: Path) -> None:
    source = regraft.load(str(symbol(tmp_path / "a", 0.5)), DATA)
    rewritten = regraft.rewrite(source)
    for to in ("mindspore", "mxnet"):
        _, report = regraft.rewrite_file(source, rewritten, tmp_path / to, to)
        assert report is not None
        assert report.structure is not None
        assert (report.structure.shared, report.structure.settings) == ([], [])
    text = (tmp_path / "mindspore" / "model.py").read_text()
    (tmp_path / "mindspore" / "model.py").write_text(text.replace("p=0.5", "p=0.4"))
    report = regraft.verify(source, tmp_path / "mindspore")
    assert report.summary().startswith("DIFFERENT in 1 setting: ")
    split = regraft.load(str(symbol(tmp_path / "b", 0.5, second="v")), DATA)
    rows, _ = compare_sharing(source, held_by_graph(split), None)
    assert [(row.sources, row.targets) for row in rows] == [(("one.weight",), ("one.weight", "two.weight"))]
    back = compare_sharing(split, held_by_graph(source), [Rename(n, "", "w") for n in "wv"])[0]
    assert [(row.sources, row.targets) for row in back] == [(("one.weight", "two.weight"), ("one.weight",))]
