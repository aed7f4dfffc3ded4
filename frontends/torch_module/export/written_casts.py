"""Finds the casts to float32 that a model writes out, where they change nothing because all is float32.

A program says of `x.float()` and of `x.to(other.dtype)` the same: `to.dtype(x, torch.float32)`. In a net that
is cast to another type later the first still computes in float32, and the second in that type.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from .patches import original, patched

if TYPE_CHECKING:
    from torch.fx import Node

MARK = "regraft_written_float32"
"""The key in the metadata of a node whose call itself names float32."""

_TRACER = "torch.fx.experimental.proxy_tensor:_ModuleStackTracer"
_CASTING = frozenset(
    {
        *("aten.to.dtype", "aten.to.dtype_layout", "aten._to_copy.default"),
        *("aten.softmax.int", "aten.log_softmax.int", "aten.sum.default", "aten.sum.dim_IntList"),
        *("aten.mean.default", "aten.mean.dim", "aten.cumsum.default", "aten.cumprod.default"),
        *("aten.linalg_vector_norm.default", "aten.prod.default", "aten.prod.dim_int"),
    }
)
_NAMES = frozenset({"float32", "float"})


def marked_casts() -> AbstractContextManager[None]:
    """Mark the casts to float32 that code writes out, of models that are traced inside the block."""
    make = original(_TRACER, "create_node")
    if make is None:
        return nullcontext()

    def create_node(self: Any, kind: str, target: Any, *args: Any, **kwargs: Any) -> Node:
        node: Node = make(self, kind, target, *args, **kwargs)
        if kind == "call_function" and str(target) in _CASTING and _is_written():
            node.meta[MARK] = True
        return node

    return patched(_TRACER, create_node=create_node)


def _is_written() -> bool:
    """Whether the innermost call of the model's code names float32."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_inner()):
        frame = frame.f_back
    return frame is not None and _names_float32(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=1)
def _inner() -> tuple[str, ...]:
    """Return the folders of code that calls torch for the model's."""
    import torch

    return f"{Path(torch.__file__).parent}{os.sep}", f"{Path(__file__).parent}{os.sep}"


@lru_cache(maxsize=4096)
def _names_float32(code: CodeType, instruction: int) -> bool:
    """Whether the call at an instruction is ``.float()`` or has ``torch.float32`` among its arguments."""
    lines = list(code.co_positions())
    line, end, start, stop = lines[instruction // 2]
    if line is None or end is None or start is None or stop is None:
        return False
    source = [text.encode() for text in linecache.getlines(code.co_filename)[line - 1 : end]]
    if len(source) != end - line + 1:
        return False
    source[-1] = source[-1][:stop]
    source[0] = source[0][start:]
    try:
        found = ast.parse(b"(" + b"".join(source) + b")", mode="eval").body
    except SyntaxError:
        return False
    if not isinstance(found, ast.Call):
        return False
    if isinstance(found.func, ast.Attribute) and found.func.attr == "float":
        return True
    given = [*found.args, *(keyword.value for keyword in found.keywords)]
    return any(isinstance(arg, ast.Attribute) and arg.attr in _NAMES for arg in given)
