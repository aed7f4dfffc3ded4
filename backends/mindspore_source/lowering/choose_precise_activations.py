"""choose-precise-activations: activations with coarse CPU kernels in MindSpore become precise ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value, expand
from ....passes.base import Change, Pass
from ....passes.places import Places
from ..operators import DOMAIN


@dataclass(frozen=True)
class ChoosePreciseActivations(Pass):
    """Mark activations that need more precision than MindSpore's CPU kernels have.

    What it does:
        Makes each float32 Tanh a `regraft.mindspore.Tanh`, and each Mish a `regraft.mindspore.Mish`. Where a
        net has more sigmoids than `sigmoids`, those of its Swishes too, each is a
        `regraft.mindspore.Sigmoid`. A LogSoftmax that is computed with is a `regraft.mindspore.LogSoftmax`.
        All are written as functions that a file has of its own, which take another way on CPU.

    Why:
        MindSpore's tanh is 1e-4 off near 5; its sigmoid is 8e-7 off near zero, which adds up in a deep net:
        EfficientNet-B1 with 92 is 1e-4 off, B0 with 65 is 3e-5. Its mish is NaN from 45 on. Its log_softmax
        is 4e-6 off near 0, which is much of a small loss.

    Leaves alone:
        A net that was MindSpore's: it has been computed with those kernels all along. Any other element type.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %y = Tanh(%x) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in ChoosePreciseActivations().run(graph):
        ...     print(change)
        MS111 is as precise on CPU as elsewhere - at `Tanh`
    """

    name: ClassVar[str] = "choose-precise-activations"
    codes: ClassVar[dict[str, str]] = {"MS111": "an activation is as precise on CPU as elsewhere"}

    sigmoids: int = 80

    def run(self, graph: Graph) -> list[Change]:
        """Mark; see the class."""
        if graph.origin.framework == "mindspore":
            return []
        coarse = _in_single(graph, "Tanh", "Mish")
        coarse += [n for n in _in_single(graph, "LogSoftmax") if graph.users(Value(n.key))]
        sigmoids = _in_single(graph, "Sigmoid", "regraft.Swish")
        if len(sigmoids) > self.sigmoids:
            for node in sigmoids:
                if node.op_type == "Swish":
                    expand(Builder(graph), node.key)
            coarse += _in_single(graph, "Sigmoid")
        places = Places(graph)
        changes = [
            Change("MS111", "is as precise on CPU as elsewhere", places.of(graph, node.key))
            for node in coarse
        ]
        for node in coarse:
            node.domain = DOMAIN
        return changes


def _in_single(graph: Graph, *kinds: str) -> list[Operator]:
    """Return the operators of these types whose results are float32."""
    found = [n for n in graph.operators() if n.qualified_name in kinds]
    return [n for n in found if (t := n.types[0]) is not None and t.dtype == "float32"]
