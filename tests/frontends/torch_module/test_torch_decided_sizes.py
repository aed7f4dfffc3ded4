"""Branches on sizes: fixed sizes and a note where they change values, open axes where they change none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import regraft

from .comparison import Function, session_of


def scaled_by_length(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 3 else x * 3


def padded_to_even(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, 1)) if x.shape[1] % 2 else x


def longer_first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sum(0) * 2 + y.sum(0) if x.shape[0] > y.shape[0] else x.sum(0) + y.sum(0)


def even_product(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] * x.shape[1] % 2 == 0 else x - 1


def alike_either_way(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).sum(1) if x.shape[0] > 3 else (x + x).sum(1)


def long_enough(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] < 3:
        raise ValueError("too short")
    return x[:, 2:] - x[:, :-2]


@torch.library.custom_op("regraft_tests::by_length", mutates_args=())
def by_length(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 3 else x * 3


by_length.register_fake(torch.empty_like)


@torch.library.custom_op("regraft_tests::by_length_alike", mutates_args=())
def by_length_alike(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 3 else x + x


by_length_alike.register_fake(torch.empty_like)

Shape = tuple[int, ...]

DECIDED: dict[str, tuple[Callable[..., Any], list[Shape], dict[str, list[int]], list[Any], str]] = {
    "a length": (scaled_by_length, [(5, 3)], {"arguments_0": [0]}, [(5, 3)], "`arguments_0.shape[0] > 3`"),
    "one of two axes": (
        padded_to_even,
        [(5, 4, 3)],
        {"arguments_0": [0, 1]},
        [("N", 4, 3)],
        "`(arguments_0.shape[1] % 2) == 0`",
    ),
    "the longer of two": (
        longer_first,
        [(4, 3), (2, 3)],
        {"arguments_0": [0], "arguments_1": [0]},
        [(4, 3), (2, 3)],
        "`arguments_0.shape[0] > arguments_1.shape[0]`",
    ),
    "a product": (even_product, [(4, 3)], {"arguments_0": [0, 1]}, [(4, 3)], "% 2) == 0`"),
    "a kernel in Python": (
        by_length,
        [(5, 3)],
        {"arguments_0": [0]},
        [(5, 3)],
        "regraft_tests.by_length.default",
    ),
}


@pytest.mark.parametrize(("function", "shapes", "dynamic", "wanted", "words"), DECIDED.values(), ids=DECIDED)
def test_sizes_that_decide_values_are_fixed_and_named(
    function: Callable[..., Any],
    shapes: list[Shape],
    dynamic: dict[str, list[int]],
    wanted: list[Any],
    words: str,
) -> None:
    torch.manual_seed(0)
    given = tuple(torch.randn(shape) for shape in shapes)
    graph = regraft.load(Function(function), given, dynamic=dynamic)
    assert [node.type.shape for node in graph.input_nodes()] == wanted
    assert any(note.startswith("static s") and words in note for note in graph.origin.notes)
    found = session_of(graph).run(
        None, {n.name: g.numpy() for n, g in zip(graph.input_nodes(), given, strict=True)}
    )
    torch.testing.assert_close(torch.from_numpy(found[0]), function(*given))


OPEN: dict[str, tuple[Callable[..., Any], Shape, list[Shape]]] = {
    "the same either way": (alike_either_way, (5, 3), [(2, 3), (7, 4)]),
    "an error for short ones": (long_enough, (4, 5), [(1, 3), (2, 9)]),
    "distances in two ways": (lambda x: torch.cdist(x, x * 2), (5, 3), [(30, 3), (2, 2)]),
    "windows, one at the least": (lambda x: F.unfold(x[None, None], 2)[0], (5, 6), [(2, 2), (3, 9)]),
    "a kernel in Python": (by_length_alike, (5, 3), [(2, 3), (7, 4)]),
}


@pytest.mark.parametrize(("function", "shape", "others"), OPEN.values(), ids=OPEN)
def test_sizes_that_change_no_value_stay_open(
    function: Callable[..., Any], shape: Shape, others: list[Shape]
) -> None:
    graph = regraft.load(Function(function), (torch.randn(shape),), dynamic={"arguments_0": [0, 1]})
    assert not [note for note in graph.origin.notes if note.startswith("static")]
    session = session_of(graph)
    for other in others:
        x = torch.randn(other)
        (found,) = session.run(None, {"arguments_0": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), function(x), rtol=1e-4, atol=1e-4)


def test_a_module_is_as_it_was_after_sizes_were_tried() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return scaled_by_length(x)

    module = Counting().train()
    state = torch.random.get_rng_state()
    regraft.load(module, (torch.zeros(5, 3),), dynamic={"x": [0]})
    assert module.training
    assert float(module.calls) == 0
    assert torch.equal(torch.random.get_rng_state(), state)
