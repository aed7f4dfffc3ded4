"""The function of a training script that builds loss, optimizer and the like: found, called, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..ir import ModelError, UsageError
from .constructions import constructions_noted
from .loss_parts import total_of
from .python_file import find_function, raised_in
from .user_code import neighbours_importable

RecipeFunction = Callable[[Any], Any]
"""Takes the net and returns what a training script builds."""


@dataclass(frozen=True, slots=True)
class Script:
    """The result of a recipe function: a dict of these, an object with them, or a tuple of the first ones.

    Attributes:
        loss: called with what the net returns and the labels; a framework's loss, or any function.
        optimizer: the framework's.
        loss_weights: numbers by which the loop multiplies the parts of a loss that gives several, before it
            adds them up: by key for a dict, in order for a tuple; 0 for what it only logs.
        schedule: a scheduler with `step()`; None where the optimizer holds the learning rates itself.
        schedule_every: whether the loop calls `schedule.step()` after each "step" or each "epoch".
        steps_per_epoch: needed where that is "epoch".
        clip_norm: bound of the norm of all gradients together.
        clip_value: bound of every gradient's elements.
        loss_scale: what the loop multiplies the loss with and does not divide the gradients by; or a scaler
            of the framework's that divides them again.
        precision: what the loop computes in: "float16" for `autocast` of torch's or "auto" of MindSpore's
            `amp`, "bfloat16", "O2", …
        ema: decay of averaged weights, which start as the weights and move after every step.
        steps: how many steps the training makes, for a schedule that is written out.
        labels: makes the labels of a batch, `labels(random, shape)` with a NumPy generator and the shape of
            the net's first output; needed where the loss does not tell.
        data: gives the batches of the training and takes nothing: a function at the top of a file, which is
            run in a process of its own.
        step: makes a whole step, called with the net's inputs and the labels, and gives the loss; MindSpore
            only. It is followed in place of a loop by these settings.
    """

    loss: Any
    optimizer: Any
    schedule: Any = None
    schedule_every: str = "step"
    steps_per_epoch: int | None = None
    clip_norm: float | None = None
    clip_value: float | None = None
    loss_scale: Any = 1.0
    precision: Any = None
    ema: Any = None
    steps: int | None = None
    labels: Callable[[Any, tuple[int, ...]], Any] | None = None
    step: Callable[..., Any] | None = None
    data: Callable[[], Any] | None = None
    loss_weights: Any = None

    def total(self, output: Any, labels: Any, reference: str) -> Any:
        """Return what the loop trains on, for an output of the net and labels.

        Raises:
            ModelError: E704 when the loss gives several parts, and no `loss_weights` fit them.
        """
        return total_of(self.loss(output, labels), self.loss_weights, reference)

    @property
    def data_reference(self) -> str:
        """The function that gives the batches, as ``FILE.py:FUNCTION``; empty for none."""
        file = None if self.data is None else inspect.getsourcefile(self.data)
        return "" if self.data is None or file is None else f"{file}:{self.data.__qualname__}"

    @property
    def steps_per_rate(self) -> int:
        """After how many steps the loop calls ``schedule.step()``."""
        return 1 if self.schedule_every == "step" else int(self.steps_per_epoch or 1)


def function_of(recipe: str | RecipeFunction) -> tuple[RecipeFunction, str]:
    """Return the function that a name stands for, or the function itself, and its name; runs the file.

    Raises:
        UsageError: for a name that has no function in it.
        ModelError: when the file is missing, raises, or has no such function.
    """
    if callable(recipe):
        return recipe, getattr(recipe, "__name__", "recipe")
    if ":" not in recipe:
        raise UsageError(
            "E001",
            f"expected a recipe as file.py:function, got `{recipe}`",
            hint="the function takes the net and returns a dict with `loss`, `optimizer` and the like",
        )
    return find_function(recipe), recipe


def build(function: RecipeFunction, reference: str, net: Any, watched: Sequence[type]) -> Script:
    """Call a recipe function with a net, and check what it returns.

    Args:
        function: the recipe.
        reference: where it is.
        net: what it is called with.
        watched: classes of losses, optimizers and schedules, whose constructions are written down.

    Raises:
        ModelError: when it raises, or returns something else (E704).
    """
    folder = Path(reference.rpartition(":")[0] or ".").resolve().parent
    try:
        with ExitStack() as stack:
            stack.enter_context(neighbours_importable(folder))
            for base in watched:
                stack.enter_context(constructions_noted(base))
            given = function(net)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise raised_in(error, reference) from error
    return _script(given, reference)


def _script(given: Any, reference: str) -> Script:
    known = [f.name for f in fields(Script)]
    if isinstance(given, tuple) and len(given) in (2, 3):
        given = dict(zip(("loss", "optimizer", "schedule"), given, strict=False))
    if not isinstance(given, Mapping):
        given = {name: getattr(given, name) for name in known if hasattr(given, name)}
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            raise ModelError(
                "E704",
                f"expected of a recipe {', '.join(known)}, got `{name}`",
                place=reference,
                hint=f"did you mean `{near[0]}`?" if near else "leave it out, or put it into the loss",
            )
    missing = [name for name in ("loss", "optimizer") if given.get(name) is None]
    if missing:
        raise ModelError(
            "E704",
            f"expected a recipe to return `loss` and `optimizer`, got no `{'` and no `'.join(missing)}`",
            place=reference,
            hint='for example `return {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer}`',
        )
    script = Script(**given)
    if not callable(script.loss):
        raise ModelError(
            "E704",
            f"expected a loss that can be called, got {type(script.loss).__name__}",
            place=reference,
            hint="several losses are one function of what the net returns and the labels, which adds them up",
        )
    if script.loss_weights is not None and not _are_weights(script.loss_weights):
        raise ModelError(
            "E704",
            f"expected `loss_weights` as numbers by key or in order, got {script.loss_weights!r}",
            place=reference,
            hint='for example `{"class": 1.0, "box": 5.0}` for a loss that returns a dict with these keys',
        )
    if script.schedule_every not in ("step", "epoch"):
        raise ModelError(
            "E704",
            f'expected schedule_every "step" or "epoch", got {script.schedule_every!r}',
            place=reference,
            hint="it states whether the loop calls schedule.step() after each step or each epoch",
        )
    if script.schedule_every == "epoch" and not _is_count(script.steps_per_epoch):
        raise ModelError(
            "E704",
            f"expected steps_per_epoch, a whole number above 0, got {script.steps_per_epoch!r}",
            place=reference,
            hint="a schedule that is called once an epoch changes the rate after that many steps",
        )
    if script.steps is not None and not _is_count(script.steps):
        raise ModelError(
            "E704", f"expected steps, a whole number above 0, got {script.steps!r}", place=reference
        )
    if script.data is not None and not _is_named(script.data):
        raise ModelError(
            "E704",
            f"expected as `data` a function at the top of a file, got {type(script.data).__name__}",
            place=reference,
            hint='`"data": batches`, of a `def batches():` that returns a DataLoader, a dataset or batches',
        )
    return script


def _are_weights(weights: object) -> bool:
    numbers = list(weights.values()) if isinstance(weights, Mapping) else weights
    return isinstance(numbers, (list, tuple)) and all(isinstance(number, (int, float)) for number in numbers)


def _is_named(data: object) -> bool:
    """Whether a function can be found again by its file and name."""
    return inspect.isfunction(data) and data.__qualname__.isidentifier() and data.__name__ != "<lambda>"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
