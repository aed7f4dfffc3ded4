"""Emitters of loss heads and gradient stops."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()
TABLE.direct({"regraft.StopGradient": "BlockGrad"})


def _label(e: View) -> Reference:
    return (
        e.input(1) if e.has(1) else e.builder.label(str(e.operator.attribute("label") or f"{e.name}_label"))
    )


@TABLE.op("regraft.SoftmaxOutput")
def softmax_output(e: View) -> Reference:
    """Emit SoftmaxOutput, with its label."""
    o, axis = e.operator, e.operator.int("axis")
    ignore = o.attribute("ignore_label")
    alone = axis == -1 and len(e.shape()) > 2
    return e.node(
        "SoftmaxOutput", [e.input(), _label(e)], multi_output=True if axis == 1 else None,
        preserve_shape=True if alone else None, grad_scale=o.float("grad_scale"),
        use_ignore=True if ignore is not None else None, ignore_label=ignore,
        normalization=o.str("normalization"), smooth_alpha=o.float("smooth_alpha"),
    )  # fmt: skip


@TABLE.op("regraft.LinearRegressionOutput", "regraft.MAERegressionOutput", "regraft.LogisticRegressionOutput")
def regression_output(e: View) -> Reference:
    """Emit the regression head of the same name, with its label."""
    return e.node(e.operator.op_type, [e.input(), _label(e)], grad_scale=e.operator.float("grad_scale"))


@TABLE.op("regraft.SVMOutput")
def svm_output(e: View) -> Reference:
    """Emit SVMOutput, with its label."""
    o = e.operator
    return e.node(
        "SVMOutput", [e.input(), _label(e)], margin=o.float("margin"),
        regularization_coefficient=o.float("regularization_coefficient"),
        use_linear=bool(o.int("use_linear")),
    )  # fmt: skip


@TABLE.op("regraft.MakeLoss")
def make_loss(e: View) -> Reference:
    """Emit MakeLoss."""
    o = e.operator
    return e.node(
        "MakeLoss", [e.input()], grad_scale=o.float("grad_scale"),
        normalization=o.str("normalization"), valid_thresh=o.float("valid_thresh"),
    )  # fmt: skip
