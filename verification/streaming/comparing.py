"""Compares a source with what was written from it, both of which run in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...checkpoints.mapping import read_map
from ...formats.written_behind import Await, all_there
from ...ir import Array, Graph
from ..fixed_sizes import at_sizes, find_fixed_sizes, refuse_fixed_sizes
from ..inputs import bindings, make_inputs, resize_inputs
from ..proof import find_unproven
from ..report import ModuleRow, OutputRow, Report
from ..runners.onnx_runner import OnnxRunner
from ..runners.registry import renames_of_output
from ..runners.select_runner import can_train
from ..structure.comparing import Describing, compare_structure, remark_on_dropouts
from ..structure.values import ValueComparison
from .cases import PiecesCases, PiecesSides
from .deciding import budget, computes_wide
from .exact_constants import ExactConstants
from .rounded_constants import literals_of
from .targets import PiecesTarget, target_in_pieces
from .together import RunTogether
from .torch_pieces import TorchPieces


def verify_in_pieces(
    source: Graph,
    target: Path,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    wait_for: Await = all_there,
    written: bool = False,
) -> Report:
    """Compare the forward pass, with the weights of one piece of either side in memory at a time.

    The draws and sizes are those of a whole comparison. On the first, the target computes from its own
    values, so that together its pieces are its whole forward pass. Each module of the source computes from
    the target's values of the modules before it, and must give what the target's gives, up to the rounding
    of one module. Where something is beyond that, the source runs from its own values too, in float32 and
    float64, as a whole model is compared. Only where something differs then do modules run alone, on the
    source's values, to find the first that is wrong. On further draws and sizes both sides run from their
    own values. Where there are numbers of bfloat16 and the target's runtime does not compute with them, both
    sides compute in float32 from the same weights, and the element types that the file states are compared
    by themselves.

    Args:
        source: a loaded torch module, as it was before any pass.
        target: an ``.onnx`` file, or an emitted folder.
        inputs: arrays by input name, which are compared and no others; None draws them.
        seed: of the draws.
        threads: for ONNX Runtime.
        wait_for: called before bytes of the target's files are read, which may still be written.
        written: as in `verify`.

    Raises:
        ModelError: when one side cannot be run (E702).
    """
    wide = computes_wide(source, target)
    runners = [TorchPieces(source, "float32" if wide else "")]
    renames = renames_of_output(target)
    mapping = read_map(renames) if renames.is_file() else None
    weights = [] if mapping is None else [row.target for row in mapping.rows if row.source or row.norms]
    constants = ExactConstants()
    if wide:
        constants = runners[0].exact_constants(_some_inputs(source, inputs, seed))
    runner = target_in_pieces(
        target,
        threads=threads,
        wide=wide,
        budget=budget(),
        weights=weights,
        literals=literals_of(source) if wide else (),
        constants=constants,
        wait_for=wait_for,
    )
    exact = TorchPieces(source, "float64")
    held = runner.held()
    values = None if mapping is None else ValueComparison(source, held, mapping)
    try:
        fixed = find_fixed_sizes(source, target, runner)
        source = at_sizes(source, fixed)
        if inputs is not None and fixed:
            inputs = resize_inputs(source, inputs, {**bindings(source, inputs), **fixed})
        sides = PiecesSides(source, runners[0], runner, exact)
        sides.fixed = fixed
        sides.notes += dict.fromkeys(source.origin.unreliable)
        cases = PiecesCases(sides, RunTogether(runners[0], runner, exact, values), seed)
        with runners[0].beside_others():
            outputs, rows, culprit = cases.rows(inputs, modules=True)
        outputs += refuse_fixed_sizes(source, fixed) if written else []
        outputs, rows = _with_types(source, runner, outputs, rows)
        if culprit is None:
            culprit = next((r.call for r in rows if r.passed is False), None)
        structure, notes = None, list[str]()
        if mapping is not None:
            settings = runner.settings if isinstance(runner, Describing) else None
            trains = not can_train(source)  # then no training step shows it
            structure, notes = compare_structure(
                source, held, settings, mapping, train=trains, contents=False, values=values
            )
        if isinstance(runner, OnnxRunner) and (remark := remark_on_dropouts(source, runner.ratios())):
            notes.append(remark)
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
            coverage=cases.covered.of(rows),
            structure=structure,
            scope="in float32" if wide else "",
        )
    finally:
        for each in (*runners, runner, exact):
            each.close()


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


def _some_inputs(graph: Graph, given: Mapping[str, Array] | None, seed: int) -> Mapping[str, Array]:
    """Return the inputs given, else the user's own, else drawn ones."""
    if given is None and graph.origin.given:
        given = dict(graph.origin.inputs)
    return make_inputs(graph, bindings(graph, given), seed) if given is None else given
