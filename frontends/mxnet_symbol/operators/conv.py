"""Convolutions: 1-d, 2-d and 3-d, and their transposes."""

from __future__ import annotations

from ....ir import Value
from ..call import Use, new_table

TABLE = new_table()

_TUNING = ("workspace", "cudnn_tune", "cudnn_off", "cudnn_algo_verbose", "num_filter", "no_bias")
_LAYOUTS = ("None", "NCW", "NCHW", "NCDHW")


LARGEST = 1 << 16
"""A bound on kernels, strides and pads: beyond it a file is damaged, and windows cost time to count."""


def spatial(use: Use, name: str, rank: int, default: int) -> list[int]:
    """A list of one number per spatial axis; an empty one means the default."""
    given = use.attrs.ints(name, ()) or [default] * rank
    least = 0 if name in ("pad", "adj") else 1
    if len(given) != rank or not all(least <= v < LARGEST for v in given):
        raise use.unsupported(
            f"expected `{name}` to be {rank} numbers from {least} to {LARGEST}, got {given}"
        )
    return given


def check_layout(use: Use) -> None:
    """Refuse the layouts that MXNet's CPU kernels refuse."""
    layout = use.attrs.text("layout", "None")
    if layout not in _LAYOUTS:
        raise use.unsupported(f"expected the layout NCHW, got {layout}")


@TABLE.op("Convolution", "Convolution_v1")
def convolution(use: Use) -> Value:
    """Of one to three axes by the length of `kernel`; with a bias unless `no_bias`."""
    rank = len(use.attrs.ints("kernel"))
    kernel = spatial(use, "kernel", rank, 1)
    pad = spatial(use, "pad", rank, 0)
    check_layout(use)
    use.attrs.ignore(*_TUNING)
    return use.b.op(
        "Conv",
        *use.values(),
        kernel_shape=kernel,
        strides=spatial(use, "stride", rank, 1),
        dilations=spatial(use, "dilate", rank, 1),
        pads=pad + pad,
        group=use.attrs.int("num_group", 1),
    )


@TABLE.op("Deconvolution")
def deconvolution(use: Use) -> Value:
    """Transposed; without a bias unless told."""
    rank = len(use.attrs.ints("kernel"))
    kernel = spatial(use, "kernel", rank, 1)
    stride, dilate = spatial(use, "stride", rank, 1), spatial(use, "dilate", rank, 1)
    pad, adjust = spatial(use, "pad", rank, 0), spatial(use, "adj", rank, 0)
    target = use.attrs.ints("target_shape", ())
    check_layout(use)
    use.attrs.ignore(*_TUNING)
    if any(target):  # a target overrides pad and adj; what is odd comes off the end
        sizes = use.static(use.x, range(2, 2 + rank))
        full = [
            s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(stride, sizes, dilate, kernel, strict=True)
        ]
        total = [f - t for f, t in zip(full, target, strict=True)]
        if min(total) < 0:
            raise use.unsupported(f"expected a target_shape of at most {full}, got {target}")
        pad, adjust = [(t + 1) // 2 for t in total], [t % 2 for t in total]
    return use.b.op(
        "ConvTranspose",
        *use.values(),
        kernel_shape=kernel,
        strides=stride,
        dilations=dilate,
        pads=pad + pad,
        output_padding=adjust if any(adjust) else None,
        group=use.attrs.int("num_group", 1),
    )
