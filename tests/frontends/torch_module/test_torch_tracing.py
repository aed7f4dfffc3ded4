"""Exporting at less cost gives the same graph, and leaves torch and the module as they were."""

import contextlib
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._export import utils as export_utils
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _traceback

import regraft
from regraft.frontends.torch_module.export import capture, shape_rules, tracer_state, tracing
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


class Nested(nn.Module):
    """Calls itself on one line, so that Python shows few of the frames."""

    def forward(self, x, depth):
        return self.forward(x, depth - 1) if depth else nn.functional.relu(x)


@pytest.mark.parametrize("depth", [0, 2, 3, 4, 6])
def test_the_lines_that_lead_to_a_node_are_those_that_torch_gives(depth, monkeypatch):
    found = []

    def both(tracer):
        frames = tracer._filter_traceback_frames(_traceback.CapturedTraceback.extract().summary())
        found.append((tracer_state.lines_here(tracer), "".join(frames.format()).strip()))
        return found[-1][0]

    monkeypatch.setattr(tracing, "lines_here", both)
    regraft.load(nn.ModuleDict({"a": Nested()})["a"], (np.zeros((2, 3), np.float32), depth))
    assert any("in forward" in ours for ours, _ in found)
    assert any("repeated" in ours for ours, _ in found) is (depth > 2)
    assert all(ours == torchs for ours, torchs in found)


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


def _symbolic(mode, shape, dtype=torch.float32):
    """A fake tensor whose sizes are symbols where they are negative."""
    context = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC if n < 0 else DimDynamic.STATIC for n in shape]
    )
    return mode.from_tensor(torch.zeros([abs(n) for n in shape], dtype=dtype), symbolic_context=context)


AT = torch.ops.aten
IMAGE, ROWS, BATCH = (-5, 6, 8, 9), (-5, 6), (-5, 7, 6)
RULED = [
    (AT.gelu.default, lambda new: [new(IMAGE)]),
    (AT.gelu.default, lambda new: [new(IMAGE, torch.float64)]),
    (AT.hardtanh.default, lambda new: [new(IMAGE), 0.0, 6.0]),
    (AT.silu.default, lambda new: [new(ROWS)]),
    (AT.native_layer_norm.default, lambda new: [new(BATCH), [6], new((6,)), new((6,)), 1e-5]),
    (AT.native_layer_norm.default, lambda new: [new(BATCH), [7, 6], None, None, 1e-5]),
    (AT._softmax.default, lambda new: [new(BATCH), -1, False]),
    (AT.addmm.default, lambda new: [new((4,)), new(ROWS), new((6, 4))]),
    (AT.mm.default, lambda new: [new(ROWS), new((6, 4))]),
    (AT.bmm.default, lambda new: [(x := new(BATCH)), AT.transpose.int(x, 1, 2)]),
    (AT.cat.default, lambda new: [[(x := new(IMAGE)), x.clone(), x[:, :2].clone()], 1]),
    (AT.cat.default, lambda new: [[(x := new(IMAGE)), x.clone()], -1]),
    (AT.convolution.default, lambda new: [new(IMAGE), new((4, 3, 3, 2)), new((4,)), *_conv(2)]),
    (AT.convolution.default, lambda new: [new(IMAGE), new((4, 6, 1, 1)), None, *_conv(1)]),
    (AT.view.default, lambda new: [(x := new(IMAGE)), [x.shape[0] * 6, 72]]),
    (AT.view.default, lambda new: [(x := new(IMAGE)), [x.shape[0], 2, 3, 4, 18]]),
    (AT.permute.default, lambda new: [new(IMAGE), [0, 2, -1, 1]]),
    (AT.transpose.int, lambda new: [new(IMAGE), 1, -1]),
    (AT.t.default, lambda new: [new(ROWS)]),
]
UNRULED = [
    (AT.gelu.default, lambda new: [AT.permute.default(new(IMAGE), [0, 3, 1, 2])]),
    (AT.gelu.default, lambda new: [new(IMAGE)[:, ::2]]),
    (AT.cat.default, lambda new: [[new(BATCH), new(BATCH, torch.float64)], 1]),
    (AT.cat.default, lambda new: [[(x := new(IMAGE)), x[:, :, :0]], 2]),
    (AT.convolution.default, lambda new: [new((-5, 6, -8, 9)), new((4, 3, 3, 2)), new((4,)), *_conv(2)]),
    (AT.view.default, lambda new: [new(IMAGE), [-1, 72]]),
    (AT.view.default, lambda new: [AT.permute.default(new((-5, 6, 1, 9)), [0, 2, 1, 3]), [-1, 54]]),
    (AT.addmm.default, lambda new: [(x := new(ROWS)), x, new((6, 6))]),
]


def _conv(groups):
    return [2, 1], [1, 0], [1, 2], False, [0, 0], groups


@pytest.mark.parametrize(("operator", "make"), [*RULED, *UNRULED])
def test_a_rule_finds_what_torch_finds_and_asks_nothing(operator, make):
    mode = FakeTensorMode(shape_env=ShapeEnv())
    given = make(lambda shape, dtype=torch.float32: _symbolic(mode, shape, dtype))
    guards = len(mode.shape_env.guards)
    found = shape_rules._rules()[operator](*given)
    assert len(mode.shape_env.guards) == guards
    assert (found is not None) is ((operator, make) in RULED)
    if found is not None:
        wanted = operator(*given)
        found, wanted = ([x] if isinstance(x, torch.Tensor) else x for x in (found, wanted))
        for a, b in zip(found, wanted, strict=True):
            assert repr((a.shape, a.stride(), a.dtype, a.device)) == repr(
                (b.shape, b.stride(), b.dtype, b.device)
            )
            first = given[0][0] if isinstance(given[0], list) else given[0]
            assert torch.SymInt in map(type, a.shape)
            shared = [t.untyped_storage()._cdata == first.untyped_storage()._cdata for t in (a, b)]
            assert shared[0] is shared[1]


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


def test_fakes_of_parameters_are_those_that_torch_makes() -> None:
    net = torch.nn.Module()
    dense = torch.nn.Parameter(torch.randn(3, 4), requires_grad=False)
    net.plain, net.again = dense, dense
    net.short = torch.nn.Parameter(torch.randn(2).half(), requires_grad=False)
    net.number = torch.nn.Parameter(torch.tensor(1.0), requires_grad=False)
    net.shared = torch.nn.Parameter(dense.detach(), requires_grad=False)
    net.row = torch.nn.Parameter(dense.detach()[1], requires_grad=False)
    net.turned = torch.nn.Parameter(torch.randn(3, 4).t(), requires_grad=False)
    net.empty = torch.nn.Parameter(torch.randn(0, 4), requires_grad=False)
    net.trained = torch.nn.Parameter(torch.randn(3))
    net.register_buffer("counter", torch.zeros(2))

    def described(*, ours: bool) -> list[object]:
        mode, tensors = FakeTensorMode(), dict(net.named_parameters(remove_duplicate=False))
        made = tracer_state.make_fakes(mode, tensors.values()) if ours else []
        fakes = export_utils._fakify_params_buffers(mode, net)
        assert bool(made) is ours
        assert {id(t) for t in made} <= {id(t) for t in fakes.values()}
        memories: dict[int, int] = {}
        return [
            (
                *(name, fake.shape, fake.stride(), fake.storage_offset(), fake.dtype, fake.device),
                *(fake.requires_grad, fake.is_leaf, fake._version, isinstance(fake, torch.nn.Parameter)),
                *(fake.untyped_storage().nbytes(), type(fake), sorted(fake.__dict__)),
                memories.setdefault(fake.untyped_storage()._cdata, len(memories)),
                [id(fake) == id(other) for other in fakes.values()],
            )
            for name, fake in fakes.items()
        ]

    assert described(ours=True) == described(ours=False)
