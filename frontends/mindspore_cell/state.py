"""Borrowing a caller's net: everything that recording and compiling change is put back afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...ir.own_folders import temporary_folder

_COPIED = (dict, set, list)


@contextmanager
def borrowed(cells: Sequence[Any], parameters: Sequence[Any]) -> Iterator[None]:
    """Put a net into a state fit for capture, and back into exactly its own state afterwards.

    Inside: PyNative mode, evaluation mode, unique parameter names, no compile cache, no scopes. What is put
    back: the attributes of every Cell (flags, phases, hooks, caches), the parameters' names, the context.

    Args:
        cells: every Cell of the net, the root first.
        parameters: every Parameter, each once.
    """
    import mindspore

    mode = mindspore.get_context("mode")
    attributes = [
        (c, dict(vars(c)), {k: _copy(v) for k, v in vars(c).items() if isinstance(v, _COPIED)}) for c in cells
    ]
    names = [(p, p.name) for p in parameters]
    folder = temporary_folder()
    before = os.environ.get("MS_OM_PATH")
    os.environ["MS_OM_PATH"] = str(folder.path)  # where a failed compile leaves rank_0/om/analyze_fail.ir
    try:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        for number, parameter in enumerate(parameters):
            parameter.name = f"regraft.{number}"
        for cell in cells:
            cell.set_train(False)
            cell._scope = None
            cell.compile_cache.clear()
        yield
    finally:
        for parameter, name in names:
            parameter.name = name
        for cell, plain, copies in attributes:
            current = vars(cell)
            for name in [n for n in current if n not in plain]:
                del current[name]
            current.update(plain)
            for name, copied in copies.items():
                _restore(current[name], copied)
        mindspore.set_context(mode=mode)
        if before is None:
            del os.environ["MS_OM_PATH"]
        else:
            os.environ["MS_OM_PATH"] = before
        folder.remove()


def _copy(value: Any) -> Any:
    return value.copy()


def _restore(value: Any, copied: Any) -> None:
    """Give a container its old contents in place: others may hold it (`cells_compile_cache` does)."""
    if isinstance(value, list):
        value[:] = copied
    else:
        value.clear()
        value.update(copied)
