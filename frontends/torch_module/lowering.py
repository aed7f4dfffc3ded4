"""Lowering an exported program: every node in order, through the tables of the family files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ...ir import Graph, UnsupportedError, Value
from .aliases import Aliases, written_argument
from .call import call_of
from .complex_numbers import part_of
from .context import Context, Result
from .coverage import Coverage
from .environment import Environment
from .export.capture import Captured, array_of, tensor_placeholders
from .known_values import KnownValues
from .module_calls import ModuleCalls, stack_of
from .modules.tree import Tree
from .nodes import (
    CONTROL_FLOW,
    IGNORED,
    RELEASE,
    RUN_WHOLE,
    functional_name,
    is_tensor_result,
    target_name,
)
from .operators import TABLE
from .operators.control_flow import conditional, loop, map_rows, scan
from .program_boundary import ProgramBoundary
from .refusals import COMPLEX, has_complex
from .source_places import NodePlaces
from .stubs import add_stub
from .symbols import Symbols
from .view_writes import INVERSES
from .written_precision import computed_in_float32

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node


class Lowerer:
    """Lowers one captured program into the graph that already holds its module tree.

    Args:
        captured: the program.
        tree: its modules and parameters, in the graph.
        partial: leave a stub in place of an operator without a lowering.
    """

    def __init__(self, captured: Captured, tree: Tree, *, partial: bool = False) -> None:
        self.captured, self.partial = captured, partial
        self.graph: Graph = tree.graph
        self.program = captured.program
        tensors = [(node.name, node.meta["val"]) for node in tensor_placeholders(self.program)]
        symbols = Symbols(tensors, captured.equal_sizes)
        self.context = Context(self.graph, symbols)
        self.places = NodePlaces(self.program.graph_module)
        self.coverage = Coverage(self.program, symbols, self.places)
        sizes = [symbols.sizes(fake) for _, fake in tensors]
        for shape, example in zip(sizes, captured.examples, strict=False):
            self.context.ones |= {s for s, n in zip(shape, example.shape, strict=False) if n == 1} - {1}
        self.b = self.context.b
        self.calls = ModuleCalls(tree)
        self.environment = Environment(symbols)
        self.boundary = ProgramBoundary(captured, tree, self.context, self.environment)
        self.stubs: set[str] = set()
        self.in_expansion: list[str] = []
        self.known_values = KnownValues(self.program)
        self.in_float32 = computed_in_float32(self.program)
        self.aliases = Aliases(self.graph, self.environment, self._lower, self._write_back)

    def run(self) -> None:
        """Fill the graph.

        Raises:
            UnsupportedError: listing every operator without a lowering, or naming a form not covered.
        """
        self._require_lowerings()
        self.calls.add_all(self.captured)
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self.boundary.add_input(node)
                self.aliases.add(node)
        for node in self.program.graph.nodes:
            if node.op != "placeholder":
                self._node(node)
        self.boundary.add_outputs(self.calls.root, self.in_float32)
        self.context.notes.extend(self.aliases.notes)
        self.graph.remove_dead()  # shapes computed for checks, constants read as attributes

    def _require_lowerings(self) -> None:
        """Find a lowering or an expansion for every operator, or complain about all that have neither."""
        missing = self.coverage.missing()
        if self.partial:
            self.stubs = {name for name, _ in missing}
        else:
            self.coverage.refuse(missing)

    def _node(self, node: Node, *, own_call: bool = True) -> None:
        try:
            self._run_node(node, own_call=own_call)
        except UnsupportedError as error:
            if error.place or type(error) is not UnsupportedError or error.missing:
                raise
            place = self.places.of(node)
            raise UnsupportedError(error.code, error.message, place=place, hint=error.hint) from error

    def _run_node(self, node: Node, *, own_call: bool) -> None:
        self.aliases.started.add(node)
        if node.op == "output":
            return
        if node.op == "get_attr":
            found: Any = getattr(node.graph.owning_module, str(node.target))
            is_tensor = hasattr(found, "dtype")
            self.environment[node] = self.b.constant(array_of(found)) if is_tensor else found
            return
        call = self._module_call(node)
        with self.b.inside(call, self.places.line(node) or self.b.location) if own_call else nullcontext():
            known = self.known_values.of(node)
            if own_call:
                self.b.upcast = node in self.in_float32
            self.environment[node] = self._lower(node) if known is None else self.b.constant(known)
        self.aliases.add(node)
        mutated = written_argument(node)
        if mutated is not None:
            known = dict(self.graph.updates)
            self.aliases.mutated(node, mutated, self.places.of(node))
            if target_name(node.target) == "aten.embedding_renorm_.default":
                self._keep_table(known)

    def _module_call(self, node: Node) -> int | None:
        """Return the module call of an operator.

        In the bodies of control flow, of which torch says nothing, that is the call around it, or where all
        its parameters are those of one of torch's own layers, a call of that layer.
        """
        if keys := stack_of(node):
            return self.calls.named_by(keys)
        around = self.b.call
        if around is None or target_name(node.target) in CONTROL_FLOW:
            return self.calls.root if around is None else around
        values = [v for n in node.all_input_nodes if isinstance(v := self.environment.get(n), Value)]
        keys = {k for v in values if (k := self.context.parameter_of(v)) is not None}
        return self.calls.around_layer(keys, around)

    def _keep_table(self, updates: dict[int, Value]) -> None:
        """Leave a table of embeddings as it is that torch scales down in place (`max_norm`) at each lookup.

        The target scales it at each lookup too, and scaling twice is scaling once.
        """
        for key in set(self.graph.updates) - set(updates):
            name = self.graph.parameter(key).name
            self.context.notes.append(f"`{name}` keeps its values: the model scales its rows down on reading")
        self.graph.updates = updates

    def _lower(self, node: Node) -> Result:
        import torch

        name = target_name(node.target)
        fake = node.meta.get("val")
        if name in IGNORED:
            return None
        if name == RELEASE:
            self.aliases.release(node, self.places.of(node))
            return None
        if node in self.captured.idle:
            return self.environment.resolve(node.args[0])
        if name == "operator.getitem":
            source, index = self.environment.resolve(node.args[0]), node.args[1]
            found = source[index]
            if isinstance(fake, torch.SymInt) and isinstance(found, Value):  # that a loop has carried
                self.context.note_number(found, fake)
                return self.environment.without_tensors(fake)
            return found
        if name in RUN_WHOLE:
            return self._inlined(node, RUN_WHOLE[name])
        if name in CONTROL_FLOW:
            return _CONTROL_FLOW[name](
                self, node, [self.environment.resolve(a) for a in node.args], self.places.of(node)
            )
        if not is_tensor_result(node):
            if name == "aten.item.default" and isinstance(fake, (torch.SymInt, torch.SymFloat)):
                self.context.note_number(self.environment.resolve(node.args[0]), fake)
            return self.environment.without_tensors(fake)
        if node in self.coverage.in_parts:
            return self._lower_in_parts(node)
        if node in self.coverage.decomposed:
            body, feeding = self.coverage.decomposed[node]
            return self._run_body(body, [self.environment[f] for f in feeding], own_calls=False)
        if name in self.stubs or (self.partial and has_complex(node)):
            return self._stub(node, self.coverage.reasons.get(name, ""))
        functional = functional_name(node.target)
        table_name = name if name in TABLE else functional or name
        call = call_of(node, table_name, self.context, self.environment, self.places.of(node))
        try:
            result = TABLE.lower(call)
        except UnsupportedError as refusal:
            if name not in self.in_expansion and self.coverage.expand(node):  # which may use the operator
                self.in_expansion.append(name)
                try:
                    return self._lower(node)
                finally:
                    self.in_expansion.pop()
            if not self.partial or self.coverage.symbolic:  # static shapes are tried first
                raise
            return self._stub(node, refusal.message)
        if table_name != name and isinstance(result, Value):  # in place: the element type stays
            result = call.cast(result, call.dtype)
        return call.finish(result)

    def _lower_in_parts(self, node: Node) -> Result:
        """Return a call on complex tensors, of each of which the environment has a `Complex`."""
        found, place = self.coverage.in_parts[node], self.places.of(node)
        made_by_hand = [isinstance(self.environment[n], Value) and p for n, p in found.operands]
        if self.partial and any(made_by_hand):  # of a stub
            return self._stub(node, COMPLEX)
        given = [
            part_of(self.b, self.environment[n], part, place) if part else self.environment[n]
            for n, part in found.operands
        ]
        return found.results(self._run_body(found.body, given, own_calls=False))

    def _inlined(self, node: Node, position: int) -> list[Result]:
        """The results of a higher-order operator that only runs its body, e.g. with gradients disabled."""
        body: GraphModule = self.environment.resolve(node.args[position])
        arguments = [self.environment.resolve(a) for a in node.args[position + 1 :]]
        results = self._run_body(body, arguments, own_calls=True)
        if target_name(node.target) == "wrap_with_set_grad_enabled" and node.args[0] is False:
            return [self.context.stop_gradient(r) if isinstance(r, Value) else r for r in results]
        return results

    def _run_body(self, body: GraphModule, arguments: list[Result], *, own_calls: bool) -> Any:
        """The results of a nested program; its operators have module calls of their own, or the current."""
        places = [n for n in body.graph.nodes if n.op == "placeholder"]
        for place, argument in zip(places, arguments, strict=True):
            self.environment[place] = argument
            self.aliases.add(place)
        for inner in body.graph.nodes:
            if inner.op != "placeholder":
                self._node(inner, own_call=own_calls)
        output = next(n for n in body.graph.nodes if n.op == "output")
        return self.environment.resolve(output.args[0])

    def run_nested(self, body: GraphModule, arguments: Sequence[Result], context: Context) -> list[Result]:
        """Return the results of a body of control flow, computed in the graph of `context`."""
        around = self.graph, self.context, self.b, self.aliases
        self.graph, self.context, self.b = context.graph, context, context.b
        self.aliases = Aliases(self.graph, self.environment, self._lower, self._write_back)
        for place, argument in zip(body.graph.nodes, arguments, strict=False):
            if isinstance(argument, Value) and hasattr(place.meta.get("val"), "shape"):
                context.note_sizes(argument, place.meta["val"])
        try:
            results = self._run_body(body, list(arguments), own_calls=True)
        finally:
            self.graph, self.context, self.b, self.aliases = around
        return results if isinstance(results, list) else [results]

    def _write_back(self, view: Node, new: Value) -> Value | None:
        """Return the new value of what a view operator views, after a write into the view."""
        name = target_name(view.target)
        if name not in INVERSES:
            return None
        call = call_of(view, name, self.context, self.environment, self.places.of(view))
        return INVERSES[name](call, new)

    def _stub(self, node: Node, reason: str) -> list[Value] | Value:
        place = self.places.of(node)
        return add_stub(node, self.context, self.environment, place=place, reason=reason)


_CONTROL_FLOW = {"cond": conditional, "while_loop": loop, "scan": scan, "map_impl": map_rows}
