"""The scope of one definition's method: what it may refer to, and the constants it declares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir import Constant, Parameter, TensorData, Value
from ..definitions import Definition, Statement
from ..emitting import NnLayer
from ..expressions import Access, Literal, Part, Use
from .contraction import given_value
from .emitted_net import EmittedNet


class ConstructScope:
    """The scope of one definition: what its method may refer to."""

    def __init__(self, net: EmittedNet, definition: Definition) -> None:
        self.net, self.definition = net, definition
        self.dialect, self.explicit = net.dialect, net.explicit
        self.constants: dict[Value, Access] = {}
        self._short: dict[tuple[str, tuple[int, ...], bytes], Access] = {}
        self._functions: dict[str, Access] = {}

    def host(self, value: Value) -> str:
        """Return "int" or "tuple" for a shape computation, empty for a tensor."""
        return self.net.host(value)

    def is_returned(self, value: Value) -> bool:
        """Whether a call of the module returns the output; all return what one needs."""
        call = self.net.graph.operator(value.node).call
        body = None if call is None else self.net.contraction.bodies.get(call)
        return body is not None and value in body.outputs

    def part(self, value: Value, level: int) -> Part:
        """Return how the method writes a value: a variable, an attribute, or a literal."""
        if value in self.definition.inputs:
            return Use(value, level)
        value = given_value(self.net.graph, value)
        node = self.net.graph.node(value.node)
        if isinstance(node, Parameter):
            if (
                self.definition.module not in self.net.by_module
            ):  # only asked whether an emitter covers the operator
                return Access(("parameter",))
            return self.net.parameter_path(self.definition.module, node.key)
        if isinstance(node, Constant):
            return self._constant(value, node)
        return Use(value, level)

    def tensor(self, value: Value, level: int) -> Part:
        """Return how the method writes a value as a tensor, even if it is a constant number."""
        node = self.net.graph.node(value.node)
        return self._attribute(value, node) if isinstance(node, Constant) else self.part(value, level)

    def _constant(self, value: Value, node: Constant) -> Part:
        array = node.data.numpy()
        if array.size == 1 and array.ndim <= 1 and node.data.dtype != "float64":
            return Literal(array.reshape(-1)[0].item())
        return self._attribute(value, node)

    def _attribute(self, value: Value, node: Constant) -> Part:
        array = node.data.numpy()
        if value not in self.constants:
            self.constants[value] = self._constant_attribute(array, node.data)
        return self.constants[value]

    def _constant_attribute(self, array: np.ndarray, data: TensorData) -> Access:
        """Declare a short constant in the source, once for all equal ones, a long one in the checkpoint.

        Returns:
            Its attribute.
        """
        written = self.dialect.constant(array, data.dtype)
        if written is not None:
            content = (data.dtype, array.shape, array.tobytes())
            if content not in self._short:
                self._short[content] = self.attribute("constant", written)
            return self._short[content]
        name = self._free_name("constant")
        self.definition.attributes.append((name, self.dialect.stored_constant(data, name)))
        if self.definition.module in self.net.by_module:
            self.net.by_module[self.definition.module].constants.append((name, data))
        return Access((name,))

    def layer_step(
        self,
        path: Access,
        layer: NnLayer,
        operands: Sequence[Value | None],
        outputs: Sequence[Value],
    ) -> Statement:
        """Return a call of a layer of the framework's, with operands and results in the layer's order."""

        def operand(slot: int) -> Part:
            value = operands[slot]
            assert value is not None
            return self.part(value, 0)

        used = [v.output for v in outputs]
        hints = tuple(layer.hints[n] for n in used) if layer.hints else ()
        return Statement(list(outputs), layer.call(path, operand), (), layer.targets(used), hints)

    def attribute(self, name: str, constructor: Part) -> Access:
        """Declare an auxiliary attribute under a free name, and return ``self.name``."""
        found = self._free_name(name)
        self.definition.attributes.append((found, constructor))
        return Access((found,))

    def _free_name(self, name: str) -> str:
        taken = {n for n, _ in self.definition.attributes} | {m.name for m in self.definition.methods}
        found, n = self.dialect.names.attribute(name), 2
        while found in taken:
            found, n = self.dialect.names.attribute(f"{name}{n}"), n + 1
        return found

    def function(self, name: str, constructor: Part) -> Access:
        """Declare a primitive without state as an attribute, once for all uses of a name, and return it."""
        if name not in self._functions:
            self._functions[name] = self.attribute(name, constructor)
        return self._functions[name]
