"""Leaves the precision of Cells with `to_float` that raised, which MindSpore 2.10 keeps on a stack."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_open: list[Callable[[], None]] = []
"""Functions that leave the precision of the Cells that raised, one per open block, innermost last."""


@contextmanager
def precision_kept() -> Iterator[None]:
    """A with block after which operators compute in the precision that they computed in before.

    A Cell pushes its precision when it is called, and pops it when it returns, but not when it raises. The
    stack cannot be read, and a pop too many ends the process, as counted pops did after a failed check. The
    block counts what was pushed, and pushes "none" where something was left.
    """
    executor: Any = getattr(sys.modules.get("mindspore.graph.api"), "_pynative_executor", None)
    kinds: Any = getattr(sys.modules.get("mindspore._c_expression"), "MixedPrecisionType", None)
    if executor is None or kinds is None:
        yield
        return
    before, replaced = executor.set_mixed_precision_type, vars(executor).get("set_mixed_precision_type")
    entered = 0

    def counted(kind: Any, is_push: bool = True) -> None:
        nonlocal entered
        before(kind, is_push)
        entered += 1 if is_push else -1

    def leave() -> None:
        nonlocal entered
        if entered > 0:
            before(kinds.NOTSET, True)
        entered = 0

    executor.set_mixed_precision_type = counted
    _open.append(leave)
    try:
        yield
    finally:
        leave()
        _open.pop()
        if replaced is None:
            del executor.set_mixed_precision_type
        else:
            executor.set_mixed_precision_type = replaced


def leave_precision() -> None:
    """Leave the precision of the Cells that raised in the innermost block, where no Cell of it runs."""
    if _open:
        _open[-1]()
