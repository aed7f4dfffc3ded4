"""Activations, arithmetic and reductions as calls of PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .reading import BEFORE, Call, Reading, Row, parameter, plain, with_attributes


def _sign(sign: str) -> Row:
    """An operator of two operands, of which one may be a number."""

    def row(r: Reading) -> Call | None:
        numbers = r.number(0), r.number(1)
        computed = [n is None for n in numbers]
        if not any(computed):
            return None
        mine = r[0] if computed[0] or not _is_scalar(r, 0) else numbers[0]
        theirs = r[1] if computed[1] or not _is_scalar(r, 1) else numbers[1]
        return None if mine is None or theirs is None else Call(sign, (mine, theirs))

    return row


def _is_scalar(r: Reading, at: int) -> bool:
    """Whether an operand does not give the result an axis."""
    mine, result = r.shape(at), r.results()
    other = r.shape(1 - at)
    return mine is not None and (len(mine) == 0 or (other is not None and len(other) >= len(result or mine)))


def _of_two(name: str) -> Row:
    """A function of two or more tensors, of which each is taken with the one before."""

    def row(r: Reading) -> Sequence[Call] | None:
        items = [item for item in r.operands if item is not None]
        if len(items) < 2:
            return None
        first = Call(name, (items[0], items[1]))
        return [first, *(Call(name, (BEFORE, item)) for item in items[2:])]

    return row


def _reduction(name: str, **further: Any) -> Row:
    def row(r: Reading) -> Call | None:
        axes = r.numbers(1)
        if axes is None and r[1] is not None:
            return None
        rank = len(r.shape(0) or ())
        if not axes:
            if r.operator.attribute("noop_with_empty_axes"):
                return None
            axes = list(range(rank))
        dim: Any = tuple(a % rank for a in axes) if rank else ()
        if name == "torch.prod":
            if len(dim) != 1:
                return None
            dim = dim[0]
        elif len(dim) == 1:
            dim = axes[0]
        return Call(name, (r[0],), {**further, "dim": dim, "keepdim": r.flag("keepdims")})

    return row


def _extreme(name: str) -> Row:
    def row(r: Reading) -> Sequence[Call]:
        dim, keepdim = r.operator.int("axis"), r.flag("keepdims")
        if not r.flag("select_last_index"):
            return [Call(name, (r[0],), {"dim": dim, "keepdim": keepdim})]
        size = (r.shape(0) or ())[dim]
        return [
            Call("torch.flip", (r[0], (dim,))),
            Call(name, (BEFORE,), {"dim": dim, "keepdim": keepdim}),
            Call("-", (size - 1, BEFORE)),
        ]

    return row


def _clip(r: Reading) -> Call | None:
    bounds = {"min": (r[1], r.number(1)), "max": (r[2], r.number(2))}
    if any(item is not None and number is None for item, number in bounds.values()):
        return None
    given = {name: number for name, (_, number) in bounds.items() if number is not None}
    return Call("torch.clamp", (r[0],), given)


def _prelu(r: Reading) -> Call | None:
    slope = r.constant(1) if r.constant(1) is not None else parameter(r, 1)
    return None if slope is None else Call("F.prelu", (r[0], r.tensor(slope.reshape(-1))))


def _hard_sigmoid(r: Reading) -> Sequence[Call]:
    slope, middle = r.float("alpha"), r.float("beta")
    if abs(slope - 1 / 6) < 1e-6 and middle == 0.5:
        return [Call("F.hardsigmoid", (r[0],))]
    return [
        Call("*", (r[0], slope)),
        Call("+", (BEFORE, middle)),
        Call("torch.clamp", (BEFORE,), {"min": 0, "max": 1}),
    ]


def _shrink(r: Reading) -> Call | None:
    bias, bound = r.float("bias"), r.float("lambd")
    if bias not in (0, bound):
        return None
    return Call("F.softshrink" if bias else "F.hardshrink", (r[0], bound))


_CASTS = {
    "bool": ".bool",
    "float16": ".half",
    "float32": ".float",
    "float64": ".double",
    "int32": ".int",
    "int64": ".long",
}


def _cast(r: Reading) -> Call | None:
    type_ = r.operator.types[0] if r.operator.types else None
    name = None if type_ is None else _CASTS.get(type_.dtype)
    return None if name is None else Call(name, (r[0],))


def _head(r: Reading) -> Call:
    return Call("F.softmax", (r[0],), {"dim": r.operator.int("axis")})


_OF_TORCH = (
    *("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Abs", "Floor", "Ceil", "Round", "Erf", "Sin", "Cos", "Tan"),
    *("Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Reciprocal", "Sign"),
)
"""Functions of one tensor that torch writes in small letters."""


ELEMENTWISE: dict[str, Row] = {
    **{name: plain(f"torch.{name.lower()}") for name in _OF_TORCH},
    "Relu": plain("F.relu"),
    "Softplus": plain("F.softplus"),
    "Softsign": plain("F.softsign"),
    "HardSwish": plain("F.hardswish"),
    "Mish": plain("F.mish"),
    "Selu": plain("F.selu"),
    "regraft.Swish": plain("F.silu"),
    "regraft.Log1p": plain("torch.log1p"),
    "regraft.Expm1": plain("torch.expm1"),
    "Neg": plain("-x"),
    "Not": plain("~"),
    "IsNaN": plain("torch.isnan"),
    "Gelu": with_attributes("F.gelu", approximate="approximate"),
    "Elu": with_attributes("F.elu", alpha="alpha"),
    "Celu": with_attributes("F.celu", alpha="alpha"),
    "LeakyRelu": with_attributes("F.leaky_relu", negative_slope="alpha"),
    "PRelu": _prelu,
    "HardSigmoid": _hard_sigmoid,
    "Shrink": _shrink,
    "Softmax": with_attributes("F.softmax", dim="axis"),
    "LogSoftmax": with_attributes("F.log_softmax", dim="axis"),
    "regraft.SoftmaxOutput": _head,
    "Add": _sign("+"),
    "Sub": _sign("-"),
    "Mul": _sign("*"),
    "Div": _sign("/"),
    "Pow": _sign("**"),
    "Less": _sign("<"),
    "LessOrEqual": _sign("<="),
    "Greater": _sign(">"),
    "GreaterOrEqual": _sign(">="),
    "Equal": _sign("=="),
    "And": _sign("&"),
    "Or": _sign("|"),
    "Xor": _sign("^"),
    "Max": _of_two("torch.maximum"),
    "Min": _of_two("torch.minimum"),
    "Cast": _cast,
    "ReduceMean": _reduction("torch.mean"),
    "ReduceSum": _reduction("torch.sum"),
    "ReduceMax": _reduction("torch.amax"),
    "ReduceMin": _reduction("torch.amin"),
    "ReduceProd": _reduction("torch.prod"),
    "ReduceL1": _reduction("torch.norm", p=1),
    "ReduceL2": _reduction("torch.norm", p=2),
    "ReduceLogSumExp": _reduction("torch.logsumexp"),
    "ArgMax": _extreme("torch.argmax"),
    "ArgMin": _extreme("torch.argmin"),
    "Clip": _clip,
}
