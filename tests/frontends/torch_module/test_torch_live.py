"""A live module is bit-identical after every call, whatever its forward writes, assigns, keeps or counts."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import regraft
from regraft.frontends.torch_module.modules.live_state import Untouched


class Reparameterised(nn.Module):
    """Writes one convolution's `.data` from two others in every run, as SPAN does."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.merged = nn.Conv2d(3, 4, 3, padding=1)
        self.merged.weight.requires_grad = False

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return self.wide(x) + self.narrow(x)
        narrow = nn.functional.pad(self.narrow.weight.detach().clone(), [1, 1, 1, 1])
        self.merged.weight.data = self.wide.weight.detach().clone() + narrow
        self.merged.bias.data = (self.wide.bias + self.narrow.bias).detach()
        return self.merged(x)


class Writing(nn.Module):
    """Writes registered tensors in place."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        self.fc.weight.data.copy_(self.fc.weight.data * 0.5)
        self.fc.bias.data.mul_(2)
        return self.fc(x)


class State:
    """An object of the user's that is no module."""

    def __init__(self) -> None:
        self.kept: list[Tensor] = []
        self.table = torch.zeros(3)


class Keeping(nn.Module):
    """Counts, caches and keeps what it computes in every kind of container."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.state = State()
        self.count, self.seen, self.ready = 0, set[str](), False
        self.queue, self.by_name = deque([1]), defaultdict[str, list[Tensor]](list)
        self.ordered, self.nested = OrderedDict(a=1), {"a": [torch.ones(2)]}
        self.pair = (torch.zeros(3), [1])
        self.hidden = [nn.Linear(3, 3)]
        self.plain = torch.ones(3)

    def forward(self, x: Tensor) -> Tensor:
        type(self).calls += 1
        self.count += 1
        self.ready = True
        self.seen.add(str(self.count))
        self.state.kept.append(x)
        self.state.table += 1
        self.state.last = x  # type: ignore[attr-defined] - made by the first call
        self.queue.append(self.count)
        self.by_name["x"].append(x)
        self.ordered["b"] = 2
        self.ordered.move_to_end("a")
        self.nested["b"] = [x]
        self.pair[0].add_(1)
        self.pair[1].append(2)
        self.hidden[0].weight.data.add_(1)
        self.plain = self.plain * 2
        self.lazy = x
        return self.fc(x)


class Failing(Keeping):
    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        raise ValueError("no")


def state_of(found: Any, seen: dict[int, Any] | None = None) -> Any:
    """Everything of an object that may change: identities, values, memory, flags, gradients, order."""
    seen = {} if seen is None else seen
    if isinstance(found, (int, float, str, type(None))):
        return found
    if id(found) in seen:
        return id(found)
    seen[id(found)] = found
    if isinstance(found, Tensor):
        memory = found.data_ptr(), str(found.device), tuple(found.shape), found.stride(), found.dtype
        gradient = None if not found.is_leaf or found.grad is None else state_of(found.grad, seen)
        return id(found), memory, found.tolist(), found.requires_grad, gradient, dict(vars(found))
    if isinstance(found, dict):
        return id(found), [(key, state_of(value, seen)) for key, value in found.items()]
    if isinstance(found, (list, tuple, deque, set)):
        return id(found), [state_of(value, seen) for value in found]
    if isinstance(found, (nn.Module, State)):
        return id(found), getattr(type(found), "calls", 0), state_of(vars(found), seen)
    return id(found)


def with_gradients(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    module.register_forward_hook(lambda *_: None)
    return module


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(
    ("make", "given"), [(Reparameterised, "2x3x5x5"), (Writing, "2x3"), (Keeping, "2x3"), (Failing, "2x3")]
)
def test_every_call_leaves_a_live_module_as_it_was(
    make: Callable[[], nn.Module], given: str, training: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = with_gradients(make().train(training))
    before = state_of(module)
    try:
        graph = regraft.load(module, [given])
        assert state_of(module) == before, "load"
        regraft.verify(graph, graph)
        assert state_of(module) == before, "verify"
        regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "x.onnx")
        assert state_of(module) == before, "rewrite_file"
    except regraft.RegraftError:
        assert make is not Keeping
    assert state_of(module) == before


def test_weights_that_the_forward_assigns_are_those_of_a_run() -> None:
    module = Reparameterised()
    graph = regraft.load(module, ["2x3x5x5"])
    assert sum("assigns `merged." in note for note in graph.origin.notes) == 2
    assert regraft.verify(graph, graph).passed
    with torch.no_grad():
        module.merged.weight.zero_()
    assert regraft.verify(graph, graph).passed
    with torch.no_grad():
        module.wide.weight.zero_()
    assert not regraft.verify(graph, graph).passed


def test_a_training_step_leaves_a_live_module_as_it_was(tmp_path: Path) -> None:
    module = with_gradients(Keeping())
    graph = regraft.load(module, ["2x3"])
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    before = state_of(module)
    assert regraft.verify(graph, tmp_path / "out", train=True).passed
    assert state_of(module) == before


def test_what_operators_write_is_undone_for_views_and_lists_too() -> None:
    module = nn.Module()
    module.register_buffer("table", torch.arange(12.0).reshape(3, 4))
    module.register_parameter("weight", nn.Parameter(torch.ones(4)))
    module.statistics = nn.BatchNorm1d(4)
    before = state_of(module)
    with torch.no_grad(), Untouched(module):
        module.table[1].zero_()
        module.table.T[0] = 7
        torch._foreach_add_([module.weight, module.table], 1)
        torch.add(module.weight, 1, out=module.weight)
        module.statistics(torch.randn(5, 4))
        assert state_of(module) != before
    assert state_of(module) == before


def test_nothing_is_copied_that_nobody_writes() -> None:
    module = nn.Linear(3, 3)
    with torch.no_grad(), Untouched(module) as kept:
        module(torch.ones(1, 3))
        assert not kept._copies
        module.weight.add_(1)
        assert len(kept._copies) == 1


def test_what_fake_tensors_compute_on_numbers_is_undone() -> None:
    """torch computes `counter.add_(1)` for real, although everything else of its mode is fake."""
    module = nn.BatchNorm1d(4)
    before = state_of(module)
    with torch.no_grad(), Untouched(module) as kept, FakeTensorMode(allow_non_fake_inputs=True):
        module(torch.ones(2, 4))
        assert kept._copies
    assert state_of(module) == before


def test_training_mode_is_looked_at_without_values() -> None:
    """A counter of batches is written in training mode; the statistics of a real run would cost seconds."""

    class Switched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            empty.append(is_empty(x.detach()))
            return self.norm(x) * (2 if self.training else 1)

    def is_empty(x: Tensor) -> bool:
        return isinstance(x, FakeTensor) or x.is_meta

    empty: list[bool] = []
    module = Switched()
    before = state_of(module)
    graph = regraft.load(module, ["3x4"])
    assert any("the root module computes something else" in note for note in graph.origin.notes)
    assert all(empty)
    assert state_of(module) == before
