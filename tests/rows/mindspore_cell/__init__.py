"""The cases of the MindSpore frontend's rows: whoever adds a row adds an expression that compiles to it."""

import numpy as np

from .case import Group, floats, integers
from .more import CLASSES, NUMBERS, OTHER_MATH, OTHER_PLACES, PATCHES, SETS, SIGNALS

_X = {"x": floats(2, 3, 4), "y": floats(2, 3, 4, seed=1)}

MATH = Group(
    _X,
    {
        **{
            n: f"A.{n}()(x)"
            for n in [
                "Abs",
                "Atan",
                "Ceil",
                "Cos",
                "Cosh",
                "Erf",
                "Exp",
                "Expm1",
                "Floor",
                "IsInf",
                "Neg",
                "Sign",
            ]
        },
        **{
            n: f"A.{n}()(x)"
            for n in ["Sin", "Sinh", "Square", "Tan", "Tanh", "Sigmoid", "ReLU6", "GeLU", "HSigmoid"]
        },
        **{
            n: f"A.{n}()(x)"
            for n in ["HSwish", "SiLU", "FastGeLU", "Identity", "Elu", "CeLU", "HShrink", "SoftShrink"]
        },
        **{n: f"A.{n}()(ops.abs(x) + 0.1)" for n in ["Log", "Log1p", "Reciprocal", "Rsqrt", "Sqrt"]},
        **{n: f"P.{n}()(x)" for n in ["IsNan", "Mish", "SeLU", "Softplus", "Softsign"]},
        "ReLU": "(A.ReLU()(x), A.ReLU()((x * 4).astype(ms.int64)))",
        "Asin": "A.Asin()(ops.sigmoid(x))",
        "ACos": "ops.acos(ops.sigmoid(x))",
        "Round": "A.Round()(x * 3)",
        "Softmax": "A.Softmax(1)(x)",
        "LogSoftmax": "A.LogSoftmax()(x)",
        "PReLU": "A.PReLU()(x, self.slope)",
        "Cast": "A.Cast()(x, ms.int32)",
        "ClampScalar": "A.ClampScalar()(x, -0.5, 0.5)",
        "Lerp": "A.Lerp()(x, y, Tensor(0.3, ms.float32))",
        "Addcdiv": "A.Addcdiv()(x, y, ops.abs(x) + 1, Tensor(0.5, ms.float32))",
        "Addcmul": "A.Addcmul()(x, y, x, Tensor(0.5, ms.float32))",
        "Pow": "A.Pow()(ops.abs(x), y)",
        "PowTensorScalar": "A.PowTensorScalar()(x, 3)",
    },
    {"slope": "ms.Parameter(Tensor([0.1, 0.2, 0.3], ms.float32))"},
)

_I = {"i": integers(2, 3, 4, high=60) - 30, "j": integers(2, 3, 4, high=9) - 4}

SPECIAL = Group(
    {**_X, **_I},
    {
        **{n: f"ops.{n.lower()}(x * 2)" for n in ("Digamma", "Erfc", "Lgamma")},
        **{f"BesselI{n}": f"ops.bessel_i{n}(x * 2)" for n in ("0", "1", "0e", "1e")},
        **{f"BesselK{n}": f"ops.bessel_k{n}(x)" for n in ("0", "1", "0e", "1e")},
        **{f"BesselJ{n}": f"ops.bessel_j{n}(x * 2)" for n in (0, 1)},
        **{f"BesselY{n}": f"ops.bessel_y{n}(ops.relu(x * 9))" for n in (0, 1)},
        "Erfinv": "ops.erfinv(ops.tanh(x) * 0.9)",
        "Polygamma": "ops.polygamma(Tensor(2, ms.int32), ops.abs(x) + 0.1)",
        "Zeta": "P.Zeta()(ops.abs(x) + 1.5, ops.abs(y) + 0.1)",
        "Gcd": "ops.gcd(i, j)",
    },
    {},
)

ARITHMETIC = Group(
    _X,
    {
        **{n: f"A.{n}()(x, y)" for n in ["Add", "AddExt", "Sub", "SubExt", "Mul", "Maximum", "Minimum"]},
        **{n: f"A.{n}()(x, ops.abs(y) + 1)" for n in ["Div", "RealDiv"]},
        "Muls": "ms.mint.mul(x, 2)",
        "Divs": "ms.mint.div(x, 2)",
        "AddScalar": "ms.mint.add(x, 2, alpha=3)",
        "SubScalar": "ms.mint.sub(x, 2, alpha=3)",
        "InplaceAddExt": "(x * 1).add_(y, alpha=2)",
        "InplaceAddsExt": "(x * 1).add_(2, alpha=2)",
        "InplaceSubExt": "(x * 1).sub_(y, alpha=2)",
        "InplaceSubScalar": "(x * 1).sub_(2, alpha=2)",
        "InplaceMul": "(x * 1).mul_(y)",
        "InplaceMuls": "(x * 1).mul_(2)",
        "InplaceDiv": "(x * 1).div_(ops.abs(y) + 1)",
        "InplaceDivs": "(x * 1).div_(2)",
        **{
            n: f"A.{n}()(x, y)" for n in ["Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual"]
        },
        "EqScalar": "ms.mint.eq(x, 0)",
        "GreaterEqualScalar": "ms.mint.ge(x, 0)",
        "LessScalar": "ms.mint.lt(x, 0)",
        **{n: f"A.{n}()(x > 0, y > 0)" for n in ["LogicalAnd", "LogicalOr", "LogicalXor"]},
        "LogicalNot": "A.LogicalNot()(x > 0)",
        "Select": "A.Select()(x > 0, x, y)",
        "MaskedFill": "A.MaskedFill()(x, y > 0, Tensor(0.5, ms.float32))",
    },
    {},
)

REDUCTIONS = Group(
    _X,
    {
        **{
            n: f"A.{n}(True)(x, 1)"
            for n in ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"]
        },
        "ReduceAll": "(A.ReduceAll()(x > 0, (1, 2)), A.ReduceAll()(ops.relu(x), (1,)),"
        " A.ReduceAll()(ops.floor(x).astype(ms.int32), (2,)))",
        "ReduceAny": "A.ReduceAny()(x > 0, (1, 2))",  # of numbers MindSpore's kernel gives other answers
        **{n: f"A.{n}()(x, 1)" for n in ["MeanExt", "SumExt", "ProdExt"]},
        **{n: f"A.{n}()(x)" for n in ("Max", "Min")},
        **{n: f"A.{n}(1)(x)" for n in ["ArgMaxWithValue", "ArgMinWithValue", "Argmax", "Argmin"]},
        "ReduceStd": "A.ReduceStd((1, 2))(x)",
        "CumSum": "A.CumSum()(x, 1)",
        "Cummax": "ops.cummax(x, 1)",
        "Cummin": "ops.cummin(x, 2)",
        "CumProd": "ops.cumprod(x, -1)",
        "CumulativeLogsumexp": "ops.logcumsumexp(x, 1)",
        "LpNorm": "P.LpNorm((1, 2), 1)(x)",
        "Sort": "P.Sort()(x)",
        "TopK": "P.TopK()(x, 2)",
        "L2Normalize": "P.L2Normalize(1)(x)",
    },
    {},
)

_SQUARE = floats(2, 3, 3) + 2 * np.eye(3, dtype=np.float32)
_PIVOTS = "Tensor([[2, 3, 3], [1, 2, 3]], ms.int32)"

MATRICES = Group(
    {"x": _SQUARE, "g": _SQUARE @ _SQUARE.swapaxes(1, 2), "b": floats(2, 3, 2), "t": floats(2, 4, 3)},
    {
        "Cholesky": "(ops.cholesky(g), ops.cholesky(g, True))",
        "CholeskySolve": "(ops.cholesky_solve(b, x), ops.cholesky_solve(b, x, True))",
        "MatrixInverse": "(ops.inverse(x), P.MatrixInverse(True)(x))",
        "MatrixDeterminant": "ops.det(x)",
        "LogMatrixDeterminant": "ops.slogdet(-x)",
        "MatrixSolve": "(ops.matrix_solve(x, b), ops.matrix_solve(x, b, True))",
        "MatrixTriangularSolve": "(P.MatrixTriangularSolve()(x, b),"
        " P.MatrixTriangularSolve(False, True)(x, b))",
        "MatrixPower": "(ops.matrix_power(x, -2), ops.matrix_power(x, 3))",
        "Qr": "(ops.qr(t), ops.qr(t, 'complete'))",
        "Geqrf": "ops.geqrf(t)",
        "Orgqr": "ops.orgqr(t, ops.sigmoid(t[:, 0]))",
        "Svd": "ops.svd(t, compute_uv=False)",
        "SelfAdjointEig": "math_ops.SelfAdjointEig(False)(g)[0]",
        "Cdist": "(ops.cdist(t, x), ops.cdist(t, x, 3.0))",
        "Renorm": "(ops.renorm(t, 2, 1, 1.0), ops.renorm(t, 1, 2, 0.5))",
        "Median": "(ops.median(t, 1), ops.median(t, 2, True), ops.nanmedian(t, 1))",
        "SearchSorted": "ops.searchsorted(Tensor([-1.0, 0.0, 1.0]), t[:, 0, 0], right=True)",
    },
    {},
)

_SEQUENCES = "Tensor([[1, 2, 2], [3, 1, 0]], ms.int32), Tensor([6, 5], ms.int32), Tensor([3, 2], ms.int64)"

LOSSES = Group(
    {"x": floats(6, 2, 5)},
    {
        "CTCLossV2": f"(ops.ctc_loss(ops.log_softmax(x, 2), {_SEQUENCES}, reduction='none')[0],"
        f" ops.ctc_loss(ops.log_softmax(x, 2), {_SEQUENCES}, 4, zero_infinity=True)[0])",
    },
    {},
    dynamic=False,
)

FIXED_MATRICES = Group(
    {"x": _SQUARE, "b": floats(2, 3, 2), "f": np.tril(_SQUARE)},
    {
        "CholeskyInverse": "(ops.cholesky_inverse(f[0]), ops.cholesky_inverse(f[0].T, True))",
        "LuSolve": f"ops.lu_solve(b, x, {_PIVOTS})",
        "LuUnpack": f"ops.lu_unpack(x, {_PIVOTS})",
    },
    {},
    dynamic=False,
)

WHOLE_NUMBERS = Group(
    {"i": integers(2, 3, 4, high=60) - 30, "j": integers(2, 3, 4, high=9) + 1, **_X},
    {
        "FloorDiv": "(ops.floor_div(i, j), ops.floor_div(x * 9, y))",
        "FloorMod": "(ops.floor_mod(i, j), ops.floor_mod(x * 9, ops.abs(y) + 1))",
        "TruncateDiv": "(ops.truncate_div(i, j), ops.truncate_div(x * 9, y))",
        "TruncateMod": "(ops.truncate_mod(i, j), ops.truncate_mod(x * 9, ops.abs(y) + 1))",
        "Mod": "P.Mod()(x * 9, ops.abs(y) + 1)",
        "DivMod": "(ops.div(x * 9, y, rounding_mode='floor'), ops.div(x * 9, y, rounding_mode='trunc'))",
        "Trunc": "ops.trunc(x * 9)",
        "BitwiseAnd": "(ops.bitwise_and(i, j), ms.mint.ne(x, 0) & ms.mint.lt(x, 1))",
        "BitwiseOr": "ops.bitwise_or(i, j)",
        "BitwiseXor": "ops.bitwise_xor(i, j)",
        "LeftShift": "ops.bitwise_left_shift(i, j)",
        "RightShift": "ops.bitwise_right_shift(i, j)",
    },
    {},
)

MORE_MATH = Group(
    _X,
    {
        "Acosh": "ops.acosh(ops.abs(x) + 1.1)",
        "Asinh": "ops.asinh(x)",
        "Atanh": "ops.atanh(ops.tanh(x) * 0.9)",
        "Atan2": "ops.atan2(x, y)",
        "Hypot": "ops.hypot(x, y)",
        "Sinc": "ops.sinc(ops.relu(x))",
        "Heaviside": "ops.heaviside(ops.relu(x), y)",
        "Xlogy": "ops.xlogy(ops.relu(x), ops.abs(y))",
        "IsFinite": "ops.isfinite(x / ops.relu(y))",
        "NanToNum": "(ms.mint.nan_to_num(x / ops.relu(y)), ops.nan_to_num(ops.log(x), 0.5, 2.0, 3.0))",
        "MaskedFillScalar": "x.masked_fill(x > 0, -1.0)",
        "SmoothL1Loss": "(ops.smooth_l1_loss(x, y, 0.5), ops.smooth_l1_loss(x, y, reduction='mean'))",
        "KLDivLoss": "(ops.kl_div(x, ops.relu(y), 'none'), ops.kl_div(x, ops.relu(y), 'batchmean'))",
        "BCEWithLogitsLoss": "ops.binary_cross_entropy_with_logits(x, ops.sigmoid(y), ops.abs(y),"
        " ops.abs(x))",
        "MaxDim": "ms.mint.max(x, 1)",
        "MinDim": "ms.mint.min(x, 2, True)",
    },
    {},
)

FOUND_PLACES = Group(
    {**_X, "i": integers(2, 3, 1, high=4)},
    {
        "NonZero": "ops.nonzero(ops.relu(x))",
        "MaskedSelect": "(ops.masked_select(x, y > 0), ops.masked_select(x, y[:, :1] > 0))",
        "TensorScatterElements": "(ops.tensor_scatter_elements(x, i, y[:, :, :1], 2),"
        " ops.tensor_scatter_elements(x, i, y[:, :, :1], 2, 'add'))",
        "Scatter": "ms.mint.scatter(x, 2, ops.cast(i, ms.int64), y[:, :, :1])",
        "IndexAddExt": "(ms.mint.index_add(x * 1, 1, Tensor([0, 2], ms.int32), y[:, :2]),"
        " ms.mint.index_add(x * 1, 2, Tensor([0, 2, 1], ms.int32), y[:, :, :3], alpha=2))",
        "IndexAdd": "ops.index_add(x * 1, Tensor([0, 2], ms.int32), y[:, :2], 1)",
        "TensorScatterMax": "ops.tensor_scatter_max(x, Tensor([[0], [1]], ms.int32), y[:2])",
        "TensorScatterMin": "ops.tensor_scatter_min(x, Tensor([[0], [1]], ms.int32), y[:2])",
        "TensorScatterMul": "ops.tensor_scatter_mul(x, Tensor([[0], [1]], ms.int32), y[:2])",
        "TensorScatterSub": "ops.tensor_scatter_sub(x, Tensor([[0], [0]], ms.int32), y[:2])",
        "ScatterNd": "ops.scatter_nd(Tensor([[2], [2]], ms.int32), y[:2], (4, 3, 4))",
        "UnsortedSegmentSum": "ops.unsorted_segment_sum(x[:2], Tensor([1, 1], ms.int32), 3)",
    },
    {},
)

VIEWS = Group(
    {**_X, "square": floats(2, 3, 3)},
    {
        "TransposeView": "ms.mint.permute(x, (0, 2, 1))",
        "TransposeExtView": "ms.mint.transpose(x, 1, -1)",
        "ExpandDimsView": "ms.mint.unsqueeze(x, 1)",
        "BroadcastToView": "ms.mint.broadcast_to(x[:, :1], (-1, 3, 4))",
        "FlattenExt": "(ms.mint.flatten(x, 1), ms.mint.flatten(x, 0, 1))",
        "SplitWithSizeView": "ms.mint.split(x, (1, 3), dim=2)",
        "SplitTensorView": "ms.mint.split(x, 3, dim=2)",
        "ChunkView": "ms.mint.chunk(x, 2, 1)",
        "UnstackExtView": "ms.mint.unbind(x, 1)",
        "SelectExtView": "ms.mint.select(x, 1, 2)",
        "NarrowView": "ms.mint.narrow(x, 2, 1, 2)",
        "Diagonal": "(ops.diagonal(x, 1, 1, 2), ops.diagonal(x[0], -1))",
        "Diag": "ops.diag(x[0, 0])",
        "Meshgrid": "(ops.meshgrid(x[0, 0], y[0, :, 0]), ops.meshgrid(x[0, 0], y[0, :, 0], indexing='ij'))",
        "Eye": "x + ops.eye(3, 4, ms.float32)",
    },
    {},
)

IMAGES = Group(
    {
        "x": floats(2, 4, 5, 6),
        "line": floats(2, 3, 5),
        "box": floats(1, 2, 3, 4, 4),
        "at": floats(2, 3, 4, 2),
        "where": floats(1, 2, 3, 2, 3),
    },
    {
        "ResizeLinear1D": "(ops.interpolate(line, size=9, mode='linear', align_corners=False),"
        " ops.interpolate(line, size=9, mode='linear', align_corners=True))",
        "ResizeNearestNeighborV2": "ops.interpolate(x, size=(9, 7), mode='nearest')",
        "UpsampleNearest2D": "(ms.mint.nn.functional.interpolate(x, size=(9, 7), mode='nearest'),"
        " ms.mint.nn.functional.interpolate(x, scale_factor=2.0, mode='nearest'))",
        "UpsampleTrilinear3D": "(ops.interpolate(box, size=(5, 8, 8), mode='trilinear'),"
        " ops.interpolate(box, size=(5, 8, 8), mode='trilinear', align_corners=True),"
        " ops.interpolate(ops.cat((box, box), 3)[:, :, :, :5], scale_factor=(2.0, 1.4, 1.5),"
        " mode='trilinear'),"
        " ops.interpolate(box, scale_factor=(1.5, 1.7, 2.0), mode='trilinear', align_corners=True))",
        "UpsampleNearest1D": "ms.mint.nn.functional.interpolate(line, size=8, mode='nearest')",
        "UpsampleNearest3D": "ms.mint.nn.functional.interpolate(box, size=(5, 8, 8), mode='nearest')",
        "GridSampler3D": "ops.grid_sample(box, ops.tanh(where))",
        "GridSampler2D": "(ops.grid_sample(x, ops.tanh(at)),"
        " ops.grid_sample(x, at, mode='nearest', padding_mode='border', align_corners=True))",
    },
    {},
    dynamic=False,
)

SHAPES = Group(
    {**_X, "image": floats(2, 4, 5, 6)},
    {
        "BroadcastTo": "A.BroadcastTo((-1, 3, 4))(x[:, :1])",
        "Concat": "A.Concat(1)((x, y))",
        "ExpandDims": "A.ExpandDims()(x, 1)",
        "Flatten": "A.Flatten()(x)",
        "Reshape": "A.Reshape()(x, (-1, 12))",
        "ReverseV2": "A.ReverseV2([1])(x)",
        "Slice": "A.Slice()(x, (0, 1, 0), (-1, 2, 3))",
        "Split": "A.Split(2, 2)(x)",
        "SplitWithSize": "A.SplitWithSize()(x, (1, 3), 2)",
        "Squeeze": "(A.Squeeze(1)(x[:, :1]), x.squeeze(1))",
        "Stack": "P.Stack(1)((x, y))",
        "StridedSlice": "x[:, 1:, ::2]",
        "Tile": "A.Tile()(x, (1, 2, 3))",
        "Transpose": "A.Transpose()(x, (0, 2, 1))",
        "Tril": "P.Tril()(x)",
        "Triu": "A.Triu(1)(x)",
        "Unstack": "P.Unstack(1)(x)",
        "Pad": "P.Pad(((0, 0), (1, 2), (0, 1)))(x)",
        "PadV3": "P.PadV3()(x, (1, 2, 0, 1), Tensor(0.5, ms.float32))",
        "MirrorPad": "P.MirrorPad()(x, Tensor([[0, 0], [1, 1], [2, 0]]))",
        "ChannelShuffle": "P.ChannelShuffle(2)(image)",
        "ResizeBilinearV2": "A.ResizeBilinearV2(True)(image, (7, 9))",
        "ResizeNearestNeighbor": "A.ResizeNearestNeighbor((7, 9))(image)",
    },
    {},
)

PLACES = Group(
    {"x": floats(2, 3, 4), "i": integers(2, 3, 4, high=3)},
    {
        "Gather": "A.Gather()(self.table, i, 0)",
        "GatherD": "A.GatherD()(x, 1, i)",
        "OneHot": "A.OneHot()(i - 1, 3, Tensor(2.0, ms.float32), Tensor(0.5, ms.float32))",
    },
    {"table": "ms.Parameter(Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ms.float32))"},
)

FIXED_PLACES = Group(
    {"x": floats(3, 4), "image": floats(2, 4, 6, 5)},
    {
        "FillV2": "P.FillV2()((2, 3), x[0, 0])",
        "GatherNd": "A.GatherNd()(x, Tensor([[0, 1], [2, 3]]))",
        "TensorScatterAdd": "A.TensorScatterAdd()(x, Tensor([[0], [0]]), x[:2])",
        "TensorScatterUpdate": "P.TensorScatterUpdate()(x, Tensor([[2], [0]]), x[:2])",
        "TensorCopySlices": "(self.put(x, x[:1], (1,), (2,), (1,)),"
        " self.put(x, x[:1, 1:], (-1, 1), (9, 4), (1, 1)), self.put(x, x + 1, (0,), (3,), (1,)))",
        "Conv2DBackpropInput": "P.Conv2DBackpropInput(2, (3, 2), pad_mode='pad', pad=(1, 0, 1, 0),"
        " stride=(2, 1))(image, self.kernel, (2, 2, 12, 5))",
    },
    {"kernel": "ms.Parameter(ops.ones((4, 2, 3, 2)) * 0.3)", "put": "TensorCopySlices()"},
    dynamic=False,
)


def _weights(name: str, *shapes: tuple[int, ...]) -> dict[str, str]:
    return {
        f"{name}{n}": f"ms.Parameter(Tensor({floats(*s, seed=n).round(3).tolist()}, ms.float32))"
        for n, s in enumerate(shapes)
    }


LAYERS = Group(
    {"x": floats(2, 3, 4), "image": floats(2, 4, 6, 5), "solid": floats(2, 4, 4, 6, 5)},
    {
        "Conv2D": "P.Conv2D(6, (3, 2), pad_mode='pad', pad=(1, 0, 1, 0), stride=(2, 1), group=2)"
        "(image, self.w0)",
        "BiasAdd": "A.BiasAdd()(image, self.w1)",
        "Conv3D": "P.Conv3D(3, 2, pad_mode='same', stride=2)(solid, self.w2)",
        "Conv2DTranspose": "self.transposed(image)",
        "MatMul": "A.MatMul()(x[:, 0], self.w3)",
        "BatchMatMul": "A.BatchMatMul(False, True)(x, x)",
        "MatMulExt": "A.MatMulExt()(x, self.w3)",
        "BatchMatMulExt": "A.BatchMatMulExt()(x, ops.transpose(x, (0, 2, 1)))",
        "Dense": "A.Dense()(x, self.w4, self.w5)",
        "BatchNorm": "A.BatchNorm(False, 1e-3)(image, self.w1, self.w6, self.w7, ops.abs(self.w8))[0]",
        "LayerNorm": "A.LayerNorm(2, 2, 1e-3)(x, self.w1, self.w6)[0]",
        "GroupNorm": "A.GroupNorm()(image, 2, self.w1, self.w6, 1e-3)[0]",
        "LRN": "P.LRN(1, 2.0, 0.1, 0.6)(image)",
        "MaxPool": "P.MaxPool((3, 2), (2, 2), 'same')(image)",
        "AvgPool": "A.AvgPool((3, 2), (2, 2), 'same')(image)",
        "MaxPool3D": "P.MaxPool3D((2, 3, 2), 2, 'same')(solid)",
        "AvgPool3D": "P.AvgPool3D((2, 3, 2), 2, 'pad', 1)(solid)",
        "MaxPoolWithArgmaxV2": "P.MaxPoolWithArgmaxV2((3, 2), (2, 2), (1, 0))(image)[0]",
        "MaxPool3DWithArgmax": "P.MaxPool3DWithArgmax((2, 3, 2), (2, 2, 2), (1, 1, 0))(solid)[0]",
        "AdaptiveAvgPool2D": "P.AdaptiveAvgPool2D((3, 2))(image)",
        "AdaptiveMaxPool2D": "(P.AdaptiveMaxPool2D((3, 2))(image)[0],"
        " ops.adaptive_max_pool2d(image, (4, 3), True), ops.adaptive_max_pool2d(image, (3, 5)))",
        "AdaptiveMaxPool3D": "(ops.adaptive_max_pool3d(solid, (2, 3, 2)),"
        " ops.adaptive_max_pool3d(solid, (3, 3, 2), True))",
        "MaxUnpool2D": "ops.max_unpool2d(*P.MaxPoolWithArgmaxV2((3, 2), (2, 2))(image), (3, 2), 2,"
        " output_size=(6, 5))",
        "MaxUnpool3D": "ops.max_unpool3d(*P.MaxPool3DWithArgmax(2, 2, 0)(solid), 2, output_size=(4, 6, 5))",
        "AdaptiveAvgPool3D": "P.AdaptiveAvgPool3D((2, 3, 2))(solid)",
        "Dropout": "ops.dropout(x, 0.3, self.training)",
        "Dropout2D": "ops.dropout2d(image, 0.3, self.training)",
        "Dropout3D": "ops.dropout3d(solid, 0.3, self.training)",
        "Recurrent": "self.lstm(x)",
        "LSTM": "P.LSTM(4, 5, 1, True, False, 0.0)(x, *self.states, self.column)[0]",
        "MultiheadAttention": "(self.attention(x, x, x), self.attention(x, x, x, None, False)[0])",
    },
    {
        **_weights("w", (6, 2, 3, 2), (4,), (3, 4, 2, 2, 2), (4, 5), (5, 4), (5,), (4,), (4,), (4,)),
        "transposed": "nn.Conv2dTranspose(4, 3, 3, 2, has_bias=True)",
        "lstm": "nn.LSTM(4, 5, batch_first=True)",
        "states": "(ops.ones((1, 3, 5), ms.float32), ops.zeros((1, 3, 5), ms.float32))",
        "column": "ms.Parameter(ops.rand(200, 1, 1) - 0.5)",
        "attention": "nn.MultiheadAttention(4, 2, batch_first=True)",
    },
)

GROUPS = {
    "numbers": NUMBERS,
    "math": MATH,
    "special": SPECIAL,
    "arithmetic": ARITHMETIC,
    "reductions": REDUCTIONS,
    "matrices": MATRICES,
    "fixed_matrices": FIXED_MATRICES,
    "losses": LOSSES,
    "shapes": SHAPES,
    "places": PLACES,
    "fixed_places": FIXED_PLACES,
    "layers": LAYERS,
    "whole_numbers": WHOLE_NUMBERS,
    "more_math": MORE_MATH,
    "found_places": FOUND_PLACES,
    "views": VIEWS,
    "images": IMAGES,
    "signals": SIGNALS,
    "patches": PATCHES,
    "sets": SETS,
    "other_math": OTHER_MATH,
    "other_places": OTHER_PLACES,
    "classes": CLASSES,
}
