"""Runs torch code in float64 or float32 throughout, also where it asks for a narrower type."""

from __future__ import annotations

import copy
import warnings
from contextlib import AbstractContextManager
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from ...ir import Graph, ModelError, Operator

if TYPE_CHECKING:
    import torch

_MANY, _AT_ONCE = 1 << 20, 1 << 20
"""Elements from which a narrower matrix is widened into memory that is used again, and of it at once.

So many stay in a cache. Threads are started for each part: one thread is faster here.
"""


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


def copy_in_double(model: Any) -> Any:
    """Return a copy of a module with its floating-point parameters and buffers in float64.

    Raises:
        ModelError: E702 when the module cannot be copied.
    """
    import torch

    try:  # .double() works in place, and a programme's module shares the programme's tensors
        with warnings.catch_warnings():  # torch's own, about its own classes
            warnings.simplefilter("ignore")
            copied = copy.deepcopy(model)
        # the class's own method: a user's module may have another of that name
        return torch.nn.Module.double(copied)
    except Exception as error:  # a user's module may refuse to be copied in any way
        raise ModelError("E702", f"the module cannot be copied: {error}") from error


def in_double() -> AbstractContextManager[object]:
    """Return a with block in which nothing is rounded to less than float64 or complex128.

    A float64 copy of a model still computes in float32 after `.float()`, `dtype=torch.float32` or
    `torch.arange(16.0)`: sines of `time * exp(...)` are then as inaccurate as in float32.
    """
    import torch

    return in_wide(torch.float64)


def in_wide(real: torch.dtype) -> AbstractContextManager[object]:
    """Return a with block in which floating-point numbers of narrower types are widened where they are used.

    The element types that the model asks for are widened, and so are results of operators that ask for none.
    Random numbers are drawn in float32, because float64 draws others. Narrower weights are widened by the
    operator that reads them, some columns of a large matrix at a time.

    Args:
        real: ``torch.float64`` or ``torch.float32``.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten, wide, multiply = torch.ops.aten, _wide(real), _Multiplying(real)

    class InWide(TorchDispatchMode):
        supports_higher_order_operators = True

        def __enter__(self) -> Any:
            layer: Any = torch.nn.RNNBase
            self._check = layer.check_input
            layer.check_input = lambda *_: None  # asks for inputs of the weights' element type
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            layer: Any = torch.nn.RNNBase
            layer.check_input = self._check
            super().__exit__(*error)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            schema = getattr(func, "_schema", None)
            if schema is None:  # an operator on functions, which calls others
                return func(*args, **given)
            if func is aten._assert_tensor_metadata.default:  # of an exported programme
                return None
            if func is aten._to_copy.default:
                cast = _cast(args[0], given, wide)
                if cast is not None:
                    return cast
            if func is aten.view.dtype and args[0].dtype.itemsize != args[1].itemsize:
                raise TypeError("a tensor of another element type has other bits")
            if torch.Tag.nondeterministic_seeded in func.tags:
                return _widen(func(*args, **_draw_in_float(func, args, given)), wide)
            shares = any(a.alias_info is not None for a in schema.arguments)
            if shares and func is not aten.lift_fresh.default:  # a view, or a write in place
                return func(*args, **given)
            if func is aten.embedding.default:  # whose rows alone are widened
                return _widen(func(*args, **given), wide)
            if func is aten.mm.default and args[1].dtype in wide and args[1].numel() > _MANY:
                return multiply(_widen(args[0], wide), args[1])
            if func is aten.addmm.default and not given and args[2].dtype in wide and args[2].numel() > _MANY:
                return multiply(_widen(args[1], wide), args[2]) + _widen(args[0], wide)
            args, given = _widen(args, wide), _widen(given, wide)
            if func in (aten._softmax.default, aten._log_softmax.default):
                args = (*args[:2], False)  # whether to make float32 of float16
            return _widen(func(*args, **given), wide)

    return InWide()


@cache
def _wide(real: torch.dtype) -> dict[torch.dtype, torch.dtype]:
    """Return element type -> the wide one that takes its place."""
    import torch

    halves = dict.fromkeys((torch.float16, torch.bfloat16), real)
    if real is torch.float32:
        return {**halves, torch.complex32: torch.complex64}
    return {
        **halves,
        torch.float32: real,
        **dict.fromkeys((torch.complex64, torch.complex32), torch.complex128),
    }


class _Multiplying:
    """Multiplies with large narrower matrices, widened some columns at a time into memory used again.

    Args:
        real: the type that they are widened to.
    """

    def __init__(self, real: torch.dtype) -> None:
        self._real = real
        self._memory: Any = None

    def __call__(self, left: Any, right: Any) -> Any:
        """Return the product with a matrix of a narrower type."""
        import torch

        rows = right.t()  # which lie one behind the other in the weight of a linear layer
        many = max(1, _AT_ONCE // max(1, rows.shape[1]))
        return torch.cat([torch.mm(left, self._widened(part).t()) for part in rows.split(many)], 1)

    def _widened(self, rows: Any) -> Any:
        import torch

        if self._memory is None or self._memory.numel() < rows.numel():
            self._memory = torch.empty(rows.numel(), dtype=self._real)
        return self._memory[: rows.numel()].view(rows.shape).copy_(rows)


def _cast(tensor: Any, keywords: dict[str, Any], wide: dict[torch.dtype, torch.dtype]) -> Any:
    """Return the result of a cast that changes nothing in the wide type; None for any other operator."""
    import torch

    wanted = keywords.get("dtype")
    others = [v for k, v in keywords.items() if k not in ("dtype", "non_blocking") and v is not None]
    if others or wanted not in wide or tensor.dtype is not wide[wanted]:
        return None
    as_it_is = wanted in (torch.float32, torch.complex64)  # where the model's own cast is no copy
    return tensor if as_it_is else tensor.clone()


def _draw_in_float(func: Any, args: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return keywords by which numbers like a widened tensor's are drawn in float32, as in the model."""
    import torch

    takes = any(a.name == "dtype" for a in func._schema.arguments)
    like = bool(args) and isinstance(args[0], torch.Tensor) and args[0].dtype is torch.float64
    return {**keywords, "dtype": torch.float32} if like and takes and not keywords.get("dtype") else keywords


def _widen(values: Any, wide: dict[torch.dtype, torch.dtype]) -> Any:
    """Return values with their tensors and element types widened."""
    import torch
    from torch.utils import _pytree as pytree

    def widen(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return wide.get(value, value)
        if isinstance(value, torch.Tensor) and value.dtype in wide:
            return value.to(wide[value.dtype])
        return value

    return pytree.tree_map(widen, values)
