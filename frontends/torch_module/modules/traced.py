"""Modules whose code torch.fx has traced, as against those of an exported program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Module


def is_traced(module: Module) -> bool:
    """Whether a module is a GraphModule that calls modules and functions as the traced code does.

    That of an exported program calls operators, and each of them names the modules in which it was.
    """
    from torch._ops import OpOverload
    from torch.fx import GraphModule

    return isinstance(module, GraphModule) and not any(
        isinstance(node.target, OpOverload) for node in module.graph.nodes
    )
