"""Recurrent layers: each compiled as one primitive of ours and lowered to one composite.

MindSpore compiles its stacks layer by layer (LSTM) or step by step (GRU, RNN, every cell); what the Cell is
would be lost. So while a net is captured, its recurrent Cells call a primitive that only knows its types.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod
from types import MethodType
from typing import Any

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")

_STACKS, _CELLS = ("LSTM", "GRU", "RNN"), ("LSTMCell", "GRUCell", "RNNCell")
_RESULTS = {"LSTM": 3, "GRU": 2, "RNN": 2, "LSTMCell": 2, "GRUCell": 1, "RNNCell": 1}


def recurrent_kind(cell: Any) -> str:
    """Return the MindSpore class whose `construct` a recurrent Cell has (``LSTM``…); else empty."""
    from mindspore import nn

    for name in (*_STACKS, *_CELLS):
        cls = getattr(nn, name)
        if isinstance(cell, cls):
            return name if type(cell).construct is cls.construct else ""
    return ""


def whole_construct(cell: Any) -> Any:
    """Return a `construct` that calls one primitive with the states and lengths that it is given.

    The primitives become attributes of the Cell; `state.borrowed` takes them out again.
    """
    kind = recurrent_kind(cell)
    stack, step = _constructs()
    for lengths in (False, True):
        vars(cell)[f"regraft_{'lengths' if lengths else 'plain'}"] = _primitive()(cell, kind, lengths)
    return MethodType(step if kind in _CELLS else stack, cell)


@cache
def _constructs() -> tuple[Any, Any]:
    """Python that MindSpore compiles: plain conditions, no annotations."""

    def stack(self, x, hx=None, seq_length=None):
        states = ()
        if hx is not None:
            states = hx if self.is_lstm else (hx,)
        if seq_length is None:
            found = self.regraft_plain(x, *states)
        else:
            found = self.regraft_lengths(x, seq_length, *states)
        if self.is_lstm:
            return found[0], (found[1], found[2])
        return found[0], found[1]

    def step(self, x, hx):
        states = hx if isinstance(hx, tuple) else (hx,)
        return self.regraft_plain(x, *states)

    return stack, step


@cache
def _primitive() -> Any:
    """Return the primitive's class, made if MindSpore is there; it is compiled for types, never run."""
    from mindspore.ops import PrimitiveWithInfer

    class Recurrent(PrimitiveWithInfer):
        def __init__(self, cell: Any, kind: str, lengths: bool) -> None:
            super().__init__("Recurrent")
            self.regraft_cell, self.regraft_kind = cell, kind
            for name, value in (("cell_id", id(cell)), ("kind", kind), ("lengths", lengths)):
                self.add_prim_attr(name, value)

        def infer_shape(self, *operands: Any) -> Any:
            x, *others = operands
            cell, count = self.regraft_cell, _RESULTS[self.regraft_kind]
            if self.regraft_kind in _CELLS:
                state = tuple(others[0])
                return (state,) * count if count > 1 else state
            directions = 2 if cell.bidirectional else 1
            state = (cell.num_layers * directions, x[0 if cell.batch_first else 1], cell.hidden_size)
            return ((x[0], x[1], directions * cell.hidden_size), *[state] * (count - 1))

        def infer_dtype(self, *operands: Any) -> Any:
            count = _RESULTS[self.regraft_kind]
            return operands[:1] * count if count > 1 else operands[0]

    return Recurrent


@TABLE.op("Recurrent")
def recurrent(call: Call) -> tuple[Value, ...] | Value:
    """Return a stack of layers, or one step of a cell, with the parameters of its Cell."""
    kind = call.text("kind")
    if call.arg("cell_id") != id(call.cell):
        raise call.unsupported("it could not be told which call of the Cell this is")
    lengths = call.flag("lengths")
    x, *states = [call.value(i) for i in range(call.count) if not (lengths and i == 1)]
    if kind in _CELLS:
        return _step(call, kind, [x, *states])
    cell = call.cell
    names = [
        f"{role}_{side}_l{layer}{suffix}"
        for layer, suffix in product(range(cell.num_layers), ("", "_reverse")[: 1 + cell.bidirectional])
        for role in ("weight", "bias")[: 1 + cell.has_bias]
        for side in ("ih", "hh")
    ]
    given = states or [None] * (len(call.types) - 1)
    relu = type(cell.rnn).__name__ == "_DynamicRNNRelu"
    return tuple(
        call.ops(
            f"regraft.{kind}",
            x,
            call.value(1) if lengths else None,
            *given,
            *_parameters(call, names, x),
            outputs=len(call.types),
            types=list(call.types),
            hidden_size=cell.hidden_size,
            num_layers=cell.num_layers if cell.num_layers > 1 else None,
            bidirectional=1 if cell.bidirectional else None,
            has_bias=None if cell.has_bias else 0,
            batch_first=1 if cell.batch_first else None,
            dropout=float(cell.dropout) if cell.dropout and cell.num_layers > 1 else None,
            nonlinearity="relu" if relu else None,
        )
    )


@TABLE.op("LSTM")
def lstm(call: Call) -> tuple[Value, ...]:
    """Return a layer as a saved file has it: the parts of one column of weights, in torch's order of gates.

    nn.LSTM on the CPU adds its two biases up before it joins them to the weights.
    """
    x, h, c, joined = (call.value(i) for i in range(4))
    inputs, hidden = call.int("input_size"), call.int("hidden_size")
    call.ignore("dropout")  # between layers
    if call.int("num_layers") != 1 or call.flag("bidirectional") or call.int("proj_size", 0):
        raise call.unsupported("expected one layer of one direction, whose weights have one known order")
    shapes = [(4 * hidden, inputs), (4 * hidden, hidden), *([(4 * hidden,)] if call.flag("has_bias") else [])]
    parts: list[Value] = []
    start = 0
    for shape in shapes:
        stop = start + prod(shape)
        part = call.op("Slice", joined, *(call.constant([n]) for n in (start, stop, 0)))
        parts.append(call.reshape(part, shape))
        start = stop
    if len(shapes) > 2:
        parts.append(call.op("Mul", parts[-1], call.constant(0.0, call.dtype_of(x))))
    found = call.ops(
        "regraft.LSTM",
        x,
        None,
        h,
        c,
        *parts,
        outputs=3,
        hidden_size=hidden,
        has_bias=None if len(shapes) > 2 else 0,
    )
    rest = call.constant([[0.0]], call.dtype_of(x))  # which its gradient alone reads
    return (*found, rest, rest)


def _step(call: Call, kind: str, operands: list[Value]) -> tuple[Value, ...] | Value:
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if call.cell.has_bias else [])]
    relu = kind == "RNNCell" and call.cell.nonlinearity == "relu"
    found = call.ops(
        f"regraft.{kind}",
        *operands,
        *_parameters(call, names, operands[0]),
        outputs=len(call.types),
        types=list(call.types),
        nonlinearity="relu" if relu else None,
    )
    return tuple(found) if len(found) > 1 else found[0]


def _parameters(call: Call, names: list[str], x: Value) -> list[Value]:
    """Return the parameters of the Cell by name, whose element type must be the input's."""
    modules = call.graph.modules
    assert call.b.call is not None
    held = modules.module(modules.call(call.b.call).module).parameters
    values = [call.parameter(held[name]) for name in names]
    dtypes = {call.dtype_of(v) for v in (x, *values)}
    if len(dtypes) > 1:
        raise call.unsupported(f"expected one element type, got {' and '.join(sorted(dtypes))}")
    return values
