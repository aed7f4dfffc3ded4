"""Swish: ``Y = X * sigmoid(X)``, which ONNX names from opset 24 on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer(_: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    return [types[0]]


def _expand(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x = operands[0]
    assert x is not None
    return [b.op("Mul", x, b.op("Sigmoid", x))]


TABLE.add(
    "Swish",
    inputs="X",
    infer=_infer,
    expand=_expand,
    summary="Y = X * sigmoid(X), elementwise",
    traits=Traits(elementwise=True, activation=True),
)
