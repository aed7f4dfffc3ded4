"""Further cases of the MindSpore frontend's rows: signals, patches, sets and what has kernels of its own."""

import numpy as np

from .case import Group, floats, integers

_X = {"x": floats(2, 3, 4), "y": floats(2, 3, 4, seed=1)}
_IMAGE = floats(2, 4, 6, 5)

SIGNALS = Group(
    _X,
    {
        "FFT": "(ops.real(ops.fft(x)), ops.imag(ops.fft(x, 6)), ops.real(ops.fft(x, 3, 1, 'ortho')))",
        "IFFT": "(ops.real(ops.ifft(ops.fft(x) * ops.fft(y))), ops.imag(ops.ifft(x)))",
        "FFT2": "ops.real(ops.fft2(x))",
        "IFFT2": "ops.imag(ops.ifft2(ops.fft2(x) / (ops.fft2(y) + 1)))",
        "FFTN": "ops.imag(ops.fftn(x, dim=(1, 2)))",
        "IFFTN": "ops.real(ops.ifftn(ops.fftn(x, dim=(1, 2)) * 2, dim=(1, 2), norm='forward'))",
        "RFFT": "(ops.real(ops.abs(ops.rfft(x))) * 2, ops.imag(ops.rfft(x, 5)))",
        "IRFFT": "(ops.irfft(ops.rfft(x) - x[:, :, :3]), ops.irfft(ops.rfft(x) * 2 + ops.rfft(y), 5))",
        "RFFT2": "ops.real(ops.rfft2(x))",
        "IRFFT2": "ops.irfft2(ops.rfft2(x))",
        "RFFTN": "ops.real(ops.rfftn(x, dim=(1, 2)))",
        "IRFFTN": "ops.irfftn(ops.transpose(ops.rfftn(x, dim=(1, 2)), (0, 1, 2)), dim=(1, 2))",
        # the kernels of hfft and ihfft conjugate every second time that they run: what is real stays the same
        "HFFT": "ops.hfft(x)",
        "IHFFT": "ops.real(ops.ihfft(x))",
        "HFFT2": "ops.hfft2(x)",
        "IHFFT2": "ops.real(ops.ihfft2(x))",
        "HFFTN": "ops.hfftn(x, dim=(1, 2))",
        "IHFFTN": "ops.real(ops.ihfftn(x, dim=(1, 2)))",
        "FFTShift": "ops.fftshift(x, (1, 2))",
        "IFFTShift": "ops.ifftshift(x, (1, 2))",
        "FFTFreq": "ops.fftfreq(4) + x",
        "RFFTFreq": "ops.rfftfreq(6, 0.5) + x",
        "Real": "ops.real(ops.rfft(x)[:, 1:])",
        "Imag": "(ops.imag(x), ops.imag(ops.rfft(x)))",
        "Conj": "(ops.conj(x), ops.imag(ops.conj(ops.rfft(x))))",
        "Angle": "ops.angle(ops.fft(x))",
        "Complex": "ops.imag(ops.Complex()(x, y))",
        "Polar": "ops.real(ops.polar(ops.abs(x), y))",
    },
    {},
)

PATCHES = Group(
    {"image": _IMAGE, "columns": floats(2, 3 * 4, 20), "theta": floats(2, 2, 3), "solid": floats(2, 3, 4)},
    {
        "Im2Col": "(ops.unfold(image, 2), ops.unfold(image, (2, 3), 2, 1, 1))",
        "Col2Im": "(ops.fold(columns, Tensor([5, 6], ms.int32), (2, 2)),"
        " ops.fold(columns, Tensor([6, 5], ms.int32), (2, 2), 1, 0, 1))",
        "SpaceToBatchND": "ops.space_to_batch_nd(image, [2, 2], [[1, 1], [0, 1]])",
        "AffineGrid": "(ops.affine_grid(theta, (image.shape[0], 3, 4, 5), False),"
        " ops.affine_grid(solid, (image.shape[0], 3, 3, 4, 1), True))",
        "ResizeBicubic": "(ops.interpolate(image, size=(9, 4), mode='bicubic'),"
        " ops.interpolate(image, size=(5, 12), mode='bicubic', align_corners=True))",
        "ReverseSequence": "ops.reverse_sequence(solid, Tensor([2, 3, 1]), 2, 1)",
        "Conv3DTranspose": "(self.transposed(ops.stack((image, image), 2)),"
        " self.same(ops.expand_dims(image, 2)))",
    },
    {
        "transposed": "nn.Conv3dTranspose(4, 6, 3, 2, pad_mode='pad', padding=1, group=2, has_bias=True)",
        "same": "nn.Conv3dTranspose(4, 3, 3, 2, pad_mode='same')",
    },
)

SETS = Group(
    {"x": floats(9), "i": integers(9, high=4), "blocks": floats(4, 2, 3, 3)},
    {
        "Unique": "(ops.unique(i), ops.unique(ops.round(x))[0])",
        "UniqueConsecutive": "(ops.unique_consecutive(i), ops.unique_consecutive(i, True, True))",
        "Range": "ops.range(0, ops.cast(ops.max(i)[0], ms.int64), 1)",
        "UniqueWithPad": "ops.unique_with_pad(i, -1)",
        "Histogram": "(ops.histc(x, 4, -1.0, 1.0), ops.histc(x, 4),"
        " ops.histc(i, 4, 0, 3), ops.histc(x * 0, 3))",
        "BatchToSpaceND": "(ops.batch_to_space_nd(blocks, [2, 2], [[0, 0], [0, 0]]),"
        " ops.batch_to_space_nd(blocks, [2, 2], [[1, 0], [0, 2]]))",
    },
    {},
    dynamic=False,
)

OTHER_MATH = Group(
    {
        **_X,
        "i": integers(2, 3, 4, high=60) - 30,
        "j": integers(2, 3, 4, high=9) + 1,
        "boxes": np.abs(floats(2, 4)).cumsum(1),
        "others": np.abs(floats(2, 4, seed=1)).cumsum(1),
    },
    {
        "AddN": "ops.addn([x, y, x])",
        "ApproximateEqual": "P.ApproximateEqual(0.5)(x, y)",
        "BitwiseAndTensor": "ms.mint.bitwise_and(i, j)",
        "ClampTensor": "ops.clamp(x, -ops.abs(y), ops.abs(y))",
        "Contiguous": "ms.mint.permute(x, (0, 2, 1)).contiguous()",
        "Cross": "ops.cross(x[:, :, 1:], y[:, :, :3], 2)",
        "Eps": "ops.eps(x)",
        "ViewAs": "x.view_as(y.reshape((x.shape[0], -1)))",
        "ExpandAs": "ops.expand_as(x[:, :1], y)",
        "Fmax": "ops.fmax(x / ops.relu(y) * 0, x)",
        "FmodScalar": "ms.mint.fmod(x, 0.7)",
        "FmodTensor": "ms.mint.fmod(x * 9, ops.abs(y) + 1)",
        "GLU": "(ms.mint.nn.functional.glu(x, -1), ops.glu(y, 2))",
        "Ger": "ops.ger(x[0, 0], y[0, :, 0])",
        "HammingWindow": "(ops.hamming_window(4) + x, ops.hamming_window(4, False) + x)",
        "BartlettWindow": "(ops.bartlett_window(Tensor(4, ms.int32)) + x,"
        " ops.bartlett_window(Tensor(4, ms.int32), False) + x)",
        "BlackmanWindow": "ops.blackman_window(Tensor(4, ms.int32)) + x",
        "Inv": "ops.inv(ops.abs(x) + 0.1)",
        "Invert": "ops.invert(i)",
        "IsClose": "(ops.isclose(x, x + 1e-7), ops.isclose(x / ops.relu(y), x / ops.relu(y),"
        " equal_nan=True))",
        "Lcm": "ops.lcm(i, j)",
        "LinSpace": "ops.linspace(0.0, 1.0, 4) + x",
        "LogSpace": "P.LogSpace(4, 2)(Tensor(0.0), Tensor(3.0)) + x",
        "Logit": "(ops.logit(ops.sigmoid(x)), ops.logit(ops.sigmoid(x * 3), 0.1))",
        "Mvlgamma": "ops.mvlgamma(ops.abs(x) + 2, 3)",
        "Narrow": "ms.mint.diff(x)",
        "Nansum": "ms.mint.nansum(x / ops.relu(y) * 0, 1)",
        "NewOnes": "x.new_ones((2, 3))",
        "NewZeros": "x.new_zeros((2, 3))",
        "PopulationCount": "ops.population_count(i)",
        "PowScalarTensor": "ms.mint.pow(2, x)",
        "RemainderTensorScalar": "(i % 7, x % -0.7)",
        "RemainderTensorTensor": "(i % -j, x % y)",
        "SoftplusExt": "ms.mint.nn.functional.softplus(x * 9, 2, 3)",
        "TExt": "(ms.mint.t(x[0]), ms.mint.t(y[0, 0]))",
        "TensorToScalar": "x * ms.mint.allclose(x, x)",
        "XLogYScalarOther": "ms.mint.xlogy(ops.relu(x), 2.0)",
        "Xdivy": "ops.xdivy(ops.relu(x), y)",
        "BoundingBoxEncode": "ops.bounding_box_encode(boxes, others, (0.1, 0.2, 0.0, 0.0), (1.0, 2.0, 1.0,"
        " 1.0))",
        "IOU": "(ops.iou(boxes, others[:1]), ops.iou(boxes, others[:1], 'iof'))",
    },
    {},
)

_AT = "Tensor([[1], [0]], ms.int32)"

OTHER_PLACES = Group(
    {**_X, "i": integers(2, 3, 1, high=4), "square": floats(2, 3, 3)},
    {
        "IndexFill": "(ops.index_fill(x, 1, Tensor([0, 2], ms.int32), 5.0),"
        " ops.index_fill(x, 2, Tensor([1], ms.int32), Tensor(2.0)))",
        "InplaceAdd": "ops.inplace_add(x, y[:1], 0)",
        "InplaceSub": "ops.inplace_sub(x, y[:1], (1,))",
        "InplaceUpdateV2": "ops.inplace_update(x, y[:1], (1,))",
        "Padding": "ops.padding(x[:, :, :1], 5)",
        "ScatterValue": "ms.mint.scatter(x, 2, ops.cast(i, ms.int64), 1.5)",
        "TensorScatterDiv": f"ops.tensor_scatter_div(x[:2], {_AT}, ops.abs(y[:2]) + 0.1)",
        **{
            f"UnsortedSegment{n}": f"ops.unsorted_segment_{n.lower()}(x[:2], Tensor([2, 2], ms.int32), 3)"
            for n in ("Max", "Min", "Prod")
        },
        "TrilIndices": "ops.tril_indices(3, 4, 1)",
        "TriuIndices": "ops.triu_indices(3, 4)",
        "Trace": "ops.trace(square[0])",
        "MatrixBandPart": "(ops.matrix_band_part(x, 1, 0), ops.matrix_band_part(x, -1, 1))",
        "MatrixDiagV3": "(ops.matrix_diag(x, k=1), "
        " ops.matrix_diag(square, k=Tensor([-1, 1], ms.int32), num_rows=3, num_cols=3),"
        " ops.matrix_diag(square, k=Tensor([-1, 1], ms.int32), num_rows=3, num_cols=3, align='LEFT_LEFT'))",
        "MatrixSetDiagV3": "(ops.diag_embed(x), ops.matrix_set_diag(x, y[:, :, 0]))",
        "Pdist": "ops.pdist(x[0])",
    },
    {},
)

CLASSES = Group(
    {"x": floats(3, 5), "y": floats(3, 5, seed=1), "label": integers(3, high=5)},
    {
        "BinaryCrossEntropy": "(ops.binary_cross_entropy(ops.sigmoid(x), ops.sigmoid(y)),"
        " ops.binary_cross_entropy(ops.relu(ops.sign(x)), ops.sigmoid(y), ops.abs(x), 'none'))",
        "InTopK": "ops.intopk(x, label, 2)",
        "MultiMarginLoss": "(ops.multi_margin_loss(x, ops.cast(label, ms.int64)),"
        " ops.multi_margin_loss(x, ops.cast(label, ms.int64), 2, 2, ops.abs(y[0]), 'none'))",
        "NLLLoss": "(ms.mint.nn.functional.nll_loss(x, label), P.NLLLoss('none')(x, label, ops.abs(y[0]))[0],"
        " P.NLLLoss('mean', 2)(x, label, ops.abs(y[0])))",
    },
    {},
)

_SUM, _COUNT = "x.sum().item()", "i.sum().item()"

NUMBERS = Group(
    {"x": floats(2, 3, 4), "i": integers(2, 3, 4, high=60) - 30},
    {
        "TensorToScalar": f"x * {_SUM}",
        "ScalarToTensor": f"x - {_SUM}",
        "ScalarCast": f"x * int({_SUM})",
        "ScalarAdd": f"x * ({_SUM} + 0.1)",
        "ScalarSub": f"x * ({_SUM} - {_COUNT})",
        "ScalarMul": f"x * ({_SUM} * 3)",
        "ScalarDiv": f"x * ({_COUNT} / 7)",
        "ScalarPow": f"x * ({_COUNT} ** 2)",
        "ScalarFloorDiv": f"x * ({_COUNT} // 7)",
        "ScalarMod": f"x * ({_COUNT} % 7)",
        "ScalarUsub": f"x * -{_SUM}",
        "ScalarEq": f"x * ({_COUNT} == 3)",
        "ScalarGt": f"x * ({_SUM} > {_COUNT})",
        "ScalarGe": f"x * ({_SUM} >= 1)",
        "ScalarLt": f"x * ({_SUM} < 0.5)",
        "ScalarLe": f"x * ({_SUM} <= {_COUNT})",
        "bool_eq": "x * (bool((x > 0).any()) == True)",
        "BoolNot": "x * (not bool((x > 9).any()))",
        "bit_and": f"x * ({_COUNT} & 6)",
        "bit_or": f"x * ({_COUNT} | 6)",
    },
    {},
)
