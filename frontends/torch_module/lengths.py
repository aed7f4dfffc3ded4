"""`len` of a tensor while a module is traced: Python wants a number, which would fix a symbolic size."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module


def measuring_modules(module: Module) -> list[ModuleType]:
    """The Python modules, PyTorch's own excepted, that define the model's classes and take a `len` there."""
    found: dict[str, ModuleType] = {}
    for cls in {c for m in module.modules() for c in type(m).__mro__}:
        name = cls.__module__
        home = sys.modules.get(name)
        if home is None or name.partition(".")[0] in ("builtins", "torch") or "len" in vars(home):
            continue
        functions = (f for f in vars(cls).values() if isinstance(f, FunctionType))
        if any("len" in code.co_names for f in functions for code in _nested(f.__code__)):
            found[name] = home
    return list(found.values())


def _nested(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


@contextmanager
def symbolic_lengths(module: Module) -> Iterator[None]:
    """In the model's own Python modules, `len` of a tensor is its symbolic size while the block runs."""
    import torch

    def length(of: Any) -> Any:
        return of.shape[0] if isinstance(of, torch.Tensor) and of.dim() else builtins.len(of)

    homes = measuring_modules(module)
    for home in homes:
        vars(home)["len"] = length
    try:
        yield
    finally:
        for home in homes:
            del vars(home)["len"]
