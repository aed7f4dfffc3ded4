"""Emitters of normalisation layers."""

from __future__ import annotations

from ....ir import Value, moving_momentum
from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


@TABLE.op("BatchNormalization")
def batch_norm(e: View) -> Reference:
    """Emit BatchNorm; a scale of ones becomes fix_gamma, whether the layer still holds a gamma or not."""
    o, scale, gamma = e.operator, e.constant(1), e.find_parameter("gamma")
    fixed = scale is not None and bool((scale == 1).all())
    if not fixed:
        weight = e.input(1)
    elif gamma is not None:
        weight = e.builder.values[Value(gamma)]
    else:  # a pass has left it out, as nothing reads it
        weight = e.builder.reference(e.value(1), f"{e.name}_gamma")
    return e.node(
        "BatchNorm", [e.input(), weight, e.input(2), e.auxiliary(3), e.auxiliary(4)],
        eps=o.float("epsilon"), momentum=moving_momentum(o.float("momentum")), fix_gamma=fixed,
        use_global_stats=e.argument("use_global_stats", "False"), axis=1,
    )  # fmt: skip


@TABLE.op("LayerNormalization")
def layer_norm(e: View) -> Reference:
    """Emit LayerNorm."""
    axis = e.operator.int("axis")
    if axis not in (-1, len(e.shape()) - 1) or not e.has(2):
        raise e.refused("expected a layer normalisation with a bias over the last axis")
    return e.node("LayerNorm", e.inputs(), axis=-1, eps=e.operator.float("epsilon"))


@TABLE.op("InstanceNormalization")
def instance_norm(e: View) -> Reference:
    """Emit InstanceNorm."""
    return e.node("InstanceNorm", e.inputs(), eps=e.operator.float("epsilon"))


@TABLE.op("LRN")
def local_response_norm(e: View) -> Reference:
    """Emit LRN."""
    o = e.operator
    return e.node(
        "LRN", e.inputs(), nsize=o.int("size"), alpha=o.float("alpha"), beta=o.float("beta"),
        knorm=o.float("bias"),
    )  # fmt: skip
