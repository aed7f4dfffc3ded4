"""Cases of tensors that are made from numbers, and of changes of type."""

import torch

from .case import Case, Group, J, X, Y


def _filled(found):
    """What an uninitialised tensor's shape and type are."""
    return torch.ops.aten.fill.Scalar(found, 2.0)


N = X.through(lambda x: x.shape[0])
LENGTH = X.through(lambda x: x.shape[0] + 5)
"""Sizes that are symbols: of numbers alone, the capture makes a constant."""
LONG = 4099
"""A length that has to be a number; of shorter vectors, too, the capture makes a constant."""

_WINDOWS = "bartlett_window blackman_window hamming_window hann_window kaiser_window"

MADE = Group(
    [
        Case("aten.arange.default", N),
        Case("aten.arange.start", 1, LENGTH),
        Case("aten.arange.start_step", 1, LENGTH, 3),
        Case("aten.range.default", 1, LONG),
        Case("aten.range.step", 1, LONG, 0.5),
        *(Case(f"aten.{name}.default", LONG) for name in _WINDOWS.split()),
        *(Case(f"aten.{name}.periodic", LONG, False) for name in _WINDOWS.split()),
        Case("aten.hamming_window.periodic_alpha", LONG, True, 0.4),
        Case("aten.hamming_window.periodic_alpha_beta", LONG, True, 0.4, 0.3),
        Case("aten.kaiser_window.beta", LONG, True, 3.0),
        *(Case(f"aten.fft_{name}.default", 2 * LONG, 0.5) for name in ("fftfreq", "rfftfreq")),
        Case("aten.eye.default", N),
        Case("aten.eye.m", 3, N),
        Case("aten.linspace.default", 0, 1, LONG),
        *(Case(f"aten.{name}.default", [N, 3]) for name in ("ones", "zeros")),
        Case("aten.full.default", [N, 3], 1.5),
        Case("aten.scalar_tensor.default", N),
        Case("aten.empty.memory_format", [N, 3], then=_filled),
        Case("aten.empty_permuted.default", [N, 3], [1, 0], then=_filled),
        Case("aten.empty_strided.default", [N, 3], [3, 1], then=_filled),
        Case("aten.copy.default", X, Y),
        Case("aten.fill.Scalar", X, 2.0),
        Case("aten.fill.Tensor", X, Y.through(lambda y: y.sum())),
        Case("aten.zero.default", X),
        *(Case(f"aten.{name}_like.default", X) for name in ("ones", "zeros")),
        Case("aten.full_like.default", X, 1.5),
        Case("aten.empty_like.default", X, then=_filled),
        Case("aten.new_empty.default", X, [2, 3], then=_filled),
        Case("aten.new_empty_strided.default", X, [2, 3], [3, 1], then=_filled),
        Case("aten.new_full.default", X, [2, 3], 1.5),
        *(Case(f"aten.new_{name}.default", X, [2, 3]) for name in ("ones", "zeros")),
    ]
)

CHANGED = Group(
    [
        Case("aten._to_copy.default", X, dtype=torch.float64),
        Case("aten.to.device", X, torch.device("cpu"), torch.int32),
        Case("aten.to.dtype", X, torch.int64),
        Case("aten.to.dtype_layout", X, dtype=torch.float16),
        Case("aten.to.other", X, J),
        Case("aten.type_as.default", X, J),
        *(Case(f"aten.tri{name}.default", X, 1) for name in "lu"),
    ]
)

GROUPS = [MADE, CHANGED]
