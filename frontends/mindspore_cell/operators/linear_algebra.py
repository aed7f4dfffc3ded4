"""Linear algebra on stacks of matrices, distances, and norms that slices are scaled down to."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...formulas import solve_by_factor, substitute, swap_last_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
TABLE.direct(
    {
        "MatrixDeterminant": "regraft.Determinant",
        "Orgqr": "regraft.ReflectorsProduct",
    }
)


# -- equations -------------------------------------------------------------------------------------------


@TABLE.op("MatrixInverse")
def inverse(call: Call) -> Value:
    """Return the inverse, or that of the transposed matrix."""
    return call.op("regraft.Inverse", swap_last_axes(call, call.value(0), when=call.flag("adjoint")))


@TABLE.op("MatrixSolve")
def solve(call: Call) -> Value:
    """X with ``A @ X = B``, or ``A.T @ X = B``."""
    return call.op(
        "regraft.Solve", swap_last_axes(call, call.value(0), when=call.flag("adjoint")), call.value(1)
    )


@TABLE.op("MatrixTriangularSolve")
def triangular_solve(call: Call) -> Value:
    """Return the same of one triangle of A."""
    flip, upper = call.flag("adjoint"), not call.flag("lower")
    return substitute(
        call, swap_last_axes(call, call.value(0), when=flip), call.value(1), upper=upper != flip
    )


@TABLE.op("Cholesky")
def cholesky(call: Call) -> Value:
    """Cholesky's factor; the kernel transposes the lower one where the upper is wanted."""
    factor = call.op("regraft.Cholesky", call.value(0))
    return swap_last_axes(call, factor, when=call.flag(1))


@TABLE.op("CholeskySolve")
def cholesky_solve(call: Call) -> Value:
    """Return the solution, given a factor."""
    return solve_by_factor(call, call.value(1), call.value(0), upper=call.flag("upper"))


@TABLE.op("CholeskyInverse")
def cholesky_inverse(call: Call) -> Value:
    """Return the inverse, given a factor."""
    rows, _ = call.static_shape()
    return solve_by_factor(call, call.value(0), call.constant(np.eye(rows), call.dtype), upper=call.flag(1))


@TABLE.op("LogMatrixDeterminant")
def log_determinant(call: Call) -> list[Value]:
    return call.ops("regraft.LogDeterminant", call.value(0), outputs=2)


@TABLE.op("MatrixPower")
def power(call: Call) -> Value:
    return call.op("regraft.MatrixPower", call.value(0), n=call.int("n"))


# -- factors ---------------------------------------------------------------------------------------------


@TABLE.op("LuSolve")
def lu_solve(call: Call) -> Value:
    """Return the solution, given factors and pivots."""
    return call.op("regraft.LUSolve", call.value(1), call.value(2), call.value(0))


@TABLE.op("LuUnpack")
def lu_unpack(call: Call) -> list[Value]:
    """P, L and U."""
    call.require("unpack_data", True)
    call.require("unpack_pivots", True)
    return call.ops("regraft.LUUnpack", call.value(0), call.value(1), outputs=3)


@TABLE.op("Qr")
def qr(call: Call) -> list[Value]:
    return call.ops("regraft.QR", call.value(0), outputs=2, full=call.flag(1))


@TABLE.op("Geqrf")
def geqrf(call: Call) -> list[Value]:
    return call.ops("regraft.Reflectors", call.value(0), outputs=2)


@TABLE.op("Svd")
def singular_values(call: Call) -> list[Value]:
    """Return the singular values alone, zeros for vectors, the signs of which are the kernel's choice."""
    call.ignore(1)
    call.require(2, False)
    zeros = call.constant([0], call.dtype)
    return [call.op("regraft.SingularValues", call.value(0)), zeros, zeros]


@TABLE.op("SelfAdjointEig")
def eigenvalues(call: Call) -> list[Value]:
    """Return the eigenvalues alone, and zeros for vectors."""
    call.require("compute_v", False)
    a = call.value(0)
    zeros = call.op("Expand", call.constant(0, call.dtype), call.op("Shape", a))
    return [call.ops("regraft.SymmetricEigen", a, outputs=2)[0], zeros]


# -- distances -------------------------------------------------------------------------------------------


@TABLE.op("Cdist")
def distances(call: Call) -> Value:
    """Lower the distances of all pairs of rows."""
    return call.op("regraft.PairwiseDistances", call.value(0), call.value(1), p=call.float(2))


@TABLE.op("Pdist")
def distances_within(call: Call) -> Value:
    """Lower the distances of all pairs of rows of one matrix, the first before the second."""
    x = call.value(0)
    (rows,) = call.static_shape(x, [-2])
    first, second = np.triu_indices(rows, 1)
    everyone = call.op("regraft.PairwiseDistances", x, x, p=call.float("p"))
    flat = call.op("Reshape", everyone, call.constant([*call.static_shape(x)[:-2], rows * rows]))
    return call.op("Gather", flat, call.constant(first * rows + second), axis=-1)


@TABLE.op("Renorm")
def renorm(call: Call) -> Value:
    """Return slices scaled down to a norm."""
    scaled = {"p": call.float("p"), "axis": call.int("dim"), "maxnorm": call.float("maxnorm")}
    return call.op("regraft.Renorm", call.value(0), **scaled)
