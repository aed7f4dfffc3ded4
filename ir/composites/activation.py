"""Swish, which ONNX names from opset 24 on, and the leaky ReLU whose slopes are drawn in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..signatures import AttributeSpec
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


def _mean_slope(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    alpha = (operator.float("lower") + operator.float("upper")) / 2
    return [b.op("LeakyRelu", operands[0], alpha=alpha)]


TABLE.add(
    "RRelu",
    inputs="X",
    attributes=[AttributeSpec(name, "float", required=True) for name in ("lower", "upper")],
    infer=_infer,
    expand=_mean_slope,
    summary="X, times a slope where below 0: drawn for each element in training, else the mean of bounds",
    traits=Traits(elementwise=True, activation=True, random=True, trains_differently=True, bends=(0.0,)),
)
