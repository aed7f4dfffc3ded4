"""Hooks that MindSpore compiles into the graph, so that the boundaries of every Cell call are nodes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .recording import CellCall


def add_markers(calls: Sequence[CellCall]) -> None:
    """Give every Cell that was called markers for its arguments and results, and hooks that apply them.

    A marker is an Identity with an attribute (``entry:<id of the Cell>:<position>``): no optimisation removes
    it, and none merges two of them. `state.borrowed` takes it all out again.
    """
    from mindspore.ops import operations

    arity: dict[int, tuple[Any, int, int]] = {}
    for call in calls:
        _, inputs, results = arity.get(id(call.cell), (None, 0, 0))
        arity[id(call.cell)] = (call.cell, max(inputs, len(call.sources)), max(results, call.results))
    mark_inputs, mark_outputs = _hooks()
    for cell, inputs, results in arity.values():
        for side, count in (("entry", inputs), ("exit", results)):
            made = []
            for position in range(count):
                marker = operations.Identity()
                marker.add_prim_attr("regraft", f"{side}:{id(cell)}:{position}")
                made.append(marker)
            vars(cell)[f"regraft_{side}"] = tuple(made)
        cell.register_forward_pre_hook(mark_inputs)
        cell.register_forward_hook(mark_outputs)


def remove_markers(calls: Sequence[CellCall]) -> None:
    """Take the hooks out, so that the same net can be compiled without them."""
    for call in calls:
        call.cell._forward_pre_hook.clear()
        call.cell._forward_hook.clear()


def _hooks() -> tuple[Any, Any]:
    """The two hooks: Python that MindSpore compiles, hence plain loops and no annotations."""
    from mindspore import Tensor

    def mark_inputs(cell, inputs):  # noqa: ANN001, ANN202
        marked = ()
        for i in range(len(inputs)):
            if isinstance(inputs[i], Tensor):
                marked = marked + (cell.regraft_entry[i](inputs[i]),)  # noqa: RUF005
            else:
                marked = marked + (inputs[i],)  # noqa: RUF005
        return marked

    def mark_outputs(cell, inputs, output):  # noqa: ANN001, ANN202, ARG001
        if isinstance(output, Tensor):
            return cell.regraft_exit[0](output)
        if isinstance(output, tuple):
            marked = ()
            for i in range(len(output)):
                if isinstance(output[i], Tensor):
                    marked = marked + (cell.regraft_exit[i](output[i]),)  # noqa: RUF005
                else:
                    marked = marked + (output[i],)  # noqa: RUF005
            return marked
        return output

    return mark_inputs, mark_outputs
