"""Records the values by which torch's operators select elements, in the order of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...frontends.torch_module.export.tensors import array_of

_ORDERS = frozenset({"topk", "sort"})
_OTHERS = frozenset({"nms", "gt", "ge", "lt", "le", "max", "min", "argmax", "argmin"})


@contextmanager
def selected_values() -> Iterator[list[np.ndarray]]:
    """Yield the floating-point operands of what orders, compares or suppresses inside the block.

    Where torch orders equal elements, which it may do in any way, they are a unit in the last place apart in
    the order that it found.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[np.ndarray] = []

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            given = kwargs or {}
            out = func(*args, **given)
            name = func.overloadpacket.__name__
            if name in _ORDERS or name in _OTHERS:
                for each in args[:2]:
                    if isinstance(each, torch.Tensor) and each.is_floating_point():
                        found.append(array_of(each).copy())
            if name in _ORDERS and found and found[-1].ndim == 1 and isinstance(out, tuple):
                settings = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | given
                is_largest = settings.get("largest", name == "topk") or settings.get("descending", False)
                found[-1] = _apart(found[-1], array_of(out[1]), 1 if is_largest else -1)
            return out

    with Recording():
        yield found


def _apart(values: np.ndarray, order: np.ndarray, sign: int) -> np.ndarray:
    """Return values of which those in `order` come down one by one, and the others stay below."""
    found, last = values * sign, np.array(np.inf, values.dtype)
    for at in order:
        if found[at] >= last:
            found[at] = np.nextafter(last, -np.inf, dtype=values.dtype)
        last = found[at]
    left = np.ones(len(found), bool)
    left[order] = False
    found[left] = np.minimum(found[left], np.nextafter(last, -np.inf, dtype=values.dtype))
    return found * sign
