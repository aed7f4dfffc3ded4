"""Lowering a file's nodes in order: brought up to our opset, typed, in the module calls of their scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx

from ...ir import (
    Builder,
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
    signature,
)
from ...ir.analysis.evaluation import evaluate
from ...ir.nodes import Constant
from ..size_limits import Budget
from .call import Call, plain_attributes
from .control_flow import CONTROL_FLOW, lower_control_flow
from .fused import FUSED
from .initializers import element_type
from .scopes import SLOTS, Modules, Scope, class_of
from .sequences import SEQUENCES
from .sizes import Sizes, refined
from .standard_functions import has_function, standard_function
from .versions import ADAPTERS, adapt

_DOMAINS = ("", "ai.onnx")
_DEEPEST = 64  # functions and graphs within one another
_FOLDED = 64  # elements up to which what constants give is computed here, for the rules that read it


@dataclass(slots=True)
class Frame:
    """The names of one graph or function of the file.

    Attributes:
        b: builds in its graph.
        values: name -> value.
        sizes: what small integer tensors of the graph hold.
        given: attributes of the function call that it is the body of.
        opsets: domain -> version that its nodes are of.
        scope: of the module that a function's body is in.
        outer: the frame of the graph around a nested one.
        depth: how many it lies within.
        sequences: name -> values, where a name stands for several.
    """

    b: Builder
    values: dict[str, Value]
    sizes: Sizes
    opsets: Mapping[str, int]
    given: dict[str, onnx.AttributeProto] = field(default_factory=dict)
    scope: Scope = ()
    outer: Frame | None = None
    depth: int = 0
    sequences: dict[str, list[Value]] = field(default_factory=dict)


class Lowering:
    """Builds a graph from a model.

    Args:
        model: the model.
        graph: with its root module and inputs.
        stored: its initializers.
        weights: names of those that are parameters.
        scopes: of the nodes of its main graph; None where it has none.
        budget: what its values may take.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        graph: Graph,
        stored: Mapping[str, TensorData],
        weights: set[str],
        scopes: Sequence[Scope] | None,
        budget: Budget,
    ) -> None:
        self.model, self.graph, self.stored, self.weights = model, graph, stored, weights
        self.scopes, self.budget = scopes, budget
        self.modules = Modules(graph)
        self.functions = {(f.domain, f.name): f for f in model.functions}
        infos = (*model.graph.value_info, *model.graph.output)
        self._stated = {info.name: type_of_info(info) for info in infos}
        self._parameters: dict[str, Value] = {}
        self._copies: dict[str, int] = {}
        self._taken: set[int] = set()

    def run(self, inputs: Mapping[str, Value]) -> None:
        """Lower every node of the main graph and state its outputs.

        Raises:
            UnsupportedError: listing every operator without a lowering.
            ModelError: when a node does not fit what it reads.
        """
        self._require_known()
        opsets = {o.domain: o.version for o in self.model.opset_import}
        builder = Builder(self.graph, call=self.modules.root)
        frame = Frame(builder, dict(inputs), Sizes(), opsets)
        proto = self.model.graph
        for number, node in enumerate(proto.node):
            self.lower(frame, node, self.scopes[number] if self.scopes is not None else None)
        root = self.graph.modules.module(0).parameters
        for parameter in self.graph.parameters():  # read in nested graphs alone
            if parameter.key not in self._taken:
                root[unique_name(attribute_name(parameter.declared), root)] = parameter.key
        self.modules.name_layers()
        for output in proto.output:
            self.graph.outputs.append((output.name, self.lookup(frame, output.name, "the outputs")))

    # -- names ---------------------------------------------------------------------------------

    def lookup(self, frame: Frame, name: str, place: str) -> Value:
        """Return the value of a name.

        Raises:
            ModelError: when nothing has that name before it is read.
        """
        if name in frame.values:
            return frame.values[name]
        if name in self.stored and frame.outer is None:
            data = self.stored[name]
            is_weight = name in self.weights
            found = self._parameter(name, data) if is_weight else self.graph.add_constant(data)
            frame.values[name] = found
            return found
        raise ModelError("E101", f"expected a value called `{name}` before it is read, got none", place=place)

    def _operand(self, frame: Frame, name: str, place: str) -> Value:
        """Return the value of a name that a node reads.

        A name of torch's exporter stands for all tensors that were equal, of layers that do not share it.
        """
        found = self.lookup(frame, name, place)
        if name.startswith("onnx::") and name in self.weights and frame.b.graph is self.graph:
            del frame.values[name]
            self._parameters.pop(name, None)
        return found

    def _parameter(self, name: str, data: TensorData) -> Value:
        if name not in self._parameters:
            trained = "float" in data.dtype
            count = self._copies[name] = self._copies.get(name, 0) + 1
            if count > 1:
                data = replace(data, storage=(data.storage, count))
            own = name if count == 1 else f"{name}.{count}"
            self._parameters[name] = self.graph.add_parameter(
                Parameter(own, name, data, trainable=trained, is_buffer=not trained)
            )
        return self._parameters[name]

    def _hold(self, call: Call, operands: Sequence[Value | None], module: int) -> None:
        """Register parameters that a node reads first with the module that it is of."""
        if call.operator == "Identity":  # gives them another name
            return
        for slot, value in enumerate(operands):
            node = None if value is None else self.graph.node(value.node)
            if not isinstance(node, Parameter) or node.key in self._taken or call.graph is not self.graph:
                continue
            self._taken.add(node.key)
            names = SLOTS.get(call.operator, ())
            role = names[slot] if slot < len(names) else ""
            if call.operator == "BatchNormalization" and slot > 2:
                node.trainable, node.is_buffer = False, True
            node.role = role
            home = module
            *path, last = node.declared.split(".")
            stated = self.modules.find(path) if path and self.scopes is not None else None
            if stated is not None:
                home = stated
            held = self.graph.modules.module(home).parameters
            attribute = last if stated is not None and last.isidentifier() else role or attribute_name(last)
            held[unique_name(attribute, held)] = node.key

    # -- nodes ---------------------------------------------------------------------------------

    def lower(self, frame: Frame, node: onnx.NodeProto, scope: Scope | None) -> None:
        """Lower one node of a frame."""
        place = f"node `{node.name}`" if node.name else f"the {node.op_type} that gives `{node.output[0]}`"
        domain = "" if node.domain in _DOMAINS else node.domain
        function = self.functions.get((node.domain, node.op_type))
        if domain == "" and node.op_type in SEQUENCES:
            self._sequence(frame, node, place)
            return
        operands = [self._operand(frame, n, place) if n else None for n in node.input]
        while operands and operands[-1] is None:
            operands.pop()
        if function is not None:
            self._call_function(frame, node, function, operands, scope, place)
            return
        graph = frame.b.graph
        before = graph._next
        is_root = graph is self.graph
        if is_root:
            own = self._own_scope(node, operands) if scope is None and not frame.scope else ()
            whole = (*frame.scope, *(scope or own))
            frame.b.call = self.modules.enter(whole, operands) if whole else self.modules.root
        frame.b.location = node.name
        version = frame.opsets.get(node.domain, frame.opsets.get(domain, 1))
        call = Call(frame.b, node, operands, version, place, plain_attributes(node, frame.given))
        if is_root:
            assert frame.b.call is not None
            self._hold(call, operands, self.graph.modules.call(frame.b.call).module)
        try:
            outputs = self._outputs(frame, call, domain)
        except InvalidGraphError as error:
            raise ModelError(
                "E103",
                f"`{node.op_type}` does not fit its inputs: {error.message}",
                place=place,
                hint="check the shapes and element types given with --input",
            ) from error
        except (ValueError, ArithmeticError, LookupError, AssertionError, TypeError) as error:
            raise call.unsupported(f"cannot be lowered: {error}") from error
        for key in range(before, graph._next):
            made = graph.node(key) if key in graph else None
            if isinstance(made, Operator):
                _follow(frame, made, graph.operands(key))
        for name, value in zip(node.output, outputs, strict=False):
            if name and value is not None:
                frame.values[name] = value
                self._state_rank(frame, name, value)
                if is_root:
                    self.graph.origin.landmarks.setdefault((name, 0), value)
        if is_root:
            keys = [k for k in range(before, self.graph._next) if k in self.graph]
            made = [k for k in keys if isinstance(self.graph.node(k), Operator)]
            assert frame.b.call is not None
            self.modules.settle(made, frame.b.call)
            self.budget.spend(self.graph, keys, place)

    def _sequence(self, frame: Frame, node: onnx.NodeProto, place: str) -> None:
        """Follow an operator on sequences."""
        given = [self._held(frame, name, place) if name else None for name in node.input]
        attributes = plain_attributes(node, frame.given)
        frame.b.call = self.modules.root if frame.b.graph is self.graph else frame.b.call
        before = self.graph._next
        call = Call(frame.b, node, (), frame.opsets.get(node.domain, 1), place, attributes)
        try:
            found = SEQUENCES[node.op_type](call, given)
        except InvalidGraphError as error:
            raise ModelError("E103", f"`{node.op_type}`: {error.message}", place=place) from error
        if isinstance(found, list):
            frame.sequences[node.output[0]] = [each for each in found if isinstance(each, Value)]
        elif found is not None:
            frame.values[node.output[0]] = found
        if frame.b.graph is self.graph:
            made = [k for k in range(before, self.graph._next) if k in self.graph]
            assert frame.b.call is not None
            self.modules.settle([k for k in made if isinstance(self.graph.node(k), Operator)], frame.b.call)
            self.budget.spend(self.graph, made, place)

    def _held(self, frame: Frame, name: str, place: str) -> Value | list[Value]:
        return frame.sequences[name] if name in frame.sequences else self.lookup(frame, name, place)

    def _outputs(self, frame: Frame, call: Call, domain: str) -> Sequence[Value | None]:
        body = None if domain else standard_function(call)
        if body is not None:
            found = iter(self._inline(frame, call, body))
            return [next(found) if name else None for name in call.node.output]
        if domain or ("", call.operator) in FUSED:
            found = FUSED[domain, call.operator](call)
        elif call.operator in CONTROL_FLOW:
            return lower_control_flow(self, frame, call)
        else:
            found = adapt(call)
        if found is None:
            return self.add(frame, call)
        return found if isinstance(found, list) else [found]

    def add(self, frame: Frame, call: Call) -> list[Value]:
        """Add the operator of a call's own name, with the types that sizes give."""
        for name, value in call.attributes.items():
            if isinstance(value, (onnx.GraphProto, onnx.TypeProto, onnx.SparseTensorProto)):
                raise call.unsupported(f"expected a plain attribute `{name}`")
        outputs = frame.b.ops(
            call.operator, *call.operands, outputs=call.outputs, types=None, captures=(), **call.attributes
        )
        graph = frame.b.graph
        operator = graph.operator(outputs[0].node)
        operands = graph.operands(outputs[0].node)
        _follow(frame, operator, operands)
        return [self._folded(graph, operator, operands, outputs[0]), *outputs[1:]]

    def _folded(
        self, graph: Graph, operator: Operator, operands: Sequence[Value | None], output: Value
    ) -> Value:
        """Put a constant in place of what few constant numbers give: rules read shapes and axes."""
        if len(operator.types) > 1 or not operator.is_pure or not operands:
            return output
        known = operator.types[0]
        arrays = []
        for value in operands:
            producer = None if value is None else graph.node(value.node)
            if isinstance(producer, Constant) and producer.data.load is not None:
                if sum(1 for d in producer.data.shape if d > _FOLDED):
                    return output
                arrays.append(producer.data.numpy())
            elif value is None:
                arrays.append(None)
            elif operator.op_type in ("Shape", "Size") and known is not None and _is_static(graph, value):
                shape = graph.known_type(value).static_shape()
                arrays.append(_Shaped(shape))
            else:
                return output
        if any(isinstance(a, _Shaped) for a in arrays):
            content = arrays[0].content(operator)
            return graph.add_constant(content)
        if any(a is not None and a.size > _FOLDED for a in arrays):
            return output
        result = evaluate(operator, arrays)
        if result is None or result.size > _FOLDED:
            return output
        if known is not None and TensorData.of(result).dtype != known.dtype:
            return output
        graph.remove(output.node)
        return graph.add_constant(result)

    def _inline(self, frame: Frame, call: Call, function: onnx.FunctionProto) -> list[Value]:
        """Lower the body that ONNX states for an operator, in the operator's place."""
        if frame.depth >= _DEEPEST:
            raise ModelError("E101", "expected operators of finite bodies", place=call.place)
        given = {a.name: a for a in function.attribute_proto} | _resolved(call.node, frame.given)
        values = {n: v for n, v in zip(function.input, call.operands, strict=False) if v is not None}
        opsets = {o.domain: o.version for o in function.opset_import}
        body = Frame(frame.b, values, frame.sizes, opsets, given, frame.scope, None, frame.depth + 1)
        absent = {n for n in function.input if n not in values}
        self._run_body(body, function.node, absent)
        wanted = zip(function.output, call.node.output, strict=False)
        return [self.lookup(body, inner, call.place) for inner, name in wanted if name]

    def _run_body(self, body: Frame, nodes: Iterable[onnx.NodeProto], absent: set[str]) -> None:
        """Lower the nodes of a function whose optional inputs `absent` are not given."""
        for each in nodes:
            if absent & set(each.input):
                plain = onnx.NodeProto()
                plain.CopyFrom(each)
                del plain.input[:]
                plain.input.extend("" if name in absent else name for name in each.input)
                each = plain
            self.lower(body, each, ())

    def _own_scope(self, node: onnx.NodeProto, operands: Sequence[Value | None]) -> Scope:
        """In a file without scopes, a layer with weights is a module."""
        names = SLOTS.get(node.op_type)
        if names is None:
            return ()
        for slot, value in enumerate(operands):
            held = None if value is None else self.graph.node(value.node)
            if isinstance(held, Parameter) and slot < len(names) and names[slot]:
                path = held.declared.rsplit(".", 1)[0] if "." in held.declared else node.name
                return ((attribute_name(path or node.output[0]), node.op_type),)
        return ()

    # -- functions -----------------------------------------------------------------------------

    def _state_rank(self, frame: Frame, name: str, value: Value) -> None:
        """Take the element type and rank that the file states where no rule gives them."""
        producer = frame.b.graph.node(value.node)
        known = producer.types[value.output]
        if not isinstance(producer, Operator) or (known is not None and known.shape is not None):
            return
        stated = self._stated.get(name) if frame.outer is None and not frame.given else None
        if stated is None or (known is not None and known.dtype != stated.dtype):
            return
        dims = [d if isinstance(d, int) else None for d in stated.shape or ()]
        producer.types[value.output] = stated.with_shape(None if stated.shape is None else tuple(dims))

    def _call_function(
        self,
        frame: Frame,
        node: onnx.NodeProto,
        function: onnx.FunctionProto,
        operands: Sequence[Value | None],
        scope: Scope | None,
        place: str,
    ) -> None:
        """Lower a function of the model in place of its call, as a module of its own."""
        if frame.depth >= _DEEPEST:
            raise ModelError("E101", "expected functions that end, got one that calls itself", place=place)
        given = {a.name: a for a in function.attribute_proto}
        given |= {
            a.name: frame.given.get(a.ref_attr_name, a) if a.ref_attr_name else a for a in node.attribute
        }
        inside = (*frame.scope, *(scope or ()))
        if not function.domain.startswith("pkg.onnxscript") and frame.b.graph is self.graph:
            inside = (*inside, (attribute_name(node.name or node.output[0]), class_of(function.name)))
        values = {n: v for n, v in zip(function.input, operands, strict=False) if v is not None}
        opsets = {o.domain: o.version for o in function.opset_import} or frame.opsets
        absent = {n for n in function.input if n not in values}
        body = Frame(frame.b, values, frame.sizes, opsets, given, inside, None, frame.depth + 1)
        self._run_body(body, function.node, absent)
        for name, inner in zip(node.output, function.output, strict=False):
            if name:
                frame.values[name] = self.lookup(body, inner, place)

    # -- what cannot be lowered ----------------------------------------------------------------

    def _require_known(self) -> None:
        """Check that every operator has a lowering.

        Raises:
            UnsupportedError: listing all that have none, the most used first.
        """
        places: dict[str, list[str]] = {}
        for domain, node in self._all_nodes():
            if (node.domain, node.op_type) in self.functions or is_known(domain, node.op_type):
                continue
            name = f"{domain}.{node.op_type}" if domain else node.op_type
            places.setdefault(name, []).append(f"node `{node.name or node.output[0]}`")
        if places:
            ordered = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
            count = len(ordered)
            raise UnsupportedError(
                "E201",
                f"no lowering for {count} ONNX operator{'s' if count > 1 else ''}",
                missing=[Missing(name, tuple(found)) for name, found in ordered],
                hint="end the model before them, or export it with operators of ai.onnx",
            )

    def _all_nodes(self) -> Iterable[tuple[str, onnx.NodeProto]]:
        stack: list[Any] = [self.model.graph, *self.model.functions]
        while stack:
            for node in stack.pop().node:
                yield "" if node.domain in _DOMAINS else node.domain, node
                for attribute in node.attribute:
                    if attribute.type == onnx.AttributeProto.GRAPH:
                        stack.append(attribute.g)


def _resolved(
    node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]
) -> dict[str, onnx.AttributeProto]:
    """The attributes of a node, with those of the call around it where it refers to them."""
    found: dict[str, onnx.AttributeProto] = {}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            found[attribute.name] = attribute
        elif attribute.ref_attr_name in given:
            found[attribute.name] = given[attribute.ref_attr_name]
    return found


def _follow(frame: Frame, operator: Operator, operands: Sequence[Value | None]) -> None:
    """Refine an operator's type by sizes, and note what it holds."""
    graph, sizes = frame.b.graph, frame.sizes
    operator.types[0] = refined(operator.types[0], sizes.typed(graph, operator, operands))
    content = sizes.computed(graph, operator, operands)
    if content is not None:
        sizes.note(Value(operator.key), content)


class _Shaped:
    """A value of static shape, of which only that is asked."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.size = shape, 1

    def content(self, operator: Operator) -> Any:
        import math

        import numpy as np

        if operator.op_type == "Size":
            return np.asarray(math.prod(self.shape), np.int64)
        end = operator.attributes.get("end")
        return np.asarray(
            self.shape[operator.int("start") : None if end is None else operator.int("end")], np.int64
        )


def _is_static(graph: Graph, value: Value) -> bool:
    known = graph.type_of(value)
    return known is not None and known.is_static


_UNTYPED = ("SequenceMap", "Optional", "OptionalGetElement", "OptionalHasElement")
"""Operators on sequences and optional values, which the IR does not carry."""


def is_known(domain: str, operator: str) -> bool:
    """Whether an operator has a lowering."""
    if domain:
        return (domain, operator) in FUSED
    if operator in _UNTYPED:
        return False
    if (
        operator in SEQUENCES
        or operator in ADAPTERS
        or operator in CONTROL_FLOW
        or ("", operator) in FUSED
        or has_function(operator)
    ):
        return True
    try:
        signature(operator)
    except InvalidGraphError:
        return False
    return True


def attribute_name(text: str) -> str:
    """Return a name of Python's for a text of a file."""
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in text).strip("_") or "unnamed"
    return plain if plain.isidentifier() or plain.isdigit() else f"n{plain}"


def unique_name(name: str, taken: Mapping[str, int]) -> str:
    """Return a name that is not taken: itself, or with a number."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def type_of_info(info: onnx.ValueInfoProto) -> TensorType | None:
    """Return the type that a file states of a value, with symbols as it names them; None for no tensor."""
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.elem_type:
        return None
    tensor = info.type.tensor_type
    dtype = element_type(tensor.elem_type, f"`{info.name}`")
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
    return TensorType(dtype, tuple(dims))
