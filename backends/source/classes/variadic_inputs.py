"""Lets modules take any number of inputs, as in DenseNet: ``forward(self, *inputs)``."""

from __future__ import annotations

from ....ir import Value
from ..definitions import Definition, Statement
from ..expressions import Argument, Call, Expression, Use, only_call
from ..traversal import substitute, uses


def gather_inputs(definitions: list[Definition], concatenation: str) -> None:
    """Make the inputs variadic in modules of one source class that begin by joining all inputs.

    A layer of a dense block joins the results of all layers before it, so each has another number of inputs.
    A module with a single input, which joins nothing, gets a join of that one if this makes it like the
    others.

    Args:
        definitions: of one level.
        concatenation: the function that joins tensors.
    """
    classes: dict[str, list[Definition]] = {}
    for definition in definitions:
        if definition.has_body and definition.inputs and not definition.methods:
            classes.setdefault(definition.source_class, []).append(definition)
    for members in classes.values():
        if len({len(d.inputs) for d in members}) < 2 or all(name for d in members for name in d.input_names):
            continue
        joining = [d for d in members if _joins(d, concatenation)]
        for definition in joining:
            cat = only_call(definition.statements[0].expression)
            assert cat is not None
            _gather(definition, cat)
        if joining:
            cat = only_call(joining[0].statements[0].expression)
            assert cat is not None
            for definition in members:
                if len(definition.inputs) == 1 and not definition.gathers:
                    _join_one(definition, cat)


def _joins(definition: Definition, concatenation: str) -> bool:
    """Whether the first step joins all inputs, in order, and nothing else reads them."""
    cat = only_call(definition.statements[0].expression) if definition.statements else None
    if len(definition.inputs) < 2 or cat is None or cat.callee != concatenation:
        return False
    read = [u.value for s in definition.statements for u in uses(s.expression)]
    own = [u.value for u in uses(cat)]
    return (
        own == definition.inputs
        and not any(v in definition.outputs for v in own)
        and not any(v in own for v in read[len(own) :])
    )


def _gather(definition: Definition, cat: Call) -> None:
    """Let the first input stand for the tuple of all inputs."""
    first = definition.inputs[0]
    definition.inputs, definition.input_names, definition.gathers = [first], [""], True
    arguments = (Argument("", Use(first)), *cat.arguments[1:])
    definition.statements[0].expression = Expression((Call(cat.callee, arguments),))


def _join_one(definition: Definition, cat: Call) -> None:
    """Insert a first step that joins the only input."""
    (first,) = definition.inputs
    joined = Value(~definition.module)  # no node of the graph: the keys of those are not negative
    for statement in definition.statements:
        statement.expression = substitute(statement.expression, first, joined)
    definition.outputs = [joined if v == first else v for v in definition.outputs]
    arguments = (Argument("", Use(first)), *cat.arguments[1:])
    definition.statements.insert(0, Statement([joined], Expression((Call(cat.callee, arguments),))))
    definition.gathers = True
