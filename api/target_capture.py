"""Captures a model that is compared with another, on that one's inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..frontends import Inputs, LoadOptions, arrays_of, as_arrays, read, read_tree
from ..ir import Graph, ModelError, RegraftError, UnsupportedError
from ..ir.collector import pause_collector

_OF_ONE_SIZE = (".mindir", ".pt2")
"""Suffixes of files that take no inputs but of the sizes that they were exported with."""


def capture_beside(source: Graph, target: object, inputs: Inputs, *, trust: bool) -> Graph:
    """Return a model to run beside another, of one size where that is: each further size costs a compile."""
    types = [node.type for node in source.input_nodes()]
    is_static = bool(types) and all(type_.is_static for type_ in types)
    return capture_or_name(target, inputs, LoadOptions(trust=trust, dynamic_batch=not is_static))


@pause_collector()
def capture_or_name(target: object, inputs: Inputs, options: LoadOptions) -> Graph:
    """A model to run beside another; with operators that nothing lowers it still runs in its framework."""
    try:
        return _at_its_sizes(target, inputs, options)
    except UnsupportedError as error:
        tree = read_tree(target, options)
        tree.origin.notes.append(
            "the target's settings are not compared, as its operators cannot be read: "
            f"{error.code} {error.message}"
        )
        return tree


def _at_its_sizes(target: object, inputs: Inputs, options: LoadOptions) -> Graph:
    """Return a model loaded with these inputs, or a file with its own if it takes no other size."""
    try:
        return _with_fitting_integers(target, inputs, options)
    except ModelError as error:
        if error.code != "E103" or inputs is None or Path(str(target)).suffix not in _OF_ONE_SIZE:
            raise
        graph = read(target, None, options)
        given = [array for _, value in as_arrays(inputs) for array in arrays_of(value)]
        ranks = [len(node.type.shape or ()) for node in graph.input_nodes()]
        if [array.ndim for array in given] != ranks:
            raise
        return graph


def _with_fitting_integers(target: object, inputs: Inputs, options: LoadOptions) -> Graph:
    """Return a model loaded with these inputs; if it refuses them, with the other usual integer type."""
    try:
        return read(target, inputs, options)
    except ModelError as error:
        if error.code not in ("E103", "E104", "E702"):
            raise
        other = {np.dtype(np.int64): np.int32, np.dtype(np.int32): np.int64}
        given = [array for _, value in as_arrays(inputs) for array in arrays_of(value)]
        if not any(array.dtype in other for array in given):
            raise
        try:
            return read(target, [a.astype(other.get(a.dtype, a.dtype)) for a in given], options)
        except RegraftError:
            raise error from None
