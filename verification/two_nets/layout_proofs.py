"""Finds the layout of a fused layer: the only one with which the target gives the source's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from ...checkpoints.joins import Join
from ...ir import Graph
from ..braces import braced
from ..runners.runs import Runner
from ..runners.select_runner import paired_runner
from ..sides import Sides
from .fusing import Fused, Layout, layouts
from .nets import NetComparison

_MOST_RUNS = 128
"""Combinations of layouts that are run; of more, those with the parts in the order of their calls."""
_CLEAR = 30.0
"""Factor by which every other layout must be further off if several are within tolerance."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Fused layers of one shape, which have one layout."""

    members: list[Fused]
    possible: list[Layout]


class _Told(NamedTuple):
    """The known layouts: one of each kind or none, the reason, and whether it proves them."""

    layouts: Sequence[Layout]
    why: str
    proven: bool


def prove_layouts(
    paired: NetComparison, source: Graph, runner: Runner, inputs: Mapping[str, np.ndarray]
) -> None:
    """Find the layouts of the fused layers of two nets, and tell the comparison, also where none is known.

    Args:
        paired: the comparison.
        source: the source's graph.
        runner: the source's runner.
        inputs: of the runs.
    """
    kinds: dict[object, _Kind] = {}
    for fused in paired.pairing.fused:
        possible = layouts(fused, paired.sides)
        shapes = (fused.whole.signature, *(part.signature for part in fused.parts))
        key = (fused.in_source, fused.roles, shapes, tuple(possible), fused.stated)
        kinds.setdefault(key, _Kind([], possible)).members.append(fused)
    found = list(kinds.values())
    told = None if paired.copied else _by_values(paired, found)
    if all(kind.members[0].stated for kind in found):
        told = _Told([kind.possible[0] for kind in found], "as the map says", True)
    if told is None:
        told = _by_runs(paired, found, Sides(source, runner, runner, None, by_hand=True), inputs)
    notes: list[str] = []
    joins, proven = list[Join](), list[Join]()
    for at, kind in enumerate(found):
        stated = kind.members[0].stated
        layout = stated or (told.layouts[at] if told.layouts else None)
        order = range(len(kind.members[0].parts)) if layout is None else layout.order
        whole = _named(fused.whole.path for fused in kind.members)
        held = ", ".join(_named(fused.parts[i].path for fused in kind.members) for i in order)
        made = [] if layout is None else [j for fused in kind.members for j in _joins(paired, fused, layout)]
        joins += made
        if told.proven or stated:
            proven += made
            notes.append(f"{whole} holds {held}, {layout}: {'as the map says' if stated else told.why}")
        else:
            nearest = "" if layout is None else f"; compared as {layout}, which is clearly the nearest"
            used = nearest if paired.copied else ""
            notes.append(f"{whole} may hold {held}: {told.why}, so no join is written{used}")
    paired.settle(joins, proven, notes)


def _named(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}`" for path in braced(paths))


def _by_values(paired: NetComparison, kinds: Sequence[_Kind]) -> _Told | None:
    """The layouts by which nets that kept their own weights hold the same values; None where they do not."""
    chosen: list[Layout] = []
    for kind in kinds:
        same = [
            layout
            for layout in kind.possible
            if all(paired.is_equal(join) for f in kind.members for join in _joins(paired, f, layout))
        ]
        if len(same) != 1:
            return None
        chosen += same
    return _Told(chosen, "their values are equal so", True)


def _joins(paired: NetComparison, fused: Fused, layout: Layout) -> list[Join]:
    return fused.joins(layout, paired.names, paired.sides)


def _by_runs(
    paired: NetComparison, kinds: Sequence[_Kind], sides: Sides, inputs: Mapping[str, np.ndarray]
) -> _Told:
    """The layouts with which the target gives the source's outputs from the source's weights."""
    before = sides.source.run(inputs, calls=False)
    rounding = sides.rounding(inputs, before)
    floor = max((_spacing(array) for _, array in before.outputs), default=0.0)
    runs: list[tuple[float, bool, Sequence[Layout]]] = []
    for choice in _choices(kinds):
        joins = [
            j
            for k, layout in zip(kinds, choice, strict=True)
            for f in k.members
            for j in _joins(paired, f, layout)
        ]
        values = {**paired.source_values(), **paired.joined(joins)}
        other = paired_runner(paired.sides[1].graph, values, {}, order=paired.order)
        try:
            rows = sides.outputs("", before, other.run(inputs, calls=False), rounding)
        finally:
            other.close()
        away = max((row.max_abs for row in rows), default=float("inf"))
        agree = bool(rows) and all(row.passed for row in rows)
        runs.append((max(away, floor) if np.isfinite(away) else float("inf"), agree, choice))
    runs.sort(key=lambda run: run[0])
    agreeing = sum(agree for _, agree, _ in runs)
    best, _, choice = runs[0]
    clear = [choice] if len(runs) < 2 or runs[1][0] >= _CLEAR * best else []
    if not agreeing:
        why = f"with none of {len(runs)} layouts are the outputs equal (at best {best:.1e} apart)"
        return _Told(clear[0] if clear else [], why, False)
    if agreeing > 1 and not clear:
        why = f"with {agreeing} of {len(runs)} layouts the outputs are equal, so these inputs do not tell"
        return _Told([], why, False)
    choice = next(choice for _, agree, choice in runs if agree)
    return _Told(choice, f"of {len(runs)} layouts this one gives equal outputs", True)


def _spacing(array: np.ndarray) -> float:
    """The distance of a float32 of an array's size from the next."""
    return float(np.abs(array).max(initial=0.0)) * 2.0**-23 if array.dtype.kind == "f" else 0.0


def _choices(kinds: Sequence[_Kind]) -> Iterator[tuple[Layout, ...]]:
    """A layout of each kind, in all combinations that are tried."""
    lists = [kind.possible for kind in kinds]
    if prod(map(len, lists)) > _MOST_RUNS:
        lists = [[layout for layout in each if layout.order == tuple(sorted(layout.order))] for each in lists]
    yield from product(*lists)
