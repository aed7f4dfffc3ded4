"""Nets that differ only where a function jumps, which random numbers never hit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn, tensor
from torch.nn import functional as F

import regraft
from regraft.ir.analysis.jumps import points_of_inputs
from regraft.verification import verify
from regraft.verification.jumps.breakpoints import Breakpoints
from regraft.verification.report import Report

EDGES = tensor([-0.5, 0.3, 1.0])

Function = Callable[[Tensor], Tensor]

FLOATS: dict[str, tuple[Function, Function, Function]] = {
    "rounding halves to even": (
        lambda x: torch.round(x * 4) / 4,
        lambda x: torch.floor(x * 4 + 0.5) / 4,
        lambda x: torch.round(x / 0.25) * 0.25,
    ),
    "rounding halves away from zero": (
        torch.round,
        lambda x: torch.trunc(x + 0.5 * torch.sign(x)),
        lambda x: x.round(),
    ),
    "rounding to a decimal": (
        lambda x: torch.round(x, decimals=1),
        lambda x: torch.floor(x * 10 + 0.5) / 10,
        lambda x: torch.round(x * 10) / 10,
    ),
    "a threshold": (
        lambda x: (x >= 0.3).float(),
        lambda x: (x > 0.3).float(),
        lambda x: (x < 0.3).logical_not().float(),
    ),
    "a threshold behind arithmetic": (
        lambda x: (x * 2 + 1 >= 1.6).float(),
        lambda x: (x * 2 + 1 > 1.6).float(),
        lambda x: ((x + x) + 1 >= 1.6).float(),
    ),
    "a threshold behind a scale": (
        lambda x: ((x - 0.5) / 0.25 >= 2).float(),
        lambda x: ((x - 0.5) / 0.25 > 2).float(),
        lambda x: ((x - 0.5) * 4 >= 2).float(),
    ),
    "zero": (
        torch.sign,
        lambda x: torch.where(x >= 0, 1.0, -1.0),
        lambda x: (x > 0).float() - (x < 0).float(),
    ),
    "the value at a step": (
        lambda x: torch.heaviside(x, tensor(0.5)),
        lambda x: torch.heaviside(x, tensor(1.0)),
        lambda x: torch.where(x == 0, 0.5, (x > 0).float()),
    ),
    "the end of a shrink": (
        lambda x: F.hardshrink(x, 0.5),
        lambda x: torch.where(x.abs() < 0.5, 0.0, x),
        lambda x: torch.where((x > 0.5) | (x < -0.5), x, 0.0),
    ),
    "the end of a threshold": (
        lambda x: F.threshold(x, 0.3, -1.0),
        lambda x: torch.where(x >= 0.3, x, -1.0),
        lambda x: torch.where(x > 0.3, x, -1.0),
    ),
    "the side of a bucket": (
        lambda x: torch.bucketize(x, EDGES),
        lambda x: torch.bucketize(x, EDGES, right=True),
        lambda x: torch.searchsorted(EDGES, x),
    ),
    "a mask at its bound": (
        lambda x: x * (x <= 1),
        lambda x: x * (x < 1),
        lambda x: torch.where(x > 1, 0 * x, x),
    ),
    "rounding behind a reshape": (
        lambda x: torch.round(x.reshape(-1, 3, 2).transpose(1, 2) * 2),
        lambda x: torch.floor(x.reshape(-1, 3, 2).transpose(1, 2) * 2 + 0.5),
        lambda x: torch.round(x.reshape(-1, 3, 2) * 2).transpose(1, 2),
    ),
    "quantising": (
        lambda x: torch.clamp(torch.round(x / 0.5), -8, 7) * 0.5,
        lambda x: torch.clamp(torch.floor(x / 0.5 + 0.5), -8, 7) * 0.5,
        lambda x: torch.round(x * 2).clamp(-8, 7) / 2,
    ),
    "a whole number": (torch.ceil, lambda x: torch.floor(x) + 1, lambda x: -torch.floor(-x)),
}

SPECIAL: dict[str, tuple[Function, Function, Function]] = {
    "replaced NaN": (
        torch.nan_to_num,
        lambda x: torch.nan_to_num(x, nan=1.0),
        lambda x: torch.nan_to_num(x, nan=0.0),
    ),
    "NaN": (torch.isnan, torch.isinf, lambda x: x != x),
    "infinities": (torch.isfinite, lambda x: ~torch.isnan(x), lambda x: ~(torch.isnan(x) | torch.isinf(x))),
}

INTEGERS: dict[str, tuple[Function, Function, Function]] = {
    "division": (
        lambda x: x // 2,
        lambda x: torch.div(x, 2, rounding_mode="trunc"),
        lambda x: torch.div(x, 2, rounding_mode="floor"),
    ),
    "remainder": (lambda x: x % 3, lambda x: torch.fmod(x, 3), lambda x: torch.remainder(x, 3)),
    "size": (torch.abs, lambda x: x * 1, lambda x: torch.maximum(x, -x)),
    "shift": (
        lambda x: x >> 1,
        lambda x: torch.div(x, 2, rounding_mode="trunc"),
        lambda x: torch.div(x, 2, rounding_mode="floor"),
    ),
}

ROUNDED: dict[str, tuple[Function, Function]] = {
    "a tenth": (lambda x: torch.round(x * 0.1), lambda x: torch.round(x / 10)),
    "a third": (lambda x: torch.floor(x / 3), lambda x: torch.floor(x * (1 / 3))),
    "quantising by a tenth": (lambda x: torch.round(x / 0.1) * 0.1, lambda x: torch.round(x * 10) / 10),
    "a mean": (lambda x: (x.mean(1) >= 0.1).float(), lambda x: (x.sum(1) / 6 >= 0.1).float()),
    "a softmax": (
        lambda x: (x.softmax(1) > 0.25).float(),
        lambda x: (x.exp() / x.exp().sum(1, keepdim=True) > 0.25).float(),
    ),
    "a sigmoid": (lambda x: torch.round(x.sigmoid()), lambda x: torch.round(1 / (1 + (-x).exp()))),
    "a remainder": (lambda x: torch.remainder(x, 0.3), lambda x: x - 0.3 * torch.floor(x / 0.3)),
    "a norm": (
        lambda x: (x.norm(dim=1) >= 1).float(),
        lambda x: (x.pow(2).sum(1).sqrt() >= 1).float(),
    ),
    "a square": (lambda x: torch.floor(x**2), lambda x: torch.floor(x * x)),
    "a mixture": (
        lambda x: torch.floor(torch.lerp(x, x * 2, 0.3)),
        lambda x: torch.floor(x + (x * 2 - x) * 0.3),
    ),
    "a normalisation": (
        lambda x: torch.sign(F.layer_norm(x, (6,))),
        lambda x: torch.sign(
            (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        ),
    ),
}


class Side(nn.Module):
    """One function for each input."""

    def __init__(self, *functions: Function) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs):
        return tuple(function(x) for function, x in zip(self.functions, inputs, strict=True))


def compared(rows: dict[str, tuple[Function, ...]], side: int, example: Callable[[], Tensor]) -> Report:
    """Compare the first function of every row with another, each on an input of its own."""
    torch.manual_seed(0)
    inputs = tuple(example() for _ in rows)
    source, target = (
        regraft.load(Side(*(functions[at] for functions in rows.values())).eval(), inputs) for at in (0, side)
    )
    return verify(source, target)


def differing(report: Report, rows: dict[str, tuple[Function, ...]]) -> list[str]:
    """Return the names of the rows whose outputs differ."""
    names = list(dict.fromkeys(row.name for row in report.outputs))
    failed = {row.name for row in report.outputs if not row.passed}
    return [name for name, output in zip(rows, names, strict=True) if output in failed]


def floats() -> Tensor:
    return torch.randn(2, 6)


def integers() -> Tensor:
    return torch.arange(12).reshape(2, 6)


@pytest.mark.parametrize(
    ("rows", "example"),
    [(FLOATS, floats), (INTEGERS, integers), (SPECIAL, floats)],
    ids=["floats", "integers", "special"],
)
def test_what_differs_only_where_functions_jump_is_caught_and_what_does_not_is_equal(
    rows: dict[str, tuple[Function, ...]], example: Callable[[], Tensor]
) -> None:
    assert differing(compared(rows, 1, example), rows) == list(rows)
    assert differing(compared(rows, 2, example), rows) == []


def test_where_rounding_decides_no_jump_counts() -> None:
    assert differing(compared(ROUNDED, 1, floats), ROUNDED) == []


class Behind(nn.Module):
    """A function behind a layer, whose rounding decides where it jumps."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function, self.first, self.last = function, nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.function(self.first(x)))


def test_behind_a_layer_no_jump_counts() -> None:
    x = torch.randn(2, 6)
    source = regraft.load(Behind(lambda v: (v >= 0).float()), (x,))
    target = regraft.load(Behind(lambda v: (v > 0).float()), (x,))
    assert verify(source, target).passed


def test_equal_elements_of_two_inputs_meet() -> None:
    class Compared(nn.Module):
        def __init__(self, strict: bool) -> None:
            super().__init__()
            self.strict = strict

        def forward(self, x, y):
            return (x + 1 > y + 1 if self.strict else x + 1 >= y + 1).float()

    inputs = torch.randn(2, 6), torch.randn(2, 6)
    source, target = (regraft.load(Compared(strict), inputs) for strict in (False, True))
    cases = {row.case for row in verify(source, target).outputs if not row.passed}
    assert "N=2, at breakpoints" in cases


def test_the_first_and_the_last_row_of_a_table_are_looked_up() -> None:
    class Words(nn.Module):
        def __init__(self, replaced: int | None) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table, self.replaced = nn.Embedding(300, 4), replaced

        def forward(self, i):
            kept = 1.0 if self.replaced is None else (i != self.replaced).float()[..., None]
            return self.table(i) * kept

    words = tensor([[1, 2, 3, 4], [5, 6, 1, 2]])
    source = regraft.load(Words(None), (words,))
    assert verify(source, regraft.load(Words(None), (words,))).passed
    for row in (0, 299):
        assert not verify(source, regraft.load(Words(row), (words,))).passed


def test_integers_that_may_be_indices_or_divisors_keep_their_range() -> None:
    class Chosen(nn.Module):
        def forward(self, i, j):
            return torch.arange(10.0)[i], 7 // j

    graph = regraft.load(Chosen(), (tensor([1, 2]), tensor([1, 2])))
    assert Breakpoints(graph).draw({"N": 2}, 0) is None


def test_points_are_followed_back_only_where_arithmetic_has_them_exactly() -> None:
    class Points(nn.Module):
        def forward(self, x, y):
            return (x * 2 + 1 >= 1.5).float(), (y * 0.1 >= 0.3).float()

    graph = regraft.load(Points(), (torch.randn(2, 6), torch.randn(2, 6)))
    first, second = (points_of_inputs(graph).get(node.name, ()) for node in graph.input_nodes())
    assert first == (0.25,)
    assert second == ()


def test_a_number_that_fills_places_does_not_hide_the_others(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def __init__(self, shift: float) -> None:
            super().__init__()
            self.shift = shift

        def forward(self, x):
            return (x + self.shift).masked_fill(torch.ones(6, 6).triu(1).bool(), torch.finfo(x.dtype).min)

    x = torch.randn(6, 6)
    source = regraft.load(Masked(0.0), (x,))
    assert verify(source, regraft.load(Masked(0.0), (x,))).passed
    assert not verify(source, regraft.load(Masked(0.5), (x,))).passed


def test_small_numbers_beside_large_ones_count() -> None:
    class Beside(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc, self.factor = nn.Linear(6, 6), factor

        def forward(self, x):
            return torch.cat([self.fc(x) * 1e7, x.exp() * self.factor - 0.1], 1)

    x = torch.randn(2, 6)
    source = regraft.load(Beside(1.0), (x,))
    assert verify(source, regraft.load(Beside(1.0), (x,))).passed
    report = verify(source, regraft.load(Beside(1.01), (x,)))
    assert any("far smaller than the largest" in row.reason for row in report.outputs)


def test_a_number_between_two_thresholds_is_drawn() -> None:
    class Over(nn.Module):
        def __init__(self, bound: float) -> None:
            super().__init__()
            self.bound = bound

        def forward(self, x):
            return (x > self.bound).float()

    x = torch.randn(2, 6)
    assert not verify(regraft.load(Over(0.0), (x,)), regraft.load(Over(1e-4), (x,))).passed


def test_numbers_that_are_nan_on_both_sides_are_noted() -> None:
    class Rows(nn.Module):
        def forward(self, x):
            return (
                (x @ x.T)
                .masked_fill(torch.eye(6).bool() | (torch.arange(6) < 1)[:, None], -torch.inf)
                .softmax(-1)
            )

    graph = regraft.load(Rows(), (torch.randn(6, 6),))
    report = verify(graph, graph)
    assert report.passed
    assert "`output` with static, the example: 6 of 36 elements are NaN on both sides" in report.notes
    assert np.isnan(report.outputs[0].max_abs) == np.False_


def test_rows_that_only_one_side_gives_numbers_for_are_noted() -> None:
    class Masked(nn.Module):
        def __init__(self, fill: float) -> None:
            super().__init__()
            self.fill = fill

        def forward(self, x):
            return x.masked_fill(x > 0, self.fill).softmax(1)

    x = torch.randn(2, 6)
    report = verify(regraft.load(Masked(-torch.inf), (x,)), regraft.load(Masked(-1e4), (x,)))
    assert "NaN everywhere in the source, but not in the target" in "".join(report.notes)


def test_outputs_of_the_same_names_in_another_order_are_noted() -> None:
    class Named(nn.Module):
        def __init__(self, *names: str) -> None:
            super().__init__()
            self.names = names

        def forward(self, x):
            return dict(zip(self.names, (x * 2, x * 3), strict=True))

    x = torch.randn(2, 6)
    graphs = [regraft.load(Named(*names), (x,)) for names in ("ab", "ba")]
    note = "outputs are paired in order; the order of their names differs: `a`, `b`, `b`, `a`"
    assert note in verify(*graphs).notes
    assert note not in verify(graphs[0], graphs[0]).notes
