"""Losses as every framework's reader states them: torch's and MindSpore's layers have the same names."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..ir.recipe import LossRule, Setting
from .loss_parts import weights_text
from .recipe_settings import array_of, number

_REDUCTIONS = ("mean", "sum")

_PLAIN = {
    "MSELoss": "squared error",
    "L1Loss": "absolute error",
    "MAELoss": "absolute error",
    "SmoothL1Loss": "smooth absolute error",
    "HuberLoss": "Huber's loss",
    "BCELoss": "binary cross entropy",
    "BCEWithLogitsLoss": "binary cross entropy of logits",
}

_CLASSES = {"CrossEntropyLoss": "cross entropy", "NLLLoss": "negative log likelihood", **_PLAIN}


def read_loss(loss: Any, home: str, weights: Any = None) -> LossRule:
    """Read the computation of a loss; without a kind if it is the user's own function or class.

    Args:
        loss: the script's.
        home: the package of the framework's own losses.
        weights: of the parts that it gives, where it gives several.
    """
    name = type(loss).__name__
    written = f"nn.{name}"
    if not type(loss).__module__.startswith(home):
        return LossRule("", {}, getattr(loss, "__name__", name), parts=weights_text(weights))
    reduction = _reduction_of(loss)
    if name == "CrossEntropyLoss":
        return cross_entropy(
            reduction,
            written,
            smoothing=number(loss.label_smoothing),
            ignored=loss.ignore_index,
            weights=loss.weight,
        )
    if name == "SoftmaxCrossEntropyWithLogits":
        labels = "indices" if loss.sparse else "one-hot"
        return cross_entropy(reduction, written, ignored=None, labels=labels)
    if name == "NLLLoss":
        return reduced(
            "negative log likelihood",
            reduction,
            written,
            **{"ignore_index": loss.ignore_index, "class weights": _weights_text(loss.weight)},
        )
    if name not in _PLAIN:
        of_torch = home.startswith("torch.") and type(loss).__module__ == "torch.nn.modules.loss"
        return LossRule("", {}, written, constructor=_constructor_of(loss, written) if of_torch else "")
    extra: dict[str, Setting] = {n: number(getattr(loss, n)) for n in ("beta", "delta") if hasattr(loss, n)}
    if name.startswith("BCE"):
        extra["weights"] = _weights_text(getattr(loss, "weight", None))
    if name == "BCEWithLogitsLoss":
        extra["weights of positives"] = _weights_text(getattr(loss, "pos_weight", None))
    return reduced(_PLAIN[name], reduction, written, **extra)


def class_of(kind: str) -> str:
    """The class that computes a kind of loss, of the same name in torch and MindSpore; empty for none."""
    return next((f"nn.{name}" for name, known in _CLASSES.items() if known == kind), "")


def _reduction_of(loss: Any) -> str:
    if isinstance(getattr(loss, "reduction", None), str):
        return loss.reduction
    return "none" if not loss.reduce else "mean" if loss.average else "sum"


def reduced(kind: str, reduction: str, written: str, **settings: Setting) -> LossRule:
    """A loss with its reduction; "none" trains on the sum, as a gradient is that of all elements together."""
    how = reduction if reduction in _REDUCTIONS else "none, so the gradients are the sum's"
    return LossRule(kind, {"reduction": how, **settings}, written)


def cross_entropy(
    reduction: str,
    written: str,
    *,
    smoothing: float = 0.0,
    ignored: int | None = -100,
    weights: Any = None,
    labels: str = "indices",
) -> LossRule:
    """Return softmax and cross entropy in one."""
    return reduced(
        "cross entropy",
        reduction,
        written,
        **{
            "label smoothing": smoothing,
            "ignore_index": ignored,
            "class weights": _weights_text(weights),
            "labels": labels,
        },
    )


def _weights_text(weights: Any) -> str | None:
    """Return the weights of classes, all of them; None where all count alike."""
    return None if weights is None else _listed(array_of(weights))


def _listed(array: Any, whole: str = "") -> str:
    """Return an array as nested lists of the shortest numbers that float32 reads as the same.

    Args:
        array: of floating-point numbers.
        whole: what ends a whole number.
    """
    if array.ndim:
        return f"[{', '.join(_listed(part, whole) for part in array)}]"
    short, exact = f"{float(array):.6g}", np.float32(array)
    text = short if np.float32(short) == exact else str(exact)
    return text + whole if text.lstrip("-").isdigit() else text


def _constructor_of(loss: Any, written: str) -> str:
    """Return the call that constructs a loss of torch; empty where its attributes do not tell."""
    parameters = inspect.signature(type(loss).__init__).parameters.values()
    arguments: list[str] = []
    for parameter in parameters:
        if parameter.name in ("self", "size_average", "reduce"):
            continue
        value = getattr(loss, parameter.name, parameter.default)
        if hasattr(value, "shape"):
            arguments.append(f"{parameter.name}=torch.tensor({_listed(array_of(value), whole='.0')})")
        elif not isinstance(value, (str, int, float)) and value != parameter.default:
            return ""
        elif value != parameter.default:
            arguments.append(f"{parameter.name}={value!r}")
    return f"{written}({', '.join(arguments)})"
