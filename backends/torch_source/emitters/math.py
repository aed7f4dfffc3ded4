"""Elementwise functions of torch; what Python itself writes is in `backends/source/emitters`."""

from __future__ import annotations

from ...source.emitters.arithmetic import (
    extreme_of_sizes,
    is_of_tuples,
    quotient_of_sizes,
    remainder,
)
from ...source.emitters.functions import OF_ONE, OF_TWO, add_functions, nest
from ...source.emitting import EmitterTable, Expression, Literal, Refused, View, first_element
from ...source.expressions import (
    ATOM,
    MULTIPLY,
    POWER,
    UNARY,
    Brackets,
    call,
    infix,
    method,
)
from .initializers import torch_dtype

TABLE = EmitterTable()

add_functions(TABLE, "torch", OF_ONE | {"BitwiseNot": "bitwise_not", "Det": "det", "Erf": "erf"})
add_functions(TABLE, "torch", OF_TWO, count=2)


@TABLE.call("Div")
def divide(view: View) -> Expression:
    """Emit ``x / y``; integers truncate, as ONNX has it."""
    sizes = quotient_of_sizes(view)
    if sizes is not None:
        return sizes
    if view.type(0).dtype.startswith(("int", "uint")):
        return call("torch.div", view.tensor(0), view.use(1), rounding_mode="trunc")
    return infix(view.use(0, MULTIPLY), "/", view.use(1, UNARY), MULTIPLY)


@TABLE.call("Mod")
def modulo(view: View) -> Expression:
    """Emit ``x % y`` with Python's sign, or torch.fmod with the dividend's."""
    if view.operator.int("fmod") and not is_of_tuples(view):
        return call("torch.fmod", view.tensor(0), view.use(1))
    return remainder(view)


@TABLE.call("Pow")
def power(view: View) -> Expression:
    """Emit ``x**y``, and ``(-2.0) ** x``: a minus binds less than the power; the base says the type."""
    base, (own, other) = view.use(0, ATOM), (view.type(slot).dtype for slot in (0, 1))
    if isinstance(base, Literal) and view.scalar(0) < 0:
        base = Brackets(base)
    found = Expression((base, "**", view.use(1, POWER)), POWER)
    if own == other or (view.constant(1) is not None and not own.startswith(("int", "uint"))):
        return found
    return method(Brackets(found), "to", torch_dtype(own))


@TABLE.call("BitShift")
def shift(view: View) -> Expression:
    """Emit ``x << y``, ``x >> y``."""
    if view.type(0).dtype in ("uint16", "uint32", "uint64"):
        raise Refused
    symbol = "<<" if view.operator.str("direction") == "LEFT" else ">>"
    function = "torch.bitwise_left_shift" if symbol == "<<" else "torch.bitwise_right_shift"
    return call(function, view.tensor(0), view.use(1))


@TABLE.call("IsInf")
def is_inf(view: View) -> Expression:
    """Emit torch.isinf, torch.isposinf, torch.isneginf."""
    negative, positive = (bool(view.operator.int(f"detect_{sign}")) for sign in ("negative", "positive"))
    if not negative and not positive:
        return call("torch.zeros_like", view.tensor(0), dtype=torch_dtype("bool"))
    name = "isinf" if negative and positive else "isposinf" if positive else "isneginf"
    return call(f"torch.{name}", view.tensor(0))


def _extreme(view: View, function: str, clamp: str) -> Expression:
    """Return the larger or smaller elements; ``x.clamp(min=0)`` where the other is a number."""
    count = len(view.operands)
    if count == 2 and any(view.host(s) for s in (0, 1)):
        if all(view.host(s) or view.constant(s) is not None for s in (0, 1)):
            return extreme_of_sizes(view, "max" if function.endswith("maximum") else "min")
        raise Refused
    for own, other in ((0, 1), (1, 0)) if count == 2 else ():
        number = view.constant(other)
        is_number = number is not None and number.size == 1 and number.ndim <= min(view.rank(own), 1)
        if is_number and number is not None and view.constant(own) is None:
            return method(view.atom(own), "clamp", **{clamp: first_element(number)})
    return nest(function, [view.tensor(slot) for slot in range(count)])


@TABLE.call("Max")
def maximum(view: View) -> Expression:
    """Emit torch.maximum of two, nested for more."""
    return _extreme(view, "torch.maximum", "min")


@TABLE.call("Min")
def minimum(view: View) -> Expression:
    """Emit torch.minimum of two, nested for more."""
    return _extreme(view, "torch.minimum", "max")


@TABLE.call("Where")
def where(view: View) -> Expression:
    """Emit torch.where; numbers are tensors where their type is not the one that torch gives them."""
    to = view.output_type()
    plain = to is not None and to.dtype == "float32"
    numbers = [view.constant(slot) is not None for slot in (1, 2)]
    parts = [
        view.use(slot) if plain or (number and not all(numbers)) else view.tensor(slot)
        for slot, number in zip((1, 2), numbers, strict=True)
    ]
    return call("torch.where", view.tensor(0), *parts)


@TABLE.call("Cast")
def cast(view: View) -> Expression:
    """Emit ``x.to(torch.float32)``; a shape computation stays a Python number."""
    to = view.output_type()
    if to is None:
        raise Refused
    if view.host(0):
        if to.dtype.startswith("int"):
            return Expression((view.use(0, ATOM),), ATOM, view.host(0))
        raise Refused
    largest = _LARGEST.get(to.dtype) if view.graph.origin.framework != "torch" else None
    if largest is not None and view.operator.int("saturate"):  # most become NaN or infinity in torch
        bounded = method(view.atom(), "clamp", -largest, largest)
        return method(bounded, "to", torch_dtype(to.dtype))
    if largest is not None and to.dtype == "float8_e4m3fn":
        raise Refused  # torch 2.13 saturates it in any case
    if to.dtype == "float32" and view.type() == to:
        return method(view.atom(), "float")
    return method(view.atom(), "to", torch_dtype(to.dtype))


@TABLE.call("CastLike")
def cast_like(view: View) -> Expression:
    """Emit ``x.type_as(other)`` for a net of torch, whose copies may have another type."""
    if view.graph.origin.framework != "torch":
        raise Refused
    return method(view.atom(), "type_as", view.tensor(1))


_LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
"""Element type -> the largest number of it, which ONNX casts larger ones to."""


@TABLE.call("Identity", "regraft.MakeLoss", "regraft.StopGradient")
def identity(view: View) -> Expression:
    """Emit the value itself; no gradient flows through StopGradient."""
    if view.operator.op_type == "StopGradient":
        return method(view.atom(), "detach")
    return Expression((view.use(0),), 0, view.host(0))


_SPECIAL = {
    "BesselI0": "special.i0",
    "BesselI0e": "special.i0e",
    "BesselI1": "special.i1",
    "BesselI1e": "special.i1e",
    "BesselJ0": "special.bessel_j0",
    "BesselJ1": "special.bessel_j1",
    "BesselY0": "special.bessel_y0",
    "BesselK0": "special.modified_bessel_k0",
    "BesselK1": "special.modified_bessel_k1",
    "BesselK0e": "special.scaled_modified_bessel_k0",
    "BesselK1e": "special.scaled_modified_bessel_k1",
    "Erfc": "erfc",
    "Exp2": "exp2",
    "Expm1": "expm1",
    "Lgamma": "lgamma",
    "Log1p": "log1p",
}

add_functions(TABLE, "torch", {f"regraft.{name}": function for name, function in _SPECIAL.items()})
add_functions(TABLE, "torch", {"regraft.Gcd": "gcd", "regraft.Lcm": "lcm"}, count=2)


@TABLE.call("regraft.Polygamma")
def polygamma(view: View) -> Expression:
    """Emit torch.polygamma."""
    return call("torch.polygamma", view.operator.int("n"), view.tensor(0))


@TABLE.call("LRN")
def lrn(view: View) -> Expression:
    """Emit F.local_response_norm; of even sizes its window reaches further back, and ONNX's further on."""
    operator = view.operator
    size = operator.int("size")
    settings = {name: operator.float(name) for name in ("alpha", "beta")}
    is_even = size % 2 == 0
    x = method(view.atom(), "flip", 1) if is_even else view.use(0)
    found = call("F.local_response_norm", x, size, **settings, k=operator.float("bias"))
    return method(found, "flip", 1) if is_even else found
