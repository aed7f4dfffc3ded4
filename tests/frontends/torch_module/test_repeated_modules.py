"""Blocks that are traced once and repeated: the same graph as of a trace of each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regraft import load
from regraft.frontends.torch_module.export import capture
from regraft.frontends.torch_module.export.module_likeness import Unlike
from regraft.frontends.torch_module.export.repeated_calls import Repetition
from regraft.frontends.torch_module.export.stand_ins import StandIns
from regraft.ir import Operator


class Block(nn.Module):
    """A residual block with parameters, a buffer, a child that is called twice, and its number."""

    inner: Any
    norm: Any
    scale: torch.Tensor
    shift: torch.Tensor
    child: Any
    function: Any
    parent: Any

    def __init__(self, number: int = 0, width: int = 4) -> None:
        super().__init__()
        self.number, self.factor = number, 0.5
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.register_buffer("scale", torch.full((1,), number + 1.0))

    def forward(self, x: torch.Tensor, *rest: Any, **named: Any) -> Any:
        return x + self.scale * self.inner(F.relu(self.inner(self.norm(x)))) * self.factor


class Net(nn.Module):
    """Blocks one after another."""

    blocks: Any

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


def blocks(kind: Any = Block, count: int = 4) -> list[Any]:
    return [kind(i) for i in range(count)]


# -- blocks that are not repeated, or not all of them --------------------------------------------------


def with_attribute() -> Net:
    net = Net(*blocks())
    net.blocks[2].factor = 0.25
    return net


def with_list() -> Net:
    class Listing(Block):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.sizes = [4, number % 2]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.sizes[1]

    return Net(*blocks(Listing))


def with_function() -> Net:
    net = Net(*blocks())
    for at, block in enumerate(net.blocks):
        block.function = lambda x, at=at: x * at
    forward = Block.forward

    class Calling(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(forward(self, x))

    for block in net.blocks:
        block.__class__ = Calling
    return net


def with_width() -> Net:
    class Folding(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + self.shift.sum()

    net = Net(*blocks(Folding))
    for at, block in enumerate(net.blocks):
        block.register_buffer("shift", torch.ones(2 if at == 3 else 1))
    return net


def with_hook() -> Net:
    net = Net(*blocks())
    net.blocks[1].inner.register_forward_hook(lambda module, given, result: result * 2)
    net.blocks[3].register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    return net


def with_number() -> Net:
    class Numbered(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) if self.number % 2 else super().forward(x).tanh()

    return Net(*blocks(Numbered, 5))


def with_number_inside() -> Net:
    class Child(nn.Module):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.number

    class Holding(Block):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.child = Child(number)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.child(super().forward(x))

    return Net(*blocks(Holding))


def with_dict() -> Net:
    class Reading(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.__dict__["number"]

    return Net(*blocks(Reading))


def with_counter() -> Net:
    class Counting(Block):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Counting.calls += 1
            return super().forward(x) * Counting.calls

    return Net(*blocks(Counting))


def with_shared_counter() -> Net:
    class Counting(Block):
        state = SimpleNamespace(calls=0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state.calls += 1
            return super().forward(x) * self.state.calls

    return Net(*blocks(Counting))


def with_assignment() -> Net:
    class Keeping(Block):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return super().forward(x) * self.calls

    block = Keeping(0)
    return Net(block, block, Keeping(1), block)


def with_parent() -> nn.Module:
    class Asking(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.parent[0].turn

    class Turning(Net):
        turn = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for at, block in enumerate(self.blocks):
                self.turn = at
                x = block(x)
            self.turn = 0
            return x

    net = Turning(*blocks(Asking))
    for block in net.blocks:
        block.parent = [net]
    return net


def with_argument() -> nn.Module:
    class Scaled(Block):
        def forward(self, x: torch.Tensor, number: int, *, more: float = 0.0) -> torch.Tensor:
            return super().forward(x) * number + more

    class Passing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for at, block in enumerate(self.blocks):
                x = block(x, at // 2, more=float(at % 2))
            return x

    return Passing(*blocks(Scaled, 6))


def with_cache() -> nn.Module:
    class Filling(Block):
        def forward(self, x: torch.Tensor, cache: dict[str, Any]) -> torch.Tensor:
            x = super().forward(x)
            cache[str(len(cache))] = x
            return x + sum(cache.values())

    class Passing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            cache: dict[str, Any] = {}
            for block in self.blocks:
                x = block(x, cache)
            return x

    return Passing(*blocks(Filling))


def with_object() -> nn.Module:
    class Filling(Block):
        def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
            cache.number += 1
            return super().forward(x) * cache.number

    class Passing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            cache = SimpleNamespace(number=0)
            for block in self.blocks:
                x = block(x, cache)
            return x

    return Passing(*blocks(Filling))


def with_mode() -> Net:
    class Doubling(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (1 if torch.is_grad_enabled() else 2)

    class Switching(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for at, block in enumerate(self.blocks):
                with torch.set_grad_enabled(at % 2 == 0):
                    x = block(x)
            return x

    return Switching(*blocks(Doubling))


def with_random_number() -> Net:
    class Drawing(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (1 + random.Random(7).random()) * random.choice([2, 3, 4, 5, 6, 7])

    return Net(*blocks(Drawing))


def with_data() -> Net:
    """Blocks that ask for a number of a buffer, which each has another of."""

    class Branching(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.scale.item()

    return Net(*blocks(Branching))


# -- blocks that are repeated --------------------------------------------------------------------------


def equal() -> Net:
    return Net(*blocks())


def with_shared_weight() -> Net:
    net = Net(*blocks())
    net.blocks[2].inner.weight = net.blocks[0].inner.weight
    net.blocks[3].norm.weight = net.blocks[3].norm.bias
    return net


def called_twice() -> nn.Module:
    class Repeating(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(super().forward(x) + 1)

    return Repeating(*blocks(count=2))


def twice_registered() -> nn.Module:
    net = Net(*blocks())
    net.blocks.append(net.blocks[0])
    return net


def with_results() -> nn.Module:
    class Giving(Block):
        def forward(self, x: torch.Tensor, *, mask: Any = None, pair: Any = None) -> Any:
            y = super().forward(x)
            y = y if mask is None else y * mask
            return {"y": y, "given": x, "more": (y.sum(-1), x.shape[0], None, "name")}

    class Passing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total, mask = x, torch.ones(x.shape[0], 1, 1)
            for at, block in enumerate(self.blocks):
                found = block(x, mask=mask if at else None, pair=[x, (1, None)])
                x, total = found["y"], total + found["given"] + found["more"][0][..., None]
                x = x.reshape(found["more"][1], -1, 4)
            return total + x

    return Passing(*blocks(Giving))


def with_sizes() -> Net:
    class Shaping(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x).reshape(x.shape[0] * x.shape[1], 2, 2).transpose(1, 2)
            return y.reshape(x.shape[0], -1, 4) + torch.ones(x.shape[1], 1)

    return Net(*blocks(Shaping))


def given_shape() -> Net:
    class Shaped(Block):
        def forward(self, x: torch.Tensor, shape: torch.Size) -> Any:
            return super().forward(x) + torch.zeros(shape), shape

    class Passing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            shape = x.shape
            for block in self.blocks:
                x, shape = block(x, shape)
            return x

    return Passing(*blocks(Shaped))


def in_place() -> Net:
    class Writing(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            y += 1
            y[:, 0].zero_()
            return y.to(torch.float32).relu_()

    return Net(*blocks(Writing))


def added_in_place() -> Net:
    """Blocks in which equal modules follow each other, and a result is written that only one of them has."""

    class Adding(Block):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            z = self.second(y)
            a, b = z.chunk(2, -1)
            a += y[..., :2]
            z += x
            return z * y + torch.cat([b, a], -1)

    class Writing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                y = block(x)
                y[..., 0].mul_(2)
                x = y + x
            return x

    return Writing(*blocks(Adding))


def viewed() -> Net:
    class Viewing(Block):
        def forward(self, x: torch.Tensor) -> Any:
            y = super().forward(x)
            return y.transpose(1, 2), y.reshape(-1), x.unsqueeze(0)

    class Passing(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                turned, flat, given = block(x)
                flat += 1
                x = x + turned.transpose(1, 2) + given[0]
            return x

    return Passing(*blocks(Viewing))


def at_other_lines() -> nn.Module:
    class Unrolled(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a, b, c, d = self.blocks
            x = a(x)
            x = b(x).tanh()
            return d(c(x))

    return Unrolled(*blocks())


def nested() -> nn.Module:
    class Stage(Block):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.inner = Net(*blocks(count=3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(self.norm(x)) + self.inner.blocks[1](x)

    return Net(*blocks(Stage, 3))


def read_later() -> nn.Module:
    """Each block's input and both of its results, one of them without a gradient, are read at the end."""

    class Detaching(Block):
        def forward(self, x: torch.Tensor) -> Any:
            y = super().forward(x)
            return y, y.detach() * 2

    class Collecting(Net):
        def forward(self, x: torch.Tensor) -> Any:
            seen = []
            for block in self.blocks:
                x, beside = block(x)
                seen += [x, beside]
            return torch.stack(seen[::-1]).sum(0), seen[2]

    return Collecting(*blocks(Detaching))


def without_gradient() -> nn.Module:
    class Frozen(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = super().forward(x)
            return super().forward(x + y)

    return Frozen(*blocks())


def of_other_types() -> nn.Module:
    """Blocks that turn what is given into its own type, and read a number that their caller measures."""

    class Casting(Block):
        def forward(self, x: torch.Tensor, size: Any = 1) -> torch.Tensor:
            return super().forward(x.to(torch.float32).reshape(size, -1, 4))

    class Measuring(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            size = x.shape[0] * 2
            for block in self.blocks:
                x = block(torch.cat([x, x]), size)[: x.shape[0]]
            return x

    return Measuring(*blocks(Casting))


ALIKE = [
    *(equal, with_shared_weight, with_results, with_sizes, in_place, added_in_place, at_other_lines),
    *(called_twice, given_shape, nested, read_later, without_gradient, of_other_types),
]
UNLIKE = [
    *(with_attribute, with_list, with_function, with_width, with_hook, with_number, with_number_inside),
    *(with_dict, with_counter, with_shared_counter, with_assignment, with_parent, with_argument, with_cache),
    *(with_object, with_mode, with_random_number, with_data, twice_registered, viewed),
]


class _Once(Repetition):
    """No call is repeated."""

    @contextmanager
    def repeating(self) -> Iterator[None]:
        yield


def _loaded(make: Callable[[], nn.Module]) -> list[Any]:
    """Return a model's graph with all that its operators have, after a look at what the model is left as."""
    torch.manual_seed(0)
    random.seed(3)
    net = make().eval()
    before = {name: dict(vars(m)) for name, m in net.named_modules()}
    graph = load(net, (torch.randn(2, 3, 4),))
    assert {name: dict(vars(m)) for name, m in net.named_modules()} == before
    assert not any("number" in vars(type(m)) for m in net.modules())
    operators = [n for n in graph.nodes() if isinstance(n, Operator)]
    return [str(graph), graph.origin.notes, [(o.op_type, o.call, o.location, o.hint) for o in operators]]


@pytest.mark.parametrize("make", [*ALIKE, *UNLIKE], ids=lambda make: make.__name__)
def test_repeated_blocks_give_the_graph_of_traced_ones(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    class Counted(Repetition):
        def _repeat(self, tracer: Any, record: Any, call: Any) -> Any:
            if isinstance(call.modules[""], Block):
                counts.append(1)
            return super()._repeat(tracer, record, call)

    monkeypatch.setattr(capture, "Repetition", Counted)
    repeated = _loaded(make)
    monkeypatch.setattr(capture, "Repetition", _Once)
    assert repeated == _loaded(make)
    assert not (make in ALIKE and len(counts) < 2)


def test_torch_goes_over_few_nodes_of_repeated_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    spell_out = StandIns.spell_out
    sizes: list[tuple[int, int]] = []

    def measured(stand_ins: StandIns, program: Any) -> None:
        before = len(program.graph.nodes)
        spell_out(stand_ins, program)
        sizes.append((before, len(program.graph.nodes)))

    def parted(_stand_ins: StandIns, _program: Any) -> None:
        raise Unlike

    def twelve() -> Net:
        return Net(*blocks(count=12))

    monkeypatch.setattr(StandIns, "spell_out", measured)
    found = _loaded(twelve)
    nodes, outside = 7, 5 * 12 + 2
    assert sizes == [(outside + nodes + 11, outside + 12 * nodes)]
    monkeypatch.setattr(StandIns, "spell_out", parted)  # then the nodes are copied while the model is traced
    assert found == _loaded(twelve)
