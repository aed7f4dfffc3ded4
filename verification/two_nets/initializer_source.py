"""How a layer of a framework is told to start from a law: the constructor's argument, or a statement."""

from __future__ import annotations

import math

from ...checkpoints.spelling import role_of
from ...ir import Initializer

_ARGUMENTS = {
    "weight": "weight_init",
    "bias": "bias_init",
    "gamma": "gamma_init",
    "beta": "beta_init",
    "moving_mean": "moving_mean_init",
    "moving_variance": "moving_var_init",
    "embedding_table": "embedding_table",
}
"""Attribute of a MindSpore layer -> the constructor's argument for its initializer."""

_HOLDERS = ("Conv", "Dense", "BatchNorm", "GroupNorm", "LayerNorm", "Embedding", "InstanceNorm")


def spelling(law: Initializer, framework: str, class_name: str, attribute: str, *, own: bool = True) -> str:
    """What makes `attribute` of a layer start from `law`; empty where the framework has no counterpart.

    Args:
        law: the distribution.
        framework: "mindspore", "torch" or "mxnet".
        class_name: the layer's class there.
        attribute: the parameter's name in it.
        own: whether the user's code constructs the layer, rather than a layer of the framework.

    Example:
        >>> spelling(Initializer.of("he_uniform", a=5 ** 0.5, mode="fan_in"), "mindspore", "Conv2d", "weight")
        'weight_init=HeUniform(math.sqrt(5))'
        >>> spelling(Initializer.of("uniform", low=-0.0442, high=0.0442), "torch", "Linear", "bias")
        'nn.init.uniform_(layer.bias, -0.0442, 0.0442)'
    """
    if framework == "mindspore":
        from ...backends.mindspore_source.emitters.initializers import law as mindspore_law
        from ...backends.source.rendering import Renderer

        part = mindspore_law(_rounded(law))
        text = "" if part is None else Renderer().text(part)
        if not text or (own and class_name.startswith(_HOLDERS) and attribute in _ARGUMENTS):
            return text and f"{_ARGUMENTS[attribute]}={text}"
        return f"layer.{attribute}.set_data(initializer({text}, layer.{attribute}.shape))"
    if framework == "torch":
        return _torch(_rounded(law), f"layer.{attribute}")
    text = _mxnet(_rounded(law))
    return text and f"{role_of(attribute)}_initializer={text}"


def written(law: Initializer) -> str:
    """A law as a report writes it: ``he_uniform(a=2.236)``."""
    low, high = (law.number(name) if law.law == "uniform" else 0.0 for name in ("low", "high"))
    if law.law == "uniform" and low == -high:
        return f"uniform(±{high:.4g})"
    shown = [f"{v:.4g}" if isinstance(v, float) else str(v) for _, v in law.arguments]
    names = [name for name, _ in law.arguments]
    inner = ", ".join(f"{n}={v}" for n, v in zip(names, shown, strict=True) if (n, v) not in _UNSAID)
    return f"{law.law}({inner})" if inner else law.law


_UNSAID = {("mode", "fan_in"), ("mean", "0"), ("gain", "1"), ("a", "0")}


def _rounded(law: Initializer) -> Initializer:
    """With four digits, which is more than a sample of any size tells; √5 stays what it is."""
    kept = {n: v if isinstance(v, str) or n == "a" else float(f"{v:.4g}") for n, v in law.arguments}
    return Initializer.of(law.law, **kept)


def _torch(law: Initializer, tensor: str) -> str:
    number = law.number
    match law.law:
        case "zeros" | "ones":
            return f"nn.init.{law.law}_({tensor})"
        case "constant":
            return f"nn.init.constant_({tensor}, {number('value', 0.0):g})"
        case "uniform":
            return f"nn.init.uniform_({tensor}, {number('low', -1.0):g}, {number('high', 1.0):g})"
        case "normal":
            return f"nn.init.normal_({tensor}, {number('mean', 0.0):g}, {number('std', 1.0):g})"
        case "trunc_normal":
            numbers = (number("mean", 0.0), number("std", 1.0), number("low", -2.0), number("high", 2.0))
            return f"nn.init.trunc_normal_({tensor}, {', '.join(f'{n:g}' for n in numbers)})"
        case "he_uniform" | "he_normal":
            slope = number("a", 0.0)
            a = "a=math.sqrt(5)" if math.isclose(slope, math.sqrt(5)) else f"a={slope:g}"
            mode = ', mode="fan_out"' if law.argument("mode", "fan_in") == "fan_out" else ""
            return f"nn.init.kaiming_{law.law[3:]}_({tensor}, {a}{mode})"
        case "xavier_uniform" | "xavier_normal" | "orthogonal":
            gain = number("gain", 1.0)
            return f"nn.init.{law.law}_({tensor}{f', gain={gain:g}' if gain != 1 else ''})"
        case "dirac":
            return f"nn.init.dirac_({tensor})"
    return ""


def _mxnet(law: Initializer) -> str:
    number = law.number
    match law.law:
        case "zeros" | "ones":
            return f'"{law.law}"'
        case "constant":
            return f"mx.init.Constant({number('value', 0.0):g})"
        case "uniform":
            return (
                f"mx.init.Uniform({number('high', 1.0):g})"
                if number("low", -1.0) == -number("high", 1.0)
                else ""
            )
        case "normal":
            return "" if number("mean", 0.0) else f"mx.init.Normal({number('std', 1.0):g})"
        case "he_uniform" | "he_normal":
            kind, times = ("uniform", 3) if law.law == "he_uniform" else ("gaussian", 1)
            fan = "in" if law.argument("mode", "fan_in") == "fan_in" else "out"
            return f'mx.init.Xavier("{kind}", "{fan}", {times * 2 / (1 + number("a", 0.0) ** 2):.4g})'
        case "xavier_uniform" | "xavier_normal":
            kind, factor = ("uniform", 3) if law.law == "xavier_uniform" else ("gaussian", 1)
            return f'mx.init.Xavier("{kind}", "avg", {number("gain", 1.0) ** 2 * factor:.4g})'
        case "bilinear":
            return "mx.init.Bilinear()"
    return ""
