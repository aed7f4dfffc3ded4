"""return-size-tensors: sizes that the net returns become tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph
from ....passes.base import Change, Pass
from ....passes.places import Places
from ..operators import SIZE_TENSOR
from ..sizes import is_size


@dataclass(frozen=True)
class ReturnSizeTensors(Pass):
    """Make tensors of the sizes that the net returns.

    What it does:
        Puts a `regraft.source.SizeTensor` behind each output that is a shape, or computed from shapes.

    Why:
        Sizes are written as Python numbers and tuples (``x.shape``), which is what reshapes want; what a net
        returns is a tensor in every other target.

    Leaves alone:
        All other outputs, and sizes that only the net itself reads.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %y = Shape(%x) : i64[2]
        ...   return "y" = %y
        ... }''')
        >>> for change in ReturnSizeTensors().run(graph):
        ...     print(change)
        MS123 is returned as a tensor - at `Shape`
    """

    name: ClassVar[str] = "return-size-tensors"
    codes: ClassVar[dict[str, str]] = {"MS123": "sizes that the net returns become tensors"}

    def run(self, graph: Graph) -> list[Change]:
        """Convert; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for position, (name, value) in enumerate(graph.outputs):
            if is_size(graph, value):
                changes.append(Change("MS123", "is returned as a tensor", places.of(graph, value.node)))
                size = graph.operator(value.node)  # in whose module it is a Python number
                b = Builder(graph, call=size.call, location=size.location)
                made = b.op(SIZE_TENSOR, value, types=[graph.type_of(value)])
                graph.outputs[position] = (name, made)
        return changes
