"""Loss heads, which are identity or softmax in inference, gradient stops, and losses that are computed."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


def _label(call: Call) -> tuple[Value | None, str | None]:
    """Return the label where the graph has it (an input that others read too, a computed one), else its name.

    A label that operators made of another has no name that is its own.
    """
    value = call.optional(1)
    return value, (call.names[1] or None) if value is None and len(call.names) > 1 else None


@TABLE.op("SoftmaxOutput")
def softmax_output(call: Call) -> Value:
    """Return softmax over the last axis, axis 1 with `multi_output`, or everything but the batch."""
    multiple, preserve = call.flag("multi_output"), call.flag("preserve_shape")
    axis = 1 if multiple else -1
    if not multiple and not preserve and call.rank() > 2:  # everything but the batch is one distribution
        axis = 0
    value, name = _label(call)
    ignored = call.float("ignore_label", -1.0)  # which old files have, used or not
    call.ignore("out_grad")  # whether a gradient from above scales the head's own
    return call.op(
        "regraft.SoftmaxOutput",
        call.value(0),
        value,
        axis=axis,
        label=name,
        grad_scale=call.float("grad_scale", 1.0),
        ignore_label=ignored if call.flag("use_ignore") else None,
        normalization=call.text("normalization", "null"),
        smooth_alpha=call.float("smooth_alpha", 0.0),
    )


@TABLE.op("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput")
def regression_output(call: Call) -> Value:
    """Return the data, or its sigmoid for the logistic one."""
    value, name = _label(call)
    scale = call.float("grad_scale", 1.0)
    return call.op(f"regraft.{call.operator}", call.value(0), value, label=name, grad_scale=scale)


@TABLE.op("SVMOutput")
def svm_output(call: Call) -> Value:
    """Return the data."""
    value, name = _label(call)
    return call.op(
        "regraft.SVMOutput",
        call.value(0),
        value,
        label=name,
        margin=call.float("margin", 1.0),
        regularization_coefficient=call.float("regularization_coefficient", 1.0),
        use_linear=call.flag("use_linear"),
    )


@TABLE.op("MakeLoss")
def make_loss(call: Call) -> Value:
    """Return the data, which is a loss."""
    return call.op(
        "regraft.MakeLoss",
        call.value(0),
        grad_scale=call.float("grad_scale", 1.0),
        normalization=call.text("normalization", "null"),
        valid_thresh=call.float("valid_thresh", 0.0),
    )


@TABLE.op("CTCLoss")
def ctc_loss(call: Call) -> Value:
    """Return the loss of each sequence; 0 where its frames cannot make its labels."""
    scores = call.op("LogSoftmax", call.value(0), axis=-1)
    frames, _, classes = call.shape(scores)
    call.static_shape(scores, [0, 2])  # each frame is a step
    call.static_shape(call.value(1), [1])
    first = call.text("blank_label", "first") == "first"
    labels, counts = call.cast(call.value(1), "int64"), list(range(2, call.count))
    batch = call.op("Shape", labels, start=0, end=1)
    if call.flag("use_data_lengths"):
        sizes = call.cast(call.value(counts.pop(0)), "int64")
    else:
        sizes = call.op("Expand", call.constant(frames, "int64"), batch)
    if call.flag("use_label_lengths"):
        lengths = call.cast(call.value(counts.pop(0)), "int64")
    else:
        lengths = _before(call, labels, 0 if first else -1)
    blank = 0 if first else classes - 1
    return call.op("regraft.CTCLoss", scores, labels, sizes, lengths, blank=blank, zero_infinity=1)


def _before(call: Call, labels: Value, padding: int) -> Value:
    """Count the labels of each row before the first padding."""
    ends = call.cast(call.op("Equal", labels, call.constant(padding)), "int32")
    seen = call.op("CumSum", ends, call.constant(1))
    left = call.cast(call.op("Equal", seen, call.scalar_like(0, seen)), "int64")
    return call.op("ReduceSum", left, call.constant([1]), keepdims=0)


@TABLE.op("BlockGrad")
def block_grad(call: Call) -> Value:
    """Return the data, and no gradient back."""
    return call.op("regraft.StopGradient", call.value(0))


@TABLE.op("softmax_cross_entropy")
def softmax_cross_entropy(call: Call) -> Value:
    """Return the sum over the batch of minus the logarithm of each label's probability."""
    x, labels = call.operands()
    (classes,) = call.static_shape(x, [1])
    labels = call.op("Unsqueeze", call.cast(labels, "int64"), call.constant([1]))
    inside = call.op("Clip", labels, call.constant(0), call.constant(classes - 1))
    found = call.op("GatherElements", call.op("LogSoftmax", x, axis=1), inside, axis=1)
    total = call.op("ReduceSum", found, call.constant([0, 1]), keepdims=0)
    return call.op("Neg", call.reshape(total, [1]))


@TABLE.op("_contrib_gradientmultiplier")
def gradient_multiplier(call: Call) -> Value:
    """Return the data; what comes back is multiplied, which training alone sees."""
    call.ignore("scalar", "is_int")
    return call.op("Identity", call.value(0))


@TABLE.op("IdentityAttachKLSparseReg")
def kl_sparse_regulariser(call: Call) -> Value:
    """Return the data; the penalty is in the gradient, which training alone sees."""
    call.ignore("sparseness_target", "penalty", "momentum")
    return call.op("Identity", call.operands()[0])
