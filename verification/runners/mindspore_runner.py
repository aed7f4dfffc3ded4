"""Runs MindSpore Cells, live or emitted, in PyNative mode, and leaves them as they were."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...backends.renames import read_renames
from ...frontends.mindspore_cell.capture import start_mindspore
from ...frontends.mindspore_cell.state import borrowed
from ...frontends.mindspore_cell.tree import walk
from ...ir import Graph, ModelError
from ..training.step import Step
from .runs import CallRecord, Run

_numbers = itertools.count()

_COARSE = frozenset({"GRU", "LSTM", "RNN", "Tanh"})
"""Operators that compute a tanh: MindSpore's ends at |x| = 5 on the CPU, 1e-4 (843 units) short of 1."""


def start() -> None:
    """Import MindSpore the way it is right and fast.

    Raises:
        ModelError: when it is not installed.
    """
    if "mindspore" not in sys.modules:
        # its convolutions are 10 to 100 times too slow on AVX-512 otherwise; oneDNN reads it on loading
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    start_mindspore()


@dataclass(frozen=True, slots=True)
class EmittedCall:
    """A recorded call of a Cell whose class the emitted file defines.

    Attributes:
        name: the call's name in the source, ``layer1.0#1``.
        cell: the Cell as an expression, ``net.layer1[0]``.
        arguments: as source, with ``{0}`` for the first tensor; None where they hold more than tensors.
    """

    name: str
    cell: str
    arguments: tuple[str, ...] | None


class MindSporeRunner:
    """A Cell in PyNative mode; `of_graph` and `of_folder` make one.

    Args:
        net: the Cell.
        paths: id of a Cell -> the source's path of the module, or those of its modules whose calls are calls
            of this Cell, in turn.
        outputs: names of the outputs; empty when not known.
        imported: name in `sys.modules` to be removed on closing.
        cells: every Cell that may run, also those that no Cell has registered.
        parameters: name -> Parameter, each once; None for the names that they bear.
    """

    def __init__(
        self,
        net: Any,
        paths: Mapping[int, str | tuple[str, ...]],
        outputs: Sequence[str] = (),
        imported: str = "",
        cells: Sequence[Any] = (),
        parameters: dict[str, Any] | None = None,
    ) -> None:
        import mindspore

        self._net, self._paths, self._outputs, self._imported = net, paths, list(outputs), imported
        self._cells = list(cells) or [cell for _, cell in _cells(net)]
        self._parameters = parameters or {p.name: p for p in _parameters(self._cells)}
        self._arguments: dict[str, tuple[Any, Any]] = {}
        self._kept: list[tuple[Any, np.ndarray]] = []
        self.runtime = f"MindSpore {mindspore.__version__} (PyNative, evaluation mode)"

    @staticmethod
    def of_graph(graph: Graph) -> MindSporeRunner:
        """The live Cell that a graph came from."""
        start()
        net = graph.origin.model
        walked = Graph()
        tree = walk(walked, net)  # the frontend's own walk: the same Cells get the same keys
        paths = {cell: graph.modules.path(key) for cell, key in tree.modules.items() if key in graph.modules}
        held = walked.parameter_paths()
        named = {held[tree.parameters[id(p)]][0]: p for p in tree.tensors}
        outputs = [n for n, _ in graph.outputs]
        return MindSporeRunner(net, paths, outputs, cells=list(tree.cells.values()), parameters=named)

    @staticmethod
    def of_folder(folder: Path) -> MindSporeRunner:
        """The net that an emitted folder's ``build()`` constructs and fills from the checkpoint beside it.

        Raises:
            ModelError: when ``model.py`` or ``renames.json`` cannot be used.
        """
        start()
        module = _import(folder / "model.py")
        try:
            net = module.build()
        except Exception as error:  # emitted code, which a user may have edited
            sys.modules.pop(module.__name__, None)
            raise _refusal("build", error, str(folder / "model.py")) from error
        sources: dict[str, tuple[str, ...]] = {}
        folded: set[str] = set()  # layers that others were folded into compute something of their own
        if (folder / "renames.json").exists():
            document = read_renames(folder / "renames.json")
            renamed, rows = document.get("modules"), document.get("parameters")
            assert isinstance(renamed, dict)
            assert isinstance(rows, list)
            for source, target in renamed.items():
                sources[target] = (*sources.get(target, ()), source)
            derived = (row["target"] for row in rows if row.get("transform") == "derived")
            folded = {name.rpartition(".")[0] for name in derived}
        taken = {
            path for paths in sources.values() for path in paths
        }  # a Cell that only the target has may bear the path of another
        paths = {
            id(cell): sources.get(path, path)
            for path, cell in _cells(net)
            if (path in sources or path not in taken) and path not in folded
        }
        return MindSporeRunner(net, paths, imported=module.__name__)

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the Cell; see `Runner`."""
        records: dict[str, CallRecord] = {}
        if calls:
            self._arguments = {}
        with _borrowed(self._cells), _recording(self._recorder(records) if calls else None):
            try:
                # reading a result waits for it, and so brings out errors of MindSpore's asynchronous kernels
                arrays = [_array(found) for found in _results(self._net(*self._bind(inputs)))]
            except Exception as error:  # the user's construct and MindSpore's kernels may raise anything
                raise _refusal("run", error) from error
        names = (
            self._outputs if len(self._outputs) == len(arrays) else [f"output{i}" for i in range(len(arrays))]
        )
        return Run(list(zip(names, arrays, strict=True)), records)

    def _bind(self, inputs: Mapping[str, np.ndarray]) -> list[Any]:
        """Arguments in the order of `construct`, by name where its parameters bear the inputs' names."""
        from mindspore import Tensor

        tensors = {name: Tensor(np.array(value, copy=True)) for name, value in inputs.items()}
        parameters = list(inspect.signature(self._net.construct).parameters.values())
        if not set(tensors) <= {p.name for p in parameters}:
            return list(tensors.values())
        last = max((i for i, p in enumerate(parameters) if p.name in tensors), default=-1)
        return [
            tensors.get(p.name, None if p.default is inspect.Parameter.empty else p.default)
            for p in parameters[: last + 1]
        ]

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Give Parameters other values, by name, until `close`."""
        for name, value in values.items():
            parameter = self._parameters[name]
            self._kept.append((parameter, _array(parameter)))
            _set(parameter, value)

    def _recorder(self, records: dict[str, CallRecord]) -> Callable[..., Any]:
        """What replaces `Cell.__call__` while recording."""
        from mindspore.nn import Cell

        original = Cell.__call__
        counts: dict[str, int] = {}
        turns: dict[int, int] = {}

        def call(cell: Any, *arguments: Any, **keywords: Any) -> Any:
            path = self._paths.get(id(cell))
            if path is None:
                return original(cell, *arguments, **keywords)
            if isinstance(path, tuple):
                turns[id(cell)] = turns.get(id(cell), -1) + 1
                path = path[turns[id(cell)] % len(path)]
            counts[path] = counts.get(path, 0) + 1
            name = f"{path}#{counts[path]}"
            inputs: list[np.ndarray] = []

            def slot(tensor: Any) -> _Slot:
                inputs.append(_array(tensor))
                return _Slot(len(inputs) - 1)

            self._arguments[name] = (cell, _mapped((arguments, keywords), slot))
            records[name] = CallRecord(
                type(cell).__name__, inputs, []
            )  # keeps the place: parents before children
            result = original(cell, *arguments, **keywords)
            records[name].outputs.extend(map(_array, _tensors(result)))
            return result

        return call

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Call one Cell with the arguments it was last called with, tensors replaced; see `Runner`."""
        from mindspore import Tensor

        cell, structure = self._arguments[call]
        arguments, keywords = _filled(structure, [Tensor(np.array(value, copy=True)) for value in inputs])
        with _borrowed([c for _, c in _cells(cell)]):
            try:
                return [_array(t) for t in _tensors(cell(*arguments, **keywords))]
            except Exception as error:  # as in `run`
                raise _refusal("run", error) from error

    def emitted_calls(self) -> dict[str, list[EmittedCall]]:
        """Class of the emitted file, in its order -> the calls of its Cells in the last `run`."""
        expressions = _expressions(self._net)
        classes = [c for c in vars(sys.modules[self._imported]).values() if isinstance(c, type)]
        found: dict[str, list[EmittedCall]] = {
            c.__name__: [] for c in classes if c.__module__ == self._imported
        }
        for name, (cell, (arguments, keywords)) in self._arguments.items():
            if type(cell).__name__ in found and type(cell).__module__ == self._imported:
                given = None if keywords else _argument_sources(arguments)
                call = EmittedCall(name, expressions[id(cell)], given)
                found[type(cell).__name__].append(call)
        return found

    def step(self, inputs: Mapping[str, np.ndarray], seed: int) -> Step:
        """One training step; see `training_step.Trainer`.

        Raises:
            ModelError: when the Cell cannot be trained (E702).
        """
        from ..training.mindspore_step import mindspore_step

        def forward() -> list[Any]:
            return _tensors(self._net(*self._bind(inputs)))

        with _borrowed(self._cells):
            try:
                return mindspore_step(self._net, self._cells, self._parameters, forward, seed, _array)
            except ModelError:
                raise
            except Exception as error:  # as in `run`
                raise _refusal("train", error) from error

    def slack(self, operators: Set[str]) -> int:
        """Units in the last place that MindSpore's arithmetic may cost; see `Runner`."""
        return 2048 if operators & _COARSE else 64  # exp is good to 18, sigmoid to 7 (measured, 2.10 on x86)

    def close(self) -> None:
        """Forget the recorded arguments and the imported module; values are as they were before `fill`."""
        self._arguments = {}
        for parameter, value in reversed(self._kept):
            _set(parameter, value)
        self._kept = []
        sys.modules.pop(self._imported, None)


def constructed(folder: Path) -> Graph:
    """The tree of the net that an emitted folder's ``build(checkpoint=None)`` draws.

    Raises:
        ModelError: when ``model.py`` cannot be used.
    """
    start()
    module = _import(folder / "model.py")
    graph = Graph()
    try:
        walk(graph, module.build(checkpoint=None))
    except Exception as error:  # emitted code, which a user may have edited
        raise _refusal("build", error, str(folder / "model.py")) from error
    finally:
        sys.modules.pop(module.__name__, None)
    return graph


class _Slot:
    """Stands for tensor number `index` among recorded arguments."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def _import(path: Path) -> ModuleType:
    name = f"regraft_emitted_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # MindSpore reads the source of classes by way of their module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # emitted code, which a user may have edited
        sys.modules.pop(name, None)
        raise _refusal("import", error, str(path)) from error
    return module


@contextmanager
def _borrowed(cells: Sequence[Any]) -> Iterator[None]:
    """PyNative and evaluation mode inside; afterwards the Cells are as they were."""
    with borrowed(list(cells), _parameters(cells)):
        yield


def _parameters(cells: Sequence[Any]) -> list[Any]:
    """Every Parameter of the Cells, each once."""
    return list({id(p): p for cell in cells for p in cell._params.values() if p is not None}.values())


@contextmanager
def _recording(call: Callable[..., Any] | None) -> Iterator[None]:
    from mindspore.nn import Cell

    original = Cell.__call__
    if call is not None:
        Cell.__call__ = call
    try:
        yield
    finally:
        Cell.__call__ = original


def _cells(net: Any) -> list[tuple[str, Any]]:
    """(path, Cell) of every Cell, each once, under its first path; the net itself first."""
    found: dict[int, tuple[str, Any]] = {}
    stack = [("", net)]
    while stack:
        path, cell = stack.pop()
        if id(cell) in found:
            continue
        found[id(cell)] = (path, cell)
        children = [
            (f"{path}.{name}" if path else name, c) for name, c in cell._cells.items() if c is not None
        ]
        stack.extend(reversed(children))
    return list(found.values())


def _expressions(net: Any) -> dict[int, str]:
    """The identity of a Cell -> how source reaches it from ``net``."""
    from mindspore import nn

    found: dict[int, str] = {}
    stack = [(net, "net")]
    while stack:
        cell, expression = stack.pop()
        if id(cell) in found:
            continue
        found[id(cell)] = expression
        listed = isinstance(cell, (nn.CellList, nn.SequentialCell))
        for at, (name, child) in enumerate(cell._cells.items()):
            if child is not None:
                stack.append((child, f"{expression}[{at}]" if listed else f"{expression}.{name}"))
    return found


def _argument_sources(arguments: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Recorded arguments as source, ``{0}`` for tensor 0; None where one is no tensor, tuple or None."""
    try:
        return tuple(map(_argument_source, arguments))
    except TypeError:
        return None


def _argument_source(value: Any) -> str:
    if isinstance(value, _Slot):
        return f"{{{value.index}}}"
    if type(value) in (tuple, list):
        inside = ", ".join(map(_argument_source, value))
        return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
    if value is None:
        return "None"
    raise TypeError(type(value).__name__)


def _mapped(value: Any, visit: Callable[[Any], Any]) -> Any:
    """A structure of tuples, lists and dicts with its tensors replaced; a Parameter is no input and stays."""
    from mindspore import Parameter, Tensor

    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return visit(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(v, visit) for v in value) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {k: _mapped(v, visit) for k, v in value.items()}
    return value


def _filled(value: Any, tensors: Sequence[Any]) -> Any:
    """The inverse of `_mapped`."""
    if isinstance(value, _Slot):
        return tensors[value.index]
    if type(value) in (tuple, list):
        return type(value)(_filled(v, tensors) for v in value)
    if isinstance(value, dict):
        return {k: _filled(v, tensors) for k, v in value.items()}
    return value


def _results(value: Any) -> list[Any]:
    """What a net returns: tensors, and sizes and other numbers as ones."""
    from mindspore import Tensor

    if isinstance(value, (list, tuple)):
        return [leaf for inner in value for leaf in _results(inner)]
    return [Tensor(np.asarray(value))] if isinstance(value, (bool, int, float)) else _tensors(value)


def _tensors(value: Any) -> list[Any]:
    """The tensors of a result, in order."""
    from mindspore import Tensor

    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, (tuple, list)) else []


def _set(parameter: Any, value: np.ndarray) -> None:
    from mindspore import Tensor

    parameter.set_data(Tensor(np.array(value, copy=True), parameter.dtype))


def _array(tensor: Any) -> np.ndarray:
    return np.array(tensor.asnumpy(), copy=True)


def _refusal(what: str, error: Exception, place: str = "") -> ModelError:
    text = next(iter(str(error).strip().splitlines()), "")
    return ModelError(
        "E702", f"MindSpore could not {what} the model: {type(error).__name__}: {text}", place=place
    )
