"""Checkpoints of every kind, and the maps between them."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from .mutation import mutate_bytes, mutate_header, mutate_json, mutate_message, mutate_zip, one_of
from .oracle import command
from .registry import Target


def _arrays() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {
        "conv.weight": draw.standard_normal((2, 3, 1, 1)).astype(np.float32),
        "conv.bias": np.zeros(2, np.float32),
        "norm.running_mean": np.ones(2, np.float32),
        "steps": np.array(7, np.int64),
        "half": np.ones((2, 2), np.float16),
        "flags": np.array([True, False]),
        "nothing": np.zeros((0, 3), np.float32),
    }


@cache
def _saved(suffix: str) -> bytes:
    from regraft.checkpoints import write_checkpoint
    from regraft.ir import TensorData

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        write_checkpoint(path, {n: TensorData.of(a) for n, a in _arrays().items()})
        return path.read_bytes()


def _ckpts() -> list[bytes]:
    content = _saved(".ckpt")
    checksum = zlib.crc32(content)
    return [content, content + b"crc_num" + checksum.to_bytes(10, "big")]


@cache
def _torch_files() -> list[bytes]:
    """By torch itself: of today, from before 1.6, in a training script's wrapping, of views."""
    import io

    import torch

    state = {n: torch.from_numpy(a) for n, a in _arrays().items()}
    found = [_saved(".pth")]
    shared = torch.arange(12.0).reshape(3, 4)
    for content, old in (
        (state, False),
        (state, True),
        ({"epoch": 3, "state_dict": state, "args": {"lr": 0.1}}, False),
        ({"a": shared, "b": shared.T, "c": shared[1:]}, False),
        (torch.nn.Linear(2, 2).state_dict(), False),
        ({"q": torch.zeros(2, 2).to_sparse(), "w": torch.ones(2)}, False),
    ):
        out = io.BytesIO()
        torch.save(content, out, _use_new_zipfile_serialization=not old)
        found.append(out.getvalue())
    return found


def _safetensors() -> list[bytes]:
    import struct

    plain = _saved(".safetensors")
    (length,) = struct.unpack_from("<Q", plain)
    header = json.loads(plain[8 : 8 + length])
    noted = json.dumps({"__metadata__": {"format": "pt", "regraft": "{}"}, **header}).encode()
    return [plain, struct.pack("<Q", len(noted)) + noted + plain[8 + length :]]


def _compared(suffix: str) -> Callable[[bytes, Path], int]:
    """Compares a file of that kind with one of another, or converts it by a map."""

    def run(data: bytes, folder: Path) -> int:
        given = folder / "given"
        (given / f"x{suffix}").write_bytes(data)
        choice = zlib.crc32(data) % 3
        if choice == 0:
            (given / "map.json").write_bytes(renames()[0])
            target = folder / "out" / "y.safetensors"
            return command("convert-checkpoint", given / f"x{suffix}", target, "--map", given / "map.json")
        (given / "other.safetensors").write_bytes(_saved(".safetensors"))
        files = [given / f"x{suffix}", given / "other.safetensors"]
        return command("diff", *(files if choice == 1 else files[::-1]))

    return run


# -- maps ------------------------------------------------------------------------------------------


@cache
def renames() -> list[bytes]:
    """A map of every kind of row, and a map of two nets."""
    from regraft.formats.renames import packed
    from regraft.ir import TensorData

    arrays = _arrays()

    def row(source: str, target: str, **more: object) -> dict[str, object]:
        shape = list(arrays[source].shape) if source else []
        base = {"source": source, "source_path": source, "target": target, "by": "", "transform": "identity"}
        sizes = {
            "shape": shape,
            "target_shape": shape,
            "dtype": str(arrays[source].dtype) if source else "float32",
        }
        return {**base, **sizes, "tie": "", "buffer": False, **more}

    ones = packed(TensorData.of(np.ones(2, np.float32)))
    norm = {
        "statistics": ["conv.bias", "", "norm.running_mean", "conv.bias"],
        "values": ["", ones, "", ""],
        "epsilon": 1e-5,
    }
    rows = [
        row("conv.weight", "w", transform="transpose:1,0,2,3", target_shape=[3, 2, 1, 1]),
        row("conv.bias", "b"),
        row("norm.running_mean", "norm.moving_mean", by="backend", transform="reshape", target_shape=[1, 2]),
        row("steps", "", by="drop-unused-modules"),
        row("half", "h"),
        row("flags", "flags"),
        row("nothing", "nothing"),
        row("", "added", by="backend", shape=[2], target_shape=[2], values=ones, buffer=True),
    ]
    folded = [
        row("conv.weight", "w", transform="folded", norms=[{**norm, "axis": 0}]),
        row("conv.bias", "b", transform="folded", norms=[{**norm, "axis": -1}]),
        *(row(name, "", by="x") for name in ("norm.running_mean", "steps", "half", "flags", "nothing")),
    ]
    head = {
        "format": "regraft-renames",
        "version": 1,
        "source": "torch",
        "target": "mindspore",
        "modules": {"conv": "c"},
    }
    return [json.dumps({**head, "parameters": found}).encode() for found in (rows, folded)]


def _run_renames(data: bytes, folder: Path) -> int:
    given = folder / "given"
    (given / "map.json").write_bytes(data)
    (given / "x.pth").write_bytes(_saved(".pth"))
    choice = zlib.crc32(data) % 4
    if choice < 3:
        direction = ([], ["--forward"], ["--reverse"])[choice]
        out = folder / "out" / ("y.params" if choice else "y.ckpt")
        return command("convert-checkpoint", given / "x.pth", out, "--map", given / "map.json", *direction)
    return command("diff", given / "x.pth", given / "x.pth", "--map", given / "map.json")


_NETS = """
import torch
from torch import nn

class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())

class B(A):
    pass
"""


def _pairs() -> list[bytes]:
    plain = {"first": "first", "second.weight": "second.weight", "gone": None}
    row = {"source": "first.weight", "source_path": "first.weight", "target": "first.weight"}
    renames = {"format": "regraft-renames", "version": 1, "parameters": [row]}
    return [
        json.dumps(plain).encode(),
        json.dumps({"first": "second"}).encode(),
        json.dumps(renames).encode(),
    ]


def _run_pairs(data: bytes, folder: Path) -> int:
    from regraft.verification import read_pair_map

    given = folder / "given"
    (given / "map.json").write_bytes(data)
    if (
        zlib.crc32(data) % 40
    ):  # two nets take half a second; reading and looking names up is what data can reach
        from regraft.ir import RegraftError

        try:
            found = read_pair_map(given / "map.json")
            held = {"first.weight": "first", "second.weight": "second"}
            found.expanded([["first", "second"]] * 2, [held] * 2, [held] * 2)
        except RegraftError as error:
            from click import echo

            echo(f"error {error}", err=True)
            return 2
        return 0
    (given / "nets.py").write_text(_NETS)
    nets = [f"{given / 'nets.py'}:{name}" for name in "AB"]
    return command("verify", *nets, "--input", "2x2", "--map", given / "map.json")


TARGETS = [
    Target("ckpt", _ckpts, mutate_message, _compared(".ckpt")),
    Target("safetensors", _safetensors, mutate_header, _compared(".safetensors")),
    Target("pth", _torch_files, mutate_zip, _compared(".pth")),
    Target("renames", renames, mutate_json, _run_renames),
    Target("pair_map", _pairs, one_of(mutate_json, mutate_json, mutate_bytes), _run_pairs, share=0.5),
]
