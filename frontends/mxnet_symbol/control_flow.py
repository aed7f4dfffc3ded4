"""Control flow of symbols, written out: loops turn by turn, and both branches of a condition.

The number of turns is a size, or the most that a loop states: `_foreach` runs once for every slice, and what
`_while_loop` gives behind its last turn is undefined. A `_while_loop` of many turns is a Loop, which ends
where its condition does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...ir import Builder, Constant, Graph, ModelError, TensorType, Value
from .call import Call
from .reader import Symbol, SymbolNode

Lower = Callable[[Call], Sequence[Value]]
"""Lowers one operator that is no control flow."""

_OPERATORS = {"_foreach": 1, "_while_loop": 2, "_cond": 3}
"""Operator -> how many symbols it runs."""

_MOST_TURNS, _MOST_NODES = 1024, 1 << 15  # written out: of one loop, and of what loops within loops make
_WRITTEN_OUT = 32
"""Turns of a `_while_loop` up to which every one is written out, which all targets can write."""

_MOST_LOOPED = 1 << 20


def is_control_flow(node: SymbolNode) -> bool:
    """Whether a node runs symbols of its own."""
    return node.op in _OPERATORS


def unrolled(b: Builder, node: SymbolNode, operands: Sequence[Value | None], lower: Lower) -> list[Value]:
    """Return the outputs of a node of control flow.

    Args:
        b: the builder, in the module call of the node.
        node: a `_foreach`, `_while_loop` or `_cond`.
        operands: the values of its inputs.
        lower: for the operators of its symbols.

    Raises:
        ModelError: when the node does not say where its inputs go.
        UnsupportedError: when the number of turns is not known.
    """
    given = [value for value in operands if value is not None]
    if len(node.subgraphs) != _OPERATORS[node.op] or len(given) != len(operands):
        raise ModelError(
            "E101",
            f"expected {_OPERATORS[node.op]} `subgraphs` of `{node.op}`, got {len(node.subgraphs)}",
            place=node.place,
        )
    call = Call(b, node, given, [""] * len(given))
    call.ignore("num_args", "num_outputs", *range(len(given)))
    turn = {"_foreach": _foreach, "_while_loop": _while_loop, "_cond": _cond}[node.op]
    outputs = turn(call, given, lower)
    call.require_all_read()
    return outputs


def _run(call: Call, part: Symbol, given: Sequence[Value], lower: Lower) -> list[Value]:
    """Return the outputs of a symbol on values for its variables, in the order in which it reads them."""
    variables = [node for node in part.nodes if node.is_variable]
    call.bounded(len(call.graph.flow), _MOST_NODES)
    if len(variables) != len(given):
        raise ModelError(
            "E101", f"expected {len(variables)} inputs of a symbol, got {len(given)}", place=call.place
        )
    values: dict[int, list[Value]] = {n.index: [v] for n, v in zip(variables, given, strict=True)}
    names = {node.index: node.name for node in part.nodes}
    for node in part.operators():
        operands: list[Value | None] = [_output(values, reference, node.place) for reference in node.inputs]
        if is_control_flow(node):
            values[node.index] = unrolled(call.b, node, operands, lower)
            continue
        values[node.index] = list(lower(Call(call.b, node, operands, [names[i] for i, _ in node.inputs])))
    return [_output(values, head, call.place) for head in part.heads]


def _output(values: dict[int, list[Value]], reference: tuple[int, int], place: str) -> Value:
    index, output = reference
    if output >= len(values[index]):
        raise ModelError(
            "E101", f"expected output {output} of node {index}, which it does not have", place=place
        )
    return values[index][output]


def _places(call: Call, name: str, count: int) -> list[int]:
    """Return the numbers of an attribute ``in_data_locs``, each below `count`."""
    found = call.ints(name, ())
    if not all(0 <= place < count for place in found):
        raise ModelError("E101", f"expected `{name}` of numbers below {count}, got {found}", place=call.place)
    return found


def _turns(call: Call, count: Any) -> int:
    if not isinstance(count, int) or not 0 < count <= _MOST_TURNS:
        raise call.unsupported(f"expected from 1 to {_MOST_TURNS} turns, got {count}")
    return count


def _foreach(call: Call, given: list[Value], lower: Lower) -> list[Value]:
    """Return outputs of every slice along axis 0, stacked, then the states behind the last one."""
    (part,), count = call.node.subgraphs, len(given)
    data, states, rest = (_places(call, f"{n}_locs", count) for n in ("in_data", "in_state", "remain"))
    outputs = call.int("num_out_data")
    if sorted([*data, *states, *rest]) != list(range(count)) or outputs + len(states) != len(part.heads):
        raise call.unsupported("expected every input in one place of its symbol, and every state again")
    if not data:
        raise call.unsupported("expected something to run over")
    turns = _turns(call, call.shape(given[0])[0])
    state = given[len(data) : len(data) + len(states)]
    found: list[list[Value]] = []
    for turn in range(turns):
        slices = [call.op("Gather", value, call.constant(turn), axis=0) for value in given[: len(data)]]
        operands = {**dict(zip(data, slices, strict=True)), **dict(zip(states, state, strict=True))}
        operands |= dict(zip(rest, given[len(data) + len(states) :], strict=True))
        results = _run(call, part, [operands[place] for place in range(count)], lower)
        found.append(results[:outputs])
        state = results[outputs:]
    return [*(_stacked(call, column) for column in zip(*found, strict=True)), *state]


def _stacked(call: Call, values: Sequence[Value]) -> Value:
    parts = [call.op("Unsqueeze", value, call.constant([0])) for value in values]
    return parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=0)


def _cond(call: Call, given: list[Value], lower: Lower) -> list[Value]:
    """Return the outputs of one branch; both are computed."""
    names = ("cond", "then", "else")
    results = [
        _run(call, part, [given[i] for i in _places(call, f"{name}_input_locs", len(given))], lower)
        for name, part in zip(names, call.node.subgraphs, strict=True)
    ]
    condition = _flag(call, results[0][0])
    return [call.op("Where", condition, *pair) for pair in zip(results[1], results[2], strict=True)]


def _flag(call: Call, value: Value) -> Value:
    """Return a condition, an array of one number, as a flag without dimensions."""
    return call.cast(call.reshape(value, []), "bool")


@dataclass(frozen=True)
class _While:
    """A `_while_loop` as its attributes tell it.

    Attributes:
        tested: numbers of the loop's inputs that the condition reads, in order.
        places: likewise of those that the function reads.
        changing: numbers of the inputs that a turn replaces.
        outputs: how many of the function's results are collected.
        turns: how many there are at most.
    """

    tested: list[int]
    places: list[int]
    changing: list[int]
    outputs: int
    turns: int


def _while_loop(call: Call, given: list[Value], lower: Lower) -> list[Value]:
    """Outputs of every turn, zeros behind the last one, then the variables as the last turn left them."""
    tested = _places(call, "cond_input_locs", len(given))
    places = _places(call, "func_input_locs", len(given))
    changing = [places[i] for i in _places(call, "func_var_locs", len(places))]
    loop = _While(tested, places, changing, call.int("num_out_data"), call.int("max_iterations"))
    if loop.outputs + len(changing) != len(call.node.subgraphs[1].heads) or len({*changing}) < len(changing):
        raise call.unsupported("expected every variable of the loop again")
    return (_written_out if loop.turns <= _WRITTEN_OUT else _looped)(call, loop, given, lower)


def _written_out(call: Call, loop: _While, given: list[Value], lower: Lower) -> list[Value]:
    """Return every turn after the other; those behind the last one change nothing."""
    condition, function = call.node.subgraphs
    values, running = list(given), call.constant(True)
    found: list[list[Value]] = []
    for _ in range(_turns(call, loop.turns)):
        again = _flag(call, _run(call, condition, [values[i] for i in loop.tested], lower)[0])
        running = call.op("And", running, again)
        results = _run(call, function, [values[i] for i in loop.places], lower)
        kept = results[: loop.outputs]
        zeros = [call.scalar_like(0, v) for v in kept]
        found.append([call.op("Where", running, v, z) for v, z in zip(kept, zeros, strict=True)])
        for place, new in zip(loop.changing, results[loop.outputs :], strict=True):
            values[place] = call.op("Where", running, new, values[place])
    collected = [_stacked(call, column) for column in zip(*found, strict=True)]
    return [*collected, *(values[i] for i in loop.changing)]


def _looped(call: Call, loop: _While, given: list[Value], lower: Lower) -> list[Value]:
    """Return a Loop that carries the number of the turn, the variables, and what is collected, row by row."""
    condition, function = call.node.subgraphs
    call.bounded(loop.turns, _MOST_LOOPED)
    first = _flag(call, _run(call, condition, [given[i] for i in loop.tested], lower)[0])
    body = Graph("body", call.graph.modules)
    inner = Call(Builder(body, call=call.b.call, location=call.b.location), call.node, given, call.names)
    body.add_input("iteration", TensorType("int64", ()))
    body.add_input("running", TensorType("bool", ()))
    turn = body.add_input("turn", TensorType("int64", ()))
    captured: list[Value] = []
    values: dict[int, Value] = {}
    for place in loop.changing:
        values[place] = body.add_input(f"variable_{place}", call.type_of(given[place]))
    for place in dict.fromkeys([*loop.places, *loop.tested]):
        if place not in values:
            node = call.graph.node(given[place].node)
            if isinstance(node, Constant):
                values[place] = body.add_constant(node.data)
            else:
                captured.append(given[place])
                values[place] = body.add_capture(call.type_of(given[place]))
    results = _run(inner, function, [values[i] for i in loop.places], lower)
    rows: list[Value] = []
    collected: list[Value] = []
    for number, row in enumerate(results[: loop.outputs]):
        shape = [loop.turns, *inner.static_shape(row)]
        call.bounded(prod(shape))
        type_ = TensorType(inner.dtype_of(row), tuple(shape))
        zero = call.constant(0, type_.dtype)
        collected.append(call.op("Expand", zero, call.constant(shape), types=[type_]))
        buffer = body.add_input(f"rows_{number}", type_)
        at = inner.reshape(turn, [1, 1])
        update = inner.op("Unsqueeze", row, inner.constant([0]))
        rows.append(inner.op("ScatterND", buffer, at, update))
    for place, new in zip(loop.changing, results[loop.outputs :], strict=True):
        if inner.type_of(new) != call.type_of(given[place]):
            raise call.unsupported(f"expected a variable of {call.type_of(given[place])} to keep its type")
        values[place] = new
    after = inner.op("Add", turn, inner.constant(1))
    again = _flag(inner, _run(inner, condition, [values[i] for i in loop.tested], lower)[0])
    again = inner.op("And", again, inner.op("Less", after, inner.constant(loop.turns)))
    state = [values[i] for i in loop.changing]
    body.outputs = [(f"output_{n}", v) for n, v in enumerate([again, after, *state, *rows])]
    start = [call.constant(0), *(given[i] for i in loop.changing), *collected]
    types = [call.type_of(value) for value in start]
    found = call.b.ops(
        "Loop", None, first, *start, outputs=len(start), types=types, captures=captured, body=body
    )
    return [*found[1 + len(state) :], *found[1 : 1 + len(state)]]
