"""Records the values by which torch's operators select elements, in the order of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...frontends.torch_module.export.tensors import array_of

_SELECTING = frozenset(
    {"argmax", "argmin", "ge", "gt", "le", "lt", "max", "min", "nms", "sort", "topk"}
    | {"_to_copy", "ceil", "floor", "floor_divide", "round", "trunc"}
)
"""Operators that order, compare or suppress, and those that give whole numbers."""


@contextmanager
def selected_values() -> Iterator[list[np.ndarray]]:
    """Yield the floating-point operands of what orders, compares, suppresses or rounds inside the block."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[np.ndarray] = []

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            out = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            if name in _SELECTING and not (name == "_to_copy" and out.is_floating_point()):
                for each in args[:2]:
                    if isinstance(each, torch.Tensor) and each.is_floating_point():
                        found.append(array_of(each).copy())
            if name == "roi_align":
                found.append(array_of(args[1])[:, 1:].copy())  # the first column numbers images
            return out

    with Recording():
        yield found
