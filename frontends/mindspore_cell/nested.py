"""Nested arguments and results of a `construct`: flat tensors for the compiler, the nest put back by us."""

from __future__ import annotations

import itertools
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np

from ...ir import ModelError
from ...ir.nesting import Nest, is_plain


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of tensor number `index` in nested arguments."""

    index: int


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a `construct`.

    Attributes:
        nested: every argument: slots in tuples, lists and dicts, and numbers, texts and None as they are.
        names: of the tensors, in order: the argument's, or where that is nested, with the way in it.
        arrays: the tensors themselves.
    """

    nested: tuple[Any, ...]
    names: list[str]
    arrays: list[np.ndarray]

    @staticmethod
    def of(named: Sequence[tuple[str, Any]]) -> Arguments:
        """Return the arguments of (name, nest of arrays)."""
        names: list[str] = []
        arrays: list[np.ndarray] = []

        def flatten(name: str, value: Any) -> Any:
            if isinstance(value, np.ndarray):
                names.append(name)
                arrays.append(value)
                return Slot(len(arrays) - 1)
            if isinstance(value, dict):
                return {key: flatten(f"{name}_{key}", inner) for key, inner in value.items()}
            if isinstance(value, (tuple, list)):
                inside = [flatten(f"{name}_{at}", inner) for at, inner in enumerate(value)]
                return inside if isinstance(value, list) else tuple(inside)
            if value is None or isinstance(value, (bool, int, float, str)):
                return value
            raise ModelError(
                "E103",
                f"expected arrays in tuples, lists and dicts as `{name}`, got `{type(value).__name__}`",
            )

        nested = tuple(flatten(name, value) for name, value in named)
        return Arguments(nested, names, arrays)

    @property
    def is_flat(self) -> bool:
        """Whether every argument is a tensor or None."""
        return all(value is None or isinstance(value, Slot) for value in self.nested)

    def arrange(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return (arguments, keywords) with these tensors, in order."""
        return [_filled(value, tensors) for value in self.nested], {}


def _filled(value: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(value, Slot):
        return tensors[value.index]
    if isinstance(value, dict):
        return {key: _filled(inner, tensors) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        inside = [_filled(inner, tensors) for inner in value]
        return inside if isinstance(value, list) else tuple(inside)
    return value


def nest_of(result: Any) -> tuple[Nest, list[str]]:
    """Return (how a result nests, notes), its tensors and numbers named by the way to them.

    A tuple's parts are ``output0``, a dict's are its keys, and what is further in has the whole way:
    ``output1_0``, ``logits_aux``. Texts are left out.

    Raises:
        ModelError: for a result, or a key of one, that no graph can have (E104).
    """
    notes: list[str] = []
    taken: dict[str, int] = {}

    def name_of(way: Sequence[str]) -> str:
        name = "_".join(way) or "output"
        name = f"output{name}" if name[0].isdigit() else name
        taken[name] = taken.get(name, 0) + 1
        return name if taken[name] == 1 else f"{name}__{taken[name] - 1}"

    def visit(found: Any, way: tuple[str, ...]) -> Any:
        if isinstance(found, str):
            notes.append(f"the output `{name_of(way)}` is the text `{found}`: left out")
            return None
        if found is None:
            return None
        if isinstance(found, dict):
            found = {_key(key): (inner, visit(inner, (*way, str(key)))) for key, inner in found.items()}
            return {key: nest for key, (inner, nest) in found.items() if not isinstance(inner, str)}
        if isinstance(found, (tuple, list)):
            fields = getattr(found, "_fields", None) or [str(at) for at in range(len(found))]
            inside = [visit(inner, (*way, key)) for key, inner in zip(fields, found, strict=True)]
            return inside if isinstance(found, list) else tuple(inside)
        if isinstance(found, (bool, int, float)) or hasattr(found, "asnumpy"):
            return name_of(way)
        raise ModelError(
            "E104",
            f"expected tensors, tuples, lists and dicts as results, got `{type(found).__name__}`",
            hint="return its tensors in a tuple or a dict",
        )

    return visit(result, ()), notes


def are_keys(names: Sequence[str]) -> bool:
    """Whether names of results, from `nest_of`, are keys and fields, each of one result alone."""
    return bool(names) and not any(
        re.match(r"output(\d|$)", name) or name.rpartition("__")[0] in names for name in names
    )


def _key(key: object) -> str | int:
    if not isinstance(key, (str, int)):
        raise ModelError("E104", f"expected texts as keys of the results, got `{key!r}`")
    return key


@contextmanager
def flattened(root: Any, arguments: Arguments, results: Nest) -> Iterator[Callable[[Sequence[Any]], Any]]:
    """Give a Cell with nested arguments a `construct` of tensors to tensors, in a with block.

    MindIR has no dict and no None among its results, and the compiler takes no dict as an argument.

    Args:
        root: the Cell.
        arguments: what it is called with.
        results: how its results nest, as `nest_of` says.

    Yields:
        What makes the arguments of a compilation of its tensors.
    """
    if arguments.is_flat and is_plain(results):
        yield lambda tensors: arguments.arrange(tensors)[0]
        return
    own, before = root.construct, vars(root).get("construct")
    construct = _compiled(_source(arguments, results))
    vars(root)["regraft_nested"] = own
    vars(root)["construct"] = MethodType(construct, root)
    try:
        yield list
    finally:
        linecache.cache.pop(construct.__code__.co_filename, None)
        del vars(root)["regraft_nested"]
        if before is None:
            del vars(root)["construct"]
        else:
            vars(root)["construct"] = before


def _source(arguments: Arguments, results: Nest) -> str:
    """Return the `construct` as Python that MindSpore compiles: no loops, and `self` must be called so."""
    tensors = [f"x{at}" for at in range(len(arguments.arrays))]
    given = ", ".join(_written(value) for value in arguments.nested)
    ways = list(_ways(results, "result"))
    returned = ways[0] if len(ways) == 1 else f"({', '.join(ways)})"
    return (
        f"def construct({', '.join(['self', *tensors])}):\n"
        f"    result = self.regraft_nested({given})\n"
        f"    return {returned}\n"
    )


def _written(value: Any) -> str:
    if isinstance(value, Slot):
        return f"x{value.index}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_written(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(_written, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    return repr(value)


def _ways(nest: Nest, way: str) -> Iterator[str]:
    """Yield the expression of every output in a nest."""
    if isinstance(nest, str):
        yield way
    elif isinstance(nest, dict):
        for key, inner in nest.items():
            yield from _ways(inner, f"{way}[{key!r}]")
    elif isinstance(nest, (tuple, list)):
        for at, inner in enumerate(nest):
            yield from _ways(inner, f"{way}[{at}]")


_numbers = itertools.count()


def _compiled(source: str) -> Any:
    """Return the function; MindSpore compiles a function's source, which it reads by the function's file."""
    file = f"regraft_construct_{next(_numbers)}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, file, "exec"), names)  # noqa: S102 - the text is ours, of names and constants
    return names["construct"]


__all__ = ["Arguments", "Slot", "flattened", "nest_of"]
