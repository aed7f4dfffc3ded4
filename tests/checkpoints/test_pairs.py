"""Weights into a net that somebody wrote: by the pairs that `verify` found, or by the net itself."""

import json
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regraft
from regraft import load_tree
from regraft.checkpoints import read_checkpoint
from regraft.cli import main
from regraft.ir import ModelError, UsageError

NETS = '''
import mindspore as ms
import torch
from mindspore import nn, ops

class Source(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(4)
        self.deep = torch.nn.Conv2d(4, 6, 1)
        self.fc = torch.nn.Linear(6, 5)

    def forward(self, x):
        return self.fc(torch.relu(self.deep(self.bn(self.conv(x)))).mean((2, 3)))

class Same(nn.Cell):
    """Names of the source's, in MindSpore's spelling."""
    def __init__(self, wide=False):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn = nn.BatchNorm2d(4)
        self.deep = nn.Conv2d(4, 6, 1, has_bias=True)
        self.fc = nn.Dense(6, 7 if wide else 5)

    def construct(self, x):
        return self.fc(ops.relu(self.deep(self.bn(self.conv(x)))).mean((2, 3)))

class Other(nn.Cell):
    def __init__(self):
        super().__init__()
        self.head = nn.Dense(6, 5)
        self.stem = nn.SequentialCell(
            nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=True), nn.BatchNorm2d(4)
        )
        self.body = nn.Conv2d(4, 6, 1, has_bias=True)

    def construct(self, x):
        return self.head(ops.relu(self.body(self.stem(x))).mean((2, 3)))

def wide():
    return Same(True)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nets, a trained checkpoint of the source, and the map that `verify` writes."""
    folder = tmp_path_factory.mktemp("pairs")
    file = folder / "nets.py"
    file.write_text(NETS)
    torch.manual_seed(3)
    trained = load_tree(f"{file}:Source").origin.model
    with torch.no_grad():
        for each in (*trained.parameters(), *trained.buffers()):
            each.copy_(torch.rand(each.shape) + 0.5)
    state = trained.state_dict()
    torch.save(state, folder / "plain.pth")
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state.items()}}, folder / "wrapped.pth"
    )
    torch.save({f"_orig_mod.module.{k}": v for k, v in state.items()}, folder / "twice.pth")
    call = ["verify", f"{file}:Source", f"{file}:Other", "--input", "2x3x8x8"]
    result = CliRunner().invoke(main, [*call, "--write-map", str(folder / "map.json")])
    assert result.exit_code == 0, result.output
    assert result.stdout.rstrip().endswith(f"wrote {folder / 'map.json'}")
    return folder


def assert_loads(folder: Path, checkpoint: Path, name: str) -> None:
    """The net loads it strictly, and computes what the source does with the trained weights."""
    source = load_tree(f"{folder / 'nets.py'}:Source").origin.model.eval()
    source.load_state_dict(torch.load(folder / "plain.pth"))
    net = load_tree(f"{folder / 'nets.py'}:{name}").origin.model.set_train(False)
    assert ms.load_param_into_net(net, ms.load_checkpoint(str(checkpoint)), strict_load=True) == ([], [])
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    wanted = source(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(net(ms.Tensor(x)).asnumpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("file", ["plain.pth", "wrapped.pth", "twice.pth"])
def test_the_map_that_verify_writes_converts_and_compares(folder: Path, tmp_path: Path, file: str) -> None:
    target = tmp_path / "mine.ckpt"
    done = regraft.convert_checkpoint(folder / file, target, folder / "map.json")
    assert_loads(folder, target, "Other")
    assert any("was left out" in note for note in done.notes) is (file != "plain.pth")
    assert regraft.diff(folder / file, target, folder / "map.json").equal
    assert regraft.diff(target, folder / file, folder / "map.json").equal


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".params"])
def test_the_map_leads_back(folder: Path, tmp_path: Path, suffix: str) -> None:
    there, back = tmp_path / "mine.ckpt", tmp_path / f"back{suffix}"
    regraft.convert_checkpoint(folder / "plain.pth", there, folder / "map.json")
    done = regraft.convert_checkpoint(there, back, folder / "map.json")
    assert done.reverse
    found = {name.partition(":")[2] or name: data for name, data in read_checkpoint(back).items()}
    for name, data in read_checkpoint(folder / "plain.pth").items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_array_equal(found[name].numpy(), data.numpy())


def test_a_changed_tensor_is_seen_by_the_map(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "mine.ckpt"
    regraft.convert_checkpoint(folder / "plain.pth", there, folder / "map.json")
    values = ms.load_checkpoint(str(there))
    values["head.weight"].set_data(values["head.weight"] * 2)
    ms.save_checkpoint([{"name": n, "data": v} for n, v in values.items()], str(there))
    found = regraft.diff(folder / "plain.pth", there, folder / "map.json")
    assert [(r.name, r.other) for r in found.rows if not r.equal] == [("fc.weight", "head.weight")]


@pytest.mark.parametrize("file", ["plain.pth", "wrapped.pth", "twice.pth"])
@pytest.mark.parametrize("name", ["Same", "Other"])
def test_a_checkpoint_becomes_one_of_a_net(folder: Path, tmp_path: Path, file: str, name: str) -> None:
    """By the names in the frameworks' own spelling; by shapes where they are others."""
    target = tmp_path / "mine.ckpt"
    call = ["convert-checkpoint", str(folder / file), str(target), "--like", f"{folder / 'nets.py'}:{name}"]
    result = CliRunner().invoke(main, call)
    assert result.exit_code == 0, result.output
    assert_loads(folder, target, name)


def test_a_checkpoint_that_does_not_fit_a_net_is_refused(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.ckpt"
    with pytest.raises(ModelError, match=r"`fc.weight`: expected \[7, 6\], got \[5, 6\]"):
        regraft.convert_checkpoint(folder / "plain.pth", target, like=f"{folder / 'nets.py'}:wide")
    assert not target.exists()
    (tmp_path / "map.json").write_text('{"fc": null}')  # what the hint says
    wide = f"{folder / 'nets.py'}:wide"
    with pytest.raises(ModelError) as refused:
        regraft.convert_checkpoint(folder / "plain.pth", target, like=wide)
    assert '{"fc": null}' in refused.value.hint
    regraft.convert_checkpoint(folder / "plain.pth", target, tmp_path / "map.json", like=wide)
    assert not [name for name in read_checkpoint(target) if name.startswith("fc.")]
    target.unlink()
    state = torch.load(folder / "plain.pth")
    del state["fc.bias"]
    torch.save(state, tmp_path / "less.pth")
    with pytest.raises(ModelError, match=r"only in the net: `fc.bias`"):
        regraft.convert_checkpoint(tmp_path / "less.pth", target, like=f"{folder / 'nets.py'}:Same")


def test_null_leaves_out_a_single_parameter_of_a_layer(folder: Path, tmp_path: Path) -> None:
    """The layer's others are carried over: by name, by a pair of layers, and where no net is given."""
    nets, file, target = folder / "nets.py", tmp_path / "map.json", tmp_path / "mine.ckpt"
    layers = {"conv": "stem.0", "bn": "stem.1", "deep": "body", "fc": "head"}
    for like, pairs, head in (
        (f"{nets}:Same", {}, "fc"),
        (f"{nets}:Other", layers, "head"),
        (None, {}, "fc"),
    ):
        for role, other in (("bias", "weight"), ("weight", "bias")):
            file.write_text(json.dumps({**pairs, f"fc.{role}": None}))
            regraft.convert_checkpoint(folder / "plain.pth", target, file, like=like, force=True)
            held = read_checkpoint(target)
            assert {name for name in held if name.startswith(head)} == {f"{head}.{other}"}
            assert len(held) == 9
    file.write_text(json.dumps({"fc": "haed", "fc.bias": None}))
    with pytest.raises(ModelError, match="`haed` is neither a module with parameters nor a parameter"):
        regraft.convert_checkpoint(folder / "plain.pth", target, file, like=f"{nets}:Same", force=True)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("in_mindspore", [False, True])
def test_a_parameter_of_the_root_itself_has_no_other_layers_counterpart(
    tmp_path: Path, beside: bool, in_mindspore: bool
) -> None:
    """The path of a root is empty, and no sign that a layer has no counterpart."""
    library = "mindspore" if in_mindspore else "torch"
    zeros = 'ms.Parameter(ms.Tensor([0.0] * 4), name="w")' if in_mindspore else "nn.Parameter(torch.zeros(4))"
    base, method, dense = ("Cell", "construct", "Dense") if in_mindspore else ("Module", "forward", "Linear")
    lines = [
        f"import {library}{' as ms' if in_mindspore else ''}",
        f"from {library} import nn",
        f"class Net(nn.{base}):",
        "    def __init__(self):",
        "        super().__init__()",
        f"        self.w = {zeros}",
        *([f"        self.fc = nn.{dense}(4, 3)"] if beside else []),
        f"    def {method}(self, x):",
        f"        return {'self.fc(x * self.w)' if beside else 'x * self.w'}",
    ]
    file = tmp_path / "net.py"
    file.write_text("\n".join(lines) + "\n")
    rest = {"fc.weight": torch.rand(3, 4), "fc.bias": torch.rand(3)} if beside else {}
    there = tmp_path / "there.ckpt"
    torch.save({"other.scale": torch.rand(5), **rest}, tmp_path / "a.pth")
    with pytest.raises(ModelError, match=r"only in the net: `w`"):
        regraft.convert_checkpoint(tmp_path / "a.pth", there, like=f"{file}:Net")
    assert not there.exists()
    w = torch.rand(4)
    torch.save({"w": w, **rest}, tmp_path / "b.pth")
    regraft.convert_checkpoint(tmp_path / "b.pth", there, like=f"{file}:Net")
    found = read_checkpoint(there)
    np.testing.assert_array_equal(found["w"].numpy(), w.numpy())
    assert len(found) == 1 + len(rest)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_another_float_type_is_cast_to_the_nets(folder: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    state = torch.load(folder / "plain.pth")
    torch.save({n: v.to(dtype) if v.is_floating_point() else v for n, v in state.items()}, tmp_path / "a.pth")
    there = tmp_path / "b.ckpt"
    done = regraft.convert_checkpoint(tmp_path / "a.pth", there, like=f"{folder / 'nets.py'}:Same")
    assert any(f"cast from {str(dtype)[6:]} to float32" in note for note in done.notes)
    net = load_tree(f"{folder / 'nets.py'}:Same").origin.model
    assert ms.load_param_into_net(net, ms.load_checkpoint(str(there)), strict_load=True) == ([], [])
    np.testing.assert_array_equal(net.fc.weight.asnumpy(), state["fc.weight"].to(dtype).float().numpy())


def test_numbers_that_the_nets_type_does_not_have_are_refused(folder: Path, tmp_path: Path) -> None:
    state = torch.load(folder / "plain.pth")
    state["fc.weight"] = torch.full((5, 6), 1e300, dtype=torch.float64)
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(ModelError, match=r"`fc.weight` has numbers that overflow to infinity in float32"):
        regraft.convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", like=f"{folder / 'nets.py'}:Same")
    assert not (tmp_path / "b.ckpt").exists()


def test_a_refusal_names_what_does_not_fit_and_nothing_beside_it(folder: Path, tmp_path: Path) -> None:
    state = torch.load(folder / "plain.pth")
    torch.save({n: v for n, v in state.items() if "running" not in n}, tmp_path / "a.pth")
    with pytest.raises(ModelError) as error:
        regraft.convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", like=f"{folder / 'nets.py'}:Same")
    lines = error.value.message.splitlines()[1:]
    assert lines == ["  only in the net: `bn.moving_mean`", "  only in the net: `bn.moving_variance`"]
    more = {"fc.running_mean": torch.rand(5), "fc.running_var": torch.rand(5)}
    torch.save({**state, **more}, tmp_path / "a.pth")
    with pytest.raises(ModelError, match=r"`fc.weight`: its layer has other parameters besides"):
        regraft.convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", like=f"{folder / 'nets.py'}:Same")


def test_a_refusal_names_what_of_the_file_has_no_place_and_the_pair_to_state(
    folder: Path, tmp_path: Path
) -> None:
    state = torch.load(folder / "plain.pth")
    moved = {n.replace("fc.", "out."): v for n, v in state.items()}
    torch.save({**moved, "out.weight": torch.rand(7, 6), "pos": torch.rand(9, 2)}, tmp_path / "a.pth")
    with pytest.raises(ModelError) as error:
        regraft.convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", like=f"{folder / 'nets.py'}:Same")
    lines = error.value.message.splitlines()[1:]
    assert "  only in the checkpoint: `out.weight` [7, 6]" in lines
    assert "  only in the checkpoint: `pos` [9, 2]" in lines
    assert error.value.hint.endswith('with --map FILE: {"out": "fc"}')
    torch.save(
        {**{n: v for n, v in state.items() if n != "fc.bias"}, "pos": torch.rand(9)}, tmp_path / "a.pth"
    )
    with pytest.raises(ModelError, match=r"only in the checkpoint: `pos` \[9\]") as error:
        regraft.convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt", like=f"{folder / 'nets.py'}:Same")
    assert not error.value.hint  # nothing of the file is called as what the net lacks


def test_a_file_that_is_no_map_is_not_replaced(folder: Path) -> None:
    file = folder / "nets.py"
    with pytest.raises(UsageError):
        regraft.verify(f"{file}:Source", f"{file}:Other", ["2x3x8x8"], write_map=file)
    assert file.read_text() == NETS
    before = json.loads((folder / "map.json").read_text())
    regraft.verify(f"{file}:Source", f"{file}:Other", ["2x3x8x8"], write_map=folder / "map.json")
    assert json.loads((folder / "map.json").read_text()) == before
