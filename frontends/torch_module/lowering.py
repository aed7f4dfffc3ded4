"""Lowering an exported program: placeholders, module calls, operators, outputs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ...ir import Graph, TensorData, UnsupportedError, Value
from ..arguments import Key
from .aliases import Aliases, written_argument
from .call import Call
from .complex_numbers import Pair, on_a_last_axis, part_of
from .context import Context, Result
from .coverage import Coverage
from .export.capture import Captured
from .export.module_stacks import normalised_stack
from .export.tensors import array_of, tensor_placeholders
from .known_values import KnownValues
from .modules.tree import Tree
from .nodes import (
    CONTROL_FLOW,
    RUN_WHOLE,
    argument_names,
    functional_name,
    is_tensor_result,
    target_name,
)
from .operators import IGNORED, TABLE
from .operators.control_flow import conditional, loop
from .refusals import COMPLEX, advised, has_complex, tensor_arguments, written_call
from .source_places import Places, source_line
from .symbols import Symbols
from .view_writes import INVERSES

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node


class Lowering:
    """Lowers one captured program into the graph that already holds its module tree."""

    def __init__(self, captured: Captured, tree: Tree, *, partial: bool = False) -> None:
        self.captured, self.tree, self.partial = captured, tree, partial
        self.graph: Graph = tree.graph
        self.program = captured.program
        tensors = [(node.name, node.meta["val"]) for node in tensor_placeholders(self.program)]
        self.context = Context(self.graph, Symbols(tensors))
        self.places = Places(self.program.graph_module)
        self.coverage = Coverage(self.program, self.context.symbols, self.places)
        sizes = [self.context.symbols.sizes(fake) for _, fake in tensors]
        for shape, example in zip(sizes, captured.examples, strict=False):
            self.context.ones |= {s for s, n in zip(shape, example.shape, strict=True) if n == 1} - {1}
        self.b = self.context.b
        self.calls: dict[str, int] = {}
        self.environment: dict[Node, Result] = {}
        self.stubs: set[str] = set()
        self.known_values = KnownValues(self.program)
        self.aliases = Aliases(self.graph, self.environment, self._lower, self._write_back)

    def run(self) -> None:
        """Fill the graph.

        Raises:
            UnsupportedError: listing every operator without a lowering, or naming a form not covered.
        """
        self._require_lowerings()
        self._add_calls()
        self._placeholders()
        for node in self.program.graph.nodes:
            if node.op != "placeholder":
                self._node(node)
        self._outputs()
        self._drop_dead()

    # -- before any operator -------------------------------------------------------------------

    def _require_lowerings(self) -> None:
        """Find a lowering or an expansion for every operator, or complain about all that have neither."""
        missing = self.coverage.missing()
        if self.partial:
            self.stubs = {name for name, _ in missing}
        else:
            self.coverage.refuse(missing)

    def _add_calls(self) -> None:
        """Add module calls in execution order: those recorded while tracing, then any that operators name."""
        for keys, module in self.captured.calls:
            self._call_of(keys, id(module) if module is not None else None)
        for node in self.program.graph.nodes:
            self._call_of(normalised_stack(node.meta.get("nn_module_stack") or {}), None)
        if not self.calls:
            self._call_of(("",), None)

    def _call_of(self, keys: tuple[str, ...], last: int | None) -> int | None:
        """The call of a chain of keys, added where it is new; unregistered modules belong to their caller."""
        parent: int | None = None
        for at, key in enumerate(keys):
            if key not in self.calls:
                path = key.partition("@")[0]
                module = self.tree.modules.get(last) if last is not None and at == len(keys) - 1 else None
                if module is None:
                    found = self.graph.modules.find(path)
                    module = None if found is None else found.key
                if module is None:
                    continue
                self.calls[key] = self.graph.modules.add_call(module, parent)
            parent = self.calls[key]
        return parent

    def _call_without_stack(self, node: Node) -> int | None:
        """The call of an operator of which torch says nothing: in the bodies of control flow.

        That is the call around it, or where all its parameters are those of one of torch's own layers, a call
        of that layer.
        """
        around = self.b.call
        if around is None or target_name(node.target) in CONTROL_FLOW:
            return self.calls.get("") if around is None else around
        values = [v for n in node.all_input_nodes if isinstance(v := self.environment.get(n), Value)]
        keys = {k for v in values if (k := self.context.parameter_of(v)) is not None}
        layer = self.tree.layer_of(keys) if keys else None
        return around if layer is None else self.graph.modules.add_call(layer, around)

    # -- nodes ---------------------------------------------------------------------------------

    def _placeholders(self) -> None:
        program, signature = self.program, self.program.graph_signature
        held = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}  # made anew when asked for
        constants = signature.inputs_to_lifted_tensor_constants
        for node in program.graph.nodes:
            if node.op != "placeholder":
                continue
            name = node.name
            if name in held:
                self.environment[node] = Value(self._parameter(held[name]))
            elif name in constants:
                tensor: Any = program.constants[constants[name]]
                data = TensorData.of(array_of(tensor))
                self.environment[node] = self.graph.add_constant(data)
            elif hasattr(node.meta.get("val"), "shape"):
                value = self.graph.add_input(name, self.context.symbols.type(node.meta["val"]))
                self.environment[node] = self.context.inputs[name] = value
            else:
                self.environment[node] = self._plain(node.meta.get("val"))
            self.aliases.add(node)

    def _parameter(self, target: str) -> int:
        """The parameter node of a name in the program's signature, by the identity of its tensor."""
        module = self.captured.module
        if module is not None:
            path, _, leaf = target.rpartition(".")
            return self.tree.parameters[id(getattr(module.get_submodule(path), leaf))]
        state = self.program.state_dict
        return self.tree.parameters[id(state[target] if target in state else self.program.constants[target])]

    def _node(self, node: Node, *, own_call: bool = True) -> None:
        self.aliases.started.add(node)
        if node.op == "output":
            return
        if node.op == "get_attr":
            found: Any = getattr(node.graph.owning_module, str(node.target))
            is_tensor = hasattr(found, "dtype")
            self.environment[node] = self.b.constant(array_of(found)) if is_tensor else found
            return
        keys = normalised_stack(node.meta.get("nn_module_stack") or {})
        call = self._call_of(keys, None) if keys else self._call_without_stack(node)
        with self.b.inside(call, source_line(node) or self.b.location) if own_call else nullcontext():
            known = self.known_values.of(node)
            self.environment[node] = self._lower(node) if known is None else self.b.constant(known)
        self.aliases.add(node)
        mutated = written_argument(node)
        if mutated is not None:
            known = dict(self.graph.updates)
            self.aliases.mutated(node, mutated, self.places.of(node))
            if target_name(node.target) == "aten.embedding_renorm_.default":
                self._keep_table(known)

    def _keep_table(self, updates: dict[int, Value]) -> None:
        """Leave a table of embeddings as it is that torch scales down in place (`max_norm`) at each lookup.

        The target scales it at each lookup too, and scaling twice is scaling once.
        """
        for key in set(self.graph.updates) - set(updates):
            name = self.graph.parameter(key).name
            self.context.notes.append(
                f"`{name}` stays as it is: its rows are scaled down where they are read"
            )
        self.graph.updates = updates

    def _lower(self, node: Node) -> Result:
        import torch

        name = target_name(node.target)
        fake = node.meta.get("val")
        if name in IGNORED:
            return None
        if node in self.captured.idle:
            return self._resolve(node.args[0])
        if name == "operator.getitem":
            source, index = self._resolve(node.args[0]), node.args[1]
            found = source[index]
            if isinstance(fake, torch.SymInt) and isinstance(found, Value):  # that a loop has carried
                self.context.note_number(found, fake)
                return self._plain(fake)
            return found
        if name in RUN_WHOLE:
            return self._inlined(node, RUN_WHOLE[name])
        if name in CONTROL_FLOW:
            return _CONTROL_FLOW[name](
                self, node, [self._resolve(a) for a in node.args], self.places.of(node)
            )
        if not is_tensor_result(node):
            if name == "aten.item.default" and isinstance(fake, torch.SymInt):
                self.context.note_number(self._resolve(node.args[0]), fake)
            return self._plain(fake)
        if node in self.coverage.in_parts:
            return self._lower_in_parts(node)
        if node in self.coverage.decomposed:
            body, feeding = self.coverage.decomposed[node]
            return self._run_body(body, [self.environment[f] for f in feeding], own_calls=False)
        if name in self.stubs or (self.partial and has_complex(node)):
            return self._stub(node, self.coverage.reasons.get(name, ""))
        functional = functional_name(node.target)
        table_name = name if name in TABLE else functional or name
        call = self._make_call(node, table_name)
        try:
            result = TABLE.lower(call)
        except UnsupportedError as refusal:
            if self.coverage.expand(node):
                return self._lower(node)
            if not self.partial or self.coverage.symbolic:  # static shapes are tried first
                raise
            return self._stub(node, refusal.message)
        if table_name != name and isinstance(result, Value):  # in place: the element type stays
            result = call.cast(result, call.dtype)
        return call.finish(result)

    def _lower_in_parts(self, node: Node) -> Result:
        """A call on complex tensors, of each of which the environment has a `Pair`."""
        found, place = self.coverage.in_parts[node], self.places.of(node)
        made_by_hand = [isinstance(self.environment[n], Value) and p for n, p in found.operands]
        if self.partial and any(made_by_hand):  # of a stub
            return self._stub(node, COMPLEX)
        given = [
            part_of(self.b, self.environment[n], part, place) if part else self.environment[n]
            for n, part in found.operands
        ]
        return found.results(self._run_body(found.body, given, own_calls=False))

    def _stub(self, node: Node, reason: str) -> list[Value] | Value:
        """A place for an operator that a person is to write: its tensor operands, call and result types."""
        why, advice = advised(target_name(node.target))
        fakes = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
        operands = [self.environment[n] for n in tensor_arguments(node)]
        types = [self.context.symbols.type(f) for f in fakes]
        values = self.b.ops(
            "regraft.Stub",
            *operands,
            outputs=len(types),
            types=types,
            operator=target_name(node.target),
            call=written_call(node, [f"x{i}" for i in range(len(operands))]),
            reason=f"{reason or why}; instead: {advice}",
        )
        place = self.places.of(node)
        self.context.notes.append(
            f"stub to be written by hand: `{target_name(node.target)}`{f' - at {place}' if place else ''}"
        )
        return values if isinstance(node.meta["val"], (list, tuple)) else values[0]

    def _make_call(self, node: Node, name: str) -> Call:
        """Arguments by schema name, defaults filled in, with torch's own fake tensors beside them."""
        arguments = node.target._schema.arguments  # type: ignore[union-attr]
        names = argument_names(node.target, name)
        values: dict[str, Any] = {}
        fakes: dict[Key, Any] = {}
        for position, (key, argument) in enumerate(zip(names, arguments, strict=True)):
            if position < len(node.args):
                raw: Any = node.args[position]
            elif argument.name in node.kwargs:
                raw = node.kwargs[argument.name]
            else:
                raw = argument.default_value
            values[key] = self._resolve(raw)
            fake: Any = raw.meta.get("val") if hasattr(raw, "meta") else None
            if hasattr(fake, "dtype"):
                fakes[key] = fake
                if isinstance(values[key], Value):
                    self.context.note_sizes(values[key], fake)
        call = Call(self.context, name, values, fakes, node.meta.get("val"), self.places.of(node))
        call.reads = {
            at
            for user in node.users
            if target_name(user.target) == "operator.getitem" and isinstance(at := user.args[1], int)
        }
        return call

    def _resolve(self, raw: Any) -> Any:
        import torch
        from torch.fx import Node

        if isinstance(raw, Node):
            return self.environment[raw]
        if isinstance(raw, (list, tuple)):
            return [self._resolve(r) for r in raw]
        if isinstance(raw, torch.SymInt):  # of a decomposition's trace
            return self.context.symbols.size(raw)
        if isinstance(raw, torch.SymFloat):
            raise UnsupportedError("E203", f"expected a static number, got `{raw}`")
        return raw

    def _plain(self, value: Any) -> Any:
        """A size, number, None, or a list of these."""
        import torch

        if isinstance(value, (list, tuple)):
            return [self._plain(v) for v in value]
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return self.context.symbols.size(value)
        return value

    def _inlined(self, node: Node, position: int) -> list[Result]:
        """The results of a higher-order operator that only runs its body, e.g. with gradients disabled."""
        body: GraphModule = self._resolve(node.args[position])
        arguments = [self._resolve(a) for a in node.args[position + 1 :]]
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
        return self._resolve(output.args[0])

    def run_nested(self, body: GraphModule, arguments: Sequence[Result], context: Context) -> list[Result]:
        """The results of a body of control flow, computed in the graph of `context`."""
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
        """The new value of what a view operator views, after a write into the view."""
        name = target_name(view.target)
        return INVERSES[name](self._make_call(view, name), new) if name in INVERSES else None

    # -- outputs -------------------------------------------------------------------------------

    def _outputs(self) -> None:
        from .export.output_names import leaf_names

        names = leaf_names(self.program.call_spec.out_spec)
        specs = [s for s in self.program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
        by_name = {n.name: n for n in self.program.graph.nodes}
        for result_name, target in self.program.graph_signature.buffers_to_mutate.items():
            self.graph.updates[self._parameter(target)] = self.environment[by_name[result_name]]
        with self.b.inside(self.calls.get(""), ""):
            for name, spec in zip(names, specs, strict=True):
                node = by_name.get(spec.arg.name)
                result = self.environment[node] if node is not None else getattr(spec.arg, "value", None)
                if result is None:
                    continue
                if isinstance(result, str):
                    self.context.notes.append(f"the output `{name}` is the text `{result}`: left out")
                    continue
                if isinstance(result, Pair):
                    result = on_a_last_axis(self.b, result)
                    self.context.notes.append(
                        f"the output `{name}` has real and imaginary part on a last axis"
                    )
                if not isinstance(result, Value):
                    result = (
                        self.b.constant(result)
                        if isinstance(result, (int, float))
                        else self.context.size_value(result)
                    )
                self.graph.outputs.append((name, result))
        self.context.notes.extend(self.aliases.notes)

    def _drop_dead(self) -> None:
        """Remove what no output needs: shapes computed for checks, constants read as attributes."""
        self.graph.remove_dead()


_CONTROL_FLOW = {"cond": conditional, "while_loop": loop}
