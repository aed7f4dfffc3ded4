"""The names of MindSpore that emitted source must not take."""

from __future__ import annotations

from functools import lru_cache

from .recorded_names import ATTRIBUTES_OF_CELL, INITIALIZER_CLASSES


@lru_cache(maxsize=1)
def reserved_attributes() -> frozenset[str]:
    """Return the attribute names that `nn.Cell` itself uses, of the installed MindSpore or as recorded."""
    try:
        from mindspore import nn
    except ModuleNotFoundError:
        return ATTRIBUTES_OF_CELL

    return frozenset(dir(nn.Cell())) | frozenset(vars(nn.Cell()))


@lru_cache(maxsize=1)
def initializer_classes() -> frozenset[str]:
    """Return the public names of `mindspore.common.initializer`, which emitted files import one by one."""
    try:
        from mindspore.common import initializer
    except ModuleNotFoundError:
        return INITIALIZER_CLASSES

    return frozenset(n for n in dir(initializer) if n[:1].isalpha())
