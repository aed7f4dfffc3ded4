"""Finds operators of a net whose CPU kernel loses writes: several threads write one element.

Of all kernels that may write an element twice, and of those of gradients, only the ones behind
`ops.tensor_scatter_elements` and `ops.scatter` do so in MindSpore 2.10, as `tests/tools/racing_kernels.py`
measures. Those of `ops.tensor_scatter_add` and its family, of segments and of `index_add` lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from .mindir import Node

RACING: Mapping[str, tuple[int, int]] = {"TensorScatterElements": (1, 3), "Scatter": (2, 1)}
"""Primitive with that kernel -> the places of its indices and its axis among its inputs."""


def find_racing(nodes: Iterable[Node], constants: Mapping[str, object]) -> list[Node]:
    """Return the nodes with such a kernel whose indices may name a place twice.

    Args:
        nodes: all nodes of a program.
        constants: name -> value of those that are constants.
    """
    known = list(nodes)
    types = {node.name: node.type for node in known}
    found: list[Node] = []
    for node in known:
        if node.op in RACING:
            indices, axis = (node.inputs[at] for at in RACING[node.op])
            if not _are_distinct(constants.get(indices), types.get(indices), constants.get(axis)):
                found.append(node)
    return found


def _are_distinct(indices: object, type_: object, axis: object) -> bool:
    """Whether indices along an axis are known to name no place twice."""
    at = int(np.asarray(axis).reshape(-1)[0]) if isinstance(axis, (int, np.ndarray)) else 0
    if isinstance(indices, np.ndarray):
        return not indices.ndim or bool((np.diff(np.sort(indices, at), axis=at) > 0).all())
    shape = getattr(type_, "shape", None)
    return bool(shape) and shape[at] == 1


def warn_of_racing(place: str) -> str:
    """Return the note on such an operator: what it does, and what to write."""
    return (
        f"the scatter in {place} runs in several threads on CPU, and now and then MindSpore loses a write "
        "where indices repeat: compared without that; `ops.tensor_scatter_add` and "
        "`ops.TensorScatterUpdate`, given the places along all axes, lose none"
    )
