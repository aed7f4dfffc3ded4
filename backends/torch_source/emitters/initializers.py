"""Initial distributions as functions of `torch.nn.init`, in the source's own law and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from ....frameworks.record import is_same
from ....frameworks.torch import TORCH
from ....ir import Initializer, Parameter
from ...source import emitting
from ...source.dialect import MADE_LAYER
from ...source.emitting import Argument, View, draw
from ...source.expressions import (
    MULTIPLY,
    Call,
    Expression,
    Literal,
    Part,
    call,
    infix,
)

_DTYPES = {"complex64": "complex64", "complex128": "complex128"}


def torch_dtype(dtype: str) -> Part:
    """Return an element type as source, ``torch.float32``."""
    return Expression((f"torch.{_DTYPES.get(dtype, dtype)}",))


def dtype_argument(parameter: Parameter) -> tuple[Argument, ...]:
    """Return ``dtype=torch.float16`` for a layer whose parameters are not float32."""
    dtype = parameter.data.dtype
    return () if dtype == "float32" else (Argument("dtype", torch_dtype(dtype)),)


construct = partial(emitting.construct, TORCH)
"""Emits the constructor call of a layer of torch."""


def without_bias(has_bias: bool) -> tuple[Argument, ...]:
    """Return ``bias=False`` for a layer without; its factory then says so in its name."""
    return () if has_bias else (Argument("bias", Literal(False, "bias")),)


FanIn = tuple[str, int]
"""The fan-in of a layer's weight: the layer's attribute that has it, ``in_features``, and its value."""


def law_of(parameter: Parameter, fan_in: FanIn | None = None) -> Part | None:
    """Return a parameter's initial distribution as a call that lacks its tensor; None if nobody knows it.

    Args:
        parameter: the parameter.
        fan_in: fan-in of the layer's weight, for bounds that depend on it.
    """
    return law(parameter.initializer, fan_in)


def law(initializer: Initializer | None, fan_in: FanIn | None = None) -> Part | None:
    """Return a function of `torch.nn.init` for a distribution; None where there is none."""
    if initializer is None:
        return None
    high = initializer.number("high", 1.0)
    even = initializer.law == "uniform" and initializer.number("low", 0.0) == -high
    if even and fan_in and math.isclose(high, 1 / math.sqrt(fan_in[1]), rel_tol=1e-6):
        width = call("math.sqrt", Expression((f"{MADE_LAYER}.{fan_in[0]}",)))
        bounds = infix("-1", "/", width, MULTIPLY), infix("1", "/", width, MULTIPLY)
        return Call("nn.init.uniform_", tuple(Argument("", bound) for bound in bounds))
    return draw(TORCH, initializer)


def applied(drawn: Call, tensor: Part) -> Call:
    """Return a distribution's call with the tensor that it fills."""
    return Call(drawn.callee, (Argument("", tensor), *drawn.arguments))


def made(function: str, shape: Sequence[int], dtype: str = "float32", name: str = "") -> Expression:
    """Return ``torch.zeros(3, 4)``; the type is stated where it is not torch's default.

    Args:
        function: the function that makes a tensor.
        shape: its sizes.
        dtype: its element type.
        name: what the sizes are of, for instances that differ in them.
    """
    stem = f"{name}_size" if name else "size"
    names = [stem] if len(shape) == 1 else [f"{stem}{axis}" for axis in range(len(shape))]
    sizes = [Literal(*pair) for pair in zip(shape, names, strict=True)] or [Literal((), "shape")]
    return call(function, *sizes, dtype=None if dtype == "float32" else torch_dtype(dtype))


def own_parameter(parameter: Parameter, name: str) -> Part:
    """Return ``nn.Parameter(nn.init.normal_(torch.empty(3, 4)))``, how a class holds a parameter."""
    data = parameter.data
    found = law_of(parameter)
    plain = isinstance(found, Call) and found.callee in ("nn.init.zeros_", "nn.init.ones_")
    if plain or found is None:
        ones = plain and isinstance(found, Call) and found.callee == "nn.init.ones_"
        tensor: Part = made("torch.ones" if ones else "torch.zeros", data.shape, data.dtype, name)
    else:
        assert isinstance(found, Call)
        tensor = applied(found, made("torch.empty", data.shape, data.dtype, name))
    if parameter.is_buffer:
        unsaved = [Argument("persistent", "False")] if parameter.role == "non_persistent" else []
        return Call(REGISTER_BUFFER, (Argument("", tensor), *unsaved))
    if not parameter.trainable and not data.dtype.startswith(("float", "bfloat", "complex")):
        return Call("nn.Parameter", (Argument("", tensor), Argument("requires_grad", "False")))
    return Call("nn.Parameter", (Argument("", tensor),))


REGISTER_BUFFER = "self.register_buffer"


def laws_of_layer(
    view: View, layer: str, held: Mapping[str, Parameter | None], fan_in: FanIn | None = None
) -> tuple[Argument, ...]:
    """Return ``weight_init=…`` for every parameter that torch's layer would draw from another distribution.

    No layer of torch takes such an argument: where it is printed, it becomes a statement behind the layer.

    Args:
        view: the operator.
        layer: the class in torch.nn.
        held: attribute of the layer -> parameter; None for one that the layer does not have.
        fan_in: factors of the fan-in of the layer's weight.
    """
    weight = held.get("weight")
    shape = None if weight is None else tuple(weight.data.shape)
    found: list[Argument] = []
    for attribute, parameter in held.items():
        if parameter is None:
            continue
        usual = TORCH.default_law(layer, attribute, tuple(parameter.data.shape), shape)
        drawn = (
            None
            if is_same(parameter.initializer, usual) and not view.scope.explicit
            else law_of(parameter, fan_in)
        )
        found += [] if drawn is None else [Argument(f"{attribute}{DRAWN}", drawn)]
    return tuple(found)


def build(view: View, name: str, held: dict[str, Parameter], settings: dict[str, object]) -> Part:
    """Return the constructor call of a layer with these parameters and settings; see `layers.Build`."""
    hidden = settings.get("hidden_size")
    laws = laws_of_layer(view, name, held, ("hidden_size", hidden) if isinstance(hidden, int) else None)
    return construct(name, **settings, laws=laws, dtype=dtype_argument(next(iter(held.values()))))


DRAWN = "_init"
"""Suffix of the argument for a parameter's distribution, after the parameter's name."""
