"""Runs torch code in float64 throughout, also where it asks for a narrower type."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from ...ir import Graph, Operator

if TYPE_CHECKING:
    import torch


def measure_unfolded(graph: Graph, node: Operator) -> int:
    """Return the bytes of the windows that torch unfolds for a float64 convolution, of one example.

    In float32 another library computes it in place. 48 channels of 96 x 96 x 96 take 9 GB.
    """
    if node.op_type != "Conv" or node.domain:
        return 0
    data, weight = graph.operands(node.key)[:2]
    entering = None if data is None else graph.type_of(data)
    kernel = None if weight is None else graph.type_of(weight)
    if entering is None or kernel is None or not entering.shape or not kernel.shape or not node.types:
        return 0
    leaving = (node.types[0].shape if node.types[0] is not None else None) or ()
    sizes = [entering.shape[1], *kernel.shape[2:], *leaving[2:]]
    known = [size for size in sizes if isinstance(size, int)]
    return 8 * prod(known) if len(known) == len(sizes) and prod(known[1 : len(kernel.shape) - 1]) > 1 else 0


def in_double() -> AbstractContextManager[object]:
    """Return a with block in which nothing is rounded to less than float64 or complex128.

    A float64 copy of a model still computes in float32 after `.float()`, `dtype=torch.float32` or
    `torch.arange(16.0)`: sines of `time * exp(...)` are then as inaccurate as in float32. Inside the block
    the element types that the model asks for are widened, and so are results of operators that ask for none.
    Random numbers are drawn in float32, because float64 draws others.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten

    class InDouble(TorchDispatchMode):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            schema = getattr(func, "_schema", None)
            if schema is None:  # an operator on functions, which calls others
                return func(*args, **given)
            if func is aten._assert_tensor_metadata.default:  # of an exported programme
                return None
            if func is aten._to_copy.default:
                cast = _cast(args[0], given)
                if cast is not None:
                    return cast
            if func is aten.view.dtype and args[0].dtype.itemsize != args[1].itemsize:
                raise TypeError("a tensor of another element type has other bits")
            if torch.Tag.nondeterministic_seeded in func.tags:
                return _widen(func(*args, **_draw_in_float(func, args, given)))
            shares = any(a.alias_info is not None for a in schema.arguments)
            if shares and func is not aten.lift_fresh.default:  # a view, or a write in place
                return func(*args, **given)
            args, given = _widen(args), _widen(given)
            if func in (aten._softmax.default, aten._log_softmax.default):
                args = (*args[:2], False)  # whether to make float32 of float16
            return _widen(func(*args, **given))

    return InDouble()


@cache
def _wide() -> dict[torch.dtype, torch.dtype]:
    """Return element type -> the wide one that takes its place."""
    import torch

    real = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64)
    return {**real, torch.complex64: torch.complex128, torch.complex32: torch.complex128}


def _cast(tensor: Any, keywords: dict[str, Any]) -> Any:
    """Return the result of a cast that changes nothing in float64; None for any other operator."""
    import torch

    wanted = keywords.get("dtype")
    others = [v for k, v in keywords.items() if k not in ("dtype", "non_blocking") and v is not None]
    if others or wanted not in _wide() or tensor.dtype is not _wide()[wanted]:
        return None
    as_it_is = wanted in (torch.float32, torch.complex64)  # where the model's own cast is no copy
    return tensor if as_it_is else tensor.clone()


def _draw_in_float(func: Any, args: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return keywords by which numbers like a widened tensor's are drawn in float32, as in the model."""
    import torch

    takes = any(a.name == "dtype" for a in func._schema.arguments)
    like = bool(args) and isinstance(args[0], torch.Tensor) and args[0].dtype is torch.float64
    return {**keywords, "dtype": torch.float32} if like and takes and not keywords.get("dtype") else keywords


def _widen(values: Any) -> Any:
    """Return values with their tensors and element types widened."""
    import torch
    from torch.utils import _pytree as pytree

    def widen(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return _wide().get(value, value)
        if isinstance(value, torch.Tensor) and value.dtype in _wide():
            return value.to(_wide()[value.dtype])
        return value

    return pytree.tree_map(widen, values)
