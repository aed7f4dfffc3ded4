"""Initial laws: the class's own, or the one that a model re-initialised with, told from the values."""

import pytest
import torch
from torch import nn

from regraft.frontends.torch_module.initializers import initializer_of

LAYERS = {
    "conv": lambda: nn.Conv2d(16, 48, 3),
    "linear": lambda: nn.Linear(96, 64),
    "transposed": lambda: nn.ConvTranspose2d(24, 16, 3),
}
REDRAWN = {
    "kaiming_normal fan_out": (
        lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
        'he_normal(a=0.0, mode="fan_out")',
    ),
    "kaiming_normal fan_in": (
        lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
        'he_normal(a=0.0, mode="fan_in")',
    ),
    "kaiming_uniform": (
        lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"),
        'he_uniform(a=0.0, mode="fan_in")',
    ),
    "xavier_uniform": (nn.init.xavier_uniform_, "xavier_uniform(gain=1.0)"),
    "xavier_normal": (nn.init.xavier_normal_, "xavier_normal(gain=1.0)"),
    "normal 0.01": (lambda w: nn.init.normal_(w, 0, 0.01), "normal(mean=0.0, std=0.01)"),
    "normal 0.02": (lambda w: nn.init.normal_(w, 0, 0.02), "normal(mean=0.0, std=0.02)"),
    "trunc_normal 0.02": (lambda w: nn.init.trunc_normal_(w, std=0.02), "normal(mean=0.0, std=0.02)"),
    "zeros": (nn.init.zeros_, "zeros()"),
    "constant": (lambda w: nn.init.constant_(w, 0.25), "constant(value=0.25)"),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("seed", range(8))
def test_a_fresh_layer_has_its_classs_law(layer: str, seed: int) -> None:
    torch.manual_seed(seed)
    module = LAYERS[layer]()
    assert str(initializer_of(module, "weight")).startswith("he_uniform(a=2.236")
    assert str(initializer_of(module, "bias")).startswith("uniform(")


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("redrawn", REDRAWN)
@pytest.mark.parametrize("seed", range(3))
def test_a_redrawn_weight_shows_its_law(layer: str, redrawn: str, seed: int) -> None:
    torch.manual_seed(seed)
    module = LAYERS[layer]()
    draw, law = REDRAWN[redrawn]
    draw(module.weight)
    assert str(initializer_of(module, "weight")) == law


def test_trained_values_keep_the_law_of_the_class() -> None:
    torch.manual_seed(0)
    module = nn.Linear(96, 64)
    target = torch.randn(256, 64)
    x = torch.randn(256, 96)
    optimizer = torch.optim.SGD(module.parameters(), 0.5)
    for _ in range(200):
        optimizer.zero_grad()
        (module(x) - target).square().mean().backward()
        optimizer.step()
    assert module.weight.abs().max() > 96**-0.5  # the class's law does not reach that far
    assert str(initializer_of(module, "weight")).startswith("he_uniform(a=2.236")


def test_a_residual_branch_that_starts_at_zero() -> None:
    norm = nn.BatchNorm2d(64)
    assert str(initializer_of(norm, "weight")) == "ones()"
    nn.init.zeros_(norm.weight)
    assert str(initializer_of(norm, "weight")) == "zeros()"
