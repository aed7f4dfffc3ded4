"""Cases of complex numbers as pairs of real ones, and of Fourier transforms."""

import torch

from .case import Case, Group, X, Y, constant

_Z = X.through(lambda x: torch.complex(x, 0.5 - x))
_W = Y.through(lambda y: torch.complex(y.abs() + 1, y))
_PAIRS = X.through(lambda x: x.reshape(-1, 3, 2, 2))
_C = torch.complex64


def _real(found):
    """Every complex tensor as two real ones."""
    return torch.view_as_real(found.resolve_conj()) if found.is_complex() else found


def _case(row, *arguments, **keywords):
    return Case(row, *arguments, then=_real, **keywords)


def _written_over(size, dtype):
    return torch.empty(size, dtype=dtype).zero_()


_SAME = "_conj _conj_physical abs angle exp imag real reciprocal"

ARITHMETIC = Group(
    [
        *(_case(f"aten.{name}.default", _Z) for name in _SAME.split()),
        *(_case(f"aten.{name}.Scalar", _Z, 2 - 1j) for name in ("add", "sub", "mul")),
        *(_case(f"aten.{name}.Tensor", _Z, _W) for name in ("add", "sub", "mul", "div")),
        _case("aten.sub.Scalar", _Z, 2 - 1j, call=torch.rsub),
        _case("aten.eq.Scalar", _Z, 1 + 1j),
        _case("aten.eq.Tensor", _Z, _Z),
        _case("aten.complex.default", X, Y),
        _case("aten.polar.default", X, Y),
        _case("aten._to_copy.default", X, dtype=_C),
        _case("aten._to_copy.default", X, _Z, call=torch.Tensor.type_as),
        _case("aten._to_copy.default", X, torch.device("cpu"), _C, call=torch.Tensor.to),
        *(_case(f"aten.{name}.default", _PAIRS) for name in ("view_as_complex", "view_as_complex_copy")),
        *(_case(f"aten.{name}.default", _Z) for name in ("view_as_real", "view_as_real_copy")),
        *(_case(f"aten.{name}.default", _Z, [0, 2, 1, 0]) for name in ("pad", "constant_pad_nd")),
        _case("aten.copy.default", _Z, _W),
        *(_case(f"aten.{name}.default", [2, 3], dtype=_C) for name in ("zeros", "ones")),
        _case("aten.empty.memory_format", [2, 3], dtype=_C, call=_written_over),
    ]
)


def _half(x):
    return torch.fft.rfft(x, dim=1, norm="ortho")


def _signal(x, y):
    return torch.fft.irfft(torch.complex(x, y), 7)


TRANSFORMS = Group(
    [
        Case("regraft.fourier.default", X, call=_half, then=_real),
        Case("regraft.real_fourier.default", X, Y, call=_signal),
        _case("aten._fft_c2c.default", _Z, [1, 2], 0, True),
        _case("aten._fft_c2r.default", _Z, [2], 2, 6),
        _case("aten._fft_r2c.default", X, [2], 1, True),
        *(_case(f"aten.fft_{name}.default", _Z) for name in ("fft", "ifft", "hfft", "irfft")),
        *(_case(f"aten.fft_{name}.default", X) for name in ("ihfft", "rfft")),
        *(_case(f"aten.fft_{name}2.default", _Z) for name in ("fft", "ifft", "hfft", "irfft")),
        *(_case(f"aten.fft_{name}2.default", X) for name in ("ihfft", "rfft")),
        *(_case(f"aten.fft_{name}n.default", _Z, None, [1, 2]) for name in ("fft", "ifft", "hfft", "irfft")),
        *(_case(f"aten.fft_{name}n.default", X, None, [1, 2]) for name in ("ihfft", "rfft")),
        *(_case("aten._fft_c2c.default", _Z, [1, 2], norm, forward) for norm in (1, 2) for forward in (0, 1)),
        *(_case("aten._fft_c2r.default", _Z, [1, 2], norm, 6) for norm in (0, 1)),
        _case(
            "aten.stft.default",
            *(X.through(lambda x: x.flatten(1)), 6, 3, None, constant(6).abs(), False, True, True),
        ),
    ],
    atol=1e-4,
)

GROUPS = [ARITHMETIC, TRANSFORMS]
