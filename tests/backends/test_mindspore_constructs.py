"""What real models do between their layers, as MindSpore source: against torch, at another batch size too."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regraft
from regraft.ir import parse

NUMBER = count()

pytestmark = pytest.mark.xdist_group("mindspore")


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> object:
        return self.function(*arguments)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_same(model: object, folder: Path, *inputs: np.ndarray, batches: tuple[int, ...] = (2, 3)) -> str:
    """Emit, run in PyNative mode at every batch size, compare; returns the source."""
    import mindspore as ms

    module = model if isinstance(model, torch.nn.Module) else Function(model)
    graph = regraft.rewrite(regraft.load(module, inputs)).graph
    regraft.save(graph, folder, to="mindspore")
    net = load_emitted(folder).build()
    with mode_of(ms.PYNATIVE_MODE):
        for batch in batches:
            given = [np.concatenate([i, i[:1]])[:batch] if i.shape[0] == 2 else i for i in inputs]
            with torch.no_grad():
                want = module(*[torch.from_numpy(g.copy()) for g in given])
            got = net(*[ms.Tensor(g) for g in given])
            want = want if isinstance(want, (list, tuple)) else [want]
            got = got if isinstance(got, (list, tuple)) else [got]
            for w, g in zip(want, got, strict=True):
                assert g.shape == tuple(w.shape)
                np.testing.assert_allclose(g.asnumpy(), w.numpy(), rtol=1e-4, atol=2e-5)
    return (folder / "model.py").read_text()


def load_emitted(folder: Path) -> ModuleType:
    """The emitted file as a module that MindSpore can compile from."""
    name = f"constructs_{next(NUMBER)}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    emitted = importlib.util.module_from_spec(spec)
    sys.modules[name] = emitted
    spec.loader.exec_module(emitted)
    return emitted


@contextmanager
def mode_of(mode: int) -> Iterator[None]:
    """PyNative or graph mode, and what was before afterwards."""
    import mindspore as ms

    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    try:
        yield
    finally:
        ms.set_context(mode=before)


def test_einsum_of_every_kind(tmp_path):
    """One or many rows, columns and summed axes, none of them, an ellipsis, axes of one operand only."""

    def function(x, y, z, row):
        return [
            torch.einsum("bnd,csd->bcns", x, y),
            torch.einsum("bqc,bqhw->bchw", x, z),
            torch.einsum("...d,csd->...cs", x, y),
            torch.einsum("bnd,d->bn", x, row),
            torch.einsum("bnd,bnd->bn", x, x),
            torch.einsum("bni,bnj->bnij", x, x),
            torch.einsum("bnd,d,bnd->bn", x, row, x),
            torch.einsum("bnij->ijbn", z),
            torch.einsum("bnij,chd->bc", z, y),
            torch.einsum("bnii->bni", z[..., :3, :]),
            torch.einsum("nbb,cbb->ncb", x[:, :2, :2], y[:, 3:, :2]),
            torch.einsum("bbb->b", y[:3, :3, :3]),
        ]

    assert_same(function, tmp_path / "out", floats(2, 3, 4), floats(6, 5, 4), floats(2, 3, 5, 3), floats(4))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions_of_strides_wider_than_the_kernel(tmp_path, rank):
    """Beside one whose kernel covers the stride, which is of the same class of source."""
    layer = getattr(torch.nn, f"ConvTranspose{rank}d")
    net = torch.nn.Sequential(layer(2, 3, 2, stride=3), layer(3, 3, 3, stride=3), layer(3, 2, 1, stride=2))
    assert_same(net, tmp_path / "out", floats(2, 2, *[3, 2, 2][:rank]))


def test_einsum_of_several_computed_sizes(tmp_path):
    """Groups of axes with a computed size beside another one."""

    def function(x, y):
        many = x.shape[0] + 1
        x, y = x.repeat(many, 1, 1).unflatten(0, (many, -1)), y.repeat(many, 1, 1).unflatten(0, (many, -1))
        return [
            torch.einsum("nbsc,nbtd->nbsctd", x, y),
            torch.einsum("nbsc,nbsd->nscd", x, y),
            torch.einsum("nbsc,mbsd->nmdc", x, y),
        ]

    assert_same(function, tmp_path / "out", floats(2, 3, 4), floats(2, 3, 5))


def test_scatters_of_indices_spread_along_several_axes(tmp_path):
    """Slices of rows by an index of each, with rows as many as the batch, and with a size of its own."""

    def function(x, at):
        rows = at.view(-1, 1, 1)
        return [
            torch.zeros(5, 3, 4).scatter_add(0, rows.expand_as(x), x),
            torch.zeros(5, 3, 4).scatter_reduce(0, rows.expand(-1, 3, 4), x, "amax"),
            torch.zeros(2, 5, 3, 4).scatter_add(1, rows[None].expand(2, -1, 3, 4), torch.stack([x, -x])),
        ]

    assert_same(function, tmp_path / "out", floats(2, 3, 4), np.array([4, 1]))


def test_positions_of_a_quantile_along_a_computed_size(tmp_path):
    at = torch.tensor([0.1, 0.5, 0.9])
    assert_same(lambda x: [torch.quantile(x, at, 0, keepdim=True)], tmp_path / "out", floats(2, 3))


def test_matrices_repeated_for_a_computed_batch(tmp_path):
    assert_same(lambda x: list(torch.linalg.qr(x)), tmp_path / "out", floats(2, 3, 2))


def test_equal_constants_are_written_once(tmp_path):
    first, second = torch.tensor([1.0, 2.0, -0.0]), torch.tensor([1.0, 2.0, 0.0])
    source = assert_same(
        lambda x: [(x + first) * first.clone() / (x + second)], tmp_path / "out", floats(2, 3)
    )
    assert source.count("Tensor(") == 2


class PaddedInFront(torch.nn.Conv1d):
    def forward(self, x):
        return super().forward(F.pad(x, (2, 0)))


def test_a_layer_in_one_dimension_that_pads_in_front_alone(tmp_path):
    assert_same(torch.nn.Sequential(PaddedInFront(2, 3, 3)), tmp_path / "out", floats(2, 2, 5))


def test_indices_from_the_end_and_slices(tmp_path):
    def function(x):
        return [
            x[:, :, [-1]],
            x[:, [-1, 0]],
            x[:, [1, 2]],
            x[:, [1, -2], [0, -1]],
            x.flip(-1),
            x.flip(1, 2),
            x[:, 1:] - x[:, :-1],
            x[x.shape[0] - 1 :],
            x.reshape(x.shape[0] * 2, -1) * x.shape[0],
        ]

    source = assert_same(function, tmp_path / "out", floats(2, 4, 3))
    assert "[:, 1:3]" in source  # two neighbours are a slice
    assert ".shape[0] - 1) :]" in source


def test_sizes_of_the_batch_and_others_compared(tmp_path):
    """The smaller of two sizes is Python's own `min`."""
    source = assert_same(lambda x: [x.diagonal(), x.diagonal(1)], tmp_path / "out", floats(2, 4, 3))
    assert "min(" in source


def test_writes_with_steps_and_into_the_batch(tmp_path):
    def function(x):
        y = x.clone()
        y[:, ::2] *= 2
        y[0, 1:3] = 0
        y[..., 1] = y[..., 0]
        return y

    assert_same(function, tmp_path / "out", floats(2, 5, 4))


@pytest.mark.parametrize(
    "options",
    [
        {"size": (7, 9), "mode": "bicubic"},
        {"size": (37, 23), "mode": "bicubic", "align_corners": True},
        {"size": (2, 2), "mode": "bilinear", "antialias": True},
        {"size": (3, 8), "mode": "bicubic", "antialias": True},
        {"size": (2, 3), "mode": "nearest-exact"},
        {"scale_factor": 0.5, "mode": "bilinear"},
        {"scale_factor": 1.7, "mode": "nearest"},
    ],
)
def test_interpolation(tmp_path, options):
    """What ops.interpolate computes otherwise is a product with the weights of each axis."""
    assert_same(lambda x: F.interpolate(x, **options), tmp_path / "out", floats(2, 3, 5, 7))


def test_the_nearest_of_places_that_tie(tmp_path: Path) -> None:
    """The ninth of ten places lies at 4.5 in float32, and before it in float64."""
    nearest = torch.nn.Upsample(scale_factor=1.7, mode="nearest-exact")
    assert_same(nearest, tmp_path, floats(2, 3, 6, 10))


def test_samples_at_places_and_halves_of_two_batches(tmp_path):
    """The look-ups of optical flow: both images in one batch, sampled around moving places."""

    def function(x, y):
        a, b = torch.cat([x, x + y]).chunk(2)  # which says that there are as many of both
        grid = a[:, :2].permute(0, 2, 3, 1).tanh()
        return [
            F.grid_sample(b, grid, align_corners=True),
            F.grid_sample(b, 2 * grid, "nearest", "reflection", align_corners=False),
            F.grid_sample(b, 2 * grid, "bicubic", "border", align_corners=False),
        ]

    source = assert_same(function, tmp_path / "out", floats(2, 3, 4, 5), floats(2, 3, 4, 5, seed=1))
    assert source.count("ops.grid_sample(") == 2
    assert "ops.chunk(" in source


@pytest.mark.parametrize(
    "slices",
    [
        lambda x: x.unbind(0),
        lambda x: (x[0], x[1], x[-1]),
        lambda x: x.permute(1, 2, 0).unbind(-1),
    ],
)
def test_slices_of_a_whole_axis_are_unstacked(slices, tmp_path):
    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = slices(torch.stack([x, 2 * x, x + 1]))
        return q * k - v

    source = assert_same(Function(attend), tmp_path, floats(2, 4))
    assert re.search(r"q, k, v = ops\.unbind\(", source)


def test_one_slice_of_an_axis_is_a_subscript(tmp_path):
    source = assert_same(Function(lambda x: x[:, 0] + x[:, 2]), tmp_path, floats(2, 3, 4))
    assert "[:, 0]" in source
    assert "[:, 2]" in source
    assert "unbind" not in source


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_with_computed_weights(tmp_path, rank):
    """Padding that is the same everywhere, that differs between the axes, and on one side only."""
    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    one_sided = [0, 1] + [1, 2] * (rank - 1)

    def function(x, weight):
        scaled = weight.tanh()
        return [
            conv(x, scaled, padding=1),
            conv(x, scaled, padding=tuple(range(rank)), stride=2),
            conv(F.pad(x, one_sided), scaled, stride=2),
        ]

    sizes = (5, 6, 7)[:rank]
    assert_same(function, tmp_path / "out", floats(2, 3, *sizes), floats(4, 3, *[3] * rank))


@pytest.mark.parametrize("rank", [2, 4])
def test_batch_normalisation_with_a_computed_scale(tmp_path: Path, rank: int) -> None:
    class Scaled(torch.nn.Module):
        """Its own statistics, a scale that is the exponential of a parameter, a shift that is a constant."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(3).eval()
            torch.nn.init.normal_(self.norm.running_mean)
            torch.nn.init.uniform_(self.norm.running_var, 0.5, 2)

        def forward(self, x):
            scale, shift = self.norm.weight.exp(), torch.full((3,), 0.5)
            return F.batch_norm(x, self.norm.running_mean, self.norm.running_var, scale, shift)

    source = assert_same(Scaled(), tmp_path, floats(2, 3, *[5] * (rank - 2)))
    assert "ops.batch_norm(" in source


@pytest.mark.parametrize("size", [3, 5, 7])
def test_normalisation_across_channels(size: int, tmp_path: Path) -> None:
    """MindSpore has no kernel for 5 of 16 channels or more."""
    graph = parse(f"""
graph main {{
  %x = input "x" : f32[N,24,6,5]
  %y = LRN(%x) {{alpha=0.02, beta=0.75, bias=2.0, size={size}}} : f32[N,24,6,5]
  return "y" = %y
}}""")
    regraft.save(graph, tmp_path, to="mindspore")
    assert ("ops.lrn" in (tmp_path / "model.py").read_text()) == (size != 5)
    assert regraft.verify(graph, tmp_path, {"x": 9 * floats(2, 24, 6, 5)}).passed


def test_a_vector_flattened_is_a_column(tmp_path: Path) -> None:
    """MindSpore leaves a vector a vector."""
    graph = parse("""
graph main {
  %x = input "x" : f32[N]
  %y = Flatten(%x) {axis=1} : f32[N,1]
  return "y" = %y
}""")
    regraft.save(graph, tmp_path, to="mindspore")
    assert regraft.verify(graph, tmp_path, {"x": floats(4)}).passed


class Stage(torch.nn.Sequential):
    """A stage whose blocks are called as no attribute can be."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("block-0", "1st", "class", "cells"):
            self.add_module(name, torch.nn.Linear(3, 3))


def test_two_optional_children_in_every_combination(tmp_path: Path) -> None:
    class Block(torch.nn.Module):
        """A residual block with or without a projection of the shortcut, with or without a gate."""

        def __init__(self, channels: int, out: int, *, gated: bool) -> None:
            super().__init__()
            self.shortcut = torch.nn.Conv2d(channels, out, 1) if channels != out else None
            self.conv = torch.nn.Conv2d(channels, out, 3, padding=1)
            self.gate = torch.nn.Conv2d(out, out, 1) if gated else None

        def forward(self, x):
            y = self.conv(x)
            y = y if self.gate is None else self.gate(y)
            return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))

    stages = [(3, 4, True), (4, 4, True), (4, 4, True), (4, 6, False), (6, 6, False)]
    net = torch.nn.Sequential(*[Block(a, b, gated=gated) for a, b, gated in stages])
    source = assert_same(net, tmp_path, floats(2, 3, 5, 5))
    assert source.count("class Block") == 1


class Residual(torch.nn.Module):
    """A block whose shortcut pools where it has a stride and widens where it has other channels."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, out, 3, stride, 1)
        widen = torch.nn.Sequential(torch.nn.Conv2d(channels, out, 1, bias=False), torch.nn.BatchNorm2d(out))
        parts = [torch.nn.AvgPool2d(stride)] * (stride > 1) + [widen] * (channels != out)
        self.skip = torch.nn.Sequential(*parts) if parts else None

    def forward(self, x):
        return torch.relu(self.conv(x) + (x if self.skip is None else self.skip(x)))


@pytest.mark.parametrize("layer", [False, True])
def test_rows_that_are_hidden_whole(layer: bool, tmp_path: Path) -> None:
    """NaN where all is hidden, as torch has it, and nothing else anywhere."""
    softmax = torch.nn.Softmax(-1)

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.softmax = softmax if layer else None

        def forward(self, x, keep):
            x = x.masked_fill(~keep[:, None], -torch.inf)
            return x.softmax(-1) if self.softmax is None else self.softmax(x)

    keep = np.array([[False] * 4, [True, False, True, True]])
    source = assert_same(Masked(), tmp_path, floats(2, 3, 4), keep)
    assert "ops.softmax(x.expand_dims(-1), axis=-2)" in source


def test_a_causal_mask_hides_no_row(tmp_path: Path) -> None:
    class Causal(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.tril(torch.ones(1, 6, 6)))

        def forward(self, x):
            size = x.shape[-1]
            return x.masked_fill(self.mask[:, :size, :size] == 0, -torch.inf).softmax(-1)

    assert "expand_dims" not in assert_same(Causal(), tmp_path, floats(2, 4, 4))


@pytest.mark.parametrize("staged", [False, True])
def test_shortcuts_of_three_structures(staged: bool, tmp_path: Path) -> None:
    """Identity, pool and convolution, pool alone, convolution alone: each with its own weights' names."""
    blocks = [Residual(*sizes) for sizes in ((2, 2, 1), (2, 4, 2), (4, 4, 2), (4, 6, 2), (6, 8, 1))]
    stages = [torch.nn.Sequential(block) for block in blocks] if staged else blocks
    source = assert_same(torch.nn.Sequential(*stages).eval(), tmp_path, floats(2, 2, 16, 16))
    assert "ABSENT" not in source
    assert source.count("class Residual") == 1


def test_optional_layers_that_share_one_condition(tmp_path: Path) -> None:
    """What widens the channels in a flat inverted residual: a convolution, its norm and its activation."""

    class Inverted(torch.nn.Sequential):
        def __init__(self, channels: int, out: int, times: int) -> None:
            wide = channels * times
            widen = [torch.nn.Conv2d(channels, wide, 1), torch.nn.BatchNorm2d(wide), torch.nn.ReLU6()]
            narrow = [torch.nn.Conv2d(wide, out, 1), torch.nn.BatchNorm2d(out), torch.nn.Sigmoid()]
            super().__init__(*(widen if times != 1 else []), *narrow)

    net = torch.nn.Sequential(*[Inverted(*sizes) for sizes in ((3, 4, 1), (4, 6, 3), (6, 6, 3), (6, 8, 2))])
    source = assert_same(net.eval(), tmp_path, floats(2, 3, 5, 5))
    assert source.count("class Inverted") == source.count("        if ") == 1


def test_sequentials_with_names(tmp_path: Path) -> None:
    """As the whole net, as an attribute, and with names that Python or Cell keep for themselves."""
    assert_same(Stage(), tmp_path / "whole", floats(2, 3))
    source = assert_same(torch.nn.Sequential(Stage(), torch.nn.ReLU()), tmp_path / "part", floats(2, 3))
    for name in ("block_0=", "_1st=", "class_=", "cells_="):
        assert name in source


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [x[:, :0], x[:, :0].abs(), x[:, :0].sum(1), x[:, :0].mean(1), torch.cat([x[:, :0], x], 1)],
        lambda x: [x[:, :0].clamp(max=1), F.pad(x[:, :0, 0], (0, 0)), F.pad(x[:, :0, 0], (1, 1))],
        lambda x: [torch.full((), 2.5), *x[0, 0, 0].max(0), torch.zeros(0, 3), torch.ones(2, 0)],
        lambda x: [torch.arange(4.0).index_select(0, x.argmax(2)[0, :2]), torch.ones(1) @ x[:1, 0, 0]],
        lambda x: [
            F.linear(x[..., :0], torch.ones(5, 0)),
            x[..., :0] @ torch.ones(0, 3),
            x[..., :0] @ x[:, :0],
        ],
    ],
    ids=["slices", "arithmetic", "numbers", "tables", "products"],
)
def test_tensors_of_no_elements_and_of_one(tmp_path, function):
    """Constants of shape (0, 3) keep it; one number is a tensor where MindSpore takes no number."""
    assert_same(function, tmp_path / "out", floats(2, 3, 4))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_of_no_inputs(bias: bool, tmp_path: Path) -> None:
    """MindSpore leaves its product uninitialised."""

    class Ends(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrow = torch.nn.Linear(3, 0)
            self.widen = torch.nn.Linear(0, 5, bias=bias)

        def forward(self, x):
            return self.widen(self.narrow(x))

    assert_same(Ends(), tmp_path, floats(2, 3))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("padding", ["same", (1, 2, 1)], ids=["same", "axes"])
def test_functional_convolutions_with_padding(tmp_path, rank, padding):
    """The functions take one number an axis; more at the end of one is padded before."""
    padding = padding if isinstance(padding, str) else padding[:rank]
    convolve = getattr(F, f"conv{rank}d")
    inputs = floats(2, 3, *[7, 6, 5][:rank]), floats(4, 3, *[4, 3, 2][:rank])
    assert_same(lambda x, w: convolve(x, w, padding=padding), tmp_path / "out", *inputs)


def test_element_types_that_layers_do_not_take(tmp_path):
    """ReLU6 is one of float32; the mean of the squares of halves is in float32, where none overflows."""

    def function(x):
        half = (x * 300).half()
        return [
            F.relu6((x * 9).long()),
            F.relu6(x.double() * 9),
            F.rms_norm(half, (4,), torch.full((4,), 0.5).half()).float(),
        ]

    assert_same(function, tmp_path / "out", floats(2, 3, 4))


def test_unique_values_with_their_places_and_counts(tmp_path):
    """MindSpore numbers them in the order in which they occur."""
    ids = np.random.default_rng(0).integers(0, 5, (4, 3))

    def function(x):
        return [*torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x)]

    assert_same(function, tmp_path / "out", ids)


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "precise"), [(20, False), (90, True)])
def test_sigmoids_of_deep_nets(tmp_path: Path, layers: int, precise: bool) -> None:
    """MindSpore's kernel is 8e-7 off on CPU, which adds up in an EfficientNet; both modes, and gradients."""
    import mindspore as ms

    class Deep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.gate = torch.nn.SiLU(), torch.nn.Sigmoid()

        def forward(self, x):
            gates = torch.stack([self.gate(x + n / 9) for n in range(layers // 2)])
            return gates, torch.stack([F.silu(x - n / 9) for n in range(layers // 2)])

    x = np.concatenate([np.linspace(-6, 6, 4001), [-200.0, 200.0]]).astype(np.float32)[None]
    source = assert_same(Deep(), tmp_path, x, batches=(1,))
    assert ("ops.expm1" in source) == precise
    assert ("ops.silu(" in source) != precise
    net = load_emitted(tmp_path).build()
    want = Deep()(torch.from_numpy(x.astype(np.float64)))[0].numpy()
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode_of(mode):
            assert (np.abs(net(ms.Tensor(x))[0].asnumpy() - want).max() < 3e-7) == precise
            assert np.isfinite(ms.grad(net)(ms.Tensor(x)).asnumpy()).all()


def test_tanh(tmp_path: Path) -> None:
    """MindSpore's kernel is 1e-4 off near 5 on CPU; both modes, gradients, and what is not finite."""
    import mindspore as ms

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = torch.nn.Tanh()

        def forward(self, x):
            return self.act(x), torch.tanh(x * 2)

    x = np.concatenate([np.linspace(-9, 9, 4001), [-np.inf, np.inf, np.nan, -0.0]]).astype(np.float32)[None]
    source = assert_same(Both(), tmp_path, x, batches=(1,))
    assert "self.act = Tanh()" in source
    assert "ops.tanh(x * 2)" not in source
    net = load_emitted(tmp_path).build()
    want = np.tanh(x.astype(np.float64))
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode_of(mode):
            np.testing.assert_allclose(net(ms.Tensor(x))[0].asnumpy(), want, atol=2e-7)
            slopes = ms.grad(net)(ms.Tensor(x)).asnumpy()  # of both outputs together
            np.testing.assert_allclose(slopes, 3 - want**2 - 2 * np.tanh(2.0 * x) ** 2, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions_without_a_layer(tmp_path: Path, rank: int) -> None:
    """With the weight as an operand; with gaps, groups and output padding; with more padding than kernel."""

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = getattr(torch.nn, f"ConvTranspose{rank}d")
            self.gaps = layer(4, 6, 3, stride=2, padding=1, output_padding=1, dilation=2, groups=2)
            self.wide = layer(4, 6, 2, stride=3, padding=2, output_padding=2, bias=False)

        def forward(self, x, w):
            function = getattr(F, f"conv_transpose{rank}d")
            return self.gaps(x), self.wide(x), function(x, w.squeeze(0), stride=2)

    torch.manual_seed(0)
    assert_same(Both(), tmp_path, floats(2, 4, *[5, 4, 3][:rank]), floats(1, 4, 3, *[3, 2, 3][:rank]))


def test_resizing_volumes_by_the_nearest(tmp_path: Path) -> None:
    """MindSpore has no such mode for them."""
    assert_same(lambda x: F.interpolate(x, 7, mode="nearest-exact"), tmp_path, floats(2, 2, 3, 4, 3))


def test_sizes_beside_tensors(tmp_path: Path) -> None:
    """A size limits a tensor by MindSpore's function, not by Python's."""
    places = np.array([[0, 5, 9], [1, 2, 7]])
    assert_same(lambda i: torch.minimum(i, torch.tensor(i.shape[0])), tmp_path / "places", places)
    assert_same(lambda x: torch.nonzero(x[0, 0] > 0), tmp_path / "single", floats(2, 3), batches=(2,))


@pytest.mark.parametrize(("rank", "layer"), [(1, torch.nn.BatchNorm1d), (3, torch.nn.BatchNorm3d)])
def test_half_normalisation_without_parameters(tmp_path: Path, rank: int, layer: type) -> None:
    """MindSpore's layer holds vectors of ones and zeros then, as halves."""
    example = floats(2, 3, *[2] * rank).astype(np.float16)
    graph = regraft.rewrite(regraft.load(layer(3, affine=False).half(), (example,))).graph
    regraft.save(graph, tmp_path / "out", to="mindspore")
    load_emitted(tmp_path / "out").build()  # which loads strictly


class Cut(torch.nn.Module):
    """A table cut at the number of tokens, and heads of them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(9, 8))
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        return (self.layer(x) + self.table[:n]).reshape(b, n, 2, c // 2).transpose(1, 2).reshape(b, -1, c)


def test_a_layer_on_several_sizes_is_called_on_each(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = Cut()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.cut(x), self.cut(y)

    text = assert_same(Net(), tmp_path / "out", floats(2, 4, 8), floats(2, 6, 8))
    assert "x = self.cut(x)\n        y = self.cut(y)\n" in text
    assert "self.table[: x.shape[1]]" in text
    assert "x.reshape(-1, x.shape[1], 2, 4)" in text


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_a_layer_in_a_sequence_and_outside(first: bool, listed: bool, tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.Linear(4, 4)
            if first:
                self.layer = layer
            body = torch.nn.Sequential(layer, torch.nn.ReLU(), torch.nn.Linear(4, 4))
            self.bodies = torch.nn.ModuleList([body]) if listed else body
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + (self.bodies[0](x) if listed else self.bodies(x))

    text = assert_same(Net(), tmp_path / "out", floats(2, 4))
    assert re.search(r"nn\.SequentialCell\(\s*self\.layer,\s*nn\.ReLU\(\)", text)
    assert text.index("self.layer = ") < text.index("self.bodies = ")
    assert text.count("self.layer(") == 1


def test_a_small_loss_of_large_logits(tmp_path: Path) -> None:
    """MindSpore's own log_softmax is 4e-6 off on CPU, which is much of such a loss."""

    def loss(x: torch.Tensor) -> torch.Tensor:
        x = torch.cat((20 + x[:, :1], x[:, 1:]), 1)
        return 1e4 * torch.nn.functional.cross_entropy(
            x, torch.zeros(len(x), dtype=torch.int64), reduction="none"
        )

    x = floats(2, 6) / 4
    x[:, 0] -= 8
    text = assert_same(loss, tmp_path / "out", x)
    assert "def log_softmax(x, axis):" in text
    assert "def log_softmax" not in assert_same(lambda x: x.log_softmax(1), tmp_path / "plain", x)


def test_an_index_that_is_computed_of_a_size_is_a_subscript(tmp_path: Path) -> None:
    source = assert_same(lambda x: x[x.shape[0] - 1] * 2, tmp_path, floats(2, 4))
    assert ".shape[0] - 1)]" in source


def test_parameters_of_modules_with_chinese_names_have_names_that_mindspore_takes(tmp_path: Path) -> None:
    model = torch.nn.Sequential()
    model.add_module("名", torch.nn.Linear(4, 3))
    source = assert_same(model, tmp_path, floats(2, 4))
    assert "self.u540d = nn.Dense(" in source


def test_constants_of_float64_have_all_their_digits(tmp_path: Path) -> None:
    """Rounded to float32 they are 1e-8 off, which inputs of float32 would hide from a verification."""
    x = floats(2, 3).astype(np.float64)
    rows = torch.tensor([1 / 3, 2 / 3, 1 / 7], dtype=torch.float64)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * math.pi + rows, F.pad(x, (1, 0), value=1 / 3), x.masked_fill(x > 0, 1 / 7)

    assert_same(model, tmp_path, x)
    import mindspore as ms

    with mode_of(ms.PYNATIVE_MODE):
        got = load_emitted(tmp_path).build()(ms.Tensor(x))
    for g, w in zip(got, model(torch.from_numpy(x)), strict=True):
        np.testing.assert_allclose(g.asnumpy(), w.numpy(), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("function", [torch.log1p, torch.expm1])
def test_logarithms_and_exponentials_near_zero(tmp_path: Path, function: Callable[..., object]) -> None:
    """MindSpore's kernels have no right digit there on CPU; in both modes, and gradients."""
    import mindspore as ms

    x = np.array([[1e-7, -1e-7, 1e-12, -1e-12, 0.3, -0.3, 0, 20]], np.float32)
    assert_same(function, tmp_path, x, batches=(1,))
    net = load_emitted(tmp_path).build()
    given = torch.from_numpy(x).requires_grad_()
    want = function(given)
    want.sum().backward()
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode_of(mode):
            np.testing.assert_allclose(net(ms.Tensor(x)).asnumpy(), want.detach().numpy(), rtol=1e-6)
            gradient = ms.grad(net)(ms.Tensor(x)).asnumpy()
            np.testing.assert_allclose(gradient, given.grad.numpy(), rtol=1e-5)
