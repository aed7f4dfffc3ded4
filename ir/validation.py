"""Validation: every invariant of a graph, blaming the culprit by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .errors import InvalidGraphError
from .graph import Graph
from .nodes import Capture, Input, Operator, Parameter, Value
from .operators import signature

Fail = Callable[..., InvalidGraphError]

_PYTHON_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "string": (str,),
    "tensor": (np.ndarray,),
    "graph": (Graph,),
}
_ELEMENTS: dict[str, tuple[type, ...]] = {"ints": (int,), "floats": (float, int), "strings": (str,)}


def check_operator(operator: Operator, inputs: int, outputs: int) -> None:
    """Check one operator's arity and attributes against its signature.

    Raises:
        InvalidGraphError: naming the operator and what does not fit.
    """

    def fail(message: str) -> InvalidGraphError:
        return InvalidGraphError(
            "E301", message, place=f"`{operator.qualified_name}` {operator.location}".strip()
        )

    sig = signature(operator.op_type, operator.domain)
    if inputs < sig.min_inputs or (sig.max_inputs is not None and inputs > sig.max_inputs):
        bound = f"{sig.min_inputs} to {sig.max_inputs if sig.max_inputs is not None else 'any number of'}"
        raise fail(f"expected {bound} inputs, got {inputs}")
    if not outputs or (len(sig.outputs) < outputs and not (sig.outputs and sig.outputs[-1].variadic)):
        raise fail(f"expected 1 to {len(sig.outputs)} outputs, got {outputs}")
    for name, value in operator.attributes.items():
        if name not in sig.attributes:
            known = ", ".join(sorted(sig.attributes)) or "none"
            raise fail(f"expected an attribute among {known}, got `{name}`")
        kind = sig.attributes[name].kind
        if kind in _ELEMENTS:
            good = isinstance(value, list) and all(isinstance(v, _ELEMENTS[kind]) for v in value)
        else:
            good = isinstance(value, _PYTHON_KINDS.get(kind, (object,)))
        if not good:
            raise fail(f"expected attribute `{name}` of kind {kind}, got `{value!r}`")
    for name, spec in sig.attributes.items():
        if spec.required and name not in operator.attributes:
            raise fail(f"expected the attribute `{name}`, got none")


def validate(graph: Graph, only: Iterable[int] | None = None) -> None:
    """Check a graph, nested graphs included.

    Args:
        graph: the graph.
        only: check just these nodes (a pass's own) and the graph's inputs and outputs; None checks
            everything, the module tree included.

    Raises:
        InvalidGraphError: for the first fault found, with the text around it.
    """
    _validate(graph, only, nested=False)


def _validate(graph: Graph, only: Iterable[int] | None, *, nested: bool) -> None:
    def fail(message: str, key: int | None = None) -> InvalidGraphError:
        place = graph.describe(key) if key is not None and key in graph else f"graph `{graph.name}`"
        return InvalidGraphError("E301", message, place=place, hint=_excerpt(graph, key))

    for kind, keys, cls in (("input", graph.inputs, Input), ("capture", graph.captures, Capture)):
        for key in keys:
            if key not in graph or not isinstance(graph.node(key), cls):
                raise fail(f"expected node %{key} to be an {kind}", key)
    if graph.captures and not nested:
        raise fail("expected no captures in a root graph")
    names = [n.name for n in graph.input_nodes()]
    if len(set(names)) != len(names):
        raise fail(f"expected distinct input names, got {names}")
    for name, value in [*graph.outputs, *(("update", v) for v in graph.updates.values())]:
        if value.node not in graph or value.output >= len(graph.node(value.node).types):
            raise fail(f"output `{name}` refers to a value that is not there: %{value.node}:{value.output}")
    for key in graph.updates:
        if key not in graph or not isinstance(graph.node(key), Parameter):
            raise fail(f"expected an update of a parameter, got %{key}")
    if only is None:
        graph.order()  # raises on a cycle
    for key in list(graph.flow) if only is None else [k for k in only if k in graph]:
        node = graph.node(key)
        if node.key != key:
            raise fail(f"expected the node's key to be {key}, got {node.key}", key)
        edges = graph.flow.operands(key)
        if edges and not isinstance(node, Operator):
            raise fail("expected no operands: it is not an operator", key)
        for slot, source, output in edges:
            if output and output >= len(graph.node(source).types):  # every node has output 0
                raise fail(f"operand {slot} refers to output {output} of {graph.describe(source)}", key)
        if isinstance(node, Parameter) and nested:
            raise fail("expected parameters in the root graph only", key)
        if isinstance(node, Operator):
            _check_placed(graph, node, [slot for slot, _, _ in edges], fail)
    if only is None and not nested:
        _check_modules(graph, fail)


def _check_placed(graph: Graph, node: Operator, slots: list[int], fail: Fail) -> None:
    """Check an operator that has operands in those slots (those of captures are negative)."""
    inputs = max(slots, default=-1) + 1
    try:
        check_operator(node, inputs, len(node.types))
    except InvalidGraphError as error:
        raise fail(error.message, node.key) from None
    captured = sum(slot < 0 for slot in slots)
    if inputs + captured > len(slots):
        formals = signature(node.op_type, node.domain).inputs
        for slot in set(range(inputs)) - set(slots):
            formal = formals[min(slot, len(formals) - 1)]
            if not formal.optional:
                raise fail(f"expected an operand in slot {slot} (`{formal.name}`), got none", node.key)
    if node.call is not None and not graph.modules.has_call(node.call):
        raise fail(f"it belongs to call {node.call}, which is not there", node.key)
    for name, body in node.subgraphs().items():
        if len(body.captures) > captured:
            raise fail(
                f"`{name}` captures {len(body.captures)} values, its operator gives {captured}", node.key
            )
        if body.modules is not graph.modules:
            raise fail(f"`{name}` has a module tree of its own", node.key)
        _validate(body, None, nested=True)


def _check_modules(graph: Graph, fail: Fail) -> None:
    tree = graph.modules
    for module in tree:
        for name, key in module.parameters.items():
            if key not in graph or not isinstance(graph.node(key), Parameter):
                raise fail(f"module `{tree.path(module.key)}` holds `{name}`, which is not a parameter")
    for call in tree.calls():
        if call.module not in tree:
            raise fail(f"call {call.key} is of a module that is not there")
        if call.parent is not None and not tree.has_call(call.parent):
            raise fail(f"call {call.key} was made in a call that is not there")


def _excerpt(graph: Graph, key: int | None, around: int = 3) -> str:
    """The text a few lines either side of a node, or nothing when the graph cannot be rendered."""
    from .text import render_lines

    if key is None:
        return ""
    try:
        lines, at = render_lines(graph, key)
    except (InvalidGraphError, KeyError, IndexError):
        return ""
    shown = lines[max(0, at - around) : at + around + 1]
    return "in\n" + "\n".join(("> " if line is lines[at] else "  ") + line for line in shown)


__all__ = ["Value", "check_operator", "validate"]
