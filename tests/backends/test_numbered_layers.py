"""Layers of numbered names become loops in source, in both targets, and keep their names."""
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.backends.source.expressions import MISSING, Argument, Brackets, Call, Expression, Literal, Quoted
from regraft.backends.source.progressions import common_form, longest_progression
from regraft.backends.source.rendering import Renderer
from regraft.backends.source.tables import find_table
from regraft.frontends.python_file import load_object

X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


class Numbered(nn.Module):
    """Layers of numbered names, and what `run` computes with them."""

    def __init__(self, run: Callable[..., object], sizes: tuple[int, ...] = (8, 8, 8, 8)) -> None:
        super().__init__()
        self.run = run
        for number, (entering, leaving) in enumerate(pairwise(sizes)):
            self.add_module(f"fc{number + 1}", nn.Linear(entering, leaving))
        self.count = len(sizes) - 1

    def __iter__(self) -> Iterator[nn.Module]:
        return iter([getattr(self, f"fc{number + 1}") for number in range(self.count)])

    def forward(self, x: torch.Tensor) -> object:
        return self.run(self, x)


class Growing(nn.Module):
    """A block whose layers are given all that the layers before them made."""

    class Layer(nn.Module):
        def __init__(self, entering: int, leaving: int) -> None:
            super().__init__()
            self.fc = nn.Linear(entering, leaving)

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.fc(torch.cat(inputs, dim=1)))

    def __init__(self, entering: int, growth: tuple[int, ...]) -> None:
        super().__init__()
        self.count = len(growth)
        for number, leaving in enumerate(growth):
            self.add_module(f"layer{number}", self.Layer(entering + sum(growth[:number]), leaving))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = [x]
        for number in range(self.count):
            made.append(getattr(self, f"layer{number}")(*made))
        return torch.cat(made, dim=1)


def chain(net: Numbered, x: torch.Tensor) -> torch.Tensor:
    for layer in net:
        x = torch.tanh(layer(x)) * 0.5 + x
    return x


def widening(net: Numbered, x: torch.Tensor) -> torch.Tensor:
    for layer in net:
        x = torch.relu(layer(x))
    return x


def given(net: Numbered, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first turn reads what every turn is given too, and what is returned."""
    h = x
    for layer in net:
        h = torch.tanh(layer(h)) + h + x
    return h, x


def two_carried(net: Numbered, x: torch.Tensor) -> torch.Tensor:
    h = x * 2
    for layer in net:
        x, h = torch.tanh(layer(x)) + h, torch.sigmoid(h) * x
    return x - h


def read_later(net: Numbered, x: torch.Tensor) -> torch.Tensor:
    made = [x]
    for layer in net:
        made.append(torch.relu(layer(made[-1])))
    return made[1] + made[2] + made[3]


def called_twice(net: Numbered, x: torch.Tensor) -> torch.Tensor:
    for layer in net:
        x = torch.relu(layer(x))
    return net.fc1(x)


def other_constants(net: Numbered, x: torch.Tensor) -> torch.Tensor:
    for number, layer in enumerate(net):
        x = torch.relu(layer(x)) * (number + 2)
    return x


def dense(*growths: tuple[int, ...]) -> nn.Sequential:
    sizes = [8]
    for growth in growths:
        sizes.append(sizes[-1] + sum(growth))
    return nn.Sequential(*(Growing(size, growth) for size, growth in zip(sizes, growths, strict=False)))


def tied() -> nn.Module:
    net = Numbered(chain)
    net.fc3.weight = net.fc1.weight
    return net


class Residual(nn.Module):
    """A layer of two sizes."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(entering, 6), nn.LayerNorm(6), nn.Linear(6, leaving)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.down(self.norm(self.up(x))))


def step(entering: int, leaving: int) -> nn.Module:
    return nn.Sequential(nn.Linear(entering, leaving), nn.LayerNorm(leaving), nn.Tanh())


def stage(entering: int, leaving: int, depth: int) -> nn.Module:
    return nn.Sequential(Residual(entering, leaving), *(Residual(leaving, leaving) for _ in range(depth - 1)))


MADE = '        for i in range(3):\n            setattr(self, f"fc{i + 1}", nn.Linear(8, 8))\n'
IN_A_LOOP = "for i in range(3):\n            "
CASES = {
    "chain": (lambda: Numbered(chain), [MADE, IN_A_LOOP + 'x = torch.tanh(getattr(self, f"fc{i + 1}")(x))']),
    "widening": (
        lambda: Numbered(widening, (8, 12, 16, 20)),
        ["nn.Linear(8 + 4 * i, 12 + 4 * i)", IN_A_LOOP + 'x = F.relu(getattr(self, f"fc{i + 1}")(x))'],
    ),
    "doubling": (
        lambda: Numbered(widening, (8, 16, 32, 64, 128)),
        [
            "nn.Linear(8 * 2**i, 16 * 2**i)",
            IN_A_LOOP.replace("3", "4") + 'x = F.relu(getattr(self, f"fc{i + 1}")(x))',
        ],
    ),
    "given": (lambda: Numbered(given), [MADE, "out = x\n        " + IN_A_LOOP]),
    "two carried": (lambda: Numbered(two_carried), [MADE, IN_A_LOOP]),
    "tied": (tied, [MADE, "self.fc3.weight = self.fc1.weight  # tied"]),
    "growing": (
        lambda: dense((4, 4), (4,) * 4, (4,) * 8),  # as many features as four times the layers
        ["(2, 8)", "(4, 16)", "(8, 32)", "range(num_layers)", "range(self.num_layers)", "4 * i)"],
    ),
    "growing unevenly": (
        lambda: dense((4, 1, 3)),
        ["self.layer1 =", '(getattr(self, f"layer{i}")(*features),)'],
    ),
    "read later": (lambda: Numbered(read_later), ["self.fc2 = ", "self.fc2("]),
    "called twice": (lambda: Numbered(called_twice), ["self.fc2 = ", "self.fc2("]),
    "other constants": (lambda: Numbered(other_constants), ["self.fc2 = ", "self.fc2("]),
    "settings": (
        lambda: Numbered(widening, (8, 12, 14, 3, 9, 20, 5, 6, 4)),
        [
            "for i, (in_features, out_features) in enumerate(\n",
            'setattr(self, f"fc{i + 1}", nn.Linear(in_features, out_features))',
            IN_A_LOOP.replace("3", "8") + 'x = F.relu(getattr(self, f"fc{i + 1}")(x))',
        ],
    ),
    "settings of a sequence": (
        lambda: nn.Sequential(*(step(*sizes) for sizes in ((8, 5), (5, 9), (9, 3), (3, 8))), nn.Linear(8, 2)),
        [
            "*[\n",
            "for in_features, out_features in ((8, 5), (5, 9), (9, 3), (3, 8))\n",
            "nn.LayerNorm(out_features),",
            "nn.Linear(8, 2)",
        ],
    ),
    "settings of stages": (
        lambda: nn.Sequential(*map(stage, (8, 5, 9, 3, 7, 4), (5, 9, 3, 7, 4, 8), (1, 3, 2, 4, 3, 1))),
        [
            "Residual(in_features, features),\n",
            "*[Residual(features, features) for _ in ",
            "for in_features, features, depth in (",
            "(5, 9, 3),",
        ],
    ),
    "uneven": (lambda: Numbered(widening, (8, 12, 14, 3)), ["self.fc2 = ", "self.fc2("]),
}


@pytest.mark.parametrize("case", CASES)
def test_numbered_layers_that_are_alike_are_loops(case: str, tmp_path: Path) -> None:
    make, texts = CASES[case]
    torch.manual_seed(0)
    net = make().eval()
    graph = regraft.rewrite(regraft.load(net, [X])).graph
    for target in ("torch", "mindspore"):
        regraft.save(graph, tmp_path / target, to=target)
    source, _, _ = (tmp_path / "torch" / "model.py").read_text().partition("CHECKPOINT")
    assert [text for text in texts if text not in source] == [], source
    assert ("for i in range" in source) == any("range" in text or "{i" in text for text in texts), source
    with torch.no_grad():
        wanted = net(torch.tensor(X))
        built = load_object(f"{tmp_path}/torch/model.py:build")
        assert list(built.state_dict()) == list(net.state_dict())
        built.load_state_dict(net.state_dict())
        _compare(wanted, built(torch.tensor(X)))
        _compare(wanted, torch.compile(built, fullgraph=True, backend="eager")(torch.tensor(X)))
    emitted, mode = load_object(f"{tmp_path}/mindspore/model.py:build"), ms.get_context("mode")
    for each in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=each)
        try:
            found = emitted(ms.Tensor(X))
        finally:
            ms.set_context(mode=mode)
        _compare(wanted, found)


def _compare(wanted: object, found: object) -> None:
    """Compare a tensor, or several, of torch with those of either target."""
    pairs = zip(*(each if isinstance(each, tuple) else (each,) for each in (wanted, found)), strict=True)
    for one, other in pairs:
        array = other.numpy() if isinstance(other, torch.Tensor) else other.asnumpy()
        np.testing.assert_allclose(array, one.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        (((8, 4), (12, 4), (16, 4)), "Layer(8 + 4 * i, 4)"),
        (((5, 2), (4, 1), (3, 0)), "Layer(5 - i, 2 - i)"),
        (((0, 1), (1, 2), (2, 3)), "Layer(i, 1 + i)"),
        (((8, 4), (12, 5), (16, 6)), None),
        (((8, True), (12, True), (16, True)), "Layer(8 + 4 * i, True)"),
        (((8, 1), (12, True), (16, 1)), None),
        (((8, 0.5), (8, 1.0), (8, 1.5)), None),
        (((8, 4), (12, 4), (17, 4)), None),
        (((8, 1), (16, 2), (32, 4)), None),  # three stages read better in numbers
        (((8, 1), (16, 2), (32, 4), (64, 8)), "Layer(8 * 2**i, 2**i)"),
        (((-2, 3), (-4, 3), (-8, 3), (-16, 3)), "Layer(-2 * 2**i, 3)"),
        (((64, 8), (32, 4), (16, 2), (8, 1)), "Layer(64 // 2**i, 8 // 2**i)"),
        (((1, 1), (2, 2), (4, 3)), None),
        (((9, 1), (4, 1), (2, 1)), None),
    ],
)
def test_integers_that_grow_by_one_rule(numbers: tuple[tuple[object, ...], ...], text: str | None) -> None:
    renderer = Renderer()
    members = [Call("Layer", tuple(Argument("", Literal(n)) for n in row)) for row in numbers]
    form = common_form(members, renderer.text, lambda _: True)
    assert (None if form is None else renderer.text(form)) == text


@pytest.mark.parametrize("alike", [0, 3, 4, 5, 11, 16, 17])
def test_the_first_members_that_are_alike_are_counted(alike: int) -> None:
    numbers = [*(8 + 4 * at for at in range(alike)), *([1, 5, 2] * 2)]
    members = [Call("Layer", (Argument("", Literal(n)),)) for n in numbers]
    renderer = Renderer()
    assert longest_progression(members, renderer.text, lambda _: True) == alike
    everything = longest_progression(members[:alike], renderer.text, lambda _: True)
    assert everything == alike


@pytest.mark.parametrize(
    ("rows", "form", "table"),
    [
        (
            [(3, 8, 1), (8, 8, 2), (8, 9, 1), (9, 7, 1)],
            "Layer(in_channels, out_channels, stride=stride)",
            "((3, 8, 1), (8, 8, 2), (8, 9, 1), (9, 7, 1))",
        ),
        ([(3, 3, 1), (8, 8, 1), (5, 5, 1), (2, 2, 1)], "Layer(channels, channels)", "(3, 8, 5, 2)"),
        ([(3, 3, 1), (8, 8, 1), (5, 5, 1)], None, None),  # three read as well one after the other
        ([(3, 3, 1)] * 4, None, None),
        (
            [(3, "a", None), (True, "b", 2), (5, (1,), 1), (2, 0.5, 1)],
            "Layer(in_channels, out_channels, stride=stride)",
            '((3, "a", None), (True, "b", 2), (5, (1,), 1), (2, 0.5, 1))',
        ),
    ],
)
def test_settings_of_constructors_are_a_table(
    rows: list[tuple[object, ...]], form: str | None, table: str | None
) -> None:
    def layer(entering: object, leaving: object, stride: object) -> Call:
        named = Argument("stride", Literal(stride, "stride"), 1)
        first = Argument("", Literal(entering, "in_channels")), Argument("", Literal(leaving, "out_channels"))
        return Call("Layer", (*first, named))

    renderer = Renderer()
    found = find_table([layer(*row) for row in rows], renderer.text, ())
    assert (found and renderer.text(found.form), found and found.text) == (form, table)
    if found:
        other = find_table([layer(*row) for row in rows], renderer.text, found.names)
        assert other is not None
        assert not {*other.names} & {*found.names}


def test_argument_that_depends_on_a_setting_is_in_no_table() -> None:
    def layer(size: int, padding: int) -> Call:
        mode = Argument("mode", Quoted("pad"), MISSING, ("padding", Quoted("valid")))
        return Call("Layer", (Argument("", Literal(size)), mode, Argument("padding", Literal(padding), 0)))

    text = Renderer().text
    assert find_table([layer(n, n % 2) for n in range(4)], text, ()) is None
    found = find_table([layer(n, 0) for n in range(4)], text, ())
    assert found is not None
    assert text(found.form) == 'Layer(value, mode="valid")'


def test_a_growing_factor_has_parentheses() -> None:
    products = [Expression((Literal(n), " * ", Literal(9))) for n in (8, 12, 16)]
    form = common_form(products, Renderer().text, lambda _: True)
    assert isinstance(form, Expression)
    assert isinstance(form.parts[0], Brackets)
    assert Renderer().text(form) == "(8 + 4 * i) * 9"
