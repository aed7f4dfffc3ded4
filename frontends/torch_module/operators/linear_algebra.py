"""Lowerings of linear algebra: the operators that torch's own decompositions of the others end in."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.composites.matrices import symmetric
from ....ir.composites.terms import Term
from ...formulas import solve_by_factor, substitute, swap_last_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")
TABLE.direct({"aten.linalg_matrix_exp.default": "regraft.MatrixExponential"})

_SIGNS = "the signs of its vectors are LAPACK's choice; its values alone (eigvalsh, svdvals) can be read"


def _no_error(call: Call, position: int) -> Value | None:
    """Return zeros, where somebody reads what tells whether there was an error."""
    if position not in call.reads:
        return None
    sizes = call.context.symbols.sizes(call.fake[position])
    return call.op("Expand", call.constant(0, "int32"), call.shape_value(sizes))


# -- equations -------------------------------------------------------------------------------------------


@TABLE.op("aten._linalg_det.default")
def det(call: Call) -> list[Value | None]:
    """Return the determinant alone."""
    _require_unread(call, {1, 2})
    return [call.op("regraft.Determinant", call.value("A")), None, None]


@TABLE.op("aten._linalg_slogdet.default")
def slogdet(call: Call) -> list[Value | None]:
    """Return the sign and logarithm of the determinant alone."""
    _require_unread(call, {2, 3})
    return [*call.ops("regraft.LogDeterminant", call.value("A"), outputs=2), None, None]


def _require_unread(call: Call, positions: set[int]) -> None:
    """Refuse a call whose factors, which only gradients need, are read: they depend on memory layout."""
    if call.reads & positions:
        raise call.unsupported("expected nobody to read the factors beside a determinant")


@TABLE.op("aten._linalg_solve_ex.default")
def solve(call: Call) -> list[Value | None]:
    """The solution of a x = b or x a = b, a vector where b has one axis less; the factors of a; no error."""
    call.ignore("check_errors")
    a, b, left = call.value("A"), call.value("B"), call.flag("left")
    one = call.rank("B") == 1 or (
        call.rank("A") - 1 == call.rank("B") and call.shape("B") == call.shape("A")[:-1]
    )
    b = call.op("Unsqueeze", b, call.constant([-1])) if one else b
    found = call.op(
        "regraft.Solve", swap_last_axes(call, a, when=not left), swap_last_axes(call, b, when=not left)
    )
    found = swap_last_axes(call, found, when=not left)
    found = call.op("Squeeze", found, call.constant([-1])) if one else found
    factors = call.ops("regraft.LU", a, outputs=2) if call.reads & {1, 2} else [None, None]
    return [found, *factors, _no_error(call, 3)]


@TABLE.op("aten.linalg_inv_ex.default")
def inverse(call: Call) -> list[Value | None]:
    """Return the inverse, and no error."""
    call.ignore("check_errors")
    return [call.op("regraft.Inverse", call.value("A")), _no_error(call, 1)]


@TABLE.op("aten.linalg_matrix_power.default", "aten.matrix_power.default")
def matrix_power(call: Call) -> Value:
    """Whole; torch's own multiplies stacks of matrices as lists of them."""
    return call.op("regraft.MatrixPower", call.value(call.first), n=call.int("n"))


# -- triangles -------------------------------------------------------------------------------------------


@TABLE.op("aten.linalg_cholesky_ex.default")
def cholesky_ex(call: Call) -> list[Value | None]:
    """Return the factor, and no error."""
    call.ignore("check_errors")
    return [cholesky(call), _no_error(call, 1)]


@TABLE.op("aten.cholesky.default")
def cholesky(call: Call) -> Value:
    """Return the lower or upper factor."""
    return call.op("regraft.Cholesky", call.value(call.first), upper=call.flag("upper"))


@TABLE.op("aten.linalg_solve_triangular.default")
def solve_triangular(call: Call) -> Value:
    """Return the solution of a x = b or x a = b."""
    flip, upper, unit = not call.flag("left"), call.flag("upper"), call.flag("unitriangular")
    a, b = (swap_last_axes(call, call.value(name), when=flip) for name in ("self", "B"))
    return swap_last_axes(call, substitute(call, a, b, upper=upper != flip, unit=unit), when=flip)


@TABLE.op("aten.triangular_solve.default")
def triangular_solve(call: Call) -> list[Value | None]:
    """Return the older form, which gives the coefficients back."""
    flip, upper, unit = call.flag("transpose"), call.flag("upper"), call.flag("unitriangular")
    a = call.value("A")
    found = substitute(
        call, swap_last_axes(call, a, when=flip), call.value("self"), upper=upper != flip, unit=unit
    )
    if 1 not in call.reads:
        return [found, None]
    sizes = call.context.symbols.sizes(call.fake[1])
    return [found, call.op("Expand", a, call.shape_value(sizes))]


@TABLE.op("aten.cholesky_solve.default")
def cholesky_solve(call: Call) -> Value:
    """Return the solution, given a factor."""
    return solve_by_factor(call, call.value("input2"), call.value("self"), upper=call.flag("upper"))


@TABLE.op("aten.cholesky_inverse.default")
def cholesky_inverse(call: Call) -> Value:
    """Return the inverse, given a factor."""
    (rows,) = call.static_shape("self", [-1])
    one = call.constant(np.eye(rows), call.dtype)
    return solve_by_factor(call, call.value("self"), one, upper=call.flag("upper"))


# -- factors ---------------------------------------------------------------------------------------------


def _require_pivots(call: Call) -> None:
    if not call.flag("pivot"):
        raise call.unsupported("expected elimination that pivots")


@TABLE.op("aten.linalg_lu_factor_ex.default")
def lu_factor(call: Call) -> list[Value | None]:
    """L and U in one, pivots, and no error."""
    call.ignore("check_errors")
    _require_pivots(call)
    return [*call.ops("regraft.LU", call.value("A"), outputs=2), _no_error(call, 2)]


@TABLE.op("aten.linalg_lu.default")
def lu(call: Call) -> list[Value]:
    """P, L and U."""
    _require_pivots(call)
    factors = call.ops("regraft.LU", call.value("A"), outputs=2)
    return call.ops("regraft.LUUnpack", *factors, outputs=3)


@TABLE.op("aten.lu_unpack.default")
def lu_unpack(call: Call) -> list[Value | None]:
    """P, L and U of factors; what is not asked for is empty."""
    data, pivots = call.flag("unpack_data"), call.flag("unpack_pivots")
    found = call.ops("regraft.LUUnpack", call.value("LU_data"), call.value("LU_pivots"), outputs=3)
    empty = call.constant(np.empty(0), call.dtype_of("LU_data"))
    return [v if wanted else empty for v, wanted in zip(found, (pivots, data, data), strict=True)]


@TABLE.op("aten.linalg_lu_solve.default")
def lu_solve(call: Call) -> Value:
    """Return the solution, given factors and pivots."""
    flip, adjoint = not call.flag("left"), call.flag("adjoint")
    b = swap_last_axes(call, call.value("B"), when=flip)
    operands = call.value("LU"), call.value("pivots"), b
    return swap_last_axes(call, call.op("regraft.LUSolve", *operands, transposed=adjoint != flip), when=flip)


@TABLE.op("aten.geqrf.default")
def geqrf(call: Call) -> list[Value]:
    """Reflectors and factors."""
    return call.ops("regraft.Reflectors", call.value("self"), outputs=2)


@TABLE.op("aten.linalg_householder_product.default")
def householder_product(call: Call) -> Value:
    """Return the first columns of Q."""
    return call.op("regraft.ReflectorsProduct", call.value("input"), call.value("tau"))


@TABLE.op("aten.ormqr.default")
def ormqr(call: Call) -> Value:
    """Return a product with Q or its transpose, from the left or the right."""
    flip, transpose = not call.flag("left"), call.flag("transpose")
    other = swap_last_axes(call, call.value("input3"), when=flip)
    operands = call.value("self"), call.value("input2"), other
    found = call.op("regraft.ApplyReflectors", *operands, transposed=transpose != flip)
    return swap_last_axes(call, found, when=flip)


@TABLE.op("aten.linalg_qr.default")
def qr(call: Call) -> list[Value]:
    """Q and R; of mode "r" only R, of any shape that the other is not asked for in."""
    mode = call.text("mode")
    left, right = call.ops("regraft.QR", call.value("A"), outputs=2, full=mode == "complete")
    return [call.constant(np.empty(0), call.dtype_of("A")) if mode == "r" else left, right]


# -- values ----------------------------------------------------------------------------------------------


@TABLE.op("aten._linalg_eigh.default", "aten.linalg_eigh.default")
def eigenvalues(call: Call) -> list[Value | None]:
    """Return the eigenvalues, ascending, where nobody reads the vectors; of both, torch's own reads all."""
    upper, wanted = call.text("UPLO").upper() == "U", call.flag("compute_v", True)
    _refuse_vectors(call, {1}, wanted)
    found = call.ops("regraft.SymmetricEigen", call.value(call.first), outputs=2, upper=upper)[0]
    return [found, _empty(call, 1)]


@TABLE.op("aten._linalg_svd.default", "aten.linalg_svd.default")
def singular_values(call: Call) -> list[Value | None]:
    """The singular values, descending, where nobody reads the vectors; of both, torch's own reads all."""
    call.ignore("full_matrices", "driver")
    _refuse_vectors(call, {0, 2}, call.flag("compute_uv", True))
    return [_empty(call, 0), call.op("regraft.SingularValues", call.value("A")), _empty(call, 2)]


def _refuse_vectors(call: Call, positions: set[int], wanted: bool) -> None:
    if wanted and call.reads & positions:
        raise call.unsupported(_SIGNS)


def _empty(call: Call, position: int) -> Value | None:
    """Return an empty tensor in place of vectors that were not requested."""
    return call.constant(np.empty(0), call.dtype_of(call.first)) if position in call.reads else None


@TABLE.op("aten.linalg_pinv.atol_rtol_tensor")
def pseudo_inverse(call: Call) -> Value:
    """Invert the singular values above the tolerances; the usual one is relative to the largest."""
    a, dtype = call.value("self"), call.dtype
    if call.flag("hermitian"):
        a = symmetric(Term(call.b, a)).value
    usual = max(call.static_shape("self", [-2, -1])) * float(np.finfo(np.dtype(dtype)).eps)
    absolute = call.optional("atol")
    floor = call.constant(0, "float64") if absolute is None else call.cast(absolute, "float64")
    if call.arg("rtol", None) is not None:
        ratio = call.cast(call.value("rtol"), "float64")
    elif absolute is None:
        ratio = call.constant(usual, "float64")
    else:
        given = call.op("Greater", floor, call.scalar_like(0, floor))
        ratio = call.op("Where", given, call.scalar_like(0, floor), call.constant(usual, "float64"))
    return call.op("regraft.PseudoInverse", a, floor, ratio)


# -- distances -------------------------------------------------------------------------------------------


@TABLE.op("aten._cdist_forward.default")
def cdist(call: Call) -> Value:
    """Return distances of all pairs of rows."""
    call.ignore("compute_mode")
    return call.op("regraft.PairwiseDistances", call.value("x1"), call.value("x2"), p=call.float("p"))


@TABLE.op("aten._pdist_forward.default")
def pdist(call: Call) -> Value:
    """Return distances of pairs of rows, each pair once."""
    x = call.value("self")
    (rows,) = call.static_shape("self", [0])
    every = call.op("regraft.PairwiseDistances", x, x, p=call.float("p"))
    first, second = np.triu_indices(rows, 1)
    flat = call.reshape(every, [rows * rows])
    return call.op("Gather", flat, call.constant(first * rows + second, "int64"), axis=0)


@TABLE.op("aten.renorm.default")
def renorm(call: Call) -> Value:
    """Slices scaled down to a norm; torch's own multiplies by one where this leaves a slice alone."""
    scaled = {"p": call.float("p"), "axis": call.axis("dim"), "maxnorm": call.float("maxnorm")}
    return call.op("regraft.Renorm", call.value("self"), **scaled)


@TABLE.op("aten.embedding_renorm.default", "aten.embedding_renorm_.default")
def embedding_renorm(call: Call) -> Value:
    """Return the same of all rows: those that are not looked up count for nothing."""
    call.ignore("indices")
    scaled = {"p": call.float("norm_type"), "axis": 0, "maxnorm": call.float("max_norm")}
    return call.op("regraft.Renorm", call.value("self"), **scaled)
