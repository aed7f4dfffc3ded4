"""Complex tensors and Fourier transforms as arithmetic on real ones, against torch itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import fft, nn

import regraft
from regraft import rewrite_file
from regraft.backends.mindspore_source import write
from regraft.backends.onnx_model import to_model
from regraft.ir import BackendError

from .comparison import session_of


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


def repeated_before_written(x):
    """What Griffin and Lim's method does: the spectrum before is written over once it is read."""
    found, before = torch.complex(x, x.sin()), torch.tensor(0.0)
    for _ in range(3):
        turned = found * found
        found = turned - before.mul_(0.5)
        before = turned
    return torch.view_as_real(found)


ARITHMETIC = {
    "made of real numbers": lambda x: torch.view_as_real((x + 0.0j).transpose(1, 2)),
    "plus a wider real tensor": lambda x: torch.view_as_real(torch.complex(x[:, :1], x[:, 1:2]) + x),
    "a wider real tensor minus": lambda x: (x - torch.complex(x[:, :1], x[:, 1:2])).imag.sum(1),
    "written over in a loop": repeated_before_written,
    "filled by slices": filled_by_slices,
    "padded": lambda x: F.pad(torch.complex(x, x + 1), (0, 2)).abs(),
    "padded with a number": lambda x: F.pad(torch.complex(x, x + 1), (1, 2), value=3.0).abs(),
    "padded by the operator": lambda x: torch.constant_pad_nd(torch.complex(x, x + 1), (0, 2), 0.0).abs(),
    "padded by reflection": lambda x: F.pad(torch.complex(x, x + 1), (1, 0), mode="reflect").abs(),
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


def first(x):
    return torch.complex(x, (x * 1.7).sin() * 2 + 0.1)


def second(x):
    return torch.complex(x * 0.5 + 1, x.cos())


def written(z, what):
    """A tensor after writes into parts of it."""
    if what == "slices":
        z[:, :2] += 1j
        z[..., 0] *= 2
    elif what == "the real part":
        z.real[:, 0] = 1.0
        z.imag.mul_(2)
    elif what == "numbers":
        z[:, 1:3] = 1 + 2j
        z[z.real > 0] = 0
    return z


ELEMENTWISE = (
    *("tanh", "sinh", "cosh", "sin", "cos", "tan", "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt"),
    *("rsqrt", "sigmoid", "sgn", "square", "reciprocal", "abs", "angle", "exp2", "asin", "acos", "atan"),
    *("asinh", "acosh", "atanh", "isnan", "isfinite", "nan_to_num", "resolve_conj"),
)
FUNCTIONS = {
    **{name: lambda x, name=name: getattr(torch, name)(first(x)) for name in ELEMENTWISE},
    "silu": lambda x: F.silu(first(x)),
    **{f"power {n}": lambda x, n=n: first(x) ** n for n in (0, 2, 3, -1, 0.5, 1.5, 1 + 2j)},
    "power of both": lambda x: first(x) ** second(x) + 2 ** first(x),
    "power of 0": lambda x: (first(x) * (x > 0)) ** 1.5,
    "quotient of one": lambda x: 1 / first(x),
    "matrices": lambda x: first(x) @ second(x).mH,
    "einsum": lambda x: torch.einsum("bij,bkj,bkl->bil", first(x), second(x), first(x)),
    "mean": lambda x: first(x).mean(1),
    "norms": lambda x: torch.linalg.vector_norm(first(x), dim=-1) + torch.norm(second(x)),
    "deviation": lambda x: first(x).std(-1) + first(x).var(-1),
    "products": lambda x: first(x).prod(1) + first(x).cumprod(1)[:, 2],
    "relu of parts": lambda x: torch.complex(F.relu(first(x).real), F.relu(first(x).imag)),
    "polar": lambda x: torch.polar(x.abs(), x),
    "differs": lambda x: first(x) != second(x),
    "masked": lambda x: first(x).masked_fill(x > 0, 1 + 2j) + torch.where(x > 0, first(x), 0),
    "filled": lambda x: first(x) + torch.full_like(first(x), 2 + 1j) * torch.ones_like(first(x)),
    "inner products": lambda x: (
        torch.vdot(first(x)[0, 0], second(x)[0, 0]) + torch.linalg.vecdot(first(x), second(x))
    ),
    "tensor products": lambda x: torch.tensordot(first(x), second(x)[0], ([2], [1])),
    "added products": lambda x: torch.baddbmm(first(x)[:, :, :6], first(x), second(x).mT, alpha=0.5),
    "added elements": lambda x: torch.addcmul(first(x), first(x), second(x), value=0.5),
    "between": lambda x: torch.lerp(first(x), second(x), 0.3),
    "in place": lambda x: first(x).mul_(2).add_(second(x)).tanh_(),
    **{
        f"written: {what}": lambda x, what=what: written(first(x), what)
        for what in ("slices", "the real part", "numbers")
    },
    "scattered": lambda x: torch.zeros_like(first(x)).scatter_add(
        1, torch.zeros_like(x, dtype=torch.long), first(x)
    ),
    "normalised": lambda x: F.normalize(first(x), dim=-1),
    "moved": lambda x: fft.fftshift(first(x)).roll(1, -1).flip(1).repeat_interleave(2, 1),
    "linear": lambda x: F.linear(first(x), second(x)[0], second(x)[0, :, 0]),
    "convolution": lambda x: F.conv1d(first(x), second(x)[:, :, :3]),
    "inverse": lambda x: torch.linalg.inv(first(x)[:, :3, :3] + torch.eye(3) * 5),
    "solution": lambda x: torch.linalg.solve(first(x)[:, :3, :3] + torch.eye(3) * 5, second(x)[:, :3, :2]),
    "tanh of a spectrum": lambda x: fft.irfft(fft.rfft(x).tanh(), n=8),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(check, name):
    check(FUNCTIONS[name], floats(2, 6, 8), dynamic=False, atol=1e-4, rtol=2e-4)


def test_values_near_the_limits_of_a_formula():
    class Net(nn.Module):
        def forward(self, x):
            z = torch.complex(x, x * 0.5)
            return torch.tanh(z), torch.sqrt(z), torch.log(torch.complex(1 + x * 1e-4, x * 1e-4))

    x = torch.tensor([[0.0, 1e-6, -1e-6, 30.0, -30.0, 80.0, 1.0, -1.0]])
    graph = regraft.load(Net(), (x,))
    found = session_of(graph).run(None, {"x": x.numpy()})
    for want, got in zip(Net()(x), found, strict=True):
        np.testing.assert_allclose(got, torch.view_as_real(want).numpy(), rtol=1e-5, atol=1e-9)


class Spectral(nn.Module):
    """A product in the frequency domain with complex weights, as Fourier neural operators have them."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, 4, dtype=torch.cfloat))
        self.shift = nn.Parameter(torch.randn(3, 1, dtype=torch.cfloat))

    def forward(self, x):
        y = fft.rfft(x)
        z = torch.zeros(x.shape[0], 3, y.shape[-1], dtype=y.dtype)
        z[..., :4] = torch.einsum("bix,iox->box", y[..., :4], self.weight) + self.shift
        return fft.irfft(z, n=x.shape[-1])


def test_complex_parameters_have_their_parts_on_a_last_axis(check, tmp_path):
    model = Spectral()
    graph = check(model, floats(2, 2, 16), dynamic=False)
    types = {p.name: (p.data.dtype, p.data.shape, p.trainable) for p in graph.parameters()}
    assert types == {"weight": ("float32", (2, 3, 4, 2), True), "shift": ("float32", (3, 1, 2), True)}
    write(regraft.rewrite(graph).graph, tmp_path / "net")
    assert regraft.verify(graph, tmp_path / "net", train=True).passed
    torch.save(model.state_dict(), tmp_path / "net.pth")
    other = regraft.load(Spectral(), ["2x2x16"], params=tmp_path / "net.pth")
    assert regraft.verify(graph, other).passed


def test_a_state_dict_with_complex_tensors_is_carried_over(tmp_path):
    import mindspore

    model = Spectral()
    graph = regraft.load(model, ["2x2x16"])
    rewrite_file(graph, regraft.rewrite(graph), tmp_path / "net", to="mindspore")
    later = Spectral()
    torch.save(later.state_dict(), tmp_path / "later.pth")
    regraft.convert_checkpoint(
        tmp_path / "later.pth", tmp_path / "later.ckpt", tmp_path / "net" / "renames.json"
    )
    found = mindspore.load_checkpoint(str(tmp_path / "later.ckpt"))
    for name, value in later.state_dict().items():
        np.testing.assert_array_equal(found[name].asnumpy(), torch.view_as_real(value).numpy())


class Inverse(nn.Module):
    """Takes a spectrum, as torchaudio's InverseSpectrogram does, and another input."""

    def forward(self, z, gain):
        return torch.istft(z * gain, 16, 4, window=torch.hann_window(16)), z.abs()


@pytest.mark.parametrize("to", ["onnx", "mindspore"])
def test_a_complex_input_has_its_parts_on_a_last_axis(to, tmp_path):
    z = torch.stft(torch.randn(2, 64), 16, 4, window=torch.hann_window(16), return_complex=True)
    graph = regraft.load(Inverse(), (z, torch.ones(1)))
    assert next((n.name, n.type.shape[1:]) for n in graph.input_nodes()) == ("z", (9, 17, 2))
    assert any(n.startswith("the input `z` holds the real and imaginary parts") for n in graph.origin.notes)
    path = tmp_path / ("net.onnx" if to == "onnx" else "net")
    regraft.save(regraft.rewrite(graph).graph, path, to=to)
    assert regraft.verify(graph, path).passed


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
