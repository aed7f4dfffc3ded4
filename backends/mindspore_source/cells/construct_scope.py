"""What the `construct` of one draft may refer to, and the constants that it declares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir import Constant, Parameter, TensorData, Value
from ..emitters.initializers import ms_dtype
from ..emitting import Layer
from ..naming import attribute_name
from ..text.expressions import Access, Argument, Call, Expression, Literal, Part, Use
from .cell_draft import Draft, Statement
from .cells import Cells


class DraftScope:
    """The scope of one draft: what its `construct` may refer to."""

    def __init__(self, cells: Cells, draft: Draft) -> None:
        self.cells, self.draft = cells, draft
        self.explicit = cells.explicit
        self.hosts: dict[Value, str] = {}
        self.constants: dict[Value, str] = {}

    def host(self, value: Value) -> str:
        """Whether a value is a shape computation: "int", "tuple", or empty."""
        return self.hosts.get(value, "")

    def part(self, value: Value, level: int) -> Part:
        """How `construct` writes a value: a variable, an attribute, or a literal."""
        if value in self.draft.inputs:
            return Use(value, level)
        node = self.cells.graph.node(value.node)
        if isinstance(node, Parameter):
            if self.draft.module not in self.cells.units:  # only asked whether an emitter covers the operator
                return Expression(("self.parameter",))
            return Expression((self.cells.parameter_path(self.draft.module, node.key),))
        if isinstance(node, Constant):
            return self._constant(value, node)
        return Use(value, level)

    def tensor(self, value: Value, level: int) -> Part:
        """How `construct` writes a value where no number will do."""
        node = self.cells.graph.node(value.node)
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
        return Expression((self.constants[value],))

    def _constant_attribute(self, array: np.ndarray, data: TensorData) -> str:
        """A short constant in the source; a long one in the checkpoint."""
        written = triangle(array) or (tensor(array, data.dtype) if array.size <= _LONGEST else None)
        if written is not None:
            return self.attribute("constant", written)
        found = self.attribute("constant", Call("Parameter", ()))
        name = found.removeprefix("self.")
        values = Call(
            "initializer",
            (
                Argument("", '"zeros"'),
                Argument("", Literal(array.shape, "shape")),
                Argument("", ms_dtype(data.dtype)),
            ),
        )
        arguments = (Argument("", values), Argument("name", f'"{name}"'), Argument("requires_grad", "False"))
        self.draft.attributes[-1] = (name, Call("Parameter", arguments))
        if self.draft.module in self.cells.units:
            self.cells.units[self.draft.module].constants.append((name, data))
        return found

    def layer_step(
        self,
        path: Part,
        layer: Layer,
        operands: Sequence[Value | None],
        outputs: Sequence[Value],
    ) -> Statement:
        """A call of one of MindSpore's layers, with operands and results in its own order and nesting."""

        def operand(slot: int) -> Part:
            value = operands[slot]
            assert value is not None
            return self.part(value, 0)

        used = [v.output for v in outputs]
        hints = tuple(layer.hints[n] for n in used) if layer.hints else ()
        attribute = path.last if isinstance(path, Access) else ()
        return Statement(list(outputs), layer.call(path, operand), attribute, layer.targets(used), hints)

    def attribute(self, name: str, constructor: Part) -> str:
        """Declare an auxiliary attribute under a free name; returns ``self.name``."""
        taken = {n for n, _ in self.draft.attributes} | {m.name for m in self.draft.methods}
        found, n = attribute_name(name), 2
        while found in taken:
            found, n = attribute_name(f"{name}{n}"), n + 1
        self.draft.attributes.append((found, constructor))
        return f"self.{found}"


_LONGEST = 16
"""Elements of a constant that is written into the source."""


def triangle(array: np.ndarray) -> Call | None:
    """``Tensor(np.tril(np.ones((8, 8), bool)))`` for a causal mask, None for anything else."""
    if array.dtype != np.bool_ or array.ndim < 2 or array.size <= _LONGEST:
        return None
    for name, make in (("tril", np.tril), ("triu", np.triu)):
        if np.array_equal(array, make(np.ones_like(array))):
            ones = Call("np.ones", (Argument("", Literal(array.shape, "shape")), Argument("", "bool")))
            return Call("Tensor", (Argument("", Call(f"np.{name}", (Argument("", ones),))),))
    return None


def tensor(array: np.ndarray, dtype: str) -> Call:
    """``Tensor([...], ms.float32)``; of no elements, ``ops.zeros((0, 3), ms.float32)``."""
    if not array.size:
        shape = Literal(array.shape, "shape")
        return Call("ops.zeros", (Argument("", shape), Argument("", ms_dtype(dtype))))
    return Call("Tensor", (Argument("", Literal(array.tolist(), "values")), Argument("", ms_dtype(dtype))))
