"""Draws that nothing reads: of the weights of layers that a forward constructs, and then gives other ones."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from .aliases import storage_of
from .nodes import graph_modules

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


def drop_unread_draws(program: ExportedProgram) -> None:
    """Remove tensors that operators fill with random numbers, and that nothing else reads."""
    for module in graph_modules(program.graph_module):
        memory: dict[int, list[Node]] = defaultdict(list)
        for node in module.graph.nodes:
            storage = storage_of(node)
            if storage is not None:
                memory[storage].append(node)
        unread = [nodes for nodes in memory.values() if any(map(_draws, nodes)) and _is_unread(nodes)]
        for node in (n for nodes in unread for n in reversed(nodes)):
            module.graph.erase_node(node)
        if unread:
            module.recompile()


def _draws(node: Node) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _is_unread(nodes: list[Node]) -> bool:
    """Whether nodes, all those of one memory, are computed and used by each other alone."""
    return all(node.op == "call_function" and set(node.users) <= set(nodes) for node in nodes)
