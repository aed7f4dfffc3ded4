"""Traits of operators: one table for ONNX's; composites declare theirs beside their typing rules."""

from __future__ import annotations

from dataclasses import dataclass

CUMULATIVE = -1.0
"""The momentum of a BatchNormalization whose running statistics are the average of all batches so far.

ONNX has none; torch's layer averages so with ``momentum=None``.
"""


def moving_momentum(momentum: float) -> float:
    """Return the momentum of a layer that cannot average all batches: the usual one for `CUMULATIVE`.

    Example:
        >>> moving_momentum(CUMULATIVE), moving_momentum(0.5)
        (0.9, 0.5)
    """
    return 0.9 if momentum == CUMULATIVE else momentum


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of an operator, for code that treats operators alike.

    Attributes:
        elementwise: each element of the result depends on the elements at one place.
        broadcasting: its operands spread over one another, as NumPy's do.
        reduction: it combines the elements along axes into one.
        pool: it combines the elements of windows, or of all spatial axes, into one.
        activation: networks put it between layers, elementwise, for being non-linear.
        normalisation: it divides by a spread of what it is given.
        heavy: it adds up products of its operands: where the time goes and what counts as depth.
        recurrent: it runs over the steps of a sequence, or is one such step.
        moving: each element of its results is one of an operand's, at a place that attributes and shapes
            decide.
        selecting: each element of its result is one of its first operand's, at a place that the second names.
        measuring: its result depends on the shape of its operand only.
        random: two runs of it on equal operands differ, in training at least.
        trains_differently: it computes something else in training than in inference.
        own_gradient: the gradient that it passes back is its own, whatever comes: the head of a loss.
        dropout: it gives its first operand back in inference, and in training drops a share, `ratio`, of
            what is said here; empty for any other operator. "Dropout" alone drops single elements.
        bends: the values of its first operand at which one function ends and another begins.
        loops: its expansion runs nested graphs.
        dequantises: it gives stored numbers back as floats, which take more space than the numbers.
        control_flow: it runs nested graphs; derived.
        windowed: it slides a window whose padding it may choose itself; derived.
        drops_inside: it drops a share of its own, its attribute `dropout`, in training; derived.
    """

    elementwise: bool = False
    broadcasting: bool = False
    reduction: bool = False
    pool: bool = False
    activation: bool = False
    normalisation: bool = False
    heavy: bool = False
    recurrent: bool = False
    moving: bool = False
    selecting: bool = False
    measuring: bool = False
    random: bool = False
    trains_differently: bool = False
    own_gradient: bool = False
    dropout: str = ""
    bends: tuple[float, ...] = ()
    loops: bool = False
    dequantises: bool = False
    control_flow: bool = False
    windowed: bool = False
    drops_inside: bool = False


NO_TRAITS = Traits()
"""The traits of an operator with none of the above."""

_ONNX: tuple[tuple[Traits, str], ...] = (
    (
        Traits(elementwise=True),
        "Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Cos Cosh Erf Exp Floor IsInf "
        "IsNaN Log Neg Not Reciprocal Round Sin Sinh Sqrt Tan",
    ),
    (Traits(elementwise=True, bends=(0.0,)), "Abs Sign"),
    (
        Traits(elementwise=True, broadcasting=True),
        "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
        "LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor",
    ),
    (
        Traits(elementwise=True, activation=True),
        "Clip Gelu HardSigmoid Mish Shrink Sigmoid Softplus Softsign Tanh ThresholdedRelu",
    ),
    (Traits(elementwise=True, activation=True, bends=(0.0,)), "Celu Elu LeakyRelu PRelu Relu Selu"),
    (Traits(elementwise=True, activation=True, bends=(-3.0, 3.0)), "HardSwish"),
    (
        Traits(reduction=True),
        "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare",
    ),
    (
        Traits(pool=True),
        "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxRoiPool RoiAlign",
    ),
    (
        Traits(normalisation=True),
        "GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization "
        "MeanVarianceNormalization RMSNormalization",
    ),
    (Traits(normalisation=True, trains_differently=True), "BatchNormalization"),
    (
        Traits(heavy=True),
        "Attention Conv ConvInteger ConvTranspose DeformConv Einsum Gemm MatMul MatMulInteger QLinearConv "
        "QLinearMatMul",
    ),
    (Traits(recurrent=True), "GRU LSTM RNN"),
    (
        Traits(moving=True),
        "Concat DepthToSpace Expand Flatten Identity Reshape ReverseSequence Slice SpaceToDepth Split "
        "Squeeze Tile Transpose Unsqueeze",
    ),
    (Traits(selecting=True), "Gather GatherElements GatherND"),
    (Traits(measuring=True), "EyeLike Shape Size"),
    (Traits(random=True, measuring=True), "RandomNormalLike RandomUniformLike"),
    (Traits(random=True), "Bernoulli Multinomial RandomNormal RandomUniform"),
    (Traits(random=True, trains_differently=True, dropout="Dropout"), "Dropout"),
    (NO_TRAITS, "If Loop Scan SequenceMap"),  # but for what is derived
    (NO_TRAITS, "Constant ConstantOfShape OneHot Range"),
    (NO_TRAITS, "CumSum Det Hardmax LogSoftmax NonZero Softmax TopK Trilu Unique"),
    (NO_TRAITS, "Compress Pad ScatterElements ScatterND"),
    (
        NO_TRAITS,
        "AffineGrid CenterCropPad Col2Im GridSample MaxUnpool NonMaxSuppression Resize RotaryEmbedding",
    ),
    (NO_TRAITS, "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"),
    (NO_TRAITS, "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT"),
    (Traits(dequantises=True), "DequantizeLinear"),
    (NO_TRAITS, "DynamicQuantizeLinear QuantizeLinear"),
    (NO_TRAITS, "ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"),
    (
        NO_TRAITS,
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct "
        "SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence",
    ),
)
"""Every operator of ONNX's default domain, each in one row.

Random ones are listed since releases of onnx that are supported do not all tell; a test asks one that does.
"""

CLASSIFIED = {name: traits for traits, names in _ONNX for name in names.split()}
"""ONNX operator -> the traits of its row."""
