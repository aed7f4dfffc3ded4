"""Lowering a file's nodes in order: brought up to our opset, typed, in the module calls of their scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence

import onnx

from ...ir import Builder, Graph, InvalidGraphError, ModelError, Operator, TensorType, Value, signature
from ...ir.analysis.sizes import Sizes
from ...ir.analysis.small_constants import folded
from ...ir.functions.stated import nodes_without
from ..size_limits import Budget
from .call import Call, plain_attributes
from .control_flow import CONTROL_FLOW, lower_control_flow
from .coverage import plain_domain, require_known, require_opset
from .frame import Frame
from .fused import find_fused
from .old_exporters import MXNET
from .own_calls import OwnCalls, call_of
from .scopes import SLOTS, Modules, Scope, class_of
from .sequences import SEQUENCES
from .standard_functions import standard_function
from .versions import adapt
from .weights import Weights, attribute_name

_DEEPEST = 64  # functions and graphs within one another
_FEW = 10_000  # nodes that any file may give once its functions are in place of their calls
_REPEATED = 50  # times that a node of the file may be lowered beyond them, on the average
_HELPERS = (
    "pkg.onnxscript"  # begins the domains of functions that torch's exporter calls, which are no modules
)


class Lowering:
    """Builds a graph from a model.

    Args:
        model: the model.
        graph: with its root module and inputs.
        modules: its module tree.
        weights: its initializers.
        stated: types that the file states, by name.
        scopes: of the nodes of its main graph; None where it has none.
        budget: what its values may take.
        made: names of values that the file does not have.
        own: the module calls that the file states, if this project wrote it.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        graph: Graph,
        modules: Modules,
        weights: Weights,
        stated: Mapping[str, TensorType | None],
        scopes: Sequence[Scope] | None,
        budget: Budget,
        made: Container[str] = (),
        own: OwnCalls | None = None,
    ) -> None:
        self.made, self.own = made, own
        self.model, self.graph, self.modules, self.weights = model, graph, modules, weights
        self.stated, self.scopes, self.budget = stated, scopes, budget
        self.returned = {output.name for output in model.graph.output}
        self.functions = {(f.domain, f.name): f for f in model.functions}
        stated_nodes = len(model.graph.node) + sum(len(f.node) for f in model.functions)
        self._left = _FEW + _REPEATED * stated_nodes
        self._number = 0  # of the node of the main graph that is lowered

    def run(self, inputs: Mapping[str, Value]) -> None:
        """Lower every node of the main graph and state its outputs.

        Raises:
            UnsupportedError: listing every operator without a lowering.
            ModelError: when a node does not fit what it reads.
        """
        require_opset(self.model)
        require_known(self.model)
        opsets = {o.domain: o.version for o in self.model.opset_import}
        frame = Frame(Builder(self.graph, call=self.modules.root), dict(inputs), Sizes(self.graph), opsets)
        proto = self.model.graph
        for number, node in enumerate(proto.node):
            self._number = number
            self.lower(frame, node, self.scopes[number] if self.scopes is not None else None)
        for output in proto.output:
            self.graph.outputs.append((output.name, self.lookup(frame, output.name, "the outputs")))
        self.weights.hold_rest()
        self.modules.fill_containers()
        self.modules.name_layers()

    def lookup(self, frame: Frame, name: str, place: str) -> Value:
        """Return the value of a name.

        Raises:
            ModelError: when nothing has that name before it is read.
        """
        if name in frame.values:
            return frame.values[name]
        if name in self.weights and frame.outer is None:
            return self._weight(frame, name, None, "")
        raise ModelError("E101", f"expected a value called `{name}` before it is read, got none", place=place)

    # -- nodes ---------------------------------------------------------------------------------

    def lower(self, frame: Frame, node: onnx.NodeProto, scope: Scope | None) -> None:
        """Lower one node of a frame; `scope` is None in a file without scopes."""
        if not node.output:
            raise ModelError("E101", f"expected outputs of every node, got none of a {node.op_type}")
        place = f"node `{node.name}`" if node.name else f"the {node.op_type} that gives `{node.output[0]}`"
        self._left -= 1
        if self._left < 0:  # functions that call one another twice double with each
            raise ModelError(
                "E106", "expected nodes in proportion to the file once functions are written out", place=place
            )
        graph = frame.b.graph
        frame.b.location = node.name
        if plain_domain(node.domain) == "" and node.op_type in SEQUENCES:
            self._sequence(frame, node, scope, place)
            self._settle(frame, place)
            return
        if node.op_type == "Identity" and self._gives_a_name(frame, node):
            return
        if node.op_type == "ConstantOfShape" and frame.outer is None and node.output[0] in self.weights:
            return
        operands = self._operands(frame, node, scope, place)
        while operands and operands[-1] is None:
            operands.pop()
        function = self.functions.get((node.domain, node.op_type))
        if function is not None:
            self._call_function(frame, node, function, operands, scope, place)
            return
        own: Scope = ()
        if graph is self.graph:
            if scope:
                scope = self.weights.before_norm(node.op_type, scope, operands)
            if scope is None and not frame.scope:
                own = self.weights.scope(node, operands)
            own = (*frame.scope, *(scope or own))
            if self.own is None:
                frame.b.call = self.modules.enter(own, operands)
            else:
                self._enter_stated(frame, node, self.own)
            assert frame.b.call is not None
            self.weights.hold(node.op_type, operands, graph.modules.call(frame.b.call).module)
        elif self.own is not None:
            self._enter_stated(frame, node, self.own)
        call = self._call(frame, node, operands, place)
        try:
            outputs = self._outputs(frame, call, own)
        except InvalidGraphError as error:
            raise ModelError(
                "E103",
                f"`{node.op_type}` does not fit its inputs: {error.message}",
                place=place,
                hint="check the shapes and element types given with --input",
            ) from error
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError, AssertionError) as error:
            # attributes and types are what a file says, of any kind and number
            raise call.unsupported(f"cannot be lowered: {error}") from error
        settled = self._settle(frame, place)
        for name, given in zip(node.output, outputs, strict=False):
            value = None if given is None else settled.get(given, given)
            if name and value is not None:
                if name in frame.values:
                    raise ModelError("E101", f"expected every name once, got `{name}` again", place=place)
                frame.values[name] = value
                self._state_rank(frame, name, value)
                if graph is self.graph and name not in self.made:
                    graph.origin.landmarks.setdefault((name, 0), value)

    def _enter_stated(self, frame: Frame, node: onnx.NodeProto, own: OwnCalls) -> None:
        """Enter the call that a node states; one of a function's body that states none is where that is."""
        stated = call_of(node) if frame.depth else own.nodes[self._number]
        if stated:
            frame.b.call = self.modules.enter_stated(stated, own)

    def _operands(
        self, frame: Frame, node: onnx.NodeProto, scope: Scope | None, place: str
    ) -> list[Value | None]:
        roles = SLOTS.get(node.op_type, ())
        found: list[Value | None] = []
        for slot, name in enumerate(node.input):
            if name in frame.values or name not in self.weights or frame.outer is not None:
                found.append(self.lookup(frame, name, place) if name else None)
                continue
            inside = None if scope is None else (*frame.scope, *scope)
            found.append(self._weight(frame, name, inside, roles[slot] if slot < len(roles) else ""))
        return found

    def _weight(self, frame: Frame, name: str, scope: Scope | None, role: str) -> Value:
        found = self.weights.value(name, scope, role)
        if self.weights.is_shared(name):
            frame.values[name] = found
        return found

    def _gives_a_name(self, frame: Frame, node: onnx.NodeProto) -> bool:
        """Whether an Identity only gives a weight its name in one of the layers that share it by chance."""
        name, other = node.input[0], node.output[0]
        return (
            frame.b.graph is self.graph
            and name not in frame.values
            and other not in self.returned
            and self.weights.rename(name, other)
        )

    def _call(self, frame: Frame, node: onnx.NodeProto, operands: Sequence[Value | None], place: str) -> Call:
        version = frame.opsets.get(node.domain, frame.opsets.get(plain_domain(node.domain), 1))
        twice = next((n for n, times in Counter(a.name for a in node.attribute).items() if times > 1), None)
        if twice is not None:
            raise ModelError("E101", f"expected the attribute `{twice}` once, got it twice", place=place)
        attributes = plain_attributes(frame.resolved(node), place)
        group = attributes.get("group", 1)
        if isinstance(group, int) and group < 1:  # which shape inference takes for no groups
            raise ModelError("E101", f"expected a group of 1 or more, got {group}", place=place)
        of_mxnet = self.model.graph.name == MXNET
        return Call(frame.b, node, operands, version, place, attributes, of_mxnet=of_mxnet)

    def _settle(self, frame: Frame, place: str) -> dict[Value, Value]:
        """Type what a node of the frame became by sizes, and count it; what a body within it did is done.

        Returns:
            Constants, by what they stand in the place of: shape arithmetic whose results are all numbers.
        """
        graph = frame.b.graph
        keys = [key for key in range(frame.sizes.settled, graph.next_key) if key in graph]
        made = [node for key in keys if isinstance(node := graph.node(key), Operator)]
        found: dict[Value, Value] = {}
        for operator in made:
            constant = frame.follow(operator, graph.operands(operator.key))
            if constant is not None:
                value = Value(operator.key)
                graph.replace_uses(value, constant)
                graph.remove(operator.key)
                found[value] = constant
        frame.sizes.settled = graph.next_key
        if graph is self.graph:
            assert frame.b.call is not None
            self.modules.settle([o.key for o in made if o.key in graph], frame.b.call)
        self.budget.spend(graph, [key for key in keys if key in graph], place)
        return found

    def _outputs(self, frame: Frame, call: Call, scope: Scope) -> Sequence[Value | None]:
        domain = plain_domain(call.node.domain)
        body = None if domain else standard_function(call)
        if body is not None:
            return self._inline(frame, call, body, scope)
        rule = find_fused(domain, call.operator)
        if rule is not None:
            found = rule(call)
            call.require_read()
        elif call.operator in CONTROL_FLOW:
            return lower_control_flow(self, frame, call)
        else:
            found = adapt(call)
        if found is None:
            return self._add(call)
        return found if isinstance(found, list) else [found]

    def _add(self, call: Call) -> list[Value]:
        """Add the operator of a call's own name; a constant where all it reads is."""
        for name, value in call.attributes.items():
            if isinstance(value, (onnx.GraphProto, onnx.TypeProto, onnx.SparseTensorProto)):
                raise call.unsupported(f"expected a plain attribute `{name}`")
        for slot, formal in enumerate(signature(call.operator).inputs):
            if not formal.optional and not formal.variadic and call.optional(slot) is None:
                raise call.unsupported(f"expected an operand `{formal.name}`, got none")
        outputs = call.ops(call.operator, *call.operands, outputs=call.outputs, **call.attributes)
        operator = call.graph.operator(outputs[0].node)
        operands = call.graph.operands(operator.key)
        return folded(call.graph, operator, operands, outputs)

    def _state_rank(self, frame: Frame, name: str, value: Value) -> None:
        """Take the element type and rank that the file states where no rule gives them."""
        producer = frame.b.graph.node(value.node)
        known = producer.types[value.output]
        if not isinstance(producer, Operator) or (known is not None and known.shape is not None):
            return
        stated = self.stated.get(name) if frame.outer is None and not frame.given else None
        if stated is None or (known is not None and known.dtype != stated.dtype):
            return
        dims = [d if isinstance(d, int) else None for d in stated.shape or ()]
        producer.types[value.output] = stated.with_shape(None if stated.shape is None else tuple(dims))

    # -- sequences and functions ---------------------------------------------------------------

    def _sequence(self, frame: Frame, node: onnx.NodeProto, scope: Scope | None, place: str) -> None:
        """Follow an operator on sequences."""
        given = [self._held(frame, name, place) if name else None for name in node.input]
        if frame.b.graph is self.graph:
            held = [v for each in given for v in (each if isinstance(each, list) else [each])]
            frame.b.call = self.modules.enter((*frame.scope, *(scope or ())), held)
        call = self._call(frame, node, (), place)
        try:
            found = SEQUENCES[node.op_type](call, given)
        except InvalidGraphError as error:
            raise ModelError("E103", f"`{node.op_type}`: {error.message}", place=place) from error
        except (ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
            raise call.unsupported(f"cannot be followed: {error}") from error
        if isinstance(found, list):
            frame.sequences[node.output[0]] = [each for each in found if isinstance(each, Value)]
        elif found is not None:
            frame.values[node.output[0]] = found

    def _held(self, frame: Frame, name: str, place: str) -> Value | list[Value]:
        return frame.sequences[name] if name in frame.sequences else self.lookup(frame, name, place)

    def _inline(
        self, frame: Frame, call: Call, function: onnx.FunctionProto, scope: Scope
    ) -> list[Value | None]:
        """Lower the body that ONNX states for an operator, in the operator's place."""
        body = self._body(frame, call.node, function, call.operands, scope, call.place)
        pairs = zip(function.output, call.node.output, strict=False)
        return [self.lookup(body, inner, call.place) if name else None for inner, name in pairs]

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
        inside = (*frame.scope, *(scope or ()))
        if not function.domain.startswith(_HELPERS) and frame.b.graph is self.graph:
            inside = (*inside, (attribute_name(node.name or node.output[0]), class_of(function.name)))
        body = self._body(frame, node, function, operands, inside, place)
        for name, inner in zip(node.output, function.output, strict=False):
            if name:
                frame.values[name] = self.lookup(body, inner, place)

    def _body(
        self,
        frame: Frame,
        node: onnx.NodeProto,
        function: onnx.FunctionProto,
        operands: Sequence[Value | None],
        scope: Scope,
        place: str,
    ) -> Frame:
        """Lower the nodes of a function, and return the frame of their names."""
        if frame.depth >= _DEEPEST:
            raise ModelError(
                "E101", "expected functions without recursion, got one that calls itself", place=place
            )
        given = {a.name: a for a in function.attribute_proto} | frame.resolved(node)
        values = {n: v for n, v in zip(function.input, operands, strict=False) if v is not None}
        opsets = {o.domain: o.version for o in function.opset_import} or frame.opsets
        body = Frame(frame.b, values, frame.sizes, opsets, given, scope, None, frame.depth + 1)
        absent = {n for n in function.input if n not in values}
        for each in nodes_without(function.node, absent):
            self.lower(body, each, ())
        return body
