"""Finds, replaces, copies and prints the tensors that MindSpore's Cells take and return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .runs import Placeholder


def map_tensors(value: Any, visit: Callable[[Any], Any]) -> Any:
    """Replace the tensors in a structure of tuples, lists and dicts; a Parameter is no input and stays."""
    from mindspore import Parameter, Tensor

    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return visit(value)
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(v, visit) for v in value) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {k: map_tensors(v, visit) for k, v in value.items()}
    return value


def fill_slots(value: Any, tensors: Sequence[Any]) -> Any:
    """Put tensors into a structure again; the inverse of `map_tensors`."""
    if isinstance(value, Placeholder):
        return tensors[value.index]
    if type(value) in (tuple, list):
        return type(value)(fill_slots(v, tensors) for v in value)
    if isinstance(value, dict):
        return {k: fill_slots(v, tensors) for k, v in value.items()}
    return value


def flatten_results(value: Any) -> list[Any]:
    """Return what a net returned as a flat list: tensors, with sizes and other numbers as tensors."""
    from mindspore import Tensor

    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for inner in value for leaf in flatten_results(inner)]
    if isinstance(value, (bool, int, float)):
        return [Tensor(np.asarray(value, np.float32 if isinstance(value, float) else None))]
    return tensors_of(value)


def tensors_of(value: Any) -> list[Any]:
    """Return the tensors of a result, in order."""
    from mindspore import Tensor

    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (tuple, list)) else []


def replace_tensors(value: Any, arrays: Sequence[np.ndarray]) -> Any:
    """Replace the tensors of a result, in order."""
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
    """Set a Parameter to an array's values, in its own element type."""
    from mindspore import Tensor

    parameter.set_data(Tensor(np.array(value, copy=True), parameter.dtype))


def array_of(tensor: Any) -> np.ndarray:
    """Return a copy of a tensor's values."""
    return np.array(tensor.asnumpy(), copy=True)
