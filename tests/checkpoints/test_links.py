"""Links as the cache of a hub has them are followed; those that lead out of the folder are refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.numpy
import torch
from onnx import TensorProto, helper, numpy_helper

from regraft import diff, load, verify
from regraft.checkpoints import read_checkpoint
from regraft.ir import ModelError

VALUES = {"a.weight": np.arange(4096, dtype=np.float32).reshape(64, 64), "b.weight": np.ones(2, np.float32)}


def save_onnx(folder: Path) -> list[str]:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    sides = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 64]) for n in ("x", "y")]
    graph = helper.make_graph(
        nodes, "g", sides[:1], sides[1:], [numpy_helper.from_array(VALUES["a.weight"] / 4096, "w")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    return ["m.onnx", "m.onnx.data"]


def save_shards(folder: Path, suffix: str) -> list[str]:
    files = {n: f"part-{i}.{suffix}" for i, n in enumerate(VALUES)}
    for name, file in files.items():
        if suffix == "bin":
            torch.save({name: torch.from_numpy(VALUES[name])}, folder / file)
        else:
            safetensors.numpy.save_file({name: VALUES[name]}, folder / file)
    index = "pytorch_model.bin.index.json" if suffix == "bin" else "model.safetensors.index.json"
    (folder / index).write_text(json.dumps({"weight_map": files}))
    return [index, *files.values()]


def save_one(folder: Path) -> list[str]:
    torch.save({n: torch.from_numpy(v) for n, v in VALUES.items()}, folder / "pytorch_model.bin")
    return ["pytorch_model.bin"]


SAVED: dict[str, Callable[[Path], list[str]]] = {
    "safetensors": lambda folder: save_shards(folder, "safetensors"),
    "bin": lambda folder: save_shards(folder, "bin"),
    "one": save_one,
    "onnx": save_onnx,
}


def cached(folder: Path, save: Callable[[Path], list[str]]) -> Path:
    """Files as the hub keeps them: in `blobs`, with links to them in a snapshot."""
    snapshot = folder / "hub/models--a--b/snapshots/rev/sub"
    blobs = folder / "hub/models--a--b/blobs"
    for each in (snapshot, blobs):
        each.mkdir(parents=True)
    for number, name in enumerate(save(blobs)):
        (blobs / name).replace(blobs / f"{number:040x}")
        (snapshot / name).symlink_to(Path("../../../blobs") / f"{number:040x}")
    return snapshot


@pytest.mark.parametrize("kind", ["safetensors", "bin", "one"])
def test_weights_in_the_cache_of_the_hub_are_read(kind, tmp_path, monkeypatch):
    snapshot = cached(tmp_path, SAVED[kind])
    monkeypatch.chdir(snapshot.parent)
    (tmp_path / "short").symlink_to(snapshot)
    for path in (snapshot, Path("sub"), tmp_path / "short"):
        found = read_checkpoint(path)
        assert all(np.array_equal(found[name].numpy(), value) for name, value in VALUES.items())


def test_external_data_in_the_cache_of_the_hub_are_read_and_run(tmp_path):
    """And of a model whose data is a link within its folder."""
    model = cached(tmp_path, save_onnx) / "m.onnx"
    (tmp_path / "plain").mkdir()
    save_onnx(tmp_path / "plain")
    (tmp_path / "plain/data").mkdir()
    (tmp_path / "plain/m.onnx.data").rename(tmp_path / "plain/data/w")
    (tmp_path / "plain/m.onnx.data").symlink_to("data/w")
    for path in (model, tmp_path / "plain/m.onnx"):
        [weight] = load(path, ["2x64"]).parameters()
        assert np.array_equal(weight.data.numpy(), VALUES["a.weight"] / 4096)
        assert verify(path, path, ["2x64"]).passed
    assert diff(model, tmp_path / "plain/m.onnx").equal


@pytest.mark.parametrize("kind", ["safetensors", "bin", "onnx"])
@pytest.mark.parametrize("hub", [False, True])
def test_a_link_that_leads_out_is_refused(kind, hub, tmp_path):
    """Also one that lies among the blobs, or whose folder of blobs is a link itself."""
    (tmp_path / "away").mkdir()
    (tmp_path / "in").mkdir()
    snapshot = cached(tmp_path, SAVED[kind]) if hub else tmp_path / "in"
    if not hub:
        SAVED[kind](snapshot)
    last = sorted(p for p in snapshot.iterdir() if not p.name.endswith((".json", ".onnx")))[-1]
    outside = tmp_path / "away/x"
    real = last.resolve()
    real.rename(outside)
    real.symlink_to(outside)
    path = snapshot / "m.onnx" if kind == "onnx" else snapshot
    with pytest.raises(ModelError, match=f"E101 .*`{last.name}` is a link that leads out") as error:
        read_checkpoint(path)["w"].numpy()
    assert "cp -rL" in error.value.hint
    if kind == "onnx":
        with pytest.raises(ModelError, match="leads out of the folder"):
            load(path, ["2x64"])
    if hub:
        blobs = snapshot.parents[2] / "blobs"
        real.unlink()
        outside.rename(real)
        blobs.rename(tmp_path / "elsewhere")
        blobs.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ModelError, match="leads out of the folder"):
            read_checkpoint(path)["w"].numpy()


@pytest.mark.parametrize("location", ["../away", "/etc/passwd", "sub/../../away", "..\\away", ""])
def test_names_that_lead_out_stay_refused(location, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "away").write_bytes(bytes(64 * 64 * 4))
    tensor = TensorProto(name="w", data_type=1, dims=[64, 64], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    graph = onnx.GraphProto(name="g", initializer=[tensor])
    onnx.save(onnx.ModelProto(graph=graph), tmp_path / "in/x.onnx")
    with pytest.raises(ModelError, match="E101"):
        read_checkpoint(tmp_path / "in/x.onnx")["w"].numpy()
