"""From a ``.mindir`` file to a graph: parameters, layers, dataflow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ....ir import (
    Graph,
    InvalidGraphError,
    ModelError,
    RegraftError,
    TensorData,
    TensorType,
    UnsupportedError,
    Value,
    require_name,
    require_shape,
)
from ....ir.nesting import Nest
from ....ir.outside.mapped import MappedFile
from ...arguments import is_list
from ...class_names import class_name
from ...inputs import InputSpec
from ...options import LoadOptions
from ...registry import note_framework
from ...size_limits import Budget
from ..cell_calls import Attribution, CallFinder
from ..lowering import Lowerer
from ..mindir import Node, Program, program_of
from ..recording import CellCall
from .layers import find_layers
from .messages import Message, Reader
from .parameters import add_parameters


def read(path: Path, inputs: Sequence[tuple[str, Any]], options: LoadOptions) -> Graph:
    """Read a file into a graph.

    Args:
        path: the file.
        inputs: example inputs, whose shapes must be those that the file states; those left out are drawn.
        options: how to load.

    Raises:
        ModelError: when the file is malformed (E101), or the inputs do not fit (E103).
        UnsupportedError: for a graph of training, and listing every primitive without a lowering.
    """
    with _coherent(path):
        opened = _Opened(path)
        graph = opened.graph(inputs)
    graph.origin.trusted = options.trust
    return graph


def read_tree(path: Path) -> Graph:
    """Read the layers and parameters of a file; any primitive will do.

    Raises:
        ModelError: when the file is malformed.
    """
    with _coherent(path):
        opened = _Opened(path)
        return opened.tree()[0]


def read_parameters(path: Path) -> dict[str, TensorData]:
    """Return the parameters of a file by name, none of them loaded.

    Raises:
        ModelError: when the file is malformed.
    """
    return {p.name: p.data for p in read_tree(path).parameters()}


@contextmanager
def _coherent(path: Path) -> Iterator[None]:
    """Turn every error in a with block into one clear error about the file.

    A file states types, names and sizes beside each other, and a stranger's may contradict itself in any way.
    """
    try:
        yield
    except InvalidGraphError as error:
        raise _incoherent(error.message, path) from error
    except RegraftError as error:
        if not error.place:
            error.place = str(path)
        raise
    except Exception as error:
        raise _incoherent(f"{type(error).__name__}: {str(error)[:200]}", path) from error


def _incoherent(reason: str, path: Path) -> ModelError:
    return ModelError(
        "E101",
        f"the file contradicts itself: {reason}",
        place=str(path),
        hint="if MindSpore runs it, this is a fault in regraft: --debug shows the traceback",
    )


class _Opened:
    """A file that was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = MappedFile(path, "a model that `mindspore.export` wrote")
        self._model: Message = Reader(self._file).model()
        self._program: Program = program_of(self._model)
        self._require_order()

    def _require_order(self) -> None:
        """Check that every value is made once, before it is read, and that names can be printed."""
        program, place = self._program, str(self._path)
        functions = program.functions
        if len(functions) > _MOST_FUNCTIONS:
            raise ModelError(
                "E106", f"expected at most {_MOST_FUNCTIONS} functions, got {len(functions)}", place=place
            )
        root: set[str] = set()
        callable_ = {f.name for f in functions}
        for name in [*(name for name, _ in program.inputs), *program.parameters]:
            _require_new(name, root | callable_, place)
            root.add(name)
        shared = {*program.parameters, *callable_}
        _require_nodes(program.nodes, root, callable_, place)
        taken = root | callable_
        if len(callable_) != len(functions):
            raise ModelError("E101", "expected every function once, got two of one name", place=place)
        for function in functions:
            require_name(function.name, "a function's name", place)
            known = set(shared)
            for name, _ in function.inputs:
                _require_new(name, taken | known, place)
                known.add(name)
            for node in function.nodes:
                _require_new(node.name, taken, place)
            _require_nodes(function.nodes, known, root, place)
            if function.output not in known | root:
                raise ModelError(
                    "E101", f"expected an output that a node computes, got `{function.output}`", place=place
                )
            taken |= known
        if program.output not in root:
            raise ModelError(
                "E101", f"expected an output that a node computes, got `{program.output}`", place=place
            )

    def tree(self) -> tuple[Graph, dict[str, Value], list[int], dict[str, int]]:
        """Return (a graph of layers and parameters, their values, the layers, number of a node's call)."""
        graph = Graph()
        note_framework(graph, "mindspore")
        graph.origin.has_modules = False
        graph.origin.reference, graph.origin.model = self._path.name, self._path
        graph.origin.parameters = None
        root = graph.modules.add(class_name(self._path.stem, "Net"))
        layers, calls = find_layers(self._program)
        values, modules = add_parameters(graph, root, self._file, self._model.graph.parameter, layers)
        return graph, values, modules, calls

    def graph(self, inputs: Sequence[tuple[str, Any]]) -> Graph:
        """Return the whole graph."""
        self._require_inference()
        graph, environment, modules, numbers = self.tree()
        names = [_plain(name) for name, _ in self._program.inputs]
        if len(set(names)) != len(names):
            raise ModelError(
                "E101", f"expected inputs of different names, got {names}", place=str(self._path)
            )
        for (value, type_), name in zip(self._program.inputs, names, strict=True):
            environment[value] = graph.add_input(name, _input_type(type_, name))
        arrays = self._bind(graph, inputs)
        root = graph.modules.add_call(0, None)
        keys = [root, *(graph.modules.add_call(module, root) for module in modules)]
        held = sum(prod(p.data.shape) for p in graph.parameters())
        given = sum(
            prod(d if isinstance(d, int) else 1 for d in n.type.shape or ()) for n in graph.input_nodes()
        )
        calls = [CellCall(None, None if not at else 0) for at in range(len(keys))]
        places = [graph.modules.path(graph.modules.call(key).module) or self._path.name for key in keys]
        lowerer = _Bounded(
            graph,
            self._program,
            dict(environment),
            Attribution(numbers),
            CallFinder(calls),
            calls,
            keys,
            places,
            Budget(max((a.shape[0] for a in arrays.values() if a.ndim), default=1), given, held),
        )
        taken: list[tuple[str, Any]] = []
        graph.origin.results = _nest(lowerer.run(), (), taken)
        for name, found in taken:
            graph.outputs.append((name, lowerer.as_output(found)))
        graph.remove_dead()
        graph.origin.inputs = arrays
        static = not any(isinstance(d, str) for n in graph.input_nodes() for d in n.type.shape or ())
        graph.origin.notes = ["the batch is that of the file: it was exported at this size"] if static else []
        return graph

    def _require_inference(self) -> None:
        """Refuse a graph of training: it normalises by the batch, or drops.

        Raises:
            UnsupportedError: naming what shows it.
        """
        constants = {n.name: n.value for n in self._program.all_nodes() if n.op == "Constant"}
        for node in self._program.all_nodes():
            trains = node.op in ("Dropout", "DropoutGenMask", "DropoutDoMask", "DropoutExt")
            if node.op == "BatchNorm" and len(node.inputs) > 5:
                trains = bool(constants.get(node.inputs[5]))
            if trains:
                raise UnsupportedError(
                    "E203",
                    f"expected a model in inference mode, got one in training mode: `{node.op}` in "
                    f"`{node.scope}`",
                    place=str(self._path),
                    hint="export it after `net.set_train(False)` and `net.compile_cache.clear()`",
                )

    def _bind(self, graph: Graph, inputs: Sequence[tuple[str, Any]]) -> dict[str, np.ndarray]:
        """Return an example of every input, those that were given and drawn ones.

        Raises:
            ModelError: for one that the file does not have, or of another shape or type (E103).
        """
        nodes = graph.input_nodes()
        names = [n.name for n in nodes]
        found: dict[str, np.ndarray] = {}
        for position, (given, value) in enumerate(inputs):
            name = given or (names[position] if position < len(names) else f"input {position}")
            if name not in names or name in found or not isinstance(value, np.ndarray):
                raise ModelError(
                    "E103", f"expected inputs among {names}, got `{name}`", place=str(self._path)
                )
            found[name] = value
        arrays: dict[str, np.ndarray] = {}
        for number, node in enumerate(nodes):
            shape = tuple(d if isinstance(d, int) else _BATCH for d in node.type.shape or ())
            spec = InputSpec(node.name, shape, node.type.dtype)
            arrays[node.name] = array = found[node.name] if node.name in found else spec.array(number)
            stated = node.type.shape or ()
            fits = len(stated) == array.ndim and all(
                d == s for d, s in zip(stated, array.shape, strict=True) if isinstance(d, int)
            )
            if not fits or str(array.dtype) != node.type.dtype:
                raise ModelError(
                    "E103",
                    f"expected `{node.name}` of {node.type}, got {array.dtype} {list(array.shape)}",
                    place=str(self._path),
                    hint="a .mindir file has the sizes that it was exported with: leave out --input",
                )
        return arrays


def _require_new(name: str, known: Collection[str], place: str) -> None:
    require_name(name, "a name", place)
    if not name or name in known:
        raise ModelError("E101", f"expected every name once, got `{name}` again", place=place)


def _require_nodes(nodes: Sequence[Node], known: set[str], around: Collection[str], place: str) -> None:
    """Check the nodes of one function, and add what they make to what is known.

    Args:
        nodes: in the order of the file.
        known: its arguments, and what every function may read.
        around: what else it may read: functions, or what the graph around it makes.
        place: for messages.
    """
    for node in nodes:
        require_name(node.op, "a primitive's name", place)
        require_name(node.scope, "a scope", place)
        missing = next((i for i in node.inputs if i not in known and i not in around), None)
        if missing is not None:
            raise ModelError(
                "E101", f"expected `{node.op}` to read values made before it, got `{missing}`", place=place
            )
        _require_new(node.name, known, place)
        known.add(node.name)


_MOST_FUNCTIONS = 1 << 8
"""Far more than nets have; how they call one another is found by looking at them in pairs."""

_MOST_RUNS = 64
"""Limit of reads per node, on average: a function is read once for each place that calls it."""

_BATCH = 2
"""Size of an open batch in drawn examples."""


class _Bounded(Lowerer):
    """Lowers a stranger's program, with values in proportion to what it is given."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments[:-1])
        self._budget: Budget = arguments[-1]
        self._left = _MOST_RUNS * sum(1 for _ in self.program.all_nodes())

    def lower(self, run: Any, node: Node) -> Any:
        """Return what a node gives, of a size in proportion."""
        place = run.place_of(node)
        for type_ in node.type if isinstance(node.type, tuple) else (node.type,):
            if isinstance(type_, TensorType) and type_.shape is not None:
                require_shape([d for d in type_.shape if isinstance(d, int)], place)
        self._left -= 1
        if self._left < 0:
            raise ModelError("E106", "expected fewer calls of functions by functions", place=place)
        graph = run.builder.graph
        before = graph._next
        try:
            found = super().lower(run, node)
        except (ValueError, ArithmeticError, LookupError, TypeError, MemoryError) as error:
            raise UnsupportedError(
                "E203", f"`{node.op}` cannot be lowered in this form: {error}", place=place
            ) from error
        self._budget.spend(graph, range(before, graph._next), place)
        return found


def _input_type(type_: TensorType, name: str) -> TensorType:
    """Return the type of an input, of which axis 0 may be open.

    Raises:
        UnsupportedError: when another one is.
    """
    shape = type_.shape or ()
    if any(d is None for d in shape[1:]):
        raise UnsupportedError(
            "E203",
            f"expected sizes of `{name}`, of which the first may be open, got {type_}",
            hint="export the model with sizes, `Tensor(shape=[None, 3, 224, 224], dtype=ms.float32)`",
        )
    require_shape([d for d in shape if isinstance(d, int)], name)
    return type_.with_shape(tuple("N" if d is None else d for d in shape))


def _nest(found: Any, way: tuple[str, ...], taken: list[tuple[str, Any]]) -> Nest:
    """Return how results nest, and append (name, result) of each."""
    if is_list(found):
        return tuple(_nest(inner, (*way, str(at)), taken) for at, inner in enumerate(found))
    name = "output" + "_".join(way)
    taken.append((name, found))
    return name


def _plain(name: str) -> str:
    """Return the name of an input without that of its graph."""
    return name.rpartition(":")[2] or name
