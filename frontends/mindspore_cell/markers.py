"""Markers that MindSpore compiles into the graph, so that the boundaries of Cell calls are nodes of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

from .operators.recurrent import recurrent_kind, whole_construct
from .recording import CellCall


def add_markers(calls: Sequence[CellCall]) -> None:
    """Give every Cell that was called a `construct` that marks its arguments and results around its own.

    A marker is an Identity with an attribute (``entry:<id of the Cell>:<position>``): no optimisation removes
    it, and none merges two of them. Hooks would do the same for Cells that are called as attributes, but the
    compiler ignores those of Cells in a list. `state.borrowed` takes it all out again.
    """
    from mindspore.ops import operations

    arity: dict[int, tuple[Any, int, int]] = {}
    for call in calls:
        _, inputs, results = arity.get(id(call.cell), (None, 0, 0))
        arity[id(call.cell)] = (call.cell, max(inputs, len(call.sources)), max(results, call.results))
    construct = _marking_construct()
    for cell, inputs, results in arity.values():
        own = whole_construct(cell) if recurrent_kind(cell) else cell.construct
        for side, count in (("entry", inputs), ("exit", results)):
            made = []
            for position in range(count):
                marker = operations.Identity()
                marker.add_prim_attr("regraft", f"{side}:{id(cell)}:{position}")
                made.append(marker)
            vars(cell)[f"regraft_{side}"] = tuple(made)
        vars(cell)["regraft_construct"] = own
        vars(cell)["construct"] = MethodType(construct, cell)


def remove_markers(calls: Sequence[CellCall]) -> None:
    """Take the markers out, so that the same net can be compiled without them."""
    for call in calls:
        for name in ("construct", "regraft_construct", "regraft_entry", "regraft_exit"):
            vars(call.cell).pop(name, None)


def _marking_construct() -> Any:
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
