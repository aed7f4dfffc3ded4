"""ONNX files: as checkpoints, as what a source is compared with, and what we keep in their metadata."""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from functools import cache
from pathlib import Path
from random import Random

import onnx

from .mutation import mutate_json, mutate_message
from .oracle import command
from .registry import Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_SYMBOL = "shared_weight-symbol.json"


@cache
def models() -> list[bytes]:
    """What we write of the example, with modules and a batch."""
    import regraft

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        graph = regraft.load(str(EXAMPLES / _SYMBOL), ["data=1x1x3x3"])
        regraft.save(regraft.rewrite(graph).graph, path)
        return [path.read_bytes()]


def run_model(data: bytes, folder: Path) -> int:
    """A comparison of its weights, or of what it computes."""
    given = folder / "given"
    (given / "net.onnx").write_bytes(data)
    choice = zlib.crc32(data) % 3
    if choice == 0:
        (given / "other.onnx").write_bytes(models()[0])
        return command("diff", given / "net.onnx", given / "other.onnx")
    for name in (_SYMBOL, "shared_weight-0000.params"):
        shutil.copy(EXAMPLES / name, given)
    return command("verify", given / _SYMBOL, given / "net.onnx", "--input", "data=1x1x3x3")


def mutate_metadata(data: bytes, random: Random) -> bytes:
    """Change what we keep in a model's metadata, and nothing else of it."""
    model = onnx.ModelProto.FromString(data)
    if not model.metadata_props:
        return mutate_message(data, random)
    entry = random.choice(model.metadata_props)
    try:
        changed = mutate_json(entry.value.encode(), random)
    except ValueError:
        changed = entry.value.encode() * 2
    entry.value = changed.decode("utf-8", "replace")
    if random.random() < 0.02:
        entry.key = json.dumps(entry.key)
    return model.SerializeToString()


TARGETS = [
    Target("onnx", models, mutate_message, run_model),
    Target("onnx_metadata", models, mutate_metadata, run_model),
]
