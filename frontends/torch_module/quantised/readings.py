"""Real quantised tensors and packed weights, read as the stand-ins on which torch's functions have forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from . import functions  # fills the tables of functions
from .packed import Packed, is_packed, unpacked
from .stand_in import NoFormError, Quantised, is_moving, is_stand_in, run, scale_of

assert functions.OPERATORS


class Readings:
    """Makes stand-ins; packed weights are unpacked once each."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Packed]] = {}  # with the packed weights, which keep their id by it

    def weights(self, packed: Any) -> Packed:
        """Return packed weights, unpacked."""
        if id(packed) not in self._known:
            self._known[id(packed)] = packed, unpacked(packed)
        return self._known[id(packed)][1]

    def read(self, value: Any) -> Any:
        """Return the stand-in for a quantised tensor or packed weights; anything else as it is."""
        if is_packed(value):
            return self.weights(value)
        return Quantised(value.int_repr(), scale_of(value)) if is_quantised_tensor(value) else value


class Steps(NamedTuple):
    """Values before a kernel rounds them to integers, as the function is read.

    Attributes:
        values: where they lie among the integers, within their bounds.
        unit: the part of a step to which a kernel may round the bias, as a sum of products of integers.
    """

    values: Tensor
    unit: float


class NotedSteps:
    """The steps of the quantised tensors of a run."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Tensor, Steps]] = {}  # with the tensors, which keep their ids by it

    def of(self, tensor: Tensor) -> Steps | None:
        """Return those of a tensor; None where they are not known."""
        found = self._found.get(id(tensor))
        return None if found is None else found[1]

    def add(self, tensor: Tensor, steps: Steps | None) -> None:
        """Enter those of a tensor; None forgets them."""
        self._found.pop(id(tensor), None)
        if steps is not None and steps.values.shape == tensor.shape:
            self._found[id(tensor)] = tensor, steps


@contextmanager
def steps_noted(noted: NotedSteps) -> Iterator[None]:
    """Note in a with block where values lie before torch rounds them: each function runs on floats, too."""
    readings = Readings()

    def find(func: Any, given: Any, read: Any) -> list[Steps | None]:
        if not is_moving(func):
            found = pytree.tree_leaves(run(func, *read))
            return [_steps_of(x, pytree.tree_leaves(read)) if is_stand_in(x) else None for x in found]
        before = [noted.of(x) for x in pytree.tree_leaves(given) if is_quantised_tensor(x)]
        if len(before) != 1 or before[0] is None:
            return []
        values, unit = before[0]
        args, kwargs = pytree.tree_map(lambda x: values if is_quantised_tensor(x) else x, given)
        return [Steps(x, unit) for x in pytree.tree_leaves(func(*args, **kwargs))]

    class Noting(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = args, kwargs or {}
            read = pytree.tree_map(readings.read, given)  # first: the function may write into its operands
            result = func(*args, **given[1])
            tensors = [x for x in pytree.tree_leaves(result) if is_quantised_tensor(x)]
            if tensors:
                try:
                    found = find(func, given, read)
                except (NoFormError, RuntimeError, TypeError, ValueError):
                    found = []  # such values are compared without
                for at, tensor in enumerate(tensors):
                    noted.add(tensor, found[at] if len(found) == len(tensors) else None)
            return result

    with Noting():
        yield


def _steps_of(result: Quantised, operands: Sequence[Any]) -> Steps | None:
    """Return the steps of what a function's form rounded last."""
    if result.before is None:
        return None
    floats, scale = result.before
    values = scale.steps(floats)
    if values is None:
        return None
    x = next((value for value in operands if is_stand_in(value)), None)
    weights = next((value for value in operands if isinstance(value, Packed)), None)
    if x is None or weights is None:
        return Steps(values, 0.0)
    return Steps(values, float(x.by.scale) * weights.largest_scale() / float(scale.scale))


def is_quantised_tensor(value: object) -> bool:
    """Whether a value is a real quantised tensor."""
    return isinstance(value, Tensor) and not is_stand_in(value) and value.is_quantized
