"""Siamese symbols as MXNet 1.9.1 bound and trained them: one weight, to which both branches' gradients came.

MXNet is not at hand, so the symbols are stored and must not change: `--update-goldens` stores them anew, and
tests/tools/record_mxnet.py then has MXNet bind and train them.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import regraft

from ..corpora.mxnet.cases import ROOT, save_params
from .test_twins import symbol

EXAMPLE = Path(__file__).parents[2] / "examples" / "shared_weight-symbol.json"
ONES = np.ones((1, 1, 3, 3), np.float32)
CASES = {
    "calls": ("data", ONES * 42, "tie-weights:twin=data+data2"),
    "triplet": ("data", ONES, "tie-weights:twin=data+data2+data3,prefix=b_+c_"),
    "batch": ("data", ONES, "tie-weights:twin=data+data2,strategy=batch"),
    "inside": ("data0", None, "tie-weights:twin=data0+pos+neg,at=relu1_output,strategy=batch"),
}


def written(name, folder):
    """The symbol of a case as regraft writes it, its inputs and its parameters."""
    source, example, option = CASES[name]
    path = EXAMPLE if example is not None else symbol(folder, [""])
    given = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 1, 8, 8) if example is None else example
    graph = regraft.rewrite(regraft.load(path, {source: given}), [option]).graph
    found, *_ = regraft.save(graph, folder / "out", to="mxnet")
    inputs = {
        n.name: (given if example is not None else given * (i + 1)) for i, n in enumerate(graph.input_nodes())
    }
    held = {p.declared: p.data.numpy() for p in regraft.load(found, inputs).parameters()}
    return json.loads(found.read_text()), inputs, held


@pytest.mark.parametrize("name", CASES)
def test_mxnet_binds_one_data_name_a_branch_and_trains_one_weight(name, tmp_path, update_goldens):
    document, inputs, held = written(name, tmp_path)
    path = ROOT / "steps.json"
    records = json.loads(path.read_text()) if path.exists() else {}
    if update_goldens:
        before = {n: (np.full_like(v, 42) if name == "calls" else v).tolist() for n, v in held.items()}
        given = {n: v.tolist() for n, v in inputs.items()}
        records[name] = {"symbol": document, "given": given, "before": before, "rate": 0.01}
        path.write_text(json.dumps(records) + "\n")
        return
    record = records[name]
    assert record["symbol"] == document
    (folder := tmp_path / "again").mkdir()
    (folder / "x-symbol.json").write_text(json.dumps(document))
    save_params(folder / "x-0000.params", {f"arg:{n}": np.float32(v) for n, v in record["before"].items()})
    regraft.save(regraft.load(folder / "x-symbol.json", inputs), folder / "x.onnx")
    session = onnxruntime.InferenceSession(folder / "x.onnx")
    for one, expected in zip(session.run(None, inputs), record["outputs"], strict=True):
        np.testing.assert_allclose(one, np.float32(expected), rtol=1e-5, atol=1e-5)
    if name == "calls":
        (before,), (after,) = record["before"].values(), record["after"].values()
        assert np.ravel(before).tolist() == [42.0] * 9
        np.testing.assert_allclose(np.ravel(after), 42 - 0.01 * (42 + 42), rtol=1e-6)
    elif name in ("triplet", "batch"):
        change = [np.subtract(record["after"][n], v) for n, v in record["before"].items()]
        branches = 3 if name == "triplet" else 2
        np.testing.assert_allclose(change, -0.01 * branches * np.ones((1, 1, 1, 3, 3)), rtol=1e-4)
