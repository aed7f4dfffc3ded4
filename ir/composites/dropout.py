"""Dropout of whole channels, which ONNX has not: its Dropout drops single elements."""

from __future__ import annotations

from ..signatures import AttributeSpec
from ..traits import Traits
from .base import CompositeTable
from .loss import nothing, same_type

TABLE = CompositeTable()

TABLE.add(
    "FeatureDropout",
    inputs="X",
    attributes=[AttributeSpec("ratio", "float", required=True)],
    infer=same_type,
    expand=nothing,
    traits=Traits(random=True, trains_differently=True, dropout="Dropout of channels"),
    summary="X of shape (N, C, ...); in training whole channels of a sample are zeros with probability ratio",
)
