"""Checks every invariant of a graph, and names the node at fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token

from .arity import check_operator
from .control_flow import check_nested_types
from .dataflow import Edge
from .errors import InvalidGraphError
from .graph import Graph
from .inference import infer_types
from .nodes import Capture, Input, Operator, Parameter
from .operators import signature
from .types import contradicts

Fail = Callable[..., InvalidGraphError]

_verifies_each: ContextVar[bool] = ContextVar("verifies_each", default=False)


def verifies_each() -> bool:
    """Whether a graph is validated whole after every pass and every rewrite of a backend."""
    return _verifies_each.get()


def verify_each(on: bool) -> Token[bool]:
    """Set `verifies_each` in this context; resetting by the returned token undoes it."""
    return _verifies_each.set(on)


@contextmanager
def verifying_each(on: bool = True) -> Generator[None]:
    """Make `verifies_each` true within a with block if `on` is, or if it is already."""
    token = verify_each(on or verifies_each())
    try:
        yield
    finally:
        _verifies_each.reset(token)


def validate_after(name: str, graph: Graph) -> None:
    """Check a graph whole after a pass of a backend, where `verifies_each` holds.

    Raises:
        InvalidGraphError: for the first fault found, naming the pass.
    """
    if verifies_each():
        with blame(f"the pass `{name}`"):
            validate(graph)


@contextmanager
def blame(what: str) -> Generator[None]:
    """Prefix `what` as the cause to every `InvalidGraphError` raised in a with block."""
    try:
        yield
    except InvalidGraphError as error:
        message = f"after {what}: {error.message}"
        raise InvalidGraphError(error.code, message, place=error.place, hint=error.hint) from error


def validate(
    graph: Graph, only: Iterable[int] | None = None, *, typed: Collection[int] | None = None
) -> None:
    """Check a graph, nested graphs included.

    Args:
        graph: the graph.
        only: check just these nodes (a pass's own) and the graph's inputs and outputs; None checks
            everything, the module tree included.
        typed: of the nodes checked, compare the types of just these operators, and of those in nested graphs,
            with what their operands say; None: of all.

    Raises:
        InvalidGraphError: for the first fault found, with the text around it.
    """
    _validate(graph, only, typed, nested=False)


def _validate(
    graph: Graph, only: Iterable[int] | None, typed: Collection[int] | None, *, nested: bool
) -> None:
    def fail(message: str, key: int | None = None) -> InvalidGraphError:
        place = graph.describe(key) if key is not None and key in graph else f"graph `{graph.name}`"
        return InvalidGraphError("E301", message, place=place, hint=_excerpt(graph, key))

    _check_interface(graph, fail, nested=nested)
    if only is None:
        graph.order()  # raises on a cycle
    for key in list(graph.flow) if only is None else [k for k in only if k in graph]:
        node = graph.node(key)
        if node.key != key:
            raise fail(f"expected the node's key to be {key}, got {node.key}", key)
        edges = graph.flow.operands(key)
        for slot, source, output in edges:
            if output and output >= len(graph.node(source).types):  # every node has output 0
                raise fail(f"operand {slot} refers to output {output} of {graph.describe(source)}", key)
        if isinstance(node, Operator):
            _check_placed(graph, node, edges, fail)
            if typed is None or key in typed:
                _check_types(graph, node, edges, fail)
        elif edges:
            raise fail("expected no operands: it is not an operator", key)
        elif nested and isinstance(node, Parameter):
            raise fail("expected parameters in the root graph only", key)
    if only is None and not nested:
        _check_modules(graph, fail)


def _check_interface(graph: Graph, fail: Fail, *, nested: bool) -> None:
    """Check inputs, captures, outputs and updates."""
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
        if not (key in graph and isinstance(graph.node(key), Parameter)):
            raise fail(f"expected an update of a parameter, got %{key}")


def _check_placed(graph: Graph, node: Operator, edges: Sequence[Edge], fail: Fail) -> None:
    """Check that an operator has the operands, call and nested graphs that it needs."""
    if not edges:
        inputs = captured = 0
    elif edges[-1][0] == len(edges) - 1:  # every slot from 0 on, and no captures
        inputs, captured = len(edges), 0
    else:
        slots = [slot for slot, _, _ in edges]
        inputs, captured = max(slots) + 1, sum(slot < 0 for slot in slots)
        if inputs + captured > len(slots):
            try:
                check_operator(node, inputs, len(node.types))
            except InvalidGraphError as error:
                raise fail(error.message, node.key) from None
            formals = signature(node.op_type, node.domain).inputs
            for slot in set(range(inputs)) - set(slots):
                formal = formals[min(slot, len(formals) - 1)]
                if not formal.optional:
                    raise fail(f"expected an operand in slot {slot} (`{formal.name}`), got none", node.key)
    if node.call is not None and not graph.modules.has_call(node.call):
        raise fail(f"it belongs to call {node.call}, which is not there", node.key)
    for name, body in node.subgraphs().items() if node.attributes else ():
        if len(body.captures) > captured:
            raise fail(
                f"`{name}` captures {len(body.captures)} values, its operator gives {captured}", node.key
            )
        if body.modules is not graph.modules:
            raise fail(f"`{name}` has a module tree of its own", node.key)
        _validate(body, None, None, nested=True)


def _check_types(graph: Graph, node: Operator, edges: Sequence[Edge], fail: Fail) -> None:
    """Check an operator against its signature, and its types against what its rule gives."""
    operands: list[tuple[int, int] | None]
    if not edges or edges[-1][0] == len(edges) - 1:  # every slot from 0 on, and no captures
        operands = [edge[1:] for edge in edges]
    else:
        operands = []
        for slot, source, output in edges:
            if slot >= 0:
                operands += [None] * (slot - len(operands))
                operands.append((source, output))
    try:
        found = infer_types(graph, node, operands, len(node.types))
        if node.attributes and node.subgraphs():
            check_nested_types(graph, node)
    except InvalidGraphError as error:
        raise fail(error.message, node.key) from None
    for number, (recorded, inferred) in enumerate(zip(node.types, found, strict=True)):
        if recorded is None or inferred is None or recorded is inferred:
            continue
        if contradicts(recorded, inferred):
            raise fail(
                f"expected output {number} to be {inferred}, which follows from the operands, got {recorded}",
                node.key,
            )


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
    """Return the text a few lines either side of a node, or nothing when the graph cannot be rendered."""
    from .text_form.rendering import render_lines

    if key is None:
        return ""
    try:
        lines, at = render_lines(graph, key)
    except (InvalidGraphError, KeyError, IndexError):
        return ""
    shown = lines[max(0, at - around) : at + around + 1]
    return "in\n" + "\n".join(("> " if line is lines[at] else "  ") + line for line in shown)
