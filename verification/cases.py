"""Chooses the inputs that are compared: first one with all modules, then other kinds of draws and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np

from ..ir import Graph, ModelError
from .axes import TurnedRunner, find_axes
from .bending import Bending, multiply_floats
from .branches import branches
from .compare import RANDOM, kind_of
from .conditioning import Rounding
from .coverage import Covered
from .driving import drive, sharpen
from .fusion import Fusion
from .inputs import (
    KIND_OF_DRAW,
    KINDS,
    LARGEST,
    REPEATED,
    add_nonfinite,
    batch_symbols,
    bindings,
    equalise_inputs,
    has_indices,
    is_varied,
    make_inputs,
    measure_largest_value,
    open_symbols,
    other_sizes,
    resize_inputs,
)
from .jumps.breakpoints import Breakpoints
from .jumps.epsilons import FACTOR, has_epsilon
from .jumps.equalities import Equalities
from .jumps.exactness import Exactness
from .jumps.excuses import excuse_failed, excuse_void, is_void
from .jumps.few_rows import inputs_with_few_rows, rows_of_one_number
from .jumps.selections import Selections
from .jumps.singular import Singularities
from .meaning import notes_of, with_meaning
from .mixing import KINDS as MIXED
from .mixing import ExampleRounding, example_of, mixed_inputs
from .modules import ModuleComparison
from .report import ModuleRow, OutputRow
from .runners.runs import Fusing, Run
from .sensitivity.measuring import Measuring
from .sides import OutputRounding, Sides, not_run
from .ties import find_ties
from .undefined import Undefined, excuse_undefined

Arrays = Mapping[str, np.ndarray]

_ANOTHER = 101
"""Offset of the seed for a second draw."""

UNMEASURED = (
    "rounding was not measured after the first case that differs: a small difference there may be rounding"
)
"""Note on cases that were compared after one that differs, and are off by little."""

_LITTLE = 1e-3
"""Relative difference below which rounding may be what is seen."""

_SINGULAR = 0.05
"""Relative difference above which no second draw is made: rounding near a pole is smaller."""


_MILD = ("data-like", "+3")
"""Kinds of draws that lead few functions to where they have no value."""

AT_BREAKPOINTS = "at breakpoints"
"""The case of inputs at which functions jump."""

_NO_MEMORY = re.compile("allocate memory|bad_alloc|unable to allocate", re.IGNORECASE)
"""Messages of runtimes about too little memory, which is no fault of a model."""

_REFUSALS = 2
"""Number of cases that the source refuses of which the reasons are noted."""


class Cases:
    """Runs both sides on one case after the other.

    Args:
        sides: what is run.
        seed: seed of the inputs.
        target: the target's graph, where it has one.

    Attributes:
        covered: what was compared so far.
    """

    def __init__(self, sides: Sides, seed: int, target: Graph | None = None) -> None:
        self.sides, self.graph, self.notes, self.seed = sides, sides.graph, sides.notes, seed
        self.covered = Covered()
        self._failed: tuple[str, Arrays] | None = None
        self._bending = Bending(self.graph)
        self._usual = ""
        self._differs, self._measures = False, True
        self._selections = Selections(sides.graph, sides.source, sides.target)
        self._equalities = Equalities(sides.graph)
        self._fusion = Fusion(sides, self._selections, self._equalities)
        self._refused: list[tuple[str, str]] = []
        self._undefined = Undefined(sides.graph, sides.source)
        self._singular = Singularities(sides.graph)
        self._breakpoints = Breakpoints(sides.graph, target)
        self._has_epsilon = any(has_epsilon(graph) for graph in (sides.graph, target) if graph is not None)
        self._exactness = Exactness(sides.graph, self._singular)
        self._example: Arrays | None = None
        self._drawn = False  # whether the inputs are ours
        self._noted: set[str] = set()

    def rows(
        self, inputs: Arrays | None, modules: bool
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        """Return rows of outputs and module calls, and the call in which the target goes wrong.

        The user's own example comes first, then standard normal inputs with all modules, then inputs that
        differ from them in kind and in size. If the source gives nothing on normal inputs, modules are
        compared on the example. A decision on all values of a run (`if (x >= 0).all()`) shows in no mixture
        of kinds: for it, inputs at batch 1 are not negative.

        Args:
            inputs: arrays by input name, which are compared and no others; None draws them.
            modules: whether to compare modules too.
        """
        sizes = bindings(self.graph, inputs)
        outputs: list[OutputRow] = []
        first, name, drawn, known = inputs, "the inputs given", inputs is None, None
        if inputs is None:
            first, name = make_inputs(self.graph, sizes, self.seed), "normal"
            example = dict(self.graph.origin.inputs)
            if self.graph.origin.given:
                known = self._run_if_it_gives(f"{case_of(sizes)}, normal", first, modules)
                if known is None:
                    first, name, drawn = example, "the example", False
                else:
                    outputs += self._compare_outputs(f"{case_of(sizes)}, the example", example)
                    self._example = example
                    self.covered.draws.append("the example")
        assert first is not None
        self._usual = name
        if drawn:
            self.notes += notes_of(self.graph)
        further, mixed = [s for s in self._other_sizes(sizes) if self._fits(s, sizes)], None
        varied = inputs is None and is_varied(self.graph) and not self.graph.origin.assumed
        if varied:
            mixed = self._mixture(further)
            if mixed is not None:
                further.remove(mixed[0])
        self._bending.note(first)
        if mixed is not None:
            self._bending.note(mixed[1])
        self._drawn = drawn
        found, rows, culprit = self._run_first(self._case(sizes, name), first, modules, known)
        outputs += found
        if drawn and (self._noted or any(row.passed is False for row in rows)):
            others, rows, culprit = self._run_where_defined(sizes, first, rows, culprit)
            outputs, self._drawn = outputs + others, drawn
        self.covered.add(name, sizes, batch_symbols(self.graph))
        self._note_ties(first if self._example is None else self._example)
        outputs += self._run_branches(first, sizes, drawn=drawn)
        if inputs is None and self.graph.origin.assumed:
            outputs += self._contradict_assumptions(sizes)
        if varied:
            outputs += self._run_kinds(sizes, mixed)
            scaled = self._bending.amplify_inputs(first)
            if self._has_epsilon and drawn:
                scaled[FACTOR] = {name: multiply_floats(array, FACTOR) for name, array in first.items()}
            for factor, given in scaled.items():
                outputs += self._run_another(sizes, f"x{factor:g}", given, self._make_redraw(sizes, factor))
            special = add_nonfinite(first)
            branches_met, asking = self._bending.note_branches(special), self._undefined.asking
            if branches_met or asking:
                judged = None if branches_met else asking
                outputs += self._run_another(sizes, "with NaN and infinities", special, judged=judged)
            equal = equalise_inputs(self.graph, first)
            if equal is not None:
                outputs += self._run_another(sizes, "equal inputs", equal)
        if inputs is None:
            run = partial(self.sides.source.run, calls=False)
            for number, few in enumerate(inputs_with_few_rows(self.graph, run, first), 1):
                outputs += self._run_another(sizes, f"few rows {number}", few)
            self.covered.unreached += [
                f"fewer rows of `{name}` than {most}"
                for name, most in rows_of_one_number(self.graph, outputs)
            ]
        if inputs is None and self._breakpoints.any:
            at = self._breakpoints.draw(sizes, self.seed + 1)
            outputs += [] if at is None else self._run_another(sizes, AT_BREAKPOINTS, at)
        for other in further:
            kind, again = name, make_inputs(self.graph, other, self.seed + 1) if drawn else None
            if drawn and not varied and self._is_mixable(other) and has_indices(self.graph):
                kind, again = REPEATED, make_inputs(self.graph, other, self.seed + 1, REPEATED)
            elif again is None:
                again = resize_inputs(self.graph, first, other)
            elif mixed is not None and all(other[symbol] == 1 for symbol in batch_symbols(self.graph)):
                kind, again = "positive", {n: np.abs(a) if kind_of(a) == "f" else a for n, a in again.items()}
            outputs += self._run_another(other, kind, again)
        self._note_refused()
        self.covered.bends = sum(bool(region) for bend in self._bending.bends for region in bend.regions)
        self.covered.unreached += self._bending.remark()
        if modules and self._failed is not None and not any(row.passed is False for row in rows):
            _, again, culprit = self._run_first(*self._failed, modules)  # where it goes wrong on those inputs
            wrong = {row.call: row for row in again if row.passed is False}
            rows = [wrong.get(row.call, row) for row in rows]
        return outputs, rows, culprit

    def _note_ties(self, inputs: Arrays) -> None:
        """Note equal values among which an operator chooses, where a runtime but ONNX's leaves that open."""
        if isinstance(self.sides.source, Fusing) and isinstance(self.sides.target, Fusing):
            return
        for tie in find_ties(self.graph, inputs):
            self.notes.append(tie.remark())
            self.covered.unreached.append(f"other choices of {tie.operator} among equal values")

    def _other_sizes(self, sizes: dict[str, int]) -> list[dict[str, int]]:
        """Return further sizes of the symbols for which the target has more than one."""
        fixed = self.sides.fixed
        if fixed:
            self.notes.append(f"only with {case_of(fixed)}: the target has no other size")
        found = [{**further, **{s: sizes[s] for s in fixed}} for further in other_sizes(self.graph, sizes)]
        return [f for at, f in enumerate(found) if f != sizes and f not in found[:at]]

    def differing(self) -> Arrays | None:
        """Return the inputs on which outputs differ, where those are not the first; None else."""
        return None if self._failed is None else self._failed[1]

    def _fits(self, sizes: Mapping[str, int], usual: Mapping[str, int]) -> bool:
        """Whether values at further sizes are small, or no larger than usual; notes it if not."""
        needed = measure_largest_value(self.graph, sizes)
        if needed <= max(LARGEST, measure_largest_value(self.graph, usual)):
            return True
        case = case_of(sizes)
        self.notes.append(f"{case} was not tried: one value takes {needed >> 20} MB there")
        self.covered.unreached.append(f"{case}, which was left out as too large")
        return False

    def _case(self, sizes: Mapping[str, int], name: str) -> str:
        """Return the name of a case, ``N=2, x10``; the usual draw is not mentioned."""
        return case_of(sizes) if name == self._usual else f"{case_of(sizes)}, {name}"

    def _run_first(
        self, case: str, inputs: Arrays, modules: bool, known: Run | None = None
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        """Compare one case, which both sides must run, with its modules; `known` is the source's run."""
        source = known or self.sides.source.run(inputs, calls=modules)
        target = self.sides.target.run(inputs, calls=modules)
        kept = self._breakpoints.kept(inputs)
        rounding = self.sides.rounding(inputs, source, calls=modules, kept=kept)
        outputs = self._rows_of(case, inputs, (source, target), rounding)
        target, outputs = self._fusion.stop(case, inputs, (source, target), outputs, rounding, calls=modules)
        outputs = self._excuse_undefined(inputs, (source, target), rounding, outputs)
        if all(row.passed for row in outputs):
            outputs += self._fusion.find_faults_at_other_level(case, inputs, source, rounding)
        self._differs = self._differs or _have_fault(outputs)
        if not modules:
            return outputs, [], None
        agree, sides = all(row.passed for row in outputs), self.sides
        axes = find_axes(source, target) if agree or not sides.by_hand else {}  # else they may be the fault
        if axes:
            self.notes.append(
                f"values of {len(axes)} module calls have their axes in another order in the target"
            )
            sides = copy(sides)
            sides.target = turned = TurnedRunner(sides.target, axes)
            target = turned.turned(target)
        runners = sides.source, sides.target
        comparison = ModuleComparison(self.graph.modules, inputs, (source, target), runners, rounding)
        rows = comparison.rows(agree=agree)
        if agree and any(row.passed is False for row in rows) and self._fusion.stop_for_calls():
            return self._run_first(case, inputs, modules, known)
        if self._bending.unseen:
            rows = drive(self._bending, rows, sides, (source, target), rounding)
        rows = sharpen(rows, sides, (source, target), rounding)
        if all(row.passed for row in outputs) and not any(row.passed is False for row in rows):
            measuring = Measuring(self.graph, self.sides.source, inputs, source, outputs, rows)
            self.covered.sensitivity = measuring.sensitivity()
        culprit = comparison.culprit(rows)
        if culprit is None and any(row.passed for row in rows) and not all(row.passed for row in outputs):
            culprit = "#1"  # every module is right: it is the root's own code after the last of them
        return outputs, rows, culprit

    def _run_where_defined(
        self, sizes: dict[str, int], first: Arrays, rows: list[ModuleRow], culprit: str | None
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        """Compare modules on inputs that lead no NaN into operators which leave open what they give of it.

        Args:
            sizes: symbol -> size.
            first: the first inputs; if they lead none there, the rows are right as they are.
            rows: of modules, compared on them.
            culprit: the call in which the target goes wrong on them.
        """
        entering = self._undefined.entering(first)
        if not entering:
            return [], rows, culprit
        draws = {kind: partial(make_inputs, self.graph, sizes, self.seed, kind) for kind in _MILD}
        given = self._example
        candidates = {**({} if given is None else {"the example, with modules": lambda: given}), **draws}
        for kind, draw in candidates.items():
            inputs = draw()
            if not self._undefined.entering(inputs):
                self._drawn = kind in draws
                return self._run_first(f"{case_of(sizes)}, {kind}", inputs, True)
        why = f"NaN enters {next(iter(entering.values()))}"
        left = [replace(r, passed=None, reason=why) if r.passed is False else r for r in rows]
        return [], left, None

    def _excuse_undefined(
        self, inputs: Arrays, runs: tuple[Run, Run], rounding: OutputRounding, rows: list[OutputRow]
    ) -> list[OutputRow]:
        """Return rows in which inputs that nobody gave decide nothing by NaN that documents leave open."""
        if not self._drawn or all(row.passed for row in rows):
            return rows
        entering = self._undefined.entering(inputs)
        found = excuse_undefined(rows, runs, rounding, entering) if entering else rows
        for before, row in zip(rows, found, strict=True):
            if row.passed and not before.passed and row.name not in self._noted:
                self._noted.add(row.name)
                self.notes.append(
                    f"`{row.name}` differs on the generated inputs ({row.case}): NaN enters "
                    f"{entering[row.name]}, whose documentation leaves its result for NaN open"
                )
        return found

    def _compare_outputs(self, case: str, inputs: Arrays) -> list[OutputRow]:
        """Compare the outputs of one case that both sides must run."""
        source = self.sides.source.run(inputs, calls=False)
        target = self.sides.target.run(inputs, calls=False)
        rounding = self._rounding(inputs, source)
        rows = self._rows_of(case, inputs, (source, target), rounding)
        _, rows = self._fusion.stop(case, inputs, (source, target), rows, rounding)
        return self._remember_failure(case, inputs, rows)

    def _rows_of(
        self, case: str, inputs: Arrays, runs: tuple[Run, Run], rounding: OutputRounding
    ) -> list[OutputRow]:
        """Return one row per output, where what rounding selects is no fault."""
        return self._selections.judge(self.sides.outputs(case, *runs, rounding), inputs, *runs)

    def _rounding(self, inputs: Arrays, source: Run) -> Rounding:
        """Return the effect of rounding in a further case: four runs, not made once outputs differ."""
        self._measures = not self._differs
        kept = self._breakpoints.kept(inputs)
        return self.sides.rounding(inputs, source, measured=self._measures, kept=kept)

    def _run_if_it_gives(self, case: str, inputs: Arrays, modules: bool) -> Run | None:
        """Return the source's run; None, with a note, if it refuses the inputs or returns only NaN."""
        try:
            run = self.sides.source.run(inputs, calls=modules)
        except ModelError as error:
            self._refuse(case, error.message)
            return None
        if any(not is_void(array) for _, array in run.outputs):
            return run
        self._refuse(case, "it gives NaN only")
        return None

    def _refuse(self, case: str, why: str) -> None:
        self._refused.append((case, why))
        self.covered.refused.append(case)

    def _note_refused(self) -> None:
        """Note the cases that the source refuses: sizes in one line, for which the first reason stands."""
        for case, why in self._refused[:_REFUSALS]:
            self.notes.append(f"the source does not run with {case}, so the target was not tried: {why}")
        more = [case for case, _ in self._refused[_REFUSALS:]]
        if more:
            self.notes.append(f"nor does it run with {'; '.join(more)}")

    def _run_branches(self, first: Arrays, sizes: dict[str, int], *, drawn: bool) -> list[OutputRow]:
        """Compare further inputs until every branch of the graph was taken; notes those not taken."""
        found = branches(self.graph)
        if found is None:
            return []
        found.note(first)
        rows = self._run_draws(found.further(sizes, self.seed) if drawn else (), sizes)
        remark = found.remark(drawn)
        self.notes += [remark] if remark else []
        self.covered.unreached += [found.names[number] for number in found.unseen]
        return rows

    def _mixture(self, further: Sequence[dict[str, int]]) -> tuple[dict[str, int], Arrays] | None:
        """Return sizes at which a batch has one example per kind of draw, and such inputs; None without."""
        for sizes in further:
            if self._is_mixable(sizes):
                inputs = mixed_inputs(self.graph, sizes, self.seed + 1)
                return None if inputs is None else (sizes, inputs)
        return None

    def _is_mixable(self, sizes: Mapping[str, int]) -> bool:
        """Whether a batch has room for exactly one example of each kind of draw."""
        return all(sizes.get(symbol) == len(MIXED) for symbol in batch_symbols(self.graph))

    def _run_kinds(
        self, sizes: dict[str, int], mixed: tuple[dict[str, int], Arrays] | None
    ) -> list[OutputRow]:
        """Compare draws of every kind: as examples of one batch, or one after the other."""
        together = None if mixed is None else self._run_together(sizes, *mixed)
        if together is not None:
            return together
        rows: list[OutputRow] = []
        for kind in KIND_OF_DRAW:
            given = make_inputs(self.graph, sizes, self.seed, kind)
            self._bending.note(given)
            rows += self._run_another(sizes, kind, given, self._make_redraw(sizes, kind))
        if mixed is not None:
            rows += self._run_another(mixed[0], "normal", make_inputs(self.graph, mixed[0], self.seed + 1))
        return rows

    def _run_together(
        self, sizes: dict[str, int], together: dict[str, int], inputs: Arrays
    ) -> list[OutputRow] | None:
        """Compare one batch with an example of each kind; None if the source does not run with it."""
        try:
            source = self.sides.source.run(inputs, calls=False)
        except ModelError:
            return None
        if any(array.ndim == 0 or len(array) != len(MIXED) for _, array in source.outputs):
            return None
        try:
            target = self.sides.target.run(inputs, calls=False)
        except ModelError as error:
            if _NO_MEMORY.search(error.message):
                return None
            return not_run(case_of(together), source, error)
        rounding, rows = self._rounding(inputs, source), list[OutputRow]()
        stopped = self._fusion.is_stopped
        for at, kind in enumerate(MIXED):
            if self._fusion.is_stopped is not stopped:  # by the example before
                target, stopped = self.sides.target.run(inputs, calls=False), True
            self.covered.add(kind, together, batch_symbols(self.graph))
            runs = example_of(source, at), example_of(target, at)
            redrawn = self._make_redraw(sizes, kind) if kind in KIND_OF_DRAW else None
            case = self._case(together, kind)
            alone = {name: array[at : at + 1] for name, array in inputs.items()}
            rows += self._judge_rows(case, inputs, runs, ExampleRounding(rounding, at), redrawn, alone)
        return rows

    def _make_redraw(self, sizes: dict[str, int], kind: str | float) -> Callable[[], Arrays]:
        """Return a function that draws again: inputs of a kind, or multiplied normal inputs."""
        seed = self.seed + _ANOTHER

        def redrawn() -> Arrays:
            if isinstance(kind, str):
                return make_inputs(self.graph, sizes, seed, kind)
            normal = make_inputs(self.graph, sizes, seed)
            return {name: multiply_floats(array, kind) for name, array in normal.items()}

        return redrawn

    def _contradict_assumptions(self, sizes: dict[str, int]) -> list[OutputRow]:
        """Compare inputs of several kinds, which may violate what the capture assumed."""
        draws = ((n, make_inputs(self.graph, sizes, self.seed + n, n)) for n in range(1, KINDS))
        rows = self._run_draws(draws, sizes)
        if not all(row.passed for row in rows):
            self.notes += self.graph.origin.assumed
        return rows

    def _run_draws(self, draws: Iterable[tuple[int, Arrays]], sizes: dict[str, int]) -> list[OutputRow]:
        """Compare further inputs of the same sizes."""
        return [row for n, given in draws for row in self._run_another(sizes, f"draw {n}", given)]

    def _run_another(
        self,
        sizes: dict[str, int],
        name: str,
        inputs: Arrays,
        redrawn: Callable[[], Arrays] | None = None,
        judged: Collection[str] | None = None,
    ) -> list[OutputRow]:
        """Compare the outputs of a further case, if the source itself runs it.

        Args:
            sizes: symbol -> size.
            name: name of the kind of inputs.
            inputs: arrays by input name.
            redrawn: draws others of the kind; a difference that is small and not there again is no fault
                where a value is close to a jump or pole of a function, and how close rounding decides.
            judged: names of the outputs that count; None for all.
        """
        case, inputs = self._case(sizes, name), with_meaning(self.graph, inputs)
        try:
            source = self.sides.source.run(inputs, calls=False)
        except ModelError as error:
            self._refuse(case, error.message)
            return []
        if other := self._other_rank(sizes, source):
            self._refuse(case, other)
            return []
        try:
            target = self.sides.target.run(inputs, calls=False)
        except ModelError as error:
            if _NO_MEMORY.search(error.message):
                self.covered.unreached.append(f"{case}, for which there was not enough memory")
                return []
            self.covered.add(name, sizes, batch_symbols(self.graph))
            return not_run(case, source, error)
        self.covered.add(name, sizes, batch_symbols(self.graph))
        rounding = self._rounding(inputs, source)
        return self._judge_rows(case, inputs, (source, target), rounding, redrawn, judged=judged)

    def _judge_rows(
        self,
        case: str,
        inputs: Arrays,
        runs: tuple[Run, Run],
        rounding: OutputRounding,
        redrawn: Callable[[], Arrays] | None,
        alone: Arrays | None = None,
        judged: Collection[str] | None = None,
    ) -> list[OutputRow]:
        """Return the rows of a further case; a draw that proves nothing is no fault.

        Args:
            case: name of the case.
            inputs: its inputs.
            runs: what source and target gave, of one example where they are a batch of several kinds.
            rounding: what rounding does in the source's run.
            redrawn: draws others of the kind.
            alone: the inputs of that example.
            judged: names of the outputs that count; None for all.
        """
        source, _ = runs
        rows = self._rows_of(case, alone or inputs, runs, rounding)
        target, rows = self._fusion.stop(case, alone or inputs, runs, rows, rounding)
        runs = source, target
        void = {name for name, array in source.outputs if is_void(array)}
        for row in rows:
            if row.name in void and not row.passed and row.name not in self._noted:
                self._noted.add(row.name)
                self.notes.append(
                    f"`{row.name}` with {case} is NaN everywhere in the source, but not in the target"
                )
        rows = [excuse_void(row) if row.name in void and not row.passed else row for row in rows]
        rows = self._excuse_undefined(alone or inputs, runs, rounding, rows)
        rows = [row for row in rows if judged is None or row.name in judged]
        failed = [row for row in rows if not row.passed]
        small = bool(failed) and all(row.max_rel < _SINGULAR for row in failed)
        near = ""
        if small and redrawn is not None:
            near = self._singular.near(alone or inputs, {row.name for row in failed})
        if near and redrawn is not None and self._is_equal(case, redrawn()):
            why = f"off here and not on another draw of this kind: a value is close to where {near} jumps"
            rows = excuse_failed(rows, why)
        if failed and self._breakpoints.has_drawn(inputs):
            near = self._exactness.undecided(inputs, {row.name for row in failed})
            if near:
                rows = excuse_failed(rows, f"a value is close to where {near} jumps, and rounding decides")
        elif failed and not all(row.passed for row in rows):
            rows = self._equalities.excuse_decided(alone or inputs, *runs, rows)
        return self._remember_failure(case, inputs, rows)

    def _is_equal(self, case: str, again: Arrays) -> bool:
        """Whether all outputs agree on another draw of a kind."""
        try:
            return all(row.passed for row in self._compare_outputs(case, again))
        except ModelError:
            return False

    def _remember_failure(self, case: str, inputs: Arrays, rows: list[OutputRow]) -> list[OutputRow]:
        """Remember the first case with a failing row, to find the module later; returns the rows."""
        little = any(not row.passed and row.max_rel < _LITTLE for row in rows)
        if little and not self._measures and UNMEASURED not in self.notes:
            self.notes.append(UNMEASURED)
        if self._failed is None and _have_fault(rows):
            self._failed, self._differs = (case, inputs), True
        return rows

    def _other_rank(self, sizes: Mapping[str, int], run: Run) -> str:
        """Describe an output whose rank at size 1 differs from other sizes (`squeeze`); empty if none."""
        if all(sizes.get(symbol) != 1 for symbol in open_symbols(self.graph)):
            return ""
        for (name, value), (_, array) in zip(self.graph.outputs, run.outputs, strict=False):
            type_ = self.graph.type_of(value)
            if type_ is not None and type_.shape is not None and len(type_.shape) != array.ndim:
                return f"it gives `{name}` the shape {list(array.shape)}, which is {type_} otherwise"
        return ""


def _have_fault(rows: Sequence[OutputRow]) -> bool:
    """Whether rows fail by something else than random numbers, which have no module where they go wrong."""
    return any(not row.passed and row.reason != RANDOM for row in rows)


def case_of(sizes: Mapping[str, int]) -> str:
    """Return sizes as text, ``N=2``; "static" for a graph without symbols."""
    return ", ".join(f"{name}={size}" for name, size in sorted(sizes.items())) or "static"
