"""The comparison of a source with a target, from the inputs to the report."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..checkpoints.mapping import read_map
from ..formats.written_behind import WritingBehind, all_there
from ..frontends.function_arguments import KIN
from ..ir import Array, Graph, ModelError
from ..ir.analysis.absence import require_values
from ..ir.collector import freeze_live_objects
from ..ir.validation import verifies_each
from .cases import Cases
from .compare import RANDOM
from .drawn_values import NOTE as DRAWN
from .drawn_values import draw_values
from .fixed_sizes import at_sizes, find_fixed_sizes, refuse_fixed_sizes
from .identity import NOTE as ONE_MODEL
from .identity import are_one, excuse_random
from .inputs import bindings, make_inputs, resize_inputs
from .proof import find_unproven
from .report import ModuleRow, OutputRow, Report, TrainingRow
from .runners.onnx_runner import OnnxRunner
from .runners.registry import is_source_folder, renames_of_output
from .runners.runs import Correcting, Run, Runner
from .runners.select_runner import (
    Target,
    can_train,
    exact_runner,
    is_fusing,
    own_runner,
    paired_runner,
    refuse_training,
    target_runner,
)
from .runners.source_calls import in_source_calls
from .sides import Sides
from .streaming.deciding import WITHOUT_LAWS, chooses_pieces, require_pieces
from .structure.comparing import Describing, compare_structure, remark_on_dropouts
from .structure.report import Structure
from .structure.settings import settings_of
from .structure.sharing import held_by_graph
from .structure.values import compare_parameters, expected_in, values_in
from .zero_parameters import compare_pair_redrawn, compare_redrawn

if TYPE_CHECKING:
    from .recipes.report import RecipeReport
    from .recipes.scripts import Recipes
    from .training.step import GradientSizes
    from .two_nets.nets import NetComparison
    from .two_nets.pair_map import PairMap
    from .two_nets.report import Nets

_ALONE = 64
"""Tensors that are not the source's, up to which the source is given each of them alone."""


@freeze_live_objects()
def verify(
    source: Graph,
    target: Target,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    modules: bool = True,
    own: bool = False,
    expected: Sequence[Array] | None = None,
    train: bool = False,
    mapping: PairMap | None = None,
    copy: bool | None = None,
    laws: bool = False,
    renames: Path | None = None,
    oracle: str | Path | None = None,
    write_map: Path | None = None,
    recipes: Recipes | None = None,
    pieces: bool | None = None,
    behind: WritingBehind | None = None,
    written: bool = False,
    exactly: bool = False,
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
        renames: the ``renames.json`` of a target that is the graph of what was written from the source; that
            of a file or folder lies beside it.
        oracle: a Python that has MXNet, in which a symbol itself runs as the source; then its nodes are
            compared with the graph that they were lowered to as well.
        write_map: with `own`, where to write which parameter is which, as a ``renames.json``.
        recipes: with `train`, the training script of each side, to be compared and followed; **runs them**.
        pieces: whether both sides run in pieces, see `verify_in_pieces`; None where the sides can and that
            costs less, or the weights are more than half of the memory.
        behind: what is still to be written of the target's files.
        written: whether the target was written from this very source, so that a size which is open there
            must be in the target.
        exactly: with `own`, whether both are compared as they were read too, in the time that this takes.

    Raises:
        ModelError: when one side cannot be run or trained on the first inputs at all (E702); with `own`, when
            nothing tells which layers are pairs (E703).
        UsageError: when inputs cannot be made, or the target is nothing that runs; for `pieces` with sides
            that cannot, or with more than the forward pass.
    """
    others = (train, oracle, expected, recipes)
    if pieces or (pieces is None and chooses_pieces(source, target, others)):
        require_pieces(source, target, others)
        from .streaming.comparing import verify_in_pieces

        wait_for = all_there if behind is None else behind.wait_for
        folder = Path(str(target))
        found = verify_in_pieces(
            source, folder, inputs, seed=seed, threads=threads, wait_for=wait_for, written=written
        )
        if laws and is_source_folder(folder):
            found.notes.append(WITHOUT_LAWS)
        return found
    if behind is not None:
        behind.finish()
    begin = time.process_time()
    one = are_one(source, target)
    alike = None
    if own and oracle is None and isinstance(target, Graph):
        alike = draw_values(source, target)
        source, target = alike or (source, target)
    for graph in (source, target):
        if isinstance(graph, Graph):
            require_values(graph)
    if train:
        refuse_training(source, target, own=own)
    paired = None
    if isinstance(target, Graph) and renames is not None:
        target = in_source_calls(target, renames)
    if own and isinstance(target, Graph):
        from .two_nets.nets import NetComparison

        inference = not can_train(source) and not can_train(target)
        paired = NetComparison(source, target, mapping, copy=copy, train=train, inference=inference)
    runners: list[Runner] = []
    try:
        runners.append(own_runner(source, threads) if oracle is None else _oracle(source, oracle))
        if paired is not None:
            _settle_pairing(paired, source, runners[0], inputs, seed, write_map)
        if paired is not None and isinstance(target, Graph):
            runners.append(paired_runner(target, paired.values(), paired.modules, threads, paired.order))
        else:
            # both sides of one runtime at one level: what its fusions round is neither side's fault
            runners.append(target_runner(target, threads=threads, optimised=not is_fusing(runners[0])))
        exact = exact_runner(source)
        if exact is not None:
            runners.append(exact)
        fixed = find_fixed_sizes(source, target, runners[1])
        source = at_sizes(source, fixed)
        if inputs is not None and expected is None and fixed:
            inputs = resize_inputs(source, inputs, {**bindings(source, inputs), **fixed})
        sides = Sides(source, runners[0], runners[1], exact, by_hand=paired is not None)
        sides.fixed = fixed
        if paired is not None and isinstance(target, Graph):
            sides.notes[:0] = [*([DRAWN] if alike else []), *paired.notes()]
        graphs = [side for side in (source, target) if isinstance(side, Graph)]
        sides.notes += _order_of_names(graphs, by_name=paired is not None and bool(paired.order))
        sides.notes += dict.fromkeys(note for graph in graphs for note in graph.origin.unreliable)
        before: list[OutputRow] = []
        if expected is not None and inputs is not None:
            before += _recorded(sides, inputs, expected)
        trained = _train(sides, inputs, seed, target, paired, recipes) if train else _Training()
        before += trained.outputs
        cases = Cases(sides, seed, target if isinstance(target, Graph) else None)
        outputs, rows, culprit = cases.rows(inputs, modules)
        outputs += refuse_fixed_sizes(source, fixed) if written else []
        if paired is not None:
            rows, culprit = paired.judged(rows, culprit, all(row.passed for row in outputs))
        agree = all(row.passed for row in outputs)
        if paired is not None and agree and outputs:
            sides.notes += paired.accept_constants()
        if paired is not None and isinstance(target, Graph):
            named = partial(_name_causes, paired, target=target, seed=seed)
            named(sides, inputs=cases.differing() or inputs, agree=agree)
            if agree and outputs:
                outputs += compare_pair_redrawn(
                    sides, target, paired, inputs, seed, partial(named, inputs=inputs, agree=False)
                )
        nets = None if paired is None else _with_magnitudes(paired, sides, inputs, seed, trained.gradients)
        outputs = excuse_random([*before, *outputs]) if one else [*before, *outputs]
        unproven = find_unproven(source, outputs, rows)
        if unproven and paired is None and all(row.passed for row in outputs):
            outputs += compare_redrawn(sides, target, renames, inputs, seed)
            unproven = find_unproven(source, outputs, rows)
        empty = not any(math.prod(row.shape) for row in outputs)
        if one and (unproven or empty or any(row.reason == RANDOM for row in outputs)):
            sides.notes.append(ONE_MODEL)
            unproven = {}
        agreed = _given(source, inputs, seed) if all(row.passed for row in outputs) else None
        nodes = _nodes(sides, inputs, seed, threads)
        structure, notes = _structure(sides, target, renames, agreed, train=train)
        if isinstance(sides.source, Correcting):
            sides.notes += _describe_corrections(sides.source)
        drawn = None
        if laws and isinstance(target, (str, Path)) and is_source_folder(Path(target)):
            from .two_nets.emitted import emitted_laws

            drawn = emitted_laws(source, Path(target), train=train)
        certificate = None
        apart = paired is not None and not (train or one or paired.order)
        if exactly and apart and paired is not None and isinstance(target, Graph):
            from .two_nets.exactly import compare_exactly

            seconds = max(0.5, time.process_time() - begin)
            certificate, stated = compare_exactly(source, target, paired.values(), paired.modules, seconds)
            sides.notes[:0] = [] if paired.nets.settings else stated
        report = Report(
            sides.title(sides.source),
            sides.title(sides.target),
            sides.yardstick(),
            outputs,
            rows,
            culprit,
            [*sides.notes, *notes],
            trained.rows,
            trained.diverges,
            nets,
            drawn,
            unproven=unproven,
            coverage=cases.covered.of(rows),
            structure=structure,
            proved_against="graph"
            if isinstance(sides.source, OnnxRunner) or sides.graph.origin.is_reading
            else "source",
            nodes=nodes,
            recipes=trained.recipes,
            one_model=one,
        )
        if certificate is None:
            return report
        from .certificate.verdict import settle

        return settle(report, certificate)
    finally:
        for runner in runners:
            runner.close()


def _describe_corrections(source: Correcting) -> list[str]:
    """Return notes on the kernels of the source's framework that were corrected."""
    notes: list[str] = []
    if source.saturated:
        names = ", ".join(f"`{name}`" for name in source.saturated)
        notes.append(
            f"sums of {names} saturate in torch's kernels on this processor, where inputs use the whole "
            "byte; the source is compared with exact sums, which a processor with VNNI gives"
        )
    if source.mixed:
        names = ", ".join(f"`{name}`" for name in source.mixed)
        notes.append(
            f"torch's QNNPACK exchanges elements in {names} of tensors whose channels lie last in memory, as "
            "convolutions give them; the source is compared with each element in its place"
        )
    return notes


def _given(graph: Graph, inputs: Mapping[str, Array] | None, seed: int) -> dict[str, Array]:
    """Return the inputs, or the first that are drawn where there are none."""
    return make_inputs(graph, bindings(graph), seed) if inputs is None else dict(inputs)


def _settle_pairing(
    paired: NetComparison,
    source: Graph,
    runner: Runner,
    inputs: Mapping[str, Array] | None,
    seed: int,
    write_map: Path | None,
) -> None:
    """Prove how joined parameters lie in their parts, and write which parameter is which if asked to."""
    if paired.pairing.fused:
        from .two_nets.layout_proofs import prove_layouts

        prove_layouts(paired, source, runner, _given(source, inputs, seed))
    if write_map is not None:
        from .two_nets.written_map import write_pairing

        write_pairing(write_map, paired.pairing, paired.proven)


def _order_of_names(graphs: Sequence[Graph], *, by_name: bool) -> list[str]:
    """Return a note if both sides name their outputs the same in another order."""
    names = [[name for name, _ in graph.outputs] for graph in graphs]
    if len(names) < 2 or names[0] == names[1] or sorted(names[0]) != sorted(names[1]):
        return []
    mine, theirs = (", ".join(f"`{name}`" for name in some) for some in names)
    return [
        f"outputs are paired by name; their order differs in the target: {mine}, {theirs}"
        if by_name
        else f"outputs are paired in order; the order of their names differs: {mine}, {theirs}"
    ]


@dataclass(frozen=True)
class _Training:
    """The training step of both sides.

    Attributes:
        outputs: in training mode.
        rows: gradients, statistics and values after the step.
        gradients: their magnitudes, where each side keeps its own weights.
        diverges: the module at which they begin to differ.
        recipes: the comparison of both training scripts.
    """

    outputs: Sequence[OutputRow] = ()
    rows: list[TrainingRow] = field(default_factory=list["TrainingRow"])
    gradients: tuple[GradientSizes, GradientSizes] | None = None
    diverges: str | None = None
    recipes: RecipeReport | None = None


def _train(
    sides: Sides,
    inputs: Mapping[str, Array] | None,
    seed: int,
    target: Target,
    paired: NetComparison | None,
    recipes: Recipes | None,
) -> _Training:
    """Compare one training step, and the training scripts where there are some; the sides get the notes."""
    from .training.attempts import train as train_step
    from .training.comparing import divergence

    other = Path(str(target)) if paired is None else paired.pairing
    step = train_step(sides, inputs, seed, other)
    sides.notes += step.notes
    scripts = None
    if recipes is not None:
        from .recipes.comparing import RecipeComparison

        equal = paired is None or not paired.nets.differing
        scripts = RecipeComparison(sides, recipes, other, seed).report(agree=step.passed, equal_weights=equal)
        sides.notes += scripts.notes
    return _Training(step.outputs, step.rows, step.gradients, divergence(sides.graph, step.rows), scripts)


def _name_causes(
    paired: NetComparison,
    sides: Sides,
    target: Graph,
    inputs: Mapping[str, Array] | None,
    seed: int,
    *,
    agree: bool,
) -> None:
    """Name the lines of the target that make it differ, among the settings.

    Args:
        paired: the two nets, whose settings get them.
        sides: both sides.
        target: the target's graph.
        inputs: on which the outputs differ; None where the first ones do.
        seed: of the first ones.
        agree: whether the outputs do, so that only parameters may differ.
    """
    from .causes.finding import causes_in_methods
    from .causes.layers import causes_in_layers, replaced
    from .two_nets.attributes import COUNT
    from .two_nets.calls import arguments_of_calls
    from .two_nets.output_keys import find_exchanged

    nets = paired.nets
    unpaired = [*nets.only_source, *nets.only_target]
    unpaired += [name for p in nets.pairs if p.equal is None for name in (p.source, p.target)]
    if nets.differing or (agree and not unpaired):  # each keeps weights of its own, so that no value is equal
        return
    given = _given(sides.graph, inputs, seed)
    runners, graphs, modules = (sides.source, sides.target), (sides.graph, target), paired.modules
    layers = causes_in_layers(graphs, runners, modules, None if agree else given, unpaired)
    rows = list(layers.rows)
    if not agree and len(layers.layers) == len(rows):  # else weights do not fit: nothing behind them is equal
        with replaced(target.origin.model, layers.layers):
            runs = [runner.run(given, calls=False) for runner in runners]
            exchanged = find_exchanged(runs[0], runs[1], target)
            if exchanged is not None:
                rows.append(exchanged)
            else:
                try:
                    rows += causes_in_methods(graphs, runners, modules, given, nets.settings)
                except Exception as error:  # the verdict stands without what the search finds
                    if verifies_each():
                        raise
                    sides.notes.append(_fault_of_search(error))
    if rows:
        named = {
            (row.target, kin)
            for row in rows
            for name in row.attribute.split(", ")
            for kin in (name, *KIN.get(name, ()))
        }
        remade = {row.target for row in layers.rows}
        settings = [
            row
            for row in nets.settings
            if (row.target, row.attribute) not in named
            and (row.structure or row.training or row.target not in remade)
            and not row.attribute.startswith(COUNT)
            and not (row.attribute == "layer" and row.target in {target for target, _ in named})
        ]
        calls = [*nets.calls, *arguments_of_calls(target, rows, [], [])]
        biases = [row for row in nets.biases if row.target not in remade]
        paired.nets = replace(nets, settings=[*settings, *rows], calls=calls, biases=biases)


def _fault_of_search(error: Exception) -> str:
    """Return a note of a fault of the search for causes, with its place in our code."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    name, place = type(error).__name__, f"{Path(at.filename).name}:{at.lineno}"
    return f"the search for causes ended by a fault of regraft, please report it: {name} at {place}: {error}"


def _with_magnitudes(
    paired: NetComparison,
    sides: Sides,
    inputs: Mapping[str, Array] | None,
    seed: int,
    gradients: tuple[GradientSizes, GradientSizes] | None,
) -> Nets:
    """Return the comparison of two nets, with magnitudes if they kept their own weights."""
    if not paired.nets.differing:
        return paired.nets
    from .two_nets.magnitudes import compare_magnitudes

    first = _given(sides.graph, inputs, seed)
    runs = (sides.source.run(first), sides.target.run(first))
    rows = compare_magnitudes(paired.pairing, paired.nets.laws, runs, gradients)
    return replace(paired.nets, magnitudes=rows)


def _oracle(source: Graph, python: str | Path) -> Runner:
    """Return the source in its own framework, in another Python."""
    from .oracle.mxnet_runner import MXNetRunner

    return MXNetRunner(source, python)


def _nodes(
    sides: Sides, inputs: Mapping[str, Array] | None, seed: int, threads: int | None
) -> list[ModuleRow]:
    """Return the lowering itself, node by node, where the source's own framework shows its nodes."""
    from .oracle.mxnet_runner import MXNetRunner
    from .oracle.nodes import compare_nodes

    if not isinstance(sides.source, MXNetRunner):
        return []
    graph = sides.graph
    return compare_nodes(graph, sides.source, _given(graph, inputs, seed), threads)


def _structure(
    sides: Sides,
    target: Target,
    renames: Path | None,
    inputs: Mapping[str, Array] | None,
    *,
    train: bool,
) -> tuple[Structure | None, list[str]]:
    """Compare the structure of a target that was written from the source; None for any other target.

    Args:
        sides: the two sides.
        target: the target, as in `verify`.
        renames: as in `verify`.
        inputs: some on which the outputs agree; None where they do not.
        train: as in `verify`.
    """
    source, runner = sides.graph, sides.target
    if isinstance(target, Graph):
        if renames is None:
            return _of_passes(sides, target, inputs)
        held, settings, remark = held_by_graph(target), settings_of(target), ""
    elif isinstance(target, (str, Path)) and isinstance(runner, OnnxRunner):
        renames = renames_of_output(Path(target))
        held, settings, remark = runner.held(), None, remark_on_dropouts(source, runner.ratios())
    elif isinstance(target, (str, Path)) and isinstance(runner, Describing):
        renames = renames_of_output(Path(target))
        held, settings, remark = runner.held(), runner.settings, ""
    else:
        return None, []
    mapping = read_map(renames) if renames.is_file() else None
    cannot = not can_train(source) or isinstance(target, Graph)  # then no training step shows it
    structure, notes = compare_structure(source, held, settings, mapping, train=train or cannot)
    if mapping is not None and structure.values:
        values = values_in(source, held, mapping, structure.values)
        give = partial(paired_runner, source, modules={})
        if values is None and isinstance(runner, OnnxRunner):  # the source has no tensor like one of them
            values, give = expected_in(source, held, mapping, structure.values), runner.holding
        structure, further = _excused(sides, structure, values, inputs, give)
        notes = [*notes, *further]
    return structure, [*notes, *([remark] if remark else [])]


def _of_passes(
    sides: Sides, target: Graph, inputs: Mapping[str, Array] | None
) -> tuple[Structure | None, list[str]]:
    """Return the tensors of a graph that passes made of the source's; None for any other."""
    rows, count, values = compare_parameters(sides.graph, target)
    if not count:
        return None, []
    give = partial(paired_runner, sides.graph, modules={})
    return _excused(sides, Structure(values=rows, tensors=count), values, inputs, give)


def _excused(
    sides: Sides,
    structure: Structure,
    values: Mapping[str, Array] | None,
    inputs: Mapping[str, Array] | None,
    give: Callable[[Mapping[str, Array]], Runner],
) -> tuple[Structure, list[str]]:
    """Return the comparison without tensors that others make up for, with a note, if that can be stated.

    The outputs agree, and the source, given all of them, or each of them alone, computes something else; or
    the target does, given the source's.
    """
    if not structure.values or not values or inputs is None:
        return structure, []
    each = [{name: value} for name, value in values.items()]
    alone = 1 < len(each) <= _ALONE

    def moves(given: Mapping[str, Array]) -> bool:
        """Whether a net with these values computes something else than the source."""
        before = sides.source.run(inputs, calls=False)  # first: the other net may be the same live one
        try:
            other = give(given)
        except ModelError:  # torch gives no other values to what it has packed for its kernels
            return False
        try:
            run = other.run(inputs, calls=False)
        finally:
            other.close()
        return not all(row.passed for row in sides.outputs("", before, run, sides.rounding(inputs, before)))

    if not moves(values) and not (alone and all(moves(v) for v in each)):
        return structure, []
    count = len(structure.values)
    note = f"{count} tensors are not the source's, and what reads them makes up for it"
    return replace(structure, values=[]), [note]


def _recorded(sides: Sides, inputs: Mapping[str, Array], expected: Sequence[Array]) -> list[OutputRow]:
    """Compare source and target with what the source's framework was recorded to compute."""
    names = [name for name, _ in sides.graph.outputs]
    if len(names) != len(expected):
        names = [f"output{i}" for i in range(len(expected))]
    truth = Run(list(zip(names, expected, strict=True)))
    source = sides.source.run(inputs, calls=False)
    rounding = sides.rounding(inputs, source, recorded=True)
    rows: list[OutputRow] = []
    for side, run in (("source", source), ("target", sides.target.run(inputs, calls=False))):
        rows += sides.outputs(f"recorded, {side}", truth, run, rounding)
    return rows
