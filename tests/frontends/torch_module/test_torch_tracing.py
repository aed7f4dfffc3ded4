"""Exporting at less cost gives the same graph, and leaves torch and the module as they were."""

import contextlib
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx.experimental import proxy_tensor
from torch.utils import _traceback

import regraft
from regraft.frontends.torch_module.export import capture
from regraft.frontends.torch_module.export import opaque_layers as whole


class Block(nn.Module):
    """BatchNormalization on each kind of layout, activations in place, a region without gradients."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8, affine=False)])
        self.flat = nn.BatchNorm1d(8)
        self.act = nn.SiLU(inplace=True)
        self.conv.bias.requires_grad = False

    def forward(self, x):
        y = self.act(self.norms[0](self.conv(x)))
        with torch.no_grad():
            z = self.norms[1](y.to(memory_format=torch.channels_last))
        return self.flat((y + z.detach()).mean((2, 3)))


def test_the_graph_is_the_same_without_any_saving(monkeypatch):
    net, x = Block(), np.zeros((2, 3, 8, 8), np.float32)
    lean = regraft.load(net, (x,))
    monkeypatch.setattr(capture, "lean_tracing", lambda _module: contextlib.nullcontext())
    plain = regraft.load(net, (x,))
    assert str(lean) == str(plain)
    assert lean.origin.notes == plain.origin.notes
    places = {node.location for node in lean.operators()}
    assert places == {node.location for node in plain.operators()}
    assert any(Path(__file__).name in place for place in places)


@pytest.mark.parametrize("fails", [False, True])
def test_torch_and_the_module_are_left_as_they_were(fails):
    net = Block()
    trained = {name: p.requires_grad for name, p in net.named_parameters()}
    functions = proxy_tensor._extract_tensor_metadata, _traceback._extract_symbolized_tb
    shape = (2, 4 if fails else 3, 8, 8)
    with pytest.raises(regraft.RegraftError) if fails else contextlib.nullcontext():
        regraft.load(net, (np.zeros(shape, np.float32),))
    assert {name: p.requires_grad for name, p in net.named_parameters()} == trained
    assert functions == (proxy_tensor._extract_tensor_metadata, _traceback._extract_symbolized_tb)


def test_channels_that_do_not_fit_a_normalisation_are_refused():
    net = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(6))
    with pytest.raises(regraft.RegraftError, match="E103"):
        regraft.load(net, (np.zeros((2, 3, 4, 4), np.float32),))


@pytest.mark.parametrize("rank", [2, 3])
def test_shapes_of_attention_without_masks_are_torchs(rank):
    for first, need, average, own in itertools.product([False, True], repeat=4):
        sizes = {"kdim": 5, "vdim": 7} if own else {}
        layer = nn.MultiheadAttention(8, 2, batch_first=first, **sizes)
        batch = [] if rank == 2 else [3]
        q, k, v = (
            torch.zeros(*(batch if first else ()), length, *(() if first else batch), width)
            for length, width in ((4, 8), (6, sizes.get("kdim", 8)), (6, sizes.get("vdim", 8)))
        )
        projections = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        y, weights = whole._shapes(
            *(q, k, v, layer.out_proj.weight, layer.out_proj.bias, layer.in_proj_weight, layer.in_proj_bias),
            *(*projections, None, None, None, None, 2, first, 0.0, False, False, need, average),
        )
        wanted, wanted_weights = layer(q, k, v, need_weights=need, average_attn_weights=average)
        assert y.shape == wanted.shape
        assert y.is_contiguous()
        assert weights.shape == (wanted_weights.shape if need else (0,))


@pytest.mark.parametrize("wrong", ["width", "batch", "length"])
def test_attention_over_operands_that_do_not_go_together_is_torchs_error(wrong):
    q, k = torch.zeros(3, 4, 8), torch.zeros(3, 6, 8)
    k = {"width": k[..., :7], "batch": k[:2], "length": k}[wrong]
    v = k[:, :5] if wrong == "length" else k

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, q, k, v):
            return self.attend(q, k, v)[0]

    with pytest.raises(regraft.RegraftError):
        regraft.load(Net(), (q, k, v), dynamic_batch=False)


class Switched(nn.Module):
    """Computes something else in training; `asks` looks at a value on the way."""

    def __init__(self, asks):
        super().__init__()
        self.asks = asks

    def forward(self, x):
        if self.asks and self.training and float(x.detach().sum()) > 1e9:
            return x
        return torch.sin(x) * 2 if self.training else torch.sin(x)


@pytest.mark.parametrize("asks", [False, True])
def test_training_is_looked_at_without_values_where_the_code_asks_for_none(asks):
    graph = regraft.load(Switched(asks), (np.ones((2, 3), np.float32),))
    assert any("the root module computes something else" in note for note in graph.origin.notes)
