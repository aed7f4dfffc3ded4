"""Reading a Cell into a graph: tree, calls, parameters and dataflow put together."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...ir import Graph, ModelError, UnsupportedError, Value
from ...ir.dims import at_sizes, differ
from ...ir.nesting import names_in
from ..arguments import is_list
from ..inputs import with_nests
from ..options import LoadOptions
from ..registry import note_framework
from . import saved
from .batch import BatchDependenceError, generalise
from .capture import Capture, capture, start_mindspore
from .cell_calls import CallFinder, Marker
from .compiler import settled_parameters
from .debugging import KeptPrints, is_keeping, keeping
from .flat_norms import restore_flat_norms
from .initializers import state_laws
from .lowering import Lowerer, seeds_of
from .mindir import Program
from .nested import Arguments, are_keys
from .open_batch import OpenBatch
from .recording import CellCall
from .tree import CellTree, walk

Arrays = Sequence[np.ndarray]
_PRIMES = (13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def read(model: Any, inputs: Sequence[tuple[str, Any]], options: LoadOptions) -> Graph:
    """Read a Cell with its dataflow, in evaluation mode; the Cell is left exactly as it was.

    Args:
        model: a mindspore.nn.Cell, or the path of a ``.mindir`` file, of which nothing runs.
        inputs: (name, value) per argument of `construct`; an empty name is positional. A value is an
            array, a tuple, list or dict of such, or a number, text or None, which is a constant.
        options: which axes are symbolic.

    Raises:
        ModelError: when MindSpore is missing or cannot run or compile the Cell, or the inputs do not fit.
        UnsupportedError: listing every primitive without a lowering.
    """
    if isinstance(model, (str, Path)):
        return saved.read(Path(model), inputs, options)
    start_mindspore()
    with keeping(is_kept=options.keep_prints), settled_parameters():
        return _read_cell(model, inputs, options)


def _read_cell(model: Any, inputs: Sequence[tuple[str, Any]], options: LoadOptions) -> Graph:
    arguments = _bind(model, inputs)
    arrays = arguments.arrays
    axes = _symbolic_axes(arguments.names, arrays, options)
    sizes = _sizes(arrays, axes)
    graph = Graph()
    tree = walk(graph, model)
    cells = list(tree.cells.values())
    resized = [partial(_resized, arrays, axes, s) for s in sizes or ()]
    captured = capture(
        model, cells, tree.tensors, arguments, resized, OpenBatch.of(arrays, axes) if sizes else None
    )
    if captured.is_open:
        with suppress(BatchDependenceError, UnsupportedError):  # told of the compiles at sizes
            return _build_symbolic(model, arguments, captured, captured.programs[0], (graph, tree))
        captured = capture(model, cells, tree.tensors, arguments, resized)
    if sizes is None:
        why = "the symbolic axes of the inputs have several sizes" if axes else ""
    elif len(captured.programs) == 1:
        why = "MindSpore does not compile the model at another size"
    else:
        try:
            program = generalise(captured.programs[0], captured.programs[1], sizes)
            return _build_symbolic(model, arguments, captured, program)
        except BatchDependenceError as error:
            why = str(error)
            captured = capture(model, cells, tree.tensors, arguments, [])
    notes = [f"the batch is static: {why}"] if why else []
    graph = _build(model, arguments, captured, captured.programs[0], notes)
    _require_run(graph, captured.shapes, model)
    return graph


def read_tree(model: Any, options: LoadOptions) -> Graph:
    """Read modules, registrations and parameters only; nothing is run or compiled."""
    del options  # nothing in it bears on the tree
    if isinstance(model, (str, Path)):
        return saved.read_tree(Path(model))
    start_mindspore()
    graph = Graph()
    tree = walk(graph, model)
    state_laws(graph, tree, model)
    _set_origin(graph, model, tree.notes)
    return graph


def _bind(model: Any, inputs: Sequence[tuple[str, Any]]) -> Arguments:
    """Construct's arguments, in its order."""
    parameters = list(inspect.signature(model.construct).parameters.values())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    given: dict[str, Any] = {}
    inputs = with_nests(inputs, {p.name: p.annotation for p in parameters}, tuple)
    for position, (name, value) in enumerate(inputs):
        if not name and position < len(names):
            name = names[position]
        elif not name and variadic:
            name = f"input{position}"
            names.append(name)
        if name not in names or name in given:
            raise ModelError(
                "E103", f"expected inputs among {names}, got `{name or position}`", place=type(model).__name__
            )
        given[name] = value
    needed = [p.name for p in parameters if p.name in names and p.default is p.empty and p.name not in given]
    if needed:
        raise ModelError(
            "E103",
            f"expected inputs {names}, got none for {', '.join(f'`{n}`' for n in needed)}",
            place=type(model).__name__,
            hint="give an example's shape: "
            + " ".join(f"--input {n}=2x3x224x224" for n in needed[:3])
            + "; a tuple, list or dict goes by its parts: --input feats.0=SHAPE --input feats.1=SHAPE",
        )
    last = max((i for i, n in enumerate(names) if n in given), default=-1)
    kept = names[: last + 1]
    if any(n not in given and _default(parameters, n) is not None for n in kept):
        raise ModelError(
            "E103", "expected values for all arguments before the last one given", place=type(model).__name__
        )
    return Arguments.of([(n, given.get(n)) for n in kept])


def _default(parameters: Sequence[inspect.Parameter], name: str) -> object:
    return next((p.default for p in parameters if p.name == name), None)


def _symbolic_axes(names: Sequence[str], arrays: Arrays, options: LoadOptions) -> dict[int, tuple[int, ...]]:
    """Return number of a tensor -> axes that carry the symbol N."""
    if options.dynamic:
        unknown = [n for n in options.dynamic if n not in names]
        if unknown:
            raise ModelError("E103", f"expected dynamic inputs among {list(names)}, got `{unknown[0]}`")
        return {i: tuple(options.dynamic[n]) for i, n in enumerate(names) if n in options.dynamic}
    if not options.dynamic_batch:
        return {}
    batch = next((a.shape[0] for a in arrays if a.ndim), None)
    return {i: (0,) for i, a in enumerate(arrays) if a.ndim and a.shape[0] == batch}


def _sizes(arrays: Arrays, axes: dict[int, tuple[int, ...]]) -> tuple[int, int] | None:
    """Return two sizes to compile at, or None when the symbolic axes do not have one size.

    Primes that no other dimension has: where the batch equals another dimension, MindSpore's simplifications
    (a transpose of equal axes, a reshape to the same shape) would differ between the two.
    """
    found = {a.shape[x] for i, a in enumerate(arrays) for x in axes.get(i, ()) if x < a.ndim}
    if len(found) != 1:
        return None
    used = {d for a in arrays for d in a.shape}
    first, second, *_ = [p for p in _PRIMES if not any(d % p == 0 for d in used)]
    return first, second


def _resized(arrays: Arrays, axes: dict[int, tuple[int, ...]], size: int) -> list[np.ndarray]:
    """Return the tensors with their symbolic axes cut or repeated to `size`."""
    out: list[np.ndarray] = []
    for number, array in enumerate(arrays):
        for axis in axes.get(number, ()):
            array = np.take(array, np.arange(size) % array.shape[axis], axis=axis)
        out.append(array)
    return out


def _build_symbolic(
    model: Any,
    arguments: Arguments,
    captured: Capture,
    program: Program,
    walked: tuple[Graph, CellTree] | None = None,
) -> Graph:
    _require_same_calls(captured)
    graph = _build(model, arguments, captured, program, [], walked)
    _require_results(graph, captured.shapes)
    return graph


def _build(
    model: Any,
    arguments: Arguments,
    captured: Capture,
    program: Program,
    notes: list[str],
    walked: tuple[Graph, CellTree] | None = None,
) -> Graph:
    """Build the graph.

    Args:
        model: the Cell.
        arguments: of the example.
        captured: its calls.
        program: what it compiled to.
        notes: for the reader.
        walked: a graph that holds the Cell's tree only, and the tree; walked anew if None.
    """
    graph = Graph() if walked is None else walked[0]
    tree = walk(graph, model) if walked is None else walked[1]
    state_laws(graph, tree, model)
    keys = _add_calls(graph, tree, captured.calls)
    environment: dict[str, Any] = {}
    for (value, type_), name in zip(program.inputs, arguments.names, strict=True):
        environment[value] = graph.add_input(name, type_)
    seeds = seeds_of(program)
    for value, name in program.parameters.items():
        if value in seeds:
            environment[value] = None
            continue
        number = name.removeprefix("regraft.")
        if not number.isdecimal() or int(number) >= len(tree.tensors):
            raise ModelError(
                "E104",
                f"the model computes with a Parameter `{name}` that no Cell of it holds: a `construct` makes "
                "a layer in each call",
                hint="construct it in `__init__`, as an attribute",
            )
        environment[value] = Value(tree.parameters[id(tree.tensors[int(number)])])
    calls = list(captured.calls)
    places = [_place(graph, calls, keys, n) for n in range(len(keys))]

    def add_call(cell: int, parent: int) -> bool:
        """Add a call that the recorded run did not make, or made in another turn of a loop."""
        if cell not in tree.modules:
            return False
        calls.append(CellCall(tree.cells[tree.modules[cell]], parent))
        keys.append(graph.modules.add_call(tree.modules[cell], keys[parent]))
        places.append(_place(graph, calls, keys, len(calls) - 1))
        return True

    finder = CallFinder(calls, add_call if program.functions else None)
    attribution = finder.attribute_program(program, range(len(arguments.arrays)))
    prints = KeptPrints(graph) if is_keeping() else None
    lowerer = Lowerer(graph, program, environment, attribution, finder, calls, keys, places, prints)
    results = list(_flat(lowerer.run()))
    names, nest = list(names_in(captured.results)), captured.results
    if len(names) != len(
        results
    ):  # what PyNative returns as a number may be a tensor's shape to the compiler
        names, nest = [f"output{number}" for number in range(len(results))], None
    for name, found in zip(names, results, strict=True):
        graph.outputs.append((name, lowerer.as_output(found)))
    if prints is not None:
        notes = [*notes, *filter(None, [prints.settle()])]
    restore_flat_norms(graph)
    graph.remove_dead()
    if program.functions and captured.marked:
        _remove_calls(graph, keys, len(captured.calls), finder)
    if not captured.marked:
        notes = [*notes, "MindSpore could not compile call boundaries: operators are attributed to the root"]
    _set_origin(graph, model, ["captured in evaluation mode", *captured.notes, *notes, *tree.notes])
    graph.origin.inputs = dict(zip(arguments.names, arguments.arrays, strict=True))
    graph.origin.arrange = None if arguments.is_flat else arguments.arrange
    graph.origin.results, graph.origin.keyed = nest, are_keys(names)
    return graph


def _require_same_calls(captured: Capture) -> None:
    """Require of straight-line code that it calls no Cell that the example did not.

    Raises:
        BatchDependenceError: where the size of the batch decides which Cells run.
    """
    program = captured.programs[0]
    called = {id(call.cell) for call in captured.calls}
    markers = [Marker.of(n) for n in program.nodes if not program.functions]
    if any(m is not None and m.cell not in called for m in markers):
        raise BatchDependenceError("which Cells are called depends on the batch size")


def _require_results(graph: Graph, shapes: Sequence[tuple[int, ...] | None]) -> None:
    """Require that the results have the shapes that the run of the example gave.

    Two compiles agree on what holds at their sizes, which a batch of 1 need not follow: `squeeze` drops it.

    Raises:
        BatchDependenceError: naming the first result that has not.
    """
    name, shape, stated = _unlike_run(graph, shapes)
    if name:
        raise BatchDependenceError(f"`{name}` has shape {shape} in the example and {stated} at other sizes")


def _require_run(graph: Graph, shapes: Sequence[tuple[int, ...] | None], model: Any) -> None:
    """Require that the model compiles to as many results, of such shapes, as its run gave.

    MindSpore's compiler and its PyNative mode read a few methods of tensors otherwise.

    Raises:
        ModelError: naming the first result that is another.
    """
    name, shape, stated = _unlike_run(graph, shapes)
    if len(graph.outputs) < len(shapes) and None not in shapes:
        name, shape, stated = "results", str(len(shapes)), str(len(graph.outputs))
    if name:
        code = type(model).construct.__code__
        raise ModelError(
            "E104",
            f"MindSpore's compiled model differs from the model in PyNative mode: expected {shape} "
            f"for `{name}`, got {stated}",
            place=f"{Path(code.co_filename).name}:{code.co_firstlineno}",
            hint="methods of tensors may differ there: `ops.max(x, 1)` in place of `x.max(1)`, "
            "`ops.argmax(x.reshape(-1))` in place of `x.argmax()`",
        )


def _unlike_run(graph: Graph, shapes: Sequence[tuple[int, ...] | None]) -> tuple[str, str, str]:
    """(a result, its shape in the run of the example, its type) where these differ; empty where none do."""
    batch = {
        symbol: size
        for node in graph.input_nodes()
        for symbol, size in zip(node.type.shape or (), graph.origin.inputs[node.name].shape, strict=True)
        if isinstance(symbol, str)
    }
    if len(shapes) != len(graph.outputs):
        return "", "", ""  # results that are no tensors
    for (name, value), shape in zip(graph.outputs, shapes, strict=True):
        stated = graph.type_of(value)
        if shape is None or stated is None or stated.shape is None:
            continue
        expected = [at_sizes(d, batch) for d in stated.shape]
        if len(expected) != len(shape) or any(map(differ, expected, shape)):
            return name, str(list(shape)), str(stated)
    return "", "", ""


def _add_calls(graph: Graph, tree: CellTree, calls: Sequence[CellCall]) -> list[int]:
    """Add the recorded calls; a Cell made during the run is not in the tree, and its caller stands for it."""
    keys: list[int] = []
    for call in calls:
        parent = None if call.parent is None else keys[call.parent]
        module = tree.modules.get(id(call.cell))
        keys.append(
            parent if module is None and parent is not None else graph.modules.add_call(module or 0, parent)
        )
    return keys


def _remove_calls(graph: Graph, keys: Sequence[int], recorded: int, finder: CallFinder) -> None:
    """Remove calls that the graph does not make.

    They are those of other turns of a loop in the recorded run, and those of what was read more than once.
    """
    used = {node.call for part in graph.subgraphs() for node in part.operators()}
    for number in reversed(range(1, len(keys))):
        is_made = number < recorded and finder.is_entered(number)
        if keys[number] not in used and not is_made:
            if graph.modules.has_call(keys[number]):
                graph.modules.remove_call(keys[number])
        else:
            used.add(graph.modules.call(keys[number]).parent)


def _place(graph: Graph, calls: Sequence[CellCall], keys: Sequence[int], number: int) -> str:
    """Return the module's path and the line of the nearest `construct` that is not MindSpore's own."""
    path = graph.modules.path(graph.modules.call(keys[number]).module) or type(calls[0].cell).__name__
    at: int | None = number
    while at is not None:
        function = type(calls[at].cell).construct
        if not function.__module__.startswith("mindspore."):
            code = function.__code__
            return f"{Path(code.co_filename).name}:{code.co_firstlineno} ({path})"
        at = calls[at].parent
    return path


def _flat(found: Any) -> list[Any]:
    return [v for item in found for v in _flat(item)] if is_list(found) else [found]


def _set_origin(graph: Graph, model: Any, notes: Sequence[str]) -> None:
    note_framework(graph, "mindspore")
    graph.origin.model = model
    graph.origin.reference = graph.origin.reference or type(model).__name__
    graph.origin.notes = list(notes)


__all__ = ["read", "read_tree"]
