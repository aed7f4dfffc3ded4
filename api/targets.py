"""Writing for a target: what is written is kept where it computes what its source computes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends import (
    TARGETS,
    Preparation,
    find_target,
    infer_target,
    lower_for,
    passes_of,
    require_fitting,
    stubs_of,
    takes_option,
    write,
)
from ..formats.files import settle, staged
from ..formats.renames import Rename
from ..formats.written_behind import writing_behind
from ..frontends.registry import is_installed
from ..frontends.training_script import RecipeFunction
from ..ir import Graph, ModelError, UsageError, walk_operators
from ..ir.collector import pause_collector
from ..ir.validation import verifying_each
from ..passes import available_passes, parse_pass, prepare
from ..passes import describe as describe_pass
from ..passes.base import Change, Pass
from ..process.entry import public_call
from ..process.progress import phase
from .verdicts import settle_verdict

if TYPE_CHECKING:
    from ..backends.onnx_model.counting import FunctionCounts
    from ..backends.onnx_model.in_place import InPlace
    from ..verification import Report


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of `rewrite`.

    Attributes:
        graph: a new graph; the one given is as it was.
        changes: what the passes did, in order.
        renames: one row a parameter of the source: where it went.
    """

    graph: Graph
    changes: list[Change]
    renames: list[Rename]


@dataclass(frozen=True, slots=True)
class Removal:
    """The parameters that a rewrite removes from a model for good.

    Attributes:
        tensors: trainable parameters of the source that the result has no more.
        elements: their values.
        of: the trainable values of the source.
        places: paths of the modules that held them, and of what no module holds.
        reason: why they go.
    """

    tensors: int
    elements: int
    of: int
    places: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        named = self.named
        return (
            f"REMOVED {self.elements:,} of {self.of:,} trainable parameters in {self.tensors} "
            f"tensor{'' if self.tensors == 1 else 's'}, as {self.reason}" + (f": {named}" if named else "")
        )

    @property
    def named(self) -> str:
        """The first of the places, and how many more there are."""
        names = ", ".join(f"`{path}`" for path in self.places[:_NAMED])
        more = len(self.places) - _NAMED
        return f"{names} and {more} more" if more > 0 else names

    @property
    def is_most(self) -> bool:
        """Whether more than half of what is trained goes."""
        return 2 * self.elements > self.of


_NAMED = 4


def removal(graph: Graph, rewritten: Rewritten) -> Removal:
    """Return the parameters that a rewrite removes for good, not those that it ties to another."""
    trained = {p.key: p for p in graph.parameters() if p.trainable and not p.is_buffer}
    new = rewritten.graph.provenance
    dropped = {} if new is None else new.dropped
    gone = {key: p for key, p in trained.items() if dropped.get(key) == "drop-unused-modules"}
    codes = {c.place: c.code for c in rewritten.changes if c.code in _REASONS}
    paths = graph.parameter_paths()
    places = [_place(next(iter(paths.get(key, ())), p.name), codes) for key, p in gone.items()]
    found = {codes.get(place) for place in places}
    return Removal(
        len(gone),
        sum(prod(p.data.shape) for p in gone.values()),
        sum(prod(p.data.shape) for p in trained.values()),
        tuple(dict.fromkeys(places)),
        next((why for code, why in _REASONS.items() if found == {code}), "no output depends on them"),
    )


_REASONS = {"DU101": "nothing calls them", "DU106": "training alone calls them"}
"""Code of the findings that name all tensors which go -> why those go."""


def _place(path: str, uncalled: Container[str]) -> str:
    """Return the module around a parameter: one that inference does not call, else its own, else itself."""
    own = around = path.rpartition(".")[0]
    while around and around not in uncalled:
        around = around.rpartition(".")[0]
    return around or own or path


def _require_allowed(graph: Graph, rewritten: Rewritten) -> None:
    """Raise where most of what is trained would go.

    Raises:
        UsageError: E003, with what goes.
    """
    gone = removal(graph, rewritten)
    if gone.is_most:
        named = gone.named
        raise UsageError(
            "E003",
            f"the output would lack {gone.elements:,} of {gone.of:,} trainable parameters, as {gone.reason}"
            + (f": {named}" if named else ""),
            hint="`regraft check` with the same inputs says why; if their removal is intended, give "
            "--allow-removal",
        )


def graph_of(given: object) -> Graph:
    """Return the graph that is given, itself or as the result of `rewrite`.

    Raises:
        UsageError: for anything else, such as a model.
    """
    if isinstance(given, Rewritten):
        return given.graph
    if isinstance(given, Graph):
        return given
    raise UsageError(
        "E001",
        f"expected a graph, got `{type(given).__name__}`",
        hint="`regraft.load(model, inputs)` gives one",
    )


@public_call()
@pause_collector()
def save(
    graph: Graph | Rewritten,
    path: str | Path,
    to: str | None = None,
    *,
    force: bool = False,
    verify_each: bool = False,
    **options: object,
) -> list[Path]:
    """Write a graph for a target, atomically.

    Args:
        graph: the graph, after the passes, or what `rewrite` gives.
        path: what the target writes: an ``.onnx`` file for "onnx", else a directory.
        to: a key of `backends.TARGETS`; None infers it from the suffix.
        force: whether existing files may be replaced.
        verify_each: validate the whole graph after each of the target's own passes.
        options: the backend's own, e.g. ``checkpoint_format="safetensors"``, or ``max_shard_size="2GB"`` for
            weights in several files; ``group=False`` leaves a model without module structure (MXNet's
            symbols) as it is, where MindSpore and PyTorch source would group it; ``fold=False`` keeps every
            BatchNormalization and Dropout, which an ONNX model would not have; ``functions=True`` writes the
            classes of modules that are called several times as functions of an ONNX model;
            ``weights_in_place=True`` leaves the weights of an ONNX model in the safetensors files that hold
            them, in or below its folder (`weights_in_place` gives what was left and what was copied).

    Returns:
        The files written.

    Raises:
        UsageError: when the target cannot be told or the output exists, or `graph` is no graph.
        UnsupportedError: listing every operator that the target cannot express; nothing is written.
    """
    graph = graph_of(graph)
    target = target_of(path, to)
    with phase("write"), verifying_each(verify_each):
        emitted = _prepared(graph, target, options)
        return write(emitted, Path(path), target, force=force, **options)


def require_output(
    path: str | Path,
    to: str | None = None,
    *,
    verified: bool = True,
    force: bool = False,
    emit_tests: bool = False,
    recipe: object = None,
    pieces: bool | None = None,
    **options: object,
) -> str:
    """Check what can be known of an output before any model is loaded; returns its target.

    Args:
        path: as in `save`.
        to: as in `save`.
        verified: as in `rewrite_file`.
        force: as in `rewrite_file`.
        emit_tests: as in `rewrite_file`.
        recipe: as in `rewrite_file`.
        pieces: as in `rewrite_file`.
        options: the backend's own.

    Raises:
        UsageError: when the target cannot be told, the output exists, or an option does not fit them.
    """
    final = Path(path)
    target = target_of(final, to)
    row = find_target(target)
    switches = switches_of(target)
    require_fitting(final, target, {name: v for name, v in options.items() if name not in switches})
    settle(row.folder_of(final))
    if not force and row.exists(final):
        raise UsageError(
            "E002", f"`{final}` exists already", hint="give --force to replace its files, or another output"
        )
    if emit_tests and not (row.writes_tests and verified):
        listed, either = _with_tests()
        raise UsageError(
            "E001",
            f"expected a verified output for one of {listed} to write tests for, got "
            + ("one that is not compared with its source" if row.writes_tests else f"`{target}`"),
            hint=f"leave out --emit-tests, or give --to {either} without --no-verify",
        )
    if recipe is not None and not (row.writes_tests and verified):
        raise _no_recipe(target)
    if pieces and verified and not row.in_pieces:
        able = ", ".join(name for name, each in TARGETS.items() if each.in_pieces)
        raise UsageError(
            "E001",
            f"expected a target whose output runs in pieces ({able}), got `{target}`",
            hint="leave out --stream: the comparison then holds both models in memory; --no-verify holds "
            "neither",
        )
    return target


def _no_recipe(target: str) -> UsageError:
    listed, either = _with_tests()
    return UsageError(
        "E001",
        f"expected a verified output of the model itself for one of {listed} to train by a recipe, "
        f"got `{target}`",
        hint=f"leave out --recipe, or give --to {either} without --no-verify",
    )


def _with_tests() -> tuple[str, str]:
    """Return the targets that tests and training scripts are written for, in words and for ``--to``."""
    names = [name for name, row in TARGETS.items() if row.writes_tests]
    return ", ".join(f"`{name}`" for name in names), "|".join(names)


@public_call()
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
    allow_removal: bool = True,
    recipe: str | RecipeFunction | None = None,
    pieces: bool | None = None,
    certificate: bool | None = None,
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
            one test for every class of the source that is written.
        oracle: as in `verify`.
        verify_each: as in `save`.
        allow_removal: whether more than half of the trainable parameters may go.
        recipe: what trains the source, ``train.py:recipe`` (**the file is run**) or a function, as in
            `verify`: then ``train.py`` is written too, and followed for some steps beside it.
        pieces: as in `verify`; the weights of an ONNX model then lie in a file of their own.
        certificate: as in `verify`.
        options: the backend's own.

    Raises:
        UsageError: when the output exists, too much would go, or tests are asked for that nothing was
            recorded for.
        MismatchError: with the report in `args`, when the files do not compute the same; nothing is left.
    """
    final = Path(path)
    target = require_output(
        final,
        to,
        verified=verified,
        force=force,
        emit_tests=emit_tests,
        recipe=recipe,
        pieces=pieces,
        **options,
    )
    row = find_target(target)
    parent = row.folder_of(final)
    if not allow_removal:
        _require_allowed(graph, rewritten)
    # behind the load, whose error names the model's own framework first: --no-verify needs that one, too
    if verified and row.runs_in and not is_installed(row.runs_in):
        raise ModelError(
            "E105",
            f"expected `{row.runs_in}` to be installed, to compare the output, got no such module",
            hint=f'pip install "regraft[{row.runs_in}]"; --no-verify writes it all the same',
        )
    if not verified:  # then there is no recipe, and nothing that runs models is imported
        return save(rewritten.graph, final, target, force=force, verify_each=verify_each, **options), None
    from ..verification import Recipes
    from ..verification.streaming.deciding import costs_less_in_pieces, is_large
    from ..verification.verify_written import VerificationError, choose_comparable, verify_written

    if recipe is not None and choose_comparable(graph, rewritten.graph) is not graph:
        raise _no_recipe(target)
    if options.get("weights_in_place") is True:
        options["weights_in_place"] = weights_in_place(final)  # where it will lie, not where it is staged
    in_pieces = pieces or (pieces is None and row.in_pieces and costs_less_in_pieces(graph))
    if target == "onnx" and (pieces or (in_pieces and is_large(graph))):
        options.setdefault("external_data", True)  # from a file of their own they are mapped
    names: list[str] = []
    with (
        staged(parent, names, force=force, obsolete=row.earlier_files(final)) as stage,
        writing_behind(wanted=in_pieces and recipe is None and not options.get("weights_in_place")) as behind,
    ):
        inner = stage / final.name if row.suffix else stage
        with phase("write"), verifying_each(verify_each):
            emitted = _prepared(rewritten.graph, target, options)
            files = write(emitted, inner, target, **options)
        scripts = None
        if recipe is not None:
            from ..verification.recipes.emitting import write_script  # a target's emitters, which few need

            script = write_script(graph, inner, recipe, target)
            files.append(script)
            scripts = Recipes(recipe, f"{script}:recipe")
        with phase("verify"), _comparable(files[0], parent, options) as model:
            there = model if row.suffix else inner
            begin = time.process_time()
            report = verify_written(
                graph, rewritten.graph, [model, *files[1:]], there, target, oracle, scripts, pieces, behind
            )
            took = time.process_time() - begin
            settled = model if row.suffix or row.is_read_back else inner
            wanted = False if pieces else certificate
            report = settle_verdict(report, graph, settled, took, wanted=wanted)
            report = replace(report, scope=", ".join(filter(None, [report.scope, dequantised(rewritten)])))
        if not report.passed:
            raise VerificationError(report, final)
        behind.finish()
        if emit_tests:
            from ..verification.recording import record_calls

            grouped = None if emitted is rewritten.graph else emitted
            source = choose_comparable(graph, rewritten.graph)
            files += row.load().write_tests(inner, record_calls(source, inner, grouped=grouped))
        names += [f.name for f in files]
    return [parent / name for name in names], report


def dequantised(rewritten: Rewritten) -> str:
    """Describe how many quantised weights a rewrite has made floats, as a verdict says it; empty for none."""
    count = sum(change.code == "DQ101" for change in rewritten.changes)
    return f"with {count} quantised weight{'s' * (count != 1)} as floats" if count else ""


def _comparable(written: Path, home: Path, options: Mapping[str, object]) -> AbstractContextManager[Path]:
    """Return a block in which a written model can be run: beside the weights that it leaves in place."""
    if not options.get("weights_in_place"):
        return nullcontext(written)
    found: AbstractContextManager[Path] = find_target("onnx").load("in_place").lying_beside(written, home)
    return found


@public_call()
@pause_collector()
def lower(
    graph: Graph,
    path: str | Path,
    to: str | None = None,
    *,
    print_after: Callable[[Pass, Graph], None] | None = None,
    **options: object,
) -> Graph:
    """Return a graph as a backend brings it to what it writes: what `save` writes, before it is text.

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
    prepared = _prepared(graph, target, options, print_after)
    return lower_for(prepared, target, options, print_after=print_after)


def count_operators(graph: Graph, path: str | Path) -> list[tuple[str, int, int]]:
    """Count the operators of a source and of the ONNX file that was written from it.

    Args:
        graph: the source's graph, before any pass.
        path: the file.

    Returns:
        (operator, how many in the source, how many in the file), by name; those of nested graphs included.

    Raises:
        ModelError: when the file cannot be read.
    """
    before = Counter(node.qualified_name for _, node in walk_operators(graph))
    after = find_target("onnx").load("counting").count_nodes(Path(path))
    return [(name, before[name], after[name]) for name in sorted(before | after)]


def weights_in_place(path: str | Path) -> InPlace:
    """Return the option of `save` and `rewrite_file` that leaves weights in their safetensors files.

    Args:
        path: the ONNX file that will be written.
    """
    found: InPlace = find_target("onnx").load("in_place").InPlace(Path(path).parent)
    return found


def count_functions(path: Path) -> FunctionCounts | None:
    """Count the functions of an ONNX file that are classes of modules, and its nodes; None without any.

    Raises:
        ModelError: when the file cannot be read.
    """
    found: FunctionCounts = find_target("onnx").load("counting").count_functions(path)
    return found if found.functions else None


def has_stubs(graph: Graph) -> bool:
    """Whether a graph loaded with `partial` holds operators to be written by hand: nothing can run it."""
    return any(
        node.qualified_name == "regraft.Stub" for part in graph.subgraphs() for node in part.operators()
    )


def prints_left_out(graph: Graph, to: str) -> str:
    """Count the prints of a graph, kept on request, that a target cannot have; empty for none."""
    kept = find_target(to).prints
    kinds = Counter(
        node.str("kind")
        for part in graph.subgraphs()
        for node in part.operators()
        if node.qualified_name == "regraft.Print"
    )
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items() if kind not in kept)


def stubs_left(graph: Graph, path: str | Path, to: str | None = None) -> list[str]:
    """The operators that an output written with `partial` leaves to be written by hand, with their places.

    Args:
        graph: a rewritten graph.
        path: as in `save`.
        to: as in `save`; only MindSpore and PyTorch source can hold a stub.
    """
    return stubs_of(graph, target_of(path, to))


def target_names() -> list[str]:
    """Return the targets to which a graph can be written."""
    return list(TARGETS)


def target_takes(name: str, option: str) -> bool:
    """Whether a target takes an option of `rewrite`, by its name with underscores."""
    return takes_option(name, option)


def target_of(path: str | Path, to: str | None = None) -> str:
    """Return the target asked for, or the one that an output path implies.

    Raises:
        UsageError: when neither tells.
    """
    target = to or infer_target(Path(path))
    if target is None:
        raise UsageError(
            "E001", f"cannot infer the target from `{path}`", hint=f"give --to {' | '.join(TARGETS)}"
        )
    return target


def target_passes(to: str) -> list[Pass]:
    """Return the passes that only one target has, in order: those of its preparation, then its backend's own.

    Raises:
        UsageError: when there is no such target.
    """
    own = passes_of(to)
    return [*_preparing_passes(to), *own]


def describe(name: str) -> str:
    """Return the explanation of a pass (also of a backend), a finding or an error, by name or code.

    Raises:
        PassError: when there is nothing of that name.
    """
    return describe_pass(name, [type(p) for target in TARGETS for p in passes_of(target)])


def _prepared(
    graph: Graph,
    to: str,
    options: dict[str, Any],
    print_after: Callable[[Pass, Graph], None] | None = None,
) -> Graph:
    """Prepare a graph for a target; the options that say how are taken out of all, the backend's stay."""
    chosen = {name: options.pop(name) for name in switches_of(to) & options.keys()}
    for preparation in find_target(to).preparations:
        if preparation.applies(graph, {**options, **chosen}):
            graph = prepare(graph, _passes_of(preparation), print_after=print_after)
    return graph


def switches_of(to: str) -> set[str]:
    """Return the options of `save` that leave a target's preparations out."""
    return {preparation.option for preparation in find_target(to).preparations}


def _preparing_passes(to: str) -> list[Pass]:
    return [pass_ for preparation in find_target(to).preparations for pass_ in _passes_of(preparation)]


def _passes_of(preparation: Preparation) -> list[Pass]:
    return [parse_pass(text) for text in preparation.passes]


def passes_with_codes() -> list[type[Pass]]:
    """Return every pass that states codes, those of targets included, by name."""
    passes = {cls.name: cls for cls in available_passes()}
    passes |= {p.name: type(p) for target in TARGETS for p in passes_of(target)}
    return [cls for _, cls in sorted(passes.items()) if cls.codes]


def pass_codes() -> dict[str, dict[str, str]]:
    """Return pass -> its codes and their meanings, for every pass, also those of targets."""
    return {cls.name: dict(cls.codes) for cls in passes_with_codes()}
