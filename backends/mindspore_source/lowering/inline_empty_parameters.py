"""inline-empty-parameters: parameters without elements become constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....ir import Graph, Value, numpy_dtype
from ....passes.base import Change, Pass


@dataclass(frozen=True)
class InlineEmptyParameters(Pass):
    """Make constants of parameters that have no elements.

    What it does:
        Replaces every use of a parameter with a dimension of 0 by a constant of its shape.

    Why:
        MindSpore's checkpoints lose such a parameter, and a strict load then finds it missing.

    Leaves alone:
        Every parameter with an element.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = param "cache" : f32[0,4]
        ...   %y = Concat(%0, %x) {axis=0} : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in InlineEmptyParameters().run(graph):
        ...     print(change)
        MS103 is written where it is used, as it has no elements - at cache
    """

    name: ClassVar[str] = "inline-empty-parameters"
    codes: ClassVar[dict[str, str]] = {"MS103": "a parameter without elements is a constant"}

    def run(self, graph: Graph) -> list[Change]:
        """Replace; see the class."""
        changes: list[Change] = []
        for parameter in graph.parameters():
            value = Value(parameter.key)
            if 0 in parameter.data.shape and graph.is_read(value):
                empty = np.zeros(parameter.data.shape, numpy_dtype(parameter.data.dtype))
                graph.replace_uses(value, graph.add_constant(empty))
                text = "is written where it is used, as it has no elements"
                changes.append(Change("MS103", text, parameter.name))
        return changes
