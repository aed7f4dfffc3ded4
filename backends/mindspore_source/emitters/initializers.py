"""Initial distributions as MindSpore's initializers, in the source's own law and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir import Initializer, Parameter
from ...source.emitting import Argument, product_of
from ...source.expressions import MULTIPLY, Call, Expression, FanIn, Literal, Part, Quoted, infix

_DTYPES = {"bool": "bool_"}


def ms_dtype(dtype: str) -> Part:
    """Return an element type as source, ``ms.float32``."""
    return f"ms.{_DTYPES.get(dtype, dtype)}"


def law_of(parameter: Parameter, fan_in: Sequence[int] = (), shape: Sequence[int] = ()) -> Part | None:
    """Return a parameter's initial distribution as source; None if unknown or not expressible in MindSpore.

    Args:
        parameter: the parameter.
        fan_in: factors of the fan-in of the layer's weight, for bounds that depend on it.
        shape: the shape that MindSpore's layer gives it, where that is another.
    """
    found = parameter.initializer
    part = law(found, fan_in, shape[0] * math.prod(shape[2:]) if len(shape) > 2 else 0)
    if part is None and found is not None:
        return _values(found, tuple(shape or parameter.data.shape), parameter.data.dtype)
    return part


def law(initializer: Initializer | None, fan_in: Sequence[int] = (), fan_out: int = 0) -> Part | None:
    """Return an initializer of MindSpore's for a distribution; None if it is unknown or has no counterpart.

    Args:
        initializer: the distribution.
        fan_in: factors of the fan-in of the layer's weight, for bounds that depend on it.
        fan_out: its fan-out, for deviations that depend on it; 0 when that does not matter.
    """
    if initializer is None:
        return None
    number = initializer.number
    match initializer.law:
        case "zeros" | "ones":
            return Quoted(initializer.law)
        case "constant":
            return _call("Constant", Literal(number("value", 0.0), "fill"))
        case "uniform":
            low, high = number("low", -1.0), number("high", 1.0)
            if low != -high:
                return None
            if fan_in and math.isclose(high, 1 / math.sqrt(math.prod(fan_in)), rel_tol=1e-6):
                root = Call("math.sqrt", (Argument("", FanIn(product_of(fan_in))),))
                return _call("Uniform", infix("1", "/", root, MULTIPLY))
            return _call("Uniform", Literal(high, "bound"))
        case "normal":
            mean, std = number("mean", 0.0), number("std", 1.0)
            if fan_out and not mean and math.isclose(std, math.sqrt(2 / fan_out), rel_tol=1e-6):
                return law(Initializer.of("he_normal", a=0.0, mode="fan_out"))
            return _call("Normal", Literal(std, "std"), *([Literal(mean, "mean")] if mean else []))
        case "trunc_normal":
            mean, std = number("mean", 0.0), number("std", 1.0)
            low, high = number("low", -2.0), number("high", 2.0)  # values, as MindSpore's a and b are
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
            slope, mode = number("a", 0.0), str(initializer.argument("mode", "fan_in"))
            arguments: list[Argument] = []
            if math.isclose(slope, math.sqrt(5)):
                arguments.append(Argument("", "math.sqrt(5)"))
            elif slope:
                arguments.append(Argument("", Literal(slope, "slope")))
            if mode == "fan_out":
                arguments.append(Argument("mode", Quoted("fan_out")))
            if not slope:  # with a slope of 0, leaky_relu's gain is relu's
                arguments.append(Argument("nonlinearity", Quoted("relu")))
            return Expression((Call(name, tuple(arguments)),))
        case "xavier_uniform" | "xavier_normal":
            name = "XavierUniform" if initializer.law == "xavier_uniform" else "XavierNormal"
            gain = number("gain", 1.0)
            return _call(name, *([Literal(gain, "gain")] if gain != 1.0 else []))
        case "orthogonal":
            gain = number("gain", 1.0)
            return _call("Orthogonal", *([Literal(gain, "gain")] if gain != 1.0 else []))
        case "identity":
            return _call("Identity")
        case "dirac":
            groups = int(number("groups", 1))
            return _call("Dirac", *([Literal(groups, "groups")] if groups != 1 else []))
        case "sparse":
            return _call(
                "Sparse", Literal(number("sparsity", 0.0), "sparsity"), Literal(number("std", 0.01), "std")
            )
    return None


def _values(initializer: Initializer, shape: tuple[int, ...], dtype: str) -> Part | None:
    """Return NumPy source that draws a distribution MindSpore lacks, anew for every net that is built."""
    number = initializer.number
    size = Literal(shape, "shape")
    match initializer.law:
        case "uniform":
            drawn = _numpy(
                "random.uniform",
                Literal(number("low", 0.0), "low"),
                Literal(number("high", 1.0), "high"),
                size,
            )
        case "bilinear" if len(shape) == 4 and shape[2] == shape[3]:
            half = math.ceil(shape[3] / 2)
            centre = (2 * half - 1 - half % 2) / (2 * half)
            row = Literal([1 - abs(at / half - centre) for at in range(shape[3])], "kernel")
            drawn = _numpy("tile", _numpy("outer", row, row), Literal((*shape[:2], 1, 1), "channels"))
        case "lstm_bias" if len(shape) == 1 and shape[0] % 4 == 0:
            gates = Literal([0.0, number("forget_bias", 1.0), 0.0, 0.0], "gates")
            drawn = _numpy("repeat", gates, Literal(shape[0] // 4, "hidden_size"))
        case _:
            return None
    return _call("Tensor", drawn, ms_dtype(dtype))


def _numpy(function: str, *values: Part) -> Expression:
    return _call(f"np.{function}", *values)


def dtype_argument(parameter: Parameter) -> tuple[Argument, ...]:
    """Return ``dtype=ms.float16`` for a layer whose parameters are not float32."""
    dtype = parameter.data.dtype
    return () if dtype == "float32" else (Argument("dtype", ms_dtype(dtype)),)


def own_parameter(parameter: Parameter, name: str) -> Part:
    """Return ``Parameter(initializer(...), name="weight")`` for a parameter held by an emitted class."""
    data = parameter.data
    found = law_of(parameter) or Quoted("zeros")
    shape = Literal(tuple(data.shape), f"{name}_shape")
    dtype = () if data.dtype == "float32" else (Argument("", ms_dtype(data.dtype)),)
    arguments = [Argument("", Call("initializer", (Argument("", found), Argument("", shape), *dtype)))]
    if parameter.is_buffer:
        arguments.append(Argument("requires_grad", "False"))
    return Call("Parameter", tuple(arguments))


def _call(name: str, *values: Part) -> Expression:
    return Expression((Call(name, tuple(Argument("", v) for v in values)),))
