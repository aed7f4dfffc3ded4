"""Reads MindSpore Cells: the Cell tree, one recorded PyNative run, and the MindIR that MindSpore compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ir import Graph
    from ..options import LoadOptions


def read(model: Any, inputs: Sequence[tuple[str, Any]], options: LoadOptions) -> Graph:
    """See `reading.read`, imported when a model is read: the diagnosis needs only a neighbour of it."""
    from .reading import read

    return read(model, inputs, options)


def read_tree(model: Any, options: LoadOptions) -> Graph:
    """See `reading.read_tree`."""
    from .reading import read_tree

    return read_tree(model, options)


__all__ = ["read", "read_tree"]
