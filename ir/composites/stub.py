"""Operators that compute nothing: a source operator without a lowering yet, and prints of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import BackendError
from ..signatures import AttributeSpec
from ..types import TensorType
from .base import CompositeTable
from .loss import nothing, same_type

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    return [None] * len(operator.types)


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    raise BackendError(
        "E602",
        f"expected an operator with a lowering, got the stub of `{operator.str('operator')}`",
        place=operator.location,
        hint="only MindSpore and PyTorch source can hold a stub: ONNX Runtime refuses a function without a "
        "body",
    )


TABLE.add(
    "Stub",
    inputs="X*",
    outputs="Y*",
    attributes=[
        AttributeSpec("operator", "string", required=True),
        AttributeSpec("call", "string", required=True),
        AttributeSpec("reason", "string", default=""),
    ],
    infer=_infer,
    expand=_expand,
    summary="a source operator without a lowering, to be written by hand: `rewrite --partial`",
)

TABLE.add(
    "Print",
    inputs="X*",
    attributes=[
        AttributeSpec("kind", "string", default="Print"),
        AttributeSpec("parts", "string", required=True),
    ],
    infer=same_type,
    expand=nothing,
    summary="the first X; MindSpore's primitive `kind` prints `parts`, a JSON list of texts, numbers and "
    "null, which stands for the next of the other X",
)
