"""The Cell tree: every Cell and Parameter by identity, under every name it is registered with."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...ir import Graph, Parameter, TensorData, dtype_name
from .operators.dropout import drops_in_training_only
from .operators.recurrent import recurrent_kind
from .source_places import CellPlace

_CONTAINERS = {"SequentialCell": "sequential", "CellList": "list", "CellDict": "dict"}
_RUNNING = ("moving_mean", "moving_variance")
_SIMPLE = (bool, int, float, str, type(None))


@dataclass(slots=True)
class CellTree:
    """The result of the walk.

    Attributes:
        modules: id of a Cell -> its module's key.
        parameters: id of a Parameter -> its node's key.
        cells: the Cells themselves, by module key; a plain list or dict of Cells has none.
        tensors: every distinct Parameter.
        holders: id of a Parameter -> the Cell that holds it first, and under what name.
        notes: what a reader should know: Cells that MindSpore itself does not see.
    """

    modules: dict[int, int] = field(default_factory=dict)
    parameters: dict[int, int] = field(default_factory=dict)
    cells: dict[int, Any] = field(default_factory=dict)
    tensors: list[Any] = field(default_factory=list)
    holders: dict[int, tuple[Any, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def walk(graph: Graph, root: Any) -> CellTree:
    """Fill the module tree of `graph` with the Cells below `root` and their Parameters.

    A Cell in a plain Python list, tuple or dict is not registered in MindSpore: it is put into the tree under
    a module that stands for the list, marked by the argument ``unregistered``, and a note says so.
    """
    tree = CellTree()
    _add_cell(graph, tree, root, None, "", CellPlace(root))
    _add_unregistered(graph, tree)
    return tree


def is_namesake(cls: type) -> bool:
    """Whether a class is only called as a layer of MindSpore's, from which it does not derive."""
    from mindspore import nn

    layer = getattr(nn, cls.__name__, None)
    return (
        isinstance(layer, type) and not issubclass(cls, layer) and not cls.__module__.startswith("mindspore.")
    )


def _add_cell(
    graph: Graph, tree: CellTree, cell: Any, parent: int | None, name: str, place: CellPlace
) -> None:
    if id(cell) in tree.modules and parent is not None:
        graph.modules.register(parent, _safe(name), tree.modules[id(cell)])
        return
    key = graph.modules.add(
        type(cell).__name__,
        parent,
        _safe(name),
        container=_container(cell),
        location=place.of_registration(name) if parent is not None else place.of_class(),
        arguments=_arguments(cell),
        namesake=is_namesake(type(cell)),
    )
    tree.modules[id(cell)], tree.cells[key] = key, cell
    tree.notes += _lost_in_training(graph, cell, key)
    for attribute, parameter in cell._params.items():
        if parameter is not None:
            _add_parameter(graph, tree, cell, key, attribute, parameter)
    for child_name, child in cell._cells.items():
        if child is not None and not recurrent_kind(cell):  # what MindSpore builds a recurrent layer of
            _add_cell(graph, tree, child, key, child_name, CellPlace(child, place))


def _lost_in_training(graph: Graph, cell: Any, key: int) -> list[str]:
    """Return the training behaviour of a user's Cell that a program for inference does not show."""
    kind = type(cell)
    if kind.__module__.partition(".")[0] == "mindspore":
        return []
    found: list[str] = []
    if callable(getattr(kind, "bprop", None)):
        found.append("the gradient that {place} (`{kind}.bprop`) writes itself is lost")
    code = getattr(kind.construct, "__code__", None)
    reads = code is not None and "training" in code.co_names
    if reads and not drops_in_training_only(kind):
        found.append(
            "{place} (`{kind}`) reads `training`: what it computes in training only is not in the graph"
        )
    path = graph.modules.path(key) if found else ""
    place = f"`{path}`" if path else "the root Cell"
    return [text.format(place=place, kind=kind.__name__) for text in found]


def _add_parameter(graph: Graph, tree: CellTree, cell: Any, key: int, attribute: str, parameter: Any) -> None:
    module = graph.modules.module(key)
    if id(parameter) not in tree.parameters:
        node = Parameter(
            name=parameter.name,
            declared=parameter.name,
            data=data_of(parameter),
            trainable=bool(parameter.requires_grad),
            is_buffer=attribute in _RUNNING and not parameter.requires_grad,
            location=module.location,
            role=attribute if attribute.isidentifier() else "",
        )
        tree.parameters[id(parameter)] = graph.add_parameter(node).node
        tree.tensors.append(parameter)
        tree.holders[id(parameter)] = cell, attribute
    module.parameters[_safe(attribute)] = tree.parameters[id(parameter)]


def data_of(parameter: Any) -> TensorData:
    """Return a Parameter's values, borrowed."""
    dtype = dtype_name(_numpy_dtype(parameter))
    return TensorData(
        dtype, tuple(parameter.shape), lambda: parameter.asnumpy(), ("mindspore", parameter.data_ptr())
    )


def _numpy_dtype(parameter: Any) -> Any:
    from ...ir import numpy_dtype

    name = str(parameter.dtype).lower()  # `Float32`, `BFloat16`, `Int64`, `Bool`
    return numpy_dtype(name)


def _container(cell: Any) -> str | None:
    """Return the kind of container, for MindSpore's classes: a subclass may have its own `construct`."""
    for cls in type(cell).__mro__:
        if cls.__name__ in _CONTAINERS and cls.__module__.startswith("mindspore.nn"):
            own = type(cell).construct is cls.construct
            return _CONTAINERS[cls.__name__] if own else None
    return None


def _arguments(cell: Any) -> dict[str, object]:
    """Return constructor arguments that the Cell keeps under their own names."""
    found: dict[str, object] = {}
    for name in inspect.signature(type(cell).__init__).parameters:
        value = vars(cell).get(name, found)
        if isinstance(value, _SIMPLE) or (
            isinstance(value, tuple) and all(isinstance(v, _SIMPLE) for v in value)
        ):
            found[name] = value
    return found


def _add_unregistered(graph: Graph, tree: CellTree) -> None:
    """Add Cells and Parameters that only plain lists, tuples and dicts reach, and what lies below them."""
    pending = list(tree.cells.items())
    while pending:
        key, cell = pending.pop(0)
        for attribute, value in vars(cell).items():
            if attribute.startswith("_") or attribute in ("cell_list", "exist_objs"):
                continue
            items = list(_held_in(value))
            cells = [(name, item) for name, item in items if not hasattr(item, "asnumpy")]
            loose = [(n, p) for n, p in items if hasattr(p, "asnumpy") and id(p) not in tree.parameters]
            if all(id(c) in tree.modules for _, c in cells) and not loose:
                continue
            place = CellPlace(cell)
            holder = graph.modules.add(
                type(value).__name__,
                key,
                _safe(attribute),
                container="dict" if isinstance(value, dict) else "list",
                location=CellPlace(None, place).of_registration(attribute),
                arguments={"unregistered": True},
            )
            before = set(tree.cells)
            for name, child in cells:
                _add_cell(graph, tree, child, holder, name, CellPlace(child, place))
            for name, parameter in loose:
                _add_parameter(graph, tree, cell, holder, name, parameter)
            pending += [(k, c) for k, c in tree.cells.items() if k not in before]
            path = graph.modules.path(key)
            what = " and ".join(
                f"{len(some)} {word}" for some, word in ((cells, "Cells"), (loose, "Parameters")) if some
            )
            tree.notes.append(
                f"`{path + '.' if path else ''}{attribute}` is a plain {type(value).__name__} of {what}: "
                f"MindSpore does not see them{', nor their parameters' if cells else ''}"
            )


def _held_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (place, Cell or Parameter) in a plain list, tuple or dict, nested ones too."""
    from mindspore import Parameter
    from mindspore.nn import Cell

    if isinstance(value, (list, tuple)):
        pairs: Any = ((str(i), v) for i, v in enumerate(value))
    elif type(value) is dict:
        pairs = ((str(k), v) for k, v in value.items())
    else:
        return
    for name, item in pairs:
        if isinstance(item, (Cell, Parameter)):
            yield name, item
        else:
            for inner, found in _held_in(item):
                yield f"{name}_{inner}", found


def _safe(name: str) -> str:
    """Return a registration name without dots: ParameterTuple registers members by full names."""
    return name.replace(".", "_")
