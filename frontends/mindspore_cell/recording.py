"""One PyNative run that records every Cell call: which Cell, inside which call, with what arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

Source = "tuple[str, int] | None"
"""Origin of an argument: ("input", position), ("call", number of the call that made it), or None."""


@dataclass(frozen=True, slots=True)
class Form:
    """The leaves of a call's arguments and results that are tensors.

    Attributes:
        arguments: per positional argument.
        named: names of the others.
        result: of a single result, or of each in a tuple and in the tuples of that.
    """

    arguments: tuple[bool, ...] = ()
    named: tuple[str, ...] = ()
    result: bool | tuple[bool | tuple[bool, ...], ...] = False


@dataclass(slots=True)
class CellCall:
    """One call of a Cell.

    Attributes:
        cell: the Cell.
        parent: number of the call it was made in, None for the outermost.
        sources: per positional argument, where its value came from.
        results: number of its results, those of a tuple in a tuple each counted; 1 for a single tensor.
        form: which of the arguments and results are tensors; None where that is not known.
        shapes: of the results, counted likewise; None of what is no tensor.
    """

    cell: Any
    parent: int | None
    sources: list[Any] = field(default_factory=list)
    results: int = 1
    form: Form | None = None
    shapes: list[tuple[int, ...] | None] = field(default_factory=list)


_MARKED_DEPTH = 2
"""Tuples in tuples are marked in each part; what is nested deeper is not."""


def record(root: Any, arguments: Sequence[Any], tensors: Sequence[Any]) -> tuple[list[CellCall], Any]:
    """Call `root` and return (its Cell calls in the order they were made, its result).

    `tensors` are those in its arguments, in order. The Cells must be in the mode that is to be recorded,
    MindSpore in PyNative mode.
    """
    from mindspore import Tensor
    from mindspore.common.api import (
        _pynative_executor,  # pyright: ignore[reportAttributeAccessIssue]
    )
    from mindspore.nn import Cell

    def form_of(result: Any, depth: int = 0) -> Any:
        if isinstance(result, tuple) and depth < _MARKED_DEPTH:
            return tuple(form_of(part, depth + 1) for part in result)
        return isinstance(result, Tensor)

    calls: list[CellCall] = []
    stack: list[int] = []
    made: list[tuple[CellCall, list[Any]]] = []  # the results are alive, so that no id is used twice
    made_by: dict[int, Any] = {id(a): ("input", i) for i, a in enumerate(tensors)}
    original = Cell.__call__

    def recorded(cell: Any, *args: Any, **kwargs: Any) -> Any:
        number = len(calls)
        call = CellCall(cell, stack[-1] if stack else None, [made_by.get(id(a)) for a in args])
        calls.append(call)
        stack.append(number)
        try:
            result = original(cell, *args, **kwargs)
        finally:
            stack.pop()
        results = [v for part in _parts(result) for v in (part if isinstance(part, tuple) else (part,))]
        call.results = len(results)
        made.append((call, results))
        call.form = Form(tuple(isinstance(a, Tensor) for a in args), tuple(kwargs), form_of(result))
        for value in results:
            made_by[id(value)] = ("call", number)
        return result

    Cell.__call__ = recorded  # pyright: ignore[reportAttributeAccessIssue]
    try:
        result = root(*arguments)
        # PyNative is asynchronous: an operator's error must not surface in a later one. The public
        # `runtime.synchronize` does nothing on CPU but log an error on the user's terminal.
        _pynative_executor.sync()
    finally:
        Cell.__call__ = original
    for call, results in made:  # now: during the run each shape would wait for the kernels
        call.shapes = [tuple(v.shape) if isinstance(v, Tensor) else None for v in results]
    return calls, result


def stand_ins(cells: Sequence[Any], calls: Sequence[CellCall]) -> list[CellCall]:
    """Return calls that stand for those of Cells that were not called, as they are in a branch not taken.

    They have as many arguments as `construct` names, and as many results as few Cells exceed.
    """
    from mindspore.nn import Cell

    called = {id(call.cell) for call in calls}
    found = [c for c in cells if id(c) not in called and type(c).construct is not Cell.construct]
    return [CellCall(c, None, [None] * _arity(c), _MOST_RESULTS) for c in found]


_MOST_RESULTS = 8


def _arity(cell: Any) -> int:
    parameters = signature(cell.construct).parameters.values()
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _parts(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)
