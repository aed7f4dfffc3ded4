"""Initial distributions of Parameters: what was seen in the Cell's construction, else what its layer states.

What a layer states is held to the values: `set_data` leaves no other trace.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...frameworks.mindspore import MINDSPORE, law_of
from ...ir import Graph, Initializer, Parameter
from ..infer_initializers import SAMPLE, UNKNOWN, Held, drawn, infer_laws
from .construction import laws_of
from .tree import CellTree


def state_laws(graph: Graph, tree: CellTree, root: Any) -> None:
    """Set the initial distribution of every Parameter of a Cell's tree; None where it is not known.

    Args:
        graph: the graph that the tree was walked into.
        tree: what the walk found.
        root: the Cell.
    """
    seen = laws_of(root)
    held: list[tuple[Parameter, Held]] = []
    for tensor in tree.tensors:
        node = graph.parameter(tree.parameters[id(tensor)])
        if id(tensor) in seen:
            node.initializer = law_of_object(seen[id(tensor)])
            if node.initializer is None:  # a law that the IR has no word for
                node.initializer = UNKNOWN
            continue
        cell, attribute = tree.holders[id(tensor)]
        law = _stated(cell, attribute, tensor)
        kind = (type(cell).__name__, attribute, len(node.data.shape))
        held.append((node, Held(node.data.shape, partial(_values, node), law, kind)))
    for (node, _), law in zip(held, infer_laws([each for _, each in held]), strict=True):
        node.initializer = law


def _values(parameter: Parameter) -> np.ndarray | None:
    """Return its first values; None if it has none, or they are not floats."""
    if not parameter.data.dtype.startswith(("float", "bfloat")):
        return None
    array = parameter.data.numpy()
    if array.ndim == 2:
        array = drawn(array[: -(-SAMPLE // max(array.shape[1], 1))])
    return array.reshape(-1)[:SAMPLE]


def _stated(cell: Any, attribute: str, parameter: Any) -> Initializer | None:
    """Return the distribution from which `cell.<attribute>` was drawn by its layer, or None."""
    pending = getattr(parameter, "init_mode", None)
    if pending is not None:
        return law_of_object(getattr(pending, "init", None))
    if not type(cell).__module__.startswith("mindspore.nn"):
        return None
    name = type(cell).__name__
    state = MINDSPORE.state(name, attribute)
    kept = None if state is None else vars(cell).get(state.kept or state.argument)
    if kept is not None and (found := law_of_object(kept)) is not None:
        return found
    weight = cell._params.get("weight")
    return MINDSPORE.default_law(
        name, attribute, tuple(parameter.shape), None if weight is None else tuple(weight.shape)
    )


def law_of_object(value: Any) -> Initializer | None:
    """Return an Initializer object, a number, or the name of one."""
    if isinstance(value, str):
        return law_of(value, {})
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return Initializer.of("constant", value=float(value))
    known = hasattr(value, "__dict__") and type(value).__module__.startswith("mindspore")
    return law_of(type(value).__name__, vars(value)) if known else None
