"""The library's front door: load, rewrite, save, verify, check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from .backends import (
    TARGETS,
    find_target,
    infer_target,
    left_from_before,
    lowered_for,
    passes_of,
    stubs_of,
    write,
)
from .backends.files import settle, staged
from .backends.renames import Rename, rename_rows
from .checkpoints.convert import Converted
from .checkpoints.convert import convert_checkpoint as convert
from .checkpoints.diff import Diff, diff_checkpoints
from .frontends import Inputs, InputSpec, LoadOptions, arrays_of, as_arrays, read, read_tree
from .frontends.user_code import exits_refused
from .ir import Graph, ModelError, RegraftError, UnsupportedError, UsageError, system_errors_told
from .ir.collector import collector_paused
from .ir.validation import verifying_each
from .passes import PIPELINES, available_passes, default_pipeline, parse_pass, pipeline, prepared, run_passes
from .passes import describe as describe_pass
from .passes.base import Change, Pass
from .process_state import as_it_was
from .verification import Report, read_pair_map
from .verification import verify as compare
from .verification.recording import record_calls
from .verification.verify_written import VerificationError, comparable, is_written, verify_written

__all__ = [
    "Change",
    "Converted",
    "Diff",
    "Findings",
    "Graph",
    "InputSpec",
    "Pass",
    "RegraftError",
    "Report",
    "Rewritten",
    "VerificationError",
    "available_passes",
    "check",
    "convert_checkpoint",
    "default_pipeline",
    "describe",
    "diff",
    "has_stubs",
    "left_from_before",
    "load",
    "load_tree",
    "lower",
    "parse_pass",
    "rewrite",
    "rewrite_file",
    "save",
    "stubs_left",
    "target_names",
    "target_of",
    "target_passes",
    "verify",
]


@contextmanager
def guarded() -> Iterator[None]:
    """The walls of every call into the library: process state, the system's errors, exits of user code."""
    with as_it_was(), system_errors_told(), exits_refused():
        yield


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What `rewrite` gives.

    Attributes:
        graph: a new graph; the one given is as it was.
        changes: what the passes did, in order.
        renames: one row a parameter of the source: where it went.
    """

    graph: Graph
    changes: list[Change]
    renames: list[Rename]


@dataclass(frozen=True, slots=True)
class Findings:
    """What `check` gives: iterate over it for the findings.

    Attributes:
        findings: what the passes would change or report, the worst first.
        skipped: names of the rules that could not run, and why.
        notes: what the graph does not show of the model, or shows otherwise.
    """

    findings: list[Change] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing worse than a note was found."""
        return all(f.severity == "note" for f in self.findings)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)


@guarded()
@collector_paused()
def load(
    model: object,
    inputs: Inputs = None,
    *,
    params: str | Path | None = None,
    dynamic_batch: bool = True,
    dynamic: Mapping[str, Sequence[int]] | None = None,
    arguments: Mapping[str, object] | None = None,
    partial: bool = False,
    trust: bool = False,
) -> Graph:
    """Lower a model into the IR.

    Args:
        model: a ``torch.nn.Module``, a ``mindspore.nn.Cell``, or a name: ``file.py:Name``, ``pkg.mod:Name``
            (these run the model's code), ``x-symbol.json``, ``x.pt2`` (these are read as data).
        inputs: a tuple or dict of arrays, tensors, or specs such as ``"2x3x224x224"`` or ``"2x16:int64"``.
        params: file with the parameters, where they are not beside the model.
        dynamic_batch: whether axis 0 of the inputs that share the example's batch becomes symbolic.
        dynamic: input name -> axes that become symbolic instead.
        arguments: constructor arguments for ``file.py:Name``.
        partial: whether torch operators without a lowering become stubs, which MindSpore source writes as
            Cells that raise NotImplementedError.
        trust: whether a ``.pt2`` file may run code: what it pickles, imports, evaluates or links is run by
            `torch.export.load`. Without it such a file is refused, and an ordinary one needs none.

    Returns:
        The graph, faithful to the source: nothing is fixed here.

    Raises:
        UsageError: when `model` or `inputs` are nothing that can be understood.
        ModelError: when the model cannot be read or captured.
        UnsupportedError: listing every operator without a lowering.
    """
    _settle_beside(model, params)
    return read(model, inputs, _options(params, dynamic_batch, dynamic, arguments, partial, trust))


def has_stubs(graph: Graph) -> bool:
    """Whether a graph loaded with `partial` holds operators to be written by hand: nothing can run it."""
    return any(
        node.qualified_name == "regraft.Stub" for part in graph.subgraphs() for node in part.operators()
    )


def stubs_left(graph: Graph, path: str | Path, to: str | None = None) -> list[str]:
    """The operators that an output written with `partial` leaves to be written by hand, with their places.

    Args:
        graph: a rewritten graph.
        path: as in `save`.
        to: as in `save`; only MindSpore source can hold a stub.
    """
    return stubs_of(graph, target_of(path, to))


@guarded()
def is_data(model: str) -> bool:
    """Whether a model is named by a file that is read as data, which runs no code of its author's."""
    from .frontends.registry import frontend_of_file

    return frontend_of_file(model) is not None


def load_tree(
    model: object,
    *,
    params: str | Path | None = None,
    arguments: Mapping[str, object] | None = None,
    trust: bool = False,
) -> Graph:
    """The static part of a model, without inputs: modules, registrations and parameters."""
    return read_tree(model, _options(params, True, None, arguments, trust=trust))


@guarded()
@collector_paused()
def rewrite(
    graph: Graph,
    passes: Sequence[Pass | str] | None = None,
    *,
    verify_each: bool = False,
    print_after: Callable[[Pass, Graph], None] | None = None,
) -> Rewritten:
    """Run passes on a copy of a graph.

    Args:
        graph: the graph; it stays as it is.
        passes: None for the default pipeline; else pass objects (yours too) and command-line strings such as
            ``"tie-weights:twin=data+data2"``, run in order instead of it; [] for none.
        verify_each: validate the whole graph after every pass.
        print_after: called after each pass with the pass and the graph.

    Raises:
        PassError: when a pass cannot do what its options ask.
    """
    chosen = (
        default_pipeline() if passes is None else [parse_pass(p) if isinstance(p, str) else p for p in passes]
    )
    new = graph.copy()
    results = run_passes(new, chosen, verify_each=verify_each, print_after=print_after)
    return Rewritten(new, [change for _, made in results for change in made], rename_rows(new))


def describe(name: str) -> str:
    """What a pass, those of backends included, a finding or an error means: a pass's name or a code.

    Raises:
        PassError: when there is nothing of that name.
    """
    return describe_pass(name, [type(p) for target in TARGETS for p in passes_of(target)])


def target_names() -> list[str]:
    """What a graph can be written as."""
    return list(TARGETS)


def target_passes(to: str) -> list[Pass]:
    """The passes that only one target has, in order: its pipeline, then its backend's own.

    Raises:
        UsageError: when there is no such target.
    """
    own = passes_of(to)
    return [*(pipeline(to) if to in PIPELINES else []), *own]


@guarded()
@collector_paused()
def lower(
    graph: Graph,
    path: str | Path,
    to: str | None = None,
    *,
    print_after: Callable[[Pass, Graph], None] | None = None,
    **options: object,
) -> Graph:
    """A graph as a backend brings it to what it writes: what `save` writes, before it is text.

    Args:
        graph: a rewritten graph.
        path: as in `save`.
        to: as in `save`.
        print_after: called after each of the target's own passes with the pass and the graph.
        options: as in `save`.

    Raises:
        UsageError: when the target cannot be told.
        UnsupportedError: listing every operator that the target cannot express.
    """
    target = target_of(path, to)
    chosen = _preparations(dict(options))
    return lowered_for(
        prepared(graph, target, print_after=print_after, **chosen), target, print_after=print_after
    )


@guarded()
@collector_paused()
def save(
    graph: Graph,
    path: str | Path,
    to: str | None = None,
    *,
    force: bool = False,
    verify_each: bool = False,
    **options: object,
) -> list[Path]:
    """Write a graph for a target, atomically.

    Args:
        graph: the graph, after the passes.
        path: what the target writes: an ``.onnx`` file for "onnx", else a directory.
        to: a key of `backends.TARGETS`; None infers it from the suffix.
        force: whether existing files may be replaced.
        verify_each: validate the whole graph after each of the target's own passes.
        options: the backend's own, e.g. ``checkpoint_format="safetensors"``; ``group=False`` leaves a model
            without module structure (MXNet's symbols) as it is, where MindSpore source would group it;
            ``fold=False`` keeps every BatchNormalization and Dropout, which an ONNX model would not have.

    Returns:
        The files written.

    Raises:
        UsageError: when the target cannot be told or the output exists.
        UnsupportedError: listing every operator that the target cannot express; nothing is written.
    """
    target = target_of(path, to)
    with verifying_each(verify_each):
        emitted = prepared(graph, target, **_preparations(options))
        return write(emitted, Path(path), target, force=force, **options)


@guarded()
def verify(
    source: object,
    target: object,
    inputs: Inputs = None,
    *,
    train: bool = False,
    expected: Sequence[np.ndarray] | None = None,
    map: str | Path | None = None,  # noqa: A002 - as --map
    copy: bool | None = None,
    oracle: str | Path | None = None,
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
        oracle: path of a Python interpreter that has MXNet: then a symbol as the source runs itself there, in
            a process of its own, and is compared node by node with what was read. Without it the graph that
            was read runs in its place.
        options: loading options, as in `load`.

    Returns:
        The report; `passed` is False as soon as anything compared differs or nothing could be compared.

    Raises:
        UsageError: with `train`, when a side is for inference only (ONNX, MXNet).
        ModelError: when a side cannot be run; with `train`, when its training mode differs from inference in
            more than Dropout and batch statistics.
    """
    _settle_beside(source, target, map)
    examples = inputs if inputs is not None or not isinstance(target, Graph) else target.origin.inputs
    graph = source if isinstance(source, Graph) else load(source, examples, **options)
    given = _by_name(graph, inputs if inputs is not None or expected is None else graph.origin.inputs)
    if map is not None and (isinstance(target, Graph) or is_written(target)):
        raise UsageError(
            "E001",
            "expected a model as the target of a map, got a graph or what was written from one",
            hint="files that regraft wrote are paired by the renames.json beside them",
        )
    if isinstance(target, Graph) or is_written(target):
        written: Any = target
        return compare(graph, written, given, train=train, expected=expected, laws=True, oracle=oracle)
    shown = inputs if inputs is not None else list(graph.origin.inputs.values())
    other = _captured_or_named(target, shown, trust=bool(options.get("trust")))
    mapping = None if map is None else read_pair_map(map)
    return compare(
        graph,
        other,
        given,
        own=True,
        train=train,
        expected=expected,
        mapping=mapping,
        copy=copy,
        oracle=oracle,
    )


def _captured_or_named(target: object, inputs: Inputs, *, trust: bool) -> Graph:
    """A model to run beside another; with operators that nothing lowers it still runs in its framework."""
    try:
        return load(target, inputs, trust=trust)
    except UnsupportedError as error:
        tree = load_tree(target, trust=trust)
        tree.origin.notes.append(
            "the target's settings are not compared, as its operators cannot be read: "
            f"{error.code} {error.message}"
        )
        return tree


@guarded()
def check(model: object, inputs: Inputs = None, **options: Any) -> Findings:
    """What the passes would change or report, without changing anything.

    Without inputs only the static rules run, and `Findings.skipped` names the others. An operator without a
    lowering becomes a finding itself and never hides what the static rules find.

    Args:
        model: a graph, or anything that `load` takes.
        inputs: as in `load`.
        options: loading options, as in `load`.
    """
    failure: RegraftError | None = None
    if isinstance(model, Graph):
        graph = model
    else:
        graph, failure = _captured_or_tree(model, inputs, options)
    pipeline = default_pipeline()
    skipped = {p.name: why for p in pipeline if (why := p.skipped(graph))}
    found: list[Change] = []
    if failure is not None:
        text = str(failure).removeprefix(f"{failure.code} ")
        found.append(Change(failure.code, text, severity="error", fixed=False))
        skipped = dict.fromkeys(skipped, f"the model could not be lowered ({failure.code})")
    for _, changes in run_passes(graph.copy(), [p for p in pipeline if p.name not in skipped]):
        found += changes
    rank = {"error": 0, "warning": 1, "note": 2}
    return Findings(sorted(found, key=lambda f: rank[f.severity]), skipped, list(graph.origin.notes))


def _captured_or_tree(
    model: object, inputs: Inputs, options: Mapping[str, Any]
) -> tuple[Graph, RegraftError | None]:
    """The lowered model; where it cannot be lowered, its static part and why (None: no inputs were given)."""
    try:
        return load(model, inputs, **options), None
    except UnsupportedError as error:
        failure = error
    except ModelError as error:
        missing = error.code == "E103" and inputs is None
        if not missing and error.code != "E104":
            raise
        failure = None if missing else error
    given = {name: options[name] for name in ("params", "arguments", "trust") if name in options}
    return load_tree(model, **given), failure


@guarded()
def rewrite_file(
    graph: Graph,
    rewritten: Rewritten,
    path: str | Path,
    to: str | None = None,
    *,
    verified: bool = True,
    force: bool = False,
    emit_tests: bool = False,
    oracle: str | Path | None = None,
    verify_each: bool = False,
    **options: Any,
) -> tuple[list[Path], Report | None]:
    """Write a rewritten graph and keep the files only when they compute what the source computes.

    Args:
        graph: the source's graph, before any pass.
        rewritten: what `rewrite` made of it.
        path: as in `save`.
        to: as in `save`.
        verified: whether to compare before the files are put in place.
        force: whether existing files may be replaced.
        emit_tests: whether to write ``test_model.py`` too, with the values of the comparison's first inputs:
            one test for every class of a MindSpore output.
        oracle: as in `verify`.
        verify_each: as in `save`.
        options: the backend's own.

    Raises:
        UsageError: when the output exists, or tests are asked for that nothing was recorded for.
        MismatchError: with the report in `args`, when the files do not compute the same; nothing is left.
    """
    final = Path(path)
    target = target_of(final, to)
    row = find_target(target)
    parent = row.folder_of(final)
    settle(parent)
    if not force and row.exists(final):
        raise UsageError(
            "E002", f"`{final}` exists already", hint="give --force to replace its files, or another output"
        )
    if emit_tests and not (row.writes_tests and verified):
        raise UsageError(
            "E001",
            "expected a verified MindSpore output to write tests for, got "
            + ("one that is not compared with its source" if row.writes_tests else f"`{target}`"),
            hint="leave out --emit-tests, or give --to mindspore without --no-verify",
        )
    if not verified:
        return save(rewritten.graph, final, target, force=force, verify_each=verify_each, **options), None
    names: list[str] = []
    with staged(parent, names, force=force) as stage:
        inner = stage / final.name if row.suffix else stage
        with verifying_each(verify_each):
            emitted = prepared(rewritten.graph, target, **_preparations(options))
            files = write(emitted, inner, target, **options)
        report = verify_written(graph, rewritten.graph, files, inner, target, oracle)
        if not report.passed:
            raise VerificationError(report, final)
        if emit_tests:
            grouped = None if emitted is rewritten.graph else emitted
            source = comparable(graph, rewritten.graph)
            files += row.load().write_tests(inner, record_calls(source, inner, grouped=grouped))
        names += [f.name for f in files]
    return [parent / name for name in names], report


@guarded()
@wraps(convert)
def convert_checkpoint(source: str | Path, target: str | Path, map_: str | Path, **options: Any) -> Converted:
    """As `checkpoints.convert.convert_checkpoint`."""
    _settle_beside(source, map_)
    return convert(source, target, map_, **options)


@guarded()
def diff(a: str | Path, b: str | Path, map: str | Path | None = None) -> Diff:  # noqa: A002 - as --map
    """Compare two checkpoints, tensor by tensor.

    Args:
        a: a ``.ckpt``, ``.safetensors``, ``.params``, ``.pth`` (weights only) or ``.onnx`` file.
        b: likewise, of the same kind or another.
        map: a ``renames.json`` whose two sides these are, in either order.

    Returns:
        The report; `equal` is False as soon as a tensor differs or is on one side only.
    """
    _settle_beside(a, b, map)
    return diff_checkpoints(a, b, map)


def _settle_beside(*named: object) -> None:
    """Complete or undo what killed runs left half done beside files that are to be read."""
    for each in named:
        if isinstance(each, (str, Path)):
            path = Path(str(each).rpartition(":")[0] or each)
            settle(path if path.is_dir() else path.parent)


def _preparations(options: dict[str, Any]) -> dict[str, Any]:
    """The options that are not the backend's, taken out of all."""
    return {name: bool(options.pop(name)) for name in ("group", "fold") if name in options}


def _by_name(graph: Graph, inputs: Inputs) -> dict[str, np.ndarray] | None:
    """The inputs a caller gave, by the graph's input names; None for none."""
    if inputs is None:
        return None
    names = [n.name for n in graph.input_nodes()]
    given = [
        (name if isinstance(value, np.ndarray) else "", array)
        for name, value in as_arrays(inputs)
        for array in arrays_of(value)
    ]
    return {name or names[at]: array for at, (name, array) in enumerate(given) if name or at < len(names)}


def target_of(path: str | Path, to: str | None = None) -> str:
    """The target asked for, or the one that an output path implies.

    Raises:
        UsageError: when neither tells.
    """
    target = to or infer_target(Path(path))
    if target is None:
        raise UsageError(
            "E001", f"cannot tell the target from `{path}`", hint=f"give --to {' | '.join(TARGETS)}"
        )
    return target


def _options(
    params: str | Path | None,
    dynamic_batch: bool,
    dynamic: Mapping[str, Sequence[int]] | None,
    arguments: Mapping[str, object] | None,
    partial: bool = False,
    trust: bool = False,
) -> LoadOptions:
    return LoadOptions(
        Path(params) if params is not None else None,
        dynamic_batch,
        {name: tuple(axes) for name, axes in (dynamic or {}).items()},
        dict(arguments or {}),
        partial,
        trust,
    )
