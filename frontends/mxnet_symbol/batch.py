"""Finds the symbolic axes of inputs: those whose size does not change how the symbol is read.

That two inputs have one number at axis 0 proves nothing: one may be a weight, or indices that happen to be
as many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ...ir import Dim, Graph, ModelError, TensorType, UnsupportedError, dtype_name
from ..alike import require_alike, with_numbers
from ..options import LoadOptions

Types = Mapping[str, TensorType]
Lower = Callable[[Types, int], Graph]
"""(types of the inputs, size of the batch) -> the graph of the symbol."""

_PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
_MOST_LEFT_OUT = 8  # inputs


def read_at_sizes(
    arrays: Mapping[str, np.ndarray], options: LoadOptions, lower: Lower, probe: Lower
) -> Graph:
    """Return the graph with symbolic axes where that is proved, else without; a note in its origin says why.

    The axes are those asked for, or axis 0 of all inputs that share the first one's batch, or of all but one
    of these, or of the first alone. Each choice is tried: the symbol read with names for these axes must have
    the types that it has when it is read with numbers there, those of the examples and two primes.

    Args:
        arrays: example inputs by name.
        options: which axes are symbolic.
        lower: reads the symbol.
        probe: reads it for the types of its nodes alone.

    Raises:
        ModelError: when the symbol cannot be read at the sizes of the examples.
        UnsupportedError: likewise.
    """
    batch = next((a.shape[0] for a in arrays.values() if a.ndim), 1)
    static = {name: TensorType(dtype_name(a.dtype), tuple(a.shape)) for name, a in arrays.items()}
    failure: UnsupportedError | ModelError | None = None
    for axes in _choices(arrays, options, batch):
        types = _symbolic(static, axes, batch)
        try:
            graph = lower(types, batch)
            for sizes in _sizes(types, static, arrays):
                numbers = {n: t.with_shape(with_numbers(t, sizes)) for n, t in types.items()}
                require_alike(graph, probe(numbers, sizes.get("N", batch)), sizes)
        except (UnsupportedError, ModelError) as error:
            failure = failure or error
            continue
        _note_single(graph, types, probe)
        return graph
    graph = lower(static, batch)
    if failure is not None:  # what failed for another reason has failed again
        place = f" - at {failure.place}" if failure.place else ""
        graph.origin.notes.append(f"the batch size is fixed: {failure.message}{place}")
    return graph


def _note_single(graph: Graph, types: Types, probe: Lower) -> None:
    """Note where a batch of 1 leads to something else: `squeeze` without an axis takes it away too."""
    if not any("N" in (type_.shape or ()) for type_ in types.values()):
        return
    sizes = {s: 2 for type_ in types.values() for s in type_.shape or () if isinstance(s, str)} | {"N": 1}
    try:
        single = probe({n: t.with_shape(with_numbers(t, sizes)) for n, t in types.items()}, 1)
        require_alike(graph, single, sizes)
    except (UnsupportedError, ModelError) as error:
        why = f"a batch of 1 computes another function: {error.message} - at {error.place}"
        graph.origin.notes.append(f"{why}; the output computes the function of larger batches")
        graph.origin.otherwise.append(("N", 1, why))


def _choices(
    arrays: Mapping[str, np.ndarray], options: LoadOptions, batch: int
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield inputs and their symbolic axes, the most first; none where no axis is to be symbolic."""
    for name, axes in options.dynamic.items():
        if name not in arrays:
            raise ModelError("E103", f"expected an input among {', '.join(arrays)}, got `{name}`")
        for axis in axes:
            rank = arrays[name].ndim
            if not 0 <= axis < rank:
                raise ModelError("E103", f"expected an axis below {rank} of `{name}`, got {axis}")
    told = {name: axes for name, axes in options.dynamic.items() if axes}
    shared = [n for n, a in arrays.items() if a.ndim and a.shape[0] == batch and n not in options.dynamic]
    if not options.dynamic_batch:
        shared = []
    if told or shared:
        yield told | dict.fromkeys(shared, (0,))
    for left in shared[1 : 1 + _MOST_LEFT_OUT] if len(shared) > 2 else ():
        yield told | {name: (0,) for name in shared if name != left}
    if len(shared) > 1:
        yield told | {shared[0]: (0,)}
    if told and shared:
        yield told


def _symbolic(static: Types, axes: Mapping[str, tuple[int, ...]], batch: int) -> dict[str, TensorType]:
    """Return the types with names at these axes: ``N`` for the batch, ``data_2`` for another."""
    types: dict[str, TensorType] = {}
    taken = {"N"}
    for name, type_ in static.items():
        dims: list[Dim] = list(type_.shape or ())
        for axis in axes.get(name, ()):
            own = re.sub(r"\W", "_", name)
            symbol = f"{own}_{axis}" if axis or dims[axis] != batch else "N"
            while symbol != "N" and symbol in taken:
                symbol += "_"
            taken.add(symbol)
            dims[axis] = symbol
        types[name] = type_.with_shape(tuple(dims))
    return types


def _example_sizes(types: Types, static: Types) -> dict[str, int]:
    """Return the size of each symbol in the examples."""
    return {
        symbol: size
        for name, type_ in types.items()
        for symbol, size in zip(type_.shape or (), static[name].shape or (), strict=True)
        if isinstance(symbol, str) and isinstance(size, int)
    }


def _sizes(types: Types, static: Types, arrays: Mapping[str, np.ndarray]) -> Iterator[dict[str, int]]:
    """Yield numbers for the symbols: those of the examples, then primes that no dimension of an input has."""
    examples = _example_sizes(types, static)
    yield examples
    used = {d for a in arrays.values() for d in a.shape}
    primes = [p for p in _PRIMES if not any(d % p == 0 for d in used if d)] or _PRIMES
    for start in range(2):
        yield {symbol: primes[(start + i) % len(primes)] for i, symbol in enumerate(examples)}
