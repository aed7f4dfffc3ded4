"""Transposes in blocks: small matrices by NumPy, large ones by ONNX Runtime."""

import numpy as np
import pytest

from regraft.formats.transposing import transposed_blocks
from regraft.ir import TensorData
from regraft.verification.structure.values import same_bits

SMALL, LARGE = (130, 600), (4099, 4111)
"""Shapes of which no side is a multiple of a block's."""


def transpose(matrix):
    found = np.zeros(matrix.shape[::-1], matrix.dtype.newbyteorder("="))
    for row, column, block in transposed_blocks(matrix):
        found[column : column + block.shape[0], row : row + block.shape[1]] = block
    return found


def numbers(shape, kind):
    bits = np.random.default_rng(0).integers(0, 256, (*shape, np.dtype(kind).itemsize), np.uint8)
    return bits.reshape(shape[0], -1).view(kind)


@pytest.mark.parametrize("kind", ["u1", "<u2", ">u2", "u4", "u8", "f4", "c16"])
def test_every_element_is_where_it_belongs(kind):
    shape = (4099, 4111) if np.dtype(kind).itemsize < 4 else (2050, 2051)
    for matrix in (numbers(SMALL, kind), numbers(shape, kind), numbers(shape, kind)[1::2, 3:]):
        native = matrix.astype(matrix.dtype.newbyteorder("="))
        assert transpose(matrix).tobytes() == native.T.tobytes()


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_a_matrix_and_its_transpose_on_disk_are_the_same_bits_and_one_bit_makes_them_differ(shape):
    matrix = numbers(shape, "u2")
    by_columns = np.asfortranarray(matrix)
    pairs = [(matrix, by_columns), (by_columns, matrix), (by_columns, by_columns.copy("F")), (matrix, matrix)]
    for first, second in pairs:
        assert same_bits(TensorData.of(first), TensorData.of(second))
    for row, column in ((0, 0), (shape[0] - 1, shape[1] - 1), (shape[0] // 2, 511)):
        other = by_columns.copy("F")
        other[row, column] ^= 1
        for first in (matrix, by_columns):
            assert not same_bits(TensorData.of(first), TensorData.of(other))
            assert not same_bits(TensorData.of(other), TensorData.of(first))
