"""Loss heads, which are identity or softmax in inference, and gradient stops."""

from __future__ import annotations

from ....ir import Value
from ..call import Use, new_table

TABLE = new_table()


def _label(use: Use) -> tuple[Value | None, str | None]:
    """The label where the graph has it (an input that others read too, a computed one), else its name."""
    value = use.inputs[1] if len(use.inputs) > 1 else None
    return value, use.names[1] if value is None and len(use.names) > 1 else None


@TABLE.op("SoftmaxOutput")
def softmax_output(use: Use) -> Value:
    """Softmax over the last axis, axis 1 with `multi_output`, or everything but the batch."""
    multiple, preserve = use.attrs.flag("multi_output"), use.attrs.flag("preserve_shape")
    axis = 1 if multiple else -1
    if not multiple and not preserve and use.rank(use.x) > 2:  # everything but the batch is one distribution
        axis = 0
    value, name = _label(use)
    use.attrs.ignore("out_grad")  # whether a gradient from above scales the head's own
    return use.b.op(
        "regraft.SoftmaxOutput",
        use.x,
        value,
        axis=axis,
        label=name,
        grad_scale=use.attrs.float("grad_scale", 1.0),
        ignore_label=use.attrs.float("ignore_label", -1.0) if use.attrs.flag("use_ignore") else None,
        normalization=use.attrs.text("normalization", "null"),
        smooth_alpha=use.attrs.float("smooth_alpha", 0.0),
    )


@TABLE.op("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput")
def regression_output(use: Use) -> Value:
    """The data, or its sigmoid for the logistic one."""
    value, name = _label(use)
    scale = use.attrs.float("grad_scale", 1.0)
    return use.b.op(f"regraft.{use.node.op}", use.x, value, label=name, grad_scale=scale)


@TABLE.op("SVMOutput")
def svm_output(use: Use) -> Value:
    """The data."""
    value, name = _label(use)
    return use.b.op(
        "regraft.SVMOutput",
        use.x,
        value,
        label=name,
        margin=use.attrs.float("margin", 1.0),
        regularization_coefficient=use.attrs.float("regularization_coefficient", 1.0),
        use_linear=use.attrs.flag("use_linear"),
    )


@TABLE.op("MakeLoss")
def make_loss(use: Use) -> Value:
    """The data, which is a loss."""
    return use.b.op(
        "regraft.MakeLoss",
        use.x,
        grad_scale=use.attrs.float("grad_scale", 1.0),
        normalization=use.attrs.text("normalization", "null"),
        valid_thresh=use.attrs.float("valid_thresh", 0.0),
    )


@TABLE.op("BlockGrad")
def block_grad(use: Use) -> Value:
    """The data, and no gradient back."""
    return use.b.op("regraft.StopGradient", use.x)
