"""Places for operators that a person is to write by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Value
from .context import Context
from .environment import Environment
from .nodes import target_name
from .refusals import find_advice, tensor_arguments, write_call

if TYPE_CHECKING:
    from torch.fx import Node


def add_stub(
    node: Node, context: Context, environment: Environment, *, place: str, reason: str
) -> list[Value] | Value:
    """Add a place for an operator: its tensor operands, the call in torch, its result types and why.

    Args:
        node: the call of the operator.
        context: of the graph that is built.
        environment: what fx nodes stand for.
        place: where it is, for the notes.
        reason: why it is not lowered; empty where the operator itself says enough.
    """
    why, advice = find_advice(target_name(node.target))
    results = node.meta["val"]
    fakes = results if isinstance(results, (list, tuple)) else [results]
    operands = [environment[n] for n in tensor_arguments(node)]
    types = [context.symbols.type(fake) for fake in fakes]
    values = context.b.ops(
        "regraft.Stub",
        *operands,
        outputs=len(types),
        types=types,
        operator=target_name(node.target),
        call=write_call(node, [f"x{i}" for i in range(len(operands))]),
        reason=f"{reason or why}; instead: {advice}",
    )
    context.notes.append(
        f"stub to be written by hand: `{target_name(node.target)}`{f' - at {place}' if place else ''}"
    )
    return values if isinstance(results, (list, tuple)) else values[0]
