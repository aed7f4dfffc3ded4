"""Layers whose constructors got other arguments, or are of another class, are caught and named by line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import regraft
from regraft.frontends.differences import Difference
from regraft.verification import verifying

from ..frontends.difference_nets import write_net

IMAGE = ("2x4x8x8",)
CELL = ("2x4", "2x6")
LABELS = {"inputs": ("4x3",), "given": "i = [0, 2, 1, 1]"}
MANY = {
    "inputs": ("4x3",),
    "given": "t = [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]",
}
PAIR = ("4x3", "4x3")


def row(torch: str, naive: str, right: str, said: str, inputs=("2x3x4",), given: str = "") -> Difference:
    return Difference(torch, naive, right, "", "", inputs, given, said=said)


ROWS = [
    row("nn.BatchNorm2d(4, affine=False)", "nn.BatchNorm2d(4, eps=1e-2, affine=False)",
        "nn.BatchNorm2d(4, affine=False)", "eps=1e-05", IMAGE),
    row("nn.BatchNorm2d(4, track_running_stats=False)", "nn.BatchNorm2d(4)",
        "nn.BatchNorm2d(4, use_batch_statistics=True)", "use_batch_statistics=True", IMAGE),
    row("nn.BatchNorm1d(4, affine=False, track_running_stats=False)", "nn.BatchNorm1d(4, affine=False)",
        "nn.BatchNorm1d(4, affine=False, use_batch_statistics=True)", "use_batch_statistics=True", ("3x4",)),
    row("nn.GroupNorm(2, 4, affine=False)", "nn.GroupNorm(4, 4, affine=False)",
        "nn.GroupNorm(2, 4, affine=False)", "num_groups=2", IMAGE),
    row("nn.InstanceNorm2d(4)", "nn.GroupNorm(1, 4, affine=False)", "nn.GroupNorm(4, 4, affine=False)",
        "num_groups=4", IMAGE),
    row("nn.InstanceNorm2d(4)", "nn.GroupNorm(4, 4, eps=1e-2, affine=False)",
        "nn.GroupNorm(4, 4, affine=False)", "eps=1e-05", IMAGE),
    row("nn.LayerNorm((3, 4), eps=1e-5)",
        "nn.LayerNorm((3, 4), begin_norm_axis=2, begin_params_axis=1, epsilon=1e-5)",
        "nn.LayerNorm((3, 4), begin_norm_axis=1, begin_params_axis=1, epsilon=1e-5)", "begin_norm_axis=1"),
    row("nn.LSTM(4, 6, batch_first=True)(x)[0]", "nn.LSTM(4, 6)(x)[0]",
        "nn.LSTM(4, 6, batch_first=True)(x)[0]", "batch_first=True"),
    row("nn.GRU(4, 6)(x)[0]", "nn.GRU(4, 6, batch_first=True)(x)[0]", "nn.GRU(4, 6)(x)[0]",
        "batch_first=False"),
    row('nn.RNN(4, 6, nonlinearity="relu")(x)[0]', "nn.RNN(4, 6)(x)[0]",
        'nn.RNN(4, 6, nonlinearity="relu")(x)[0]', 'nonlinearity="relu"'),
    row('nn.RNNCell(4, 6, nonlinearity="relu")(x, y)', "nn.RNNCell(4, 6)(x, y)",
        'nn.RNNCell(4, 6, nonlinearity="relu")(x, y)', 'nonlinearity="relu"', CELL),
    row("nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)[0]",
        "nn.MultiheadAttention(4, 2)(x, x, x)[0]",
        "nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)[0]", "batch_first=True"),
    row("nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)[0]",
        "nn.MultiheadAttention(4, 4, batch_first=True)(x, x, x)[0]",
        "nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)[0]", "num_heads=2"),
    row("nn.LocalResponseNorm(5)", "nn.LRN(5)",
        "nn.LRN(depth_radius=2, bias=1.0, alpha=0.0001 / 5, beta=0.75)",
        "depth_radius=2, alpha=2e-05, beta=0.75", ("2x7x3x3",)),
    row("nn.LocalResponseNorm(5, 0.01, 0.75, 2.0)", "nn.LRN(2, 2.0, 0.01, 0.75)",
        "nn.LRN(2, 2.0, alpha=0.01 / 5, beta=0.75)", "alpha=0.002", ("2x7x3x3",)),
    row("nn.Softmax(1)", "nn.Softmax()", "nn.Softmax(axis=1)", "axis=1"),
    row("nn.LeakyReLU()", "nn.LeakyReLU()", "nn.LeakyReLU(alpha=0.01)", "alpha=0.01"),
    row("nn.Hardtanh(-2, 2)", "nn.Hardtanh()", "nn.Hardtanh(-2.0, 2.0)", "min_val=-2, max_val=2"),
    row("nn.Hardshrink(0.3)", "nn.HShrink()", "nn.HShrink(0.3)", "lambd=0.3"),
    row("nn.Softshrink(0.3)", "nn.SoftShrink()", "nn.SoftShrink(0.3)", "lambd=0.3"),
    row("nn.Threshold(0.1, 2.0)", "nn.Threshold(0.1, 0.0)", "nn.Threshold(0.1, 2.0)", "value=2.0"),
    row("nn.CELU(2.0)", "nn.CELU()", "nn.CELU(2.0)", "alpha=2.0"),
    row("nn.SiLU()", "nn.GELU()", "nn.SiLU()", "nn.SiLU() in place of `nn.GELU`"),
    row("nn.Hardswish()", "nn.SiLU()", "nn.HSwish()", "nn.HSwish() in place of `nn.SiLU`"),
    row("nn.Flatten(0)", "nn.Flatten()", "nn.Flatten(0)", "start_dim=0"),
    row("nn.AdaptiveAvgPool2d(2)", "nn.AdaptiveAvgPool2d(4)", "nn.AdaptiveAvgPool2d(2)",
        "output_size=2", IMAGE),
    row("nn.AdaptiveAvgPool2d(1)", "nn.AdaptiveMaxPool2d(1)", "nn.AdaptiveAvgPool2d(1)",
        "nn.AdaptiveAvgPool2d(output_size=1) in place of `nn.AdaptiveMaxPool2d`", IMAGE),
    row('nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=True)',
        'nn.Upsample(scale_factor=2.0, mode="bilinear", recompute_scale_factor=True)',
        'nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=True, recompute_scale_factor=True)',
        "align_corners=True", IMAGE),
    row("nn.PixelUnshuffle(2)", "nn.PixelShuffle(2)", "nn.PixelUnshuffle(2)",
        "nn.PixelUnshuffle(downscale_factor=2) in place of `nn.PixelShuffle`", IMAGE),
    row("nn.ReflectionPad2d(1)", "nn.ReplicationPad2d(1)", "nn.ReflectionPad2d(1)",
        "nn.ReflectionPad2d(padding=1) in place of `nn.ReplicationPad2d`", IMAGE),
    row("nn.ConstantPad2d(1, 2.0)", "nn.ConstantPad2d(1, 0.0)", "nn.ConstantPad2d(1, 2.0)",
        "value=2.0", IMAGE),
    row("nn.CrossEntropyLoss(ignore_index=1)(x, i)", "nn.CrossEntropyLoss()(x, i.astype(ms.int32))",
        "nn.CrossEntropyLoss(ignore_index=1)(x, i.astype(ms.int32))", "ignore_index=1", **LABELS),
    row("nn.CrossEntropyLoss(label_smoothing=0.1)(x, i)", "nn.CrossEntropyLoss()(x, i.astype(ms.int32))",
        "nn.CrossEntropyLoss(label_smoothing=0.1)(x, i.astype(ms.int32))", "label_smoothing=0.1", **LABELS),
    row("nn.CrossEntropyLoss(ignore_index=1)(x, i)",
        'nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")(x, i.astype(ms.int32))',
        "nn.CrossEntropyLoss(ignore_index=1)(x, i.astype(ms.int32))",
        "nn.CrossEntropyLoss(ignore_index=1) in place of `nn.SoftmaxCrossEntropyWithLogits`", **LABELS),
    row("nn.CrossEntropyLoss()(x, i)",
        "nn.SoftmaxCrossEntropyWithLogits(sparse=True)(x, i.astype(ms.int32))",
        'nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")(x, i.astype(ms.int32))',
        'reduction="mean"', **LABELS),
    row("nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0]))(x, i)",
        "nn.CrossEntropyLoss()(x, i.astype(ms.int32))",
        "nn.CrossEntropyLoss(ms.Tensor([1.0, 2.0, 3.0]))(x, i.astype(ms.int32))",
        "weight=ms.Tensor([1.0, 2.0, 3.0])", **LABELS),
    row("nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 1.0, 3.0]))(x, t)",
        "nn.BCEWithLogitsLoss()(x, t)",
        "nn.BCEWithLogitsLoss(pos_weight=ms.Tensor([2.0, 1.0, 3.0]))(x, t)",
        "pos_weight=ms.Tensor([2.0, 1.0, 3.0])", **MANY),
    row("nn.MSELoss()(x, y)", "nn.RMSELoss()(x, y)", "nn.MSELoss()(x, y)",
        "nn.MSELoss() in place of `nn.RMSELoss`", PAIR),
    row("nn.SmoothL1Loss(beta=0.5)(x, y)", "nn.SmoothL1Loss()(x, y)",
        'nn.SmoothL1Loss(beta=0.5, reduction="mean")(x, y)', 'reduction="mean", beta=0.5', PAIR),
    row("nn.HuberLoss(delta=0.5)(x, y)", "nn.HuberLoss()(x, y)", "nn.HuberLoss(delta=0.5)(x, y)", "delta=0.5",
        PAIR),
]  # fmt: skip

UNFITTING = [
    row("nn.LSTM(4, 6, bidirectional=True)(x)[0]", "nn.LSTM(4, 6)(x)[0]",
        "nn.LSTM(4, 6, bidirectional=True)(x)[0]", "bidirectional=True"),
    row("nn.PReLU(4)", "nn.PReLU(1)", "nn.PReLU(4)", "channel=4", ("2x4x3",)),
    row("nn.BatchNorm2d(4, affine=False)", "nn.BatchNorm2d(4, eps=1e-2)", "nn.BatchNorm2d(4, affine=False)",
        "affine=False", IMAGE),
    row("nn.GRU(4, 6, num_layers=2)(x)[0]", "nn.GRU(4, 6)(x)[0]", "nn.GRU(4, 6, num_layers=2)(x)[0]",
        "num_layers=2"),
]  # fmt: skip
"""Layers that hold other parameters by their arguments."""


def net_of(rows: list[Difference], side: str, folder: Path):
    return write_net(folder / f"{side}.py", rows, side)


def test_right_layers_are_equal(tmp_path: Path) -> None:
    rows = [*ROWS, *UNFITTING]
    source, port = net_of(rows, "torch", tmp_path), net_of(rows, "right", tmp_path)
    report = regraft.verify(source.reference, port.reference, [str(source.size)])
    assert report.passed, report.render()
    assert "affine=" not in report.render()


@pytest.mark.usefixtures("without_search")
@pytest.mark.parametrize("rows", [ROWS, UNFITTING], ids=["fitting", "other parameters"])
def test_wrong_layers_are_named_at_their_lines(rows: list[Difference], tmp_path: Path) -> None:
    source, port = net_of(rows, "torch", tmp_path), net_of(rows, "naive", tmp_path)
    text = regraft.verify(source.reference, port.reference, [str(source.size)]).render()
    assert text.startswith("DIFFERENT")
    writes = [line for line in text.splitlines() if "write: " in line]
    missing = [
        each.naive
        for at, each in enumerate(rows)
        if not any(each.said in w and re.search(rf"\b{port.lines[at][0]}\b", w) for w in writes)
    ]
    assert not missing, (missing, text)
    assert not any("affine=False" in w and rows is ROWS for w in writes), text


def test_a_layer_that_is_given_turned_tensors_is_not_blamed(tmp_path: Path) -> None:
    rows = [
        row("nn.LSTM(4, 6, batch_first=True)(x)[0] * 2",
            "nn.LSTM(4, 6)(x.swapaxes(0, 1))[0].swapaxes(0, 1)", "", ""),
    ]  # fmt: skip
    source, port = net_of(rows, "torch", tmp_path), net_of(rows, "naive", tmp_path)
    text = regraft.verify(source.reference, port.reference, [str(source.size)]).render()
    assert text.startswith("DIFFERENT")
    assert "batch_first" not in text


def test_the_models_layers_are_back_in_their_places(tmp_path: Path) -> None:
    rows = [row("nn.Softmax(1)", "nn.Softmax()", "", ""), row("nn.SiLU()", "nn.GELU()", "", "")]
    source, port = net_of(rows, "torch", tmp_path), net_of(rows, "naive", tmp_path)
    graphs = [regraft.load(net.reference, [str(net.size)]) for net in (source, port)]
    model: Any = graphs[1].origin.model
    kept = dict(model.cells_and_names())
    verifying.verify(graphs[0], graphs[1], None)
    assert all(cell is kept[name] for name, cell in model.cells_and_names())
