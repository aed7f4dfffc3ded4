"""Lets an export follow the layers of torch.ao that compute on integers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch.overrides import TorchFunctionMode

from . import functions  # fills the tables of functions
from .packed import is_quantised
from .stand_in import real, replaced, run

if TYPE_CHECKING:
    from torch.nn import Module

assert functions.OPERATORS


@contextmanager
def quantised_layers(module: Module) -> Iterator[None]:
    """Let torch's functions of quantised tensors give and take stand-ins inside, where a model has any.

    What the model gives quantised, a hook makes floats.
    """
    if not is_quantised(module):
        yield
        return

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(func, args, kwargs or {})

    handle = module.register_forward_hook(lambda _module, _given, result: replaced(result, real))
    try:
        with Mode():
            yield
    finally:
        handle.remove()
