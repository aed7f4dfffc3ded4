"""Cases of quantisation, with scales at which elements of the input lie halfway between two integers."""

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers its operators
from torch import Tensor

from .case import Case, Group, Refused, X, Y, floats

_U8, _I8, _I16, _I32 = torch.uint8, torch.int8, torch.int16, torch.int32
_SCALES, _ZEROS = torch.tensor([0.05, 0.11, 0.2]), torch.tensor([3, 0, -7])
_MORE, _MOVED = torch.tensor([0.05, 0.11, 0.2, 0.4]), torch.tensor([3, 0, -7, 1])
_NONE = torch.zeros(3, dtype=torch.int64)
_S, _Z = torch.tensor([0.05], dtype=torch.float64), torch.tensor([3])
_LOW, _HIGH = torch.tensor(-100), torch.tensor(100)
_BYTES = X.through(lambda x: torch.clamp(x * 50, -128, 127).to(_I8))
_WIDE = X.through(lambda x: (x * 500).to(_I32))
_HALVES = X.through(lambda x: torch.round(x * 8) / 8)
_ROWS = floats(4, 8)
_ROW_SCALE = Y.through(lambda y: (y.abs().amax(-1, keepdim=True) / 127).double())
_ROW_ZERO = Y.through(lambda y: torch.round(y[..., :1] * 3).long())

_SPACE = "quantized_decomposed"

_LIBRARY = torch.library.Library("torchao", "FRAGMENT")
"""Operators of torchao's, which is not installed here: its names and schemas, and what they compute."""


def _spread(by: Tensor, block: list[int]) -> Tensor:
    for axis, size in enumerate(block):
        by = by.repeat_interleave(size, axis)
    return by


def _dequantize_affine(x, block_size, scale, zero, input_dtype, low=None, high=None, output_dtype=None):
    del input_dtype, low, high
    shape = [n // size for n, size in zip(x.shape, block_size, strict=True)]
    moved = 0 if zero is None else _spread(zero.reshape(shape), block_size).float()
    return ((x.float() - moved) * _spread(scale.reshape(shape), block_size)).to(output_dtype)


def _quantize_affine(x, block_size, scale, zero, output_dtype, low=None, high=None):
    bounds = torch.iinfo(output_dtype)
    shape = [n // size for n, size in zip(x.shape, block_size, strict=True)]
    moved = 0 if zero is None else _spread(zero.reshape(shape), block_size)
    found = torch.round(x * (1.0 / _spread(scale.reshape(shape), block_size))) + moved
    low, high = bounds.min if low is None else low, bounds.max if high is None else high
    return torch.clamp(found, low, high).to(output_dtype)


def _dequantize_affine_float8_non_decomposed(tensor, scale, output_dtype=torch.float32):
    block = [n // m for n, m in zip(tensor.shape, scale.shape, strict=True)]
    return (tensor.float() * _spread(scale, block)).to(output_dtype)


if not hasattr(torch.ops.torchao, "dequantize_affine"):
    _ENDS = "Scalar? quant_min=None, Scalar? quant_max=None"
    _LIBRARY.define(
        "dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
        f"ScalarType input_dtype, {_ENDS}, ScalarType output_dtype=float32) -> Tensor"
    )
    _LIBRARY.define(
        "quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
        f"ScalarType output_dtype, {_ENDS}) -> Tensor"
    )
    _LIBRARY.define(
        "dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, "
        "ScalarType output_dtype=float32) -> Tensor"
    )
    for _function in (_dequantize_affine, _quantize_affine, _dequantize_affine_float8_non_decomposed):
        _LIBRARY.impl(_function.__name__[1:], _function, "CompositeExplicitAutograd")


def _per_tensor(name: str, x: object, *arguments: object, **keywords: Any) -> Case:
    return Case(f"{_SPACE}.{name}_per_tensor.default", x, *arguments, **keywords)


TENSORS = Group(
    [
        _per_tensor("quantize", X, 0.05, 3, -128, 127, _I8),
        _per_tensor("quantize", _HALVES, 0.25, 128, 0, 255, _U8),
        _per_tensor("quantize", X, 0.01, 5, -100, 100, _I8),
        _per_tensor("quantize", X, 0.01, 5, 0, 127, _U8),
        _per_tensor("quantize", X, 0.0001, 0, -32768, 32767, _I16),
        _per_tensor("quantize", _HALVES, 0.25, 7, -(2**20), 2**20, _I32),
        _per_tensor("quantize", X.through(lambda x: x.half()), 0.05, 3, -128, 127, _I8),
        _per_tensor("dequantize", _BYTES, 0.05, 3, -128, 127, _I8),
        _per_tensor("dequantize", _BYTES, 0.05, 0, -128, 127, _I8, out_dtype=torch.float16),
        _per_tensor("dequantize", _WIDE, 0.05, 0, -(2**31), 2**31 - 1, _I32),
        _per_tensor("dequantize", _WIDE, 0.05, 3, -(2**31), 2**31 - 1, _I32),
        Case(f"{_SPACE}.quantize_per_tensor.tensor", X, _S, _Z, -128, 127, _I8),
        Case(f"{_SPACE}.quantize_per_tensor.tensor2", X, _S, _Z, _LOW, _HIGH, _I8),
        Case(f"{_SPACE}.dequantize_per_tensor.tensor", _BYTES, _S, _Z, -128, 127, _I8),
        Case(f"{_SPACE}.dequantize_per_tensor.tensor2", _BYTES, _S, _Z, _LOW, _HIGH, _I8),
    ]
)

CHANNELS = Group(
    [
        Case(f"{_SPACE}.quantize_per_channel.default", X, _SCALES, _ZEROS, 1, -128, 127, _I8),
        Case(f"{_SPACE}.quantize_per_channel.default", X, _SCALES, _ZEROS, 1, -(2**20), 2**20, _I32),
        Case(f"{_SPACE}.dequantize_per_channel.default", _BYTES, _SCALES, _ZEROS, 1, -128, 127, _I8),
        Case(f"{_SPACE}.dequantize_per_channel.default", _BYTES, _SCALES, _NONE, 1, -128, 127, _I8),
        Case(f"{_SPACE}.dequantize_per_channel.default", _BYTES, _MORE, None, 2, -128, 127, _I8),
        Case(f"{_SPACE}.choose_qparams_per_token_asymmetric.default", X, _I8),
        Case(
            f"{_SPACE}.choose_qparams_per_token.default",
            *(X, _I8),
            then=lambda found: [f.double() for f in found],  # which are not of the types that it states
        ),
        Case(f"{_SPACE}.quantize_per_token.default", X, _ROW_SCALE, _ROW_ZERO, -128, 127, _I8),
        Case(
            f"{_SPACE}.dequantize_per_token.default",
            *(_BYTES, _ROW_SCALE, _ROW_ZERO, -128, 127, _I8, torch.float32),
        ),
    ]
)

COMPUTED = Group(
    [
        Case(f"{_SPACE}.choose_qparams.tensor", X, 0, 255, 1e-4, _U8),
        Case(f"{_SPACE}.choose_qparams.tensor", X.through(lambda x: x.abs() * 1e-6), -128, 127, 1e-4, _I8),
        Case(f"{_SPACE}.choose_qparams_symmetric.tensor", X, -128, 127, 1e-4, _I8),
        Case(f"{_SPACE}.choose_qparams_symmetric.tensor", X, 0, 255, 1e-4, _U8),
        Case("torchao.quantize_affine.default", X, [2, 3, 4], _S.float(), _Z.to(_I8), _I8),
        Case("torchao.quantize_affine.default", X, [2, 1, 4], _SCALES, None, _I8, -100, 100),
    ],
    dynamic=False,
)

FAKE = Group(  # whose shapes torch knows for static sizes only
    [
        Case("aten.fake_quantize_per_tensor_affine.default", _HALVES, 0.25, 3, -128, 127),
        Case("aten.fake_quantize_per_tensor_affine.default", X, 0.01, 3, -1000, 1000),
        Case(
            "aten.fake_quantize_per_tensor_affine_cachemask.default",
            *(X, 0.05, 100, 0, 127),
            then=lambda found: found[0],
        ),
        Case("aten.fake_quantize_per_tensor_affine.tensor_qparams", X, _S.float(), _Z.int(), -128, 127),
        *(
            Case(
                "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
                *(X, _S.float(), _Z.int(), torch.tensor([on]), -128, 127),
                then=lambda found: found[0],
            )
            for on in (0, 1)
        ),
        *(
            Case(
                "aten.fused_moving_avg_obs_fake_quant.default",
                *(X, torch.tensor([0]), torch.tensor([on]), -by, 3 * by),
                *(
                    torch.ones(by.shape),
                    torch.zeros(by.shape, dtype=_I32),
                    0.01,
                    -128,
                    127,
                    1,
                    by_row,
                    mirrored,
                ),
            )
            for on, by, by_row, mirrored in (
                (0, _S.float(), False, False),
                (1, _S.float(), False, False),
                (1, _SCALES, True, False),
                (1, _SCALES, True, True),
            )
        ),
        Case(f"{_SPACE}.fake_quant_per_channel.default", X, _SCALES, _ZEROS, 1, -128, 127),
        Case("aten.fake_quantize_per_channel_affine.default", X, _MORE, _MOVED.int(), 2, -128, 127),
        Case(
            "aten.fake_quantize_per_channel_affine_cachemask.default",
            *(X, _SCALES, _ZEROS.int(), 1, -128, 127),
            then=lambda found: found[0],
        ),
    ],
    dynamic=False,
)

_CODES = (torch.arange(32).reshape(4, 8) % 16 - 8).to(_I8)
_GROUPED = torch.rand(4, 2) + 0.1
_BELOW = (torch.arange(8).reshape(4, 2) % 3 - 1).to(_I8)

GROUPS_OF_ROWS = Group(
    [
        Case(f"{_SPACE}.quantize_per_channel_group.default", _ROWS, _GROUPED, _BELOW.float(), -8, 7, _I8, 4),
        Case(
            f"{_SPACE}.dequantize_per_channel_group.default",
            *(_CODES, _GROUPED, _BELOW.int(), -8, 7, _I8, 4, torch.float32),
        ),
        *(
            Case("torchao.dequantize_affine.default", _CODES, block, scale, zero, _I8, -8, 7)
            for block, scale, zero in (
                ([4, 8], _GROUPED[0, :1], None),
                ([1, 8], _GROUPED[:, :1], _BELOW[:, :1]),
                ([1, 4], _GROUPED, _BELOW),
                ([1, 4], _GROUPED, torch.zeros(4, 2, dtype=_I8)),
            )
        ),
        Case(
            "torchao.dequantize_affine_float8_non_decomposed.default",
            *(_CODES.to(torch.float8_e4m3fn), _GROUPED),
        ),
        Case("aten.to.dtype", _CODES.to(torch.float8_e4m3fn), torch.float32),
        Case("aten._int_mm.default", _BYTES.through(lambda x: x[0]), _CODES),
    ],
    dynamic=False,
)

GROUPS = [TENSORS, CHANNELS, COMPUTED, FAKE, GROUPS_OF_ROWS]
REFUSED = [
    Refused(
        "aten.fused_moving_avg_obs_fake_quant.default",
        *(X, torch.tensor([1]), torch.tensor([1]), torch.zeros(1), torch.zeros(1)),
        *(_S.float(), _Z.int(), 0.01, -128, 127, 0, False),
        says="it changes its scale in every run",
    )
]
