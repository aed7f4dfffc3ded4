"""Imports the ``model.py`` of an emitted folder, and pairs its modules with those of its source."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from ...formats.renames import FOLDED, read_renames
from ...ir import framework_refusal
from .runs import Placeholder, Runner

_numbers = itertools.count()

Paths = dict[int, "str | tuple[str, ...]"]
"""id of a module -> its path in the source, or those of its modules whose calls are calls of it, in turn."""


@dataclass(frozen=True, slots=True)
class EmittedCall:
    """A recorded call of a module whose class the emitted file defines.

    Attributes:
        name: the call's name in the source, ``layer1.0#1``.
        cell: the module as an expression, ``net.layer1[0]``.
        arguments: arguments as source, ``{0}`` for the first tensor; None if there are other values.
    """

    name: str
    cell: str
    arguments: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class WrittenNet:
    """The net of an emitted folder, for what is written beside it.

    Attributes:
        parameters: name -> whether it is trained, in the net's order.
        inputs: names of the arguments of its method.
    """

    parameters: Mapping[str, bool]
    inputs: Sequence[str]


class LoadNothing:
    """Builds the net of a ``model.py`` without the values of its checkpoint.

    Attributes:
        checkpoint: the file that `load` was called with; None until then.
    """

    def __init__(self) -> None:
        self.checkpoint: Path | None = None

    def build(self, module: Any, without_values: AbstractContextManager[object]) -> Any:
        """Return what `build` makes in a with block in which parameters get no memory."""
        module.load = self._load
        with without_values:
            return module.build()

    def _load(self, _net: object, checkpoint: str | Path) -> None:
        self.checkpoint = Path(checkpoint)


class SourceRunner(Runner, Protocol):
    """The net of an emitted folder in a runtime."""

    def emitted_calls(self) -> dict[str, list[EmittedCall]]:
        """Return class of the emitted file, in its order -> calls of its modules in the last `run`."""
        ...


def argument_sources(arguments: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Return recorded arguments as source, ``{0}`` for tensor 0; None if one is no tensor, tuple or None."""
    try:
        return tuple(map(_argument_source, arguments))
    except TypeError:
        return None


def _argument_source(value: Any) -> str:
    if isinstance(value, Placeholder):
        return f"{{{value.index}}}"
    if type(value) in (tuple, list):
        inside = ", ".join(map(_argument_source, value))
        return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
    if value is None:
        return "None"
    raise TypeError(type(value).__name__)


def own_classes(imported: str) -> list[str]:
    """Return the names of the classes that an imported ``model.py`` defines, in its order."""
    classes = [c for c in vars(sys.modules[imported]).values() if isinstance(c, type)]
    return [c.__name__ for c in classes if c.__module__ == imported]


def source_paths(folder: Path, modules: Iterable[tuple[str, Any]]) -> Paths:
    """Return the paths in the source by ``renames.json``, else its own.

    Args:
        folder: the emitted folder.
        modules: (path, module) of every module of its net.
    """
    sources: dict[str, tuple[str, ...]] = {}
    folded: set[str] = set()  # layers that others were folded into compute something of their own
    if (folder / "renames.json").exists():
        document = read_renames(folder / "renames.json")
        renamed, rows = document.get("modules"), document.get("parameters")
        assert isinstance(renamed, dict)
        assert isinstance(rows, list)
        for source, target in renamed.items():
            sources[target] = (*sources.get(target, ()), source)
        others = (row["target"] for row in rows if str(row.get("transform")).partition(":")[0] == FOLDED)
        folded = {name.rpartition(".")[0] for name in others}
    # a module that only the target has may bear the path of another
    taken = {path for paths in sources.values() for path in paths}
    return {
        id(module): sources.get(path, path)
        for path, module in modules
        if (path in sources or path not in taken) and path not in folded
    }


def import_model(
    path: Path, refusal: Callable[..., Exception], edit: Callable[[ast.Module], None] | None = None
) -> ModuleType:
    """Import a ``model.py`` under a name of its own.

    Args:
        path: the file.
        refusal: makes the error of an exception that the file raises.
        edit: changes the tree of the file before it runs.

    Raises:
        ModelError: when the file raises, or imports a framework that is missing (E105).
    """
    name = f"regraft_emitted_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # by which frameworks find the source of classes
    try:
        if edit is None:
            spec.loader.exec_module(module)
        else:
            tree = ast.parse(path.read_bytes(), str(path))
            edit(tree)
            exec(compile(tree, str(path), "exec"), module.__dict__)  # noqa: S102 - as the import does
    except Exception as error:  # emitted code, which a user may have edited
        sys.modules.pop(name, None)
        missing = framework_refusal(error, str(path), submodules=False)
        raise missing or refusal("import", error, str(path)) from error
    return module
