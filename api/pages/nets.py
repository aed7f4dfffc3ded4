"""Describes a net for a page: its module tree, its calls, and its dataflow with a type on every edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx

from ...backends.onnx_model import NODE_CALL, NODE_CLASS
from ...ir import Graph, Operator, Parameter
from ...ir.analysis.summary import summarise
from ...ir.types import type_of_proto

OPERATOR, INPUT, CONSTANT, PARAMETER = range(4)
"""Kinds of node."""

_LONGEST = 160
"""Characters of an operator's attributes that a page shows."""


@dataclass(slots=True)
class Net:
    """The part of a page about one net; rows are lists, since a page holds thousands of them.

    Attributes:
        title: what a person calls the model.
        framework: where it comes from, or the format that it is in.
        modules: (path, class, row of the module above or -1, trainable elements, other elements, notes).
        calls: (row of the module, row of the call that makes it or -1).
        types: texts of the types, each once.
        nodes: (label, row of the call or -1, kind, details, types of the outputs).
        edges: (node, number of its output, node that reads it), operands of a node in their order.
        outputs: (name, node, number of its output).
    """

    title: str
    framework: str
    modules: list[list[Any]] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    nodes: list[list[Any]] = field(default_factory=list)
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    outputs: list[tuple[str, int, int]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def short_reference(reference: str) -> str:
    """Return what a person calls a model, without folders: ``net.py:Net``."""
    return reference.replace("\\", "/").rpartition("/")[2]


class _Types:
    """Numbers the texts of types."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, type_: object) -> int:
        """Return the number of a type."""
        return self.numbers.setdefault("?" if type_ is None else str(type_), len(self.numbers))


def describe_graph(graph: Graph) -> Net:
    """Return what a page holds of a graph."""
    net = Net(
        short_reference(graph.origin.reference) or graph.name, graph.origin.title or graph.origin.framework
    )
    row_of: dict[str, int] = {}
    for row in summarise(graph).rows:
        row_of[row.path] = len(net.modules)
        above = _above(row.path, row_of)
        net.modules.append(
            [row.path, row.class_name, above, row.parameters, row.buffers, "; ".join(row.notes)]
        )
    tree, position = graph.modules, dict[int, int]()
    for call in tree.calls():
        position[call.key] = len(net.calls)
        parent = -1 if call.parent is None else position.get(call.parent, -1)
        net.calls.append((row_of.get(tree.path(call.module), 0), parent))
    types, number = _Types(), dict[int, int]()
    paths = graph.parameter_paths()
    for at, key in enumerate(graph.order()):
        node = graph.node(key)
        number[key] = at
        shown = [types.number(type_) for type_ in node.types]
        if isinstance(node, Operator):
            call = -1 if node.call is None else position.get(node.call, -1)
            net.nodes.append([node.qualified_name, call, OPERATOR, _attributes(node.attributes), shown])
        elif isinstance(node, Parameter):
            name = next(iter(paths.get(key, [])), node.name)
            net.nodes.append([name, -1, PARAMETER, "", shown])
        else:
            name = getattr(node, "name", "")
            net.nodes.append([name, -1, INPUT if name else CONSTANT, "", shown])
        net.edges += [(number[v.node], v.output, at) for v in graph.operands(key) if v is not None]
        net.edges += [(number[v.node], v.output, at) for v in graph.captured(key)]
    net.outputs = [(name, number[value.node], value.output) for name, value in graph.outputs]
    net.types = list(types.numbers)
    return net


def describe_onnx(model: onnx.ModelProto, title: str, called: Mapping[str, Mapping[str, Any]]) -> Net:
    """Return what a page holds of an ONNX model.

    Args:
        model: the model.
        title: what a person calls it.
        called: name of a module call -> what the model's metadata say of it: its module's class.
    """
    net, types = Net(title, "ONNX"), _Types()
    known: dict[str, object] = {}
    for value in (*model.graph.value_info, *model.graph.output, *model.graph.input):
        known[value.name] = type_of_proto(value.type)
    classes = {name.rpartition("#")[0]: str(record.get("class", "")) for name, record in called.items()}
    calls: dict[str, str] = {}  # the name of a node's call, `path#1`
    for node in model.graph.node:
        data = {entry.key: entry.value for entry in node.metadata_props}
        if NODE_CALL in data:
            path = data[NODE_CALL].rpartition("#")[0]
            classes.setdefault(path, data.get(NODE_CLASS, ""))
            calls[data[NODE_CALL]] = path
    row_of = _rows_of_paths(net, classes)
    call_row: dict[str, int] = {}
    if classes:
        _add_calls(net, calls, row_of, call_row)
    made: dict[str, tuple[int, int]] = {}
    for value in model.graph.input:
        made[value.name] = (len(net.nodes), 0)
        net.nodes.append([value.name, -1, INPUT, "", [types.number(known[value.name])]])
    for tensor in model.graph.initializer:
        made[tensor.name] = (len(net.nodes), 0)
        shape = f"{_element(tensor.data_type)}[{','.join(map(str, tensor.dims))}]"
        net.nodes.append([tensor.name, -1, PARAMETER, "", [types.number(shape)]])
    for node in model.graph.node:
        at = len(net.nodes)
        data = {entry.key: entry.value for entry in node.metadata_props}
        call = call_row.get(data.get(NODE_CALL, ""), -1)
        details = {a.name: _plain(a) for a in node.attribute}
        shown = [types.number(known.get(name)) for name in node.output]
        net.nodes.append([node.op_type, call, OPERATOR, _attributes(details), shown])
        net.edges += [(*made[name], at) for name in node.input if name in made]
        made |= {name: (at, output) for output, name in enumerate(node.output)}
    net.outputs = [(v.name, *made[v.name]) for v in model.graph.output if v.name in made]
    net.types = list(types.numbers)
    return net


def _above(path: str, row_of: dict[str, int]) -> int:
    """Return the row of the nearest path above that is known; -1 for the root."""
    while path:
        path = path.rpartition(".")[0]
        if path in row_of:
            return row_of[path]
    return -1


def _rows_of_paths(net: Net, classes: dict[str, str]) -> dict[str, int]:
    """Add a module for every path and every path above one; return path -> row."""
    row_of: dict[str, int] = {}
    for path in ["", *classes]:
        parts = path.split(".") if path else []
        for end in range(len(parts) + 1):
            prefix = ".".join(parts[:end])
            if prefix not in row_of:
                row_of[prefix] = len(net.modules)
                net.modules.append([prefix, classes.get(prefix, ""), _above(prefix, row_of), 0, 0, ""])
    for row in net.modules:  # known only once all paths are
        row[2] = -1 if not row[0] else _above(row[0], row_of)
    return row_of


def _add_calls(net: Net, calls: dict[str, str], row_of: dict[str, int], call_row: dict[str, int]) -> None:
    """Add the calls that nodes name and those around them, of which nothing but the path is known."""
    around: dict[str, int] = {}
    net.calls.append((0, -1))
    around[""] = 0
    for name, path in calls.items():
        parts = path.split(".") if path else []
        parent = 0
        for end in range(1, len(parts)):
            prefix = ".".join(parts[:end])
            if prefix not in around:
                around[prefix] = len(net.calls)
                net.calls.append((row_of[prefix], parent))
            parent = around[prefix]
        if not path:
            call_row[name] = 0
        elif path in around and name.endswith("#1"):
            call_row[name] = around[path]
        else:
            call_row[name] = len(net.calls)
            around.setdefault(path, len(net.calls))
            net.calls.append((row_of[path], parent))


def _attributes(attributes: dict[str, Any]) -> str:
    """Return attributes as a short text; nested graphs by their name only."""
    parts = [
        f"{name}={'…' if isinstance(value, Graph) else _value(value)}"
        for name, value in sorted(attributes.items())
    ]
    text = ", ".join(parts)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value[:8]))}{', …' if len(value) > 8 else ''}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:_LONGEST]


def _plain(attribute: onnx.AttributeProto) -> object:
    """Return a number, a text or a list of them; an ellipsis for anything larger."""
    proto = onnx.AttributeProto
    scalars: dict[int, object] = {proto.INT: attribute.i, proto.FLOAT: attribute.f}
    if attribute.type in scalars:
        return scalars[attribute.type]
    if attribute.type == proto.STRING:
        return attribute.s.decode("utf-8", "replace")
    lists: dict[int, Sequence[object]] = {proto.INTS: attribute.ints, proto.FLOATS: attribute.floats}
    return list(lists[attribute.type][:9]) if attribute.type in lists else "…"


def _element(number: int) -> str:
    """Return the short name of ONNX's element type, as types are written."""
    try:
        proto = onnx.helper.make_tensor_type_proto(number, [])
        return str(type_of_proto(proto)).partition("[")[0]
    except KeyError:
        return onnx.TensorProto.DataType.Name(number).lower()
