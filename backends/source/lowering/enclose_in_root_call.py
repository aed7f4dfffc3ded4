"""enclose-in-root-call: everything runs in one call of the root module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph
from ....passes.base import Change, Pass


@dataclass(frozen=True)
class EncloseInRootCall(Pass):
    """Make a call of the root module that all operators and calls are in.

    What it does:
        Gives a graph without modules a root, a root without a call one, and puts into the first call of the
        root every operator and every call that is in none.

    Why:
        What is written is a class; its `construct` is the call of the root.

    Leaves alone:
        A graph whose every operator is in a call made from the root's.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %y = Relu(%x) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in EncloseInRootCall().run(graph):
        ...     print(change)
        MS102 1 operators and 0 calls are made in the root's call
        >>> print(graph)
        graph main {
          module "" Net
          %x = input "x" : f32[N,4]
          %y = Relu(%x) : f32[N,4] @ "#1"
          return "y" = %y
        }
        <BLANKLINE>
    """

    name: ClassVar[str] = "enclose-in-root-call"
    codes: ClassVar[dict[str, str]] = {
        "MS102": "operators outside every module are in the root's `construct`"
    }

    def run(self, graph: Graph) -> list[Change]:
        """Enclose; see the class."""
        tree = graph.modules
        made = tree.root is None
        if made:
            tree.add("Net")
        calls = tree.calls(0)
        root = calls[0].key if calls else tree.add_call(0)
        apart = [call for call in tree.calls() if call.parent is None and call.key != root]
        for call in apart:
            tree.replace_call(call.key, module=call.module, parent=root)
        nodes = [node for node in graph.operators() if node.call is None]
        for node in nodes:
            node.call = root
        if not (made or apart or nodes or not calls):
            return []
        return [Change("MS102", f"{len(nodes)} operators and {len(apart)} calls are made in the root's call")]
