"""Imports the net of an emitted folder from its ``model.py``."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ...formats.renames import computed, read_renames
from ...frontends.mindspore_cell.initializers import state_laws
from ...frontends.mindspore_cell.tree import walk
from ...ir import Graph, ModelError
from .mindspore_cells import cells_of, refusal, start

_numbers = itertools.count()


def emitted_net(folder: Path) -> tuple[Any, dict[int, str | tuple[str, ...]], str]:
    """Return the net that ``build()`` constructs and fills from the checkpoint beside it.

    Returns:
        The net, the source's paths of its Cells by their ids, and the module's name in `sys.modules`.

    Raises:
        ModelError: when ``model.py`` or ``renames.json`` cannot be used.
    """
    return _built(folder, lambda module: module.build())


def emitted_net_without_values(
    folder: Path, edit: Callable[[ast.Module], None]
) -> tuple[Any, dict[int, str | tuple[str, ...]], str, Path]:
    """As `emitted_net`, with Parameters that hold no memory, and the checkpoint that has their values.

    Args:
        folder: the folder.
        edit: changes the tree of ``model.py`` before it runs.

    Raises:
        ModelError: as in `emitted_net`.
    """
    start()
    from mindspore.nn.utils import no_init_parameters

    checkpoints: list[Path] = []

    def build(module: Any) -> Any:
        module.load = lambda _, checkpoint: checkpoints.append(Path(checkpoint))
        with no_init_parameters():
            return module.build()

    net, paths, name = _built(folder, build, edit)
    if not checkpoints:
        sys.modules.pop(name, None)
        raise ModelError(
            "E702",
            "expected `build` to call `load`, as in the emitted model.py",
            place=str(folder / "model.py"),
        )
    return net, paths, name, checkpoints[0]


def _built(
    folder: Path, build: Callable[[Any], Any], edit: Callable[[ast.Module], None] | None = None
) -> tuple[Any, dict[int, str | tuple[str, ...]], str]:
    """Return what `emitted_net` does, with the net that `build` makes of the module."""
    start()
    module = _import_module(folder / "model.py", edit)
    try:
        net = build(module)
    except Exception as error:  # emitted code, which a user may have edited
        sys.modules.pop(module.__name__, None)
        raise refusal("build", error, str(folder / "model.py")) from error
    return net, _source_paths(folder, net), module.__name__


def constructed(folder: Path) -> Graph:
    """Return the tree, with initial distributions, of the net that ``build(checkpoint=None)`` draws.

    Raises:
        ModelError: when ``model.py`` cannot be used.
    """
    start()
    module = _import_module(folder / "model.py")
    graph = Graph()
    try:
        net = module.build(checkpoint=None)
        state_laws(graph, walk(graph, net), net)
    except Exception as error:  # emitted code, which a user may have edited
        raise refusal("build", error, str(folder / "model.py")) from error
    finally:
        sys.modules.pop(module.__name__, None)
    return graph


def net_inputs(net: Any) -> list[str]:
    """Return the names of the arguments of an emitted net's `construct`."""
    return list(inspect.signature(net.construct).parameters)


def _source_paths(folder: Path, net: Any) -> dict[int, str | tuple[str, ...]]:
    """Return id of a Cell -> its path or paths in the source, by ``renames.json``; else its own."""
    sources: dict[str, tuple[str, ...]] = {}
    folded: set[str] = set()  # layers that others were folded into compute something of their own
    if (folder / "renames.json").exists():
        document = read_renames(folder / "renames.json")
        renamed, rows = document.get("modules"), document.get("parameters")
        assert isinstance(renamed, dict)
        assert isinstance(rows, list)
        for source, target in renamed.items():
            sources[target] = (*sources.get(target, ()), source)
        others = (row["target"] for row in rows if computed(str(row.get("transform"))))
        folded = {name.rpartition(".")[0] for name in others}
    # a Cell that only the target has may bear the path of another
    taken = {path for paths in sources.values() for path in paths}
    return {
        id(cell): sources.get(path, path)
        for path, cell in cells_of(net)
        if (path in sources or path not in taken) and path not in folded
    }


def _import_module(path: Path, edit: Callable[[ast.Module], None] | None = None) -> ModuleType:
    name = f"regraft_emitted_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # MindSpore reads the source of classes by way of their module
    try:
        if edit is None:
            spec.loader.exec_module(module)
        else:
            tree = ast.parse(path.read_bytes(), str(path))
            edit(tree)
            exec(compile(tree, str(path), "exec"), module.__dict__)  # noqa: S102 - as the import does
    except Exception as error:  # emitted code, which a user may have edited
        sys.modules.pop(name, None)
        raise refusal("import", error, str(path)) from error
    return module
