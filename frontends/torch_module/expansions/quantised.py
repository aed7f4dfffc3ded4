"""Quantisation by scales that are computed, and by those of each row: torch has no decompositions of them.

Torch's alone: of MXNet and MindSpore such operators are read or absent.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .table import Expansions, Inexpressible

table = Expansions()


@table.op("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Compute the scale and zero point by which integers reach from the smallest element to the largest."""
    del dtype
    least, most = torch.clamp(x.min(), max=0), torch.clamp(x.max(), min=0)
    scale = torch.clamp((most - least) / (high - low), min=eps)
    zero = torch.clamp(low - torch.round(least / scale), low, high)
    return scale.reshape(1).to(torch.float64), zero.reshape(1).to(torch.int64)


@table.op("quantized_decomposed.choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Compute the scale by which integers on both sides of their middle reach the largest element."""
    most = torch.maximum(torch.clamp(-x.min(), min=0), torch.clamp(x.max(), min=0))
    scale = torch.clamp(most / (float(high - low) / 2), min=eps)
    zero = torch.full((1,), 128 if dtype == torch.uint8 else 0, dtype=torch.int64)
    return scale.reshape(1).to(torch.float64), zero


@table.op("quantized_decomposed.choose_qparams_per_token.default")
def choose_qparams_per_token(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Compute the scale of each row by its largest element.

    Torch gives float32 where the operator states float64 and int64, and goes on in what is stated here.
    """
    if dtype != torch.int8:
        raise Inexpressible(f"expected the element type int8, got {dtype}")
    scale = torch.clamp(x.abs().amax(-1, keepdim=True), min=1e-5) / 127
    return scale.to(torch.float64), torch.zeros_like(scale, dtype=torch.int64)


@table.op("quantized_decomposed.choose_qparams_per_token_asymmetric.default")
def choose_qparams_per_token_asymmetric(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Compute the scale and zero point of each row, which XNNPACK rounds to the side of the smaller error."""
    del dtype
    least = torch.clamp(x.amin(-1, keepdim=True), max=0)
    most = torch.clamp(x.amax(-1, keepdim=True), min=0)
    scale = torch.clamp((most - least) / 255.0, min=torch.finfo(torch.float32).eps)
    below, above = least / scale, most / scale
    zero = torch.where((below - 128) + (above + 127) > 0, -128 - below, 127 - above)
    return scale.to(torch.float64), torch.round(torch.clamp(zero, -128, 127)).to(torch.int64)


@table.op("quantized_decomposed.quantize_per_token.default")
def quantize_per_token(
    x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    """Return each row quantised by its own scale; in float32, which has the scales that torch widens."""
    moved = x * (1.0 / scales.to(x.dtype)) + zero_points.to(x.dtype)
    return torch.clamp(torch.round(moved), low, high).to(dtype)


@table.op("quantized_decomposed.dequantize_per_token.default")
def dequantize_per_token(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Tensor:
    """Return the floats that each row stands for."""
    del low, high, dtype
    return ((x.to(torch.float32) - zero_points.to(torch.float32)) * scales.to(torch.float32)).to(output_dtype)


@table.op("quantized_decomposed.quantize_per_channel_group.default")
def quantize_per_channel_group(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    group_size: int = 128,
) -> Tensor:
    """Return each group of a row quantised by its own scale."""
    groups = x.reshape(-1, min(group_size, x.shape[-1]))
    moved = groups * (1.0 / scales.reshape(-1, 1)) + zero_points.reshape(-1, 1)
    return torch.clamp(torch.round(moved), low, high).to(dtype).reshape(x.shape)


@table.op("quantized_decomposed.fake_quant_per_channel.default")
def fake_quant_per_channel(
    x: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int
) -> Any:
    """Return a tensor rounded along an axis."""
    return torch.fake_quantize_per_channel_affine(
        x, scales.to(torch.float32), zero_points.to(torch.int32), axis, low, high
    )
