"""Complex tensors and Fourier transforms as arithmetic on real ones, against torch itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import fft, nn

import regraft
from regraft.backends.mindspore_source import write
from regraft.backends.onnx_model import to_model
from regraft.ir import BackendError, UnsupportedError


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Rotary(nn.Module):
    """Positions as rotations in the complex plane, whose angles are a buffer."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(6.0), 1 / torch.tensor([1.0, 2, 4, 8]))
        self.register_buffer("turns", torch.polar(torch.ones(6, 4), angles), persistent=False)

    def forward(self, x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * self.turns[None]).flatten(2)


TRANSFORMS = {
    "fft": lambda x: fft.fft(x, norm="ortho"),
    "ifft": lambda x: fft.ifft(x, n=5, norm="forward"),
    "rfft": lambda x: fft.rfft(x, n=11, dim=1).abs(),
    "irfft": lambda x: fft.irfft(fft.rfft(x, dim=1), dim=1),
    "irfft of an odd length": lambda x: fft.irfft(fft.rfft(x), n=7),
    "hfft": lambda x: fft.hfft(x) + fft.hfft(torch.complex(x, 2 * x)),
    "ihfft": lambda x: fft.ihfft(x),
    "rfft2": lambda x: fft.irfft2(fft.rfft2(x) * 2 + 1),
    "fft2": lambda x: fft.ifft2(fft.fft2(x) * (1 + 2j)),
    "fftn": lambda x: fft.fftn(x, dim=(1, 2)).real,
    "hfftn": lambda x: fft.hfftn(x, dim=(1, 2)),
    "ihfftn": lambda x: fft.ihfftn(x, dim=(1, 2)),
    "correlation": lambda x: fft.irfft(fft.rfft(x) * torch.conj(fft.rfft(x.flip(-1)))),
    "stft": lambda x: torch.stft(x.flatten(1), 16, 4, window=torch.hann_window(16), return_complex=True),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(check, name):
    check(TRANSFORMS[name], floats(2, 6, 8))


def filled_by_slices(x):
    """What spectral convolutions write: the low frequencies of a buffer of zeros."""
    low, found = fft.rfft2(x), x.new_zeros(x.shape[0], 6, 5, dtype=torch.cfloat)
    found[:, :2, :3] = low[:, :2, :3] * 2
    found[:, -2:, :3] = low[:, -2:, :3]
    return fft.irfft2(found, s=(6, 8))


def chosen_by_data(x):
    """A branch on data, which is captured with the example's values beside the sizes."""
    y = fft.rfft(x if x.min() < 100 else -x)
    return fft.irfft(y)


ARITHMETIC = {
    "filled by slices": filled_by_slices,
    "padded": lambda x: F.pad(torch.complex(x, x + 1), (0, 2)).abs(),
    "ones": lambda x: x.new_ones(x.shape, dtype=torch.cfloat) + torch.complex(x, x),
    "chosen by data": chosen_by_data,
    "turned": Rotary(),
    "parts": lambda x: torch.cat([torch.complex(x, x), torch.complex(x, -x)], 1).transpose(1, 2).angle(),
    "product of matrices": lambda x: (torch.complex(x, x + 1) @ torch.complex(x, x * 2).mT).imag,
    "sums": lambda x: 2 - torch.add(torch.complex(x, x), x, alpha=3) + 1j,
    "quotient": lambda x: torch.complex(x, x + 1) / torch.complex(x * 2, x * x + 1) / 2,
    "exponential": lambda x: torch.exp(1j * x).conj(),
    "large": lambda x: torch.complex(x * 1e30, x * 0).abs() * 1e-30,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(check, name):
    check(ARITHMETIC[name], floats(2, 6, 8))


def test_a_complex_output_is_said(check):
    graph = check(fft.fft, floats(2, 8))
    assert graph.known_type(graph.outputs[0][1]).shape == ("N", 8, 2)
    assert any("`output`" in note and "last axis" in note for note in graph.origin.notes)


def test_a_complex_input_is_refused():
    class Net(nn.Module):
        def forward(self, z):
            return z.abs()

    with pytest.raises(UnsupportedError, match="two tensors"):
        regraft.load(Net(), (torch.ones(2, 3, dtype=torch.complex64),))


def test_no_matrix_of_unbounded_size(tmp_path):
    graph = regraft.load(_Function(fft.rfft), (torch.ones(2, 8192),))
    with pytest.raises(BackendError, match=r"length up to 4096, got one along f32\[N,8192\]"):
        to_model(graph)
    write(graph, tmp_path / "net")  # which has a kernel of its own
    assert "ops.rfft(" in (tmp_path / "net" / "model.py").read_text()


class _Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
