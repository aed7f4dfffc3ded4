"""Maps the nodes of an fx program to their values while it is lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .context import Result
from .symbols import Symbols, number_of_data

if TYPE_CHECKING:
    from torch.fx import Node


class Environment(dict["Node", Result]):
    """Fx node -> what it stands for, in the program and in all bodies nested in it.

    Args:
        symbols: names of symbolic sizes.
    """

    def __init__(self, symbols: Symbols) -> None:
        import torch
        from torch.fx import Node

        super().__init__()
        self._symbols = symbols
        self._node, self._size, self._number = Node, torch.SymInt, torch.SymFloat

    def resolve(self, raw: Any) -> Any:
        """Return an argument of a node with what its nodes stand for."""
        if isinstance(raw, self._node):
            return self[raw]
        if isinstance(raw, (list, tuple)):
            return [self.resolve(r) for r in raw]
        if isinstance(raw, self._size):  # of a decomposition's trace
            return self._symbols.size(raw)
        if isinstance(raw, self._number):
            raise number_of_data()
        return raw

    def without_tensors(self, value: Any) -> Any:
        """Return torch's own result where it is a size, a number, None, or a list of these."""
        import torch

        if isinstance(value, (list, tuple)):
            return [self.without_tensors(v) for v in value]
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return self._symbols.size(value)
        return value
