"""ONNX models whose weights stay in the safetensors files of a repository of Hugging Face's hub."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import nn

import regraft
from regraft.api.targets import weights_in_place
from regraft.cli import main

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.up = nn.Linear(8, 16, bias=False)
        self.down = nn.Linear(16, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 50, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(self.norm(x + self.down(torch.relu(self.up(x)))))


class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x):
        return self.norm(self.conv(x)) * self.scale
"""
IDS = np.array([[1, 2, 3], [4, 5, 49]])


def _net(folder: Path, name: str) -> nn.Module:
    (folder / "net.py").write_text(NET)
    space: dict[str, type[nn.Module]] = {}
    exec(NET, space)
    torch.manual_seed(3)
    return space[name]().eval()


def _repository(folder: Path, state: dict[str, torch.Tensor]) -> Path:
    """Write a folder as the hub has it: shards, their index, and files that are no weights."""
    folder.mkdir(parents=True)
    names = [*state]
    shards = {"model-00001-of-00002.safetensors": names[:2], "model-00002-of-00002.safetensors": names[2:]}
    for file, held in shards.items():
        save_file({name: state[name].clone() for name in held}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, held in shards.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"architectures": ["Net"]}')
    (folder / "tokenizer.json").write_text("{}")
    torch.save(state, folder / "pytorch_model.bin")
    return folder


def _rewrite(*arguments: object) -> dict[str, object]:
    found = CliRunner().invoke(main, ["rewrite", *map(str, arguments), "--weights-in-place", "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_all_weights_stay_and_the_runtime_reads_them_there(tmp_path: Path) -> None:
    net = _net(tmp_path, "Net")
    repository = _repository(tmp_path / "repo", net.state_dict())
    before = {file.name: file.read_bytes() for file in repository.iterdir()}
    output = tmp_path / "net.onnx"
    report = _rewrite(tmp_path / "net.py:Net", "--input", "2x3:int64", "--params", repository, "-o", output)
    assert report["verified"]["passed"]
    assert report["in_place"]["copied"] == {}
    assert len(report["in_place"]["kept"]) == len(net.state_dict())
    places = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in onnx.load(output, load_external_data=False).graph.initializer
        if tensor.external_data
    }
    assert set(places) == set(report["in_place"]["kept"])
    assert {place["location"] for place in places.values()} == {
        f"repo/model-0000{number}-of-00002.safetensors" for number in (1, 2)
    }
    onnx.checker.check_model(str(output), full_check=True)
    (computed,) = onnxruntime.InferenceSession(output).run(None, {"ids": IDS})
    np.testing.assert_allclose(computed, net(torch.tensor(IDS)).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert {file.name: file.read_bytes() for file in repository.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net.onnx",
        "net.py",
        "net.renames.json",
        "repo",
    ]
    again = CliRunner().invoke(
        main,
        [
            "verify",
            f"{tmp_path}/net.py:Net",
            str(output),
            "--input",
            "2x3:int64",
            "--params",
            str(repository),
        ],
    )
    assert again.exit_code == 0, again.output


def test_what_cannot_stay_is_copied_and_named_with_the_reason(tmp_path: Path) -> None:
    net = _net(tmp_path, "Folded")
    save_file(net.state_dict(), tmp_path / "model.safetensors")
    output = tmp_path / "net.onnx"
    given = ("--input", "2x3x8x8", "--params", tmp_path / "model.safetensors", "-o", output)
    report = _rewrite(tmp_path / "net.py:Folded", *given)
    copied, kept = report["in_place"]["copied"], report["in_place"]["kept"]
    assert "scale" in kept
    assert "conv.weight" in copied  # the normalisation is folded into it
    assert set(copied.values()) == {"its values are computed or are the model's own"}
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8), np.float32)
    (computed,) = onnxruntime.InferenceSession(output).run(None, {"x": x})
    np.testing.assert_allclose(computed, net(torch.tensor(x)).detach().numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["outside", "cache", "bin"])
def test_files_that_onnx_may_not_name_are_copied(kind: str, tmp_path: Path) -> None:
    net = _net(tmp_path, "Net")
    repository = _repository(tmp_path / "blobs" if kind == "cache" else tmp_path / "repo", net.state_dict())
    home = tmp_path / "out"
    if kind == "cache":  # of the hub: a snapshot of links
        home = tmp_path / "snapshots" / "0af3"
        home.mkdir(parents=True)
        for file in repository.iterdir():
            (home / file.name).symlink_to(Path("..", "..", "blobs", file.name))
        repository = home
    elif kind == "bin":
        home = repository
        for file in repository.glob("*.safetensors*"):
            file.unlink()
    graph = regraft.load(f"{tmp_path}/net.py:Net", ["2x3:int64"], params=repository)
    home.mkdir(exist_ok=True)
    found = weights_in_place(home / "net.onnx")
    regraft.save(graph, home / "net.onnx", weights_in_place=found)
    assert found.kept == {}
    word = {"outside": "outside", "cache": "outside", "bin": "no safetensors file"}[kind]
    assert sum(word in why for why in found.copied.values()) >= 3
    (computed,) = onnxruntime.InferenceSession(home / "net.onnx").run(None, {"ids": IDS})
    np.testing.assert_allclose(computed, net(torch.tensor(IDS)).detach().numpy(), rtol=1e-4, atol=1e-5)
