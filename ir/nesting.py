"""The nesting of a model's results: names of outputs in tuples, lists and dicts, with None in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

Nest: TypeAlias = "str | tuple[Nest, ...] | list[Nest] | dict[str | int, Nest] | None"
"""The name of an output, None where the model returns None, or a container of such."""


def names_in(nest: Nest) -> Iterator[str]:
    """Yield the names of outputs in a nest, in order."""
    if isinstance(nest, str):
        yield nest
    elif isinstance(nest, dict):
        for inner in nest.values():
            yield from names_in(inner)
    elif isinstance(nest, (tuple, list)):
        for inner in nest:
            yield from names_in(inner)


def is_flat(nest: Nest) -> bool:
    """Whether a nest is one output, or a tuple of several: what a graph alone says of its outputs."""
    if isinstance(nest, tuple):
        return len(nest) > 1 and all(isinstance(inner, str) for inner in nest)
    return isinstance(nest, str)


def is_plain(nest: Nest) -> bool:
    """Whether a nest has no more than outputs in tuples and lists."""
    return isinstance(nest, str) or (isinstance(nest, (tuple, list)) and all(map(is_plain, nest)))


def write_nest(nest: Nest, leaf: Callable[[str], str], *, inner: bool = False) -> str:
    """Return a nest as Python, with what `leaf` writes of each name; the outermost tuple without brackets."""
    if isinstance(nest, str):
        return leaf(nest)
    if isinstance(nest, dict):
        items = ", ".join(f"{key!r}: {write_nest(v, leaf, inner=True)}" for key, v in nest.items())
        return f"{{{items}}}"
    if isinstance(nest, (tuple, list)):
        items = ", ".join(write_nest(v, leaf, inner=True) for v in nest)
        if isinstance(nest, list):
            return f"[{items}]"
        items += "," * (len(nest) == 1)
        return f"({items})" if inner or not nest else items
    return "None"


__all__ = ["Nest", "is_flat", "is_plain", "names_in", "write_nest"]
