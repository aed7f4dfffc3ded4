"""Transposes matrices in blocks that a cache holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ..ir.types import Array

_LARGE = 1 << 24
"""Bytes from which on ONNX Runtime transposes: with vector instructions, but it takes a moment to load."""

_ROWS, _COLUMNS, _APART = 128, 512, 32
"""NumPy's block. Its rows are not a power of two of bytes apart: those lie in one set of the cache."""

_WIDE_ROWS, _WIDE_COLUMNS = 512, 1024
"""ONNX Runtime's block."""


def transposed_blocks(matrix: Array) -> Iterator[tuple[int, int, Array]]:
    """Yield the transpose of a matrix block by block.

    Args:
        matrix: its rows lie in order, else it takes longer.

    Yields:
        Row and column of the matrix at which a block begins, and the block transposed, in the machine's order
        of bytes; the next one takes its memory.
    """
    if matrix.dtype.kind == "u" and matrix.itemsize <= 2 and matrix.nbytes >= _LARGE:
        yield from _by_runtime(matrix)
        return
    rows, columns = matrix.shape
    held = np.empty((min(rows, _ROWS), min(columns, _COLUMNS) + _APART), matrix.dtype.newbyteorder("="))
    for row in range(0, rows, _ROWS):
        for column in range(0, columns, _COLUMNS):
            part = matrix[row : row + _ROWS, column : column + _COLUMNS]
            near = held[: part.shape[0], : part.shape[1]]
            near[...] = part
            yield row, column, near.T


def _by_runtime(matrix: Array) -> Iterator[tuple[int, int, Array]]:
    kind, most = matrix.dtype.newbyteorder("="), _WIDE_ROWS * _WIDE_COLUMNS
    session, near, far = _session(kind.itemsize), np.empty(most, kind), np.empty(most, kind)
    binding = session.io_binding()
    for row in range(0, matrix.shape[0], _WIDE_ROWS):
        for column in range(0, matrix.shape[1], _WIDE_COLUMNS):
            part = matrix[row : row + _WIDE_ROWS, column : column + _WIDE_COLUMNS]
            turned = part.shape[::-1]
            near[: part.size].reshape(part.shape)[...] = part
            binding.bind_input("x", "cpu", 0, kind, part.shape, near.ctypes.data)
            binding.bind_output("y", "cpu", 0, kind, turned, far.ctypes.data)
            session.run_with_iobinding(binding)
            yield row, column, far[: part.size].reshape(turned)


@cache
def _session(size: int) -> Any:
    """Return a session that transposes unsigned integers of so many bytes, in the thread that calls it."""
    import onnx
    import onnxruntime
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(f"u{size}"))
    ends = [helper.make_tensor_value_info(name, kind, [None, None]) for name in ("x", "y")]
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    graph = helper.make_graph([node], "transpose", ends[:1], ends[1:])
    model = onnx.ModelProto(ir_version=8, graph=graph, opset_import=[helper.make_opsetid("", 17)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
