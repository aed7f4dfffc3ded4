"""Finds the origin of an fx program's node: module path and source line."""

from __future__ import annotations

import re
import traceback
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .export.export_errors import user_location
from .nodes import owners

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class NodePlaces:
    """The places of the nodes of a program and of the bodies nested in it."""

    def __init__(self, program: GraphModule) -> None:
        self._owners = owners(program)
        self._folder = Path.cwd()

    def of(self, node: Node) -> str:
        """Module path and source line of a node, for messages; in a body of control flow, of that."""
        while node.graph in self._owners and not node.meta.get("nn_module_stack"):
            node = self._owners[node.graph]
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = (
            f"{stack[-1][0] or 'the root module'} ({str(stack[-1][1]).rpartition('.')[2]})" if stack else ""
        )
        return ", ".join(p for p in (path, self.line(node)) if p)

    def line(self, node: Node) -> str:
        """Return ``file:line`` of the user's code that made a node, or empty."""
        return _line(node.meta.get("stack_trace") or "", self._folder)


def source_line(node: Node) -> str:
    """Return ``file:line`` of the user's code that made a node, or empty."""
    return _line(node.meta.get("stack_trace") or "", Path.cwd())


@lru_cache(maxsize=4096)
def _line(trace: str, _folder: Path) -> str:
    """Return the place that a trace names, relative to the current folder."""
    frames = [traceback.FrameSummary(f, int(n), "", lookup_line=False) for f, n in _FRAME.findall(trace)]
    return user_location(frames)
