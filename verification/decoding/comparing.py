"""The comparison of a decoder's steps with one pass over all tokens, from the inputs to the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...ir import Array, Graph, ModelError, UsageError
from ...ir.analysis.absence import require_values
from ..compare import Yardstick, compare
from ..conditioning import Rounding
from ..identity import are_one
from ..inputs import batch_symbols, bindings, make_inputs
from ..report import OutputRow, Report
from ..runners.onnx_runner import OnnxRunner
from ..runners.runs import Run, Runner
from ..runners.select_runner import (
    Target,
    exact_runner,
    is_fusing,
    own_runner,
    paired_runner,
    target_runner,
)
from ..sides import Sides
from .feeding import ROLES, Feeding, plan_feeding, token_axis
from .locating import explain
from .ports import ports_of_graph, ports_of_target
from .report import Steps
from .stepping import DecoderRunner, Feeder, TokenAxis, Traced, find_token_axes

_TRIED = 32
"""Caches of which each is changed alone, to see whether an output reads it."""

_ANOTHER = 101
"""Offset of the seed for a second draw."""


@dataclass(slots=True)
class _Side:
    """One side: its model, what feeds it, and the ways in which it can run."""

    name: str
    runner: Runner
    feeder: Feeder
    whole: DecoderRunner | None = None
    steps: DecoderRunner | None = None
    refusal: str = ""

    @property
    def feeding(self) -> Feeding:
        return self.feeder.feeding


def verify_steps(
    source: Graph,
    target: Target,
    count: int,
    *,
    feed: Sequence[tuple[str, str]] = (),
    seed: int = 0,
    own: bool = False,
    copy: bool | None = None,
) -> Report:
    """Compare steps of one token, each fed the cache of the step before, with one pass over all tokens.

    Args:
        source: a loaded model.
        target: as in `verify`.
        count: the number of tokens.
        feed: what feeds inputs, where the user says so; see `plan_feeding`.
        seed: of the tokens.
        own: run a target graph's own live model in its framework; see `verify`.
        copy: with `own`, whether the target is given the source's values; see `verify`.

    Raises:
        UsageError: where no input of either side is fed from an output (E103).
        ModelError: where a side runs neither in steps nor in one pass (E702).
    """
    for graph in (source, target):
        if isinstance(graph, Graph):
            require_values(graph)
    paired = None
    if own and isinstance(target, Graph):
        from ..two_nets.nets import NetComparison

        paired = NetComparison(source, target, None, copy=copy, inference=True)
    runners: list[Runner] = [own_runner(source)]
    try:
        if paired is not None and isinstance(target, Graph):
            runners.append(paired_runner(target, paired.values(), {}, None))
        else:
            runners.append(target_runner(target, optimised=not is_fusing(runners[0])))
        exact = exact_runner(source)
        runners += [] if exact is None else [exact]
        mine = ports_of_graph("source", source)
        theirs = ports_of_target(target if isinstance(target, Graph) else Path(str(target)), runners[1], mine)
        feedings = [plan_feeding(ports, feed) for ports in (mine, theirs)]
        _require_pairs(feedings, feed)
        streams = _name_streams(feedings)
        both = [
            _Side(f.ports.side, runner, Feeder(f, names, count))
            for f, runner, names in zip(feedings, runners, streams, strict=False)
        ]
        sides = Sides(source, runners[0], runners[1], exact, by_hand=paired is not None)
        comparison = _Comparison(sides, both[0], both[1], exact, seed, one=are_one(source, target))
        return comparison.report(paired is not None and paired.copied)
    finally:
        for runner in runners:
            runner.close()


def _require_pairs(feedings: Sequence[Feeding], said: Sequence[tuple[str, str]]) -> None:
    """Refuse sides without a cache, and steps without tokens.

    Raises:
        UsageError: E103.
    """
    for pattern, what in said:
        if not any(f.pairs or f.roles for f in feedings if _is_used(f, pattern)):
            names = ", ".join(port.name for f in feedings for port in f.ports.inputs)
            raise UsageError(
                "E103",
                f"expected an input of the source or the target, got `{pattern}`",
                place=f"--feed {pattern}={what}",
                hint=f"their inputs are {names}",
            )
    if not any(f.pairs for f in feedings):
        lists = "; ".join(
            f"the {f.ports.side} takes {_names(f.ports.inputs)} and returns {_names(f.ports.outputs)}"
            for f in feedings
        )
        raise UsageError(
            "E103",
            f"expected a cache, an input that an output of the step before feeds, and found none: {lists}",
            place="--steps",
            hint="state the pairs: --feed INPUT=OUTPUT, or --feed 'past.*=present.*'",
        )
    for feeding in feedings:
        if not feeding.named("token"):
            raise UsageError(
                "E103",
                f"expected an input for the tokens of a step, got {feeding.describe()}",
                place=f"--steps, {feeding.ports.side}",
                hint="state it: --feed INPUT=token",
            )


def _is_used(feeding: Feeding, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return any(fnmatchcase(port.name, pattern) for port in feeding.ports.inputs)


def _names(ports: Sequence[object]) -> str:
    names = [f"`{getattr(port, 'name', '')}`" for port in ports]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _name_streams(feedings: Sequence[Feeding]) -> list[dict[str, str]]:
    """Return, for each side, input -> name of the stream: one for inputs of one name, else in order.

    Raises:
        UsageError: for an input of the target that the source has not (E103).
    """
    source, target = feedings
    mine = {p.name: p.name for role in ("token", "same") for p in source.named(role)}
    theirs: dict[str, str] = {}
    for role in ("token", "same"):
        known = [p.name for p in source.named(role)]
        ports = target.named(role)
        left = [n for n in known if n not in {p.name for p in ports}]
        for port in ports:
            if port.name in known:
                theirs[port.name] = port.name
            elif left:
                theirs[port.name] = left.pop(0)
            else:
                raise UsageError(
                    "E103",
                    f"expected a counterpart in the source of the target's input `{port.name}`",
                    place="--steps",
                    hint=f"if it is a position, a mask or a cache, state it: --feed {port.name}=position",
                )
    return [mine, theirs]


class _Comparison:
    """Runs both sides in every way that they can, and compares."""

    def __init__(
        self, sides: Sides, source: _Side, target: _Side, exact: Runner | None, seed: int, *, one: bool
    ) -> None:
        self._is_one_model = one
        self.sides, self.source, self.target, self.seed = sides, source, target, seed
        self.exact = exact
        self.count = source.feeder.count
        self.causes: list[str] = []
        self.first: tuple[int, str] | None = None

    def report(self, copied: bool) -> Report:
        """Compare, and return the report."""
        streams = self._draws()
        begun = streams[0][1]
        for side in (self.source, self.target):
            self._prepare(side, begun)
        reference = self.source.whole or self.source.steps or self.target.whole
        if reference is None:
            raise ModelError(
                "E702", f"the source runs neither in steps nor in one pass: {self.source.refusal}"
            )
        others = [
            (side, way)
            for side in (self.target, self.source)
            for way in (side.steps, side.whole)
            if way is not None and way is not reference
        ]
        if not any(way.steps for _, way in others) and not reference.steps:
            raise ModelError(
                "E702",
                f"no step runs: {self.target.refusal or self.source.refusal}",
                hint=_advise(self.target.feeding),
            )
        self._measure_with(reference)
        rows: list[OutputRow] = []
        for case, given in streams:
            rows += self._rows(case, given, reference, others)
            if self.first is not None:
                break
        unproven, unmoved = self._unmoved(begun) if all(row.passed for row in rows) else ({}, [])
        if self._is_one_model and self.source.whole is None and self.target.whole is None:
            unproven = dict.fromkeys(reference.run_names, "compared with itself, as it makes no pass")
        stepped = self.target if self.target.steps is not None else self.source
        outputs = [port.name for port in stepped.feeding.ports.outputs]
        steps = Steps(
            self.count,
            {name: outputs[pair.output] for name, pair in stepped.feeding.pairs.items()},
            dict(stepped.feeding.roles),
            [side.name for side in (self.source, self.target) if side.whole is not None],
            [side.name for side in (self.source, self.target) if side.steps is not None],
            None if self.first is None else self.first[0],
            "" if self.first is None else self.first[1],
            self.causes,
            unmoved,
        )
        return Report(
            self.sides.title(self.source.runner),
            self.sides.title(self.target.runner),
            self.sides.yardstick(),
            rows,
            notes=[*self._notes(copied, unmoved), *self.sides.notes],
            unproven=unproven,
            proved_against="graph" if isinstance(self.source.runner, OnnxRunner) else "source",
            scope=steps.scope,
            steps=steps,
        )

    def _notes(self, copied: bool, unmoved: Sequence[str]) -> list[str]:
        found = [] if not copied else ["the target has the source's weights for this comparison"]
        both = [side for side in (self.source, self.target) if side.steps is not None]
        fed = {side.name: side.feeding.describe() for side in both}
        if len(fed) == 2 and len(set(fed.values())) == 1:
            found.append(f"the steps of both sides are fed {fed[both[0].name]}")
        else:
            found += [f"the steps of the {name} are fed {what}" for name, what in fed.items()]
        for side in (self.source, self.target):
            if side.whole is None and side.refusal:
                found.append(f"no pass of the {side.name} over {self.count} tokens: {side.refusal}")
            if side.steps is not None and side.steps.start is not None:
                found.append(
                    f"the {side.name} takes no empty cache: its steps begin from the cache of the first token"
                )
        if unmoved:
            some = ", ".join(f"`{name}`" for name in unmoved[:4])
            more = f" and {len(unmoved) - 4} more" if len(unmoved) > 4 else ""
            found.append(f"no output changes with the values of {some}{more}: the steps do not prove it")
        found.append("only outputs were compared; verify without --steps compares module by module")
        return found

    def _draws(self) -> list[tuple[str, dict[str, np.ndarray]]]:
        """Return name of a case -> the streams of tokens, for a first draw and one of another batch."""
        graph, feeding = self.sides.graph, self.source.feeding
        sizes = bindings(graph)
        axes = [(port, token_axis(feeding, port)) for port in feeding.named("token")]
        of_tokens = {port.dims[axis] for port, axis in axes if port.dims and axis is not None}
        batch = batch_symbols(graph) - of_tokens
        first = self._draw(sizes, self.seed, own=True)
        usual = _case(sizes, batch)
        if not batch or self._is_of_one_batch():
            return [(usual, first), ("another draw", self._draw(sizes, self.seed + _ANOTHER, own=False))]
        other = {**sizes, **dict.fromkeys(batch, 1 if any(sizes[s] > 1 for s in batch if s in sizes) else 3)}
        return [(usual, first), (_case(other, batch), self._draw(other, self.seed + _ANOTHER, own=False))]

    def _is_of_one_batch(self) -> bool:
        """Whether a side takes one number of examples only."""
        return any(
            port.dims and len(port.dims) > 1 and isinstance(port.dims[0], int)
            for side in (self.source, self.target)
            for port in side.feeding.named("token")
        )

    def _draw(self, sizes: Mapping[str, int], seed: int, *, own: bool) -> dict[str, np.ndarray]:
        """Draw tokens one by one and join them; the user's own are taken as far as they go."""
        graph, feeding = self.sides.graph, self.source.feeding
        axes = {port.name: token_axis(feeding, port) for port in feeding.named("token")}
        one = dict(sizes)
        for port in feeding.named("token"):
            axis = axes[port.name]
            dim = port.dims[axis] if port.dims and axis is not None else None
            one.update({dim: 1} if isinstance(dim, str) else {})
        drawn = [make_inputs(graph, one, seed + step) for step in range(self.count)]
        found = {port.name: drawn[0][port.name] for port in feeding.named("same")}
        for name, axis in axes.items():
            if axis is None:
                found[name] = np.stack([array[name] for array in drawn], 1)
                continue
            found[name] = np.concatenate([array[name].take([0], axis) for array in drawn], axis)
            example = graph.origin.inputs.get(name) if own and graph.origin.given else None
            if example is not None and example.shape[axis] >= self.count:
                found[name] = example.take(range(self.count), axis)
        return found

    def _prepare(self, side: _Side, streams: Mapping[str, Array]) -> None:
        """Find out in which ways a side runs, and where its outputs have the tokens."""
        plain, count = side.feeding.plain, self.count
        probe = DecoderRunner(side.runner, side.feeder, steps=True, axes={})
        empty = side.feeder.empty(streams)
        whole: list[np.ndarray] | None = None
        step: list[np.ndarray] | None = None
        try:
            whole = probe.outputs(streams, 0, count, empty)
        except (ModelError, ValueError) as error:
            side.refusal = getattr(error, "message", str(error))
        if side.feeding.pairs:
            step = self._first_step(side, probe, streams, empty)
        if whole is not None:
            shown = step if step is not None else probe.outputs(streams, 0, 1, empty)
            axes = find_token_axes([whole[at] for at in plain], [shown[at] for at in plain], count)
            side.whole = DecoderRunner(side.runner, side.feeder, steps=False, axes=axes)
        elif step is not None:
            axes = self._axes_of_steps(side, probe, streams)
        else:
            return
        if not axes:
            raise ModelError(
                "E702",
                f"expected outputs of the {side.name} for each of its tokens, or for the last alone",
            )
        if step is not None:
            side.steps = DecoderRunner(side.runner, side.feeder, steps=True, axes=axes)
            side.steps.start = probe.start

    def _first_step(
        self, side: _Side, probe: DecoderRunner, streams: Mapping[str, Array], empty: Mapping[str, Array]
    ) -> list[np.ndarray]:
        """Return the outputs of the first step, or of the second where a cache may not be empty.

        Raises:
            ModelError: if no step runs (E702).
        """
        try:
            return probe.outputs(streams, 0, 1, empty)
        except (ModelError, ValueError) as error:
            start = self._first_caches(side, streams)
            try:
                if start is not None:
                    step = probe.outputs(streams, 1, 2, start)
                    probe.start = start
                    return step
            except (ModelError, ValueError):
                pass
            raise ModelError(
                "E702",
                f"the first step of the {side.name} does not run: {getattr(error, 'message', error)}",
                hint=_advise(side.feeding),
            ) from error

    def _axes_of_steps(
        self, side: _Side, probe: DecoderRunner, streams: Mapping[str, Array]
    ) -> dict[int, TokenAxis | None]:
        """Return the outputs whose shapes are equal in two steps; the other side's pass shows their axes."""
        plain = side.feeding.plain
        begin = 0 if probe.start is None else 1
        caches = side.feeder.empty(streams) if probe.start is None else probe.start
        first = probe.outputs(streams, begin, begin + 1, caches)
        if side is self.target and self.source.whole is not None:
            passing = self.source.whole
            whole = passing.outputs(streams, 0, self.count, passing.feeder.empty(streams))
            pairs = zip(passing.feeder.feeding.plain, plain, strict=False)
            arrays = [(whole[a], first[b]) for a, b in pairs]
            return find_token_axes([a for a, _ in arrays], [b for _, b in arrays], self.count)
        return dict.fromkeys(range(len(plain)))

    def _first_caches(self, side: _Side, streams: Mapping[str, Array]) -> dict[str, np.ndarray] | None:
        """Return the caches after the first token, from the other side's pass over it."""
        other = self.source if side is self.target else self.target
        feeding = other.feeding
        if not feeding.pairs or len(feeding.pairs) != len(side.feeding.pairs):
            return None
        probe = DecoderRunner(other.runner, other.feeder, steps=True, axes={})
        try:
            outputs = probe.outputs(streams, 0, 1, other.feeder.empty(streams))
        except (ModelError, ValueError):
            return None
        left = [outputs[pair.output] for pair in feeding.pairs.values()]
        return dict(zip(side.feeding.pairs, left, strict=True))

    def _measure_with(self, reference: DecoderRunner) -> None:
        """Have the tolerance measured on runs over all tokens."""
        self.sides.source = reference
        exact = self.exact
        self.sides.exact = (
            None
            if exact is None or reference.feeder is not self.source.feeder
            else DecoderRunner(exact, reference.feeder, steps=reference.steps, axes=reference.axes)
        )

    def _rows(
        self,
        case: str,
        streams: Mapping[str, Array],
        reference: DecoderRunner,
        others: Sequence[tuple[_Side, DecoderRunner]],
    ) -> list[OutputRow]:
        """Compare every other way to run with the reference, on one draw."""
        traced = reference.trace(streams)
        names = reference.run_names
        rounding = self.sides.rounding(streams, Run(list(zip(names, traced.plain, strict=True))))
        rows: list[OutputRow] = []
        wrong: list[tuple[_Side, DecoderRunner, int, Traced]] = []
        for side, way in others:
            what = f"{case}, {'steps' if way.steps else 'one pass'} of the {side.name}"
            try:
                found = way.trace(streams)
            except ModelError as error:
                nan = float("nan")
                rows.append(OutputRow(names[0], what, (), nan, nan, 0.0, False, error.message))
                self.causes.append(f"the {side.name} does not run: {error.message}")
                self.first = self.first or (1, side.name)
                continue
            step, made = _compare_steps(what, names, traced, found, rounding, self.count)
            rows += made
            if step is not None:
                wrong.append((side, way, step, found))
        for side, way, step, _ in wrong:
            if way.steps and (self.first is None or step < self.first[0]):
                self.first = (step, side.name)
        if wrong:
            if self.first is None:
                self.first = (wrong[0][2], wrong[0][0].name)
            self.causes += explain(
                names,
                self.count,
                reference,
                traced,
                [(side.name, way, step, found) for side, way, step, found in wrong],
                [(side.name, way) for side, way in others],
                streams,
            )
        return rows

    def _unmoved(self, streams: Mapping[str, Array]) -> tuple[dict[str, str], list[str]]:
        """Return the outputs that no cache moves, and the caches whose values move no output."""
        side = self.target if self.target.steps is not None else self.source
        way = side.steps
        if way is None:
            return {}, []
        left = way.trace(streams).caches
        caches = {name: arrays[-2] for name, arrays in left.items() if len(arrays) > 1}
        usual = way.continued(streams, caches)
        random = np.random.default_rng(self.seed)

        def moved(names: Sequence[str]) -> bool:
            other = {name: _other_values(a, random) if name in names else a for name, a in caches.items()}
            found = way.continued(streams, other)
            return any(not compare(a, b).passed for a, b in zip(usual, found, strict=True))

        if not caches or not moved(list(caches)):
            return dict.fromkeys(way.run_names, "the same whatever the cache holds"), list(caches)
        return {}, [name for name in list(caches)[:_TRIED] if not moved([name])]


def _advise(feeding: Feeding) -> str:
    """Say what to do about a side whose steps do not run."""
    for port in feeding.named("token"):
        axis = token_axis(feeding, port)
        size = port.dims[axis] if port.dims and axis is not None else 1
        if isinstance(size, int) and size != 1:
            return (
                f"`{port.name}` takes {size} tokens: write it for one, or with --dynamic {port.name}:{axis}"
            )
    return "--feed says what feeds an input: " + ", ".join(f"{word} ({what})" for word, what in ROLES.items())


def _other_values(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return other values of an array, as large as its own."""
    if array.dtype.kind not in "fiu" and "float" not in array.dtype.name:
        return array
    if array.dtype.kind in "iu":
        return random.permutation(array.reshape(-1)).reshape(array.shape)
    scale = float(np.abs(array.astype(np.float64)).max(initial=0.0)) or 1.0
    return (random.standard_normal(array.shape) * scale).astype(array.dtype)


def _case(sizes: Mapping[str, int], batch: set[str]) -> str:
    return ", ".join(f"{s}={sizes[s]}" for s in sorted(batch) if s in sizes) or "N=1"


def _compare_steps(
    case: str, names: Sequence[str], wanted: Traced, found: Traced, rounding: Rounding, count: int
) -> tuple[int | None, list[OutputRow]]:
    """Return the first step that differs, and a row for each output; for each step of one that differs."""
    rows: list[OutputRow] = []
    first: int | None = None
    for index, (name, array) in enumerate(zip(names, wanted.plain, strict=True)):
        other = found.plain[index] if index < len(found.plain) else np.zeros(0)
        skipped = array.shape[0] - other.shape[0]
        late = skipped == 1 and array.shape[1:] == other.shape[1:]
        by = rounding.output(index)
        if late:  # its steps begin after the first token
            array, by = array[1:], _sliced(by, slice(1, None))
        whole = compare(array, other, by)
        if whole.passed:
            rows.append(_row(name, case, whole))
            continue
        begin = count - len(array)
        for at in range(len(array)) if array.shape == other.shape else ():
            one = compare(array[at], other[at], _sliced(by, at + (1 if late else 0)))
            rows.append(_row(name, f"{case}, step {begin + at + 1}", one))
            if not one.passed:
                first = begin + at + 1 if first is None else min(first, begin + at + 1)
        if first is None:
            rows.append(_row(name, case, whole))
            off = np.abs(array.astype(np.float64) - other) if array.shape == other.shape else np.zeros((1, 1))
            first = begin + int(np.argmax(off.reshape(len(off), -1).max(1))) + 1
    return first, rows


def _row(name: str, case: str, c: object) -> OutputRow:
    from ..compare import Comparison

    assert isinstance(c, Comparison)
    return OutputRow(
        name, case, c.shape, c.max_abs, c.max_rel, c.tolerance, c.passed, c.reason, c.noise, c.unproven
    )


def _sliced(by: Yardstick, at: int | slice) -> Yardstick:
    """Return the yardstick of a part of an array."""

    def of(made: Callable[[], np.ndarray | None]) -> np.ndarray | None:
        array = made()
        return array if array is None or array.ndim == 0 else array[at]

    exact, noise = by.exact, by.noise
    return replace(
        by,
        exact=None if exact is None else lambda: of(exact),
        noise=None if noise is None else lambda ulps: of(lambda: noise(ulps)),
    )
