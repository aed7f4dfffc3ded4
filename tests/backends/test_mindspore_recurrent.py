"""Recurrent layers as MindSpore source: against torch, in both modes and at two batch sizes."""

from pathlib import Path

import numpy as np
import pytest

from .test_mindspore_source import assert_same, floats, imported, ms, nn, regraft, torch

from regraft.backends.mindspore_source import write  # isort: skip
from regraft.ir import BackendError  # isort: skip


def emitted(model, inputs, folder: Path, **options):
    """The emitted module and its text; checked in both modes on `inputs`, and at a batch of 3."""
    graph = regraft.rewrite(regraft.load(model.eval(), tuple(inputs), **options)).graph
    write(graph, folder)
    module = imported(folder / "model.py")
    net = module.build()
    assert_same(model, net, inputs)
    assert set(net.parameters_dict()) == {n for n, _ in net.parameters_and_names()}
    return module, (folder / "model.py").read_text()


class Inside(nn.Module):
    """A recurrent layer that is no root, batch first; its states given or not, all results used."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *hx):
        hx = tuple(h.transpose(0, 1) for h in hx)
        y, last = self.layer(x, None if not hx else hx if len(hx) > 1 else hx[0])
        last = last if isinstance(last, tuple) else (last,)
        return y, *(h.transpose(0, 1) for h in last)


ARGUMENTS = [
    {"num_layers": 2, "bidirectional": True, "dropout": 0.2},
    {"bias": False, "num_layers": 2},
]


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
def test_stacks(cls, arguments, given, tmp_path):
    layer = Inside(cls(4, 5, batch_first=True, **arguments))
    rows = arguments.get("num_layers", 1) * (2 if arguments.get("bidirectional") else 1)
    states = [floats(3, rows, 5, seed=s) for s in range(2 if cls is nn.LSTM else 1)] if given else []
    module, text = emitted(layer, [floats(2, 3, 4), *(s[:2] for s in states)], tmp_path)
    assert f"self.layer = nn.{cls.__name__}(" in text
    assert text.count("class ") == 1
    assert_same(layer, module.build(), [floats(3, 3, 4), *states], modes=(ms.PYNATIVE_MODE,))
    names = [n for n, _ in layer.named_parameters()]
    assert sorted(n for n, _ in module.build().parameters_and_names()) == sorted(names)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(4, 5), nn.GRUCell(5, 6, bias=False)
        self.rnn = nn.RNNCell(6, 3, nonlinearity="relu")

    def forward(self, x):
        h, c = self.lstm(x[:, 0])
        for t in range(1, x.size(1)):
            h, c = self.lstm(x[:, t], (h, c))
        g = self.gru(h)
        return self.rnn(g, g[:, :3]), c


def test_cells(tmp_path):
    module, text = emitted(Cells(), [floats(2, 3, 4)], tmp_path)
    assert "h, c = self.lstm(" in text
    assert text.count("class ") == 1
    assert [type(c).__name__ for c in module.build().cells()] == ["LSTMCell", "GRUCell", "RNNCell"]


@pytest.mark.parametrize("shape", [(3, 2, 4), (3, 4)], ids=["sequence first", "unbatched"])
def test_layouts(shape, tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(4, 5, bidirectional=True)

        def forward(self, x):
            y, h = self.gru(x)
            return h, y[0]

    _, text = emitted(Net(), [floats(*shape)], tmp_path, dynamic_batch=False)
    assert "self.gru = nn.GRU(4, 5, bidirectional=True)" in text


def test_a_root_that_is_a_layer(tmp_path):
    _, text = emitted(nn.LSTM(4, 5, batch_first=True), [floats(2, 3, 4)], tmp_path)
    assert "x, (h, c) = self.lstm(x)" in text


def test_only_the_last_state(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstms = nn.ModuleList(nn.LSTM(4, 4, batch_first=True) for _ in range(3))
            self.last = nn.LSTM(4, 5, batch_first=True)

        def forward(self, x):
            for lstm in self.lstms:
                x, _ = lstm(x)
            _, (h, _) = self.last(x)
            return h[-1]

    _, text = emitted(Net(), [floats(2, 3, 4)], tmp_path)
    assert "_, (h, _) = self.last(x)" in text
    assert "x, _ = lstm(x)" in text


def test_initial_distributions(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = nn.LSTM(20, 64, batch_first=True)
            self.other = nn.GRU(64, 64, batch_first=True)
            nn.init.xavier_uniform_(self.other.weight_ih_l0)
            nn.init.zeros_(self.other.bias_ih_l0)
            nn.init.zeros_(self.other.bias_hh_l0)

        def forward(self, x):
            return self.other(self.plain(x)[0])[0]

    torch.manual_seed(0)
    module, _ = emitted(Net(), [floats(2, 3, 20)], tmp_path)
    drawn = {n: p.asnumpy() for n, p in module.build(checkpoint=None).parameters_and_names()}
    for name in ("plain.weight_ih_l0", "plain.weight_hh_l0", "plain.bias_hh_l0", "other.weight_hh_l0"):
        bound = 1 / 8
        assert np.abs(drawn[name]).max() <= bound
        assert drawn[name].std() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert drawn["other.weight_ih_l0"].std() == pytest.approx((2 / (192 + 64)) ** 0.5, rel=0.05)
    assert not drawn["other.bias_ih_l0"].any()
    assert not drawn["other.bias_hh_l0"].any()


def test_usual_distributions_on_request(tmp_path):
    graph = regraft.rewrite(regraft.load(nn.LSTM(4, 16, batch_first=True), (floats(2, 3, 4),))).graph
    write(graph, tmp_path, explicit_initializers=True)
    text = (tmp_path / "model.py").read_text()
    assert "weight=Uniform(1 / math.sqrt(16))" in text
    drawn = imported(tmp_path / "model.py").build(checkpoint=None).parameters_dict()
    assert all(0.15 < np.abs(p.asnumpy()).max() <= 0.25 for p in drawn.values())


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_projection_is_written_out(bidirectional, tmp_path):
    """MindSpore's layer has none; trained as in torch, too."""
    net = nn.LSTM(4, 5, proj_size=3, batch_first=True, bidirectional=bidirectional)
    graph = regraft.load(net, (floats(2, 3, 4),))
    write(regraft.rewrite(graph).graph, tmp_path)
    assert "def onnx_lstm(" in (tmp_path / "model.py").read_text()
    report = regraft.verify(graph, tmp_path, train=True)
    assert report.passed, report.render()


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRUCell])
def test_shared_parameters_are_tied_where_mindspore_can(cls, tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = cls(4, 4), cls(4, 4)
            name = "weight_hh_l0" if cls is nn.LSTM else "weight_hh"
            setattr(self.second, name, getattr(self.first, name))

        def forward(self, x):
            if cls is nn.LSTM:
                return self.second(self.first(x)[0])[0]
            return self.second(x, self.first(x))

    if cls is nn.LSTM:
        graph = regraft.rewrite(regraft.load(Net(), (floats(2, 3, 4),))).graph
        with pytest.raises(BackendError, match="recurrent stacks with parameters of their own"):
            write(graph, tmp_path)
    else:
        _, text = emitted(Net(), [floats(2, 4)], tmp_path)
        assert "self.second.weight_hh = self.first.weight_hh  # tied" in text
