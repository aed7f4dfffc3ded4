"""The source and the target in their runtimes, and the tolerances between their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import isqrt
from pathlib import Path
from typing import Protocol

import numpy as np

from ..ir import Constant, Graph, ModelError, Operator, Parameter, TensorData, walk_operators
from ..ir.analysis.costs import example_sizes, terms_of
from .compare import EPSILON, INNER, MULTIPLE, Types, Yardstick, compare
from .conditioning import Again, Cost, Rounding, UnitsAlone
from .report import OutputRow
from .runners.onnx_rounding import error_of
from .runners.onnx_runner import OnnxRunner
from .runners.runs import ELUS, Coarse, RoundsLike, Run, Runner

_WIDE = 100
"""Units in the last place above which the report explains its tolerance."""

_SAME = 4
"""Units in the last place allowed between two nets in one runtime, which may merge operators.

Passes may put others in place of a source's operators, whose kernels add up in another order: what was
written from a source is allowed what its runtime costs."""


class OutputRounding(Protocol):
    """The effect of rounding on the outputs of a run."""

    def output(self, index: int) -> Yardstick:
        """Return the yardstick of an output."""
        ...


class Sides:
    """The two sides of a comparison.

    Args:
        graph: the source's graph.
        source: the source's runner.
        target: the target's runner.
        exact: the source's runner in float64, where there is one.
        by_hand: whether the target was written apart from the source, and not from it.

    Attributes:
        notes: what a reader of the report should know besides.
        ulps: units in the last place that the runtimes' arithmetic may cost in the whole model.
        fixed: symbol -> the only size that the target has for it; the examples have that size.
        by_hand: as given.
    """

    def __init__(
        self, graph: Graph, source: Runner, target: Runner, exact: Runner | None, *, by_hand: bool = False
    ) -> None:
        self.graph, self.source, self.target, self.exact = graph, source, target, exact
        if isinstance(source, RoundsLike):
            source.round_like(target.kernel_errors if isinstance(target, Coarse) else {})
        self._remarked: set[str] = set()
        self.by_hand = by_hand
        self._types: Types = "floats" if by_hand else "exact"
        self.notes: list[str] = []
        self.fixed: dict[str, int] = {}
        self._cost = self._cost_of([node for _, node in walk_operators(graph)])
        self.ulps = self._cost.ulps
        if self.ulps > _WIDE and any(side.runtime.startswith("MindSpore ") for side in (source, target)):
            self.notes.append(
                "MindSpore's tanh on the CPU saturates at |x| = 5 and has errors of up to 1e-4; the "
                "tolerance allows for them"
            )
        if isinstance(source, OnnxRunner):
            self.notes.append(
                "the source ran as the graph it was lowered to, not in its own framework: this compares "
                "only the steps after the lowering" + self._hint()
            )

        if graph.origin.is_reading:
            self.notes.append(
                "the source ran in regraft's interpreter of TorchScript; --trust lets TorchScript run the "
                "file itself, beside it, on the example inputs"
            )

    def _hint(self) -> str:
        """Say how the source would run in its own framework, where that is a matter of trust."""
        model = self.graph.origin.model
        is_file = isinstance(model, (str, Path)) and Path(model).suffix == ".mindir"
        return "; --trust lets MindSpore run the file itself" if is_file else ""

    def rounding(
        self,
        inputs: Mapping[str, np.ndarray],
        source: Run,
        *,
        calls: bool = False,
        recorded: bool = False,
        measured: bool = True,
        kept: Sequence[float] = (),
    ) -> Rounding:
        """Return the effect of rounding in a run of the source.

        Args:
            inputs: inputs of the run.
            source: results of the run.
            calls: whether it recorded modules.
            recorded: whether what it gave is compared with arrays from elsewhere, whose types mean nothing.
            measured: whether the source may run again to measure it; else the float64 result alone tells.
            kept: numbers of the inputs that are exact.
        """
        return Rounding(
            self.source,
            source,
            inputs,
            types="kind" if recorded else self._types,
            exact=self._exactly(inputs, calls),
            exact_runner=self.exact,
            cost=self._cost,
            alone=self._cost_alone,
            coarsest=self._coarsest,
            coarsest_in=self._coarsest_in,
            note=self._note,
            measured=measured,
            kept=kept,
        )

    def units_alone(self) -> UnitsAlone:
        """Return the effect of rounding where none is measured: what the runtimes' arithmetic may cost."""
        return UnitsAlone(self._cost, self._types)

    def rounding_of_step(
        self, inputs: Mapping[str, np.ndarray], source: Run, exact: Run | None, again: Again
    ) -> Rounding:
        """Return the effect of rounding in a training step; `again` makes the step on other inputs."""
        return Rounding(
            self.source,
            source,
            inputs,
            types=self._types,
            again=again,
            exact=None if exact is None else lambda: exact,
            cost=self._cost,
            coarsest=self._coarsest,
            note=self._note,
        )

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    @cached_property
    def _coarsest(self) -> str:
        """The coarsest floating-point type that the source computes in."""
        return _coarsest_of([node for _, node in walk_operators(self.graph)])

    def _coarsest_in(self, call: str) -> str:
        """Return the coarsest floating-point type that a module call computes in."""
        return _coarsest_of([node for _, node in self._operators_of.get(call, [])])

    def outputs(self, case: str, source: Run, target: Run, rounding: OutputRounding) -> list[OutputRow]:
        """Return one row per output of the source, paired by position."""
        rows: list[OutputRow] = []
        nan = float("nan")
        for index, (name, array) in enumerate(source.outputs):
            if index >= len(target.outputs):
                rows.append(
                    OutputRow(name, case, tuple(array.shape), nan, nan, 0.0, False, "not in the target")
                )
                continue
            c = compare(array, target.outputs[index][1], rounding.output(index))
            if c.passed and c.reason and not c.unproven and name not in self._remarked:
                self._remarked.add(name)  # one case stands for all, the rows have the others
                self._note(f"`{name}` with {case}: {c.reason}")
            error = (c.max_abs, c.max_rel, c.tolerance)
            is_one = array.size == 1 and array.dtype.kind == "f"  # whole numbers count what is the same
            only = f"{array.flat[0]} everywhere" if is_one else ""
            rows.append(OutputRow(name, case, c.shape, *error, c.passed, c.reason, c.noise, c.unproven, only))
        for name, array in target.outputs[len(source.outputs) :]:
            rows.append(OutputRow(name, case, tuple(array.shape), nan, nan, 0.0, False, "not in the source"))
        return rows

    def _exactly(self, inputs: Mapping[str, np.ndarray], calls: bool) -> Callable[[], Run | None] | None:
        """Return a function that makes the float64 run, on demand; None if there is none."""
        return None if self.exact is None else cache(lambda: self._exact_run(inputs, calls))

    def _exact_run(self, inputs: Mapping[str, np.ndarray], calls: bool) -> Run | None:
        if self.exact is None:
            return None
        try:
            return self.exact.run(inputs, calls=calls)
        except ModelError as error:
            self.notes.append(f"no float64 result to measure by: {error.message}")
            self.exact = None
            return None

    def _cost_of(self, operators: Sequence[Operator]) -> Cost:
        """Return the rounding that the runtimes may add in operators; a float64 run shows the source's."""
        if self.by_hand and self.target.runtime == self.source.runtime:
            return Cost(_SAME)
        target, source = self.target.ulp_tolerance(operators), self.source.ulp_tolerance(operators)
        if self.exact is not None:
            return Cost(target)
        inner = [_scale_of(n) for n in operators if n.qualified_name in ELUS]
        return Cost(max(target, source), max([*inner, *self._coarse_in(operators)], default=0.0))

    def _coarse_in(self, operators: Sequence[Operator]) -> list[float]:
        """Return the absolute errors of kernels on either side, for a source that cannot add them itself."""
        if isinstance(self.source, RoundsLike) or self.target.runtime == self.source.runtime:
            return []
        sides = [side.kernel_errors for side in (self.source, self.target) if isinstance(side, Coarse)]
        found = [error_of(o.op_type, errors) for o in operators if not o.domain for errors in sides]
        return [MULTIPLE / INNER * error.absolute for error in found if error is not None]

    def _cost_alone(self, call: str) -> Cost:
        """Return the rounding that the runtimes may add in one module call.

        A runtime that adds products of one sign up one by one is off by the root of their number, in units;
        by half their number where they are equal, as all of them are rounded one way. One unit of difference
        in each weight does not show it, as those even out.
        """
        cost = self._cost_of([node for _, node in self._operators_of.get(call, [])])
        sums = (_units_of_sum(self.graph, *each) for each in self._operators_of.get(call, []))
        return replace(cost, ulps=max(cost.ulps, *sums)) if call in self._operators_of else cost

    @cached_property
    def _operators_of(self) -> dict[str, list[tuple[Graph, Operator]]]:
        """Name of a module call -> the operators in it and in the calls that it makes, with their graphs."""
        names, found = self.graph.modules.call_names(), dict[str, list[tuple[Graph, Operator]]]()
        for part, node in walk_operators(self.graph):
            for call in self.graph.modules.ancestors(node.call):
                found.setdefault(names[call], []).append((part, node))
        return found

    def yardstick(self) -> str:
        """Describe what is allowed."""
        measured = (
            "its own float32 is from its float64 result"
            if self.exact is not None
            else "it moves when its inputs and weights do by one unit in the last place"
        )
        return (
            f"{self.ulps} units in the last place of the largest value; beyond them, {MULTIPLE} times as far "
            f"as the source's own rounding: as {measured}; integers and booleans equal where rounding does "
            "not decide them"
        )

    def title(self, runner: Runner) -> str:
        """Describe a side for the report."""
        reference = self.graph.origin.reference if runner is self.source else ""
        return f"{reference} in {runner.runtime}" if reference else runner.runtime


def not_run(case: str, source: Run, error: ModelError) -> list[OutputRow]:
    """Return failing rows of a case in which the target does not run."""
    nan, reason = float("nan"), f"the target does not run: {error.message}"
    return [OutputRow(name, case, tuple(a.shape), nan, nan, 0.0, False, reason) for name, a in source.outputs]


def _coarsest_of(operators: Sequence[Operator]) -> str:
    found = {t.dtype for node in operators for t in node.types if t is not None}
    return max(found & set(EPSILON), key=EPSILON.__getitem__, default="float64")


def _units_of_sum(graph: Graph, part: Graph, node: Operator) -> int:
    """Return by how many units a sum of products may be off, relative to the sum of their sizes."""
    terms = terms_of(part, node, example_sizes(graph))
    operands = [part.node(v.node) for v in part.operands(node.key) if v is not None] if terms else []
    equal = any(isinstance(n, (Constant, Parameter)) and _is_one_number(n.data) for n in operands)
    return terms // 2 if equal else isqrt(terms)


def _is_one_number(data: TensorData) -> bool:
    array = data.numpy().reshape(-1) if len(data.shape) > 1 and data.load is not None else np.zeros(0)
    return bool(array.size) and bool((array == array[0]).all())


def _scale_of(node: Operator) -> float:
    """Return how far below zero an operator of `ELUS` goes."""
    outer = node.float("gamma") if node.op_type == "Selu" else 1.0
    return abs(node.float("alpha") * outer)
