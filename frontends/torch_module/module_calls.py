"""The module calls of a program: in which call of which module each operator runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Graph
from .module_stacks import normalised_stack
from .modules.tree import Tree

if TYPE_CHECKING:
    from torch.fx import Node

    from .export.capture import Captured


class ModuleCalls:
    """Calls added to a module tree, found again by the keys of torch's module stacks.

    Args:
        tree: the modules.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._graph: Graph = tree.graph
        self._keys: dict[str, int] = {}

    @property
    def root(self) -> int | None:
        """The call of the root module."""
        return self._keys.get("")

    def add_all(self, captured: Captured) -> None:
        """Add calls in execution order: those recorded while tracing, then any that operators name."""
        for keys, module in captured.calls:
            self._find(keys, id(module) if module is not None else None)
        for node in captured.program.graph.nodes:
            self._find(stack_of(node), None)
        if not self._keys:
            self._find(("",), None)

    def named_by(self, keys: tuple[str, ...]) -> int | None:
        """Return the call that keys from `stack_of` name; None where they name no module of the tree."""
        return self._find(keys, None)

    def around_layer(self, parameters: set[int], around: int) -> int:
        """Return a new call of the one of torch's own layers that has these parameters, else `around`."""
        layer = self._tree.layer_of(parameters) if parameters else None
        return around if layer is None else self._graph.modules.add_call(layer, around)

    def _find(self, keys: tuple[str, ...], last: int | None) -> int | None:
        """The call of a chain of keys, added where it is new; unregistered modules belong to their caller."""
        parent: int | None = None
        for at, key in enumerate(keys):
            if key not in self._keys:
                path = key.partition("@")[0]
                module = self._tree.modules.get(last) if last is not None and at == len(keys) - 1 else None
                if module is None:
                    found = self._graph.modules.find(path)
                    module = None if found is None else found.key
                if module is None:
                    continue
                self._keys[key] = self._graph.modules.add_call(module, parent)
            parent = self._keys[key]
        return parent


def stack_of(node: Node) -> tuple[str, ...]:
    """Return the keys of the modules that a node is in; none where torch says nothing of them."""
    return normalised_stack(node.meta.get("nn_module_stack") or {})
