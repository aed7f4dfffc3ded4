"""Hooks that MindSpore compiles into the graph, so that the boundaries of every Cell call are nodes of it.

MindSpore is imported at the top: what a compiled function refers to must be a global of its module. Nothing
but `capture` imports this file, and only when it captures.
"""

from __future__ import annotations

from mindspore import Tensor


def mark_inputs(cell, inputs):
    """Pass every tensor argument through the Cell's marker for that position."""
    marked = []
    for i in range(len(inputs)):
        if isinstance(inputs[i], Tensor):
            marked.append(cell.regraft_entry[i](inputs[i]))
        else:
            marked.append(inputs[i])
    return tuple(marked)


def mark_outputs(cell, inputs, output):
    """Pass a tensor result, or the tensors of a tuple result, through the Cell's markers."""
    if isinstance(output, Tensor):
        return cell.regraft_exit[0](output)
    if isinstance(output, tuple):
        marked = []
        for i in range(len(output)):
            if isinstance(output[i], Tensor):
                marked.append(cell.regraft_exit[i](output[i]))
            else:
                marked.append(output[i])
        return tuple(marked)
    return output
