"""Initial distributions as MindSpore's initializers, in the source's own law and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ....frameworks.mindspore import MINDSPORE
from ....ir import Initializer, Parameter
from ...source import emitting
from ...source.emitting import Argument, draw, product_of
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
    number, name = initializer.number, initializer.law
    if name in ("zeros", "ones"):
        return Quoted(name)
    high, std = number("high", 1.0), number("std", 1.0)
    symmetric = name == "uniform" and number("low", -1.0) == -high
    if symmetric and fan_in and math.isclose(high * math.sqrt(math.prod(fan_in)), 1, rel_tol=1e-6):
        width = Call("math.sqrt", (Argument("", FanIn(product_of(fan_in))),))
        return _call("Uniform", infix("1", "/", width, MULTIPLY))
    centred = name == "normal" and not number("mean")
    if centred and math.isclose(std * math.sqrt(fan_out / 2), 1, rel_tol=1e-6):
        return law(Initializer.of("he_normal", a=0.0, mode="fan_out"))
    found = draw(MINDSPORE, initializer)
    return None if found is None else Expression((found,))


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


construct = partial(emitting.construct, MINDSPORE)
"""Emits the constructor call of a layer of MindSpore."""


def drawn(
    class_name: str,
    name: str,
    parameter: Parameter,
    fan_in: Sequence[int] = (),
    shape: Sequence[int] = (),
) -> tuple[Argument, ...]:
    """Return a layer's argument for a parameter's initial distribution; none where that is not known."""
    state, found = MINDSPORE.state(class_name, name), law_of(parameter, fan_in, shape)
    return () if state is None or found is None else (Argument(state.argument, found),)


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
