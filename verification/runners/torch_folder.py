"""Runs the net of an emitted folder of PyTorch source."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...frontends import LoadOptions, read_tree
from ...frontends.torch_module.export.tensors import array_of
from ...ir import Graph, ModelError, TensorData
from ..structure.settings import Setting
from ..structure.sharing import Held
from ..structure.torch_settings import SettingsRecorder
from .emitted_folder import WrittenNet, import_model, source_paths
from .runs import Run
from .torch_runner import TorchRunner


class TorchFolderRunner(TorchRunner):
    """The module that ``build()`` of a folder makes, in eager mode.

    Args:
        folder: the emitted folder.
        build: makes the net of its ``model.py``; see `build_net`.

    Attributes:
        settings: what acts in training only, as the first recorded run came by it.

    Raises:
        ModelError: when ``model.py`` or ``renames.json`` cannot be used.
    """

    def __init__(self, folder: Path, build: Callable[[Any], Any] | None = None) -> None:
        self._folder = folder
        self.settings: list[Setting] | None = None
        net, name = build_net(folder, build or (lambda module: module.build()))
        super().__init__(read_tree(net, LoadOptions()), imported=name)

    def _run(
        self, inputs: Mapping[str, np.ndarray], calls: bool, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Run:
        if not calls or self.settings is not None:
            return super()._run(inputs, calls, given)
        recorder = SettingsRecorder(self._model, self._sources)
        with recorder.recording():
            found = super()._run(inputs, calls, given)
        self.settings = recorder.found
        return found

    @cached_property
    def _sources(self) -> Mapping[int, str | tuple[str, ...]]:
        """Id of a module -> its path or paths in the source."""
        return source_paths(self._folder, self._model.named_modules())

    @cached_property
    def _paths(self) -> dict[Any, str]:
        """Module object -> its path in the source, the first of several."""
        found = {module: self._sources.get(id(module)) for module in self._model.modules()}
        return {m: p if isinstance(p, str) else p[0] for m, p in found.items() if p is not None}

    def _trained_paths(self) -> dict[Any, str]:
        return {module: path for path, module in self._model.named_modules()}

    def _paths_of(self, module: Any) -> str | tuple[str, ...]:
        return self._sources[id(module)]

    @cached_property
    def _named_tensors(self) -> dict[str, Any]:
        """Parameters and buffers by their names in the net."""
        return {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}

    def held(self) -> list[Held]:
        """Return the net's parameters and buffers, each with every name that it is registered under."""
        names: dict[int, list[str]] = {}
        tensors: dict[int, Any] = {}
        kept = self._model.state_dict(keep_vars=True)
        for name, tensor in kept.items():
            names.setdefault(id(tensor), []).append(name)
            tensors[id(tensor)] = tensor
        return [Held.of(names[key], TensorData.of(array_of(tensor))) for key, tensor in tensors.items()]


def _refusal(action: str, error: Exception, place: str = "") -> ModelError:
    return ModelError(
        "E702", f"torch could not {action} the model: {type(error).__name__}: {error}", place=place
    )


def build_net(folder: Path, build: Callable[[Any], Any]) -> tuple[Any, str]:
    """Return the net that `build` makes of the folder's ``model.py``, and the module's name.

    Raises:
        ModelError: when ``model.py`` cannot be used.
    """
    module = import_model(folder / "model.py", _refusal)
    try:
        return build(module), module.__name__
    except ModelError:
        sys.modules.pop(module.__name__, None)
        raise
    except Exception as error:  # emitted code, which a user may have edited
        sys.modules.pop(module.__name__, None)
        raise _refusal("build", error, str(folder / "model.py")) from error


def constructed(folder: Path) -> Graph:
    """Return the tree, with initial distributions, of the net that ``build(checkpoint=None)`` draws.

    Raises:
        ModelError: when ``model.py`` cannot be used.
    """
    net, name = build_net(folder, lambda module: module.build(checkpoint=None))
    try:
        return read_tree(net, LoadOptions())
    finally:
        sys.modules.pop(name, None)


def written_net(folder: Path) -> WrittenNet:
    """Return the parameters of an emitted net, and the names of the arguments of its `forward`.

    Raises:
        ModelError: when ``model.py`` cannot be used.
    """
    net, name = build_net(folder, lambda module: module.build())
    sys.modules.pop(name, None)
    trained = {name: parameter.requires_grad for name, parameter in net.named_parameters()}
    return WrittenNet(trained, list(inspect.signature(net.forward).parameters))


def output_runner(path: Path, threads: int | None = None, *, optimised: bool = True) -> TorchFolderRunner:
    """Return a runner of an emitted folder; see `registry`."""
    del threads, optimised  # torch takes their number from the process, and fuses nothing in eager mode
    return TorchFolderRunner(path)
