"""What runs in pieces is judged as what runs whole is, fault by fault and module by module."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

import regraft
from regraft.formats.elements import ElementWriters
from regraft.ir import Graph, MismatchError, ModelError, TensorData, UsageError
from regraft.verification.streaming import deciding
from regraft.verification.streaming.torch_pieces import TorchPieces


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(x + self.bn2(self.conv2(y)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, padding=1)
        self.layers = nn.Sequential(nn.Sequential(Residual(8), Residual(8)), nn.Sequential(Residual(8)))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.stem(x)).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Tied(nn.Module):
    """A Transformer whose head is its embedding, and one of whose blocks is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 12)
        self.blocks = nn.ModuleList([Block(12), Block(12)])
        self.norm = nn.LayerNorm(12)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * 3.46
        for block in [*self.blocks, self.blocks[0]]:
            x = block(x)
        return F.linear(self.norm(x), self.embed.weight)


class Turned(nn.Module):
    """A layer between tables that its code computes, each rounded in a file of bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(12), nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(5.0)[:, None] / 7.0 ** torch.arange(12.0)
        return self.proj(self.norm(x) * angles.cos().to(x.dtype)) * angles.sin().to(x.dtype)


NETS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "resnet": (ResNet, "2x3x16x16"),
    "tied": (Tied, "2x5:int64"),
    "turned": (Turned, "2x5x12"),
}


@cache
def loaded(name: str, dtype: torch.dtype = torch.float32) -> Graph:
    torch.manual_seed(0)
    make, inputs = NETS[name]
    net = make().to(dtype).eval()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_()
    example = regraft.InputSpec.parse(inputs if ":" in inputs else f"{inputs}:{str(dtype)[6:]}")
    return regraft.load(net, [example])


def written(name: str, path: Path, dtype: torch.dtype = torch.float32) -> tuple[Graph, Path]:
    graph = loaded(name, dtype)
    options = {"fold": False, "external_data": True} if path.suffix else {}
    regraft.save(regraft.rewrite(graph).graph, path, target_of(path), **options)
    return graph, path


def target_of(path: Path) -> str:
    """What the name of an output of these tests stands for."""
    return {"net.onnx": "onnx", "net": "mindspore", "torch": "torch"}[path.name]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few operators, which such nets would not be cut into otherwise."""
    monkeypatch.setattr(deciding, "_SMALLEST", 1 << 10)
    monkeypatch.setattr(deciding, "_LARGEST", 1 << 10)


def both(graph: Graph, path: Path) -> tuple[regraft.Report, regraft.Report]:
    """The report in pieces, and whole."""
    return regraft.verify(graph, path, pieces=True), regraft.verify(graph, path, pieces=False)


def edited(path: Path, edit: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(path)
    edit(model)
    onnx.save(model, path)


def calls(report: regraft.Report) -> dict[str, float | None]:
    return {row.call: row.max_abs for row in report.modules}


@pytest.mark.parametrize("file", ["net.onnx", "torch"])
@pytest.mark.parametrize("name", NETS)
def test_equal_nets_are_equal_in_pieces_too(name: str, file: str, tmp_path: Path) -> None:
    pieces, whole = both(*written(name, tmp_path / file))
    assert pieces.passed, pieces.render()
    assert whole.passed, whole.render()
    assert calls(pieces).keys() == calls(whole).keys()
    assert all(value is not None for value in calls(pieces).values())
    assert pieces.summary().startswith("equal: ")
    assert [(row.name, row.case) for row in pieces.outputs] == [(row.name, row.case) for row in whole.outputs]
    assert pieces.coverage is not None
    assert whole.coverage is not None
    assert (pieces.coverage.draws, pieces.coverage.batches) == (whole.coverage.draws, whole.coverage.batches)
    sensitivity = pieces.coverage.sensitivity
    assert sensitivity is not None
    assert not sensitivity.unnoticed
    assert "parameters moved their module's values" in pieces.coverage.line()


def changed_weight(model: onnx.ModelProto) -> None:
    tensor = next(t for t in model.graph.initializer if list(t.dims) == [12, 36])
    values = numpy_helper.to_array(tensor).copy()
    values[3, 4] += 0.5
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def swapped_modules(model: onnx.ModelProto) -> None:
    first, second = "layers.0.0.conv1.weight", "layers.1.0.conv1.weight"
    other = {first: second, second: first}
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = other.get(name, name)


def wrong_epsilon(model: onnx.ModelProto) -> None:
    node = next(n for n in model.graph.node if n.op_type == "LayerNormalization")
    next(a for a in node.attribute if a.name == "epsilon").f = 1e-2


def slightly_other_epsilon(model: onnx.ModelProto) -> None:
    """One that inputs of variance 1 do not show."""
    node = next(n for n in model.graph.node if n.op_type == "LayerNormalization")
    next(a for a in node.attribute if a.name == "epsilon").f = 1.1e-5


def dropped_bias(model: onnx.ModelProto) -> None:
    adds = (n for n in model.graph.node if n.op_type == "Add" and "blocks.1.qkv.bias" in n.input)
    node = next(adds)
    node.op_type = "Identity"
    del node.input[list(node.input).index("blocks.1.qkv.bias")]


@pytest.mark.parametrize(
    ("name", "edit", "culprit"),
    [
        ("tied", changed_weight, "blocks.0.qkv#1"),
        ("resnet", swapped_modules, "layers.0.0.conv1#1"),
        ("tied", wrong_epsilon, "blocks.0.norm1#1"),
        ("tied", slightly_other_epsilon, "blocks.0.norm1#1"),
        ("tied", dropped_bias, "blocks.1.qkv#1"),
    ],
)
def test_a_fault_is_found_in_the_same_module(
    name: str, edit: Callable[[onnx.ModelProto], None], culprit: str, tmp_path: Path
) -> None:
    graph, path = written(name, tmp_path / "net.onnx")
    edited(path, edit)
    reports = both(graph, path) if edit is changed_weight else [regraft.verify(graph, path, pieces=True)]
    assert {report.verdict for report in reports} == {"different"}
    assert {report.first_divergence for report in reports} == {culprit}


def test_a_weight_that_no_output_shows_is_found_by_its_bits(tmp_path: Path) -> None:
    graph, path = written("tied", tmp_path / "net.onnx")

    def change(model: onnx.ModelProto) -> None:
        tensor = next(t for t in model.graph.initializer if t.name == "embed.weight")
        values = numpy_helper.to_array(tensor).copy()
        values[7] = np.nextafter(values[7], np.float32(9))
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    edited(path, change)
    report = regraft.verify(graph, path, pieces=True)
    assert all(row.passed for row in report.outputs)
    assert report.structure is not None
    assert [row.source for row in report.structure.values] == ["embed.weight"]
    assert not report.passed


@pytest.mark.parametrize(
    ("file", "layer", "other"),
    [("net", "nn.GELU(approximate=False)", "nn.ReLU()"), ("torch", "nn.GELU()", "nn.ReLU()")],
)
def test_a_folder_of_source_runs_in_pieces(file: str, layer: str, other: str, tmp_path: Path) -> None:
    graph, folder = written("tied", tmp_path / file)
    report = regraft.verify(graph, folder, pieces=True)
    assert report.passed, report.render()
    assert all(value is not None for value in calls(report).values())
    source = (folder / "model.py").read_text()
    assert source.count(layer) == 1
    (folder / "model.py").write_text(source.replace(layer, other))
    report = regraft.verify(graph, folder, pieces=True)
    assert report.verdict == "different"
    assert report.first_divergence == "blocks.0.mlp.1#1"


class Recurrent(nn.Module):
    """A layer that in MindSpore holds its parameters in tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


class Bare(nn.Module):
    """A net without parameters, and so without a checkpoint that is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x) * 2


@pytest.mark.parametrize(("make", "call"), [(Recurrent, "lstm#1"), (Bare, "act#1")])
@pytest.mark.parametrize("file", ["net.onnx", "net", "torch"])
def test_recurrent_and_bare_nets_run_in_pieces(
    make: type[nn.Module], call: str, file: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    graph, path = regraft.load(make().eval(), ["2x4x6"]), tmp_path / file
    regraft.save(regraft.rewrite(graph).graph, path, target_of(path))
    report = regraft.verify(graph, path, pieces=True)
    assert report.passed, report.render()
    assert [row.call for row in report.modules] == [call]


@pytest.mark.parametrize("file", ["net.onnx", "net"])
def test_bfloat16_is_compared_in_float32(file: str, tmp_path: Path) -> None:
    graph, path = written("tied", tmp_path / file, torch.bfloat16)
    report = regraft.verify(graph, path)  # in pieces, as no runtime here computes in bfloat16
    assert report.passed, report.render()
    assert report.summary().startswith("equal in float32: ")
    assert max(row.max_rel for row in report.outputs) < 1e-3  # 3.46 is 3.453125 in the file
    with torch.no_grad():
        graph.origin.model.get_parameter(next(iter(graph.parameters())).declared).view(-1)[0] += 0.5
    assert not regraft.verify(graph, path).passed


def test_a_recurrent_layer_of_bfloat16_is_compared_in_float32(tmp_path: Path) -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows, self.layer = nn.Embedding(9, 4), nn.LSTM(4, 3, batch_first=True)

        def forward(self, x):
            return self.layer(self.rows(x))[0]

    graph = regraft.load(Steps().bfloat16().eval(), [torch.ones(2, 5, dtype=torch.int64)])
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.summary().startswith("equal in float32: "), report.render()


@pytest.mark.parametrize("file", ["net.onnx", "net"])
def test_a_rounded_table_is_taken_as_the_source_computes_it(file: str, tmp_path: Path) -> None:
    graph, path = written("turned", tmp_path / file, torch.bfloat16)
    report = regraft.verify(graph, path, pieces=True)
    assert report.passed, report.render()
    assert max(row.max_rel for row in report.outputs) < 1e-5


def test_torch_computes_in_bfloat16_in_pieces_too(tmp_path: Path) -> None:
    graph, folder = written("tied", tmp_path / "torch", torch.bfloat16)
    report = regraft.verify(graph, folder, pieces=True)
    assert report.passed, report.render()
    assert report.summary().startswith("equal: ")
    source = (folder / "model.py").read_text()
    assert source.count("dtype=torch.bfloat16") > 1
    (folder / "model.py").write_text(source.replace("dtype=torch.bfloat16", "dtype=torch.float32"))
    with pytest.raises(ModelError, match=r"does not fit the net: .* is bfloat16, float32 in the net"):
        regraft.verify(graph, folder, pieces=True)


def test_the_run_in_float64_has_no_weights_of_its_own() -> None:
    graph = loaded("tied")
    model = graph.origin.model
    assert isinstance(model, nn.Module)
    runner = TorchPieces(graph, "float64")
    assert runner.separate()
    assert runner._model is not model
    assert [p.data_ptr() for p in runner._model.parameters()] == [p.data_ptr() for p in model.parameters()]


def test_pieces_are_for_the_forward_pass_of_torch_alone(tmp_path: Path) -> None:
    graph, path = written("tied", tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="forward pass alone"):
        regraft.verify(graph, path, pieces=True, train=True)
    with pytest.raises(UsageError, match="sides that run in pieces, got a graph as the target"):
        regraft.verify(graph, regraft.rewrite(graph).graph, pieces=True)


class Wide(nn.Module):
    """Dense layers whose outputs are computed some at a time: with a bias and without, of any batch axes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 37), nn.Linear(37, 12, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.relu(self.first(x)))


NETS["wide"] = (Wide, "2x3x12")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_dense_layer_is_computed_some_rows_at_a_time(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regraft.verification.streaming import mindspore_reading

    graph, folder = written("wide", tmp_path / "net", dtype)
    monkeypatch.setattr(mindspore_reading, "_BLOCK", 60)
    read: list[slice] = []
    blocks = mindspore_reading.CheckpointReader.blocks

    def told(self: mindspore_reading.CheckpointReader, parameter: object) -> Iterator[tuple[slice, object]]:
        for rows, block in blocks(self, parameter):
            read.append(rows)
            yield rows, block

    monkeypatch.setattr(mindspore_reading.CheckpointReader, "blocks", told)
    report = regraft.verify(graph, folder, pieces=True)
    assert report.passed, report.render()
    assert max(row.max_rel for row in report.outputs) < 1e-5
    assert len(read) == 3 * (8 + 12)  # in each of three runs, 5 of 37 rows at a time, then 1 of 12
    assert max(rows.stop for rows in read) == 37


@pytest.mark.parametrize("file", ["net.onnx", "net", "torch"])
def test_a_rewrite_in_pieces_is_verified_while_it_is_written(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regraft.formats import elements, written_behind

    monkeypatch.setattr(elements, "_SMALL", 0)
    monkeypatch.setattr(written_behind, "_AHEAD", 1)  # one tensor at most is written before it is read
    read: list[bool] = []
    wait_for = written_behind.WritingBehind.wait_for

    def told(self: written_behind.WritingBehind, path: Path, start: int, size: int) -> None:
        parts = self._parts.get(path.resolve(), [])
        read.append(any(part.start == start and not part.begun for part in parts))
        wait_for(self, path, start, size)

    monkeypatch.setattr(written_behind.WritingBehind, "wait_for", told)
    graph, path = loaded("tied"), tmp_path / "out" / file
    target = target_of(path)
    files, report = regraft.rewrite_file(graph, regraft.rewrite(graph), path, target, pieces=True)
    assert report is not None
    assert report.passed
    assert any(read)  # weights that nobody had begun to write
    assert sorted(files) == sorted((tmp_path / "out").rglob("*.*"))
    again = regraft.verify(graph, path, pieces=False)
    assert again.passed, again.render()


def test_a_rewrite_that_cannot_be_written_while_it_is_verified_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regraft.formats import elements

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(elements, "_SMALL", 1 << 10)
    monkeypatch.setattr(ElementWriters, "write", refuse)
    graph = loaded("tied")
    with pytest.raises(regraft.RegraftError, match="no space left"):
        regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net.onnx", pieces=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["net.onnx", "net", "torch"])
def test_what_is_written_wrongly_is_not_kept(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regraft.formats import elements

    wrong = ElementWriters.write

    def write(self: ElementWriters, data: TensorData, raw: Any, at: int) -> None:
        if data.shape in ((12, 36), (36, 12)):
            data = TensorData.of(np.nextafter(data.numpy(), np.float32(9)))
        wrong(self, data, raw, at)

    monkeypatch.setattr(elements, "_SMALL", 0)
    monkeypatch.setattr(ElementWriters, "write", write)
    graph, path = loaded("tied"), tmp_path / file
    target = target_of(path)
    with pytest.raises(MismatchError) as refused:
        regraft.rewrite_file(graph, regraft.rewrite(graph), path, target, pieces=True)
    structure = refused.value.report.structure  # type: ignore[attr-defined]
    assert sorted(row.source for row in structure.values) == ["blocks.0.qkv.weight", "blocks.1.qkv.weight"]
    assert not list(tmp_path.iterdir())


def large_at_one(model: onnx.ModelProto) -> None:
    """Add 1 at batch 1 alone, behind everything."""
    graph = model.graph
    for node in graph.node:
        node.output[:] = ["inner" if name == graph.output[0].name else name for name in node.output]
    nodes = [
        onnx.helper.make_node("Shape", [graph.input[0].name], ["sizes"], start=0, end=1),
        onnx.helper.make_node("Equal", ["sizes", "one size"], ["is one"]),
        onnx.helper.make_node("Cast", ["is one"], ["step"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Add", ["inner", "step"], [graph.output[0].name]),
    ]
    graph.initializer.append(numpy_helper.from_array(np.array([1]), "one size"))
    graph.node.extend(nodes)


def test_a_fault_at_one_size_is_found_by_the_sizes_of_a_whole_comparison(tmp_path: Path) -> None:
    graph, path = written("tied", tmp_path / "net.onnx")
    edited(path, large_at_one)
    report = regraft.verify(graph, path, pieces=True)
    assert report.verdict == "different"
    assert [row.case for row in report.outputs if not row.passed] == ["N=1"]


def test_a_size_for_which_memory_is_missing_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regraft.verification.streaming.onnx_pieces import OnnxPieces

    graph, path = written("tied", tmp_path / "net.onnx")
    run = OnnxPieces.run

    def limited(self: OnnxPieces, inputs: dict[str, np.ndarray], *, calls: bool = True) -> object:
        if len(next(iter(inputs.values()))) > 2:
            raise ModelError("E702", "MindSpore could not run the model: Allocate memory failed")
        return run(self, inputs, calls=calls)

    monkeypatch.setattr(OnnxPieces, "run", limited)
    report = regraft.verify(graph, path, pieces=True)
    assert report.passed, report.render()
    assert report.coverage is not None
    assert "N=5, repeated, for which there was not enough memory" in report.coverage.line()
    assert report.coverage.batches == [1, 2]


class Dead(nn.Module):
    """A layer to which nothing comes, and a scale of its own that nothing reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.scale, self.shift = nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        return self.second(x) + x * self.scale + self.shift


def test_weights_that_move_nothing_are_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Dead().eval()
    with torch.no_grad():
        net.first.bias.fill_(-99)  # behind it, all values are 0
    graph, path = regraft.load(net, ["2x6"]), tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, path, "onnx", fold=False)
    report = regraft.verify(graph, path, pieces=True)
    assert report.coverage is not None
    assert report.coverage.sensitivity is not None
    assert report.coverage.sensitivity.unnoticed == ["second.weight", "scale"]


@pytest.mark.parametrize("wanted", [None, False])
def test_pieces_are_taken_where_they_cost_less(
    wanted: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, path = written("resnet", tmp_path / "net.onnx")
    whole = regraft.verify(graph, path, pieces=wanted)
    assert "in pieces" not in whole.target
    monkeypatch.setattr(deciding, "_CHEAPER", 1 << 10)
    report = regraft.verify(graph, path, pieces=wanted)
    assert report.passed, report.render()
    assert ("in pieces" in report.target) is (wanted is None)
    assert report.coverage is not None
    assert whole.coverage is not None
    assert report.coverage.bends == whole.coverage.bends > 0
    assert report.coverage.unreached == whole.coverage.unreached
