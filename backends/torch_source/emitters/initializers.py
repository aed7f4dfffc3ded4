"""Initial distributions as functions of `torch.nn.init`, in the source's own law and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ....frameworks.torch import TORCH
from ....ir import Initializer, Parameter
from ...source.emitting import Argument, View, product_of
from ...source.expressions import (
    MULTIPLY,
    Call,
    Expression,
    FanIn,
    Literal,
    Part,
    Quoted,
    as_part,
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


def without_bias(has_bias: bool) -> tuple[Argument, ...]:
    """Return ``bias=False`` for a layer without; its factory then says so in its name."""
    return () if has_bias else (Argument("bias", Literal(False, "bias")),)


def law_of(parameter: Parameter, fan_in: Sequence[int] = ()) -> Part | None:
    """Return a parameter's initial distribution as a call that lacks its tensor; None if nobody knows it.

    Args:
        parameter: the parameter.
        fan_in: factors of the fan-in of the layer's weight, for bounds that depend on it.
    """
    return law(parameter.initializer, fan_in)


def law(initializer: Initializer | None, fan_in: Sequence[int] = ()) -> Part | None:
    """Return a function of `torch.nn.init` for a distribution; None where there is none."""
    if initializer is None:
        return None
    number = initializer.number
    match initializer.law:
        case "zeros" | "ones":
            return _init(f"{initializer.law}_")
        case "constant":
            return _init("constant_", Literal(number("value", 0.0), "fill"))
        case "uniform":
            low, high = number("low", 0.0), number("high", 1.0)
            if fan_in and low == -high and math.isclose(high, 1 / math.sqrt(math.prod(fan_in)), rel_tol=1e-6):
                root = Call("math.sqrt", (Argument("", FanIn(product_of(fan_in))),))
                return _init("uniform_", infix("-1", "/", root, MULTIPLY), infix("1", "/", root, MULTIPLY))
            return _init("uniform_", Literal(low, "low"), Literal(high, "high"))
        case "normal":
            mean, std = number("mean", 0.0), number("std", 1.0)
            return _init("normal_", **_unless(mean=(mean, 0.0)), std=Literal(std, "std"))
        case "trunc_normal":
            mean, std = number("mean", 0.0), number("std", 1.0)
            bounds = _unless(a=(number("low", -2.0), -2.0), b=(number("high", 2.0), 2.0))
            return _init("trunc_normal_", **_unless(mean=(mean, 0.0)), std=Literal(std, "std"), **bounds)
        case "he_uniform" | "he_normal":
            name = "kaiming_uniform_" if initializer.law == "he_uniform" else "kaiming_normal_"
            slope, mode = number("a", 0.0), str(initializer.argument("mode", "fan_in"))
            given: dict[str, object] = {}
            if math.isclose(slope, math.sqrt(5)):
                given["a"] = Expression(("math.sqrt(5)",))
            elif slope:
                given["a"] = Literal(slope, "slope")
            if mode == "fan_out":
                given["mode"] = Quoted(mode)
            if not slope:  # with a slope of 0, leaky_relu's gain is relu's
                given["nonlinearity"] = Quoted("relu")
            return _init(name, **given)
        case "xavier_uniform" | "xavier_normal":
            return _init(f"{initializer.law}_", **_unless(gain=(number("gain", 1.0), 1.0)))
        case "orthogonal":
            return _init("orthogonal_", **_unless(gain=(number("gain", 1.0), 1.0)))
        case "identity":
            return _init("eye_")
        case "dirac":
            return _init("dirac_", **_unless(groups=(int(number("groups", 1)), 1)))
        case "sparse":
            sparsity, std = number("sparsity", 0.0), number("std", 0.01)
            return _init("sparse_", Literal(sparsity, "sparsity"), **_unless(std=(std, 0.01)))
    return None


def _unless(**values: tuple[object, object]) -> dict[str, object]:
    """Return the keywords whose value is not the default that stands beside it."""
    return {name: Literal(value, name) for name, (value, usual) in values.items() if value != usual}


def _init(name: str, *positional: Part, **keywords: object) -> Call:
    arguments = [Argument("", each) for each in positional]
    arguments += [Argument(key, as_part(value, key)) for key, value in keywords.items()]
    return Call(f"nn.init.{name}", tuple(arguments))


def applied(drawn: Call, tensor: Part) -> Call:
    """Return a distribution's call with the tensor that it fills."""
    return Call(drawn.callee, (Argument("", tensor), *drawn.arguments))


def _empty(parameter: Parameter, name: str) -> Part:
    shape, dtype = Literal(tuple(parameter.data.shape), f"{name}_shape"), parameter.data.dtype
    return call("torch.empty", shape, dtype=None if dtype == "float32" else torch_dtype(dtype))


def own_parameter(parameter: Parameter, name: str) -> Part:
    """Return ``nn.Parameter(nn.init.normal_(torch.empty(3, 4)))``, how a class holds a parameter."""
    data = parameter.data
    shape = Literal(tuple(data.shape), f"{name}_shape")
    dtype = None if data.dtype == "float32" else torch_dtype(data.dtype)
    found = law_of(parameter)
    plain = isinstance(found, Call) and found.callee in ("nn.init.zeros_", "nn.init.ones_")
    if plain or found is None:
        ones = plain and isinstance(found, Call) and found.callee == "nn.init.ones_"
        tensor: Part = call("torch.ones" if ones else "torch.zeros", shape, dtype=dtype)
    else:
        assert isinstance(found, Call)
        tensor = applied(found, call("torch.empty", shape, dtype=dtype))
    if parameter.is_buffer:
        unsaved = [Argument("persistent", "False")] if parameter.role == "non_persistent" else []
        return Call(REGISTER_BUFFER, (Argument("", tensor), *unsaved))
    if not parameter.trainable and not data.dtype.startswith(("float", "bfloat", "complex")):
        return Call("nn.Parameter", (Argument("", tensor), Argument("requires_grad", "False")))
    return Call("nn.Parameter", (Argument("", tensor),))


REGISTER_BUFFER = "self.register_buffer"


def laws_of_layer(
    view: View, layer: str, held: Mapping[str, Parameter | None], fan_in: Sequence[int] = ()
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
            if is_same_law(parameter.initializer, usual) and not view.scope.explicit
            else law_of(parameter, fan_in)
        )
        found += [] if drawn is None else [Argument(f"{attribute}{DRAWN}", drawn)]
    return tuple(found)


def is_same_law(a: Initializer | None, b: Initializer | None) -> bool:
    """Whether two distributions are one, up to the rounding of their numbers."""
    if a is None or b is None or a.law != b.law:
        return False
    names = {name for each in (a, b) for name, _ in each.arguments}
    for name in names:
        pair = [each.argument(name, _USUAL.get((a.law, name), 0.0)) for each in (a, b)]
        if any(isinstance(value, str) for value in pair):
            if pair[0] != pair[1]:
                return False
        elif not math.isclose(float(pair[0]), float(pair[1]), rel_tol=1e-6):
            return False
    return True


_USUAL = {("he_uniform", "mode"): "fan_in", ("he_normal", "mode"): "fan_in", ("xavier_uniform", "gain"): 1.0}
DRAWN = "_init"
"""What the argument for a parameter's distribution is called behind the parameter's name."""
