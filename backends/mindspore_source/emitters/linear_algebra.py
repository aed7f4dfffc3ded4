"""Linear algebra, medians and look-ups whose kernels are as accurate as the expansions and have a gradient.

Measured on CPU: `ops.cholesky`, `ops.qr`, `ops.geqrf`, `ops.orgqr` and `ops.lu_solve` have no gradient; the
first two are used for matrices too large to be written out. In float64, `ops.matrix_power` and `ops.cdist`
are as inaccurate as in float32, and `ops.renorm` has no gradient. The kernels choose signs of vectors
themselves.
"""

from __future__ import annotations

from ....ir.composites.matrices import MOST
from ...source.emitting import EmitterTable, Expression, Refused, View
from ...source.expressions import call

TABLE = EmitterTable()

_SINGLE, _BOTH = ("float32",), ("float32", "float64")


def _require(view: View, dtypes: tuple[str, ...]) -> None:
    if view.type(0).dtype not in dtypes:
        raise Refused


def _require_one_batch(view: View) -> None:
    """Refuse operands with different batch axes: the kernels do not broadcast matrices."""
    if view.shape(0)[:-2] != view.shape(1)[:-2] or None in view.shape(0)[:-2]:
        raise Refused


def _require_large(view: View) -> None:
    if all(isinstance(size, int) and size <= MOST for size in view.shape()[-2:]):
        raise Refused


# -- matrices --------------------------------------------------------------------------------------------


@TABLE.call("regraft.Inverse", "regraft.Determinant", "Det")
def inverse(view: View) -> Expression:
    """Emit ops.inverse or ops.det."""
    _require(view, _BOTH)
    return call("ops.inverse" if view.operator.op_type == "Inverse" else "ops.det", view.tensor(0))


@TABLE.call("regraft.LogDeterminant")
def log_determinant(view: View) -> Expression:
    """Emit ops.slogdet."""
    _require(view, _BOTH)
    return Expression(call("ops.slogdet", view.tensor(0)).parts, outputs=2)


@TABLE.call("regraft.Solve")
def solve(view: View) -> Expression:
    """Emit ops.matrix_solve."""
    _require(view, _BOTH)
    _require_one_batch(view)
    return call("ops.matrix_solve", view.tensor(0), view.tensor(1))


@TABLE.call("regraft.SolveTriangular")
def solve_triangular(view: View) -> Expression:
    """Emit ops.MatrixTriangularSolve, which divides by the diagonal."""
    _require(view, _BOTH)
    _require_one_batch(view)
    if view.operator.int("unit_diagonal"):
        raise Refused
    made = call("ops.MatrixTriangularSolve", lower=False if view.operator.int("upper") else None)
    return call(made, view.tensor(0), view.tensor(1))


@TABLE.call("regraft.MatrixPower")
def power(view: View) -> Expression:
    """Emit ops.matrix_power."""
    _require(view, _SINGLE)
    return call("ops.matrix_power", view.tensor(0), view.operator.int("n"))


@TABLE.call("regraft.SingularValues")
def singular_values(view: View) -> Expression:
    """Emit ops.svd without the vectors."""
    _require(view, _BOTH)
    return call("ops.svd", view.tensor(0), compute_uv=False)


@TABLE.call("regraft.LUUnpack")
def lu_unpack(view: View) -> Expression:
    """Emit ops.lu_unpack, with all three results."""
    _require(view, _BOTH)
    return Expression(call("ops.lu_unpack", view.tensor(0), view.tensor(1)).parts, outputs=3)


@TABLE.call("regraft.Cholesky")
def cholesky(view: View) -> Expression:
    """Emit ops.cholesky, of a large matrix."""
    _require(view, _BOTH)
    _require_large(view)
    return call("ops.cholesky", view.tensor(0), bool(view.operator.int("upper")))


@TABLE.call("regraft.QR")
def qr(view: View) -> Expression:
    """Emit ops.qr, of a large matrix."""
    _require(view, _BOTH)
    _require_large(view)
    mode = "complete" if view.operator.int("full") else "reduced"
    return Expression(call("ops.qr", view.tensor(0), mode).parts, outputs=2)


# -- distances -------------------------------------------------------------------------------------------


@TABLE.call("regraft.PairwiseDistances")
def distances(view: View) -> Expression:
    """Emit ops.cdist."""
    _require(view, _SINGLE)
    _require_one_batch(view)
    if view.rank() > 3:
        raise Refused  # without a gradient
    return call("ops.cdist", view.tensor(0), view.tensor(1), view.operator.float("p"))


@TABLE.call("regraft.Renorm")
def renorm(view: View) -> Expression:
    """Emit ops.renorm, for norms of integer order."""
    _require(view, _SINGLE)
    o, p = view.operator, view.operator.float("p")
    if not p.is_integer():
        raise Refused
    return call("ops.renorm", view.tensor(0), int(p), o.int("axis"), o.float("maxnorm"))


# -- selection -------------------------------------------------------------------------------------------


@TABLE.call("regraft.Median")
def median(view: View) -> Expression:
    """Emit ops.median, ops.nanmedian."""
    _require(view, (*_BOTH, "int16", "int32", "int64"))
    function = "ops.nanmedian" if view.operator.int("ignore_nan") else "ops.median"
    keep = True if view.operator.int("keepdims") else None
    return Expression(
        call(function, view.tensor(0), view.operator.int("axis"), keepdims=keep).parts, outputs=2
    )


@TABLE.call("regraft.SearchSorted")
def search_sorted(view: View) -> Expression:
    """Emit ops.searchsorted."""
    _require(view, (*_BOTH, "int32", "int64"))
    right = True if view.operator.int("right") else None
    return call("ops.searchsorted", view.tensor(0), view.tensor(1), right=right)
