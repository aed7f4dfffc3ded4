"""What a forward does in training mode and the graph does not, whatever tensors it is run on to find out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import regraft
from regraft.frontends.torch_module.export import training_modes
from regraft.frontends.torch_module.modules.live_state import Untouched

X = torch.randn(2, 3, 6, 6)
HELD = torch.ones(4, 1, 1)


class _Drops(nn.Module):
    """Drops in training mode a second time, which no graph of its evaluation mode shows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.offset = torch.ones(4, 1, 1)  # registered nowhere

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.norm(self.conv(x))) + self.offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.features(x)
        return functional.dropout(found, 0.25) if self.training else found


class _Mixed(_Drops):
    """Computes with a tensor in main memory that no module holds, which the meta device refuses."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return super().features(x) * HELD


class _Recurrent(_Drops):
    """Has a layer that the meta device would take step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 4)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(super().features(x).mean(3).permute(2, 0, 1))[0]


class _Placed(_Drops):
    """Asks where its input lies, and computes nothing that differs on other devices."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if x.device.type == "cpu" else self.features(x)


class _Helped(_Drops):
    """Has a method that asks it and calls no function of torch."""

    def is_here(self, x: torch.Tensor) -> bool:
        return str(x.device) == "cpu" or x.device.type == "cuda"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Drops.forward(self, x) if self.is_here(x) else self.features(x)


class _Elsewhere(_Helped):
    """Has a method that asks it, of which only code that does not run has the name."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.routed(x) if len(x.shape) > 9 else _Drops.forward(self, x)

    def routed(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.is_here(x) else self.features(x)


class _Reads(_Drops):
    """Asks for a value, which only real tensors have."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        found = super().features(x)
        return found * 2 if float(found.sum()) > 1e9 else found


@pytest.fixture
def tensors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the forwards are run on, in order."""
    seen: list[str] = []
    run: Callable[..., Any] = training_modes._calls

    def calls(module: Any, args: Any, keywords: Any, tensors: str, *further: Any, training: bool) -> Any:
        seen.append(tensors)
        return run(module, args, keywords, tensors, *further, training=training)

    monkeypatch.setattr(training_modes, "_calls", calls)
    return seen


@pytest.mark.parametrize(
    ("kind", "ways"),
    [
        (_Drops, ["meta"]),
        (_Mixed, ["meta", "fake"]),
        (_Recurrent, ["meta", "fake"]),
        (_Placed, ["fake"]),
        (_Helped, ["meta", "fake"]),
        (_Elsewhere, ["meta"]),
        (_Reads, ["meta", "fake", "real"]),
    ],
)
def test_what_training_alone_does_is_found(kind: type[_Drops], ways: list[str], tensors: list[str]) -> None:
    net = kind().eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    held = [*net.parameters(), *net.buffers(), net.offset]
    seed = torch.get_rng_state()
    found = training_modes.training_differences(net, (X,), {}, Untouched(net)).notes
    assert found == ["the root module computes something else in training than in the graph: dropout(0.25)"]
    assert list(dict.fromkeys(tensors)) == ways
    assert all(map(torch.equal, before.values(), net.state_dict().values()))
    assert all(a is b for a, b in zip(held, [*net.parameters(), *net.buffers(), net.offset], strict=True))
    assert torch.equal(seed, torch.get_rng_state())
    assert not any(module.training for module in net.modules())


class _Alike(nn.Module):
    """Reads `training` and does the same in both modes: through every shape that is not computed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.norm = nn.BatchNorm2d(8)
        self.layer_norm = nn.LayerNorm(8)
        self.inner, self.outer = nn.Linear(8, 12), nn.Linear(12, 8, bias=False)
        self.outer.weight = nn.Parameter(self.inner.weight.detach().t().clone())
        self.drop = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.hardswish(self.norm(self.conv(x)), inplace=True)
        x = self.layer_norm(x.flatten(2).transpose(1, 2))  # (2, 36, 8)
        x = self.outer(functional.gelu(self.inner(x)))
        heads = x.reshape(2, 36, 2, 4).transpose(1, 2)
        one = heads[:, :1, :5]  # keys and values for every head
        x = functional.scaled_dot_product_attention(heads, one, one, dropout_p=0.1)
        x = functional.softmax(x.transpose(1, 2).reshape(2, 36, 8), -1)
        if x.shape != (2, 36, 8):
            raise ValueError(f"{tuple(x.shape)}")
        return functional.dropout(x, 0.5, training=False)


def test_no_difference_is_invented(tensors: list[str]) -> None:
    net = _Alike().eval()
    look = training_modes.training_differences(net, (X,), {}, Untouched(net))
    assert (look.notes, look.idle) == ([], {"": [True]})
    assert list(dict.fromkeys(tensors)) == ["meta"]


def test_tied_parameters_stay_tied_where_nothing_is_computed() -> None:
    class Tied(_Drops):
        def __init__(self) -> None:
            super().__init__()
            self.again = nn.Conv2d(3, 4, 3)
            self.again.weight = self.conv.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tied = self.again.weight is self.conv.weight
            return super().forward(x) if tied else self.features(x)

    net = Tied().eval()
    found = training_modes.training_differences(net, (X,), {}, Untouched(net)).notes
    assert len(found) == 1


def test_load_says_it() -> None:
    notes = regraft.load(_Drops().eval(), (X,)).origin.notes
    assert any("computes something else in training than in the graph: dropout(0.25)" in n for n in notes)


COUNTS = {"calls": 0}


class _Block(nn.Module):
    """Drops in training mode a second time, at a rate that its number may decide."""

    scale: torch.Tensor

    def __init__(self, number: int, rate: float = 0.25) -> None:
        super().__init__()
        self.number, self.rate, self.active = number, rate, True
        self.linear, self.norm = nn.Linear(4, 4), nn.Sequential(nn.LayerNorm(4), nn.Identity())
        self.register_buffer("scale", torch.tensor([float(number)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.linear(x))
        return functional.dropout(x, self.rate) if self.training and self.active else x


class _Numbered(_Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if self.number % 2 else x + 1


class _Counting(_Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        COUNTS["calls"] += 1
        return super().forward(x) if COUNTS["calls"] % 2 else x


class _Valued(_Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if self.scale.tolist()[0] > 1 else x


class _Filling(_Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.filled = x * 2
        return super().forward(x)


class _Assigning(_Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.linear.weight.data = self.linear.weight.data / 2
        return super().forward(x)


class _Chance(_Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if random.random() < 0.5 or self.training else x


class _Stack(nn.Module):
    def __init__(self, kind: type[_Block], change: Callable[[Any], object]) -> None:
        super().__init__()
        self.blocks: Any = nn.ModuleList([kind(n) for n in range(4)])
        self.switch, self.asks, self.append = False, False, False
        change(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.asks and torch.tensor(3).item() > 5:  # what the meta device does not know
            raise ValueError
        for n, block in enumerate(self.blocks):
            if self.switch:
                block.active = n % 2 == 0
            x = block(x)
        return x


def _tie(net: Any) -> None:
    net.blocks[2] = net.blocks[0]
    net.blocks[1].linear.weight = net.blocks[3].linear.weight


def _share(net: Any) -> None:
    net.blocks[1].norm[1] = net.blocks[1].norm[0]


def _rates(net: Any) -> None:
    for n, block in enumerate(net.blocks):
        block.rate = (0.0, 0.1, 0.1, 0.2)[n]


# the class of the blocks, a change of the net, runs repeated (layers in a block count), what a call leaves
STACKS: dict[str, tuple[type[_Block], Callable[[Any], object], int, bool]] = {
    "alike": (_Block, lambda _: None, 3, True),
    "alike, of known values": (_Block, lambda net: setattr(net, "asks", True), 3, False),
    "numbers that are read": (_Numbered, lambda _: None, 1, True),
    "rates": (_Block, _rates, 3, True),
    "a count outside": (_Counting, lambda _: None, 3, True),
    "values of a buffer": (_Valued, lambda _: None, 0, False),
    "an attribute that is filled": (_Filling, lambda _: None, 0, False),
    "data that is assigned": (_Assigning, lambda _: None, 3, False),
    "chance": (_Chance, lambda _: None, 3, True),
    "a parent that sets attributes": (_Block, lambda net: setattr(net, "switch", True), 0, True),
    "tied blocks and weights": (_Block, _tie, 3, True),
    "a module shared in one": (_Block, _share, 2, True),
    "a hook": (_Block, lambda net: net.blocks[1].register_forward_hook(lambda *_: None), 3, True),
    "a mode of its own": (_Block, lambda net: net.blocks[2].norm.train(), 3, True),
}


@pytest.mark.parametrize("name", STACKS)
def test_equal_blocks_run_once_and_the_look_is_that_of_all_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, change, repeated, clean = STACKS[name]
    net = _Stack(kind, change).eval() if name != "a mode of its own" else _Stack(kind, change)
    counts: list[int] = []
    run = training_modes._run_once

    def once(*given: Any, repeats: bool) -> Any:
        found = run(*given, repeats=repeats)
        counts.append(found[1] if found[0].error is None else 0)
        return found

    def look() -> training_modes.Look:
        COUNTS["calls"] = 0
        random.seed(0)
        return training_modes.training_differences(net, (torch.randn(2, 4),), {}, Untouched(net))

    monkeypatch.setattr(training_modes, "_run_once", once)
    state, hooks = net.state_dict(), [len(m._forward_hooks) for m in net.modules()]
    modes = [m.training for m in net.modules()]
    found = look()
    assert max(counts) == repeated
    assert found.leaves_nothing is clean
    monkeypatch.setattr(training_modes, "_run_once", lambda *given, repeats: run(*given, repeats=False))
    assert look() == found
    assert found.notes
    assert all(map(torch.equal, state.values(), net.state_dict().values()))
    assert hooks == [len(m._forward_hooks) for m in net.modules()]
    assert modes == [m.training for m in net.modules()]
