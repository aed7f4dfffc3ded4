"""The inputs, parameters, outputs and updates of an exported program."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from ...ir import TensorData, Value
from ..complex_numbers import Complex
from .complex_numbers import on_a_last_axis
from .context import Context, Result
from .environment import Environment
from .export.cached_tensors import registered_constants
from .export.capture import Captured, array_of
from .modules.tree import Tree

if TYPE_CHECKING:
    from torch.fx import Node


class ProgramBoundary:
    """Gives the placeholders of a program their values, and the graph the results of the program.

    Args:
        captured: the program.
        tree: its modules and parameters.
        context: of the graph that is built.
        environment: what fx nodes stand for.
    """

    def __init__(self, captured: Captured, tree: Tree, context: Context, environment: Environment) -> None:
        self._captured, self._tree = captured, tree
        self._context, self._environment = context, environment
        self._program = captured.program
        signature = self._program.graph_signature
        self._held = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}
        self._constants = signature.inputs_to_lifted_tensor_constants
        module = captured.module
        self._registered = {} if module is None else registered_constants(self._program, module)

    def add_input(self, node: Node) -> None:
        """Bind a placeholder to its parameter, constant or input, which is added."""
        context, name = self._context, node.name
        found: Result
        tensor: Any
        if name in self._held:
            found = self._in_parts(Value(self._parameter(self._held[name])), node)
        elif self._constants.get(name) in self._registered:
            tensor = self._registered[self._constants[name]]
            found = Value(self._tree.parameters[id(tensor)])
        elif name in self._constants:
            tensor = self._program.constants[self._constants[name]]
            found = context.graph.add_constant(TensorData.of(array_of(tensor)))
        elif hasattr(node.meta.get("val"), "shape"):
            added = context.graph.add_input(name, context.symbols.type(node.meta["val"]))
            context.inputs[name] = added
            found = self._in_parts(added, node)
            if isinstance(found, Complex):
                context.notes.append(
                    f"the input `{name}` holds the real and imaginary parts on its last axis"
                )
        else:
            found = self._environment.without_tensors(node.meta.get("val"))
        self._environment[node] = found

    def _in_parts(self, value: Value, node: Node) -> Result:
        """A value; that of a complex input or parameter, which has its parts on a last axis, as a pair."""
        b = self._context.b
        complex_in_torch = node.meta["val"].dtype.is_complex
        if not complex_in_torch or b.graph.known_type(value).dtype.startswith("complex"):
            return value
        return Complex(*(b.op("Gather", value, b.constant(part), axis=-1) for part in (0, 1)))

    def add_outputs(self, root: int | None, in_float32: Set[Node]) -> None:
        """Add outputs and updates, in the call of the root module; note those that stay float32."""
        from .export.output_names import are_keys, leaf_names

        context, program = self._context, self._program
        names = leaf_names(program.call_spec.out_spec)
        context.graph.origin.keyed = are_keys(program.call_spec.out_spec, names)
        specs = [s for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
        nodes = {n.name: n for n in program.graph.nodes}
        for result_name, target in program.graph_signature.buffers_to_mutate.items():
            context.graph.updates[self._parameter(target)] = self._environment[nodes[result_name]]
        with context.b.inside(root, ""):
            for name, spec in zip(names, specs, strict=True):
                node = nodes.get(spec.arg.name)
                result = self._environment[node] if node is not None else getattr(spec.arg, "value", None)
                value = self._as_output(name, result)
                if value is not None:
                    context.graph.outputs.append((name, value))
                if node in in_float32:
                    context.graph.origin.upcast |= {name}

    def _as_output(self, name: str, result: Result) -> Value | None:
        """Return a result as an output; None for one that no graph can have."""
        context = self._context
        if result is None:
            return None
        if isinstance(result, str):
            context.notes.append(f"the output `{name}` is the text `{result}`: left out")
            return None
        if isinstance(result, Complex):
            context.notes.append(f"the output `{name}` holds the real and imaginary parts on its last axis")
            return on_a_last_axis(context.b, result)
        if isinstance(result, Value):
            return result
        return context.b.constant(result) if isinstance(result, (int, float)) else context.size_value(result)

    def _parameter(self, target: str) -> int:
        """Return the parameter node of a name in the program's signature, by the identity of its tensor."""
        module = self._captured.module
        if module is not None:
            *path, leaf = target.split(".")
            for name in path:  # by what is registered: an attribute may be a method of that name
                module = module._modules[name]
                assert module is not None
            held = module._parameters if leaf in module._parameters else module._buffers
            return self._tree.parameters[id(held[leaf] if leaf in held else getattr(module, leaf))]
        state, constants = self._program.state_dict, self._program.constants
        return self._tree.parameters[id(state[target] if target in state else constants[target])]
