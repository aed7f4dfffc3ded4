"""Finds what a torch module computes from its code alone, as tables of cosines: a target has it rounded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ir import numpy_dtype

_MOST = 1 << 20
"""Elements up to which a result is kept."""

_ONE = 1e-6
"""Difference, relative to the largest value, up to which two results are one."""


class ExactConstants:
    """Results in float32 that depend on no input and no parameter, by what they are rounded to bfloat16."""

    def __init__(self) -> None:
        self._tables: dict[bytes, np.ndarray | None] = {}

    def add(self, wide: np.ndarray) -> None:
        """Add a result in float32."""
        key, flat = wide.astype(numpy_dtype("bfloat16")).tobytes(), wide.reshape(-1)
        other = self._tables.get(key, flat)
        most = _ONE * float(np.abs(flat).max(initial=0.0))
        same = other is not None and float(np.abs(other - flat).max(initial=0.0)) <= most
        self._tables[key] = flat if same else None  # of two, nothing tells which one was rounded

    def find(self, narrow: np.ndarray) -> np.ndarray | None:
        """Return in float32 what was rounded to these bits of bfloat16; None where it is not known."""
        if narrow.dtype.name != "bfloat16" or narrow.size > _MOST:
            return None
        found = self._tables.get(narrow.tobytes())
        return None if found is None else found.reshape(narrow.shape)


@contextmanager
def recording_constants(found: ExactConstants) -> Iterator[None]:
    """Add to `found` what torch computes in a with block from tensors of which none is on ``meta``.

    Operators with an operand on ``meta`` have all of them there.
    """
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    def is_tensor(value: object) -> bool:
        return isinstance(value, torch.Tensor)

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            tensors = list(filter(is_tensor, pytree.tree_leaves((args, given))))
            if any(t.is_meta for t in tensors):
                move = lambda x: x.to("meta") if is_tensor(x) and not x.is_meta else x  # noqa: E731
                args, given = pytree.tree_map(move, (args, given))
                return func(*args, **given)
            result = func(*args, **given)
            for leaf in filter(is_tensor, pytree.tree_leaves(result)):
                if not leaf.is_meta and leaf.dtype is torch.float32 and 0 < leaf.numel() <= _MOST:
                    found.add(leaf.detach().numpy())
            return result

    with Recording():
        yield
