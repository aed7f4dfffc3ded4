"""Borrowing a caller's net: everything that recording and compiling change is put back afterwards."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dis import get_instructions
from types import CodeType
from typing import Any

import numpy as np

from ...ir.outside.own_folders import temporary_folder
from ..live_objects import Snapshot

_WRITERS = re.compile(r"assign|scatter|set_data|setitem|inplace|[a-z]_$", re.IGNORECASE)


@contextmanager
def borrow(cells: Sequence[Any], parameters: Sequence[Any]) -> Iterator[None]:
    """Put a net into a state fit for capture, and back into exactly its own state afterwards.

    Inside: PyNative mode, evaluation mode, unique parameter names, no compile cache, no scopes. What is put
    back: the attributes of every Cell (flags, phases, hooks, caches), the parameters' names, the context,
    and values where the user's code names an operator that writes some.

    Args:
        cells: every Cell of the net, the root first.
        parameters: every Parameter, each once.
    """
    import mindspore
    from mindspore import Tensor, nn

    mode = mindspore.get_context("mode")
    structure = Snapshot(cells, lambda x: isinstance(x, nn.Cell), lambda x: isinstance(x, Tensor))
    names = [(p, p.name) for p in parameters]
    tensors = {id(t): t for t in (*structure.tensors, *parameters)} if any(map(_writes, cells)) else {}
    values = [(t, np.array(t.asnumpy(), copy=True)) for t in tensors.values()]
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
        structure.restore()
        for tensor, value in values:
            if not np.array_equal(tensor.asnumpy(), value, equal_nan=value.dtype.kind == "f"):
                tensor.assign_value(Tensor(value, tensor.dtype))
        mindspore.set_context(mode=mode)
        if before is None:
            del os.environ["MS_OM_PATH"]
        else:
            os.environ["MS_OM_PATH"] = before
        folder.remove()


def _writes(cell: Any) -> bool:
    """Whether the code of a Cell of the user's names anything that writes into a tensor."""
    return any(
        _WRITERS.search(name)
        for kind in type(cell).__mro__
        if not kind.__module__.startswith("mindspore.") and kind is not object
        for function in vars(kind).values()
        if isinstance(code := getattr(function, "__code__", None), CodeType)
        for name in _names(code)
    )


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    if any(i.opname == "STORE_SUBSCR" for i in get_instructions(code)):
        yield "setitem"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
