"""Convolutions: 1-d, 2-d and 3-d, and their transposes."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")

_TUNING = ("workspace", "cudnn_tune", "cudnn_off", "cudnn_algo_verbose", "num_filter", "no_bias")
_LAYOUTS = ("None", "NCW", "NCHW", "NCDHW")


LARGEST = 1 << 16
"""A bound on kernels, strides and pads: beyond it a file is damaged, and windows cost time to count."""


def spatial(call: Call, name: str, rank: int, default: int) -> list[int]:
    """Return a list of one number per spatial axis; an empty one means the default."""
    given = call.ints(name, ()) or [default] * rank
    least = 0 if name in ("pad", "adj") else 1
    if len(given) != rank or not all(least <= v < LARGEST for v in given):
        raise call.unsupported(
            f"expected `{name}` to be {rank} numbers from {least} to {LARGEST}, got {given}"
        )
    return given


def check_layout(call: Call) -> None:
    """Refuse the layouts that MXNet's CPU kernels refuse."""
    layout = call.text("layout", "None")
    if layout not in _LAYOUTS:
        raise call.unsupported(f"expected the layout NCHW, got {layout}")


@TABLE.op("Convolution", "Convolution_v1")
def convolution(call: Call) -> Value:
    """Lower a convolution over one to three axes, by the length of `kernel`; with a bias unless `no_bias`."""
    rank = len(call.ints("kernel"))
    kernel = spatial(call, "kernel", rank, 1)
    pad = spatial(call, "pad", rank, 0)
    check_layout(call)
    call.ignore(*_TUNING)
    return call.op(
        "Conv",
        *call.operands(),
        kernel_shape=kernel,
        strides=spatial(call, "stride", rank, 1),
        dilations=spatial(call, "dilate", rank, 1),
        pads=pad + pad,
        group=call.int("num_group", 1),
    )


@TABLE.op("Deconvolution")
def deconvolution(call: Call) -> Value:
    """Transposed; without a bias by default."""
    rank = len(call.ints("kernel"))
    kernel = spatial(call, "kernel", rank, 1)
    stride, dilate = spatial(call, "stride", rank, 1), spatial(call, "dilate", rank, 1)
    pad, adjust = spatial(call, "pad", rank, 0), spatial(call, "adj", rank, 0)
    target = call.ints("target_shape", ())
    check_layout(call)
    call.ignore(*_TUNING)
    if any(target):  # a target overrides pad and adj; what is odd comes off the end
        sizes = call.static_shape(axes=range(2, 2 + rank))
        full = [
            s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(stride, sizes, dilate, kernel, strict=True)
        ]
        total = [f - t for f, t in zip(full, target, strict=True)]
        if min(total) < 0:
            raise call.unsupported(f"expected a target_shape of at most {full}, got {target}")
        pad, adjust = [(t + 1) // 2 for t in total], [t % 2 for t in total]
    return call.op(
        "ConvTranspose",
        *call.operands(),
        kernel_shape=kernel,
        strides=stride,
        dilations=dilate,
        pads=pad + pad,
        output_padding=adjust if any(adjust) else None,
        group=call.int("num_group", 1),
    )
