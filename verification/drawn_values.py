"""Values for two nets that were read without any, equal for parameters of one name, shape and type."""

from __future__ import annotations

import math
import zlib
from functools import partial

import numpy as np

from ..ir import Array, Graph, TensorData, numpy_dtype

NOTE = (
    "neither file has values of parameters: those of one name and shape were drawn alike on both sides, "
    "which compares the nets and not what was trained"
)


def draw_values(source: Graph, target: Graph) -> tuple[Graph, Graph] | None:
    """Return copies of two nets with drawn values; None unless every parameter of both has none.

    Args:
        source: read without its parameters; it stays as it is.
        target: likewise.
    """
    known = [p.data.load is not None for graph in (source, target) for p in graph.parameters()]
    if not known or any(known):
        return None
    copies = source.copy(), target.copy()
    for graph in copies:
        for parameter in graph.parameters():
            data = parameter.data
            load = partial(_drawn, parameter.declared, data.shape, data.dtype)
            parameter.data = TensorData(data.dtype, data.shape, load)
    return copies


def _drawn(name: str, shape: tuple[int, ...], dtype: str) -> Array:
    """Positive vectors, which variances must be, and matrices that keep the scale of what they multiply."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    if len(shape) < 2:
        values = draw.uniform(0.5, 1.5, shape)
    else:
        values = draw.standard_normal(shape) / math.sqrt(max(math.prod(shape[1:]), 1))
    return values.astype(numpy_dtype(dtype))
