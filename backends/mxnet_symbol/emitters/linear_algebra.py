"""Emitters of linear algebra on stacks of matrices."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


@TABLE.op("regraft.Inverse", "regraft.Determinant")
def inverse(e: View) -> Reference:
    """Emit the inverse, or the determinant."""
    return e.node("_linalg_inverse" if e.operator.op_type == "Inverse" else "_linalg_det", e.inputs())


@TABLE.op("regraft.LogDeterminant")
def log_determinant(e: View) -> list[Reference]:
    """Emit the sign of the determinant, and the logarithm of its size."""
    node, _ = e.node("_linalg_slogdet", e.inputs())
    return [(node, 0), (node, 1)]


@TABLE.op("regraft.Cholesky")
def cholesky(e: View) -> Reference:
    """Emit Cholesky's factor."""
    return e.node("_linalg_potrf", e.inputs(), lower=not e.operator.int("upper"))


@TABLE.op("regraft.SolveTriangular")
def solve_triangular(e: View) -> Reference:
    """Emit the solution of triangular equations."""
    if e.operator.int("unit_diagonal"):
        raise e.refused("expected triangular matrices whose diagonal is read")
    if e.shape(0)[:-2] != e.shape(1)[:-2]:
        raise e.refused("expected as many matrices as right sides")
    return e.node("_linalg_trsm", e.inputs(), lower=not e.operator.int("upper"))
