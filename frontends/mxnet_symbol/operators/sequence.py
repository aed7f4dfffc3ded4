"""Sequences of their own lengths: the last step, masks, reversal; and the packing of a recurrent layer."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


@TABLE.op("SequenceLast")
def sequence_last(call: Call) -> Value:
    """Return the last step of every sequence, of its own length where that is given."""
    axis = call.int("axis", 0)
    if not call.flag("use_sequence_length"):
        return call.op("Gather", call.value(0), call.constant(-1), axis=axis)
    x, rank = call.value(0), call.rank()
    if axis == 0:  # to (batch, time, ...)
        x = call.op("Transpose", x, perm=[1, 0, *range(2, rank)])
    last = call.op("Sub", call.cast(call.value(1), "int64"), call.constant(1))
    return call.op("GatherND", x, call.op("Unsqueeze", last, call.constant([1])), batch_dims=1)


@TABLE.op("SequenceMask")
def sequence_mask(call: Call) -> Value:
    """Replace every step after the end of its sequence by a number."""
    axis, number = call.int("axis", 0), call.float("value", 0.0)
    if not call.flag("use_sequence_length"):
        return call.value(0)
    x, lengths = call.operands()
    rank = call.rank(x)
    (steps,) = call.static_shape(x, [axis])
    lengths = call.op("Unsqueeze", lengths, call.constant([axis]))
    step = call.constant(np.arange(steps).reshape((-1, 1) if axis == 0 else (1, -1)), call.dtype_of(lengths))
    inside = call.op("Less", step, lengths)
    inside = call.op("Unsqueeze", inside, call.constant(list(range(2, rank))))
    return call.op("Where", inside, x, call.scalar_like(number, x))


@TABLE.op("SequenceReverse")
def sequence_reverse(call: Call) -> Value:
    """Return the steps of every sequence in reverse, those behind its end where they are."""
    axis = call.int("axis", 0)
    if axis != 0:
        raise call.unsupported(f"expected the axis 0, which alone MXNet reverses, got {axis}")
    x = call.value(0)
    (steps,) = call.static_shape(x, [0])
    backwards = call.constant(np.arange(steps)[::-1].copy())
    if not call.flag("use_sequence_length"):
        return call.op("Gather", x, backwards, axis=0)
    lengths = call.op("Unsqueeze", call.cast(call.value(1), "int64"), call.constant([0]))
    step = call.constant(np.arange(steps)[:, None])
    mirrored = call.op("Sub", call.op("Sub", lengths, call.constant(1)), step)
    source = call.op("Where", call.op("Less", step, lengths), mirrored, step)
    source = call.op("Unsqueeze", source, call.constant(list(range(2, call.rank(x)))))
    return call.op("GatherElements", x, call.op("Expand", source, call.op("Shape", x)), axis=0)


@TABLE.op("_rnn_param_concat")
def rnn_param_concat(call: Call) -> Value:
    """Return the weights and biases of a recurrent layer behind one another."""
    axis = call.int("dim", 1)
    return call.op("Concat", *call.operands(), axis=axis)
