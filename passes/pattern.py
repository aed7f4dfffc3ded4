"""Base of passes that look at the operators of some kinds one by one."""

from __future__ import annotations

from typing import ClassVar

from ..ir import Graph, Operator
from .base import Change, Pass
from .places import Places


class PatternPass(Pass):
    """Base of passes that rewrite operators one by one; a subclass has one code, and writes `rewrite`.

    Class attributes:
        operators: qualified names of the operators that it looks at.
        nested: whether those of nested graphs are among them.
    """

    operators: ClassVar[tuple[str, ...]]
    nested: ClassVar[bool] = False

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Rewrite an operator; return the text of the change, which is empty where it stays."""
        raise NotImplementedError

    def run(self, graph: Graph) -> list[Change]:
        """Rewrite; see the class."""
        places, (code,) = Places(graph), self.codes
        changes: list[Change] = []
        parts = list(graph.subgraphs()) if self.nested else [graph]
        for part in parts:
            for node in [n for n in part.operators() if n.qualified_name in self.operators]:
                place = places.of(part, node.key)
                if text := self.rewrite(part, node):
                    changes.append(Change(code, text, place))
        for part in parts if changes else ():
            part.remove_dead()
        return changes
