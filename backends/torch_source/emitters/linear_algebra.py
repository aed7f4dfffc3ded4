"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from ...source.emitting import EmitterTable, Expression, Refused, View
from ...source.expressions import Attribute, Part, Quoted, call, method

TABLE = EmitterTable()

_FUNCTIONS = {"Inverse": "torch.linalg.inv", "Determinant": "torch.linalg.det"}


@TABLE.call("regraft.Inverse", "regraft.Determinant")
def of_matrix(view: View) -> Expression:
    """Emit torch.linalg.inv, torch.linalg.det."""
    return call(_FUNCTIONS[view.operator.op_type], view.tensor(0))


@TABLE.call("regraft.LogDeterminant")
def log_determinant(view: View) -> Expression:
    """Emit torch.linalg.slogdet."""
    return Expression(call("torch.linalg.slogdet", view.tensor(0)).parts, outputs=2)


@TABLE.call("regraft.Solve")
def solve(view: View) -> Expression:
    """Emit torch.linalg.solve."""
    if view.rank(0) != view.rank(1):
        raise Refused
    return call("torch.linalg.solve", view.tensor(0), view.tensor(1))


@TABLE.call("regraft.SolveTriangular")
def solve_triangular(view: View) -> Expression:
    """Emit torch.linalg.solve_triangular."""
    unit = True if view.operator.int("unit_diagonal") else None
    upper = bool(view.operator.int("upper"))
    return call(
        "torch.linalg.solve_triangular", view.tensor(0), view.tensor(1), upper=upper, unitriangular=unit
    )


@TABLE.call("regraft.MatrixPower")
def power(view: View) -> Expression:
    """Emit torch.linalg.matrix_power."""
    return call("torch.linalg.matrix_power", view.tensor(0), view.operator.int("n"))


@TABLE.call("regraft.SingularValues")
def singular_values(view: View) -> Expression:
    """Emit torch.linalg.svdvals."""
    return call("torch.linalg.svdvals", view.tensor(0))


@TABLE.call("regraft.LUUnpack")
def lu_unpack(view: View) -> Expression:
    """Emit torch.lu_unpack, with all three results."""
    return Expression(call("torch.lu_unpack", view.tensor(0), view.tensor(1)).parts, outputs=3)


@TABLE.call("regraft.Cholesky")
def cholesky(view: View) -> Expression:
    """Emit torch.linalg.cholesky."""
    return call("torch.linalg.cholesky", view.tensor(0), upper=True if view.operator.int("upper") else None)


@TABLE.call("regraft.QR")
def qr(view: View) -> Expression:
    """Emit torch.linalg.qr."""
    mode = Quoted("complete") if view.operator.int("full") else None
    return Expression(call("torch.linalg.qr", view.tensor(0), mode=mode).parts, outputs=2)


@TABLE.call("regraft.PairwiseDistances")
def distances(view: View) -> Expression:
    """Emit torch.cdist."""
    p = view.operator.float("p")
    return call("torch.cdist", view.tensor(0), view.tensor(1), p=p if p != 2 else None)


@TABLE.call("regraft.Renorm")
def renorm(view: View) -> Expression:
    """Emit torch.renorm."""
    o = view.operator
    return call("torch.renorm", view.tensor(0), o.float("p"), o.int("axis"), o.float("maxnorm"))


def _norm(view: View) -> Part | None:
    norm = view.operator.str("norm")
    return None if norm == "backward" else Quoted(norm)


def _axis(view: View) -> int | None:
    axis = view.operator.int("axis") % view.rank()
    return None if axis == view.rank() - 1 else axis


def _complex(view: View) -> Part:
    return call("torch.complex", view.tensor(0), view.tensor(1)) if view.has(1) else view.tensor(0)


@TABLE.call("regraft.Fourier")
def fourier(view: View) -> Expression:
    """Emit torch.fft.fft, ifft, rfft; both parts, or the real one alone."""
    half, inverse = view.operator.int("half"), view.operator.int("inverse")
    if half and inverse:
        raise Refused
    name = "rfft" if half else "ifft" if inverse else "fft"
    found = call(f"torch.fft.{name}", _complex(view), dim=_axis(view), norm=_norm(view))
    if view.used_outputs() == 1:
        return Expression((Attribute(found, "real"),))
    both = method(call("torch.view_as_real", found), "unbind", -1)
    return Expression(both.parts, outputs=2)


@TABLE.call("regraft.RealFourier")
def real_fourier(view: View) -> Expression:
    """Emit torch.fft.irfft."""
    if not view.operator.int("inverse"):
        raise Refused
    n = view.operator.int("n")
    return call("torch.fft.irfft", _complex(view), n, dim=_axis(view), norm=_norm(view))
