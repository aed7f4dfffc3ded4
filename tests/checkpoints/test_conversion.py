"""Weights trained on one side load strictly on the other, both ways: torch and MindSpore are the judges."""

import importlib.util
import itertools
import json
import os
import sys
import tracemalloc
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # before MindSpore: its convolutions are slow without it
os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner
from torch import nn

import regraft
from regraft import convert_checkpoint, diff
from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.cli import main
from regraft.formats.renames import Rename, write_renames
from regraft.ir import ModelError, TensorData, UsageError

EXAMPLES = Path(__file__).parents[2] / "examples"
NUMBER = itertools.count()


def imported(path: Path):
    name = f"converted_{next(NUMBER)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Tied(nn.Module):
    """One parameter under two names, as language models have it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 11)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.norm(self.embed(ids)))


class Layouts(nn.Module):
    """What MindSpore holds in another shape, what torch does not save, and what is never called."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(8, affine=False)
        self.act = nn.PReLU(8)
        self.plain = nn.GroupNorm(2, 8, affine=False)
        self.never = nn.Linear(4, 4)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 12), persistent=False)
        self.register_buffer("shift", torch.linspace(-1, 1, 12))

    def forward(self, x):
        return self.plain(self.act(self.norm(self.conv(x)))) * self.scale + self.shift


class Volumes(nn.Module):
    """Three dimensions, and a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU())
        self.up = nn.ConvTranspose3d(4, 2, 2, stride=2)

    def forward(self, x):
        return self.up(self.body(x))


class SharedModule(nn.Module):
    """One module under two paths, of which only one is called."""

    def __init__(self):
        super().__init__()
        self.base = nn.ModuleDict({"stem": nn.Linear(4, 4), "rest": nn.Linear(4, 4)})
        self.stem = self.base["stem"]

    def forward(self, x):
        return self.stem(x).relu()


def resnet18():
    return imported(EXAMPLES / "resnet.py").resnet18()


def transformer():
    return imported(EXAMPLES / "transformer.py").transformer()


def floats(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def ids(*shape):
    return np.random.default_rng(1).integers(0, 11, shape).astype(np.int64)


NETS = {
    "resnet18": (resnet18, floats(2, 3, 64, 64)),
    "transformer": (transformer, ids(2, 16)),
    "tied": (Tied, ids(2, 5)),
    "layouts": (Layouts, floats(2, 3, 12)),
    "volumes": (Volumes, floats(2, 1, 4, 4, 4)),
    "shared": (SharedModule, floats(2, 4)),
}


def trained(model, example):
    """A model whose every tensor, running statistics too, has moved since it was rewritten."""
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        model.train()
        model(torch.tensor(example))
    return model.eval()


def outputs(model, example):
    with torch.no_grad():
        return model(torch.tensor(example)).numpy()


def assert_close(got, expected):
    """Equal within float32's rounding at the outputs' magnitude."""
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def moved(net):
    """Change every parameter of a MindSpore net, as training would."""
    generator = np.random.default_rng(5)
    for parameter in net.get_parameters():
        values = parameter.asnumpy()
        if np.issubdtype(values.dtype, np.floating):
            step = np.abs(0.05 * generator.standard_normal(values.shape)).astype(values.dtype)
            parameter.set_data(ms.Tensor(values + step))


@pytest.fixture(scope="module", params=NETS)
def case(request, tmp_path_factory):
    make, example = NETS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(0)
    model = make().eval()
    regraft.save(regraft.rewrite(regraft.load(model, (example,))).graph, folder, to="mindspore")
    return make, trained(model, example), example, folder


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_trained_in_torch_load_into_the_emitted_net(case, suffix, tmp_path):
    _, model, example, folder = case
    if suffix == "pth":
        torch.save(model.state_dict(), tmp_path / "trained.pth")
    else:
        safetensors.torch.save_model(model, str(tmp_path / "trained.safetensors"))  # leaves tied names out
    to = tmp_path / ("new.ckpt" if suffix == "pth" else "new.safetensors")
    done = convert_checkpoint(tmp_path / f"trained.{suffix}", to, folder / "renames.json")
    assert done.reverse is False
    net = imported(folder / "model.py").build(checkpoint=to)  # strict
    assert_close(net(ms.Tensor(example)).asnumpy(), outputs(model, example))


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_trained_in_mindspore_load_into_the_source(case, suffix, tmp_path):
    make, _, example, folder = case
    net = imported(folder / "model.py").build()
    moved(net)
    frozen = {r["target"] for r in rows(folder) if r.get("values")}  # not the source's to train
    original = imported(folder / "model.py").build().parameters_dict()
    for name, parameter in net.parameters_dict().items():
        if name in frozen:
            parameter.set_data(original[name])
    ms.save_checkpoint(net, str(tmp_path / "moved.ckpt"))
    done = convert_checkpoint(tmp_path / "moved.ckpt", tmp_path / f"back.{suffix}", folder / "renames.json")
    assert done.reverse is True
    model = make().eval()
    path = tmp_path / f"back.{suffix}"
    state = torch.load(path, weights_only=True) if suffix == "pth" else safetensors.torch.load_file(path)
    model.load_state_dict(state, strict=True)
    assert_close(outputs(model, example), net(ms.Tensor(example)).asnumpy())


def rows(folder):
    return json.loads((folder / "renames.json").read_text())["parameters"]


def test_there_and_back_is_the_same_to_the_bit(case, tmp_path):
    make, model, _, folder = case
    torch.save(model.state_dict(), tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", folder / "renames.json")
    done = convert_checkpoint(tmp_path / "b.ckpt", tmp_path / "c.pth", folder / "renames.json")
    there, back = model.state_dict(), torch.load(tmp_path / "c.pth", weights_only=True, mmap=True)
    assert set(back) == set(there) != set()
    lost = {r["source"] for r in rows(folder) if not r["target"]}
    for name, tensor in there.items():
        assert back[name].dtype == tensor.dtype
        expected = torch.zeros_like(tensor) if name in lost else tensor
        assert torch.equal(back[name], expected), name
    assert any("zeros" in note for note in done.notes) == bool(lost)
    assert make().load_state_dict(back, strict=True)
    report = diff(tmp_path / "a.pth", tmp_path / "b.ckpt", folder / "renames.json")
    assert report.equal, report.only_first + report.only_second
    assert diff(tmp_path / "b.ckpt", tmp_path / "a.pth", folder / "renames.json").equal


def test_what_has_zeros_is_what_no_operator_reads(tmp_path):
    model, folder = SharedModule(), tmp_path / "out"
    regraft.save(regraft.rewrite(regraft.load(model, (floats(2, 4),))).graph, folder, to="mindspore")
    by_source = {r["source"]: r for r in rows(folder)}
    assert set(by_source) == set(model.state_dict())
    assert {n for n, r in by_source.items() if not r["target"]} == {"base.rest.weight", "base.rest.bias"}


def test_a_saved_program(tmp_path):
    model, example = Layouts().eval(), floats(2, 3, 12)
    torch.export.save(torch.export.export(model, (torch.tensor(example),)), tmp_path / "net.pt2")
    graph = regraft.rewrite(regraft.load(str(tmp_path / "net.pt2"), (example,), dynamic_batch=False)).graph
    regraft.save(graph, tmp_path / "out", to="mindspore")
    trained(model, example)
    torch.save(model.state_dict(), tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", tmp_path / "out/renames.json")
    net = imported(tmp_path / "out/model.py").build(checkpoint=tmp_path / "b.ckpt")
    assert_close(net(ms.Tensor(example)).asnumpy(), outputs(model, example))


def test_counters_of_a_profiler_are_named(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    graph = regraft.load(model, (floats(2, 3),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    state = dict(model.state_dict())
    for name in ("total_ops", "total_params", "0.total_ops", "1.total_params"):
        state[name] = torch.zeros(1, dtype=torch.float64)
    torch.save(state, tmp_path / "profiled.pth")
    with pytest.raises(ModelError, match="E801") as map_refused:
        convert_checkpoint(tmp_path / "profiled.pth", tmp_path / "new.ckpt", tmp_path / "out/renames.json")
    with pytest.raises(ModelError, match="E801") as net_refused:
        regraft.load(model, (floats(2, 3),), params=tmp_path / "profiled.pth")
    for refused in (map_refused, net_refused):
        assert "counters that thop.profile registers" in str(refused.value.hint)
    torch.save({**state, "other": torch.zeros(1)}, tmp_path / "profiled.pth")
    with pytest.raises(ModelError, match="E801") as refused:
        regraft.load(model, (floats(2, 3),), params=tmp_path / "profiled.pth")
    assert "thop" not in str(refused.value.hint)


def test_tied_tensors_that_grew_apart_are_refused(tmp_path):
    model = Tied()
    regraft.save(regraft.rewrite(regraft.load(model, (ids(2, 5),))).graph, tmp_path / "out", to="mindspore")
    state = dict(model.state_dict())
    state["head.weight"] = state["head.weight"] + 1
    torch.save(state, tmp_path / "apart.pth")
    with pytest.raises(ModelError, match=r"E801(.|\n)*`embed.weight` and `head.weight` are tied"):
        convert_checkpoint(tmp_path / "apart.pth", tmp_path / "new.ckpt", tmp_path / "out/renames.json")
    assert not (tmp_path / "new.ckpt").exists()


def folding_net(seed):
    """Every kind of layer that takes a normalisation in, one of them two, with statistics of their own."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.BatchNorm2d(4, affine=False),
        nn.ConvTranspose2d(4, 2, 3),
        nn.BatchNorm2d(2, eps=1e-3),
        nn.Flatten(2),
        nn.Conv1d(2, 3, 3),
        nn.BatchNorm1d(3),
        nn.Flatten(),
        nn.Linear(186, 5),
        nn.BatchNorm1d(5),
    )
    for name, tensor in model.state_dict().items():
        if tensor.ndim == 1:
            nn.init.uniform_(tensor, 0.5, 2) if "var" in name or "weight" in name else nn.init.normal_(tensor)
    return model.eval()


@pytest.mark.parametrize("target", ["onnx", "mindspore"])
def test_checkpoints_of_the_source_convert_into_folded_layers(tmp_path, target):
    def written(seed, at):
        graph = regraft.rewrite(regraft.load(folding_net(seed), (floats(2, 3, 8, 8),))).graph
        folded = regraft.rewrite(graph, ["prepare-for-inference"]).graph
        regraft.save(folded, at if target == "mindspore" else at / "model.onnx", to=target)
        torch.save(folding_net(seed).state_dict(), at / "a.pth")
        return at

    (tmp_path / "second").mkdir(parents=True)
    (tmp_path / "first").mkdir()
    first, second = written(1, tmp_path / "first"), written(2, tmp_path / "second")
    name, renames = ("model.ckpt", "renames.json") if target == "mindspore" else ("model.onnx",) * 2
    renames = renames.replace(".onnx", ".renames.json")
    assert diff(second / "a.pth", second / name, first / renames).equal
    assert diff(second / name, second / "a.pth", first / renames).equal
    assert not diff(first / "a.pth", second / name, first / renames).equal
    convert_checkpoint(second / "a.pth", tmp_path / "b.safetensors", first / renames)
    report = diff(tmp_path / "b.safetensors", second / name)  # constants of an ONNX graph are none of them
    assert not report.only_first
    assert all(row.equal for row in report.rows)
    with pytest.raises(
        ModelError, match=r"E801(.|\n)*`0.weight`: not the source's values(.|\n)*keeps its normalisations"
    ):
        convert_checkpoint(second / name, tmp_path / "c.pth", first / renames)
    state = {n: t for n, t in folding_net(2).state_dict().items() if n != "1.running_mean"}
    torch.save(state, tmp_path / "d.pth")
    with pytest.raises(ModelError, match=r"E801(.|\n)*only in the map: `1.running_mean`"):
        convert_checkpoint(tmp_path / "d.pth", tmp_path / "e.safetensors", first / renames)


def test_statistics_of_other_shapes_are_no_crash(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    regraft.save(regraft.rewrite(regraft.load(model, (floats(2, 3, 8, 8),))).graph, tmp_path / "model.onnx")
    map_ = tmp_path / "model.renames.json"
    torch.save(nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)).state_dict(), tmp_path / "wider.pth")
    report = diff(tmp_path / "wider.pth", tmp_path / "model.onnx", map_)
    assert {row.name: row.shapes[0] for row in report.rows} == {"0.weight": (6, 3, 3, 3), "0.bias": (6,)}
    assert not report.equal
    with pytest.raises(ModelError, match=r"E801(.|\n)*`1.weight`: expected float32 \[4\], got float32 \[6\]"):
        convert_checkpoint(tmp_path / "wider.pth", tmp_path / "new.safetensors", map_)
    torch.save(model.state_dict(), tmp_path / "a.pth")
    document = json.loads(map_.read_text())
    document["parameters"][0]["norms"][0]["statistics"][0] = "0.weight"
    map_.write_text(json.dumps(document))
    with pytest.raises(ModelError, match=r"E101 expected statistics of 4 channels for `0.weight`"):
        convert_checkpoint(tmp_path / "a.pth", tmp_path / "new.safetensors", map_)


def test_a_gamma_that_the_source_fixes_is_held_by_the_map(tmp_path):
    names = ["c_weight", "c_bias", "b_gamma", "b_beta", "b_moving_mean", "b_moving_var"]
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ["data", *names]]
    kernel = {"kernel": "(3, 3)", "num_filter": "4"}
    nodes += [
        {"op": "Convolution", "name": "c", "attrs": kernel, "inputs": [[i, 0, 0] for i in (0, 1, 2)]},
        {"op": "BatchNorm", "name": "b", "attrs": {}, "inputs": [[i, 0, 0] for i in (7, 3, 4, 5, 6)]},
    ]
    symbol = {"nodes": nodes, "arg_nodes": list(range(7)), "heads": [[8, 0, 0]], "attrs": {}}
    (tmp_path / "n-symbol.json").write_text(json.dumps(symbol))
    shapes = [(4, 3, 3, 3), *[(4,)] * 5]
    kinds = ["aux" if "moving" in name else "arg" for name in names]
    values = [np.random.default_rng(0).uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]
    rows = zip(kinds, names, values, strict=True)
    params = {f"{kind}:{name}": TensorData.of(value) for kind, name, value in rows}
    write_checkpoint(tmp_path / "n-0000.params", params)
    graph = regraft.rewrite(regraft.load(str(tmp_path / "n-symbol.json"), ["data=2x3x8x8"])).graph
    regraft.save(graph, tmp_path / "n.onnx")
    assert regraft.verify(graph, tmp_path / "n.onnx").passed
    map_ = tmp_path / "n.renames.json"
    held = [row["norms"] for row in json.loads(map_.read_text())["parameters"] if row.get("norms")]
    assert [norm["statistics"] for norms in held for norm in norms] == [
        ["", "b.beta", "b.moving_mean", "b.moving_var"]
    ] * 2
    assert diff(tmp_path / "n-0000.params", tmp_path / "n.onnx", map_).equal


def test_nested_state_is_unwrapped_with_a_note(tmp_path):
    model = Tied()
    regraft.save(regraft.rewrite(regraft.load(model, (ids(2, 5),))).graph, tmp_path / "out", to="mindspore")
    torch.save({"epoch": 3, "state_dict": model.state_dict()}, tmp_path / "run.pth")
    done = convert_checkpoint(tmp_path / "run.pth", tmp_path / "new.ckpt", tmp_path / "out/renames.json")
    assert any("state_dict" in note for note in done.notes)


def test_tensors_that_a_pass_tied_come_back_under_both_names(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].load_state_dict(model[0].state_dict())
    graph = regraft.load(model, (floats(2, 4),))
    tied = regraft.rewrite(graph, ["tie-weights:tie=0.weight+2.weight", "rename-parameters"]).graph
    regraft.save(tied, tmp_path / "out", to="mindspore")
    convert_checkpoint(tmp_path / "out/model.ckpt", tmp_path / "back.pth", tmp_path / "out/renames.json")
    state = torch.load(tmp_path / "back.pth", weights_only=True)
    assert set(state) == set(model.state_dict())
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    convert_checkpoint(tmp_path / "back.pth", tmp_path / "again.ckpt", tmp_path / "out/renames.json")
    assert diff(tmp_path / "again.ckpt", tmp_path / "out/model.ckpt").equal


class Cells(ms.nn.Cell):
    """A MindSpore source; its own names are not the paths everywhere."""

    def __init__(self):
        super().__init__()
        self.body = ms.nn.SequentialCell(ms.nn.Conv2d(1, 4, 3), ms.nn.BatchNorm2d(4), ms.nn.ReLU())
        self.flat = ms.nn.Flatten()
        self.head = ms.nn.Dense(4 * 36, 3)
        self.gain = ms.Parameter(ms.Tensor(np.full((3,), 2, np.float32)), name="the_gain")

    def construct(self, x):
        return self.head(self.flat(self.body(x))) * self.gain


def test_a_mindspore_source(tmp_path):
    net, example = Cells().set_train(False), floats(2, 1, 6, 6)
    regraft.save(regraft.rewrite(regraft.load(net, (example,))).graph, tmp_path / "out", to="mindspore")
    moved(net)
    ms.save_checkpoint(net, str(tmp_path / "source.ckpt"))
    map_ = tmp_path / "out/renames.json"
    convert_checkpoint(tmp_path / "source.ckpt", tmp_path / "target.ckpt", map_)
    emitted = imported(tmp_path / "out/model.py").build(checkpoint=tmp_path / "target.ckpt")
    assert_close(emitted(ms.Tensor(example)).asnumpy(), net(ms.Tensor(example)).asnumpy())
    convert_checkpoint(tmp_path / "target.ckpt", tmp_path / "back.ckpt", map_)
    assert diff(tmp_path / "back.ckpt", tmp_path / "source.ckpt").equal


def test_mxnet_and_back(tmp_path):
    symbol = EXAMPLES / "shared_weight-symbol.json"
    graph = regraft.rewrite(regraft.load(str(symbol), ["data=1x1x3x3"])).graph
    regraft.save(graph, tmp_path / "out", to="mindspore")
    source, map_ = EXAMPLES / "shared_weight-0000.params", tmp_path / "out/renames.json"
    convert_checkpoint(source, tmp_path / "new.ckpt", map_)
    assert diff(tmp_path / "new.ckpt", tmp_path / "out/model.ckpt").equal
    convert_checkpoint(tmp_path / "new.ckpt", tmp_path / "back-0000.params", map_)
    assert (tmp_path / "back-0000.params").read_bytes() == source.read_bytes()
    report = diff(source, tmp_path / "new.ckpt", map_)
    assert report.equal
    assert report.rows


def test_from_onnx(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)).eval()
    graph = regraft.rewrite(regraft.load(model, (floats(2, 3, 8, 8),))).graph
    regraft.save(graph, tmp_path / "net.onnx", fold=False)
    torch.save(model.state_dict(), tmp_path / "net.pth")
    assert diff(tmp_path / "net.pth", tmp_path / "net.onnx", tmp_path / "net.renames.json").equal
    convert_checkpoint(tmp_path / "net.onnx", tmp_path / "back.pth", tmp_path / "net.renames.json")
    model.load_state_dict(torch.load(tmp_path / "back.pth", weights_only=True), strict=True)
    assert diff(tmp_path / "net.pth", tmp_path / "back.pth").equal


def test_names_that_collide_are_told_apart_by_path(tmp_path):
    net = imported(EXAMPLES / "duplicate_names.py").DuplicateNames()
    graph = regraft.rewrite(regraft.load(net, (floats(2, 3, 16, 16),))).graph
    regraft.save(graph, tmp_path / "out", to="mindspore")
    map_ = tmp_path / "out/renames.json"
    ms.save_checkpoint(net, str(tmp_path / "half.ckpt"))
    with pytest.raises(ModelError, match=r"`0.conv1.weight`: several tensors of the source have this name"):
        convert_checkpoint(tmp_path / "half.ckpt", tmp_path / "new.ckpt", map_)
    for path, parameter in net.parameters_and_names():  # as its owner mends it
        parameter.name = path
    ms.save_checkpoint(net, str(tmp_path / "whole.ckpt"))
    convert_checkpoint(tmp_path / "whole.ckpt", tmp_path / "new.ckpt", map_)
    assert diff(tmp_path / "new.ckpt", tmp_path / "out/model.ckpt").equal


class TestErrors:
    @pytest.fixture
    def map_(self, tmp_path):
        rows = [
            Rename("body.weight", "body.weight", "body.gamma", shape=[2, 3], target_shape=[2, 3]),
            Rename("body.bias", "body.bias", "body.beta", shape=[3], target_shape=[3]),
        ]
        write_renames(tmp_path / "renames.json", rows, source="torch", target="mindspore")
        return tmp_path / "renames.json"

    def refused(self, tmp_path, map_, tensors, *words, **options):
        write_checkpoint(
            tmp_path / "in.safetensors", {n: TensorData.of(a) for n, a in tensors.items()}, force=True
        )
        with pytest.raises(ModelError) as error:
            convert_checkpoint(tmp_path / "in.safetensors", tmp_path / "out.ckpt", map_, **options)
        assert error.value.code == "E801"
        for word in words:
            assert word in str(error.value), str(error.value)
        assert not (tmp_path / "out.ckpt").exists()

    def test_both_sides_with_near_matches(self, tmp_path, map_):
        tensors = {"body.weigth": floats(2, 3), "body.bias": floats(3), "step": floats(1)}
        self.refused(
            tmp_path,
            map_,
            tensors,
            "only in the checkpoint: `body.weigth` (near `body.weight`)",
            "only in the checkpoint: `step`\n",
            "only in the map: `body.weight` (near `body.weigth`)",
        )

    def test_other_shapes_and_types(self, tmp_path, map_):
        tensors = {"body.weight": floats(3, 2), "body.bias": floats(3).astype(np.float16)}
        self.refused(
            tmp_path,
            map_,
            tensors,
            "`body.weight`: expected float32 [2, 3], got float32 [3, 2]",
            "`body.bias`: expected float32 [3], got float16 [3]",
        )

    def test_the_other_direction(self, tmp_path, map_):
        tensors = {"body.gamma": floats(2, 3), "body.beta": floats(3)}
        self.refused(tmp_path, map_, tensors, "only in the checkpoint: `body.gamma`", reverse=False)

    def test_an_output_that_exists_is_kept(self, tmp_path, map_):
        tensors = {"body.weight": TensorData.of(floats(2, 3)), "body.bias": TensorData.of(floats(3))}
        write_checkpoint(tmp_path / "in.pth", tensors)
        (tmp_path / "out.ckpt").write_text("mine")
        with pytest.raises(UsageError, match="E002"):
            convert_checkpoint(tmp_path / "in.pth", tmp_path / "out.ckpt", map_)
        assert (tmp_path / "out.ckpt").read_text() == "mine"
        convert_checkpoint(tmp_path / "in.pth", tmp_path / "out.ckpt", map_, force=True)
        assert set(ms.load_checkpoint(str(tmp_path / "out.ckpt"))) == {"body.gamma", "body.beta"}

    @pytest.mark.parametrize(
        "change",
        [
            {"transform": "shuffle"},
            {"transform": "transpose:0,0"},
            {"transform": "reshape", "target_shape": [7]},
            {"target_shape": [7]},
            {"shape": [-2, 3]},
            {"shape": "big"},
            {"dtype": "float33"},
            {"surprise": 1},
        ],
        ids=str,
    )
    def test_a_damaged_map(self, tmp_path, map_, change):
        document = json.loads(map_.read_text())
        document["parameters"][0].update(change)
        map_.write_text(json.dumps(document))
        write_checkpoint(tmp_path / "in.pth", {"body.weight": TensorData.of(floats(2, 3))})
        with pytest.raises(ModelError, match=r"E101(.|\n)*row 1"):
            convert_checkpoint(tmp_path / "in.pth", tmp_path / "out.ckpt", map_)


def test_memory_is_a_few_tensors_not_the_file(tmp_path):
    """48 tensors of 1 MiB, each transposed on its way, into every format and back."""
    count, size = 48, 1 << 20
    rows = [
        Rename(
            f"a.{i}",
            f"a.{i}",
            f"b.{i}",
            transform="transpose:1,0",
            shape=[256, 1024],
            target_shape=[1024, 256],
        )
        for i in range(count)
    ]
    write_renames(tmp_path / "renames.json", rows, source="torch", target="mindspore")
    torch.save({f"a.{i}": torch.full((256, 1024), float(i)) for i in range(count)}, tmp_path / "a.pth")
    tracemalloc.start()
    try:
        for suffix in ("ckpt", "safetensors", "params"):
            convert_checkpoint(tmp_path / "a.pth", tmp_path / f"b.{suffix}", tmp_path / "renames.json")
            convert_checkpoint(
                tmp_path / f"b.{suffix}", tmp_path / f"{suffix}.pth", tmp_path / "renames.json"
            )
        assert diff(tmp_path / "a.pth", tmp_path / "params.pth").equal
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * size, peak
    assert (tmp_path / "params.pth").stat().st_size > count * size


def test_transposes_have_their_inverse(tmp_path):
    row = Rename("w", "w", "v", transform="transpose:2,0,1", shape=[2, 3, 4], target_shape=[4, 2, 3])
    write_renames(tmp_path / "renames.json", [row], source="torch", target="mindspore")
    torch.save({"w": torch.arange(24.0).reshape(2, 3, 4)}, tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", tmp_path / "renames.json")
    got = ms.load_checkpoint(str(tmp_path / "b.ckpt"))["v"].asnumpy()
    assert np.array_equal(got, np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1))
    convert_checkpoint(tmp_path / "b.ckpt", tmp_path / "c.pth", tmp_path / "renames.json")
    assert diff(tmp_path / "a.pth", tmp_path / "c.pth").equal
    assert diff(tmp_path / "c.pth", tmp_path / "b.ckpt", tmp_path / "renames.json").equal


def test_command_line(tmp_path):
    model = Tied()
    regraft.save(regraft.rewrite(regraft.load(model, (ids(2, 5),))).graph, tmp_path / "out", to="mindspore")
    torch.save(model.state_dict(), tmp_path / "a.pth")
    map_ = str(tmp_path / "out/renames.json")

    def invoke(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    result = invoke("convert-checkpoint", tmp_path / "a.pth", tmp_path / "b.ckpt", "--map", map_, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["direction"] == "forward"
    again = invoke("convert-checkpoint", tmp_path / "a.pth", tmp_path / "b.ckpt", "--map", map_)
    assert again.exit_code == 2
    assert "E002" in again.output
    assert invoke("diff", tmp_path / "a.pth", tmp_path / "b.ckpt", "--map", map_).exit_code == 0
    assert invoke("diff", tmp_path / "a.pth", tmp_path / "b.ckpt").exit_code == 0  # two names of one tensor
    torch.save({**model.state_dict(), "norm.bias": torch.ones(6)}, tmp_path / "c.pth")
    assert invoke("diff", tmp_path / "c.pth", tmp_path / "b.ckpt").exit_code == 1
    assert invoke("diff", tmp_path / "a.pth", tmp_path / "none.ckpt").exit_code == 2
    assert set(read_checkpoint(tmp_path / "b.ckpt")) == set(read_checkpoint(tmp_path / "out/model.ckpt"))


def counted(path, **more):
    """A checkpoint of torch's normalisation `norm`, which has seen 7 batches."""
    state = {f"norm.{n}": torch.rand(4) for n in ("weight", "bias", "running_mean", "running_var")}
    torch.save({**state, "norm.num_batches_tracked": torch.tensor(7), **more}, path)
    return state


def norm_rows(target, *names):
    return [
        Rename(f"norm.{role}", f"norm.{role}", f"{target}.{name}", shape=[4], target_shape=[4])
        for role, name in zip(("weight", "bias", "running_mean", "running_var"), names, strict=True)
    ]


def test_a_counter_of_batches_that_no_row_pairs_goes_where_there_is_a_place(tmp_path):
    """Files that were exported for evaluation have none; the checkpoints of their originals do."""
    counted(tmp_path / "net.pth")
    row = Rename(
        "", "", "bn.num_batches_tracked", "backend", dtype="int64", buffer=True, values="eNpjYIAAAAAIAAE="
    )
    rows = norm_rows("bn", "weight", "bias", "running_mean", "running_var")
    for kept in (True, False):
        write_renames(tmp_path / "map.json", [*rows, *[row] * kept], source="onnx", target="torch")
        out = tmp_path / f"{kept}.pth"
        notes = convert_checkpoint(tmp_path / "net.pth", out, tmp_path / "map.json").notes
        found = torch.load(out, weights_only=True)
        assert (
            [int(found["bn.num_batches_tracked"])] == [7] if kept else "bn.num_batches_tracked" not in found
        )
        assert bool(notes) is not kept
        assert diff(tmp_path / "net.pth", out, tmp_path / "map.json").equal
        again = tmp_path / f"{kept}.back.pth"
        back = convert_checkpoint(out, again, tmp_path / "map.json", reverse=True)
        assert len(torch.load(again, weights_only=True)) == 4
        assert bool(back.notes) is kept
    rows = norm_rows("bn", "gamma", "beta", "moving_mean", "moving_variance")
    write_renames(tmp_path / "map.json", rows, source="onnx", target="mindspore")
    assert (
        len(convert_checkpoint(tmp_path / "net.pth", tmp_path / "m.ckpt", tmp_path / "map.json").notes) == 1
    )


def test_a_counter_of_another_layer_is_still_no_name_of_the_map(tmp_path):
    counted(tmp_path / "net.pth", **{"other.num_batches_tracked": torch.tensor(3)})
    rows = norm_rows("bn", "weight", "bias", "running_mean", "running_var")
    write_renames(tmp_path / "map.json", rows, source="onnx", target="torch")
    with pytest.raises(ModelError, match=r"other\.num_batches_tracked"):
        convert_checkpoint(tmp_path / "net.pth", tmp_path / "out.pth", tmp_path / "map.json")
