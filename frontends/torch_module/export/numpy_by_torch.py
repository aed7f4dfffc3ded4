"""Code of a model that computes in NumPy, traced by the NumPy that torch writes on tensors."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .patches import original, patched
from .symbolic_builtins import functions_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def gives_numpy(error: BaseException) -> bool:
    """Whether an export failed because the model's code gives a tensor to NumPy."""
    return "() is not supported for tensor subclasses" in str(error)


@contextmanager
def numpy_by_torch(module: Module) -> Iterator[None]:
    """Make arrays of torch's NumPy of tensors in a with block, and let the model's code use that one."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils import _pytree as pytree

    arrays: Any = importlib.import_module("torch._numpy")
    from_numpy = original("torch", "from_numpy")

    def whole(value: Any) -> Any:
        return value.tensor if isinstance(value, arrays.ndarray) else value

    def as_array(tensor: Tensor, *_: Any, **__: Any) -> Any:
        return arrays.ndarray(tensor.detach())

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            del types
            if func in (torch.Tensor.numpy, torch.Tensor.__array__):
                return as_array(args[0])
            given, named = pytree.tree_map(whole, args), pytree.tree_map(whole, kwargs or {})
            return func(*given, **named)

    def tensor_of(array: Any) -> Tensor:
        return array.tensor if isinstance(array, arrays.ndarray) else from_numpy(array)

    homes = {id(f.__globals__): f.__globals__ for f in functions_of(module)}.values()
    names = [(home, name) for home in homes for name, value in home.items() if value is np]
    for home, name in names:
        home[name] = arrays
    try:
        with Mode(), patched("torch", from_numpy=tensor_of):
            yield
    finally:
        for home, name in names:
            home[name] = np
