"""The files of a PyTorch output: weights in each format, shards, ties, counters, laws, tests, stubs."""

import importlib.util
import json
import math
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional as F

import regraft
from regraft.cli import main
from regraft.ir import UsageError

X = (torch.rand(2, 3, 12, 12),)
IDS = (torch.arange(10).reshape(2, 5),)
NUMBER = count()


class Net(nn.Module):
    """Convolutions whose bounds depend on the fan-in, a normalisation that counts its batches."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, (3, 5))
        self.second = nn.Conv2d(8, 8, 3, groups=4)
        self.third = nn.ConvTranspose2d(8, 6, 2)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 5)
        for layer in (self.first, self.second, self.third, self.head):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound)

    def forward(self, x):
        x = F.relu(self.second(F.relu(self.first(x))))
        return self.head(self.norm(self.third(x)).mean((2, 3)))


class Tied(nn.Module):
    """A head that shares the weight of an embedding, in the order in which the head is no first holder."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.hidden = nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(torch.relu(self.hidden(self.embed(ids))))


class Airy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return torch.special.airy_ai(self.fc(x))


NET, TIED = f"{__file__}:Net", f"{__file__}:Tied"


def built(folder: Path, *given, **options):
    name = f"folder_of_torch_{next(NUMBER)}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.build(*given, **options)


def same_state(a, b):
    a, b = ({k: v.detach() for k, v in each.items()} for each in (a, b))
    return a.keys() == b.keys() and all(torch.equal(v, b[k]) for k, v in a.items())


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ({}, "model.safetensors"),
        ({"checkpoint_format": "safetensors"}, "model.safetensors"),
        ({"checkpoint_format": "pth"}, "model.pth"),
        ({"max_shard_size": "400B"}, "model.safetensors.index.json"),
    ],
    ids=["default", "safetensors", "pth", "shards"],
)
@pytest.mark.parametrize(("reference", "inputs"), [(NET, X), (TIED, IDS)], ids=["net", "tied"])
def test_weights_in_each_format(reference, inputs, options, file, tmp_path):
    graph = regraft.load(reference, inputs)
    model = graph.origin.model
    if reference == NET:
        model.norm.num_batches_tracked.fill_(7)
        graph = regraft.load(model, inputs)
    files = regraft.save(regraft.rewrite(graph), tmp_path / "out", "torch", **options)
    names = [path.name for path in files]
    assert file in names
    assert "param_name_map.json" not in names
    net = built(tmp_path / "out")
    assert same_state(net.state_dict(), model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(net(*inputs), model.eval()(*inputs))


def test_a_pth_is_read_by_torch_and_holds_each_name_of_a_tie(tmp_path):
    graph = regraft.load(TIED, IDS)
    regraft.save(regraft.rewrite(graph), tmp_path, "torch", force=True, checkpoint_format="pth")
    state = torch.load(tmp_path / "model.pth", weights_only=True)
    assert same_state(state, graph.origin.model.state_dict())
    assert state["head.weight"].data_ptr() == state["embed.weight"].data_ptr()


def test_formats_of_other_targets_are_refused(tmp_path):
    graph = regraft.rewrite(regraft.load(nn.Linear(3, 4), (torch.rand(2, 3),)))
    for to, format_ in (("torch", "ckpt"), ("mindspore", "pth")):
        with pytest.raises(UsageError, match=f"among .* for `{to}`, got `{format_}`"):
            regraft.save(graph, tmp_path / "out", to, checkpoint_format=format_)
    with pytest.raises(UsageError, match="format of shards, got `pth`"):
        regraft.save(graph, tmp_path / "out", "torch", checkpoint_format="pth", max_shard_size=10)


@pytest.mark.parametrize("explicit", [False, True])
def test_bounds_of_the_fan_in_are_drawn(explicit, tmp_path):
    torch.manual_seed(0)
    rewritten = regraft.rewrite(regraft.load(NET, X))
    regraft.save(rewritten, tmp_path / "out", "torch", explicit_initializers=explicit)
    text = (tmp_path / "out" / "model.py").read_text()
    assert "layer.in_features" in text
    assert "layer.weight[0].numel()" in text
    assert ("layer.bias" in text) == explicit
    new = built(tmp_path / "out", None)
    for layer in (new.first, new.second, new.third, new.head):
        bound = 1 / math.sqrt(layer.weight[0].numel())
        drawn = layer.weight.detach().abs().max().item()
        assert 0.8 * bound < drawn <= bound
    assert new.norm.num_batches_tracked == 0


def test_a_tied_parameter_is_drawn_by_its_first_holder(tmp_path):
    regraft.save(regraft.rewrite(regraft.load(TIED, IDS)), tmp_path / "out", "torch")
    text = (tmp_path / "out" / "model.py").read_text()
    assert "self.head = nn.Linear(8, 11, bias=False)" in text
    assert "nn.init" not in text
    new = built(tmp_path / "out", None)
    assert new.head.weight is new.embed.weight
    assert 0.8 < float(new.head.weight.detach().std()) < 1.2


def test_a_checkpoint_goes_there_and_back(tmp_path):
    model = Tied()
    torch.save(model.state_dict(), tmp_path / "later.pth")
    regraft.save(regraft.rewrite(regraft.load(TIED, IDS)), tmp_path / "out", "torch")
    map_ = str(tmp_path / "out" / "renames.json")
    for suffix in ("pth", "safetensors"):
        there, back = tmp_path / f"there.{suffix}", tmp_path / f"back_{suffix}.pth"
        for command in (
            ["convert-checkpoint", tmp_path / "later.pth", there, "--map", map_],
            ["convert-checkpoint", there, back, "--map", map_, "--reverse"],
            ["diff", tmp_path / "later.pth", there, "--map", map_],
            ["diff", tmp_path / "later.pth", back],
        ):
            assert CliRunner().invoke(main, [*map(str, command)]).exit_code == 0
        assert same_state(built(tmp_path / "out", there).state_dict(), model.state_dict())


def test_a_counter_of_batches_is_the_sources(tmp_path):
    model = Net()
    model.norm.num_batches_tracked.fill_(7)
    regraft.save(regraft.rewrite(regraft.load(model, X)), tmp_path, "torch", force=True)
    rows = json.loads((tmp_path / "renames.json").read_text())["parameters"]
    (row,) = [r for r in rows if r["target"] == "norm.num_batches_tracked"]
    assert row["source"] == row["target"]
    assert row["transform"] == "identity"


def test_nothing_is_drawn_where_no_distribution_is_known(tmp_path):
    encoder = Path(__file__).parents[2] / "examples" / "encoder.onnx"
    files, report = regraft.rewrite_file(
        graph := regraft.load(encoder), regraft.rewrite(graph), tmp_path / "out", "torch", emit_tests=True
    )
    assert report.passed
    assert "test_model.py" in [f.name for f in files]
    text = (tmp_path / "out" / "model.py").read_text()
    assert "UNDRAWN" not in text
    assert "draws new ones" not in text
    assert "states no initial distribution" in text
    assert "distribution unknown" not in text
    assert same_state(built(tmp_path / "out", None).state_dict(), built(tmp_path / "out").state_dict())


def test_a_class_with_inputs_by_name_has_a_test_that_passes(tmp_path, monkeypatch):
    graph = regraft.load(TIED, IDS)
    regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "out", "torch", emit_tests=True)
    monkeypatch.syspath_prepend(tmp_path / "out")
    for name in ("model", "test_model"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        import test_model  # type: ignore[import-not-found]

        tests = [each for name, each in vars(test_model).items() if name.startswith("test_")]
        assert [test.__name__ for test in tests] == ["test_tied"]
        with torch.no_grad():
            net = test_model.build()
            tests[0](net)
            net.hidden.bias.add_(1)
            with pytest.raises(AssertionError):
                tests[0](net)
    finally:
        for name in ("model", "test_model"):
            sys.modules.pop(name, None)


def test_pieces_are_refused_before_the_model_is_loaded(tmp_path):
    given = ["rewrite", "no_such_file.py:Net", "--to", "mxnet", "-o", str(tmp_path / "out"), "--stream"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2
    assert "runs in pieces (mindspore, onnx, torch), got `mxnet`" in done.output


def test_a_model_without_values_is_written_from_its_file(tmp_path):
    torch.manual_seed(1)
    torch.save(Tied().state_dict(), tmp_path / "values.pth")
    given = ["rewrite", TIED, "--to", "torch", "-o", str(tmp_path / "out"), "--input", "2x5:int64"]
    done = CliRunner().invoke(main, [*given, "--meta", "--params", str(tmp_path / "values.pth")])
    assert done.exit_code == 0, done.output
    assert same_state(built(tmp_path / "out").state_dict(), torch.load(tmp_path / "values.pth"))
    given = ["verify", TIED, str(tmp_path / "out"), "--input", "2x5:int64", "--stream"]
    done = CliRunner().invoke(main, [*given, "--meta", "--params", str(tmp_path / "values.pth")])
    assert done.output.startswith("equal: 3 outputs and ")


def test_the_passes_of_the_target_are_listed():
    listed = CliRunner().invoke(main, ["passes", "--to", "torch"]).output
    assert "group-modules" in listed
    assert "lower-control-flow" in listed


def test_a_stub_raises_and_the_rest_is_written(tmp_path):
    graph = regraft.load(Airy(), (torch.rand(2, 3),), partial=True)
    regraft.save(regraft.rewrite(graph), tmp_path, "torch", force=True, partial=True)
    net = built(tmp_path)
    with pytest.raises(NotImplementedError, match="special_airy_ai"):
        net(torch.rand(2, 3))
    assert np.array_equal(net.fc.weight.detach(), graph.origin.model.fc.weight.detach())
