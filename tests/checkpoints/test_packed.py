"""Recurrent layers in one vector and apart: after a conversion a framework computes what the other did."""

import json
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import nn, ops

from regraft import convert_checkpoint, diff, load, load_tree, save, verify
from regraft.checkpoints import read_checkpoint, write_checkpoint
from regraft.checkpoints.joins import Join
from regraft.ir import ModelError, TensorData

STEPS, BATCH, INPUTS, HIDDEN = 6, 2, 4, 5
X = np.random.default_rng(0).standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32)
LAYERS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, kind="LSTM", layers=2, both=True):
        super().__init__()
        self.layer = getattr(torch.nn, kind)(4, 5, layers, bidirectional=both)

    def forward(self, x):
        return self.layer(x)[0]

def gru():
    return Net("GRU")

def one():
    return Net(layers=1)
"""


def vector(layer: torch.nn.Module) -> np.ndarray:
    """MXNet's: all weights, then all biases."""
    found = list(layer.named_parameters())
    parts = [p.detach().flatten() for kind in ("weight", "bias") for n, p in found if kind in n]
    return torch.cat(parts).numpy()


def symbol(folder: Path, mode: str, layer: torch.nn.Module) -> Path:
    """A symbol with one RNN of two layers in both directions, and its parameters."""
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ("data", "rnn_parameters")]
    zeros = {"shape": "(4, 0, 5)", "dtype": "float32"}
    states = range(2, 4 if mode == "lstm" else 3)
    nodes += [{"op": "_zeros", "name": f"begin{i}", "attrs": zeros, "inputs": []} for i in states]
    attrs = {"mode": mode, "state_size": "5", "num_layers": "2", "bidirectional": "True"}
    inputs = [[i, 0, 0] for i in range(len(nodes))]
    nodes.append({"op": "RNN", "name": "rnn", "attrs": attrs, "inputs": inputs})
    document = {"nodes": nodes, "arg_nodes": [0, 1], "heads": [[len(nodes) - 1, 0, 0]]}
    path = folder / "rnn-symbol.json"
    path.write_text(json.dumps(document))
    write_checkpoint(
        folder / "rnn-0000.params", {"arg:rnn_parameters": TensorData.of(vector(layer))}, force=True
    )
    return path


def net(folder: Path) -> Path:
    path = folder / "net.py"
    path.write_text(NET)
    return path


def result(layer: torch.nn.Module) -> np.ndarray:
    with torch.no_grad():
        return layer(torch.from_numpy(X))[0].numpy()


def loaded(kind: str, file: Path) -> torch.nn.Module:
    layer = LAYERS[kind](INPUTS, HIDDEN, 2, bidirectional=True)
    layer.load_state_dict({n.removeprefix("layer."): v for n, v in torch.load(file).items()})
    return layer


@pytest.mark.parametrize("mode", LAYERS)
def test_mxnets_vector_follows_into_what_was_written_and_back(mode, tmp_path):
    first, trained = (LAYERS[mode](INPUTS, HIDDEN, 2, bidirectional=True) for _ in range(2))
    path = symbol(tmp_path, mode, first)
    save(load(path, [f"data={STEPS}x{BATCH}x{INPUTS}"]), tmp_path / "out", "mindspore")
    symbol(tmp_path, mode, trained)
    there, back = tmp_path / "b.ckpt", tmp_path / "c.params"
    renames = tmp_path / "out" / "renames.json"
    convert_checkpoint(tmp_path / "rnn-0000.params", there, renames)
    cell = load_tree(f"{tmp_path / 'out' / 'model.py'}:build").origin.model.set_train(False)
    assert ms.load_param_into_net(cell, ms.load_checkpoint(str(there)), strict_load=True) == ([], [])
    np.testing.assert_allclose(cell(ms.Tensor(X)).asnumpy(), result(trained), atol=1e-6)
    assert diff(tmp_path / "rnn-0000.params", there, renames).equal
    assert diff(there, tmp_path / "rnn-0000.params", renames).equal
    convert_checkpoint(there, back, renames)
    assert back.read_bytes() == (tmp_path / "rnn-0000.params").read_bytes()


@pytest.mark.parametrize("mode", LAYERS)
@pytest.mark.parametrize("turned", [False, True], ids=["torch-first", "symbol-first"])
def test_the_map_that_verify_writes_packs_and_unpacks(mode, turned, tmp_path):
    made, trained = (LAYERS[mode](INPUTS, HIDDEN, 2, bidirectional=True) for _ in range(2))
    nets = [f"{net(tmp_path)}:{'Net' if mode == 'lstm' else 'gru'}", str(symbol(tmp_path, mode, made))]
    report = verify(*(nets[::-1] if turned else nets), ["6x2x4"], write_map=tmp_path / "map.json")
    assert report.passed
    torch.save({f"layer.{n}": v for n, v in trained.state_dict().items()}, tmp_path / "a.pth")
    there, back = tmp_path / "b.params", tmp_path / "c.pth"
    convert_checkpoint(tmp_path / "a.pth", there, tmp_path / "map.json")
    np.testing.assert_array_equal(read_checkpoint(there)["rnn_parameters"].numpy(), vector(trained))
    assert diff(tmp_path / "a.pth", there, tmp_path / "map.json").equal
    convert_checkpoint(there, back, tmp_path / "map.json")
    np.testing.assert_array_equal(result(loaded(mode, back)), result(trained))


@pytest.mark.parametrize("mode", LAYERS)
def test_a_vector_becomes_a_nets_parameters_and_a_symbols_vector_is_made_of_them(mode, tmp_path):
    trained = LAYERS[mode](INPUTS, HIDDEN, 2, bidirectional=True)
    path = symbol(tmp_path, mode, trained)
    like = f"{net(tmp_path)}:{'Net' if mode == 'lstm' else 'gru'}"
    there, back = tmp_path / "a.pth", tmp_path / "b.params"
    done = convert_checkpoint(tmp_path / "rnn-0000.params", there, like=like)
    assert any("one vector of 16 parameters" in note for note in done.notes)
    np.testing.assert_array_equal(result(loaded(mode, there)), result(trained))
    symbol(tmp_path, mode, LAYERS[mode](INPUTS, HIDDEN, 2, bidirectional=True))
    convert_checkpoint(there, back, like=str(path))
    np.testing.assert_array_equal(read_checkpoint(back)["rnn_parameters"].numpy(), vector(trained))


class Packed(nn.Cell):
    """An LSTM as MindSpore's operator takes it on the CPU: one vector, one bias."""

    def __init__(self):
        super().__init__()
        size = 2 * (4 * HIDDEN * (INPUTS + HIDDEN) + 4 * HIDDEN)
        values = np.random.default_rng(1).standard_normal((size, 1, 1)).astype(np.float32) / 3
        self.weight = ms.Parameter(values, name="weight")
        self.run = ops.LSTM(INPUTS, HIDDEN, 1, True, True, 0.0)

    def construct(self, x):
        state = ops.zeros((2, BATCH, HIDDEN))
        return self.run(x, state, state, self.weight)[0]


def test_mindspores_vector_with_one_bias_becomes_torchs_parameters(tmp_path):
    cell = nn.SequentialCell(Packed())
    ms.save_checkpoint(cell, str(tmp_path / "a.ckpt"))
    done = convert_checkpoint(tmp_path / "a.ckpt", tmp_path / "b.pth", like=f"{net(tmp_path)}:one")
    assert any("regraft fills the other with zeros" in note for note in done.notes)
    layer = torch.nn.LSTM(INPUTS, HIDDEN, bidirectional=True)
    layer.load_state_dict({n.removeprefix("layer."): v for n, v in torch.load(tmp_path / "b.pth").items()})
    np.testing.assert_allclose(result(layer), cell(ms.Tensor(X)).asnumpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_torchs_and_mindspores_layers_have_one_spelling_and_one_order_of_gates(kind, tmp_path):
    options = {"input_size": INPUTS, "hidden_size": HIDDEN, "num_layers": 2, "bidirectional": True}
    layer, cell = getattr(torch.nn, kind)(**options), getattr(nn, kind)(**options)
    there, back = tmp_path / "b.ckpt", tmp_path / "c.pth"
    torch.save(layer.state_dict(), tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", there)
    assert ms.load_param_into_net(cell, ms.load_checkpoint(str(there)), strict_load=True) == ([], [])
    np.testing.assert_allclose(cell(ms.Tensor(X))[0].asnumpy(), result(layer), atol=1e-6)
    convert_checkpoint(there, back)
    assert diff(tmp_path / "a.pth", back).equal


def test_gluons_parameters_are_respelled_and_a_vector_alone_is_refused(tmp_path):
    layer = torch.nn.GRU(INPUTS, HIDDEN, 1, bidirectional=True)
    torch.save({f"gru0.{n}": v for n, v in layer.state_dict().items()}, tmp_path / "a.pth")
    convert_checkpoint(tmp_path / "a.pth", tmp_path / "b.params")
    names = set(read_checkpoint(tmp_path / "b.params"))
    assert {"gru0_l0_i2h_weight", "gru0_r0_h2h_bias"} <= names
    convert_checkpoint(tmp_path / "b.params", tmp_path / "c.pth")
    assert diff(tmp_path / "a.pth", tmp_path / "c.pth").equal
    symbol(tmp_path, "gru", layer)
    with pytest.raises(ModelError, match=r"`rnn_parameters` \[\d+\]: a vector of recurrent layers") as error:
        convert_checkpoint(tmp_path / "rnn-0000.params", tmp_path / "d.pth")
    assert "--like" in error.value.hint


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_join_reads_its_tensors_as_all_of_them_in_a_row(data):
    sizes = st.lists(st.integers(0, 6), min_size=1, max_size=5)
    mine = data.draw(sizes)
    total = sum(mine)
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=4)))
    theirs = np.diff([0, *cuts, total]).tolist()
    blocks = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0] or [1]))
    order = tuple(data.draw(st.permutations(range(blocks)))) if total else ()
    values = np.arange(total, dtype=np.float32)
    parts = np.split(values, np.cumsum(mine)[:-1])
    join = Join(
        {f"a{i}": (n,) for i, n in enumerate(mine)},
        {f"b{i}": (n,) for i, n in enumerate(theirs)},
        "float32",
        order,
    )
    given = {f"a{i}": TensorData.of(part) for i, part in enumerate(parts)}
    wanted = values.reshape(blocks, -1)[list(order)].reshape(-1) if order else values
    made = join.applied(given)
    np.testing.assert_array_equal(np.concatenate([made[f"b{i}"].numpy() for i in range(len(theirs))]), wanted)
    back = join.turned().applied(made)
    np.testing.assert_array_equal(np.concatenate([back[f"a{i}"].numpy() for i in range(len(mine))]), values)
