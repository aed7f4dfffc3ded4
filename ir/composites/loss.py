"""Loss heads and gradient stops: identity, softmax or sigmoid in inference; their gradients are their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..nodes import Operator
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Value

TABLE = CompositeTable()

_LABEL = AttributeSpec("label", "string")  # name of the label input that training feeds
_HEAD = Traits(own_gradient=True)
_SCALE = AttributeSpec("grad_scale", "float", default=1.0)
_NORMALIZATION = AttributeSpec("normalization", "string", default="null")


def same_type(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    """The first operand's."""
    return [types[0]]


def _identity(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x = operands[0]
    assert x is not None
    return [b.op("Identity", x)]


def nothing(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """The value itself, where inference may have it twice: an output needs an operator of its own."""
    x = operands[0]
    assert x is not None
    given = isinstance(b.graph.node(x.node), Operator) and not b.graph.is_output(x)
    return [x] if given else _identity(b, operator, operands)


def _softmax(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x = operands[0]
    assert x is not None
    axis = operator.int("axis")
    if axis:
        return [b.op("Softmax", x, axis=axis)]
    y = b.op("Softmax", b.op("Flatten", x, axis=1), axis=-1)
    type_ = b.graph.known_type(x)
    return [b.op("Reshape", y, b.op("Shape", x), types=[type_])]


def _sigmoid(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x = operands[0]
    assert x is not None
    return [b.op("Sigmoid", x)]


TABLE.add(
    "StopGradient",
    inputs="X",
    infer=same_type,
    expand=nothing,
    summary="X, through which no gradient flows back",
)
TABLE.add(
    "MakeLoss",
    inputs="X",
    attributes=[_SCALE, _NORMALIZATION, AttributeSpec("valid_thresh", "float", default=0.0)],
    infer=same_type,
    expand=_identity,
    traits=_HEAD,
    summary="X, whose gradient is grad_scale (divided by the batch or the valid count when normalized)",
)
TABLE.add(
    "SoftmaxOutput",
    inputs="X L?",
    attributes=[
        AttributeSpec("axis", "int", default=-1),  # 0: all axes but the batch together
        _LABEL,
        _SCALE,
        AttributeSpec("ignore_label", "float"),
        _NORMALIZATION,
        AttributeSpec("smooth_alpha", "float", default=0.0),
    ],
    infer=same_type,
    expand=_softmax,
    traits=_HEAD,
    summary="softmax of X, whose gradient is that of the cross-entropy against the label",
)
for _name, _expand in (
    ("LinearRegressionOutput", _identity),
    ("MAERegressionOutput", _identity),
    ("LogisticRegressionOutput", _sigmoid),
):
    TABLE.add(
        _name,
        inputs="X L?",
        attributes=[_LABEL, _SCALE],
        infer=same_type,
        expand=_expand,
        traits=_HEAD,
        summary="a regression head: its gradient is the difference to the label (its sign for MAE)",
    )
TABLE.add(
    "SVMOutput",
    inputs="X L?",
    attributes=[
        _LABEL,
        AttributeSpec("margin", "float", default=1.0),
        AttributeSpec("regularization_coefficient", "float", default=1.0),
        AttributeSpec("use_linear", "int", default=0),
    ],
    infer=same_type,
    expand=_identity,
    traits=_HEAD,
    summary="X, whose gradient is that of the hinge loss against the label",
)
