"""What a file is, its bytes say and not its name; of several sets of tensors in it one is read."""

import argparse
import datetime
import io
import json
import pickle
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from regraft import convert_checkpoint, diff, load, load_tree
from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.cli import main
from regraft.ir import ModelError, TensorData, UsageError
from regraft.ir.outside.file_kinds import kind_of

NET = """
import torch
from torch import nn

class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)

    def forward(self, x):
        return self.bn(self.c(x))

def whole():
    return torch.load(__file__.replace("net.py", "whole.pth"), weights_only=False)

if __name__ == "__main__":
    torch.save(Small(), __file__.replace("net.py", "whole.pth"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


@pytest.fixture
def state(folder: Path) -> dict[str, torch.Tensor]:
    state = load_tree(f"{folder / 'net.py'}:Small").origin.model.state_dict()
    return {n: v + 1 if v.is_floating_point() else torch.tensor(100) for n, v in state.items()}


def test_a_checkpoint_is_read_whatever_its_name_is(folder, state):
    tensors = {n: TensorData.of(v.numpy()) for n, v in state.items()}
    for kind, suffix in (("torch", "pth"), ("safetensors",) * 2, ("params",) * 2, ("ckpt",) * 2):
        write_checkpoint(folder / f"a.{suffix}", tensors)
        for name in ("pytorch_model.bin", "last.tar", "last.ckpt", "other.pth", "odd.weights", "plain"):
            target = folder / name
            if kind == "ckpt" and name == "plain":
                continue
            target.write_bytes((folder / f"a.{suffix}").read_bytes())
            assert kind_of(target) == kind
            found = read_checkpoint(target)
            assert {n: d.numpy().tolist() for n, d in found.items()} == {
                n: v.tolist() for n, v in state.items()
            }
    torch.save(state, folder / "old.bin", _use_new_zipfile_serialization=False)
    assert read_checkpoint(folder / "old.bin").keys() == state.keys()


def test_what_is_no_checkpoint_is_called_what_it_is(folder):
    (folder / "a.pth").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (folder / "b.bin").write_bytes(b"<!DOCTYPE html><html>not found</html>")
    (folder / "c.ckpt").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), folder / "d.pt")
    with (folder / "e.bin").open("wb") as file:
        np.savez(file, w=np.ones(2))
    with tarfile.open(folder / "f.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("x"), io.BytesIO(b""))
    for name, what in {
        "a.pth": "a pointer of Git LFS.*git lfs pull",
        "b.bin": "a web page",
        "c.ckpt": "HDF5",
        "d.pt": "TorchScript archive.*torch.jit.load",
        "e.bin": "numpy.savez",
        "f.tar": "tar archive.*unpack",
    }.items():
        with pytest.raises(ModelError, match=f"(?s)E101 expected a checkpoint, got .*{what}") as error:
            read_checkpoint(folder / name)
        assert error.value.hint
    (folder / "notes.txt").write_text("nothing")
    with pytest.raises(UsageError, match="E001 expected a checkpoint"):
        read_checkpoint(folder / "notes.txt")


@pytest.mark.parametrize("keys", [(), ("state_dict",), ("model",), ("ckpt", "net"), ("model_state_dict",)])
def test_a_state_in_a_training_checkpoint_is_given_as_parameters(folder, state, keys):
    content: dict = {f"module.{n}": v for n, v in state.items()}
    for key in reversed(keys):
        content = {"epoch": 3, key: content, "args": None}
    torch.save(content, folder / "w.tar")
    graph = load(f"{folder / 'net.py'}:Small", ["1x3x8x8"], params=folder / "w.tar")
    held = {p.declared: p.data.numpy() for p in graph.parameters()}
    assert np.array_equal(held["c.weight"], state["c.weight"].numpy())
    assert any("`module.` before the names of" in note for note in graph.origin.notes)
    assert any("read the tensors under" in note for note in graph.origin.notes) is bool(keys)


def test_of_several_states_the_usual_one_is_read_and_the_others_are_named(folder, state):
    ema = {n: v + 1 for n, v in state.items()}
    source = folder / "a.ckpt"
    torch.save({"epoch": 1, "ema": {"module": ema, "updates": 4}, "model": state}, source)
    notes: list[str] = []
    assert np.array_equal(read_checkpoint(source, notes)["c.bias"].numpy(), state["c.bias"].numpy())
    assert "`a.ckpt` has other tensors under `ema`, which --part reads" in notes
    for part in ("ema", "ema.module"):
        done = convert_checkpoint(source, folder / "b.pth", part=part, force=True)
        assert torch.equal(torch.load(folder / "b.pth")["c.bias"], ema["c.bias"])
        assert "`a.ckpt`: read the tensors under `ema` -> `module`" in done.notes
        assert diff(source, folder / "b.pth", part=part).equal
    assert not diff(source, folder / "b.pth").equal
    file = f"{folder / 'net.py'}:Small"
    graph = load(file, ["1x3x8x8"], params=source, part="ema")
    assert np.array_equal(graph.parameters()[0].data.numpy(), ema[graph.parameters()[0].declared].numpy())
    torch.save({"generator": state, "discriminator": state}, source)
    with pytest.raises(ModelError, match="got 2 sets of them: `generator`, `discriminator`") as error:
        read_checkpoint(source)
    assert error.value.hint == "say which with --part, such as --part generator"
    with pytest.raises(ModelError, match="expected tensors under `nobody`"):
        diff(source, source, part="nobody")


def test_a_file_of_weights_given_as_the_model_is_called_so(folder, state):
    torch.save(state, folder / "w.pth")
    torch.save({"model": state}, folder / "w.bin")
    write_checkpoint(folder / "w.safetensors", {"w": TensorData.of(np.ones(2, np.float32))})
    torch.save(torch.nn.Linear(2, 2), folder / "object.pt")
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    torch.export.save(program, folder / "program.pt2")
    (folder / "program.pt2").rename(folder / "program.pt")
    for made in ("hub", "split", "other"):
        (folder / made).mkdir()
    torch.save(state, folder / "hub" / "pytorch_model.bin")
    index = {"weight_map": dict.fromkeys(state, "pytorch_model-00001-of-00002.bin")}
    (folder / "split" / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (folder / "other" / "net.onnx").write_bytes(b"")
    for name, (what, to_do) in {
        "w.pth": ("holds weights without a net", "file.py:Net, and give the weights with --params"),
        "w.bin": ("holds weights without a net", "--params"),
        "w.safetensors": ("holds weights without a net", "--params"),
        "object.pt": ("a pickled object of `torch.nn.modules.linear.Linear`", "state_dict"),
        "hub": ("holds weights without a net", "--params"),
        "split": ("holds weights without a net", "--params"),
        "split/pytorch_model.bin.index.json": ("holds weights without a net", "--params"),
        "other": ("got the folder", "other/net.onnx"),
        "program.pt": ("a program of torch.export under another name", ".pt2"),
    }.items():
        result = CliRunner().invoke(main, ["check", str(folder / name)])
        assert result.exit_code == 2
        assert what in result.output
        assert to_do in result.output.partition("hint: ")[2]


def test_a_folder_of_ours_given_as_the_model_is_called_by_its_function(folder, state):
    out = folder / "out"
    out.mkdir()
    torch.save(state, out / "model.pth")
    for name in ("model.py", "renames.json"):
        (out / name).write_text("{}")
    for command, name in (("check", "out"), ("check", "out/model.pth"), ("show", "out/model.py")):
        result = CliRunner().invoke(main, [command, str(folder / name)])
        assert result.exit_code == 2
        assert result.output.rstrip().endswith(f"{out / 'model.py'}:build"), result.output


def test_a_shard_given_for_the_whole_is_called_so(folder, state):
    names = list(state)
    places = {n: f"m-{1 if n == names[0] else 2}.bin" for n in names}
    for shard in ("m-1.bin", "m-2.bin"):
        torch.save({n: state[n] for n in names if places[n] == shard}, folder / shard)
    (folder / "m.bin.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(
        ModelError, match=r"E101 expected all weights of a model, got one of 2 shards"
    ) as error:
        load(f"{folder / 'net.py'}:Small", ["1x3x8x8"], params=folder / "m-2.bin")
    assert error.value.hint.endswith("m.bin.index.json")
    graph = load(f"{folder / 'net.py'}:Small", ["1x3x8x8"], params=folder / "m.bin.index.json")
    given = {p.declared: p.data.numpy() for p in graph.parameters()}
    assert np.array_equal(given["c.weight"], state["c.weight"].numpy())
    assert set(read_checkpoint(folder / "m-1.bin")) == {names[0]}  # on its own it is read as it is


def test_a_model_that_the_file_itself_pickled_as_main_is_loaded(folder, state):
    """As `torch.load` finds it where the file is run; nothing of `__main__` is changed for good."""
    import __main__

    source = compile(NET, str(folder / "net.py"), "exec")
    space = {"__name__": "__main__", "__file__": str(folder / "net.py")}
    saved = dict(vars(__main__))
    try:
        vars(__main__).update(space)
        exec(source, vars(__main__))
    finally:
        vars(__main__).clear()
        vars(__main__).update(saved)
    graph = load(f"{folder / 'net.py'}:whole", ["1x3x8x8"])
    assert {"c.weight", "bn.weight"} <= {p.declared for p in graph.parameters()}
    assert vars(__main__) == saved
    (folder / "net.py").write_text(NET.replace("class Small", "class Large"))
    with pytest.raises(ModelError, match=r"E102 .*Can't get attribute 'Small'") as error:
        load(f"{folder / 'net.py'}:whole", ["1x3x8x8"])
    assert "define or import `Small`" in error.value.hint


class Tagged(torch.Tensor):
    """A class of one's own, as quantised weights have."""


class Settings:
    def __init__(self, **values: object) -> None:
        vars(self).update(values)


def test_settings_beside_the_weights_are_no_hindrance(folder, state):
    """Nothing of them is made: not one's own classes, not NumPy's numbers."""
    extra = {
        "args": argparse.Namespace(lr=1e-3, out=Path("x")),
        "best": np.float64(0.5),
        "config": Settings(depth=3),
        "scores": [np.float32(1), {"when": datetime.datetime(2020, 1, 1)}],
    }
    torch.save({"state_dict": state, **extra}, folder / "a.pth")
    found = read_checkpoint(folder / "a.pth")
    assert {n: d.numpy().tolist() for n, d in found.items()} == {n: v.tolist() for n, v in state.items()}


def test_a_weight_of_a_class_of_its_own_is_named(folder, state):
    name = "c.weight"
    quantised = torch.quantize_per_tensor(state[name], 0.1, 0, torch.qint8)
    for value, what in (
        (state[name].as_subclass(Tagged), "under `c.weight`, got `.*Tagged`, which was not run"),
        (torch.nn.Parameter(state[name].as_subclass(Tagged)), "under `c.weight`, got `.*Tagged`"),
        (quantised, "under `c.weight`, got `torch._utils._rebuild_qtensor`"),
        (Settings(), "under `c.weight`, got `.*Settings`"),
    ):
        torch.save({"state_dict": {**state, name: value}}, folder / "a.pth")
        with pytest.raises(ModelError, match=f"E101 expected a plain tensor.*{what}"):
            read_checkpoint(folder / "a.pth")
    torch.save({"model": Settings(), "epoch": 3}, folder / "a.pth")
    with pytest.raises(ModelError, match=r"E101 expected tensors by name under `model`, got `.*Settings`"):
        read_checkpoint(folder / "a.pth")


def test_of_many_unknown_classes_one_error_comes_at_once(folder):
    body = pickle.PROTO + b"\x02" + pickle.EMPTY_LIST
    body += b"".join(
        pickle.GLOBAL + f"a\nb{n}\n".encode() + pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.APPEND
        for n in range(50_000)
    )
    with zipfile.ZipFile(folder / "many.pth", "w") as archive:
        for name, content in (("data.pkl", body + pickle.STOP), ("byteorder", b"little"), ("version", b"3")):
            archive.writestr(f"many/{name}", content)
    began = time.process_time()
    with pytest.raises(ModelError, match=r"E101 expected tensors by name, got a `list`"):
        read_checkpoint(folder / "many.pth")
    assert time.process_time() - began < 10


def test_a_count_of_batches_keeps_its_value(folder, state):
    torch.save({f"module.{n}": v for n, v in state.items()}, folder / "a.pth")
    done = convert_checkpoint(folder / "a.pth", folder / "b.pth", like=f"{folder / 'net.py'}:Small")
    made = torch.load(folder / "b.pth")
    assert made["bn.num_batches_tracked"] == 100
    assert not any("not in the target" in note for note in done.notes)
