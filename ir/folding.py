"""Computes a layer's weight and bias after the normalisation behind it is folded in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .tensors import TensorData
from .types import Array


@dataclass(frozen=True, slots=True)
class Fold:
    """A normalisation that was folded into a parameter.

    Attributes:
        statistics: gamma, beta, mean and variance: the key of a parameter of the source whose values they
            are, or values that no parameter of the source has.
        epsilon: what is added to the variance.
        axis: the weight's axis of output channels; -1 for the bias.
    """

    statistics: tuple[int | TensorData, ...]
    epsilon: float
    axis: int


def fold_normalisations(
    array: Array | None, norms: Sequence[tuple[Sequence[Array], float]], axis: int
) -> Array:
    """Return a layer's weight or bias with the normalisations behind it folded in, rounded once from float64.

    Args:
        array: the weight, or the bias; None for a layer without a bias.
        norms: gamma, beta, mean and variance of each, all of the shape (channels,); and what is added to the
            variance, which is taken as the float32 that ONNX and kernels hold.
        axis: the weight's axis of output channels; -1 for the bias, which is shifted too.

    Returns:
        An array of the given one's element type; of beta's where there was none.

    Example:
        >>> two, three, four, one = (np.full(1, v, np.float32) for v in (2, 3, 4, 1))
        >>> fold_normalisations(np.ones((1, 1), np.float32), [([two, three, four, one], 0.0)], 0)
        array([[2.]], dtype=float32)
        >>> fold_normalisations(None, [([two, three, four, one], 0.0)], -1)
        array([-5.], dtype=float32)
    """
    scale, shift = np.float64(1), np.float64(0)
    for statistics, epsilon in norms:
        gamma, beta, mean, variance = (a.astype(np.float64) for a in statistics)
        own = gamma / np.sqrt(variance + np.float64(np.float32(epsilon)))
        scale, shift = scale * own, shift * own + (beta - mean * own)
    if array is not None and axis >= 0:
        channels = [1] * array.ndim
        channels[axis] = -1
        folded = np.empty(array.shape, array.dtype)  # numpy's buffers, and no copy of it all in float64
        return np.multiply(array, scale.reshape(channels), out=folded, dtype=np.float64, casting="unsafe")
    before = 0.0 if array is None else array.astype(np.float64)
    wanted = norms[0][0][1].dtype if array is None else array.dtype
    return np.asarray(before * scale + shift).astype(wanted)
