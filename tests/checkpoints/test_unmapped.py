"""Checkpoints that differ in the frameworks' own spelling need no map; what is ambiguous is refused."""

import json
import time
from contextlib import nullcontext
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from mindspore import nn

from regraft import convert_checkpoint, diff
from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.checkpoints.pairs import Renaming
from regraft.checkpoints.prefixes import aligned
from regraft.checkpoints.unmapped import spelled_map
from regraft.cli import main
from regraft.ir import ModelError, TensorData, UsageError


class TorchNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.bn = torch.nn.BatchNorm2d(4)
        self.norm = torch.nn.LayerNorm(5)
        self.fc = torch.nn.Linear(4, 4)


class MindSporeNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, has_bias=True)
        self.bn = nn.BatchNorm2d(4)
        self.norm = nn.LayerNorm((5,))
        self.fc = nn.Dense(4, 4)


def drawn(net: torch.nn.Module) -> torch.nn.Module:
    """Give all floating-point state of a net values of its own."""
    generator = torch.Generator().manual_seed(0)
    for value in net.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
    return net


def invoke(*arguments: object):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_torch_into_mindspore_and_back_without_a_map(tmp_path):
    source, there, back = tmp_path / "a.pth", tmp_path / "b.ckpt", tmp_path / "c.pth"
    net = drawn(TorchNet())
    torch.save(net.state_dict(), source)
    result = invoke("convert-checkpoint", source, there)
    assert result.exit_code == 0, result.output
    assert "no map: 6 of 11 names respelled from torch's terms to mindspore's" in result.output
    assert "not in the target, so not carried over: 1 tensor (`bn.num_batches_tracked`)" in result.output
    cell = MindSporeNet()
    lacking, unused = ms.load_param_into_net(cell, ms.load_checkpoint(str(there)), strict_load=True)
    assert (lacking, unused) == ([], [])
    np.testing.assert_array_equal(cell.bn.moving_variance.asnumpy(), net.bn.running_var.numpy())
    np.testing.assert_array_equal(cell.norm.gamma.asnumpy(), net.norm.weight.detach().numpy())
    convert_checkpoint(there, back)
    other = TorchNet()
    other.load_state_dict(torch.load(back))  # strict: torch itself fills in num_batches_tracked
    for name, value in net.state_dict().items():
        if "num_batches" not in name:
            assert torch.equal(value, other.state_dict()[name]), name


def test_diff_pairs_names_across_spellings_and_finds_a_change(tmp_path):
    source, there = tmp_path / "a.pth", tmp_path / "b.ckpt"
    torch.save({"state_dict": {f"module.{n}": v for n, v in drawn(TorchNet()).state_dict().items()}}, source)
    convert_checkpoint(source, there)
    report = diff(source, there)
    assert report.equal
    assert any("`module.` before the names" in note for note in report.notes)  # what is peeled is said
    assert any("`state_dict`" in note for note in report.notes)
    assert (len(report.rows), report.only_first, report.only_second) == (10, [], [])
    tensors = read_checkpoint(there)
    changed = tensors["bn.gamma"].numpy().copy()
    changed[1] += 1
    write_checkpoint(tmp_path / "d.ckpt", {**tensors, "bn.gamma": TensorData.of(changed)})
    assert [r.name for r in diff(source, tmp_path / "d.ckpt").rows if not r.equal] == ["bn.weight"]


def test_a_wrapper_before_every_name_is_left_out_of_what_is_written(tmp_path):
    torch.save({f"_orig_mod.{n}": v for n, v in TorchNet().state_dict().items()}, tmp_path / "a.pth")
    done = convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt")
    assert "conv.weight" in read_checkpoint(tmp_path / "b.ckpt")
    assert any("`_orig_mod.`" in note for note in done.notes)


def test_wrappers_of_either_side_are_left_out(tmp_path):
    """Of DataParallel on one side and torch.compile on the other, and a state under a name of its own."""
    values = drawn(TorchNet()).state_dict()
    torch.save({"ema": {f"module.{n}": v for n, v in values.items()}, "epoch": 3}, tmp_path / "a.pth")
    torch.save({f"_orig_mod.{n}": v for n, v in values.items()}, tmp_path / "b.pth")
    report = diff(tmp_path / "a.pth", tmp_path / "b.pth")
    assert (report.equal, len(report.rows)) == (True, len(values))
    assert any("was left out" in note for note in report.notes)
    assert any("`ema`" in note for note in report.notes)
    torch.save({"ema": values, "best": values}, tmp_path / "c.pth")
    with pytest.raises(ModelError, match="expected tensors by name"):
        read_checkpoint(tmp_path / "c.pth")


def test_a_symbols_parameters_are_paths_of_one_level(tmp_path):
    """MXNet's `.params` with `arg:` and `aux:`, to torch and back, bit by bit."""
    values = np.random.default_rng(0).random(4).astype(np.float32)
    names = ["arg:fc0_weight", "arg:bn0_gamma", "arg:bn0_beta", "aux:bn0_moving_mean", "aux:bn0_moving_var"]
    made = {n: TensorData.of(values.reshape(2, 2) if "fc0" in n else values + i) for i, n in enumerate(names)}
    write_checkpoint(tmp_path / "a.params", made)
    convert_checkpoint(tmp_path / "a.params", tmp_path / "b.pth")
    state = torch.load(tmp_path / "b.pth")
    assert list(state) == ["fc0.weight", "bn0.weight", "bn0.bias", "bn0.running_mean", "bn0.running_var"]
    assert diff(tmp_path / "a.params", tmp_path / "b.pth").equal
    convert_checkpoint(tmp_path / "b.pth", tmp_path / "c.params")
    assert (tmp_path / "c.params").read_bytes() == (tmp_path / "a.params").read_bytes()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (torch.nn.Embedding(3, 4), "embedding's table"),
        (torch.nn.Linear(3, 4, bias=False), "Dense layer's without bias"),
        (torch.nn.PReLU(3), "PReLU"),
        (torch.nn.Conv1d(2, 3, 3), "1-d convolution"),
        (torch.nn.Sequential(torch.nn.Conv3d(1, 2, 3), torch.nn.BatchNorm3d(2)), "bn2d"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_names_do_not_tell_is_refused_with_what_to_give(tmp_path, module, words):
    torch.save(torch.nn.Sequential(module).state_dict(), tmp_path / "a.pth")
    with pytest.raises(ModelError, match="E801") as error:
        convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.ckpt")
    assert words in str(error.value)
    assert "--like" in error.value.hint
    assert not (tmp_path / "b.ckpt").exists()


@pytest.mark.parametrize(("source", "target"), [("a.ckpt", "b.pth"), ("a.pth", "b.ckpt")])
def test_many_names_are_respelled_in_linear_time(source, target):
    kernel, channels = (TensorData("float32", shape, None) for shape in ((2, 2, 1, 3), (2,)))
    given = {f"c{i}.weight": kernel for i in range(10_000)}
    roles = ("moving_mean", "moving_variance") if source == "a.ckpt" else ("running_mean", "running_var")
    given |= {f"b{i}.{role}": channels for i in range(10_000) for role in roles}
    start = time.monotonic()
    with pytest.raises(ModelError, match="and 9990 more") if source == "a.ckpt" else nullcontext():
        spelled_map(given, Path(source), Path(target), None, [])
    assert time.monotonic() - start < 15  # 0.4 seconds alone; 26 where each name looks at all others


def test_a_name_as_long_as_a_file_is_aligned_and_renamed_at_once():
    long = "module." * 100_000 + "weight"
    data = TensorData("float32", (2,), None)
    start = time.monotonic()
    assert list(aligned({long: data}, {"weight": (2,)}, [])) == [long]
    assert Renaming({"fc": "head"})(long) == long
    assert time.monotonic() - start < 15  # hours where each part is cut off a copy


def test_plain_pairs_are_a_map_for_both_in_either_direction(tmp_path):
    source, there, back = tmp_path / "a.pth", tmp_path / "b.ckpt", tmp_path / "c.pth"
    torch.save(drawn(TorchNet()).state_dict(), source)
    pairs = tmp_path / "pairs.json"
    pairs.write_text(
        json.dumps({"conv": "stem.conv", "bn": "stem.norm", "fc.weight": "head.w8", "fc": "head"})
    )
    convert_checkpoint(source, there, pairs)
    names = set(read_checkpoint(there))
    assert {"stem.conv.weight", "stem.norm.moving_mean", "head.w8", "head.bias", "norm.gamma"} <= names
    assert diff(source, there, pairs).equal
    assert diff(there, source, pairs).equal
    convert_checkpoint(there, back, pairs)
    assert diff(source, back).equal
    pairs.write_text(json.dumps({"fc": None}))
    convert_checkpoint(source, there, pairs, force=True)
    assert not any(n.startswith("fc") for n in read_checkpoint(there))
    pairs.write_text(json.dumps({"nothing": "else"}))
    with pytest.raises(ModelError, match="E801"):
        convert_checkpoint(source, there, pairs, force=True)
    with pytest.raises(UsageError, match="--reverse"):
        convert_checkpoint(source, there, reverse=True, force=True)


def test_a_dense_layer_of_keras_or_flax_is_transposed(tmp_path):
    """Their `kernel` has the inputs first."""
    weight = np.random.default_rng(0).random((3, 3)).astype(np.float32)
    wide = np.random.default_rng(1).random((3, 2)).astype(np.float32)
    write_checkpoint(
        tmp_path / "a.safetensors", {"a.kernel": TensorData.of(weight), "b.kernel": TensorData.of(wide)}
    )
    turned = {"a.weight": TensorData.of(weight.T.copy()), "b.weight": TensorData.of(wide.T.copy())}
    write_checkpoint(tmp_path / "b.pth", turned)
    report = diff(tmp_path / "a.safetensors", tmp_path / "b.pth")
    assert report.equal
    assert any("transposed" in note for note in report.notes)
    write_checkpoint(tmp_path / "c.pth", {"b.weight": TensorData.of(wide)})
    assert not diff(tmp_path / "b.pth", tmp_path / "c.pth").equal  # of one framework a shape is a shape


def test_like_transposes_what_the_net_holds_transposed_and_refuses_squares(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self, inner=4):\n"
        "        super().__init__()\n        self.a, self.b = nn.Linear(3, inner), nn.Linear(inner, 2)\n"
        "\ndef square():\n    return Net(3)\n"
    )
    random = np.random.default_rng(0)
    for inner, name in ((4, "Net"), (3, "square")):
        shapes = {"a.weight": (3, inner), "a.bias": (inner,), "b.weight": (inner, 2), "b.bias": (2,)}
        given = {n: random.random(s).astype(np.float32) for n, s in shapes.items()}
        write_checkpoint(
            tmp_path / "a.safetensors", {n: TensorData.of(v) for n, v in given.items()}, force=True
        )
        if name == "square":
            with pytest.raises(ModelError, match="square"):
                convert_checkpoint(tmp_path / "a.safetensors", tmp_path / "s.pth", like=f"{path}:square")
            continue
        done = convert_checkpoint(tmp_path / "a.safetensors", tmp_path / "b.pth", like=f"{path}:{name}")
        assert any("transposed" in note for note in done.notes)
        state = torch.load(tmp_path / "b.pth")
        np.testing.assert_array_equal(state["a.weight"].numpy(), given["a.weight"].T)


def test_exchanged_statistics_are_noted_where_a_variance_is_negative(tmp_path):
    state = TorchNet().state_dict()
    state["bn.running_mean"] = torch.tensor([0.5, -0.25, 1.0, 2.0])
    torch.save(state, tmp_path / "good.pth")
    state["bn.running_mean"], state["bn.running_var"] = state["bn.running_var"], state["bn.running_mean"]
    torch.save(state, tmp_path / "bad.pth")
    assert "below 0" not in str(convert_checkpoint(tmp_path / "good.pth", tmp_path / "good.ckpt").notes)
    there = convert_checkpoint(tmp_path / "bad.pth", tmp_path / "bad.ckpt")
    back = convert_checkpoint(tmp_path / "bad.ckpt", tmp_path / "back.pth")
    for name, done in (("bn.running_var", there), ("bn.moving_variance", back)):
        assert any(n.startswith(f"`{name}`: a running variance with numbers below 0") for n in done.notes)
    assert torch.equal(torch.load(tmp_path / "back.pth")["bn.running_var"], state["bn.running_var"])
