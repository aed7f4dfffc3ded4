"""Backends: each states what it can emit, lowers the rest, and writes files. A target is a row here."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from ..ir import BackendError, Graph, UsageError
from ..ir.analysis.absence import require_values
from ..ir.declarations import Declaration, declare_domain

if TYPE_CHECKING:
    from ..passes.base import Pass


@dataclass(frozen=True, slots=True)
class Preparation:
    """Passes that a graph gets for one target alone, before those of the target's backend.

    Attributes:
        passes: their names in order, with options as on the command line; without a change by the first, the
            graph stays as it is.
        option: option of `save` that leaves them out if false.
        only_flat: whether they are left out for models of frameworks that have modules.
        wanted_by: option of the backend's `write` without which they are left out; empty for none.
    """

    passes: tuple[str, ...]
    option: str
    only_flat: bool = False
    wanted_by: str = ""

    def applies(self, graph: Graph, options: Mapping[str, object]) -> bool:
        """Whether the passes apply to a graph with these options."""
        wanted = not self.wanted_by or bool(options.get(self.wanted_by))
        chosen = bool(options.get(self.option, True))
        return wanted and chosen and not (self.only_flat and graph.origin.has_modules)


@dataclass(frozen=True, slots=True)
class Target:
    """A target that a graph can be written for.

    Attributes:
        name: its name for ``--to``.
        writes: what an output path denotes, in words.
        folder: its package here, which has `write` and `LOWERING`, the backend's own passes in order.
        preparations: further passes that it gets before, in order.
        suffix: suffix of its file; empty if it writes a directory.
        domain: domain of its own operators, in the package's `operators.TABLE`; empty for none.
        holds_stubs: whether it can write stubs for a person to fill in, with the option `partial`.
        writes_tests: whether its package has `write_tests`.
        further: names of files that depend on options, or patterns; ``{}`` stands for the first file's name.
        takes_emitters: whether users add emitters of their own; its package's `emitters` then has
            `own_emitters`, which returns the table and what makes an emitter of a user's function.
        in_shards: whether it can write weights in several files; its package then has `earlier_files`.
        is_read_back: whether verification reads the first file back by our own frontend.
        runs_in: the framework that verification runs it in; empty for one that is always installed.
        prints: kinds of prints and dumps that its output can have (`--keep-prints`).
        in_pieces: whether verification can run its output in pieces, for models larger than the memory.
        formats: formats of its weights, for the option `checkpoint_format` of its `write`; empty without it.
        pass_options: options of its `write` that decide how its passes run; its package has `choose_passes`,
            which is given them.
    """

    name: str
    writes: str
    folder: str
    preparations: tuple[Preparation, ...] = ()
    suffix: str = ""
    domain: str = ""
    holds_stubs: bool = False
    writes_tests: bool = False
    further: tuple[str, ...] = ()
    takes_emitters: bool = False
    in_shards: bool = False
    is_read_back: bool = False
    runs_in: str = ""
    prints: tuple[str, ...] = ()
    in_pieces: bool = False
    formats: tuple[str, ...] = ()
    pass_options: tuple[str, ...] = ()

    def load(self, module: str = "") -> ModuleType:
        """Import the package, or one of its modules, on first use."""
        return import_module(f"{__name__}.{self.folder}{module and f'.{module}'}")

    def folder_of(self, path: Path) -> Path:
        """Return the directory that holds an output's files."""
        return path.parent if self.suffix else path

    def earlier_files(self, path: Path) -> list[str]:
        """Return the shards beside an output from an earlier, larger one of ours."""
        return self.load().earlier_files(path) if self.in_shards else []

    def exists(self, path: Path) -> bool:
        """Whether there is an output already."""
        return path.exists() if self.suffix else path.is_dir() and any(path.iterdir())


_SUMMARIES = ("Tensor", "Scalar", "Image", "Histogram")

TARGETS = {
    target.name: target
    for target in (
        Target(
            "mindspore",
            "a directory",
            "mindspore_source",
            (Preparation(("group-modules", "rename-parameters"), "group", only_flat=True),),
            domain="regraft.mindspore",
            holds_stubs=True,
            writes_tests=True,
            takes_emitters=True,
            in_shards=True,
            runs_in="mindspore",
            prints=("Print", "TensorDump", "Assert", *(f"{kind}Summary" for kind in _SUMMARIES)),
            in_pieces=True,
            formats=("ckpt", "safetensors"),
            pass_options=("partial", "attention_layers"),
            further=(
                "model.ckpt",
                "model.safetensors",
                "model-*-of-*.safetensors",
                "test_model.py",
                "test_model.npz",
                "train.py",
            ),
        ),
        Target(
            "onnx",
            "an .onnx file",
            "onnx_model",
            (
                Preparation(
                    ("group-modules", "rename-parameters"), "group", only_flat=True, wanted_by="functions"
                ),
                Preparation(("prepare-for-inference",), "fold"),  # a file is there to be run
            ),
            suffix=".onnx",
            in_pieces=True,
            in_shards=True,
            further=("{}.data", "{}-*-of-*.data"),
        ),
        Target(
            "torch",
            "a directory",
            "torch_source",
            (Preparation(("group-modules", "rename-parameters"), "group", only_flat=True),),
            holds_stubs=True,
            writes_tests=True,
            takes_emitters=True,
            in_shards=True,
            runs_in="torch",
            prints=("Print",),
            in_pieces=True,
            formats=("safetensors", "pth"),
            pass_options=("partial",),
            further=(
                "model.pth",
                "model.safetensors",
                "model-*-of-*.safetensors",
                "constants.safetensors",
                "test_model.py",
                "test_model.npz",
                "train.py",
            ),
        ),
        Target("mxnet", "a directory", "mxnet_symbol", takes_emitters=True, is_read_back=True),
    )
}
"""Name -> target."""


def _operators_of(target: Target) -> Mapping[str, Declaration]:
    return target.load("operators").TABLE


def _operators_of_source() -> Mapping[str, Declaration]:
    from .source.operators import TABLE

    return TABLE


declare_domain("regraft.source", _operators_of_source)
for _target in TARGETS.values():
    if _target.domain:
        declare_domain(_target.domain, partial(_operators_of, _target))


def infer_target(path: Path) -> str | None:
    """Return the name of the target that an output path implies, or None."""
    return next((t.name for t in TARGETS.values() if t.suffix and path.suffix == t.suffix), None)


def find_target(name: str) -> Target:
    """Return the target of a name.

    Raises:
        UsageError: when there is none.
    """
    if name not in TARGETS:
        raise UsageError("E001", f"expected a target among {', '.join(TARGETS)}, got `{name}`")
    return TARGETS[name]


_WITH_TESTS = ("emit_tests", "recipe")
"""Options of what is written beside the source of a target that has tests."""


def takes_option(name: str, option: str) -> bool:
    """Whether a target takes an option of writing; every target takes those that no backend's `write` has.

    Args:
        name: name of the target.
        option: as `write`, or what writes tests and recipes beside its files, calls it.
    """
    target = find_target(name)
    if option in _WITH_TESTS:
        return target.writes_tests
    having = [each.name for each in TARGETS.values() if option in signature(each.load().write).parameters]
    return not having or name in having


def passes_of(name: str, options: Mapping[str, object] = MappingProxyType({})) -> Sequence[Pass]:
    """Return a backend's own passes, in order.

    Args:
        name: name of the target.
        options: of its `write`; those that decide nothing about passes are passed over.

    Raises:
        UsageError: when there is no such target.
    """
    target = find_target(name)
    chosen = {each: options[each] for each in target.pass_options if each in options}
    return target.load().choose_passes(**chosen) if chosen else target.load().LOWERING


def lower_for(
    graph: Graph,
    name: str,
    options: Mapping[str, object] = MappingProxyType({}),
    *,
    print_after: Callable[[Pass, Graph], None] | None = None,
) -> Graph:
    """Return a copy of a graph after a target's own passes.

    Args:
        graph: the graph, after the passes that are no backend's own.
        name: name of the target.
        options: as in `passes_of`.
        print_after: called after each pass with the pass and the graph.

    Raises:
        UsageError: when there is no such target.
        UnsupportedError: listing every operator that the backend can neither emit nor expand.
    """
    from .lowering import lower

    return lower(graph, passes_of(name, options), print_after=print_after)


def stubs_of(graph: Graph, name: str) -> list[str]:
    """Describe the operators of a graph that a target with stubs leaves to be written by hand.

    Raises:
        BackendError: when a composite cannot be expanded in the form it has here.
    """
    if not find_target(name).holds_stubs:
        return []
    legal = lower_for(graph, name, {"partial": True})
    return [
        f"`{node.str('operator')}` - at {node.location or legal.describe(node.key)}"
        for node in legal.operators()
        if node.qualified_name == "regraft.Stub"
    ]


def find_stale_files(files: Sequence[Path], name: str) -> list[Path]:
    """Return files that an earlier output with other options left beside these.

    Args:
        files: the files that `write` returned.
        name: name of the target.
    """
    first, written = files[0], {file.name for file in files}
    patterns = [further.format(glob.escape(first.name)) for further in find_target(name).further]
    beside = [path for pattern in patterns for path in sorted(first.parent.glob(pattern))]
    return [path for path in beside if path.is_file() and path.name not in written]


def write(graph: Graph, path: Path, to: str, *, force: bool = False, **options: object) -> list[Path]:
    """Write a graph for a target; returns the files written.

    Args:
        graph: the graph, after the passes.
        path: what the target's `writes` says.
        to: a key of `TARGETS`.
        force: whether existing files may be replaced.
        options: the backend's own.

    Raises:
        UsageError: when the target does not exist, or the path or an option does not fit it.
        UnsupportedError: listing every operator that the backend can neither emit nor expand.
    """
    require_fitting(path, to, options)
    require_values(graph)
    require_storable_names(graph)
    return find_target(to).load().write(graph, path, force=force, **options)


def require_storable_names(graph: Graph) -> None:
    """Check that a file can hold every name: UTF-8 has no half of a surrogate pair.

    Raises:
        BackendError: for the first that it cannot hold (E602).
    """
    paths = (graph.modules.path(module.key) for module in graph.modules)
    held = (name for parameter in graph.parameters() for name in (parameter.name, parameter.declared))
    ends = (*(node.name for node in graph.input_nodes()), *(name for name, _ in graph.outputs))
    for name in (*paths, *held, *ends):
        lone = None if name.isascii() else _SURROGATE.search(name)
        if lone is not None:
            raise BackendError(
                "E602",
                f"expected names in UTF-8, got the lone surrogate U+{ord(lone[0]):04X} in `{name}`",
                place=f"graph `{graph.name}`",
                hint="give the module, parameter, input or output another name",
            )


_SURROGATE = re.compile("[\ud800-\udfff]")


def require_fitting(path: Path, to: str, options: Mapping[str, object]) -> None:
    """Check that a target takes an output of this name, and these options.

    Raises:
        UsageError: when the target does not exist, or the path or an option does not fit it.
    """
    target = find_target(to)
    if target.suffix and path.suffix != target.suffix:
        hint = f"name the output `{path.name}{target.suffix}`, or leave the target out"
        raise UsageError("E001", f"expected {target.writes} as output, got `{path}`", hint=hint)
    if not target.suffix and infer_target(path) is not None:
        hint = f"name a folder, `{path.stem}`, or leave the target out"
        raise UsageError("E001", f"expected {target.writes} for `{to}`, got `{path}`", hint=hint)
    backend = target.load().write
    unknown = [name for name in options if name not in signature(backend).parameters]
    if unknown:
        listed = ", ".join(f"`{name}`" for name in unknown)
        raise UsageError(
            "E001",
            f"expected options of the target `{to}`, got {listed}",
            hint="leave them out for this target",
        )
    wanted = options.get("checkpoint_format")
    if wanted is not None and wanted not in target.formats:
        raise UsageError(
            "E001",
            f"expected a checkpoint format among {', '.join(target.formats)} for `{to}`, got `{wanted}`",
        )
