"""The loss in train.py."""

from __future__ import annotations

from collections.abc import Callable

from ....ir import BackendError
from ....ir.recipe import LossRule
from .comments import escaped

_LOSSES = {
    "squared error": "MSELoss",
    "absolute error": "L1Loss",
    "smooth absolute error": "SmoothL1Loss",
    "Huber's loss": "HuberLoss",
    "binary cross entropy": "BCELoss",
    "binary cross entropy of logits": "BCEWithLogitsLoss",
    "cross entropy": "CrossEntropyLoss",
    "negative log likelihood": "NLLLoss",
}

_ARGUMENTS = {
    "label smoothing": ("label_smoothing", 0.0),
    "ignore_index": ("ignore_index", -100),
    "class weights": ("weight", None),
    "weights": ("weight", None),
    "weights of positives": ("pos_weight", None),
    "beta": ("beta", 1.0),
    "delta": ("delta", 1.0),
}
"""Setting -> the argument, and its default; losses have the same names and arguments in every framework."""


def loss_function(loss: LossRule, framework: str, tensor: Callable[[str], str], *, own: bool = False) -> str:
    """Return the function that makes the loss.

    Args:
        loss: the loss.
        framework: name of the target's framework, for messages.
        tensor: returns a float32 tensor of a list as source.
        own: whether the script is of the target's framework, so that its losses are the target's.

    Raises:
        BackendError: for one that the framework does not have (E602).
    """
    if own and loss.constructor:
        return f"\ndef make_loss():\n    return {loss.constructor}\n"
    settings = dict(loss.settings)
    known = loss.kind in _LOSSES and settings.get("times", 1.0) == 1.0
    if not known or settings.get("class axis", 1) != 1 or settings.get("labels", "indices") != "indices":
        raise BackendError(
            "E602",
            f"expected a loss that {framework} has ({', '.join(sorted(_LOSSES))}), got `{loss.written}`"
            + (
                f", {loss.kind} with {settings}"
                if loss.kind
                else ", a function that its values do not identify"
            ),
            hint="give one of the framework's losses as the recipe's `loss`",
        )
    reduction = "mean" if settings.pop("reduction") == "mean" else "sum"
    arguments = [f'reduction="{reduction}"']
    for name, (argument, default) in _ARGUMENTS.items():
        value = settings.get(name, default)
        if value != default:
            text = tensor(value) if isinstance(value, str) else repr(value)
            arguments.append(f"{argument}={text}")
    told = f"  # `{escaped(loss.written)}`, identified by its values" if loss.measured else ""
    return f"\ndef make_loss():\n    return nn.{_LOSSES[loss.kind]}({', '.join(arguments)}){told}\n"
