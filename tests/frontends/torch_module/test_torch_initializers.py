"""Initial laws: the class's own, or the one that a model re-initialised with, told from the values."""

import pytest
import torch
from torch import nn

from regraft.frontends.torch_module.modules.initializers import initial_laws


def law_of(module: nn.Module, name: str) -> str:
    return str(initial_laws(module)[id(module.get_parameter(name))])


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
    assert law_of(module, "weight").startswith("he_uniform(a=2.236")
    assert law_of(module, "bias").startswith("uniform(")


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("redrawn", REDRAWN)
@pytest.mark.parametrize("seed", range(3))
def test_a_redrawn_weight_shows_its_law(layer: str, redrawn: str, seed: int) -> None:
    torch.manual_seed(seed)
    module = LAYERS[layer]()
    draw, law = REDRAWN[redrawn]
    draw(module.weight)
    assert law_of(module, "weight") == law


@pytest.mark.parametrize("normalised", [True, False])
def test_trained_values_keep_the_law_of_the_class_where_they_show_to_be_trained(normalised: bool) -> None:
    """Statistics or a scale that moved show it; without any, the values may be of a law that nobody knows."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(96, 64), nn.LayerNorm(64) if normalised else nn.Identity())
    target = torch.randn(256, 64)
    x = torch.randn(256, 96)
    optimizer = torch.optim.SGD(module.parameters(), 0.5)
    for _ in range(200):
        optimizer.zero_grad()
        (module(x) - target).square().mean().backward()
        optimizer.step()
    assert module[0].weight.abs().max() > 96**-0.5  # the class's law does not reach that far
    expected = "he_uniform(a=2.236" if normalised else "unknown()"
    assert law_of(module, "0.weight").startswith(expected)


def test_a_residual_branch_that_starts_at_zero() -> None:
    norm = nn.BatchNorm2d(64)
    assert law_of(norm, "weight") == "ones()"
    nn.init.zeros_(norm.weight)
    assert law_of(norm, "weight") == "zeros()"


def test_small_and_square_layers_join_the_law_of_their_kind() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 64, 3), nn.Conv2d(64, 64, 3, groups=64)
    )
    for conv in net:
        nn.init.kaiming_normal_(conv.weight, mode="fan_out")
    assert {law_of(net, f"{at}.weight") for at in range(4)} == {'he_normal(a=0.0, mode="fan_out")'}
    for conv in net:
        nn.init.kaiming_normal_(conv.weight)
    assert {law_of(net, f"{at}.weight") for at in range(4)} == {'he_normal(a=0.0, mode="fan_in")'}


def test_one_kind_drawn_by_two_laws() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 256), nn.Linear(256, 64), nn.Linear(64, 100))
    nn.init.normal_(net[3].weight, 0, 0.01)
    laws = [law_of(net, f"{at}.weight") for at in range(4)]
    assert all(law.startswith("he_uniform(a=2.236") for law in laws[:3])
    assert laws[3] == "normal(mean=0.0, std=0.01)"


def test_a_law_of_the_models_own_is_the_plain_one_with_the_spread_that_it_shows() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 64), nn.Linear(64, 128))
    nn.init.normal_(net[2].weight, std=0.0058)
    assert law_of(net, "2.weight") == "normal(mean=0.0, std=0.0058)"
    nn.init.uniform_(net[2].weight, -0.3, 0.3)
    law = initial_laws(net)[id(net[2].weight)]
    assert law is not None
    assert law.law == "uniform"
    assert law.argument("high", 0) == pytest.approx(0.3, rel=1e-3)
    nn.init.normal_(net[1].weight, std=0.5)  # a norm that is not as it was made: the model was trained
    assert law_of(net, "2.weight").startswith("he_uniform(a=2.236")


def test_a_parameter_of_the_models_own() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cls = nn.Parameter(torch.zeros(1, 1, 64))
            self.position = nn.Parameter(torch.empty(1, 197, 64).normal_(std=0.02))
            self.scale = nn.Parameter(torch.tensor(2.5))

    torch.manual_seed(0)
    net = Tokens()
    assert law_of(net, "cls") == "zeros()"
    assert law_of(net, "position") == "normal(mean=0.0, std=0.02)"
    assert law_of(net, "scale") == "constant(value=2.5)"


def test_the_norms_of_an_adversarial_net() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.BatchNorm2d(1200) for _ in range(3)))
    for norm in net:
        nn.init.normal_(norm.weight, 1.0, 0.02)
    assert law_of(net, "0.weight") == "normal(mean=1.0, std=0.02)"
