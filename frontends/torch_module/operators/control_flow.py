"""Control flow: `torch.cond` as If, `while_loop`, `scan` and `map` as Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ....ir import Graph, TensorType, UnsupportedError, Value
from ..context import Context, Result
from ..nested_graphs import NestedGraphs

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_RELATIONS = {
    "Equality": "Equal",
    "StrictGreaterThan": "Greater",
    "GreaterThan": "GreaterOrEqual",
    "StrictLessThan": "Less",
    "LessThan": "LessOrEqual",
}
"""Sympy's class of a relation of sizes -> ONNX's operator."""


class Bodies(Protocol):
    """The lowering of a higher-order operator's bodies.

    Attributes:
        context: of the graph that holds the operator.
    """

    context: Context

    def run_nested(self, body: GraphModule, arguments: Sequence[Result], context: Context) -> list[Result]:
        """Return the results of a body, computed in the graph of `context`."""
        ...


def conditional(bodies: Bodies, node: Node, arguments: Sequence[Any], place: str) -> list[Value]:
    """Return the results of ``cond(predicate, true_body, false_body, operands)``: If.

    Raises:
        UnsupportedError: for results that are no tensors, and a predicate that is no relation of two sizes.
    """
    predicate, then_body, else_body, operands = arguments
    context, types = bodies.context, _result_types(bodies, node, place)
    condition = predicate if isinstance(predicate, Value) else _relation(context, predicate, place)
    nested = NestedGraphs(context)
    branches: dict[str, Graph] = {}
    for name, body in (("then_branch", then_body), ("else_branch", else_body)):
        inner = nested.enter(name)
        results = bodies.run_nested(body, [inner.captured(o) for o in operands], inner)
        branches[name] = _returning(inner, results, place)
    return context.b.ops(
        "If", condition, outputs=len(types), types=types, captures=nested.complete(), **branches
    )


def loop(bodies: Bodies, node: Node, arguments: Sequence[Any], place: str) -> list[Value]:
    """Return the results of ``while_loop(condition, body, carried, operands)``: Loop.

    A whole number that is carried is a 0-d int64 tensor of the Loop.
    """
    condition, body, carried, operands = arguments
    context, types = bodies.context, _result_types(bodies, node, place)
    carried = [v if isinstance(v, Value) else context.size_value(v) for v in carried]
    first = bodies.run_nested(condition, [*_read(context, condition, carried), *operands], context)
    nested = NestedGraphs(context)
    inner = nested.enter("body")
    inner.graph.add_input("iteration", TensorType("int64", ()))
    inner.graph.add_input("running", TensorType("bool", ()))
    trains = any(isinstance(v, Value) and context.trains(v) for v in [*carried, *operands])
    state: list[Value] = []
    for formal in [n for n in body.graph.nodes if n.op == "placeholder"][: len(carried)]:
        fake = formal.meta["val"]
        is_tensor = hasattr(fake, "dtype")
        stated = context.symbols.type(fake) if is_tensor else _NUMBER
        value = inner.graph.add_input(f"carried_{len(state)}", stated)
        inner.state_training(value, trains=trains and is_tensor)
        if is_tensor:
            inner.note_sizes(value, fake)
        state.append(value)
    outer = [inner.captured(o) for o in operands]
    new = _values(inner, bodies.run_nested(body, [*_read(inner, body, state), *outer], inner), place)
    again = bodies.run_nested(condition, [*_read(inner, condition, new), *outer], inner)
    return context.b.ops(
        "Loop",
        None,
        *_values(context, first, place),
        *carried,
        outputs=len(types),
        types=types,
        body=_returning(inner, [*again, *new], place),
        captures=nested.complete(),
    )


def scan(bodies: Bodies, node: Node, arguments: Sequence[Any], place: str) -> list[Value]:
    """Return the results of ``scan(body, carried, rows, operands)``: a Loop with a turn for each row."""
    body, carried, rows, operands = arguments
    return _row_by_row(bodies, node, (body, carried, rows, operands), place)


def map_rows(bodies: Bodies, node: Node, arguments: Sequence[Any], place: str) -> list[Value]:
    """Return the results of ``map_impl(body, rows, operands)``: a scan that carries nothing."""
    body, rows, operands = arguments
    return _row_by_row(bodies, node, (body, [], rows, operands), place)


def _row_by_row(bodies: Bodies, node: Node, arguments: Sequence[Any], place: str) -> list[Value]:
    """Return the carried values after the last row, then the results of all rows, each joined on axis 0."""
    body, carried, rows, operands = arguments
    context, types = bodies.context, _result_types(bodies, node, place)
    formals = [n.meta["val"] for n in body.graph.nodes if n.op == "placeholder"]
    nested = NestedGraphs(context)
    inner = nested.enter("body")
    turn = inner.graph.add_input("iteration", _NUMBER)
    running = inner.graph.add_input("running", TensorType("bool", ()))
    trains = any(isinstance(v, Value) and context.trains(v) for v in [*carried, *rows, *operands])
    state: list[Value] = []
    for fake in formals[: len(carried)]:
        value = inner.graph.add_input(f"carried_{len(state)}", context.symbols.type(fake))
        inner.state_training(value, trains=trains)
        inner.note_sizes(value, fake)
        state.append(value)
    taken: list[Result] = []
    for value in rows:
        whole = inner.captured(value)
        row = inner.b.op("Gather", whole, turn, axis=0)
        inner.state_training(row, trains=isinstance(value, Value) and context.trains(value))
        taken.append(row)
    outer = [inner.captured(o) for o in operands]
    results = _values(inner, bodies.run_nested(body, [*state, *taken, *outer], inner), place)
    shape = context.b.op("Shape", rows[0])
    return context.b.ops(
        "Loop",
        context.b.op("Gather", shape, context.b.constant(0), axis=0),
        context.b.constant(True, "bool"),
        *carried,
        outputs=len(types),
        types=types,
        body=_returning(inner, [running, *results], place),
        captures=nested.complete(),
    )


_NUMBER = TensorType("int64", ())
"""The type of a whole number that a loop carries."""


def _read(context: Context, body: GraphModule, values: Sequence[Value]) -> list[Result]:
    """Return arguments of a body: a value, or where the body takes a number the symbol that stands for it."""
    formal = [n.meta["val"] for n in body.graph.nodes if n.op == "placeholder"]
    found: list[Result] = []
    for value, fake in zip(values, formal, strict=False):
        if not hasattr(fake, "dtype"):
            context.note_number(value, fake)
        found.append(value if hasattr(fake, "dtype") else context.symbols.size(fake))
    return found


def _result_types(bodies: Bodies, node: Node, place: str) -> list[TensorType]:
    fakes = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
    if not all(hasattr(fake, "dtype") or type(fake).__name__ in ("SymInt", "int") for fake in fakes):
        raise _no_tensor(place)
    return [bodies.context.symbols.type(f) if hasattr(f, "dtype") else _NUMBER for f in fakes]


def _returning(inner: Context, results: Sequence[Result], place: str) -> Graph:
    """Return the graph of a body, with these as its outputs."""
    inner.graph.outputs = [(f"output_{n}", value) for n, value in enumerate(_values(inner, results, place))]
    return inner.graph


def _values(context: Context, results: Sequence[Result], place: str) -> list[Value]:
    """Return the results of a body, numbers and relations of numbers as 0-d tensors."""
    found: list[Value] = []
    for result in results:
        if isinstance(result, Value):
            found.append(result)
        elif isinstance(result, bool) or type(result).__name__ == "SymBool":
            found.append(_relation(context, result, place))
        elif isinstance(result, int) or hasattr(result, "free_symbols"):
            found.append(context.size_value(result))
        else:
            raise _no_tensor(place)
    return found


def _no_tensor(place: str) -> UnsupportedError:
    return UnsupportedError(
        "E203",
        "expected bodies of `cond` and `while_loop` that return tensors or whole numbers, got another kind",
        place=place,
        hint="return `torch.tensor(x)`",
    )


def _relation(context: Context, predicate: Any, place: str) -> Value:
    """Return a relation of sizes, ``x.shape[0] > 4``, as a 0-d bool."""
    if isinstance(predicate, bool):
        return context.b.constant(predicate, "bool")
    relation: Any = context.symbols.relation(predicate)
    negated = type(relation).__name__ == "Unequality"
    name = "Equal" if negated else _RELATIONS.get(type(relation).__name__)
    if name is None:
        raise UnsupportedError("E203", f"expected a relation of two sizes, got `{relation}`", place=place)
    sides = [
        context.b.op("Squeeze", context.shape_value([side]), context.b.constant([0]))
        for side in relation.args
    ]
    found = context.b.op(name, *sides)
    return context.b.op("Not", found) if negated else found
