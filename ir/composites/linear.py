"""Linear: ``Y = X @ W.T + B`` over the last axis, the weight stored (out, in)."""

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
    x, weight = types[0], types[1]
    if x is None or weight is None or x.shape is None or weight.shape is None:
        return [None if x is None else x.with_shape(None)]
    return [x.with_shape((*x.shape[:-1], weight.shape[0]))]


def _expand(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, weight = operands[0], operands[1]
    assert x is not None
    assert weight is not None
    bias = operands[2] if len(operands) > 2 else None
    if b.graph.known_type(x).rank == 2:  # Gemm keeps a tied weight in its (out, in) layout
        return [b.op("Gemm", x, weight, bias, transB=1)]
    y = b.op("MatMul", x, b.op("Transpose", weight, perm=[1, 0]))
    return [y if bias is None else b.op("Add", y, bias)]


TABLE.add(
    "Linear",
    inputs="X W B?",
    infer=_infer,
    expand=_expand,
    traits=Traits(heavy=True),
    summary="Y = X @ W.T + B over the last axis; W is (out, in), B is (out,)",
)
