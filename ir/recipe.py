"""The objects that a training script builds around its net, free of framework names, defaults and signs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Setting = float | int | str | bool | None
"""The value of one setting, the same for what is the same in every framework."""


DECAY, KIND = "weight decay", "kind of decay"
COUPLED, DECOUPLED = "added to the gradient (L2)", "apart from the gradient (decoupled)"
EPSILON_PLACE = "epsilon is added"
OF_LABELS = "mean over the number of labels, whatever they weigh"
INSIDE = "epsilon inside the root"
AFTER, BEFORE = "to the corrected root (torch)", "to the root before its correction"
EACH, LARGEST = "to the magnitude of each gradient (torch)", "to the largest magnitude"
RATE_PLACE = "rates inside the momentum"
"""Names and values of settings that several folders use."""

ABSENT: Mapping[str, Setting] = {"maximize": False, "centralised gradients": False}
"""Settings that an update rule without them has all the same."""


@dataclass(frozen=True, slots=True)
class LossRule:
    """The computation of a loss.

    Attributes:
        kind: "cross entropy", "squared error", …; empty where nothing tells.
        settings: name ("reduction", "label smoothing", …) -> value.
        written: the class or function in the script, for messages.
        measured: whether kind and settings were told from values, as of a function.
        parts: the weights of its parts, where it gives several; empty for one that gives a number.
        constructor: the call that constructs one that only the script's own framework has; empty for others.
    """

    kind: str
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    written: str = ""
    measured: bool = False
    constructor: str = ""
    parts: str = ""


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """An optimizer's update of one parameter.

    Attributes:
        kind: "SGD", "Adam", "RMSprop", …, whatever the class is called.
        settings: name -> value, without settings of no effect (the decay's kind where nothing decays).
        rates: the learning rate of each step from the first, as far as it was asked for.
    """

    kind: str
    settings: Mapping[str, Setting]
    rates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LossScaler:
    """The factor that scales the loss in mixed precision and is divided out of the gradients again.

    Attributes:
        start: the factor at first.
        grows: times as large it becomes; 1 for one that stays.
        window: steps without overflow after which it grows.
        shrinks: times as large it becomes at an overflow, whose step is left out.
    """

    start: float
    grows: float = 1.0
    window: int = 1
    shrinks: float = 1.0

    def __str__(self) -> str:
        first = f"{self.start:g}"
        if self.grows == 1.0:
            return first
        return f"from {first}, times {self.grows:g} every {self.window} steps, {self.shrinks:g} at overflow"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The objects that a training script builds around its net.

    Attributes:
        framework: "torch" or "mindspore".
        reference: where the script is, ``train.py:recipe``.
        optimizer: the class in the script.
        loss: what is minimised.
        rules: name of a parameter -> how it is updated; what the optimizer does not hold is left out.
        options: the loop's own: "clip norm", "clip value", "gradients times", "averaged weights" …
        remarks: what is known of these objects and is no setting.
        scaler: what scales the loss in mixed precision; None for nothing.
        places: key of the recipe ("loss", "clip_norm", …) -> file and line of the script that makes it; "" ->
            those for a key that it leaves out.
    """

    framework: str
    reference: str
    optimizer: str
    loss: LossRule
    rules: Mapping[str, UpdateRule]
    options: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    remarks: tuple[str, ...] = ()
    scaler: LossScaler | None = None
    places: Mapping[str, str] = field(default_factory=dict[str, str])

    def place_of(self, *keys: str) -> str:
        """Return file and line of the first of these keys that the script gives."""
        return next((self.places[key] for key in (*keys, "") if self.places.get(key)), "")
