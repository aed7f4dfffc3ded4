"""Saved programs of torch.export: the archive, its JSON, the texts inside that JSON, its pickles."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random

from .mutation import mutate_bytes, mutate_json, mutate_text, mutate_zip
from .oracle import Fault, attempt, command
from .registry import Target

_PROGRAM = "models/model.json"
_TEXTS = (
    "expr_str",
    "in_spec",
    "out_spec",
    "target",
    "name",
    "as_name",
    "nn_module_stack",
    "stack_trace",
    "fqn",
)


@cache
def seeds() -> list[bytes]:
    """A net that trains, nested inputs with symbolic sizes, control flow, tied and half-precision weights."""
    import torch
    from torch import nn

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(8, 4)
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.embed.weight
            self.scale = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
            self.constant = torch.arange(4)

        def forward(self, ids, more):
            found = self.embed(ids) * self.scale.float() + self.constant
            chosen = torch.cond(found.sum() > 0, lambda x: x + 1, lambda x: x * 2, (found,))
            return {"out": self.head(chosen), "size": (ids.shape[0] // 2, more["extra"].repeat(2, 1))}

    auto = torch.export.Dim.AUTO
    net = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.BatchNorm2d(2), nn.Dropout(), nn.Flatten())
    image = torch.ones(2, 1, 9, 9)
    ids = torch.zeros(4, 3, dtype=torch.int64)
    programs = [
        torch.export.export(net, (image,), dynamic_shapes=({0: auto},), strict=False),
        torch.export.export(net.eval(), (image,), strict=False).run_decompositions(),
        torch.export.export(
            Nested(),
            (ids, {"extra": torch.ones(4, 2)}),
            dynamic_shapes=({0: auto}, {"extra": {0: auto}}),
            strict=False,
        ),
    ]
    found = []
    for program in programs:
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        found.append(buffer.getvalue())
    return found


def mutate(data: bytes, random: Random) -> bytes:
    """Change one member of the archive as what it is, or the archive's own bytes."""
    if random.random() < 0.1 or not zipfile.is_zipfile(io.BytesIO(data)):
        return mutate_bytes(data, random)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, zlib.error):
        return mutate_bytes(data, random)
    names = list(members)
    chosen = random.choice(names)
    program = next((name for name in names if name.endswith(_PROGRAM)), chosen)
    if random.random() < 0.6:
        chosen = program
    members[chosen] = _member(chosen, members[chosen], random)
    if random.random() < 0.1:
        other = random.choice(names)
        members[mutate_text(other, random).replace("\0", "")[:60_000] or "x"] = members.pop(other)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name.encode("utf-8", "ignore").decode() or "x")
            archive.writestr(info, content)
    return out.getvalue()


def _member(name: str, content: bytes, random: Random) -> bytes:
    if name.endswith(".pt"):
        return mutate_zip(content, random)
    if not name.endswith(".json") or random.random() < 0.05:
        return mutate_bytes(content, random)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return mutate_bytes(content, random)
    if random.random() < 0.5:
        return mutate_json(content, random)
    places = list(_texts(document))
    if places:
        inside, key = random.choice(places)
        old = inside[key]
        as_json = key.endswith("_spec") and random.random() < 0.7
        inside[key] = (
            _member("spec.json", old.encode("utf-8", "replace"), random).decode("utf-8", "replace")
            if as_json
            else mutate_text(old, random)
        )
    return json.dumps(document).encode("utf-8", "replace")


def _texts(document: object):
    """Every (object, key) whose text torch evaluates, imports, looks up or writes into source."""
    waiting = [document]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            for key, value in here.items():
                if key in _TEXTS and isinstance(value, str):
                    yield here, key
                waiting.append(value)
        elif isinstance(here, list):
            waiting += here


def _run(data: bytes, folder: Path) -> int:
    path = folder / "given" / "net.pt2"
    path.write_bytes(data)
    choice = zlib.crc32(data) % 8
    if choice < 3:
        return command("show", path)
    if choice < 5:
        return command("check", path)
    if choice < 7:
        return command("rewrite", path, "-o", folder / "out" / "net.onnx", "--no-verify")
    return command("rewrite", path, "-o", folder / "out" / "net.onnx")


TARGETS = [Target("pt2", seeds, mutate, _run)]


def run(iterations: int, seed: int, folder: Path) -> list[Fault]:
    """What a fixed number of mutations led to that it must not.

    Args:
        iterations: how many inputs.
        seed: of the mutations.
        folder: is emptied for every input.
    """
    random = Random(seed)
    found = []
    for _ in range(iterations):
        data = random.choice(seeds())
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            data = mutate(data, random)
        _, fault = attempt(TARGETS[0], data, folder)
        if fault is not None:
            found.append(fault)
    return found
