"""Looking rows up in a table that is trained except for one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..operators import AttributeSpec
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
    summary="rows of W by number; no gradient flows into the row `padding_idx`",
)
