"""expand-functions: operators that a target does not have become the bodies that ONNX states for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..ir import OPSET, Graph, walk_operators
from ..ir.functions.inlining import expand_function
from ..ir.functions.stated import has_function
from ..passes.base import Change, Pass
from ..passes.places import Places
from .legalise import CanEmit


@dataclass(frozen=True)
class ExpandFunctions(Pass):
    """Write operators that the target cannot write by ONNX's own definition.

    What it does:
        Replaces an operator that the target has no form for by the body that ONNX's standard states for it,
        then what that body holds likewise. Sizes that are known, and what few constants give, are numbers.

    Why:
        ONNX defines some 40 operators in others of its own: Attention, losses, normalisations, windows. The
        definition is exact, and in operators that every target has.

    Leaves alone:
        What the target writes as it stands. Bodies with a Loop, or an If that only a run decides.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %y = Mish(%x) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in ExpandFunctions("a target", lambda graph, node: node.op_type != "Mish").run(graph):
        ...     print(change)
        FB101 is written by ONNX's definition - at `Mish`
    """

    name: ClassVar[str] = "expand-functions"
    codes: ClassVar[dict[str, str]] = {
        "FB101": "an operator that the target does not have is written by ONNX's definition"
    }

    backend: str
    can_emit: CanEmit

    def run(self, graph: Graph) -> list[Change]:
        """Expand; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        settled: set[tuple[int, int]] = set()
        while pending := [
            (part, node)
            for part, node in walk_operators(graph)
            if not node.domain and (id(part), node.key) not in settled
        ]:  # again, since a body may hold operators that have bodies
            for part, node in pending:
                settled.add((id(part), node.key))
                if not has_function(node.op_type, OPSET):
                    continue
                if self.can_emit(part, node):
                    continue
                place = places.of(part, node.key)
                if expand_function(part, node.key):
                    changes.append(Change("FB101", "is written by ONNX's definition", place))
        return changes
