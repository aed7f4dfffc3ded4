"""Symbol JSON of every generation, and ``.params`` files beside a symbol."""

from __future__ import annotations

import ast
import json
import re
import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np

from ..corpora.mxnet.cases import ROOT, Case, cases, save_params
from .mutation import MARK, mutate_bytes, mutate_json
from .oracle import command
from .registry import Target

_CASE = "fuzz_case"
"""Key of a document that says which case's parameters lie beside it; MXNet ignores it, and so do we."""
_ELEMENTS = 100_000


@cache
def small_cases() -> dict[str, Case]:
    found = {**cases("ops"), **cases("legacy"), **cases("models")}
    small = {}
    for name, case in found.items():
        sizes = [np.prod(entry["shape"]) for entry in (*case.record["inputs"], *case.record["params"])]
        if sum(sizes) <= _ELEMENTS:
            small[name] = case
    return small


@cache
def _params(name: str) -> bytes:
    path = Path(f"/tmp/regraft-fuzz-params-{zlib.crc32(name.encode())}")
    save_params(path, small_cases()[name].params())
    data = path.read_bytes()
    path.unlink()
    return data


@cache
def symbols() -> list[bytes]:
    """Symbols of one operator, nets of today and of 0.8, each stating the shapes of its inputs."""
    found = []
    for name, case in small_cases().items():
        document = json.loads(json.dumps(case.symbol()))
        inputs = {entry["name"]: entry for entry in case.record["inputs"]}
        for node in document["nodes"]:
            if node["name"] in inputs:
                key = next((k for k in ("attrs", "attr", "param") if k in node), "attrs")
                node[key] = {**node.get(key, {}), "__shape__": str(tuple(inputs[node["name"]]["shape"]))}
        found.append(json.dumps({**document, _CASE: name}).encode())
    return found


def run_symbol(data: bytes, folder: Path) -> int:
    """One of the commands that take a symbol, told by a checksum of the document."""
    path = folder / "given" / "net-symbol.json"
    path.write_bytes(data)
    named = re.search(rb'"fuzz_case": "([^"]*)"', data)
    if named and (name := named[1].decode("utf-8", "replace")) in small_cases():
        (folder / "given" / "net-0000.params").write_bytes(_params(name))
    choice = zlib.crc32(data) % 20
    if choice < 5:
        return command("show", path, "--ir")
    if choice < 7:
        return command("check", path)
    if choice < 9:
        return command("show", path)
    if choice < 12:
        return command("rewrite", path, "-o", folder / "out" / "net.onnx")
    if choice < 14:
        return command(
            "rewrite", path, "-o", folder / "out" / "net.onnx", "--no-dynamic-batch", "--no-verify"
        )
    if choice < 16:
        return command("rewrite", path, "-o", folder / "out", "--to", "mxnet")
    code = command("rewrite", path, "-o", folder / "out", "--to", "mindspore", "--no-verify")
    if code == 0:
        assert_holds_no_code_of_its_source(folder / "out")
    return code


def assert_holds_no_code_of_its_source(out: Path) -> None:
    """Assert that an emitted folder's Python files parse, and call nothing that the source planted."""
    for path in out.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            assert not (isinstance(called, ast.Name) and called.id in (MARK, "__import__", "open")), path


def _sparse(storage: int, shape: tuple[int, ...], values: np.ndarray, *kinds: np.ndarray) -> bytes:
    def dims(shape: tuple[int, ...]) -> bytes:
        return struct.pack(f"<I{len(shape)}q", len(shape), *shape)

    head = struct.pack("<QQQ", 0x112, 0, 1) + struct.pack("<Ii", 0xF993FAC9, storage)
    head += dims(values.shape) + dims(shape) + struct.pack("<iii", 1, 0, 0)
    head += b"".join(struct.pack("<i", 6) + dims(kind.shape) for kind in kinds)
    body = values.tobytes() + b"".join(kind.tobytes() for kind in kinds)
    return head + body + struct.pack("<QQ", 1, 12) + b"arg:conv_wei"


@cache
def params() -> list[bytes]:
    """Every layout of the corpus, both kinds of sparse array, and the parameters of the symbol below."""
    files = sorted(p for p in (ROOT / "params").glob("*.params") if not p.name.startswith("bad_"))
    small = [p.read_bytes() for p in files if p.stat().st_size < 5000]
    whole = np.arange(9, dtype=np.float32)
    rows = _sparse(1, (4, 3), whole[:6].reshape(2, 3), np.array([0, 2]))
    compressed = _sparse(2, (2, 3), whole[:3], np.array([0, 1, 3]), np.array([1, 0, 2]))
    path = Path("/tmp/regraft-fuzz-own.params")
    save_params(path, {"arg:conv_weight": whole.reshape(1, 1, 3, 3), "aux:mean": whole[:2]})
    own = path.read_bytes()
    path.unlink()
    return [*small, rows, compressed, own, own]


_CONVOLUTION = json.dumps(
    {
        "nodes": [
            {"op": "null", "name": "data", "attrs": {"__shape__": "(1, 1, 3, 3)"}, "inputs": []},
            {"op": "null", "name": "conv_weight", "inputs": []},
            {"op": "Convolution", "name": "conv", "inputs": [[0, 0], [1, 0]],
             "attrs": {"kernel": "(3, 3)", "num_filter": "1", "no_bias": "True"}},
        ],
        "heads": [[2, 0]],
    }
)  # fmt: skip


def run_params(data: bytes, folder: Path) -> int:
    """A comparison with another file, a conversion, or a symbol whose parameters these are."""
    path = folder / "given" / "net-0000.params"
    path.write_bytes(data)
    choice = zlib.crc32(data) % 4
    if choice < 2:
        other = folder / "given" / "other.params"
        other.write_bytes(params()[-1])
        return command("diff", path, other)
    (folder / "given" / "net-symbol.json").write_text(_CONVOLUTION)
    if choice == 2:
        return command("show", folder / "given" / "net-symbol.json", "--ir")
    return command("rewrite", folder / "given" / "net-symbol.json", "-o", folder / "out" / "net.onnx")


TARGETS = [
    Target("symbol", symbols, mutate_json, run_symbol, share=4),
    Target("params", params, mutate_bytes, run_params),
]
