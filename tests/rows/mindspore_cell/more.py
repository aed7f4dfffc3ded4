"""Further cases of the MindSpore frontend's rows: signals, patches, sets and what has kernels of its own."""

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
        "UniqueWithPad": "ops.unique_with_pad(i, -1)",
        "Histogram": "(ops.histc(x, 4, -1.0, 1.0), ops.histc(x, 4),"
        " ops.histc(i, 4, 0, 3), ops.histc(x * 0, 3))",
        "BatchToSpaceND": "(ops.batch_to_space_nd(blocks, [2, 2], [[0, 0], [0, 0]]),"
        " ops.batch_to_space_nd(blocks, [2, 2], [[1, 0], [0, 2]]))",
    },
    {},
    dynamic=False,
)
