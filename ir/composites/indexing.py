"""Looking rows up in a table that is trained except for one row, and taking a tensor apart along an axis."""

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
    table, indices = types
    if table is None or indices is None or table.shape is None or indices.shape is None:
        return [None if table is None else table.with_shape(None)]
    return [table.with_shape((*indices.shape, *table.shape[1:]))]


def _expand(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    return [b.op("Gather", *operands, axis=0)]


TABLE.add(
    "PaddedEmbedding",
    inputs="W indices",
    attributes=[AttributeSpec("padding_idx", "int", required=True)],
    infer=_infer,
    expand=_expand,
    traits=Traits(selecting=True),
    summary="rows of W by number; no gradient flows into the row `padding_idx`",
)


def _infer_unstack(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x, axis = types[0], operator.int("axis")
    if x is None or x.shape is None:
        return []
    shape = list(x.shape)
    size = shape.pop(axis)
    return [x.with_shape(tuple(shape))] * (size if isinstance(size, int) else 0)


def _expand_unstack(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    axis = operator.int("axis")
    return [b.op("Gather", operands[0], b.constant(i), axis=axis) for i in range(len(operator.types))]


TABLE.add(
    "Unstack",
    inputs="X",
    outputs="Y*",
    attributes=[AttributeSpec("axis", "int", default=0)],
    infer=_infer_unstack,
    expand=_expand_unstack,
    traits=Traits(moving=True),
    summary="every slice along an axis, without the axis",
)
