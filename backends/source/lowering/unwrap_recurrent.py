"""unwrap-recurrent: what a recurrent module does around its layer moves to its caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import DOMAIN, Graph, Operator
from ....ir.composites.recurrent import TABLE as RECURRENT_TABLE
from ....passes.base import Change, Pass
from ....passes.places import Places


@dataclass(frozen=True)
class UnwrapRecurrent(Pass):
    """Move the operators around the one recurrent layer of a module to its caller.

    What it does:
        In a call of a module without children that runs one recurrent layer, makes everything else (states of
        zeros, the axis that a single sequence lacks) operators of the caller.

    Why:
        What stays is nn.LSTM, nn.GRU or nn.RNN itself.

    Leaves alone:
        Modules with children or with several recurrent layers, and the root.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "act" Act
        ...   %x = input "x" : f32[N,4]
        ...   %y = Relu(%x) : f32[N,4] @ "act#1"
        ...   return "y" = %y
        ... }''')
        >>> UnwrapRecurrent().run(graph)
        []
    """

    name: ClassVar[str] = "unwrap-recurrent"
    codes: ClassVar[dict[str, str]] = {"MS115": "operators around a recurrent layer move to its caller"}

    def run(self, graph: Graph) -> list[Change]:
        """Move; see the class."""
        tree, places = graph.modules, Places(graph)
        inside: dict[int, list[Operator]] = {}
        for node in graph.operators():
            if node.call is not None:
                inside.setdefault(node.call, []).append(node)
        changes: list[Change] = []
        for key, nodes in inside.items():
            call = tree.call(key)
            layers = [n for n in nodes if n.domain == DOMAIN and n.op_type in RECURRENT_TABLE]
            if call.parent is None or len(layers) != 1 or tree.module(call.module).children:
                continue
            for node in nodes:
                if node is not layers[0]:
                    changes.append(Change("MS115", "is done by the caller", places.of(graph, node.key)))
                    node.call = call.parent
        return changes
