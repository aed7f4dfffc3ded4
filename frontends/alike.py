"""Whether a graph that was read with symbols has the types that it has with numbers in their place."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Dim, Graph, TensorType, UnsupportedError
from ..ir.dims import at_sizes
from ..ir.types import contradicts


def with_numbers(type_: TensorType, sizes: Mapping[str, int]) -> tuple[Dim, ...]:
    """Return a shape with numbers in place of symbols."""
    return tuple(at_sizes(d, sizes) for d in type_.shape or ())


def require_alike(symbolic: Graph, static: Graph, sizes: Mapping[str, int]) -> None:
    """Require that the nodes of the symbol have the types that they have at these sizes.

    Raises:
        UnsupportedError: naming the first node that has not.
    """
    for (name, output), value in symbolic.origin.landmarks.items():
        at = static.origin.landmarks.get((name, output))
        stated = symbolic.type_of(value)
        found = None if at is None else static.type_of(at)
        if stated is None or found is None:
            continue
        expected = stated if stated.shape is None else stated.with_shape(with_numbers(stated, sizes))
        if contradicts(expected, found):
            shown = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
            raise UnsupportedError(
                "E203", f"expected {stated} to hold at {shown}, got {found}", place=f"node `{name}`"
            )
