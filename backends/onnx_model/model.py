"""Builds the ONNX model of a graph in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from ...ir import (
    CUMULATIVE,
    OPSET,
    BackendError,
    Capture,
    Constant,
    Graph,
    Input,
    Operator,
    Parameter,
    TensorData,
    TensorType,
    Value,
    onnx_dtype,
    signature,
    walk_operators,
)
from ...ir.inference import attribute_proto
from ...ir.outside.onnx_functions import CALLS, NODE_CALL, NODE_CLASS, UniqueNames, caller, scope
from ...ir.provenance import source_call_names
from ...ir.types import type_to_proto
from ...passes.base import Pass
from ..lowering import lower
from .boundaries import call_boundaries
from .functions import Calls, outline
from .lowering import EXPRESSING
from .names import check_interface

IR_VERSION = 11
"""The first IR version with opset 23; ONNX Runtime refuses versions newer than its own."""

_BEHIND = frozenset(
    ("Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "RoiAlign")
)
"""Operators that ONNX Runtime has no kernel of beyond opset 21; only their element types have changed since,
and no operator that stands beside them in practice is newer."""

_ALL_OR_NONE = {"BatchNormalization"}
"""Operators that have all their optional outputs or none: ONNX has no form with some of them."""


def to_model(graph: Graph, *, data: bool = True, functions: bool = False) -> onnx.ModelProto:
    """Return the ONNX model of a graph: composites expanded, dead operators and unused parameters dropped.

    Args:
        graph: a validated root graph whose parameters have unique names.
        data: whether parameters carry their values; without, they are marked as external with no file, for
            a caller that only reads the structure or writes the values itself.
        functions: whether classes of modules that are called several times are functions.

    Raises:
        UnsupportedError: for operators that ONNX does not have and that cannot be expanded.
        BackendError: for colliding names, and for updates of parameters, which ONNX inference cannot express.
    """
    return emit_model(lower_graph(graph, EXPRESSING), data=data, functions=functions)


def lower_graph(graph: Graph, passes: Sequence[Pass]) -> Graph:
    """Return a copy of a graph with ONNX's operators only, and no dead ones; see `to_model`."""
    if graph.updates:
        names = ", ".join(f"`{graph.parameter(key).name}`" for key in list(graph.updates)[:3])
        raise BackendError(
            "E602",
            f"expected a graph without state updates, got {len(graph.updates)}: {names}",
            hint="the pass freeze-state of the default pipeline keeps the current values",
        )
    return lower(graph, passes)


def emit_model(legal: Graph, *, data: bool, functions: bool = False) -> onnx.ModelProto:
    """Return the model of a lowered graph; `functions`: with classes of modules as functions."""
    emission = _Emission(legal, data)
    model = emission.model()
    if functions:
        outline(model, emission.calls(), {p.name for p in emission.parameters})
    return model


def used_parameters(graph: Graph) -> list[Parameter]:
    """Return the parameters that some operator or output uses, in canonical order."""
    returned = {value.node for _, value in graph.outputs}
    return [p for p in graph.parameters() if p.key in returned or graph.flow.out_degree(p.key)]


def _opset(graph: Graph) -> int:
    """Return the opset of a model: an older one for operators without a newer kernel in ONNX Runtime."""
    return 21 if any(node.op_type in _BEHIND for _, node in walk_operators(graph)) else OPSET


class _Emission:
    """One model under construction."""

    def __init__(self, graph: Graph, data: bool) -> None:
        self.graph = graph
        self.data = data
        self.parameters = used_parameters(graph)
        check_interface(graph, self.parameters)
        self.call_names = source_call_names(graph)
        # a layer that took in a normalisation computes what that did, and no longer what it did itself
        self.folded = {} if graph.provenance is None else graph.provenance.folded
        self.entered = set() if graph.provenance is None else graph.provenance.entered
        inputs = {node.name for node in graph.input_nodes()}
        self.names = UniqueNames({p.name for p in self.parameters} | inputs)
        self.values: dict[Value, str] = {}
        self.records: dict[str, tuple[str, dict[str, Any]]] = {}

    def model(self) -> onnx.ModelProto:
        graph, origin = self.graph, self.graph.origin
        proto = onnx.helper.make_model(
            onnx.GraphProto(),
            opset_imports=[onnx.helper.make_opsetid("", _opset(graph))],
            ir_version=IR_VERSION,
            producer_name="regraft",
        )
        self.fill(proto.graph, graph, graph.name or "main", {})
        if origin.framework or origin.reference:
            proto.doc_string = f"from {origin.framework or 'unknown'}: {origin.reference or graph.name}"
        for call, (inputs, outputs) in call_boundaries(graph).items():
            named = self.folded.get(call, call)
            if named is not None:
                self.records[self.call_names[call]] = (
                    self.call_names[named],
                    {
                        "class": graph.modules.module(graph.modules.call(named).module).class_name,
                        "inputs": [self.values[v] for v in inputs],
                        "outputs": [self.values[v] for v in outputs],
                        **({"alone": False} if named in self.entered else {}),
                    },
                )
        calls = dict(self.records.values())
        for name, around in self.callers().items():
            if name in calls and around != caller(name, calls):
                calls[name] = {**calls[name], "in": around}
        proto.metadata_props.add(key=CALLS, value=json.dumps(calls, ensure_ascii=False))
        return proto

    def callers(self) -> dict[str, str | None]:
        """Return call -> the call that makes it; None for the root's."""
        names = self.call_names
        calls = self.graph.modules.calls()
        return {names[c.key]: None if c.parent is None else names[c.parent] for c in calls}

    def calls(self) -> Calls:
        """Return the module calls of the model."""
        tree, names = self.graph.modules, self.call_names
        calls = tree.calls()
        return Calls(
            self.callers(),
            {names[c.key]: tree.module(c.module).class_name for c in calls},
            self.records,
        )

    # -- graphs --------------------------------------------------------------------------------

    def fill(self, proto: onnx.GraphProto, graph: Graph, name: str, captured: dict[int, str]) -> None:
        """Write a graph, root or nested, where its model has it: a copy of a large one costs as much again.

        Args:
            proto: the empty graph of a model or an attribute.
            graph: what is written.
            name: its name.
            captured: index of a capture -> the name of the value behind it.
        """
        proto.name = name
        part = _Part(self, proto, graph, captured)
        for node in graph.input_nodes():
            _describe(proto.input.add(name=part.names[Value(node.key)]), node.type)
        part.reserve_outputs()
        for key in graph.order():
            node = graph.node(key)
            if isinstance(node, Operator):
                part.emit(node)
        for (wanted, value), given in zip(graph.outputs, part.output_names, strict=True):
            if part.names.get(value) != given:
                source = part.ref(value, "")
                name = self.names.unique(f"{wanted}/Identity")
                proto.node.add(op_type="Identity", input=[source], output=[given], name=name)
            _describe(proto.output.add(name=given), graph.type_of(value))
        if graph is self.graph:
            proto.initializer.extend(self.tensor(p.data, p.name) for p in self.parameters)
            self.values = part.names
        proto.initializer.extend(self.tensor(d, n, constant=True) for n, d in part.constants)

    def tensor(self, tensor: TensorData, name: str, constant: bool = False) -> onnx.TensorProto:
        if self.data or constant:
            return onnx.numpy_helper.from_array(
                np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape), name
            )
        proto = onnx.TensorProto(name=name, data_type=onnx_dtype(tensor.dtype), dims=tensor.shape)
        proto.data_location = onnx.TensorProto.EXTERNAL
        return proto


class _Part:
    """The nodes, constants and value names of one graph."""

    def __init__(
        self, emission: _Emission, proto: onnx.GraphProto, graph: Graph, captured: dict[int, str]
    ) -> None:
        self.emission = emission
        self.proto = proto
        self.graph = graph
        self.names: dict[Value, str] = {}
        self.constants: list[tuple[str, TensorData]] = []
        self.output_names: list[str] = []
        root = graph is emission.graph
        for key in graph.inputs:
            node = graph.node(key)
            assert isinstance(node, Input)
            self.names[Value(key)] = node.name if root else emission.names.unique(node.name)
        for key in graph.captures:
            node = graph.node(key)
            assert isinstance(node, Capture)
            self.names[Value(key)] = captured[node.index]
        if root:
            self.names.update({Value(p.key): p.name for p in emission.parameters})

    def reserve_outputs(self) -> None:
        """Give graph outputs their names; a value of an operator takes the name of its first output."""
        for wanted, value in self.graph.outputs:
            given = self.emission.names.unique(wanted or "output")
            self.output_names.append(given)
            if value not in self.names and isinstance(self.graph.node(value.node), Operator):
                self.names[value] = given

    def ref(self, value: Value | None, prefix: str) -> str:
        """Return the name of an operand; a constant is named by its first user."""
        if value is None:
            return ""
        if value not in self.names:
            node = self.graph.node(value.node)
            assert isinstance(node, Constant), node
            name = self.emission.names.unique(f"{prefix}constant")
            self.names[value] = name
            self.constants.append((name, node.data))
        return self.names[value]

    def emit(self, operator: Operator) -> None:
        emission, graph = self.emission, self.graph
        call_name = emission.call_names[operator.call] if operator.call is not None else ""
        prefix = scope(call_name)
        inputs = [self.ref(v, prefix) for v in graph.operands(operator.key)]
        captured = [self.ref(v, prefix) for v in graph.captured(operator.key)]
        name = emission.names.unique(f"{prefix}{operator.op_type}")
        outputs = self._outputs(operator, name)
        node = self.proto.node.add(op_type=operator.op_type, name=name, input=inputs, output=outputs)
        specs = signature(operator.op_type).attributes
        for key, value in sorted(operator.attributes.items()):
            if isinstance(value, Graph):
                body = node.attribute.add(name=key, type=onnx.AttributeProto.GRAPH).g
                emission.fill(body, value, f"{name}.{key}", dict(enumerate(captured)))
            elif (key, value) != ("momentum", CUMULATIVE):  # of which ONNX has none
                node.attribute.append(attribute_proto(key, value, specs[key].kind if key in specs else None))
        if operator.call is not None:
            module = graph.modules.module(graph.modules.call(operator.call).module)
            node.metadata_props.add(key=NODE_CALL, value=call_name)
            node.metadata_props.add(key=NODE_CLASS, value=module.class_name)
        if operator.location:
            node.doc_string = operator.location

    def _outputs(self, operator: Operator, name: str) -> list[str]:
        """Return the names of the outputs; unused optional ones are left out."""
        formals = signature(operator.op_type).outputs
        graph_outputs = set(self.output_names)
        values = [Value(operator.key, index) for index in range(len(operator.types))]
        used = {v for v in values if v in self.names or self.graph.users(v)}
        together = operator.op_type in _ALL_OR_NONE and not used.isdisjoint(values[1:])
        out: list[str] = []
        for index, (value, type_) in enumerate(zip(values, operator.types, strict=True)):
            formal = formals[min(index, len(formals) - 1)]
            needless = value not in used and not together
            if index and formal.optional and not formal.variadic and needless:
                out.append("")
                continue
            if value not in self.names:
                self.names[value] = name if index == 0 else self.emission.names.unique(f"{name}.{index}")
            out.append(self.names[value])
            if self.names[value] not in graph_outputs and type_ is not None:
                _describe(self.proto.value_info.add(name=self.names[value]), type_)
        while out and not out[-1]:
            out.pop()
        return out


def _describe(info: onnx.ValueInfoProto, type_: TensorType | None) -> None:
    if type_ is not None:
        info.type.CopyFrom(type_to_proto(type_))
