"""The runners of eager frameworks share the names of recorded calls, and what is put back behind a run."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from .emitted_folder import EmittedCall, argument_sources, own_classes
from .records import ValueStore
from .runs import Run

if TYPE_CHECKING:
    from ...frontends.training_script import RecipeFunction
    from ..recipes.trajectories import Reading


class CallNames:
    """The names of the calls of one run, ``layer1.0#2``, in the order in which they are made."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._turns: dict[int, int] = {}

    def name(self, module: Any, paths: str | tuple[str, ...]) -> str:
        """Return the name of the next call of a module that stands for one path, or for several in turn."""
        path = paths
        if not isinstance(path, str):
            turn = self._turns[id(module)] = self._turns.get(id(module), -1) + 1
            path = path[turn % len(path)]
        self._counts[path] = self._counts.get(path, 0) + 1
        return f"{path}#{self._counts[path]}"

    def forget(self, name: str) -> None:
        """Take back the last name of a path, whose call raised."""
        self._counts[name.rpartition("#")[0]] -= 1


class EagerRunner(ABC):
    """A module in a framework that computes at once.

    Attributes:
        _arguments: name of a recorded call -> its module, and what calls it again.
        _imported: name in `sys.modules` of the file that an emitted net came from; empty for another net.
    """

    def __init__(self, imported: str = "") -> None:
        self._arguments: dict[str, tuple[Any, ...]] = {}
        self._kept: list[tuple[Any, Any]] = []
        self._store = ValueStore()
        self._imported = imported

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the module; see `Runner`."""
        return self._run(inputs, calls, {})

    def run_with(self, inputs: Mapping[str, np.ndarray], given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the module with other values in place of what some calls return; see `Runner`."""
        return self._run(inputs, True, given)

    @abstractmethod
    def _run(
        self, inputs: Mapping[str, np.ndarray], calls: bool, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Run:
        """Run the module; `given`: results that replace those of the calls named."""

    def _start_recording(self) -> None:
        """Forget the calls of the run before."""
        self._arguments = {}
        self._store = ValueStore()

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Call one module with the arguments it was last called with, tensors replaced; see `Runner`."""
        return self.run_part(call, self._arguments[call][0], inputs)

    @abstractmethod
    def run_part(self, call: str, part: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Call a module in the place of another one; see `Replacing`."""

    def emitted_calls(self) -> dict[str, list[EmittedCall]]:
        """Return class of the emitted file, in its order -> calls of its modules in the last `run`."""
        expressions = self._expressions()
        found: dict[str, list[EmittedCall]] = {name: [] for name in own_classes(self._imported)}
        for name, (module, *_) in self._arguments.items():
            if type(module).__name__ in found and type(module).__module__ == self._imported:
                arguments, keywords = self._recorded_arguments(name)
                given = None if keywords else argument_sources(tuple(arguments))
                found[type(module).__name__].append(EmittedCall(name, expressions[id(module)], given))
        return found

    @abstractmethod
    def _expressions(self) -> dict[int, str]:
        """Return id of a module -> the expression that reaches it from ``net``."""

    @abstractmethod
    def _recorded_arguments(self, call: str) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the arguments and keywords of a recorded call, with placeholders for tensors."""

    def read_recipe(
        self, function: RecipeFunction, reference: str, inputs: Mapping[str, np.ndarray], steps: int
    ) -> Reading:
        """Read a training script for this module; see `Learner`."""
        with self._lent():
            return self._training(function, reference).read(inputs, steps)

    @abstractmethod
    def _training(self, function: RecipeFunction, reference: str) -> Any:
        """Return what trains this module by a script."""

    @abstractmethod
    def _lent(self) -> AbstractContextManager[object]:
        """Return a with block in which a training script may use the module, unchanged behind it."""

    @abstractmethod
    def _put_back(self, tensor: Any, value: Any) -> None:
        """Set a parameter to the value that it had before `fill`."""

    def close(self) -> None:
        """Forget the recorded arguments and an imported net; values are as they were before `fill`."""
        self._arguments = {}
        self._store.clear()
        for tensor, value in reversed(self._kept):
            self._put_back(tensor, value)
        self._kept = []
        sys.modules.pop(self._imported, None)
