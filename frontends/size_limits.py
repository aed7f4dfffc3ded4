"""Limits the values that a file may ask for, in proportion to its inputs and parameters.

A number in an attribute costs the file nothing, and running a graph what it names: these bounds lie far above
what networks need, and refuse before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ..ir import Constant, Dim, Graph, ModelError, Operator, TensorType
from ..ir.dims import Size

_LEAST, _PER_INPUT, _PER_PARAMETER = 1 << 25, 4096, 64
"""Elements of all values together: so many, or so many for each element of the inputs and the parameters. A
detector of 300 regions has 30 for each parameter."""

_SHARE = 16  # of them, one value has at most a sixteenth, or a quarter of the least
MOST_OUTPUTS = 1 << 12
_MOST_POOLED = 1 << 32  # elements that one pool reads: seconds


class Budget:
    """The elements that the values of a graph may still have.

    Args:
        batch: the size that stands for a symbolic dimension.
        inputs: elements of the example inputs.
        parameters: elements of the parameters.
    """

    def __init__(self, batch: int, inputs: int, parameters: int) -> None:
        self._batch = batch
        self._left = self._whole = max(_LEAST, _PER_INPUT * inputs + _PER_PARAMETER * parameters)

    @property
    def left(self) -> int:
        """Elements that values may have from now on."""
        return self._left

    def spend(self, graph: Graph, keys: Iterable[int], place: str) -> None:
        """Take off what new nodes compute.

        Raises:
            ModelError: E106 when a value, or all together, are out of proportion.
        """
        for key in keys:
            node = graph.node(key)
            if not isinstance(node, (Constant, Operator)):
                continue
            types = list(node.types)
            if isinstance(node, Operator):
                self._require_few_reads(node, types, place)
            if len(types) > MOST_OUTPUTS:
                raise ModelError(
                    "E106", f"expected at most {MOST_OUTPUTS} outputs, got {len(types)}", place=place
                )
            for type_ in types:
                count = self._count(type_)
                self._left -= count
                if count > max(_LEAST // 4, self._whole // _SHARE) or self._left < 0:
                    raise ModelError(
                        "E106",
                        f"expected values in proportion to the model's inputs and parameters, got {type_}",
                        place=place,
                        hint="check the sizes in the attributes of this node and those before it",
                    )

    def _count(self, type_: TensorType | None) -> int:
        if type_ is None or type_.shape is None:
            return 0
        return prod(map(self._size, type_.shape))

    def _size(self, dim: Dim) -> int:
        """Return the size of a dimension such as ``N`` or ``3*N``; the batch if it is unknown."""
        if not isinstance(dim, str):
            return self._batch if dim is None else dim
        size = Size.of(dim)
        number = size.substitute(dict.fromkeys(size.names, self._batch)).number
        return self._batch if number is None else number

    def _require_few_reads(self, node: Operator, types: list[TensorType | None], place: str) -> None:
        kernel = node.attributes.get("kernel_shape")
        if "Pool" in node.op_type and isinstance(kernel, list):
            reads = prod(kernel) * max((self._count(t) for t in types), default=0)
            if reads > _MOST_POOLED:
                raise ModelError(
                    "E106", f"expected a pool with less work than a kernel {kernel}", place=place
                )
