"""Initial distributions as MindSpore's initializers, in the source's own law and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir import Initializer, Parameter
from .emitting import Argument
from .expressions import Call, Expression, Literal, Part, literals

_DTYPES = {"bool": "bool_"}
_BY_FAN_IN = "1 / math.sqrt("


def ms_dtype(dtype: str) -> Part:
    """``ms.float32``."""
    return f"ms.{_DTYPES.get(dtype, dtype)}"


def law(initializer: Initializer | None, fan_in: Sequence[int] = ()) -> Part | None:
    """An initializer as source; None when it is unknown or MindSpore has no counterpart.

    Args:
        initializer: the distribution.
        fan_in: factors of the fan-in of the layer's weight, for bounds that depend on it.
    """
    if initializer is None:
        return None
    get = lambda name, default: float(initializer.argument(name, default))  # noqa: E731
    match initializer.law:
        case "zeros" | "ones":
            return f'"{initializer.law}"'
        case "constant":
            return _call("Constant", Literal(get("value", 0.0), "fill"))
        case "uniform":
            low, high = get("low", -1.0), get("high", 1.0)
            if low != -high:
                return None
            if fan_in and math.isclose(high, 1 / math.sqrt(math.prod(fan_in)), rel_tol=1e-6):
                return _call("Uniform", Expression((_BY_FAN_IN, _product(fan_in), ")")))
            return _call("Uniform", Literal(high, "bound"))
        case "normal":
            mean, std = get("mean", 0.0), get("std", 1.0)
            return _call("Normal", Literal(std, "std"), *([Literal(mean, "mean")] if mean else []))
        case "trunc_normal":
            mean, std = get("mean", 0.0), get("std", 1.0)
            low, high = (get("low", -2.0) - mean) / std, (get("high", 2.0) - mean) / std
            if (low, high) == (-2.0, 2.0) and not mean:
                return _call("TruncatedNormal", Literal(std, "std"))
            return _call(
                "TruncatedNormal",
                Literal(std, "std"),
                Literal(mean, "mean"),
                Literal(low, "low"),
                Literal(high, "high"),
            )
        case "he_uniform" | "he_normal":
            name = "HeUniform" if initializer.law == "he_uniform" else "HeNormal"
            slope, mode = get("a", 0.0), str(initializer.argument("mode", "fan_in"))
            arguments: list[Argument] = []
            if math.isclose(slope, math.sqrt(5)):
                arguments.append(Argument("", "math.sqrt(5)"))
            elif slope:
                arguments.append(Argument("", Literal(slope, "slope")))
            if mode == "fan_out":
                arguments.append(Argument("mode", '"fan_out"'))
            if not slope:  # with a slope of 0, leaky_relu's gain is relu's
                arguments.append(Argument("nonlinearity", '"relu"'))
            return Expression((Call(name, tuple(arguments)),))
        case "xavier_uniform" | "xavier_normal":
            name = "XavierUniform" if initializer.law == "xavier_uniform" else "XavierNormal"
            gain = get("gain", 1.0)
            return _call(name, *([Literal(gain, "gain")] if gain != 1.0 else []))
        case "orthogonal":
            gain = get("gain", 1.0)
            return _call("Orthogonal", *([Literal(gain, "gain")] if gain != 1.0 else []))
        case "identity":
            return _call("Identity")
        case "dirac":
            return _call("Dirac")
    return None


def fan_in_of(part: Part) -> int | None:
    """The fan-in of ``Uniform(1 / math.sqrt(fan_in))``; None for any other law."""
    inner = part.parts[0] if isinstance(part, Expression) else None
    if not isinstance(inner, Call) or inner.callee != "Uniform":
        return None
    bound = inner.arguments[0].value
    if not isinstance(bound, Expression) or bound.parts[0] != _BY_FAN_IN:
        return None
    return math.prod(int(str(literal.value)) for literal, _ in literals(bound))


def dtype_argument(parameter: Parameter) -> tuple[Argument, ...]:
    """``dtype=ms.float16`` for a layer whose parameters are not float32."""
    dtype = parameter.data.dtype
    return () if dtype == "float32" else (Argument("dtype", ms_dtype(dtype)),)


def own_parameter(parameter: Parameter, name: str) -> Part:
    """``Parameter(initializer(...), name="weight")`` for a parameter that a class of ours holds itself."""
    data = parameter.data
    found = law(parameter.initializer) or '"zeros"'
    shape = Literal(tuple(data.shape), f"{name}_shape")
    dtype = () if data.dtype == "float32" else (Argument("", ms_dtype(data.dtype)),)
    arguments = [Argument("", Call("initializer", (Argument("", found), Argument("", shape), *dtype)))]
    if parameter.is_buffer:
        arguments.append(Argument("requires_grad", "False"))
    return Call("Parameter", tuple(arguments))


def _call(name: str, *values: Part) -> Expression:
    return Expression((Call(name, tuple(Argument("", v) for v in values)),))


def _product(factors: Sequence[int]) -> Expression:
    parts: list[Part] = [Literal(factors[0], "fan_in")]
    rest = math.prod(factors[1:])
    if rest != 1:
        parts += [" * ", Literal(rest, "kernel_area")]
    return Expression(tuple(parts))
