"""The float64 run of a torch model is in float64, whatever the model itself casts to."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import ModelError
from regraft.verification.runners.torch_runner import TorchRunner, exact_runner


class Casts(nn.Module):
    """A table of sines, made by way of what `cast` says."""

    def __init__(self, cast: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.cast = cast

    def forward(self, t):
        return torch.sin(self.cast(t)[:, None] * torch.exp(-torch.arange(8, dtype=torch.float32) / 3))


def in_autocast(t: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (t.double()[:, None] @ torch.ones(1, 1).double())[:, 0]


CASTS = {
    "float": lambda t: t.float(),
    "to": lambda t: t.to(torch.float32),
    "to_like": lambda t: t.float().to(torch.ones(1).dtype),
    "type": lambda t: t.type(torch.float32),
    "half": lambda t: t.float().half().float(),
    "into_zeros": lambda t: torch.zeros(t.shape).copy_(t),
    "plus_a_tensor": lambda t: t + torch.tensor([0.0]),
    "summed": lambda t: t[:, None].sum(1, dtype=torch.float32),
    "softmax": lambda t: t * torch.zeros(t.shape[0], 1).softmax(-1, dtype=torch.float32)[:, 0],
    "autocast": in_autocast,
}


@pytest.mark.parametrize("name", CASTS)
def test_a_cast_rounds_nothing(name: str) -> None:
    times = np.array([999, 517, 3], np.int64)
    graph = regraft.load(Casts(CASTS[name]), (torch.from_numpy(times),))
    found = TorchRunner(graph, double=True).run({"t": times}).outputs[0][1]
    wanted = np.sin(times[:, None] * np.exp(-np.arange(8) / 3))
    assert found.dtype == np.float64
    assert np.abs(found - wanted).max() < 1e-11


def test_float32_tensors_that_are_no_buffers_are_no_obstacle() -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = [torch.full((4, 4), 0.5)]

        def forward(self, x):
            return x @ self.table[0]

    graph = regraft.load(Holds(), (torch.ones(2, 4),))
    found = TorchRunner(graph, double=True).run({"x": np.full((2, 4), 0.1)}).outputs[0][1]
    assert np.abs(found - 0.2).max() < 1e-15


def test_masks_of_the_least_number_stay_what_they_are() -> None:
    class Masked(nn.Module):
        def forward(self, x):
            mask = torch.full((4, 4), torch.finfo(torch.float32).min, dtype=torch.float32).triu(1)
            return (x + mask + mask / 2).softmax(-1)

    graph = regraft.load(Masked(), (torch.randn(4, 4),), dynamic_batch=False)
    found = TorchRunner(graph, double=True).run({"x": np.zeros((4, 4))}).outputs[0][1]
    assert np.abs(found - np.tril(1 / np.arange(1, 5)[:, None] * np.ones((4, 4)))).max() < 1e-15


class Same(nn.Module):
    def forward(self, x):
        return x


def run(model: nn.Module, x: np.ndarray, *, double: bool = True) -> np.ndarray:
    """What a model computes that need not be one that can be captured."""
    graph = regraft.load(Same(), (torch.zeros(2, 4),))
    graph.origin.model = model
    return TorchRunner(graph, double=double).run({"x": x}).outputs[0][1]


def test_random_numbers_are_those_of_the_float32_run() -> None:
    class Draws(nn.Module):
        def forward(self, x):
            torch.manual_seed(3)
            return x + torch.rand(4) + torch.rand_like(x)

    own, exact = (run(Draws(), np.zeros((2, 4), np.float32), double=d) for d in (False, True))
    assert np.abs(own - exact).max() < 1e-6


def test_a_model_that_needs_its_element_types_runs_as_it_says() -> None:
    """Bits of float32 cannot be looked at in float64: then the run is in what the model asks for."""

    class Bits(nn.Module):
        def forward(self, x):
            exponent = (x.float().view(torch.int32) >> 23) - 127
            return torch.exp2(exponent.float()) * math.pi

    found = run(Bits(), np.full((2, 4), 5.0))
    assert found == pytest.approx(4 * math.pi)


def test_writes_in_place_reach_what_a_cast_shares() -> None:
    """`.float()` is no copy of a float32 tensor, nor of a float64 one in its place; `.half()` is."""

    class Writes(nn.Module):
        def forward(self, x):
            y = x * 1
            y.float().add_(1)
            y.half().add_(5)
            return y

    assert (run(Writes(), np.zeros((2, 4))) == 1).all()


@pytest.mark.parametrize(("kernel", "cheap"), [(3, True), (7, False)])
def test_a_convolution_that_torch_would_unfold_beyond_memory_is_not_run_in_float64(
    kernel: int, cheap: bool
) -> None:
    """Windows of 7 x 7 x 7 over 48 channels of 32 x 32 x 32 are 4 GB in float64."""
    graph = regraft.load(nn.Conv3d(48, 1, kernel, padding="same").eval(), ("1x48x32x32x32",))
    runner = exact_runner(graph)
    assert (runner is not None) == cheap
    if runner is not None:
        runner.close()


class Copied(nn.Module):
    """Counts its copies, or refuses them."""

    def __init__(self, inner: nn.Module, *, refuses: bool = False) -> None:
        super().__init__()
        self.inner, self.refuses = inner, refuses
        self.copies: list[int] = []

    def __deepcopy__(self, memo: object) -> nn.Module:
        if self.refuses:
            raise TypeError("there is one of me")
        self.copies.append(1)
        return Copied(self.inner)

    def forward(self, x):
        return self.inner(x)


def test_a_float64_copy_is_made_when_one_is_needed() -> None:
    net = Copied(nn.Linear(4, 4)).eval()
    graph = regraft.load(net, ("2x4",))
    before = len(net.copies)
    assert regraft.verify(graph, regraft.rewrite(graph).graph).passed
    assert len(net.copies) == before
    runner = exact_runner(graph)
    assert runner is not None
    runner.run({"x": np.ones((2, 4), np.float32)})
    assert len(net.copies) == before + 1
    runner.close()


@pytest.mark.parametrize("inner", [nn.Linear(4, 4), nn.ELU()], ids=["linear", "elu"])
def test_a_module_that_cannot_be_copied_has_no_float64_result(inner: nn.Module) -> None:
    """What ELUs may cost depends on whether there is one, which is found out at once."""
    graph = regraft.load(Copied(inner, refuses=True).eval(), ("2x4",))
    runner = exact_runner(graph)
    assert (runner is None) == isinstance(inner, nn.ELU)
    if runner is not None:
        with pytest.raises(ModelError, match="there is one of me"):
            runner.run({"x": np.ones((2, 4), np.float32)})
    assert regraft.verify(graph, regraft.rewrite(graph).graph).passed
