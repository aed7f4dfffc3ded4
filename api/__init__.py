"""Public functions: load, rewrite, save, verify, check, fix."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats.files import settle_beside
from ..formats.renames import rename_rows
from ..frontends import Inputs, read, read_tree
from ..frontends.inputs import by_input_name
from ..frontends.registry import frontend_of_file
from ..frontends.training_script import RecipeFunction
from ..ir import Array, Graph, UsageError
from ..ir.collector import pause_collector
from ..passes import available_passes as own_passes
from ..passes import default_pipeline, run_passes
from ..passes.base import Pass
from ..process.entry import public_call
from ..process.progress import phase
from .extensions import further_passes, parse_pass
from .load_options import loading as loading_options
from .target_capture import capture_beside
from .targets import Rewritten, graph_of
from .verdicts import certifies, settle_verdict

if TYPE_CHECKING:
    from ..verification import Report
    from .findings import FileFindings, Findings
    from .fixes import Fixed


@phase("load")
@public_call()
@pause_collector()
def load(
    model: object,
    inputs: Inputs = None,
    *,
    params: str | Path | None = None,
    part: str | None = None,
    dynamic_batch: bool = True,
    dynamic: Mapping[str, Sequence[int]] | None = None,
    arguments: Mapping[str, object] | None = None,
    partial: bool = False,
    trust: bool = False,
    keep_prints: bool = False,
    meta: bool = False,
    constants: Mapping[str, object] | None = None,
) -> Graph:
    """Lower a model into the IR.

    Args:
        model: a ``torch.nn.Module``, a ``mindspore.nn.Cell``, or a name: ``file.py:Name``, ``pkg.mod:Name``
            (these run the model's code), ``x-symbol.json``, ``x.onnx``, ``x.mindir``, ``x.pt2``,
            ``x.pt`` of `torch.jit.save` (these are read as data).
        inputs: a tuple or dict of arrays, tensors, or specs such as ``"2x3x224x224"`` or ``"2x16:int64"``.
        params: file with the parameters: an MXNet symbol's, where they are not beside it; of a module or a
            named Cell a checkpoint, which has to hold them all by their names, or a folder of shards.
        part: which of several sets of tensors in `params` is read: a key of a file of torch.save (`ema`), or
            what their names begin with.
        dynamic_batch: whether axis 0 of the inputs that share the example's batch becomes symbolic.
        dynamic: input name -> axes that become symbolic instead.
        arguments: constructor arguments for ``file.py:Name``.
        partial: whether torch operators without a lowering become stubs, which MindSpore and PyTorch source
            write as Cells and modules that raise NotImplementedError.
        trust: whether a ``.pt2`` file may run code: what it pickles, imports, evaluates or links is run by
            `torch.export.load`. Without it such a file is refused, and an ordinary one needs none. A
            ``.mindir`` file is read as data in any case, and with it MindSpore runs it where it is compared.
        keep_prints: whether what a Cell prints, dumps and summarises stays in emitted source.
        meta: whether a torch model that is named is made without values for its parameters, so that no
            memory is used but what is read of `params`; a module on the device ``meta`` needs no saying.
        constants: input of an ONNX model -> the number, list or array that it always has: it is no input of
            the graph then, and settings that a target needs before a run are known.

    Returns:
        The graph, faithful to the source: nothing is fixed here.

    Raises:
        UsageError: when `model` or `inputs` are nothing that can be understood.
        ModelError: when the model cannot be read or captured.
        UnsupportedError: listing every operator without a lowering.
    """
    settle_beside(model, params)
    options = loading_options(
        params=params,
        part=part,
        dynamic_batch=dynamic_batch,
        dynamic=dynamic,
        arguments=arguments,
        partial=partial,
        trust=trust,
        keep_prints=keep_prints,
        meta=meta,
        constants=constants,
    )
    return read(model, inputs, options)


def available_passes() -> list[type[Pass]]:
    """Return every pass: regraft's own, those that no pipeline runs included, and installed packages'."""
    return [*own_passes(), *further_passes()]


def is_data(model: str) -> bool:
    """Whether a model is named by a file that is read as data, which runs no code of its author's."""
    return frontend_of_file(model) is not None


@public_call()
def load_tree(
    model: object,
    *,
    params: str | Path | None = None,
    part: str | None = None,
    arguments: Mapping[str, object] | None = None,
    trust: bool = False,
) -> Graph:
    """Return the static part of a model, without inputs: modules, registrations and parameters."""
    return read_tree(model, loading_options(params=params, part=part, arguments=arguments, trust=trust))


@phase("rewrite")
@public_call()
@pause_collector()
def rewrite(
    graph: Graph | Rewritten,
    passes: Sequence[Pass | str] | None = None,
    *,
    to: str | None = None,
    dequantise: bool = False,
    verify_each: bool = False,
    print_after: Callable[[Pass, Graph], None] | None = None,
) -> Rewritten:
    """Run passes on a copy of a graph.

    Args:
        graph: the graph, or what `rewrite` gave; it stays as it is.
        passes: None for the default pipeline; else pass objects (yours too) and command-line strings such as
            ``"tie-weights:twin=data+data2"`` or ``"mypass.py:ReluToGelu"``, run in order instead of it;
            [] for none, ``default_pipeline() + ["mypass.py:ReluToGelu"]`` for both.
        to: the target that the default pipeline is for, a key of `backends.TARGETS`: a PyTorch module that
            becomes PyTorch source keeps what no operator reads, so that its checkpoints load strictly; None
            for what is right for every target.
        dequantise: whether quantised weights become floats, by the pass `dequantise` before all others; else
            what is quantised in a file stays so in an ONNX file.
        verify_each: validate the whole graph after every pass.
        print_after: called after each pass with the pass and the graph.

    Raises:
        PassError: when a pass cannot do what its options ask.
    """
    chosen = (
        default_pipeline(to)
        if passes is None
        else [parse_pass(p) if isinstance(p, str) else p for p in passes]
    )
    if dequantise:
        chosen = [parse_pass("dequantise"), *chosen]
    new = graph_of(graph).copy()
    results = run_passes(new, chosen, verify_each=verify_each, print_after=print_after)
    return Rewritten(new, [change for _, made in results for change in made], rename_rows(new))


_RECIPE_STEPS = 20
"""The steps for which recipes are followed where none are given."""


@phase("verify")
@public_call()
def verify(
    source: object,
    target: object,
    inputs: Inputs = None,
    *,
    train: bool = False,
    expected: Sequence[Array] | None = None,
    map: str | Path | None = None,  # noqa: A002 - as --map
    copy: bool | None = None,
    oracle: str | Path | None = None,
    write_map: str | Path | None = None,
    recipes: tuple[str | RecipeFunction, str | RecipeFunction] | None = None,
    steps: int | None = None,
    feed: Mapping[str, str] | None = None,
    html: str | Path | None = None,
    lang: str = "en",
    pieces: bool | None = None,
    certificate: bool | None = None,
    **options: Any,
) -> Report:
    """Compare what two models compute, output by output and module by module.

    Args:
        source: a graph of `load`, or any model that `load` takes.
        target: likewise, or an ``.onnx`` file, or a directory that `save` wrote, whose ``model.py`` is run.
        inputs: as in `load`; None for the graph's own example inputs.
        train: whether to compare one training step too: the gradient of every parameter, running statistics,
            values after plain SGD. Both sides must be PyTorch or MindSpore: a live model, or the source's
            emitted directory. They are left as they were.
        expected: outputs recorded elsewhere for `inputs`, in order; both sides are compared with them too.
        map: where `target` is a model: a JSON file that says which module or parameter of the source is which
            of the target, ``{"layer1.0": "stage1.block0", "aux": null}``, or a ``renames.json``.
        copy: where `target` is a model: whether it is given the source's weights for the comparison; None
            gives them to nets that were drawn apart, where no weight is equal.
        oracle: a Python interpreter that has MXNet: a symbol as the source runs there, in a process of its
            own, and is compared node by node with what was read; without it what was read runs in its place.
        write_map: where `target` is a model: a file to write which parameter is which to, a ``renames.json``
            that `convert_checkpoint` and `diff` take.
        recipes: what trains each side, ``train.py:recipe`` (which **runs the file**) or a function: it gets
            the net and returns a dict, see `frontends.training_script.Script`. Settings are compared, and
            both are followed for `steps` steps from equal weights on equal seeded data. Implies `train`.
        steps: with `recipes`, how many steps of them are followed, 20 by default. Without, how many steps of
            one token a decoder makes, each fed the cache of the step before: they are compared with one pass
            over all tokens, and the source's with the target's, in place of all else.
        feed: with `steps`, what feeds an input, where its name and shape do not tell: input -> an output,
            ``+`` and an output that holds the new tokens alone, or ``token``, ``positions``, ``position``,
            ``last``, ``length``, ``mask`` or ``same``; names may hold stars, ``{"past.*": "present.*"}``.
        html: a file to write the report to as a page, whatever it says; see `write_page`.
        lang: the page's language, "en" or "zh".
        pieces: whether a PyTorch module and what was written from it run with the weights of one piece in
            memory at a time, forward and on one draw; None where the weights exceed half of the memory.
        certificate: whether an output that was written from the source is read back and compared with it
            exactly too, which the first line tells and which settles what numbers leave open; None does that
            where it costs no more than to compare the numbers: for files, not for directories.
        options: loading options, as in `load`.

    Returns:
        The report; `passed` is False as soon as anything compared differs or nothing could be compared.

    Raises:
        UsageError: with `train`, when a side is for inference only (ONNX, MXNet).
        ModelError: when a side cannot be run, or trains otherwise than by Dropout and batch statistics.
    """
    from ..verification import Recipes, read_pair_map
    from ..verification import verify as compare
    from ..verification.verify_written import is_written, no_map

    settle_beside(source, target, map)
    scripts = None if recipes is None else Recipes(*recipes, steps or _RECIPE_STEPS)
    train = train or scripts is not None
    if feed and (steps is None or scripts is not None):
        raise UsageError("E001", "expected --feed with --steps, and without --recipe", hint="add --steps K")
    if scripts is None and steps is not None:
        from .decoding import verify_steps

        others = {"train": train, "expected": expected, "map": map, "oracle": oracle, "write_map": write_map}
        return verify_steps(
            source,
            target,
            inputs,
            steps,
            feed,
            others,
            pieces=pieces,
            copy=copy,
            html=html,
            lang=lang,
            **options,
        )
    examples = inputs if inputs is not None or not isinstance(target, Graph) else target.origin.inputs
    graph = source if isinstance(source, Graph) else load(source, examples, **options)
    given = by_input_name(
        inputs if inputs is not None or expected is None else graph.origin.inputs,
        [node.name for node in graph.input_nodes()],
    )
    other: Any = target
    if isinstance(target, Graph) or is_written(target):
        if (map or write_map) is not None:
            raise no_map()
        begin = time.process_time()
        report = compare(
            graph, other, given, train=train, expected=expected, laws=True, oracle=oracle, recipes=scripts,
            pieces=pieces,
        )  # fmt: skip
        report = settle_verdict(
            report,
            graph,
            other,
            time.process_time() - begin,
            wanted=False if pieces or expected is not None else certificate,
            trust=bool(options.get("trust")),
        )
    else:
        shown = inputs if inputs is not None else list(graph.origin.inputs.values())
        other = capture_beside(graph, target, shown, trust=bool(options.get("trust")))
        report = compare(
            graph,
            other,
            given,
            own=True,
            train=train,
            expected=expected,
            mapping=None if map is None else read_pair_map(map),
            copy=copy,
            oracle=oracle,
            write_map=None if write_map is None else Path(write_map),
            recipes=scripts,
            exactly=certifies(certificate) and expected is None,
        )
    if html is not None:
        from .pages import write_page

        write_page(html, graph, other if isinstance(other, Graph) else Path(other), report, lang=lang)
    return report


@phase("check")
def check(
    model: object,
    inputs: Inputs = None,
    *,
    ported_from: str = "",
    release: str = "",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    **options: Any,
) -> Findings:
    """Report the faults of a model without changing anything: causes, their lines, and fixes.

    A file that raises below the model is examined as it was until there. Without inputs only the static rules
    run, and `Findings.skipped` names the others. An operator without a lowering becomes a finding itself and
    never hides what the static rules find.

    Args:
        model: a graph, or anything that `load` takes.
        inputs: as in `load`.
        ported_from: "torch" for the traps of a port from it too: calls that mean something else there.
        release: a release of MindSpore, or "installed", for the uses in the model's files that it removes or
            changes too.
        select: codes of the findings that are wanted, or how some begin; empty for all.
        ignore: codes that are left out, likewise.
        options: loading options, as in `load`.

    Raises:
        UsageError: for a code that no finding has (E001).
    """
    settle_beside(model, options.get("params"))
    from . import findings

    wanted = findings.wanted(ported_from, select, ignore, release)
    return findings.check(model, inputs, loading_options(**options), wanted)


@phase("check")
def check_file(
    path: str | Path,
    inputs: Inputs = None,
    *,
    ported_from: str = "",
    release: str = "",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    **options: Any,
) -> FileFindings:
    """Check every Cell and Module of a file: **run it**, and construct the classes without arguments.

    Args:
        path: a Python file.
        inputs: as in `load`, for all of them.
        ported_from: as in `check`.
        release: as in `check`, for the whole file; the file may then be a script without a model.
        select: as in `check`.
        ignore: as in `check`.
        options: loading options, as in `load`.
    """
    from . import findings

    wanted = findings.wanted(ported_from, select, ignore, release)
    return findings.check_file(path, inputs, loading_options(**options), wanted)


def fix(
    model: str,
    inputs: Inputs = None,
    *,
    like: str | None = None,
    release: str = "",
    write: bool = True,
    **options: Any,
) -> Fixed:
    """Make the smallest edit in the user's own file that solves what `check` finds, and prove it.

    Args:
        model: ``file.py:Name``; **the file is run**, before and after.
        inputs: as in `load`; without them outputs are not compared.
        like: a model whose outputs the edited one must have, which needs inputs; None for those that it had,
            where it ran.
        release: a release of MindSpore, or "installed", whose removals and changes are resolved too; `model`
            may then be a whole script, which is not run.
        write: whether to replace the file, whose old text is kept beside it; else the diff is all.
        options: loading options, as in `load`.

    Raises:
        UsageError: when `model` names no file, and for `like` without inputs.
        ModelError: when the edited file is not what it should be; nothing is written then.
    """
    from .fixes import fix as fix_model

    return fix_model(model, inputs, loading_options(**options), like=like, release=release, write=write)
