"""Packed sequences: recurrent layers of padded ones beside their lengths, right in both directions."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession
from torch import nn
from torch.nn.utils import rnn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import regraft
from regraft.backends.onnx_model import to_model
from regraft.ir import ModelError

X = torch.randn(3, 7, 4)
LENGTHS = torch.tensor([4, 7, 1])


class Both(nn.Module):
    """Two layers in both directions, whose last states go out; what is padded is another number."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer = kind(4, 6, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, states = self.layer(packed)
        y, n = rnn.pad_packed_sequence(out, batch_first=True, padding_value=-1.0, total_length=x.shape[1])
        return y, states, n


class Stacked(nn.Module):
    """Layers behind each other with steps first, functions by name, as many steps as the longest has."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(4, 5, proj_size=3)
        self.second = nn.RNN(3, 4, nonlinearity="relu")

    def forward(self, x, lengths):
        packed, (h, c) = self.first(pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False))
        packed, last = self.second(packed)
        y, _ = pad_packed_sequence(packed)
        return y.max(0)[0], h, c, last


class Started(nn.Module):
    """Initial states, sequences in order of their lengths, and room for more steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 4, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        out, last = self.layer(packed, x[:, 0].unsqueeze(0))
        return pad_packed_sequence(out, batch_first=True, total_length=9)[0], last


SORTED = torch.tensor([7, 4, 2])
CASES = {
    "LSTM": (lambda: Both(nn.LSTM), LENGTHS),
    "GRU": (lambda: Both(nn.GRU), LENGTHS),
    "RNN": (lambda: Both(nn.RNN), LENGTHS),
    "stacked": (Stacked, LENGTHS),
    "shorter than the tensor": (Stacked, torch.tensor([2, 5, 3])),
    "with states": (Started, SORTED),
}


@pytest.mark.parametrize("name", CASES)
def test_packed_sequences_are_computed_by_their_lengths(name):
    make, lengths = CASES[name]
    torch.manual_seed(0)
    net = make().eval()
    graph = regraft.load(net, (X, SORTED if make is Started else LENGTHS))
    session = InferenceSession(to_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(net(X, lengths))
    found = session.run(None, dict(zip(names, (X.numpy(), lengths.numpy()), strict=True)))
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == tuple(b.shape)
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-5)
    assert not isinstance(rnn.pack_padded_sequence(X, [7, 7, 7], True).data, property)  # all is put back


@pytest.mark.filterwarnings("ignore")  # torch deprecates writing such archives; people have them
@pytest.mark.parametrize("name", ["LSTM", "GRU", "with states"])
def test_archives_compute_them_by_their_lengths(name, tmp_path):
    make, lengths = CASES[name]
    torch.manual_seed(0)
    net = make().eval()
    given = (X, SORTED if make is Started else LENGTHS)
    for script in (torch.jit.script(net), torch.jit.trace(net, given, check_trace=False)):
        torch.jit.save(script, tmp_path / "net.pt")
        graph = regraft.load(tmp_path / "net.pt", given)
        assert not any("example" in note for note in graph.origin.notes), graph.origin.notes
        session = InferenceSession(to_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        found = session.run(None, dict(zip(names, (X.numpy(), lengths.numpy()), strict=True)))
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(script(X, lengths))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_source_computes_them_by_their_lengths(target, tmp_path):
    torch.manual_seed(0)
    net = Both(nn.LSTM).eval()
    graph = regraft.load(net, ["3x7x4", "lengths=3:int64[1,8)"])
    regraft.save(regraft.rewrite(graph, to=target), tmp_path / "out", to=target)
    report = regraft.verify(graph, tmp_path / "out")
    assert report.passed, report.render()
    if target == "torch":
        built = runpy.run_path(str(tmp_path / "out" / "model.py"))["build"](None)
        built.load_state_dict(net.state_dict())


def test_code_that_takes_the_steps_is_refused():
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.dense = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 2)

        def forward(self, x, lengths):
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return self.dense(self.layer(packed)[0].data)

    with pytest.raises(ModelError, match=r"E104 .*steps of a PackedSequence"):
        regraft.load(Steps().eval(), (X, LENGTHS))
