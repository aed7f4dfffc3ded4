"""Markers that MindSpore compiles into the graph, so that the boundaries of Cell calls are nodes of it."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Sequence
from functools import cache
from itertools import count
from types import MethodType
from typing import Any

from .operators.attention import is_attention, whole_attention
from .operators.recurrent import recurrent_kind, whole_construct
from .recording import CellCall, Form


def add_markers(calls: Sequence[CellCall], *, as_recorded: bool = True) -> None:
    """Give every Cell that was called a `construct` that marks its arguments and results around its own.

    A marker is an Identity with an attribute (``entry:<id of the Cell>:<position>``): no optimisation removes
    it, and none merges two of them. Hooks would do the same for Cells that are called as attributes, but the
    compiler ignores those of Cells in a list. `state.borrowed` takes it all out again.

    Args:
        calls: the recorded calls.
        as_recorded: give Cells whose calls were all of one form a construct for that form alone, which
            compiles several times faster than the one for any form.
    """
    of_cell: dict[int, list[CellCall]] = {}
    for call in calls:
        of_cell.setdefault(id(call.cell), []).append(call)
    for same in of_cell.values():
        cell = same[0].cell
        own = _own_construct(cell)
        if "construct" in vars(cell):
            vars(cell)["regraft_replaced"] = cell.construct  # one that the user gave this Cell alone
        vars(cell)["regraft_construct"] = own
        forms = {call.form for call in same}
        form = forms.pop() if len(forms) == 1 else None
        if as_recorded and form is not None:
            text, markers = _construct_for(form)
            construct = _readable(text)
            for side, position in markers:
                vars(cell)[f"regraft_{side}_{position}"] = _marker(side, cell, position)
        else:
            for side, number in (
                ("entry", max(len(call.sources) for call in same)),
                ("exit", max(call.results for call in same)),
            ):
                vars(cell)[f"regraft_{side}"] = tuple(_marker(side, cell, i) for i in range(number))
            construct = _construct_for_any()
        vars(cell)["construct"] = MethodType(construct, cell)


def _own_construct(cell: Any) -> Any:
    """Return the computation of the Cell, which a layer of one operator in the graph calls."""
    if recurrent_kind(cell):
        return whole_construct(cell)
    return whole_attention(cell) if is_attention(cell) else cell.construct


def remove_markers(calls: Sequence[CellCall]) -> None:
    """Take the markers out, so that the same net can be compiled without them."""
    for held in (vars(call.cell) for call in calls):
        if "regraft_construct" in held:
            del held["construct"]
            if "regraft_replaced" in held:
                held["construct"] = held["regraft_replaced"]
            for name in [n for n in held if n.startswith("regraft_")]:
                del held[name]


def _marker(side: str, cell: Any, position: int) -> Any:
    from mindspore.ops import operations

    marker = operations.Identity()
    marker.add_prim_attr("regraft", f"{side}:{id(cell)}:{position}")
    return marker


@cache
def _construct_for(form: Form) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Source of straight code for calls of one form, and (side, position) of the markers that it uses.

    The compiler unrolls loops and resolves `isinstance` for each Cell anew, at several times the cost.
    """
    given = [f"x{i}" for i in range(len(form.arguments))]
    markers: list[tuple[str, int]] = []

    def marked(side: str, position: int, text: str) -> str:
        markers.append((side, position))
        return f"self.regraft_{side}_{position}({text})"

    passed = [
        marked("entry", i, x) if is_tensor else x
        for i, (x, is_tensor) in enumerate(zip(given, form.arguments, strict=True))
    ]
    passed += [f"{name}={name}" for name in form.named]
    positions = count()

    def result(text: str, part: bool | tuple[Any, ...]) -> str:
        if isinstance(part, tuple):
            parts = [result(f"{text}[{i}]", p) for i, p in enumerate(part)]
            return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        position = next(positions)
        return marked("exit", position, text) if part else text

    text = (
        f"def construct({', '.join(['self', *given, *form.named])}):\n"
        f"    found = self.regraft_construct({', '.join(passed)})\n"
        f"    return {result('found', form.result)}\n"
    )
    return text, tuple(markers)


@cache
def _compiled(text: str) -> Any:
    """Return a function called `construct`, with a file name for its source."""
    name = f"<regraft {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, name, "exec"), names)  # noqa: S102 - of numbers and of names of arguments only
    return names["construct"]


def _readable(text: str) -> Any:
    """Return a function whose source `inspect` finds, where MindSpore's compiler asks for it."""
    function = _compiled(text)
    name = function.__code__.co_filename
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # others may clear it
    return function


@cache
def _construct_for_any() -> Any:
    """Python that MindSpore compiles: plain loops, no annotations, and `self` must be called so."""
    from mindspore import Tensor

    def construct(self, *inputs, **named):
        marked = ()
        for i in range(len(inputs)):
            if isinstance(inputs[i], Tensor):
                marked = marked + (self.regraft_entry[i](inputs[i]),)  # noqa: RUF005
            else:
                marked = marked + (inputs[i],)  # noqa: RUF005
        output = self.regraft_construct(*marked, **named)
        if isinstance(output, Tensor):
            return self.regraft_exit[0](output)
        if isinstance(output, tuple):
            results = ()
            position = 0
            for i in range(len(output)):
                if isinstance(output[i], Tensor):
                    results = results + (self.regraft_exit[position](output[i]),)  # noqa: RUF005
                    position = position + 1
                elif isinstance(output[i], tuple):
                    inner = ()
                    for j in range(len(output[i])):
                        if isinstance(output[i][j], Tensor):
                            inner = inner + (self.regraft_exit[position](output[i][j]),)  # noqa: RUF005
                        else:
                            inner = inner + (output[i][j],)  # noqa: RUF005
                        position = position + 1
                    results = results + (inner,)  # noqa: RUF005
                else:
                    results = results + (output[i],)  # noqa: RUF005
                    position = position + 1
            return results
        return output

    return construct
