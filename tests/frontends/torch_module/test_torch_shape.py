"""Rearranging, joining, splitting, padding, indexing, making and resizing tensors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_rearranging(check):
    graph = check(
        lambda x: [
            x.reshape(x.shape[0], -1),
            x.view(-1, 3, 20),
            x.flatten(),
            x.flatten(1),
            x.flatten(2),
            x.flatten(0, 1),
            x.transpose(1, -1),
            x.permute(0, 2, 3, 1),
            x.permute(3, 2, 1, 0).contiguous(),
            x.unsqueeze(-1),
            x.unsqueeze(0).squeeze(0),
            x[:, :1].squeeze(1),
            x[:, :1].squeeze(),
            x.movedim(1, -1),
            x.unflatten(2, (2, 2)),
            x.mT,
            nn.Flatten()(x),
        ],
        floats(2, 3, 4, 5),
    )
    assert "Shape" not in {o.op_type for o in graph.operators()}


def test_shapes_computed_from_the_batch(check):
    check(
        lambda x: [
            x.reshape(x.shape[0] * 2, -1),
            x.expand(2, *x.shape),
            torch.zeros(x.shape[0], 3) + x[:, :3],
            torch.ones_like(x),
            torch.full((x.size(0), 2), 1.5),
            torch.arange(x.shape[0]),
            torch.arange(x.shape[0], dtype=torch.float32) * 2,
            x.repeat(2, 1),
            x.new_zeros(x.shape[0] + 1, 2),
            x.sum() / x.shape[0],
            x.reshape(x.shape[0] // 1, 2, 3).reshape(x.shape[0] * 2, 3),
        ],
        floats(2, 6),
    )


def test_the_batch_as_an_output(check):
    check(lambda x: (x + 1, x.shape[0], x.shape[0] * 3 + 1, 7), floats(2, 6))


def test_joining_and_splitting(check):
    check(
        lambda x: [
            torch.cat([x, x * 2], 1),
            torch.cat([x, x], 0),
            torch.stack([x, x + 1], 1),
            torch.stack([x, x], -1),
            *x.split(2, 1),
            *x.split([1, 4], 1),
            *x.chunk(3, 1),
            *x.unbind(1)[:2],
            x.repeat(1, 2, 1),
            x.repeat(2, 1, 1, 2),
            x.tile(1, 2),
            x.roll(2, 1),
            x.roll((1, -1), (1, 2)),
            x.flip(1),
            x.flip(1, 2),
        ],
        floats(2, 5, 4),
    )


def test_indexing(check):
    check(
        lambda x: [
            x[:, 1],
            x[:, -1],
            x[:, 1:3],
            x[:, ::2],
            x[:, 1:-1, 2:],
            x[..., None, 0],
            x[:, [2, 0]],
            x[:, torch.tensor([[0, 1], [2, 3]])],
            x[:, [0, 1], [2, 3]],
            x[:, [0, 1], :, [1, 0]],
            x[0],
            x.narrow(1, 1, 2),
            x.index_select(1, torch.tensor([1, 1, 0])),
            x.gather(1, torch.zeros(x.shape[0], 1, 4, 3, dtype=torch.int64)),
            x.masked_fill(x > 0, 0.0),
            x.tril(),
            x.triu(1),
            x.unfold(1, 3, 2),
            x.unfold(-2, 2, 1),
            x.diagonal(1, 2, 3),
            x.diagonal(-1, 1, 3),
        ],
        floats(2, 5, 4, 3),
    )


def test_grids_and_ranges(check):
    check(lambda x: [*torch.meshgrid(x[0], x[1], indexing="ij"), torch.linspace(0, 1, 5) + x], floats(2, 5))


def test_embedding(check):
    check(nn.Embedding(11, 6, padding_idx=2), np.arange(10).reshape(2, 5))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(check, mode):
    value = {"value": 0.7} if mode == "constant" else {}
    check(lambda x: [F.pad(x, (1, 2), mode, **value), F.pad(x, (2, 0), mode, **value)], floats(2, 3, 7))
    check(lambda x: F.pad(x, (1, 2, 0, 3), mode, **value), floats(2, 3, 7, 6))


def test_negative_and_module_pads(check):
    check(lambda x: [F.pad(x, (-1, 2)), F.pad(x, (0, 0, -1, -1))], floats(2, 3, 7, 6))
    check(
        nn.Sequential(nn.ZeroPad2d((1, 0, 2, 1)), nn.ReflectionPad2d(1), nn.ConstantPad2d(1, 3.0)),
        floats(2, 3, 7, 6),
    )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    "target",
    [{"scale_factor": 2}, {"size": (7, 11)}, {"scale_factor": (1.7, 0.6)}, {"scale_factor": (1.5, 1.4)}],
)
def test_interpolate(check, mode, target):
    check(lambda x: F.interpolate(x, mode=mode, **target), floats(2, 3, 6, 5), atol=1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolate_with_aligned_corners(check, mode):
    check(
        lambda x: F.interpolate(x, size=(9, 4), mode=mode, align_corners=True), floats(2, 3, 6, 5), atol=1e-4
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("scales", [(1.7, 0.6), (2, 1.5), (1.4, 1.7)])
def test_aligned_corners_do_not_depend_on_the_fraction_of_a_scale(check, mode, scales):
    def resize(x):
        return F.interpolate(x, scale_factor=scales, mode=mode, align_corners=True)

    graph = check(resize, floats(2, 3, 6, 5), atol=1e-4)
    (operator,) = [o for o in graph.operators() if o.op_type == "Resize"]
    assert graph.operands(operator.key)[2] is None  # it has sizes, and no scales


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_a_scale_that_float32_rounds_down_reads_the_same_places(check, mode):
    """1.4 times 5 is 7, and less in float32; by the next number, place 7 of 14 is that of 4 and not 5."""
    check(lambda x: F.interpolate(x, scale_factor=1.4, mode=mode), floats(2, 3, 5, 10), atol=1e-5)


def test_interpolate_1d_and_3d(check):
    check(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), floats(2, 3, 6))
    check(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), floats(2, 3, 4, 3, 2))


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_samples_at_places(check, padding_mode, align_corners):
    """Places beyond [-1, 1] too; one operator but for cubic samples, which torch takes apart for seconds."""
    modes = ("bilinear", "nearest", "bicubic") if align_corners else ("bilinear", "nearest")

    def samples(x, grid, volume, places):
        options = {"padding_mode": padding_mode, "align_corners": align_corners}
        return [
            *(F.grid_sample(x, grid, mode, **options) for mode in modes),
            *(F.grid_sample(volume, places, mode, **options) for mode in ("bilinear", "nearest")),
        ]

    arrays = floats(2, 3, 5, 7), floats(2, 4, 6, 2), floats(2, 3, 4, 5, 6), floats(2, 3, 2, 4, 3)
    graph = check(samples, *arrays)
    assert sum(n.op_type == "GridSample" for n in graph.operators()) == 4


def test_parts_of_symbolic_sizes(check):
    """Two batches joined and parted again; parts that are not alike."""

    def parts(x, y):
        both = torch.cat([x, y])
        half = x.shape[0] // 2
        return [*both.chunk(2), *both.split([half, 2 * x.shape[0] - half])]

    check(parts, floats(2, 3), floats(2, 3, seed=1))


def test_sizes_that_are_rounded_quotients(check):
    def halves(x):
        more, less = math.ceil(x.shape[0] / 2), math.floor(x.shape[0] / 3)
        return [x[:more], x[more:] + 1, x[:less]]

    check(halves, floats(4, 3))


def test_sizes_that_int_makes_of_quotients(check):
    def windows(x):
        parts = x.view(x.shape[0], 2, 2, 3).transpose(1, 2).reshape(-1, 2, 3)
        batch = int(parts.shape[0] / (4 * 1.0 / 2))
        assert isinstance(2, int)
        assert type(x.dim()) == int  # noqa: E721 - as models ask
        return parts.view(batch, 2, 2, -1).sum(2), int("3") * x

    def shares(x):
        half = int(x.shape[0] * 0.5)
        third = x[: int((x.shape[0] + 1) / 3)]
        return [x[:half], x[half:] + 1, third, x[: int(len(x) / 4 + 0.5)]]

    check(windows, floats(4, 4, 3))
    check(shares, floats(4, 3))


class Blank(nn.Module):
    """As many rows as it is given, of which it reads nothing else."""

    def forward(self, found):
        return torch.zeros(found.shape[0], 2)


class Chosen(nn.Module):
    """Hands what data chose to a module that asks for its size alone, as keypoints are padded."""

    def __init__(self):
        super().__init__()
        self.blank = Blank()

    def forward(self, x):
        found = x[x > 0.5]
        return self.blank(found) + found.unsqueeze(-1)


def test_sizes_of_data_in_another_module(check):
    check(Chosen(), floats(2, 9))


class Joined(nn.Module):
    """Lists the rows of a batch to join them again, as LLaVA does with images."""

    def forward(self, x, y):
        rows = list(x)
        if isinstance(rows, list) and isinstance([1], list):
            rows = torch.cat(rows, dim=0)
        return rows.reshape(x.shape[0], -1) + y, torch.stack(list(y)), len(list(y)) + x, list(y.shape)[1] * x


def test_rows_that_are_listed_and_joined(check):
    check(Joined(), floats(2, 3, 4), floats(2, 12))


def test_rows_that_are_counted_make_the_shapes_static():
    class Counted(nn.Module):
        def forward(self, x):
            return torch.stack([row * at for at, row in enumerate(list(x))])

    graph = read(Counted(), [("", floats(4, 3))], LoadOptions())
    assert any("insists on one size" in n for n in graph.origin.notes)


class Rounded(nn.Module):
    """Rounds a quotient of the batch's size twice: for 49, floats say 48."""

    def forward(self, x):
        return x[: int(x.shape[0] * (1 / 49) * 49)]


class Scaled(nn.Module):
    """Divides by the root of the batch's size, which has no form for a symbolic one."""

    def forward(self, x):
        return x * x.shape[0] ** -0.5


@pytest.mark.parametrize(
    ("kind", "reason"), [(Rounded, "expected arithmetic on sizes"), (Scaled, "PyTorch's decomposition")]
)
def test_a_root_or_twofold_rounding_of_a_size_makes_the_shapes_static(kind, reason):
    graph = read(kind(), [("", floats(4, 3))], LoadOptions())
    assert any(f"static shapes: {reason}" in note for note in graph.origin.notes)


def test_shuffles(check):
    check(lambda x: [F.pixel_shuffle(x, 2), F.channel_shuffle(x, 2)], floats(2, 8, 3, 5))


def test_results_as_long_as_data_say(check):
    check(
        lambda x: [
            x[x > 0],
            x[x.sum(1) > 0],
            torch.nonzero(x > 0),
            torch.masked_select(x, x > 0.5),
            torch.unique((x * 2).round()),
            *torch.unique_consecutive((x * 2).round(), return_inverse=True, return_counts=True),
        ],
        floats(2, 3),
    )


def test_interpolation_with_antialiasing(check):
    for mode in ("bilinear", "bicubic"):
        check(lambda x, m=mode: F.interpolate(x, size=(3, 8), mode=m, antialias=True), floats(2, 3, 7, 5))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 8), (9, 2)])
def test_antialiasing_with_aligned_corners(check, mode, size):
    """torch centres on the middles of the places even so, which ONNX does not."""
    check(
        lambda x: F.interpolate(x, size=size, mode=mode, align_corners=True, antialias=True),
        floats(2, 3, 7, 5),
    )


@pytest.mark.parametrize("sizes", [(17, 18), (16, 18), (3, 3)])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_scales_that_are_not_what_the_sizes_say(check, mode, sizes):
    """0.9 in float32 is a little less; a size may be less than the scales give."""
    operator = getattr(torch.ops.aten, f"upsample_{mode}2d").default
    flags = [False] if mode == "bilinear" else []
    check(lambda x: operator(x, sizes, *flags, 1.7, 0.9), floats(2, 3, 10, 20))


def test_a_batch_of_one_that_is_squeezed_away(check):
    """The example has no batch axis left, so the shapes are static."""
    graph = check(lambda x: x.squeeze(), floats(1, 4), dynamic=False, options=LoadOptions())
    assert any("static shapes" in note for note in graph.origin.notes)
    check(lambda x: x.squeeze(), floats(2, 1, 4))


def test_what_depends_on_the_batch(check):
    check(
        lambda x: [x @ x.t() + torch.eye(x.shape[0]), torch.eye(3, 4).sum() + x, x.std(0), x.var(0)],
        floats(3, 4),
    )


def test_patches_as_columns(check):
    for options in (
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": (3, 1), "stride": 2, "dilation": (1, 2)},
    ):
        check(lambda x, o=options: F.unfold(x, **o), floats(2, 3, 6, 5))


def test_halves_of_a_batch_that_may_be_odd(check):
    """torch takes the sizes of an even one for those of all: at 3 and 5, the last axis is longer."""
    check(lambda x: x.view(x.shape[0] // 2, 2, -1), floats(4, 6, 8))


class MaskedRows(nn.Module):
    """Transformers skip a mask of ones, but where they are traced."""

    def forward(self, x, mask):
        if not torch.compiler.is_exporting() and bool(mask.all()):
            return x
        return x * mask[torch.arange(x.shape[0])].unsqueeze(-1)


class Rows(nn.Module):
    def forward(self, x, rows):
        return x[rows]


def test_batches_that_a_trace_takes_alike_are_one():
    """A mask of one example runs in the model, which skips it; the trace computes with it."""
    graph = read(MaskedRows(), [("x", floats(2, 3)), ("mask", np.float32([1, 0]))], LoadOptions())
    assert [node.type.shape for node in graph.input_nodes()] == [("N", 3), ("N",)]
    assert any("the size of mask:0 is that of x:0" in note for note in graph.origin.notes)
    graph = read(Rows(), [("x", floats(2, 3)), ("rows", np.array([0, 1]))], LoadOptions())
    assert [node.type.shape for node in graph.input_nodes()] == [("N", 3), ("rows_0",)]
