"""``.mindir`` files, read without MindSpore and compared with MindSpore's own run of them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops
from mindspore.train import serialization
from mindspore.train.mind_ir_pb2 import ModelProto  # pyright: ignore[reportAttributeAccessIssue]

import regraft
from regraft import convert_checkpoint, diff, load_tree, rewrite_file

pytestmark = pytest.mark.xdist_group("mindir_files")  # which MindSpore writes once

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


class Block(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(width, width, 3), nn.BatchNorm2d(width), nn.ReLU()

    def construct(self, x):
        return self.act(self.bn(self.conv(x))) + x


class Net(nn.Cell):
    """Residual blocks whose additions keep the scope of the first, a Dropout, nested results."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, pad_mode="pad", padding=1, has_bias=True)
        self.blocks = nn.SequentialCell(Block(8), Block(8))
        self.drop, self.fc = nn.Dropout(p=0.2), nn.Dense(8, 5)

    def construct(self, x):
        x = self.blocks(self.stem(x))
        pooled = ops.mean(x, (2, 3))
        return self.fc(self.drop(pooled)), (pooled, x)


class Tied(nn.Cell):
    """One table that is looked up and multiplied by, a layer called twice, a loose Parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(11, 4), nn.Dense(4, 4)
        self.scale = ms.Parameter(ms.Tensor(np.full(4, 0.5, np.float32)), name="scale")

    def construct(self, ids):
        x = self.mix(ops.relu(self.mix(self.embed(ids)))) * self.scale
        return ops.matmul(x, self.embed.embedding_table.T)


class Choosing(nn.Cell):
    """A branch with a layer in it, a loop, and one table read in both."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.scale = ms.Parameter(ms.Tensor(np.full(4, 0.5, np.float32)), name="scale")

    def construct(self, x):
        if x.sum() > 0:
            x = self.fc(x)
            x = x * self.scale
        else:
            x = x - self.scale
        total = x.sum()
        while total < 10:
            x = x * 1.5 + 1
            total = x.sum()
        return x, total


class Recurrent(nn.Cell):
    """Layers that the compiler writes one by one, each with its weights joined."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
        self.plain = nn.LSTM(10, 3, has_bias=False)

    def construct(self, x):
        return self.plain(self.lstm(x)[0])[0]


def spread(net: nn.Cell) -> nn.Cell:
    random = np.random.default_rng(0)
    for parameter in net.get_parameters():
        low = 0.5 if parameter.name.endswith("variance") else -0.5
        parameter.set_data(ms.Tensor(random.uniform(low, 1.0, parameter.shape).astype(np.float32)))
    return net


def export(net: nn.Cell, path: Path, *inputs: object) -> Path:
    ms.export(net, *inputs, file_name=str(path.with_suffix("")), file_format="MINDIR")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`net`, `open_batch`, `tied` and `train`, and `split` with its data beside it."""
    found = tmp_path_factory.mktemp("mindir")
    net = spread(Net())
    net.set_train(False)
    export(net, found / "net.mindir", ms.Tensor(IMAGES))
    net.compile_cache.clear()
    export(net, found / "open_batch.mindir", ms.Tensor(shape=[None, 3, 8, 8], dtype=ms.float32))
    net.compile_cache.clear()
    serialization.TOTAL_SAVE, kept = 0, serialization.TOTAL_SAVE
    try:
        ms.export(net, ms.Tensor(IMAGES), file_name=str(found / "split"), file_format="MINDIR")
    finally:
        serialization.TOTAL_SAVE = kept
    (found / "split_graph.mindir").chmod(0o600)
    train = spread(Net())
    train.set_train(True)
    export(train, found / "train.mindir", ms.Tensor(IMAGES))
    tied = spread(Tied())
    tied.set_train(False)
    export(tied, found / "tied.mindir", ms.Tensor(np.arange(6, dtype=np.int32).reshape(2, 3)))
    choosing = spread(Choosing())
    choosing.set_train(False)
    export(choosing, found / "choosing.mindir", ms.Tensor(IMAGES[:, 0, 0, :4]))
    recurrent = spread(Recurrent())
    recurrent.set_train(False)
    export(recurrent, found / "recurrent.mindir", ms.Tensor(IMAGES[0, :, :, :4]))
    return found


FILES = ("net", "open_batch", "split_graph", "tied", "choosing", "recurrent")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", ["onnx", "mindspore"])
def test_equals_what_mindspore_runs(folder: Path, tmp_path: Path, name: str, target: str) -> None:
    graph = regraft.load(folder / f"{name}.mindir", trust=True)
    out = tmp_path / ("out.onnx" if target == "onnx" else "out")
    _, report = rewrite_file(graph, regraft.rewrite(graph), out, target)
    assert report is not None
    assert report.passed, report.render()
    assert report.proved_against == "source"
    assert {p.name for p in graph.parameters()} == {p.declared for p in graph.parameters()}
    if name != "choosing":  # MindSpore runs branches of a file with the parameters that it loaded
        assert "moved nothing" not in report.render()


def test_layers_have_their_paths_and_classes(folder: Path, tmp_path: Path) -> None:
    graph = regraft.load(folder / "net.mindir")
    found = {graph.modules.path(m.key): m.class_name for m in graph.modules if m.parameters}
    convolutions = dict.fromkeys(("stem", "blocks.0.conv", "blocks.1.conv"), "Conv2d")
    assert found == {
        **convolutions,
        "blocks.0.bn": "BatchNorm2d",
        "blocks.1.bn": "BatchNorm2d",
        "fc": "Dense",
    }
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    source = (tmp_path / "net" / "model.py").read_text()
    assert "nn.SequentialCell(ResidualBlock(), ResidualBlock())" in source
    assert "return y, (out, x)" in source
    kept = ms.load_checkpoint(str(tmp_path / "net" / "model.ckpt"))
    assert {"blocks.1.bn.gamma", "stem.bias", "fc.weight"} <= set(kept)


def test_a_layer_that_runs_twice_is_none_and_keeps_one_parameter(folder: Path) -> None:
    graph = regraft.load(folder / "tied.mindir")
    assert sorted(p.name for p in graph.parameters()) == [
        "embed.embedding_table",
        "mix.bias",
        "mix.weight",
        "scale",
    ]
    assert "mix" not in {graph.modules.path(m.key) for m in graph.modules}


def test_branches_and_loops_are_read_as_those_of_the_cell(folder: Path) -> None:
    graph = regraft.load(folder / "choosing.mindir")
    assert {"If", "Loop"} <= {o.op_type for o in graph.operators()}
    assert [name for name, _ in graph.outputs] == ["output0", "output1"]
    net = spread(Choosing())
    for sign in (1, -1):
        x = sign * np.abs(IMAGES[:, 0, 0, :4])
        report = regraft.verify(regraft.load(net, [x], dynamic_batch=False), graph)
        assert report.passed, report.render()


def doubling(model) -> None:
    """Thirty functions, each of which calls the next twice: a thousand million runs of the last."""
    for number in range(30):
        function = model.functions.add(name=f"f{number}")
        function.input.add(name=f"f{number}x").tensor.add(data_type=1, dims=[2, 3, 8, 8])
        value = f"f{number}x"
        for turn in range(2):
            made = f"f{number}y{turn}"
            op = f"REF::f{number + 1}" if number < 29 else "ReLU"
            function.node.add(op_type=op, input=[value], output=[made])
            value = made
        function.output.add(name=value)
    model.graph.node.add(op_type="REF::f0", input=[model.graph.input[0].name], output=["doubled"])
    model.graph.output[0].name = "doubled"


def test_an_open_batch_stays_open(folder: Path) -> None:
    graph = regraft.load(folder / "open_batch.mindir")
    assert [graph.type_of(v).shape for _, v in graph.outputs] == [("N", 5), ("N", 8), ("N", 8, 8, 8)]
    static = regraft.load(folder / "net.mindir")
    assert any("exported at this size" in note for note in static.origin.notes)


def test_a_live_net_against_its_file(folder: Path) -> None:
    net = spread(Net())
    report = regraft.verify(net, folder / "net.mindir", [IMAGES])
    assert report.passed, report.render()
    net.fc.bias.set_data(net.fc.bias + 1)
    report = regraft.verify(net, folder / "net.mindir", [IMAGES], copy=False)
    assert not report.passed


def test_mindspore_is_needed_only_with_trust(folder: Path) -> None:
    script = (
        "import sys, regraft\n"
        f"graph = regraft.load({str(folder / 'net.mindir')!r})\n"
        "assert len(graph.parameters()) == 14, graph\n"
        "assert 'mindspore' not in sys.modules and 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    graph = regraft.load(folder / "net.mindir")
    report = regraft.verify(graph, graph.copy())
    assert report.proved_against == "graph"
    assert any("--trust lets MindSpore run the file" in note for note in report.notes)


def test_a_graph_of_training_is_refused(folder: Path) -> None:
    with pytest.raises(
        regraft.RegraftError, match="E203 expected a model in inference mode, got one in training mode"
    ) as e:
        regraft.load(folder / "train.mindir")
    assert "set_train(False)" in str(e.value)
    assert len(load_tree(folder / "train.mindir").parameters()) == 14


def test_inputs_must_be_those_of_the_file(folder: Path) -> None:
    with pytest.raises(
        regraft.RegraftError, match=r"E103 expected `x` of f32\[2,3,8,8\], got float32 \[4, 3, 8, 8\]"
    ):
        regraft.load(folder / "net.mindir", ["4x3x8x8"])
    graph = regraft.load(folder / "open_batch.mindir", {"x": "4x3x8x8"})
    assert graph.origin.inputs["x"].shape == (4, 3, 8, 8)


def broken(change: Callable[[object], object]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        model = ModelProto()
        model.ParseFromString(data)
        change(model)
        return model.SerializeToString()

    return changed


def nested(model) -> None:
    attribute = model.graph.node[0].attribute.add(name="value", type=20)
    for _ in range(90):
        attribute = attribute.values.add(type=20)


def unknown_element(model) -> None:
    model.graph.parameter[0].data_type = 99


def compressed(model) -> None:
    model.graph.parameter[0].compression_type = 3


def smaller(model) -> None:
    model.graph.parameter[0].dims[0] += 1


def cyclic(model) -> None:
    node = next(n for n in model.graph.node if n.op_type.startswith("REF::Conv2D"))
    node.input[0] = node.output[0]


def made_twice(model) -> None:
    model.graph.node[3].output[0] = model.graph.node[2].output[0]


def huge(model) -> None:
    del model.graph.input[0].tensor[0].dims[:]
    model.graph.input[0].tensor[0].dims.extend([1 << 40, 1 << 40])


def control(model) -> None:
    model.graph.node[2].op_type = "Switch"


def same_function(model) -> None:
    doubling(model)
    model.functions[3].name = "f2"


HOSTILE = {
    "empty": (lambda _: b"", "E101"),
    "no protobuf": (lambda _: b"\x7fELF" * 40, "E101"),
    "cut": (lambda data: data[: len(data) // 2], "E101"),
    "nested deeply": (broken(nested), "E106"),
    "unknown element type": (broken(unknown_element), "E101"),
    "compressed": (broken(compressed), "E101 expected tensors that are not compressed"),
    "fewer bytes": (broken(smaller), "E101 expected"),
    "cyclic": (broken(cyclic), "E101 expected"),
    "one name twice": (broken(made_twice), "E101 expected every name once"),
    "huge input": (broken(huge), "E101"),
    "a switch of nothing": (broken(control), "E101|E203"),
    "functions that double": (broken(doubling), "E106 expected fewer calls of functions by functions"),
    "a function of that name twice": (broken(same_function), "E101 expected every function once"),
    "many numbers": (
        lambda _: b"\x3a\x8a\x01" + b"\x0a\x87\x01" + b"\x2a\x84\x01" + b"\x52\x81\x01" + b"\x01" * 129,
        "E101",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_one_error(folder: Path, tmp_path: Path, name: str) -> None:
    change, expected = HOSTILE[name]
    path = tmp_path / "net.mindir"
    path.write_bytes(change((folder / "net.mindir").read_bytes()))
    with pytest.raises(regraft.RegraftError, match=expected) as caught:
        regraft.load(path)
    assert caught.value.place


@pytest.mark.parametrize(
    "location", ["../elsewhere", "/etc/passwd", "split_variables", "", "split_variables/link"]
)
def test_data_lies_beside_the_file(folder: Path, tmp_path: Path, location: str) -> None:
    def moved(model) -> None:
        model.graph.parameter[0].external_data.location = location

    (tmp_path / "elsewhere").write_bytes(b"x" * 10_000)
    inner = tmp_path / "model"
    (inner / "split_variables").mkdir(parents=True)
    (inner / "split_variables" / "link").symlink_to(tmp_path / "elsewhere")
    (inner / "split_variables" / "data_0").write_bytes((folder / "split_variables" / "data_0").read_bytes())
    path = inner / "split_graph.mindir"
    path.write_bytes(broken(moved)((folder / "split_graph.mindir").read_bytes()))
    with pytest.raises(regraft.RegraftError, match=r"E101 (expected|the model's data file)"):
        regraft.load(path)


def test_data_that_is_missing_or_cut_is_said(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "split_graph.mindir"
    path.write_bytes((folder / "split_graph.mindir").read_bytes())
    with pytest.raises(regraft.RegraftError, match="E101 the model's data file is missing") as caught:
        regraft.load(path)
    assert "split_variables" in caught.value.message
    (tmp_path / "split_variables").mkdir()
    whole = (folder / "split_variables" / "data_0").read_bytes()
    (tmp_path / "split_variables" / "data_0").write_bytes(whole[:-200])
    with pytest.raises(regraft.RegraftError, match=r"E101 expected \d+ bytes of"):
        regraft.load(path)


def test_its_weights_are_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    """Compared, and converted to one that the net loads strictly; a graph of training has them too."""
    net = spread(Net())
    ms.save_checkpoint(net, str(tmp_path / "net.ckpt"))
    for name in ("net", "split_graph", "train"):
        assert diff(folder / f"{name}.mindir", tmp_path / "net.ckpt").equal, name
    convert_checkpoint(folder / "split_graph.mindir", tmp_path / "out.ckpt", like=net)
    assert not any(
        ms.load_param_into_net(Net(), ms.load_checkpoint(str(tmp_path / "out.ckpt")), strict_load=True)
    )
    net.fc.bias.set_data(net.fc.bias + 1)
    ms.save_checkpoint(net, str(tmp_path / "other.ckpt"))
    assert not diff(folder / "net.mindir", tmp_path / "other.ckpt").equal
