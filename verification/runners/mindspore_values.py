"""What MindSpore's Cells take and return: its tensors found, replaced, copied and written as source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .runs import Slot


def argument_sources(arguments: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Recorded arguments as source, ``{0}`` for tensor 0; None where one is no tensor, tuple or None."""
    try:
        return tuple(map(_argument_source, arguments))
    except TypeError:
        return None


def _argument_source(value: Any) -> str:
    if isinstance(value, Slot):
        return f"{{{value.index}}}"
    if type(value) in (tuple, list):
        inside = ", ".join(map(_argument_source, value))
        return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
    if value is None:
        return "None"
    raise TypeError(type(value).__name__)


def mapped(value: Any, visit: Callable[[Any], Any]) -> Any:
    """A structure of tuples, lists and dicts with its tensors replaced; a Parameter is no input and stays."""
    from mindspore import Parameter, Tensor

    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return visit(value)
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(v, visit) for v in value) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {k: mapped(v, visit) for k, v in value.items()}
    return value


def filled(value: Any, tensors: Sequence[Any]) -> Any:
    """The inverse of `mapped`."""
    if isinstance(value, Slot):
        return tensors[value.index]
    if type(value) in (tuple, list):
        return type(value)(filled(v, tensors) for v in value)
    if isinstance(value, dict):
        return {k: filled(v, tensors) for k, v in value.items()}
    return value


def results(value: Any) -> list[Any]:
    """What a net returns: tensors, and sizes and other numbers as ones."""
    from mindspore import Tensor

    if isinstance(value, (list, tuple)):
        return [leaf for inner in value for leaf in results(inner)]
    if isinstance(value, (bool, int, float)):
        return [Tensor(np.asarray(value, np.float32 if isinstance(value, float) else None))]
    return tensors_of(value)


def tensors_of(value: Any) -> list[Any]:
    """The tensors of a result, in order."""
    from mindspore import Tensor

    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (tuple, list)) else []


def replaced(value: Any, arrays: Sequence[np.ndarray]) -> Any:
    """A result with other values for its tensors, in order."""
    from mindspore import Tensor

    left = list(arrays)

    def visit(part: Any) -> Any:
        if isinstance(part, Tensor):
            return Tensor(np.array(left.pop(0), copy=True))
        if type(part) in (tuple, list):
            return type(part)(map(visit, part))
        return {k: visit(v) for k, v in part.items()} if isinstance(part, dict) else part

    return visit(value)


def set_value(parameter: Any, value: np.ndarray) -> None:
    """Give a Parameter an array's values in its own element type."""
    from mindspore import Tensor

    parameter.set_data(Tensor(np.array(value, copy=True), parameter.dtype))


def array_of(tensor: Any) -> np.ndarray:
    """A tensor's values, in memory of their own."""
    return np.array(tensor.asnumpy(), copy=True)
