"""The scaled products of BLAS, of a target's product of two matrices."""

from __future__ import annotations

from ..emitting import Expression, Literal, View
from ..expressions import ADD, MULTIPLY, Attribute, Part, infix


def is_plain_gemm(view: View) -> bool:
    """Whether a Gemm is ``a @ b + c``, or has the second operand transposed."""
    operator = view.operator
    return operator.float("alpha") == 1.0 and operator.float("beta") == 1.0 and not operator.int("transA")


def gemm_operand(view: View, slot: int, otherwise: Part) -> Part:
    """Return ``a.T`` where a Gemm transposes an operand."""
    turned = view.operator.int("transA" if slot == 0 else "transB")
    return Attribute(view.atom(slot), "T") if turned else otherwise


def scale_and_add(view: View, product: Expression) -> Expression:
    """Return ``product * alpha + c * beta``."""
    alpha, beta = (view.operator.float(name) for name in ("alpha", "beta"))
    found = product if alpha == 1.0 else infix(product, "*", Literal(alpha, "alpha"), MULTIPLY)
    if not view.has(2):
        return found
    bias: Part = view.use(2, MULTIPLY)
    if beta != 1.0:
        bias = infix(bias, "*", Literal(beta, "beta"), MULTIPLY)
    return infix(found, "+", bias, ADD)
