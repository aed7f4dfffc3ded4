"""Control flow that depends on data: `torch.cond` and `while_loop` as If and Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...ir import Graph, TensorType, UnsupportedError, Value
from .context import Context, Result
from .nested import Region

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
    """What lowers the body of a higher-order operator.

    Attributes:
        context: of the graph that holds the operator.
    """

    context: Context

    def run_nested(self, body: GraphModule, arguments: Sequence[Result], context: Context) -> list[Result]:
        """The results of a body, computed in the graph of `context`."""
        ...


def conditional(bodies: Bodies, node: Node, arguments: Sequence[Any], place: str) -> list[Value]:
    """The results of ``cond(predicate, true_body, false_body, operands)``: If.

    Raises:
        UnsupportedError: for results that are no tensors, and a predicate that is no relation of two sizes.
    """
    predicate, then_body, else_body, operands = arguments
    context, types = bodies.context, _result_types(bodies, node, place)
    condition = predicate if isinstance(predicate, Value) else _relation(context, predicate, place)
    region = Region(context)
    branches: dict[str, Graph] = {}
    for name, body in (("then_branch", then_body), ("else_branch", else_body)):
        inner = region.enter(name)
        results = bodies.run_nested(body, [inner.captured(o) for o in operands], inner)
        branches[name] = _returning(inner, results, place)
    return context.b.ops(
        "If", condition, outputs=len(types), types=types, captures=region.complete(), **branches
    )


def loop(bodies: Bodies, node: Node, arguments: Sequence[Any], place: str) -> list[Value]:
    """The results of ``while_loop(condition, body, carried, operands)``: Loop.

    Raises:
        UnsupportedError: for numbers, which a Loop does not carry.
    """
    condition, body, carried, operands = arguments
    if not all(isinstance(value, Value) for value in carried):
        raise UnsupportedError(
            "E203",
            "expected a `while_loop` that carries tensors, got a number",
            place=place,
            hint="carry it as a tensor: `torch.tensor(0)`",
        )
    context, types = bodies.context, _result_types(bodies, node, place)
    first = bodies.run_nested(condition, [*carried, *operands], context)
    region = Region(context)
    inner = region.enter("body")
    inner.graph.add_input("iteration", TensorType("int64", ()))
    inner.graph.add_input("running", TensorType("bool", ()))
    trains = any(isinstance(v, Value) and context.trains(v) for v in [*carried, *operands])
    state: list[Value] = []
    for formal in [n for n in body.graph.nodes if n.op == "placeholder"][: len(carried)]:
        fake = formal.meta["val"]
        value = inner.graph.add_input(f"carried_{len(state)}", context.symbols.type(fake))
        inner.state_training(value, trains=trains)
        inner.saw(value, fake)
        state.append(value)
    outer = [inner.captured(o) for o in operands]
    new = bodies.run_nested(body, [*state, *outer], inner)
    again = bodies.run_nested(condition, [*new, *outer], inner)
    return context.b.ops(
        "Loop",
        None,
        *_values(first, place),
        *carried,
        outputs=len(types),
        types=types,
        body=_returning(inner, [*again, *new], place),
        captures=region.complete(),
    )


def _result_types(bodies: Bodies, node: Node, place: str) -> list[TensorType]:
    fakes = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
    if not all(hasattr(fake, "dtype") for fake in fakes):
        raise _no_tensor(place)
    return [bodies.context.symbols.type(fake) for fake in fakes]


def _returning(inner: Context, results: Sequence[Result], place: str) -> Graph:
    """The graph of a body, with these as its outputs."""
    inner.graph.outputs = [(f"output_{n}", value) for n, value in enumerate(_values(results, place))]
    return inner.graph


def _values(results: Sequence[Result], place: str) -> list[Value]:
    if not all(isinstance(result, Value) for result in results):
        raise _no_tensor(place)
    return list(results)


def _no_tensor(place: str) -> UnsupportedError:
    return UnsupportedError(
        "E203",
        "expected bodies of `cond` and `while_loop` that return tensors, got a number or None",
        place=place,
        hint="return `torch.tensor(n)`",
    )


def _relation(context: Context, predicate: Any, place: str) -> Value:
    """A relation of sizes, ``x.shape[0] > 4``, as a 0-d bool."""
    if isinstance(predicate, bool):
        return context.b.constant(predicate, "bool")
    relation: Any = context.symbols.relation(predicate)
    negated = type(relation).__name__ == "Unequality"
    name = "Equal" if negated else _RELATIONS.get(type(relation).__name__)
    if name is None:
        raise UnsupportedError("E203", f"expected a relation of two sizes, got `{relation}`", place=place)
    sides = [
        context.b.op("Squeeze", context.sizes([side]), context.b.constant([0])) for side in relation.args
    ]
    found = context.b.op(name, *sides)
    return context.b.op("Not", found) if negated else found
