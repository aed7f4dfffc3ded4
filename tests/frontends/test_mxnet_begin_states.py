"""Cells that are written out and start from zeros of a batch that nothing states."""

import json

import numpy as np
import pytest

from regraft import load
from regraft.ir import UnsupportedError

from ..corpora.mxnet.cases import ROOT, save_params
from ..passes.oracle import evaluate


@pytest.mark.parametrize("name", ["unrolled_lstm", "unrolled_gru"])
def test_unrolled_cells_are_mxnets_at_every_batch(name):
    with np.load(ROOT / "files" / f"{name}.npz") as file:
        x, expected = file["x"], file["y"]
    graph = load(ROOT / "files" / f"{name}-symbol.json", {"data": x})
    np.testing.assert_allclose(evaluate(graph, x)[0], expected, rtol=1e-4, atol=1e-5)
    assert [graph.type_of(value).shape for _, value in graph.outputs] == [("N", *expected.shape[1:])]
    np.testing.assert_allclose(evaluate(graph, x[:1])[0], expected[:1], rtol=1e-4, atol=1e-5)


def written(folder, *nodes, head):
    """Zeros (0, 3), a parameter (1, 3) and data, and some nodes of them."""
    start = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "p", "inputs": [], "attrs": {"__init__": "zeros"}},
        {"op": "_zeros", "name": "begin", "inputs": [], "attrs": {"shape": "(0, 3)"}},
    ]
    made = [
        {"op": op, "name": f"n{i}", "inputs": [[n, 0, 0] for n in inputs], "attrs": attributes}
        for i, (op, inputs, attributes) in enumerate(nodes)
    ]
    path = folder / "x-symbol.json"
    path.write_text(json.dumps({"nodes": [*start, *made], "heads": [[head, 0, 0]]}))
    save_params(folder / "x-0000.params", {"arg:p": np.ones((1, 3), np.float32)})
    return path


X = np.ones((2, 3), np.float32)
BOTH = ("elemwise_add", [0, 3], {})


@pytest.mark.parametrize(
    ("nodes", "head"),
    [
        ([("sum", [2], {"axis": "0"}), ("broadcast_add", [0, 3], {})], 4),
        ([("Concat", [0, 2], {"dim": "0"})], 3),
        ([("broadcast_add", [2, 1], {}), ("sum", [3], {"axis": "0"}), ("broadcast_add", [0, 4], {})], 5),
        ([("SliceChannel", [2], {"axis": "0", "num_outputs": "1"}), BOTH], 4),
        ([("Activation", [2], {"act_type": "tanh"})], 3),
        ([], 2),
    ],
)
def test_where_the_batch_of_zeros_matters_it_must_be_known(nodes, head, tmp_path):
    path = written(tmp_path, *nodes, ("elemwise_add", [0, 1], {}), head=head)
    with pytest.raises(UnsupportedError, match="expected a known batch of `begin`") as caught:
        load(path, {"data": X})
    assert caught.value.code == "E203"


def test_one_row_stands_for_all_until_it_meets_the_batch(tmp_path):
    tanh = ("Activation", [2], {"act_type": "tanh"})
    path = written(tmp_path, tanh, BOTH, ("sum", [4], {"axis": "0"}), head=5)
    np.testing.assert_array_equal(evaluate(load(path, {"data": X}), X)[0].ravel(), [2, 2, 2])
