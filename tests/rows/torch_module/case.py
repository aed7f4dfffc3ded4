"""One row of the torch frontend: the operator that it names, and arguments to call it with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree


@dataclass(frozen=True, eq=False)
class Input:
    """An input of the captured module; `through` gives what a function makes of it."""

    array: np.ndarray
    prepare: Callable[[torch.Tensor], Any] = lambda x: x

    def through(self, function: Callable[[torch.Tensor], Any]) -> Input:
        return Input(self.array, lambda x: function(self.prepare(x)))


ABSENT: set[str] = set()
"""Rows of operators that the installed torch has not; programs of others have them."""

SINCE = {
    "torch_nn._linear_cross_entropy_batch_chunked.default": "2.13",
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": "2.13",
}
UNTIL = {"aten.cholesky.default": "2.15"}
"""All that a release has added or removed, so that no misspelt row is one."""

KEPT_SINCE = dict.fromkeys(
    ("aten.quantile.default", "aten.nanquantile.default", "aten.bucketize.Scalar"), "2.12"
)
"""Rows of which an older torch finds no shape, and regraft traces an equivalent."""


class Case:
    """A call of the operator that a row is of.

    Args:
        row: the row's name, ``aten.add.Scalar``.
        arguments: what it is called with; an `Input` stands for an input.
        then: what is compared of its result, where that is not all of it.
        call: what to call, for a row that no operator of torch's has the name of.
        keywords: keyword arguments of the operator.
    """

    def __init__(
        self,
        row: str,
        *arguments: Any,
        then: Callable[[Any], Any] = lambda found: found,
        call: Callable[..., Any] | None = None,
        **keywords: Any,
    ) -> None:
        self.row, self.then = row, then
        operator = call or _operator(row)
        if operator is None:
            ABSENT.add(row)
        self.operator: Any = operator
        self.leaves, self.spec = pytree.tree_flatten((list(arguments), keywords))

    def run(
        self, inputs: dict[int, torch.Tensor], operator: Callable[..., Any] | None = None
    ) -> list[torch.Tensor]:
        """Call it, or what is to compute the same, on tensors by the id of the array they stand for."""
        given = [v.prepare(inputs[id(v.array)]) if isinstance(v, Input) else v for v in self.leaves]
        arguments, keywords = pytree.tree_unflatten(given, self.spec)
        found = self.then((operator or self.operator)(*arguments, **keywords))
        return [v for v in pytree.tree_leaves(found) if isinstance(v, torch.Tensor)]


class Refused(Case):
    """A call of which the row says why it cannot be read.

    Args:
        row: the row's name.
        arguments: as of a `Case`.
        says: what the refusal says.
        keywords: as of a `Case`.
    """

    def __init__(self, row: str, *arguments: Any, says: str, **keywords: Any) -> None:
        super().__init__(row, *arguments, **keywords)
        self.says = says


@dataclass
class Group:
    """Cases that are captured as one module and run by ONNX Runtime.

    Attributes:
        cases: what it calls, in order.
        dynamic: whether axis 0 of the inputs is the batch, so that other sizes of it are run too.
        atol: how far off its results may be.
    """

    cases: Sequence[Case]
    dynamic: bool = True
    atol: float = 2e-5
    arrays: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.cases = [case for case in self.cases if case.row not in ABSENT]
        found = {id(v.array): v.array for c in self.cases for v in c.leaves if isinstance(v, Input)}
        self.arrays = list(found.values())

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        given = dict(zip(map(id, self.arrays), tensors, strict=True))
        return [found for case in self.cases for found in case.run(given)]


def floats(*shape: int, seed: int = 0) -> Input:
    return Input(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def integers(*shape: int, low: int = -9, high: int = 10) -> Input:
    return Input(np.random.default_rng(0).integers(low, high, shape))


def constant(*shape: int, seed: int = 1) -> torch.Tensor:
    """A weight, which is no input."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


X = floats(2, 3, 4)
Y = floats(2, 3, 4, seed=1)
P = X.through(lambda x: x.abs() + 0.1)
U = X.through(lambda x: x.sigmoid() * 1.8 - 0.9)
B = X.through(lambda x: x > 0)
C = Y.through(lambda y: y > 0)
J = integers(2, 3, 4)
K = J.through(lambda i: i % 5 + 1)


def _operator(row: str) -> Callable[..., Any] | None:
    space, name, overload = row.split(".")
    return getattr(getattr(getattr(torch.ops, space), name, None), overload, None)
