"""Small operators of ONNX Runtime's own domain, against ONNX Runtime itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft
from regraft.ir import UnsupportedError

from .single_node import compare, made

DRAW = np.random.default_rng(11)


def drawn(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


IMAGES, GRID = drawn(2, 3, 5, 7), DRAW.uniform(-1.4, 1.4, (2, 4, 3, 2)).astype(np.float32)
BOXES = np.array([[0, 0, 1, 1], [-0.2, 0.1, 0.5, 1.2], [0.9, 0.8, 0.3, 0.1]], np.float32)
SHORTS = DRAW.integers(-300, 300, (2, 3, 4)).astype(np.int16)
BYTES = DRAW.integers(0, 256, (2, 5, 6, 3)).astype(np.uint8)
WORDS = DRAW.integers(0, 9, (2, 4)).astype(np.int32)


def scaled(scale: float, zero: int) -> list[np.ndarray]:
    return [np.array(scale, np.float32), np.array(zero, np.uint8)]


CASES: dict[str, tuple[str, list[np.ndarray | None], dict[str, Any], int]] = {
    "squared distances": ("CDist", [drawn(3, 4), drawn(5, 4)], {}, 1),
    "distances": ("CDist", [drawn(3, 4), drawn(5, 4)], {"metric": "euclidean"}, 1),
    "inverses": ("Inverse", [drawn(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)], {}, 1),
    "zeros around": ("Pad", [drawn(3, 4), np.array([1, 0, 2, -1])], {}, 1),
    "a number around": ("Pad", [drawn(3, 4), np.array([[1, 0, 2, 1]]), np.array([7], np.float32)], {}, 1),
    "a reflection": ("Pad", [drawn(3, 4), np.array([1, 0, 2, 1])], {"mode": "reflect"}, 1),
    "numbers": ("Range", [np.array(2, np.int32), np.array([9], np.int32)], {}, 1),
    "numbers down": ("Range", [*(np.array([n], np.float32) for n in (9, 1, -2.5))], {}, 1),
    "places": ("GatherND", [drawn(3, 4, 2), np.array([[0, 1], [2, 3]], np.int32)], {}, 1),
    "distinct numbers": ("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], {}, 3),
    "a bent image": ("GridSample", [IMAGES, GRID], {"mode": "bicubic", "padding_mode": "border"}, 1),
    "windows": ("UnfoldTensor", [drawn(3, 7)], {"size": 3, "step": 2}, 1),
    "windows of rows": ("UnfoldTensor", [drawn(7, 3, 2)], {"dim": 0, "size": 2}, 1),
    "wider": (
        "ConvTransposeWithDynamicPads",
        [drawn(1, 2, 4, 4), drawn(2, 3, 3, 3), np.array([0, 1, 1, 0]), drawn(3)],
        {"strides": [2, 2], "kernel_shape": [3, 3]},
        1,
    ),
    "short numbers": ("MatMulInteger16", [SHORTS, SHORTS.transpose(0, 2, 1).copy()], {}, 1),
    "windows with channels last": ("NhwcMaxPool", [BYTES], {"kernel_shape": [3, 2], "strides": [2, 1]}, 1),
    "means with channels last": (
        "QLinearGlobalAveragePool",
        [BYTES, *scaled(0.02, 120), *scaled(0.03, 99)],
        {"channels_last": 1},
        1,
    ),
    "quantised tables": (
        "QEmbedLayerNormalization",
        [
            WORDS,
            WORDS % 2,
            *(DRAW.integers(0, 256, shape).astype(np.uint8) for shape in ((9, 8), (6, 8), (2, 8), 8, 8)),
            (WORDS > 2).astype(np.int32),
            *(np.array(number, np.float32) for number in (0.02, 0.01, 0.03, 0.01, 0.02)),
            *(np.array(number, np.uint8) for number in (120, 99, 130, 3, 140)),
        ],
        {"epsilon": 1e-5},
        2,
    ),
    **{
        f"numbers of 4 bits, {kind}": (
            "MatMulBnb4",
            [drawn(3, 20), DRAW.integers(0, 256, 70).astype(np.uint8), np.arange(1, 10, dtype=np.float32)],
            {"K": 20, "N": 7, "block_size": 16, "quant_type": kind},
            1,
        )
        for kind in (0, 1)
    },
    "boxes": (
        "CropAndResize",
        [IMAGES, BOXES, np.array([1, 0, 1], np.int32), np.array([2, 3], np.int32)],
        {"extrapolation_value": 0.5},
        1,
    ),
    "middles of boxes": (
        "CropAndResize",
        [IMAGES, BOXES, np.array([1, 0, 1], np.int32), np.array([1, 4], np.int32)],
        {},
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_is_what_onnx_runtime_computes(name: str) -> None:
    operator, operands, attributes, outputs = CASES[name]
    inputs = [0, 1] if operator in ("CDist", "GridSample", "CropAndResize") else [0]
    compare(*made(operator, operands, attributes, inputs, outputs))


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "said"),
    [
        ("CDist", [drawn(2, 3), drawn(4, 3)], {"metric": "cosine"}, "euclidean or sqeuclidean"),
        ("Unique", [drawn(2, 3)], {}, "a vector"),
    ],
)
def test_other_forms_are_refused(
    operator: str, operands: list[np.ndarray | None], attributes: dict[str, Any], said: str
) -> None:
    proto, _ = made(operator, operands, attributes, [0], 1)
    with pytest.raises(UnsupportedError, match=f"{operator}.*{said}"):
        regraft.load(proto)
