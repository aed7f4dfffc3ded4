"""Imports the net of an emitted folder from its ``model.py``."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...frontends.mindspore_cell.initializers import state_laws
from ...frontends.mindspore_cell.tree import walk
from ...ir import Graph
from .emitted_folder import LoadNothing, Paths, WrittenNet, import_model, source_paths
from .mindspore_cells import cells_of, refusal, start


def emitted_net(folder: Path) -> tuple[Any, Paths, str]:
    """Return the net that ``build()`` constructs and fills from the checkpoint beside it.

    Returns:
        The net, the source's paths of its Cells by their ids, and the module's name in `sys.modules`.

    Raises:
        ModelError: when ``model.py`` or ``renames.json`` cannot be used.
    """
    return _built(folder, lambda module: module.build())


def emitted_net_without_values(
    folder: Path, edit: Callable[[ast.Module], None]
) -> tuple[Any, Paths, str, Path | None]:
    """Build a net as `emitted_net` does, with Parameters without memory, and return its checkpoint too.

    A net without parameters has no checkpoint.

    Args:
        folder: the folder.
        edit: changes the tree of ``model.py`` before it runs.

    Raises:
        ModelError: as in `emitted_net`.
    """
    start()
    from mindspore.nn.utils import no_init_parameters

    loading = LoadNothing()
    net, paths, name = _built(folder, lambda module: loading.build(module, no_init_parameters()), edit)
    return net, paths, name, loading.checkpoint


def _built(
    folder: Path, build: Callable[[Any], Any], edit: Callable[[ast.Module], None] | None = None
) -> tuple[Any, Paths, str]:
    """Return what `emitted_net` does, with the net that `build` makes of the module."""
    start()
    module = import_model(folder / "model.py", refusal, edit)
    try:
        net = build(module)
    except Exception as error:  # emitted code, which a user may have edited
        sys.modules.pop(module.__name__, None)
        raise refusal("build", error, str(folder / "model.py")) from error
    return net, source_paths(folder, cells_of(net)), module.__name__


def drawn_net(folder: Path) -> Graph:
    """Return the tree, with initial distributions, of the net that ``build(checkpoint=None)`` draws.

    Raises:
        ModelError: when ``model.py`` cannot be used.
    """
    start()
    module = import_model(folder / "model.py", refusal)
    graph = Graph()
    try:
        net = module.build(checkpoint=None)
        state_laws(graph, walk(graph, net), net)
    except Exception as error:  # emitted code, which a user may have edited
        raise refusal("build", error, str(folder / "model.py")) from error
    finally:
        sys.modules.pop(module.__name__, None)
    return graph


def describe_net(folder: Path) -> WrittenNet:
    """Return the parameters of an emitted net, and the names of the arguments of its `construct`.

    Raises:
        ModelError: when ``model.py`` cannot be used.
    """
    net, _, name = emitted_net(folder)
    sys.modules.pop(name, None)
    trained = {p.name: bool(p.requires_grad) for p in net.get_parameters()}
    return WrittenNet(trained, list(inspect.signature(net.construct).parameters))
