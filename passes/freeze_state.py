"""freeze-state: a parameter or buffer that every run overwrites keeps the value that it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..ir import Graph
from .base import Change, Pass


@dataclass(frozen=True)
class FreezeState(Pass):
    """Drop the updates of parameters and buffers that the model makes in evaluation mode.

    What it does:
        Removes every update. The written model starts each run from the values that parameters and buffers
        have now, so each of its runs computes what the source computes in its next run.

    Why:
        ONNX has no state, and what a count or a moving average becomes seldom matters to a model that is
        only run. Where it does (a cache that fills up), give it to the model as an input and return it.

    Leaves alone:
        What is read of the state, and what is computed from it in the same run.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Counting {count=%0}
        ...   %x = input "x" : f32[N,4]
        ...   %0 = param "count" : f32[] {buffer, frozen}
        ...   %1 = const 1.0 : f32[]
        ...   %2 = Add(%0, %1) : f32[] @ "#1"
        ...   %y = Mul(%x, %2) : f32[N,4] @ "#1"
        ...   return "y" = %y
        ...   update %0 = %2
        ... }''')
        >>> for change in FreezeState().run(graph):
        ...     print(change)
        FS101 every run of the source overwrites it; the output keeps its current value - at count
        >>> graph.updates
        {}
    """

    name: ClassVar[str] = "freeze-state"
    codes: ClassVar[dict[str, str]] = {
        "FS101": "state that the model overwrites in evaluation mode is frozen"
    }
    needs_dataflow: ClassVar[bool] = True

    def run(self, graph: Graph) -> list[Change]:
        """Freeze; see the class."""
        if not graph.updates:
            return []
        names = sorted(graph.parameter(key).name for key in graph.updates)
        graph.updates = {}
        graph.remove_dead()
        text = "every run of the source overwrites it; the output keeps its current value"
        return [Change("FS101", text, name, severity="warning") for name in names]
