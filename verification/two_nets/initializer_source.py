"""Writes a layer's initial distribution in its framework: the constructor's argument, or a statement."""

from __future__ import annotations

from ...checkpoints.spelling import role_of
from ...frameworks import framework_of
from ...ir import Initializer


def spelling(law: Initializer, framework: str, class_name: str, attribute: str, *, own: bool = True) -> str:
    """Return the text that starts `attribute` of a layer from `law`; empty if the framework has none.

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
    records = framework_of(framework)
    state = records.state(class_name, attribute)
    text = records.text(_rounded(law), f"layer.{attribute}" if framework == "torch" else "")
    if framework == "mxnet":
        return text and f"{role_of(attribute)}_initializer={text}"
    if framework == "torch" or not text:
        return text
    if own and state is not None and state.argument:
        return f"{state.argument}={text}"
    return f"layer.{attribute}.set_data(initializer({text}, layer.{attribute}.shape))"


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
