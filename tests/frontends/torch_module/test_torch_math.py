"""Element-wise arithmetic, comparison, logic and element types."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def integers(*shape: int, dtype=np.int64) -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 10, shape).astype(dtype)


UNARY = "neg abs ceil floor round sign square exp sin cos tan atan sinh cosh asinh erf expm1 isnan isinf"
POSITIVE = "log sqrt rsqrt reciprocal log1p log2 log10"


@pytest.mark.parametrize("names", [UNARY, "tanh sigmoid relu"])
def test_unary(check, names):
    check(lambda x: [getattr(torch, n)(x) for n in names.split()], floats(3, 4))


def test_unary_of_positive_numbers(check):
    check(lambda x: [getattr(torch, n)(x.abs() + 0.1) for n in POSITIVE.split()], floats(3, 4))
    check(lambda x: [getattr(torch, n)(x.sigmoid()) for n in ("asin", "acos", "atanh")], floats(3, 4))


def test_arithmetic_with_numbers(check):
    check(
        lambda x: [
            x + 2,
            2 - x,
            x * 3.5,
            x / 4,
            1 / (x.abs() + 1),
            torch.add(x, x, alpha=2),
            torch.sub(x, 1, alpha=3),
            torch.rsub(x, x * 2, alpha=2),
            x**2,
            x**3,
            x.abs() ** 0.5,
            2**x,
            x.abs() ** x,
            x.addcmul(x, x, value=0.5),
            x.addcdiv(x, x.abs() + 1, value=2),
            torch.lerp(x, x * 2, 0.3),
            x.clamp(-0.5, 0.5),
            x.clamp(min=0.1),
            x.clamp_max(0.2),
            torch.minimum(x, x * 2),
            torch.maximum(x, -x),
            torch.where(x > 0, x, 0.0),
            x.masked_fill(x > 0.5, -1.0),
            torch.fmod(x, 0.7),
            torch.remainder(x, -0.7),
            torch.div(x, 0.3, rounding_mode="floor"),
            torch.div(x, 0.3, rounding_mode="trunc"),
        ],
        floats(3, 4),
    )


def test_broadcasting_of_two_inputs(check):
    check(lambda x, y: [x + y, x * y, x - y, x / (y.abs() + 1)], floats(3, 4, 1), floats(3, 1, 5))


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integers(check, dtype):
    check(
        lambda x: [
            x + 1,
            x * 2,
            x // 3,
            x // -3,
            x % 4,
            x % -4,
            x / 2,
            x & 3,
            x | 4,
            x ^ 5,
            ~x,
            torch.div(x, 3, rounding_mode="trunc"),
            x.float() * 0.5,
            x + 0.5,
            x.to(torch.float64),
            x > 0.5,
            x == 3,
            x.sigmoid(),
            x.tanh(),
            x.floor(),
            x.ceil(),
            x.round(),
            x.isnan(),
            x.isinf(),
        ],
        integers(3, 4, dtype=dtype),
    )


def test_truth_values(check):
    """ONNX and ONNX Runtime have few operators on them."""
    check(
        lambda x, y: [
            torch.where(x, y, x),
            x.masked_fill(y, False),
            torch.maximum(x, y),
            torch.fmin(x, y),
            x.clamp(max=y),
            x.clamp(min=y),
            x.amax(1),
            x.min(),
            *x.max(1),
            x.tanh(),
            x.signbit(),
            x.sum(1),
            x * y,
        ],
        floats(3, 4) > 0,
        floats(4, 3).T > 0,
    )


def test_nan_that_is_kept(check):
    x = floats(3, 4)
    x[1, 2] = np.nan
    check(lambda x: [F.threshold(x, 0.1, 20.0), torch.fmax(x, x.flip(0))], x, dynamic=False)


def test_comparison_and_logic(check):
    check(
        lambda x, y: [
            x > y,
            x >= 0.1,
            x < y,
            x <= y,
            x == y,
            x != y,
            (x > 0) & (y > 0),
            (x > 0) | (y > 0),
            (x > 0) ^ (y > 0),
            ~(x > 0),
            torch.logical_and(x > 0, y > 0),
            torch.logical_not(x),
            (x > 0) == (y > 0),
            (x > 0).float() + y,
            (x > 0) + (y > 0),
        ],
        floats(3, 4),
        floats(3, 4),
    )


def test_promotion_of_mixed_types(check):
    check(lambda x, i: [x + i, i * x, i > x, torch.where(i > 0, x, i)], floats(3, 4), integers(3, 4))


def test_half_precision_is_kept(check):
    graph = check(lambda x: x.half() * 2 + 1, floats(3, 4), atol=1e-2)
    assert graph.type_of(graph.outputs[0][1]).dtype == "float16"


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_shifts_of_every_integer(check, dtype):
    numbers = np.arange(12).reshape(2, 6).astype(dtype)
    signed = numbers if dtype == "uint8" else numbers * 3 - 9
    check(lambda x, by: [x << 3, x >> 1, x << (by & 7), x >> (by & 7)], signed.astype(dtype), numbers % 4)
