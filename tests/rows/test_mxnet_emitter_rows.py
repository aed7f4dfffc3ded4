"""Every emitter of MXNet symbols: what MXNet 1.9.1 was recorded to give for it, against ONNX Runtime.

MXNet is not at hand, so the symbols are stored and must not change: `--update-goldens` stores them anew, and
tests/tools/record_mxnet.py then has MXNet run them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from regraft.backends.mxnet_symbol import write, writing
from regraft.backends.mxnet_symbol.emitters import TABLE
from regraft.backends.onnx_model import to_model
from regraft.formats.params_file import read_params
from regraft.ir import Graph, validate

from .operators import FAMILIES
from .operators.case import Case, graph_of
from .recording import rows_that_run

RECORDED = Path(__file__).parents[1] / "corpora" / "mxnet" / "emitted.npz"
RECORD = "store it with --update-goldens, then record it with tests/tools/record_mxnet.py"


def taken(family: str) -> list[Case]:
    return [case for case in FAMILIES[family] if case.row in TABLE and "mxnet" in case.backends]


def written(graph: Graph, given: dict, folder: Path) -> tuple[dict, dict[str, np.ndarray], dict]:
    """The symbol, its parameters and inputs, with numbers for names, which change nothing."""
    symbol, params, _ = write(graph, folder)
    held = {a.name.partition(":")[2]: a.data.numpy() for a in read_params(params)}
    document = json.loads(symbol.read_text())
    names = {node["name"]: f"n{number}" for number, node in enumerate(document["nodes"])}
    for node in document["nodes"]:
        node["name"] = names[node["name"]]
        node["attrs"] = {k: v for k, v in node.get("attrs", {}).items() if not k.startswith("__")}
    return document, {names[k]: v for k, v in held.items()}, {names[k]: v for k, v in given.items()}


def digest_of(symbol: dict, arrays: dict[str, np.ndarray]) -> str:
    found = hashlib.sha256(json.dumps(symbol, sort_keys=True).encode())
    for name in sorted(arrays):
        found.update(name.encode() + arrays[name].tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("family", [family for family in FAMILIES if taken(family)])
def test_rows_are_mxnets(family: str, tmp_path: Path, update_goldens: bool) -> None:
    cases = taken(family)
    graph, given = graph_of(cases, modules=True)
    validate(graph)
    with rows_that_run(writing, "TABLE") as ran:
        symbol, held, inputs = written(graph, given, tmp_path / "out")
    assert {case.row for case in cases} - ran == set()
    digest = digest_of(symbol, {**inputs, **held})
    if update_goldens:
        store(family, symbol, inputs, held, digest)
        return
    recorded = np.load(RECORDED)
    same = recorded[f"{family}/digest"].tobytes().hex() == digest and f"{family}/out/0" in recorded
    assert same, f"{family} is written otherwise, or not recorded: {RECORD}"
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString())
    expected = session.run(None, {i.name: given[i.name] for i in session.get_inputs()})
    for number, ((name, _), want) in enumerate(zip(graph.outputs, expected, strict=True)):
        got = recorded[f"{family}/out/{number}"]
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-4, atol=2e-5, err_msg=name)


def store(family: str, symbol: dict, given: dict, held: dict, digest: str) -> None:
    """Put a symbol where the recorder finds it; what was recorded of the family before is gone."""
    found = {
        "symbol": np.frombuffer(json.dumps(symbol).encode(), np.uint8),
        "digest": np.frombuffer(bytes.fromhex(digest), np.uint8),
        **{f"in/{k}": v for k, v in given.items()},
        **{f"param/{k}": v for k, v in held.items()},
    }
    kept = dict(np.load(RECORDED)) if RECORDED.exists() else {}
    kept = {k: v for k, v in kept.items() if not k.startswith(f"{family}/")}
    np.savez_compressed(RECORDED, **kept, **{f"{family}/{k}": v for k, v in found.items()})


def test_every_row_has_a_case() -> None:
    named = {case.row for family in FAMILIES for case in taken(family)}
    assert set(TABLE) - named == set(), "declare a case in tests/rows/operators"
