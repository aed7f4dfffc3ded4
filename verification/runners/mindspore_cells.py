"""Handles MindSpore's Cells: where they are in a net, how they are run, and errors about them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...frontends.mindspore_cell.capture import start_mindspore
from ...frontends.mindspore_cell.live_state import borrow
from ...frontends.mindspore_cell.messages import first_line
from ...ir import ModelError
from .mindspore_scatters import scattering_in_one_thread


def start() -> None:
    """Import MindSpore with correct and fast settings.

    Raises:
        ModelError: when it is not installed.
    """
    if "mindspore" not in sys.modules:
        # its convolutions are 10 to 100 times too slow on AVX-512 otherwise; oneDNN reads it on loading
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    start_mindspore()


def cells_of(net: Any) -> list[tuple[str, Any]]:
    """Return (path, Cell) of every Cell, each once, under its first path; the net itself first."""
    found: dict[int, tuple[str, Any]] = {}
    stack = [("", net)]
    while stack:
        path, cell = stack.pop()
        if id(cell) in found:
            continue
        found[id(cell)] = (path, cell)
        children = [
            (f"{path}.{name}" if path else name, c) for name, c in cell._cells.items() if c is not None
        ]
        stack.extend(reversed(children))
    return list(found.values())


def parameters_of(cells: Sequence[Any]) -> list[Any]:
    """Return every Parameter of the Cells, each once."""
    return list({id(p): p for cell in cells for p in cell._params.values() if p is not None}.values())


def source_expressions(net: Any) -> dict[int, str]:
    """Return id of a Cell -> the expression that reaches it from ``net``."""
    from mindspore import nn

    found: dict[int, str] = {}
    stack = [(net, "net")]
    while stack:
        cell, expression = stack.pop()
        if id(cell) in found:
            continue
        found[id(cell)] = expression
        listed = isinstance(cell, (nn.CellList, nn.SequentialCell))
        for at, (name, child) in enumerate(cell._cells.items()):
            if child is not None:
                stack.append((child, f"{expression}[{at}]" if listed else f"{expression}.{name}"))
    return found


@contextmanager
def evaluating(cells: Sequence[Any]) -> Iterator[None]:
    """Set PyNative and evaluation mode in a with block; the Cells are as before afterwards."""
    with borrow(list(cells), parameters_of(cells)), _taking_first_of_equals(), scattering_in_one_thread():
        yield


@contextmanager
def _taking_first_of_equals() -> Iterator[None]:
    """Make `topk` find the first of equal elements in a with block, as ONNX says and its runtimes do.

    MindSpore and torch leave open which of them they find; on CPU its sort of the whole axis is stable.
    """
    from mindspore import Tensor, ops

    original = ops.topk

    def topk(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("input", "k", "dim", "largest"), args, strict=False)) | kwargs
        x, dim = given["input"], given.get("dim")
        axis = -1 if dim is None else dim
        found = original(x, x.shape[axis], axis, given.get("largest", True))
        return tuple(t.narrow(axis, 0, int(given["k"])) for t in found)

    ops.topk = topk
    Tensor.topk = topk
    try:
        yield
    finally:
        ops.topk = original
        del Tensor.topk  # which inherits its own


def own_names(parameters: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Return parameters with the names that they have."""
    return [(p, p.name) for p in parameters.values()]


@contextmanager
def use_own_names(names: Sequence[tuple[Any, str]]) -> Iterator[None]:
    """Give borrowed Parameters their own names in a with block, because an optimizer goes by names."""
    borrowed_names = [(p, p.name) for p, _ in names]
    try:
        for parameter, name in names:
            parameter.name = name
        yield
    finally:
        for parameter, name in borrowed_names:
            parameter.name = name


@contextmanager
def intercept_calls(call: Callable[..., Any] | None) -> Iterator[None]:
    """Replace `Cell.__call__` in a with block; None leaves it."""
    from mindspore.nn import Cell

    original = Cell.__call__
    if call is not None:
        Cell.__call__ = call
    try:
        yield
    finally:
        Cell.__call__ = original


def refusal(what: str, error: Exception, place: str = "") -> ModelError:
    """Return the E702 error for an exception from importing, building, running or training a net."""
    return ModelError("E702", f"MindSpore could not {what} the model: {first_line(error)}", place=place)
