"""Caches that a model fills outside itself while it is traced: nothing of the trace stays in them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regraft
from regraft.frontends.reached_code import ReachedCode
from regraft.frontends.torch_module.modules.live_state import Untouched

TABLE: dict[int, Tensor] = {}
NESTED: dict[str, dict[int, Tensor]] = {"a": {}}
SEEN: list[Tensor] = []
BY_MODULE: Any = weakref.WeakKeyDictionary()
NAMED: Tensor | None = None


@functools.lru_cache(maxsize=2)
def bounded(size: int) -> Tensor:
    return torch.linspace(0, 1, size)


@functools.cache
def unbounded(size: int) -> tuple[Tensor]:
    return (torch.linspace(0, 2, size),)


def in_dict(size: int) -> Tensor:
    if size not in TABLE:
        TABLE[size] = torch.arange(size) / 2
    SEEN.append(TABLE[size])
    return TABLE[size] + NESTED["a"].setdefault(size, torch.ones(size))


def in_default(size: int, made: dict[int, Tensor] = {}) -> Tensor:  # noqa: B006 - the cache
    return made.setdefault(size, torch.arange(size) / 3)


def at_name(size: int) -> Tensor:
    global NAMED
    if NAMED is None:
        NAMED = torch.arange(size) / 4
    return NAMED


def on_function(size: int) -> Tensor:
    if not hasattr(on_function, "made"):
        on_function.made = torch.arange(size) / 5  # type: ignore[attr-defined]
    return on_function.made  # type: ignore[attr-defined]


def _closed() -> Callable[[int], Tensor]:
    made: Tensor | None = None

    def give(size: int) -> Tensor:
        nonlocal made
        made = torch.arange(size) / 6 if made is None else made
        return made

    return give


in_closure = _closed()


class Anchors:
    """An object that is no module, at a global name."""

    made: Tensor | None = None

    @functools.cached_property
    def lazy(self) -> Tensor:
        return torch.ones(4) / 7

    def __call__(self, size: int) -> Tensor:
        if Anchors.made is None:
            Anchors.made = torch.arange(size) / 8
        return Anchors.made + self.lazy


ANCHORS = Anchors()


class Caching(nn.Module):
    shared: ClassVar[dict[int, Tensor]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.private = functools.lru_cache(8)(lambda size: torch.arange(size) / 9)

    @functools.lru_cache(maxsize=8)  # noqa: B019 - as transformers' D-FINE has it
    def of_method(self, size: int) -> Tensor:
        return torch.arange(size) / 10

    @classmethod
    def of_class(cls, size: int) -> Tensor:
        return cls.shared.setdefault(size, torch.arange(size) / 11)

    @functools.cached_property
    def lazy(self) -> Tensor:
        return torch.ones(4) / 12

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x) + bounded(4) + unbounded(4)[0] + in_dict(4) + in_default(4) + at_name(4)
        y = y + on_function(4) + in_closure(4) + ANCHORS(4) + self.private(4) + self.of_method(4)
        return y + self.of_class(4) + self.lazy + BY_MODULE.setdefault(self, torch.ones(4))


def held(model: Caching) -> list[Any]:
    functions = (bounded, unbounded, Caching.of_method, model.private)
    cells = [c.cell_contents for c in in_closure.__closure__ or ()]
    containers = (TABLE, NESTED["a"], in_default.__defaults__, Caching.shared, BY_MODULE, vars(on_function))
    sizes = [f.cache_info().currsize for f in functions]
    return [
        *sizes,
        *map(repr, containers),
        len(SEEN),
        repr((NAMED, Anchors.made, cells)),
        dict(vars(ANCHORS)),
    ]


def test_nothing_of_a_trace_stays_in_any_cache() -> None:
    model = Caching().eval()
    before = held(model)
    graph = regraft.load(model, ["1x4"])
    assert held(model) == before
    assert regraft.verify(graph, graph).passed
    assert type(model(torch.ones(1, 4))) is Tensor
    assert "Fake" not in str(held(model))
    filled = held(model)
    assert filled != before
    graph = regraft.load(model, ["3x4"])
    assert held(model) == filled
    assert regraft.verify(graph, graph).passed


def test_what_a_cache_of_functools_held_stays_the_same_object() -> None:
    kept = bounded(3)

    class Uses(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + bounded(5)

    regraft.load(Uses(), ["2x5"])
    assert bounded(3) is kept
    assert type(bounded(5)) is Tensor
    assert [type(bounded(n)) for n in (6, 7, 5, 8)] == [Tensor] * 4


class Retried(nn.Module):
    """torch.export refuses the first way to trace it, which has filled the cache by then."""

    made: ClassVar[dict[int, Tensor]] = {}

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.made.setdefault(4, torch.ones(4))
        return y * 2 if y.sum() > 100 else y


def test_what_the_first_way_to_trace_leaves_is_nothing_to_the_next() -> None:
    graph = regraft.load(Retried(), [np.ones((2, 4), np.float32)])
    assert any("branch on data" in note for note in graph.origin.notes)
    assert not Retried.made


class Lower(nn.Conv2d):
    """A part whose methods are reached in several ways, or in none."""

    def __init__(self) -> None:
        super().__init__(1, 1, 1)
        self.kind = "fast"
        self.prepare()

    def prepare(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.bias = None

    def _conv_forward(self, *given: Any) -> Tensor:
        return super()._conv_forward(*given)

    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, f"forward_{self.kind}")(super().forward(x))

    def forward_fast(self, x: Tensor) -> Tensor:
        return self.helped(x)

    def helped(self, x: Tensor) -> Tensor:
        return x


class Upper(nn.Module):
    """Calls a part."""

    def __init__(self) -> None:
        super().__init__()
        self.lower = Lower()

    def forward(self, x: Tensor) -> Tensor:
        return self.lower(x)


class Making(Upper):
    def forward(self, x: Tensor) -> Tensor:
        return Lower()(x)


class OfItsOwn(Upper):
    def forward(self, x: Tensor) -> Tensor:
        return self.__class__().lower(x)


@pytest.mark.parametrize(("kind", "constructs"), [(Upper, False), (Making, True), (OfItsOwn, True)])
def test_methods_count_from_the_code_that_calls_them(kind: type[Upper], constructs: bool) -> None:
    found = Untouched(kind()).functions
    run = (Lower.forward, Lower._conv_forward, Lower.forward_fast, Lower.helped, kind.forward)
    assert all(function in found for function in run)
    assert all((f in found) is constructs for f in (Lower.__init__, Lower.prepare, Lower.reset))


@pytest.mark.parametrize(("name", "own"), [("torch.nn", False), ("functools", False), ("onnx", False)])
def test_objects_of_other_packages_are_left_alone(name: str, own: bool) -> None:
    assert ReachedCode([__name__]).is_own(name) is own
    assert ReachedCode(["onnx.helper"]).is_own("onnx.checker")
