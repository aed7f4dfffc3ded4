"""If, Loop and Scan: nested graphs with what they read from around them as captures; Scan is a Loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import onnx

from ...ir import Builder, Dim, Graph, ModelError, TensorType, UnsupportedError, Value
from ...ir.analysis.sizes import Sizes
from ...ir.nodes import Constant
from ...ir.types import contradicts
from .call import Call
from .frame import Frame, Lowers
from .initializers import stored_tensors

CONTROL_FLOW = ("If", "Loop", "Scan")
_TRIES = 3  # at a type of a loop's state that its body keeps: as it starts, of open sizes, of open rank


def lower_control_flow(lowering: Lowers, frame: Frame, call: Call) -> list[Value]:
    """Return the outputs of a node with nested graphs.

    Raises:
        UnsupportedError: for a form that the IR lacks.
    """
    bodies = ("then_branch", "else_branch") if call.operator == "If" else ("body",)
    if not all(isinstance(call.attributes.get(name), onnx.GraphProto) for name in bodies):
        raise ModelError("E101", f"expected graphs as {' and '.join(bodies)}", place=call.place)
    if frame.depth >= 32:
        raise call.unsupported("expected graphs nested 32 deep at most")
    return {"If": _if, "Loop": _loop, "Scan": _scan}[call.operator](lowering, frame, call)


class _Bodies:
    """Builds the nested graphs of one node, which share their captures."""

    def __init__(self, lowering: Lowers, frame: Frame, call: Call, bodies: Sequence[onnx.GraphProto]) -> None:
        self.lowering, self.frame, self.call = lowering, frame, call
        names = dict.fromkeys(n for body in bodies for n in _free_names(body))
        self.captured: list[Value] = []
        self._places: dict[str, int | Value] = {}
        for name in names:
            value = lowering.lookup(frame, name, call.place)
            if isinstance(frame.b.graph.node(value.node), Constant):
                self._places[name] = value  # rules read constants, which a capture would hide
                continue
            if value not in self.captured:
                self.captured.append(value)
            self._places[name] = self.captured.index(value)

    def build(self, proto: onnx.GraphProto, types: Sequence[TensorType]) -> tuple[Graph, Frame]:
        """Return a nested graph with inputs of these types, and the frame of its names.

        Raises:
            UnsupportedError: when a captured value has no known type.
        """
        around = self.frame.b.graph
        graph = Graph("body", around.modules)
        given: list[Value] = []
        for value in self.captured:
            known = around.type_of(value)
            if known is None:
                raise self.call.unsupported("expected values of known types in its graphs")
            given.append(graph.add_capture(known))
        builder = Builder(graph, call=self.frame.b.call, location=self.call.node.name)
        values: dict[str, Value] = {}
        for name, place in self._places.items():
            if isinstance(place, int):
                values[name] = given[place]
            else:
                constant = around.node(place.node)
                assert isinstance(constant, Constant)
                values[name] = graph.add_constant(constant.data)
        for info, type_ in zip(proto.input, types, strict=True):
            values[info.name] = graph.add_input(info.name, type_)
        for name, data in stored_tensors(proto, None).items():
            values[name] = graph.add_constant(data)
        frame = Frame(
            builder,
            values,
            Sizes(graph),
            self.frame.opsets,
            self.frame.given,
            outer=self.frame,
            depth=self.frame.depth + 1,
        )
        for node in proto.node:
            self.lowering.lower(frame, node, ())
        return graph, frame


def _free_names(proto: onnx.GraphProto) -> Iterator[str]:
    """Yield names that a nested graph reads and does not define."""
    own = {i.name for i in proto.input} | {t.name for t in proto.initializer}
    for node in proto.node:
        yield from (name for name in node.input if name and name not in own)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from (name for name in _free_names(attribute.g) if name not in own)
        own |= set(node.output)
    yield from (output.name for output in proto.output if output.name not in own)


def _return(lowering: Lowers, frame: Frame, proto: onnx.GraphProto, place: str) -> list[Value]:
    """State the outputs of a nested graph, and return them."""
    graph = frame.b.graph
    for output in proto.output:
        value = lowering.lookup(frame, output.name, place)
        graph.outputs.append((output.name, value))
    return [value for _, value in graph.outputs]


def _merged(types: Sequence[TensorType | None]) -> TensorType | None:
    """Return the type that holds for all of them; None where an element type differs or is unknown."""
    known = [t for t in types if t is not None]
    if len(known) < len(types) or len({t.dtype for t in known}) != 1:
        return None
    shapes = [t.shape for t in known]
    if any(s is None or len(s) != len(shapes[0] or ()) for s in shapes):
        return known[0].with_shape(None)
    dims: list[Dim] = []
    for column in zip(*(s or () for s in shapes), strict=True):
        dims.append(column[0] if all(d == column[0] for d in column) else None)
    return known[0].with_shape(tuple(dims))


def _if(lowering: Lowers, frame: Frame, call: Call) -> list[Value]:
    bodies = [call.take("then_branch"), call.take("else_branch")]
    decided = call.array(0)
    if decided is not None and decided.size == 1:
        return _taken(lowering, frame, bodies[0] if decided.reshape(-1)[0] else bodies[1], call.place)
    made = _Bodies(lowering, frame, call, bodies)
    graphs: list[Graph] = []
    results: list[list[TensorType | None]] = []
    for body in bodies:
        graph, inner = made.build(body, [])
        values = _return(lowering, inner, body, call.place)
        results.append([graph.type_of(v) for v in values])
        graphs.append(graph)
    if len({len(r) for r in results}) != 1:
        raise ModelError("E101", "expected branches with the same number of outputs", place=call.place)
    types = [_merged(column) for column in zip(*results, strict=True)]
    return frame.b.ops(
        "If",
        call.value(0),
        outputs=len(types),
        types=types,
        captures=made.captured,
        then_branch=graphs[0],
        else_branch=graphs[1],
    )


def _taken(lowering: Lowers, frame: Frame, body: onnx.GraphProto, place: str) -> list[Value]:
    """Return the results of a branch that is always taken, in the graph around it."""
    values = dict(frame.values)
    for name, data in stored_tensors(body, None).items():
        values[name] = frame.b.graph.add_constant(data)
    inner = replace(frame, values=values, depth=frame.depth + 1)
    for node in body.node:
        lowering.lower(inner, node, ())
    return [lowering.lookup(inner, output.name, place) for output in body.output]


def _loop(lowering: Lowers, frame: Frame, call: Call) -> list[Value]:
    body = call.take("body")
    initial = [v for v in call.operands[2:] if v is not None]
    graph = frame.b.graph
    states = [graph.type_of(v) for v in initial]
    if any(t is None for t in states) or len(initial) != len(call.operands[2:]):
        raise call.unsupported("expected tensors of known types to start from")
    if len(body.input) != 2 + len(states):
        raise ModelError(
            "E101", f"expected {2 + len(states)} inputs of the body, got {len(body.input)}", place=call.place
        )
    made = _Bodies(lowering, frame, call, [body])
    nested, results = _settled(lowering, made, call, body, [t for t in states if t is not None])
    count = len(states)
    slices = [t and t.with_shape(None if t.shape is None else (None, *t.shape)) for t in results[1 + count :]]
    types = [_merged(pair) for pair in zip(states, results[1 : 1 + count], strict=True)]
    condition = call.optional(1)
    if condition is None and not initial:  # a graph has no absent operands at the end
        condition = frame.b.constant(True, "bool")
    return frame.b.ops(
        "Loop",
        call.optional(0),
        condition,
        *initial,
        outputs=len(results) - 1,
        types=[*types, *slices],
        captures=made.captured,
        body=nested,
    )


def _settled(
    lowering: Lowers, made: _Bodies, call: Call, body: onnx.GraphProto, states: Sequence[TensorType]
) -> tuple[Graph, list[TensorType | None]]:
    """Return a body with types of its state that hold from turn to turn."""
    formals = list(states)
    for last in (False, False, True)[:_TRIES]:
        heads = [TensorType("int64", ()), TensorType("bool", ())]
        nested, inner = made.build(body, [*heads, *formals])
        values = _return(lowering, inner, body, call.place)
        results = [nested.type_of(v) for v in values]
        after = results[1 : 1 + len(formals)]
        if all(a is not None and _holds(f, a) for f, a in zip(formals, after, strict=True)):
            return nested, results
        merged = [_merged(pair) for pair in zip(formals, after, strict=True)]
        if last or any(t is None for t in merged):
            break
        formals = [t for t in merged if t is not None]
    raise UnsupportedError("E203", "`Loop`: expected a state that keeps its type", place=call.place)


def _holds(formal: TensorType, result: TensorType) -> bool:
    if formal.shape is None or result.shape is None:
        return formal.shape is None and formal.dtype == result.dtype
    return not contradicts(formal, result) and all(
        f is None or f == r for f, r in zip(formal.shape, result.shape, strict=True)
    )


def _scan(lowering: Lowers, frame: Frame, call: Call) -> list[Value]:
    """Return a Loop whose body takes a slice of each scanned input at its turn."""
    if call.version < 9:
        raise call.unsupported("expected opset 9 or later, where Scan has no batch of its own")
    body: onnx.GraphProto = call.take("body")
    scanned = call.take("num_scan_inputs")
    count = len(call.operands) - scanned
    outputs = len(body.output) - count
    axes = call.take("scan_input_axes") or [0] * scanned
    turned = call.take("scan_input_directions") or [0] * scanned
    out_axes = call.take("scan_output_axes") or [0] * outputs
    out_turned = call.take("scan_output_directions") or [0] * outputs
    if count < 0 or len(axes) != scanned or len(body.input) != len(call.operands) or outputs < 0:
        raise ModelError("E101", "expected a body with the inputs of the Scan", place=call.place)
    given: list[Value] = []
    for at in range(scanned):
        value = call.value(count + at)
        axis = axes[at] % call.rank(count + at)
        if axis:
            order = [axis, *(a for a in range(call.rank(count + at)) if a != axis)]
            value = call.op("Transpose", value, perm=order)
        given.append(value)
    length = call.op("Gather", call.op("Shape", given[0]), call.constant(0, "int64"), axis=0)
    loop = _turns(body, count, scanned, turned)
    names = {f"regraft.scanned.{at}": value for at, value in enumerate(given)}
    before = dict(frame.values)
    frame.values |= names | {"regraft.length": length}
    try:
        node = onnx.helper.make_node("Loop", ["regraft.length", "", *call.node.input[:count]], [""])
        inner = Call(
            frame.b, node, [length, None, *call.operands[:count]], call.version, call.place, {"body": loop}
        )
        results = _loop(lowering, frame, inner)
    finally:
        for name in (*names, "regraft.length"):
            frame.values.pop(name, None)
        frame.values |= before
    found = results[:count]
    for at, value in enumerate(results[count:]):
        if out_turned[at]:
            last = call.ints([-1])
            far = call.ints([-(1 << 62)])
            value = call.op("Slice", value, last, far, call.ints([0]), last)
        known = frame.b.graph.type_of(value)
        if out_axes[at]:
            if known is None or known.shape is None:
                raise call.unsupported("expected outputs of known rank")
            rank = len(known.shape)
            order = list(range(1, rank))
            order.insert(out_axes[at] % rank, 0)
            value = call.op("Transpose", value, perm=order)
        found.append(value)
    return found


def _turns(body: onnx.GraphProto, count: int, scanned: int, turned: Sequence[int]) -> onnx.GraphProto:
    """Return the body of a Loop made of that of a Scan."""
    loop = onnx.GraphProto()
    loop.CopyFrom(body)
    del loop.node[:], loop.input[:], loop.output[:]
    make = onnx.helper.make_node
    turn = onnx.ValueInfoProto(name="regraft.turn")
    keep = onnx.ValueInfoProto(name="regraft.keep")
    loop.input.extend([turn, keep, *body.input[:count]])
    one = onnx.helper.make_tensor("", onnx.TensorProto.INT64, [], [1])
    loop.node.append(make("Constant", [], ["regraft.one"], value=one))
    for at in range(scanned):
        index = "regraft.turn"
        if turned[at]:
            index = f"regraft.turn.{at}"
            loop.node.append(make("Sub", ["regraft.length", "regraft.turn"], [f"{index}.from"]))
            loop.node.append(make("Sub", [f"{index}.from", "regraft.one"], [index]))
        loop.node.append(
            make("Gather", [f"regraft.scanned.{at}", index], [body.input[count + at].name], axis=0)
        )
    loop.node.extend(body.node)
    yes = onnx.helper.make_tensor("", onnx.TensorProto.BOOL, [], [True])
    loop.node.append(make("Constant", [], ["regraft.more"], value=yes))
    loop.output.append(onnx.ValueInfoProto(name="regraft.more"))
    loop.output.extend(body.output)
    return loop
