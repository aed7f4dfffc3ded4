"""Compares a source with what was written from it, both of which run in pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...checkpoints.mapping import read_map
from ...formats.written_behind import Await, all_there
from ...ir import Array, Graph
from ..cases import case_of
from ..conditioning import Rounding
from ..coverage import Covered
from ..inputs import batch_symbols, bindings, make_inputs
from ..modules import ModuleComparison
from ..proof import find_unproven
from ..report import ModuleRow, OutputRow, Report
from ..runners.registry import renames_of_output, runtime_of_output
from ..runners.runs import Run
from ..sides import Sides
from ..structure.comparing import compare_structure
from ..structure.values import ValueComparison
from .deciding import budget
from .exact_constants import ExactConstants
from .rounded_constants import WithRoundedConstants, literals_of
from .targets import PiecesTarget, target_in_pieces
from .together import RunTogether
from .torch_pieces import TorchPieces

_LEFT_OUT = "other draws and sizes, training, and the effect of parameter changes, because the models ran "
"in pieces"

_FOLLOWED = (
    "each module of the source, run on the target's values of the modules before it, agreed with the "
    "target's module; the sum of all rounding over the model was not measured"
)


def verify_in_pieces(
    source: Graph,
    target: Path,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    wait_for: Await = all_there,
) -> Report:
    """Compare the forward pass on one draw, with the weights of one piece of either side in memory at a time.

    The target computes from its own values, so that together its pieces are its whole forward pass. Each
    module of the source computes from the target's values of the modules before it, and must give what the
    target's gives, up to the rounding of one module. Where something is beyond that, the source runs from its
    own values too, in float32 and float64, as a whole model is compared. Only where something differs then do
    modules run alone, on the source's values, to find the first that is wrong. Where there are numbers of
    bfloat16 and the target's runtime does not compute with them, both sides compute in float32 from the same
    weights, and the element types that the file states are compared by themselves.

    Args:
        source: a loaded torch module, as it was before any pass.
        target: an ``.onnx`` file, or an emitted folder.
        inputs: arrays by input name; None for the user's own, else for drawn ones.
        seed: of the draw.
        threads: for ONNX Runtime.
        wait_for: called before bytes of the target's files are read, which may still be written.

    Raises:
        ModelError: when one side cannot be run (E702).
    """
    runtime = runtime_of_output(target)
    narrow = runtime is None or not runtime.has_bfloat16
    wide = narrow and any(p.data.dtype == "bfloat16" for p in source.parameters())
    runners = [TorchPieces(source, "float32" if wide else "")]
    draw = _Draw.of(source, inputs, seed)
    renames = renames_of_output(target)
    mapping = read_map(renames) if renames.is_file() else None
    weights = [] if mapping is None else [row.target for row in mapping.rows if row.source or row.norms]
    runner = target_in_pieces(
        target,
        threads=threads,
        wide=wide,
        budget=budget(),
        weights=weights,
        literals=literals_of(source) if wide else (),
        constants=runners[0].exact_constants(draw.inputs) if wide else ExactConstants(),
        wait_for=wait_for,
    )
    exact = TorchPieces(source, "float64")
    held = runner.held()
    values = None if mapping is None else ValueComparison(source, held, mapping)
    try:
        with runners[0].beside_others():
            sides = Sides(source, runners[0], runner, exact)
            together = RunTogether(runners[0], runner, exact, values)
            outputs, rows, culprit, covered = _compare_run(sides, together, draw)
        outputs, rows = _with_types(source, runner, outputs, rows)
        if culprit is None:
            culprit = next((r.call for r in rows if r.passed is False), None)
        structure, notes = None, list[str]()
        if mapping is not None:
            structure, notes = compare_structure(
                source, held, None, mapping, train=False, contents=False, values=values
            )
        if wide:
            sides.notes.append(
                "computed in float32 on both sides, from the same bfloat16 weights: the target's runtime "
                "has no bfloat16 on the CPU, so the effect of rounding to bfloat16 is not compared"
            )
        return Report(
            sides.title(sides.source),
            sides.title(sides.target),
            sides.yardstick(),
            outputs,
            rows,
            culprit,
            [*sides.notes, *notes],
            unproven=find_unproven(source, outputs, rows),
            coverage=covered.of(rows),
            structure=structure,
            scope=f"in the forward pass in pieces{', in float32' if wide else ''}",
        )
    finally:
        for each in (*runners, runner, exact):
            each.close()


@dataclass(frozen=True, slots=True)
class _Draw:
    """The inputs of a run, the sizes of its symbols, and what they are called."""

    inputs: Mapping[str, Array]
    sizes: Mapping[str, int]
    name: str

    @staticmethod
    def of(graph: Graph, given: Mapping[str, Array] | None, seed: int) -> _Draw:
        """Return the inputs given, else the user's own, else drawn ones."""
        name = "the inputs given"
        if given is None and graph.origin.given:
            given, name = dict(graph.origin.inputs), "the example"
        sizes = bindings(graph, given)
        if given is None:
            given, name = make_inputs(graph, sizes, seed), "normal"
        return _Draw(given, sizes, name)


def _compare_run(
    sides: Sides, together: RunTogether, draw: _Draw
) -> tuple[list[OutputRow], list[ModuleRow], str | None, Covered]:
    """Run both sides once; returns rows, the call in which the target goes wrong, and what was covered."""
    graph, given = sides.graph, draw.inputs
    covered = Covered(unreached=[_LEFT_OUT])
    covered.add(draw.name, draw.sizes, batch_symbols(graph))
    runs = together.follow(given)
    outputs, modules = _compare_outputs(sides, together.target, draw, runs, sides.units_alone())
    rows = modules(alone=False).rows(agree=_agree(outputs))
    if _is_right(outputs, rows):
        sides.notes.append(_FOLLOWED)
        return outputs, rows, None, covered
    runs = together.run(given)
    rounding = sides.rounding(given, runs[0], calls=True)
    outputs, modules = _compare_outputs(sides, together.target, draw, runs, rounding)
    agree = _agree(outputs)
    rows = modules(alone=False).rows(agree=agree)
    if _is_right(outputs, rows):
        return outputs, rows, None, covered
    found = modules()
    rows = found.rows(agree=agree)
    culprit = found.culprit(rows)
    if culprit is None and not agree and any(row.passed for row in rows):
        culprit = "#1"  # every module is right: it is the root's own code after the last of them
    return outputs, rows, culprit, covered


def _compare_outputs(
    sides: Sides, target: PiecesTarget, draw: _Draw, runs: tuple[Run, Run], rounding: Rounding
) -> tuple[list[OutputRow], Callable[..., ModuleComparison]]:
    """Return the rows of outputs, and what makes the comparison of the modules of the same runs."""
    if target.moved:
        rounding = WithRoundedConstants(rounding, target, [name for name, _ in runs[1].outputs])
    runners = sides.source, sides.target
    modules = partial(ModuleComparison, sides.graph.modules, draw.inputs, runs, runners, rounding)
    return sides.outputs(case_of(draw.sizes), *runs, rounding), modules


def _agree(outputs: Sequence[OutputRow]) -> bool:
    return all(row.passed for row in outputs)


def _is_right(outputs: Sequence[OutputRow], rows: Sequence[ModuleRow]) -> bool:
    """Whether everything that could be compared is within its tolerance."""
    return _agree(outputs) and not any(_is_off(row) for row in rows)


def _is_off(row: ModuleRow) -> bool:
    """Whether the values at a call's boundary are beyond tolerance, whatever outputs show."""
    return row.max_abs is not None and row.passed is not True


def _with_types(
    source: Graph, runner: PiecesTarget, outputs: list[OutputRow], rows: list[ModuleRow]
) -> tuple[list[OutputRow], list[ModuleRow]]:
    """Return rows in which outputs and calls fail whose element types in the file are not the source's."""
    stated = runner.stated_types()
    if stated is None:
        return outputs, rows
    types = {name: source.type_of(value) for name, value in source.outputs}
    found: list[OutputRow] = []
    for row, theirs in zip(outputs, stated, strict=False):
        own = types.get(row.name)
        if row.passed and own is not None and theirs and own.dtype != theirs:
            reason = f"expected element type {own.dtype}, got {theirs}"
            row = replace(row, passed=False, reason=reason)
        found.append(row)
    return [*found, *outputs[len(found) :]], rows
