"""Runs the scatters of a MindSpore net by kernels that lose no write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def scattering_in_one_thread() -> Iterator[None]:
    """Make scatters that may write an element twice lose no write in a with block.

    Their kernel on CPU does, now and then, as `frontends/mindspore_cell/racing.py` says: a comparison would
    differ from run to run.
    """
    from mindspore import Tensor, ops
    from mindspore.ops import auto_generate

    primitive: Any = auto_generate.TensorScatterElements
    by_primitive, function, method = primitive.__call__, ops.scatter, Tensor.scatter

    def call(self: Any, x: Any, indices: Any, updates: Any) -> Any:
        adds = self.reduce not in (0, "none")
        written = _write(x, self.axis, indices, updates, adds=adds)
        return by_primitive(self, x, indices, updates) if written is None else written

    def scatter(x: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("axis", "index", "src"), args, strict=False)) | kwargs
        axis, reduce = given["axis" if "axis" in given else "dim"], given.get("reduce", "none")
        written = None
        if isinstance(given.get("src"), Tensor) and reduce in (None, "none", "add"):
            written = _write(x, axis, given["index"], given["src"], adds=reduce == "add")
        return function(x, *args, **kwargs) if written is None else written

    def scatter_method(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("axis", "index", "src"), args, strict=False)) | kwargs
        is_whole = isinstance(given.get("src"), Tensor)
        return scatter(self, *args, **kwargs) if is_whole else method(self, *args, **kwargs)

    primitive.__call__, ops.scatter, Tensor.scatter = call, scatter, scatter_method
    try:
        yield
    finally:
        primitive.__call__, ops.scatter, Tensor.scatter = by_primitive, function, method


def _write(x: Any, axis: int, indices: Any, updates: Any, *, adds: bool) -> Any:
    """Write elements at places that are given along all axes; None where no other kernel can."""
    import mindspore as ms
    from mindspore import ops

    shape = indices.shape
    if (adds and x.dtype == ms.bool_) or tuple(updates.shape) != tuple(shape):
        return None
    places: list[Any] = []
    for at, size in enumerate(shape):
        line: Any = ops.reshape(ops.arange(size), tuple(-1 if a == at else 1 for a in range(len(shape))))
        if at == axis % len(shape):
            line = ops.where(indices < 0, indices + x.shape[at], indices)
        places.append(ops.broadcast_to(line.astype(ms.int64), shape))
    write = ops.tensor_scatter_add if adds else ops.TensorScatterUpdate()
    return write(x, ops.stack(places, -1), updates.astype(x.dtype))
