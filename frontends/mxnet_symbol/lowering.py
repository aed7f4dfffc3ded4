"""Lowering a symbol: every operator node in order, through the tables of the family files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir import (
    Builder,
    Dim,
    Graph,
    InvalidGraphError,
    Missing,
    ModelError,
    Operator,
    Parameter,
    TensorData,
    TensorType,
    UnsupportedError,
    Value,
)
from ..size_limits import Budget
from .attributes import TextAttributes
from .call import Call
from .control_flow import is_control_flow, unrolled
from .known_types import KnownTypes
from .operators import TABLE
from .parameter_shapes import parameter_shapes
from .reader import Symbol, SymbolNode
from .refusals import RefusedForms, explain
from .signatures import parameter_slots, slot_names
from .tree import Tree
from .variables import Variables


def has_lowering(node: SymbolNode) -> bool:
    """Whether there is a lowering for a node, and for all in the symbols that it runs."""
    if is_control_flow(node):
        return all(has_lowering(n) for part in node.subgraphs for n in part.operators())
    return node.op in TABLE


def missing_operators(symbol: Symbol) -> list[Missing]:
    """Return the operators without a lowering, the most used first."""
    places: dict[str, list[str]] = {}
    for node in symbol.all_operators():
        if not is_control_flow(node) and node.op not in TABLE:
            places.setdefault(node.op, []).append(node.place)
    return [explain(name, places[name]) for name in sorted(places, key=lambda n: (-len(places[n]), n))]


def lower(
    graph: Graph,
    symbol: Symbol,
    variables: Variables,
    tree: Tree,
    types: Mapping[str, TensorType],
    budget: Budget,
    refused: RefusedForms | None = None,
    known: KnownTypes | None = None,
) -> None:
    """Add inputs, operators and outputs to a graph that has its modules and parameters.

    Args:
        graph: the graph.
        symbol: what it is made of.
        variables: which variables are inputs, parameters and labels.
        tree: the modules of the nodes, and the values of the parameters.
        types: the types of the inputs.
        budget: how much the graph may hold.
        refused: gathers what is refused, in place of an error at the first; the graph is then of no use.
        known: the types of nodes that were read before; what is known gets stand-ins, and the graph is of use
            for its types alone.

    Raises:
        UnsupportedError: for a form of an operator or an attribute that nothing reads.
        ModelError: when the parameters do not fit the inputs.
    """
    values: dict[int, list[Value | None]] = {i: [v] for i, v in tree.parameters.items()}
    states = _begin_states(symbol)
    inputs: dict[str, Value] = {}  # variables of one name are bound to one array
    for index, node in variables.inputs.items():
        if node.name not in inputs:
            inputs[node.name] = graph.add_input(node.name, types[node.name])
        values[index] = [inputs[node.name]]
    names = {node.index: node.name for node in symbol.nodes}
    root = graph.modules.add_call(0)

    def read(node: SymbolNode) -> list[Value | None]:
        operands = [_operand(values, node, variables, reference) for reference in node.inputs]
        application = None if known is None else known.application(graph, node, operands)
        if known is None or application is None:
            return lowered(node, operands)
        outputs: Sequence[Value | None] | None = known.stand_in(graph, application)
        if outputs is None:
            before = graph.next_key
            outputs = lowered(node, operands)
            known.note(graph, application, outputs, before)
        return list(outputs)

    def lowered(node: SymbolNode, operands: list[Value | None]) -> list[Value | None]:
        module = tree.modules.get(node.index)
        key = root if module is None else graph.modules.add_call(module, root)
        builder = Builder(graph, call=key, location=node.name)
        before = graph._next
        call = Call(
            builder, node, operands, ["" if i in variables.idle else names[i] for i, _ in node.inputs]
        )
        if is_control_flow(node):
            outputs = unrolled(builder, node, operands, _lowered)
        else:
            _infer_parameters(call, operands)
            _check_parameters(call, operands)
            before = graph._next
            outputs = _lowered(call)
        budget.spend(graph, range(before, graph._next), node.place)
        if not is_control_flow(node):
            _check_alignment(call, before)
        return list(outputs)

    for node in symbol.operators():
        if node.index in states or node.index in variables.idle:
            values[node.index] = [None]
        elif refused is None:
            values[node.index] = read(node)
            for output, value in enumerate(values[node.index]):
                if value is not None:
                    graph.origin.landmarks.setdefault((node.name, output), value)
        elif refused.allows(node, has_lowering(node)):
            try:
                values[node.index] = read(node)
            except (UnsupportedError, ModelError) as error:
                refused.add(node, error)
    if refused is not None:
        return
    for name, reference in zip(output_names(symbol), symbol.heads, strict=True):
        index, output = reference
        if index in variables.labels or output >= len(values[index]):
            raise ModelError("E101", f"expected an output of a node as head, got {list(reference)}")
        value = values[index][output]
        assert value is not None, name
        graph.outputs.append((name, value))


def _begin_states(symbol: Symbol) -> set[int]:
    """Return zeros that only recurrent operators start from, often of a batch that nothing states."""
    users: dict[int, set[str]] = {index: {""} for index, _ in symbol.heads}
    for node in symbol.operators():
        for index, _ in node.inputs:
            users.setdefault(index, set()).add(node.op)
    return {n.index for n in symbol.operators() if n.op == "_zeros" and users.get(n.index) == {"RNN"}}


def _operand(
    values: Mapping[int, list[Value | None]],
    node: SymbolNode,
    variables: Variables,
    reference: tuple[int, int],
) -> Value | None:
    index, output = reference
    if index in variables.labels or index in variables.idle:
        return None
    if output >= len(values[index]):
        raise ModelError(
            "E101", f"expected output {output} of node {index}, which it does not have", place=node.place
        )
    return values[index][output]


def _lowered(call: Call) -> list[Value]:
    slots, given = slot_names(call.operator, call.node.attributes), len(call.node.inputs)
    if slots and given > len(slots):
        raise call.unsupported(
            f"expected {len(slots)} inputs ({', '.join(slots)}) with its attributes, got {given}"
        )
    try:
        result = call.finish(TABLE.lower(call))
    except (ValueError, ArithmeticError, LookupError, MemoryError) as error:
        # attributes are what a file says: types and axes that are not there, sizes that nothing can hold
        raise call.unsupported(f"cannot be lowered with {dict(call.node.attributes)}: {error}") from error
    except InvalidGraphError as error:  # a file's node that ONNX's rules refuse: its author's, not ours
        raise ModelError(
            "E103",
            f"`{call.operator}` does not fit its inputs: {error.message}",
            place=call.place,
            hint="check the shapes and element types given with --input, and the attributes of this node",
        ) from error
    return result if isinstance(result, list) else [result]


def _infer_parameters(call: Call, operands: list[Value | None]) -> None:
    """Give parameters of which no file has the values the shapes that this node asks for.

    Raises:
        ModelError: E101 for one whose shape nothing tells.
    """
    unknown = {
        slot: node
        for slot, value in enumerate(operands)
        if value is not None
        and isinstance(node := call.graph.node(value.node), Parameter)
        and node.data.load is None
        and not node.data.shape
    }
    if not unknown:
        return
    slots = parameter_slots(call.operator, call.node.attributes)
    known = [call.graph.known_type(v).shape for s, v in enumerate(operands) if v and s not in unknown]
    wanted: dict[str, tuple[Dim, ...]] = {}
    if known and known[0] is not None:
        probe = TextAttributes(call.node.attributes, call.operator, call.place)
        wanted = parameter_shapes(call.operator, probe, known[0])
    for slot, node in unknown.items():
        alike = known[0] if call.operator in _OF_ONE_SHAPE and known else None
        shape = wanted.get(slots.get(slot, ""), alike)
        sizes = tuple(dim for dim in shape or () if isinstance(dim, int))
        if not shape or len(sizes) != len(shape):
            raise ModelError(
                "E101",
                f"expected the shape of `{node.declared}`, which `{call.operator}` does not determine",
                place=call.place,
                hint="give the parameters with --params FILE",
            )
        node.data = TensorData(node.data.dtype, sizes, None)


_SPREADING = {"LeakyReLU"}
"""Operators that take one value for all channels too."""

_OF_ONE_SHAPE = {"elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "add_n"}


def _check_parameters(call: Call, operands: list[Value | None]) -> None:
    """Check the shapes of a layer's parameters, stored or computed, against those its data asks for."""
    slots = parameter_slots(call.operator, call.node.attributes)
    if not slots or operands[:1] in ([], [None]):
        return
    data = call.type_of()
    if data.shape is None:
        return
    probe = TextAttributes(call.node.attributes, call.operator, call.place)  # reads nothing for the lowering
    wanted = parameter_shapes(call.operator, probe, data.shape)
    for slot, name in slots.items():
        value = operands[slot] if slot < len(operands) else None
        known = None if value is None or name not in wanted else call.graph.type_of(value)
        if known is None or known.shape is None:
            continue
        expected, found = wanted[name], known.shape
        fits = call.operator in _SPREADING or (
            len(found) == len(expected)
            and all(
                not isinstance(e, int) or f is None or e == f for e, f in zip(expected, found, strict=True)
            )
        )
        if not fits:
            raise ModelError(
                "E103",
                f"expected `{call.names[slot]}` of shape {list(expected)} for data {data}, got {list(found)}",
                place=call.place,
                hint="check the shape given with --input, and that the parameters belong to this symbol",
            )


def _check_alignment(call: Call, before: int) -> None:
    """Refuse to align a symbolic dimension with a number above 1: it would only be right at one size.

    Raises:
        UnsupportedError: naming the node; with a static batch it may be fine.
    """
    graph = call.graph
    for key in range(before, graph._next):
        node = graph.node(key)
        if not isinstance(node, Operator) or not node.traits.broadcasting:
            continue
        shapes = [
            t.shape for v in graph.operands(key) if v is not None and (t := graph.type_of(v)) and t.shape
        ]
        for position in range(1, max(map(len, shapes), default=0) + 1):
            dims = {s[-position] for s in shapes if position <= len(s)} - {1}
            if len(dims) > 1:
                text = ", ".join(str(list(s)) for s in shapes)
                raise UnsupportedError(
                    "E203", f"`{call.operator}` aligns the shapes {text}", place=call.place
                )


def output_names(symbol: Symbol) -> list[str]:
    """Return the names of the outputs, as MXNet lists them, each once."""
    counts: dict[int, int] = {}
    for node in symbol.nodes:
        for index, output in node.inputs:
            counts[index] = max(counts.get(index, 0), output)
    for index, output in symbol.heads:
        counts[index] = max(counts.get(index, 0), output)
    nodes = {node.index: node for node in symbol.nodes}
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for index, output in symbol.heads:
        node = nodes[index]
        suffix = f"_output{output}" if counts.get(index) else "_output"
        name = base = node.name if node.is_variable else f"{node.name}{suffix}"
        while name in names:
            numbers[base] = numbers.get(base, 0) + 1
            name = f"{base}_{numbers[base]}"
        names[name] = None
    return list(names)
