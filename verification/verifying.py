"""The comparison of a source with a target, from the inputs to the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import cast

import numpy as np

from ..ir import Graph, ModelError, walk_operators
from .branches import branches
from .compare import DEFAULTS, MULTIPLE, compare, exactly
from .inputs import KINDS, bindings, make_inputs, other_sizes, resized
from .modules import ModuleComparison
from .report import ModuleRow, OutputRow, Report, TrainingRow
from .runners.choice import Target, exact_runner, own_runner, paired_runner, refuse_training, target_runner
from .runners.onnx_runner import OnnxRunner
from .runners.runs import Run, Runner
from .training.comparing import TrainingComparison, divergence
from .training.step import Step, Trainer
from .two_nets.emitted import emitted_laws
from .two_nets.nets import NetComparison
from .two_nets.pair_map import PairMap
from .two_nets.pairing import Pairing

_WIDE = 100
"""Units in the last place from which on the report explains its tolerance."""

_DRAWS = 3
"""How many seeded inputs a training step is tried on before gradients that differ are a fault."""


def verify(
    source: Graph,
    target: Target,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    modules: bool = True,
    own: bool = False,
    expected: Sequence[np.ndarray] | None = None,
    train: bool = False,
    mapping: PairMap | None = None,
    copy: bool | None = None,
    laws: bool = False,
) -> Report:
    """Run source and target on the same inputs and compare outputs, module boundaries and modules alone.

    Args:
        source: a loaded model, as it was before any pass. Its own framework runs it where the live model is
            at hand (torch, MindSpore), ONNX Runtime runs the graph where not (MXNet).
        target: a graph or ``.onnx`` file (in ONNX Runtime), or an emitted folder (in MindSpore).
        inputs: arrays by input name; None makes seeded ones. Where the graph has symbolic dimensions there
            are further runs at other sizes.
        seed: of the inputs.
        threads: for ONNX Runtime.
        modules: whether to compare modules too.
        own: run a target graph's own live model in its framework instead of the graph in ONNX Runtime, paired
            with the source layer by layer. Not for a rewritten graph, whose own model is still the source's.
        expected: outputs recorded from the source in its own framework for `inputs`, in order; both sides
            are compared with them too.
        train: whether to compare one training step too: a forward in training mode, the gradients of a loss
            that sums every output times fixed numbers, the running statistics, the values after plain SGD.
        mapping: with `own`, which module or parameter of the source is which of the target.
        copy: with `own`, whether the target is given the source's values; None gives them to nets that were
            drawn apart, where no weight is equal.
        laws: whether to compare the initial distributions of an emitted folder with the source's too.

    Raises:
        ModelError: when one side cannot be run or trained on the first inputs at all (E702); with `own`, when
            nothing tells which layers are pairs (E703).
        UsageError: when inputs cannot be made, or the target is nothing that runs.
    """
    if train:
        refuse_training(source, target, own=own)
    paired = None
    if own and isinstance(target, Graph):
        paired = NetComparison(source, target, mapping, copy=copy, train=train)
    runners: list[Runner] = []
    try:
        runners.append(own_runner(source, threads))
        if paired is not None and isinstance(target, Graph):
            runners.append(paired_runner(target, paired.values(), paired.modules, threads))
        else:
            runners.append(target_runner(target, threads=threads))
        exact = exact_runner(source)
        if exact is not None:
            runners.append(exact)
        verification = _Verification(source, runners[0], runners[1], exact, paired)
        if expected is not None and inputs is not None:
            verification.recorded(inputs, expected)
        if train:
            verification.train(inputs, seed, paired.pairing if paired is not None else Path(str(target)))
        report = verification.report(inputs, seed, modules)
        if laws and isinstance(target, (str, Path)) and (Path(target) / "model.py").is_file():
            from .runners.emitted_net import constructed

            net = constructed(Path(target))
            report = replace(report, laws=emitted_laws(source, Path(target), net, train=train))
        return report
    finally:
        for runner in runners:
            runner.close()


@dataclass(frozen=True, slots=True)
class _TrainingAttempt:
    """One training step compared."""

    outputs: list[OutputRow]
    rows: list[TrainingRow]
    notes: list[str]

    @property
    def passed(self) -> bool:
        """Whether outputs, gradients, statistics and values after the step all agree."""
        return all(row.passed is not False for row in [*self.outputs, *self.rows])


class _Verification:
    def __init__(
        self,
        graph: Graph,
        source: Runner,
        target: Runner,
        exact: Runner | None,
        paired: NetComparison | None = None,
    ) -> None:
        self.graph, self.source, self.target, self.exact = graph, source, target, exact
        self.paired = paired
        self.notes: list[str] = [] if paired is None else paired.notes()
        self.rows: list[OutputRow] = []
        self.training: list[TrainingRow] = []
        self.ulps = self._slack({node.op_type for _, node in walk_operators(graph)})
        if self.ulps > _WIDE:
            self.notes.append(
                "MindSpore's tanh on the CPU ends at |x| = 5 and is off by up to 1e-4: "
                "the tolerance allows for it"
            )
        if isinstance(source, OnnxRunner):
            self.notes.append(
                "the source ran as the graph it was lowered to, not in its own framework: this compares what "
                "came after the lowering"
            )

    def report(self, inputs: Mapping[str, np.ndarray] | None, seed: int, modules: bool) -> Report:
        sizes = bindings(self.graph, inputs)
        first = make_inputs(self.graph, sizes, seed) if inputs is None else dict(inputs)
        outputs, rows, culprit = self._first(_case(sizes), first, modules)
        outputs += self._branches(first, sizes, seed, drawn=inputs is None)
        if self.graph.origin.assumed and inputs is None:
            outputs += self._contradicting(sizes, seed)
        for further in other_sizes(self.graph, sizes):
            again = (
                make_inputs(self.graph, further, seed + 1)
                if inputs is None
                else resized(self.graph, inputs, further)
            )
            outputs += self._another(_case(further), again)
        if self.paired is not None:
            rows, culprit = self.paired.judged(rows, culprit, all(row.passed for row in outputs))
        return Report(
            self._title(self.source),
            self._title(self.target),
            self._yardstick(),
            [*self.rows, *outputs],
            rows,
            culprit,
            self.notes,
            self.training,
            divergence(self.graph, self.training),
            None if self.paired is None else self.paired.nets,
        )

    def _branches(
        self, first: Mapping[str, np.ndarray], sizes: dict[str, int], seed: int, *, drawn: bool
    ) -> list[OutputRow]:
        """The outputs on further inputs, until every branch of the graph was taken; what was not is noted."""
        found = branches(self.graph)
        if found is None:
            return []
        found.note(first)
        rows = self._draws(found.further(sizes, seed) if drawn else (), sizes)
        remark = found.remark(drawn)
        self.notes += [remark] if remark else []
        return rows

    def _contradicting(self, sizes: dict[str, int], seed: int) -> list[OutputRow]:
        """The outputs on inputs of several kinds, for one of which what was assumed may not hold."""
        draws = ((draw, make_inputs(self.graph, sizes, seed + draw, draw)) for draw in range(1, KINDS))
        rows = self._draws(draws, sizes)
        if not all(row.passed for row in rows):
            self.notes += self.graph.origin.assumed
        return rows

    def _draws(
        self, draws: Iterable[tuple[int, Mapping[str, np.ndarray]]], sizes: dict[str, int]
    ) -> list[OutputRow]:
        """The outputs on further inputs of the same sizes, each with its number."""
        return [row for n, given in draws for row in self._another(f"{_case(sizes)}, draw {n}", given)]

    def train(self, inputs: Mapping[str, np.ndarray] | None, seed: int, target: Pairing | Path) -> None:
        """Compare one training step; both sides are left as they were.

        Where a rectifier or a maximum decides within float32's rounding, the two sides may decide
        differently, and gradients differ though the functions are equal. That happens at some inputs only, a
        fault at all: seeded inputs whose outputs agree and whose gradients do not are tried anew.
        """
        seeds = [seed + 101 * i for i in range(_DRAWS)] if inputs is None else [seed]
        attempts: list[_TrainingAttempt] = []
        for drawn in seeds:
            attempts.append(self._step(inputs, drawn, target))
            if attempts[-1].passed or not all(row.passed for row in attempts[-1].outputs):
                break
        chosen = attempts[-1] if attempts[-1].passed else attempts[0]
        self.rows += chosen.outputs
        self.training = chosen.rows
        self.notes += chosen.notes
        if chosen.passed and len(attempts) > 1:
            off = ", ".join(r.parameter for r in attempts[0].rows if not r.passed)
            self.notes.append(
                f"draw {len(attempts)} of the inputs: on the first, {off} differed, which on another it does "
                "not, so that an activation sat at a kink of its function"
            )

    def _step(
        self, inputs: Mapping[str, np.ndarray] | None, seed: int, target: Pairing | Path
    ) -> _TrainingAttempt:
        """One training step on both sides, and in float64 where that can be had."""
        sizes = bindings(self.graph, inputs)
        first = make_inputs(self.graph, sizes, seed) if inputs is None else dict(inputs)
        source, other = (cast(Trainer, r).step(first, seed) for r in (self.source, self.target))
        if isinstance(target, Path):
            _refuse_lost_dropouts(self.graph, source)
        notes = list(source.notes or other.notes)
        exact: Step | None = None
        if self.exact is not None:
            try:
                exact = cast(Trainer, self.exact).step(first, seed)
            except ModelError as error:
                notes.append(f"no float64 gradients to measure by: {error.message}")
        runs = [None if step is None else Run(step.outputs) for step in (source, other, exact)]
        assert runs[0] is not None
        assert runs[1] is not None
        precise = None if runs[2] is None else lambda: runs[2]
        outputs = self._outputs(f"training, {_case(sizes)}", runs[0], runs[1], precise)
        rows = TrainingComparison(self.graph, source, other, exact, self.ulps).rows(target)
        return _TrainingAttempt(outputs, rows, notes)

    def recorded(self, inputs: Mapping[str, np.ndarray], expected: Sequence[np.ndarray]) -> None:
        """Compare source and target with what the source's framework was recorded to compute."""
        names = [name for name, _ in self.graph.outputs]
        if len(names) != len(expected):
            names = [f"output{i}" for i in range(len(expected))]
        truth = Run(list(zip(names, expected, strict=True)))
        for side, runner in (("source", self.source), ("target", self.target)):
            self.rows += self._outputs(f"recorded, {side}", truth, runner.run(inputs, calls=False), None)

    def _title(self, runner: Runner) -> str:
        reference = self.graph.origin.reference if runner is self.source else ""
        return f"{reference} in {runner.runtime}" if reference else runner.runtime

    def _yardstick(self) -> str:
        if self.exact is not None:
            return (
                f"at most {MULTIPLE} times as far from the source's float64 result as its own float32 is, "
                f"plus {self.ulps} units in the last place of the largest value"
            )
        shown = ", ".join(f"{dtype} {value:g}" for dtype, value in DEFAULTS.items())
        least = f", at least {self.ulps} units in the last place" if self.ulps > _WIDE else ""
        return f"relative to the largest absolute value: {shown}{least}; integers and booleans equal"

    def _exactly(self, inputs: Mapping[str, np.ndarray], calls: bool) -> Callable[[], Run | None] | None:
        """Makes the float64 run, which is made where something else does not decide before."""
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

    def _first(
        self, case: str, inputs: Mapping[str, np.ndarray], modules: bool
    ) -> tuple[list[OutputRow], list[ModuleRow], str | None]:
        source = self.source.run(inputs, calls=modules)
        exact = self._exactly(inputs, modules)
        target = self.target.run(inputs, calls=modules)
        outputs = self._outputs(case, source, target, exact)
        if not modules:
            return outputs, [], None
        comparison = ModuleComparison(
            self.graph.modules, source, target, self.target, exact, self.exact, self.ulps, self._slack_alone
        )
        rows = comparison.rows()
        culprit = comparison.culprit(rows)
        if culprit is None and any(row.passed for row in rows) and not all(row.passed for row in outputs):
            culprit = "#1"  # every module is right: it is the root's own code after the last of them
        return outputs, rows, culprit

    def _slack(self, operators: Set[str]) -> int:
        """What the runtimes' arithmetic in operators may cost; a float64 result shows the source's own."""
        target, source = self.target.slack(operators), self.source.slack(operators)
        return target if self.exact is not None else max(target, source)

    def _slack_alone(self, call: str) -> int:
        """The same of the operators in one module call."""
        return self._slack(self._operators_of.get(call, frozenset()))

    @cached_property
    def _operators_of(self) -> dict[str, set[str]]:
        """Name of a module call -> the operators in it and in the calls that it makes."""
        names, found = self.graph.modules.call_names(), dict[str, set[str]]()
        for _, node in walk_operators(self.graph):
            for call in self.graph.modules.ancestors(node.call):
                found.setdefault(names[call], set()).add(node.op_type)
        return found

    def _another(self, case: str, inputs: Mapping[str, np.ndarray]) -> list[OutputRow]:
        """The outputs at other sizes, where the source itself runs with them."""
        try:
            source = self.source.run(inputs, calls=False)
        except ModelError as error:
            self.notes.append(
                f"the source does not run with {case}, so that the target was not tried: {error.message}"
            )
            return []
        exact = self._exactly(inputs, False)
        try:
            target = self.target.run(inputs, calls=False)
        except ModelError as error:
            nan = float("nan")
            return [
                OutputRow(
                    name,
                    case,
                    tuple(a.shape),
                    nan,
                    nan,
                    0.0,
                    False,
                    f"the target does not run: {error.message}",
                )
                for name, a in source.outputs
            ]
        return self._outputs(case, source, target, exact)

    def _outputs(
        self, case: str, source: Run, target: Run, exact: Callable[[], Run | None] | None
    ) -> list[OutputRow]:
        """One row per output of the source, paired by position."""
        rows: list[OutputRow] = []
        nan = float("nan")
        for index, (name, array) in enumerate(source.outputs):
            if index >= len(target.outputs):
                rows.append(
                    OutputRow(name, case, tuple(array.shape), nan, nan, 0.0, False, "not in the target")
                )
                continue
            c = compare(
                array,
                target.outputs[index][1],
                exact=None if exact is None else exactly(_arrays(exact), index, len(source.outputs)),
                ulps=self.ulps,
            )
            rows.append(OutputRow(name, case, c.shape, c.max_abs, c.max_rel, c.tolerance, c.passed, c.reason))
        for name, array in target.outputs[len(source.outputs) :]:
            rows.append(OutputRow(name, case, tuple(array.shape), nan, nan, 0.0, False, "not in the source"))
        return rows


def _refuse_lost_dropouts(graph: Graph, source: Step) -> None:
    """Refuse a source that drops in training what its graph, and so the target, does not have."""
    dropping = [n for n in graph.operators() if n.op_type in ("Dropout", "FeatureDropout")]
    modules = [graph.modules.call(n.call).module for n in dropping if n.call is not None]
    kept = sum(not graph.modules.module(key).class_name.startswith("Dropout") for key in modules)
    if source.dropped > kept:
        raise ModelError(
            "E702",
            f"expected {source.dropped} calls of dropout functions in the graph, as in training, got {kept}: "
            "the target does not drop there",
            hint="give them training=self.training, which nothing else may read; or use nn.Dropout",
        )


def _arrays(run: Callable[[], Run | None]) -> Callable[[], list[np.ndarray] | None]:
    """The outputs of a run that is made when they are asked for."""

    def arrays() -> list[np.ndarray] | None:
        found = run()
        return None if found is None else [array for _, array in found.outputs]

    return arrays


def _case(sizes: dict[str, int]) -> str:
    """``N=2``; "static" for a graph without symbols."""
    return ", ".join(f"{name}={size}" for name, size in sorted(sizes.items())) or "static"
