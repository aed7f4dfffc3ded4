"""Training in train.py: the loss of a batch, its gradients, what the loop does to them, the update."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import iskeyword

from ....ir import BackendError
from ....ir.recipe import LossScaler, Recipe

_OWN = ("labels", "self", "torch", "nn", "loss")
"""Names that mean something else in the step."""


def step_source(recipe: Recipe, inputs: Sequence[str], *, scheduled: bool) -> str:
    """Return the class of what trains a net.

    Raises:
        BackendError: for a precision that is not written (E602).
    """
    names = ", ".join(name + "_" * (name in _OWN or iskeyword(name)) for name in inputs)
    options, scaler, precision = recipe.options, _scaler_text(recipe), _precision_of(recipe)
    fields = ["self.loss, self.optimizer = make_loss().to(self.device), make_optimizer(net)"]
    parts = ["net", "optimizer"]
    if scheduled:
        fields.append("self.schedule = make_schedule(self.optimizer)")
        parts.append("schedule")
    if scaler:
        fields.append(f"self.scaler = {scaler}")
        parts.append("scaler")
    decay = options["averaged weights"]
    if decay is not None:
        fields.append("self.averages = {n: p.detach().clone() for n, p in net.named_parameters()}")
    call = f"loss = self.loss(self.net({names}), labels)"
    times = options["gradients times"]
    scaled = "self.scaler.scale(loss)" if scaler else "loss" if times == 1.0 else f"(loss * {times!r})"
    body = ["self.optimizer.zero_grad()"]
    if precision:
        body += [f"with torch.autocast(self.device.type, torch.{precision}):", f"    {call}"]
    else:
        body.append(call)
    body.append(f"{scaled}.backward()")
    clips = _clips(recipe)
    if clips:
        body += [*(["self.scaler.unscale_(self.optimizer)"] if scaler else []), *clips]
    body += (
        ["self.scaler.step(self.optimizer)", "self.scaler.update()"] if scaler else ["self.optimizer.step()"]
    )
    body += ["self.schedule.step()"] if scheduled else []
    if decay is not None:
        body += [
            "for name, parameter in self.net.named_parameters():",
            f"    self.averages[name].lerp_(parameter.detach(), {_short(1 - float(decay))!r})",
        ]
    body.append("return loss.detach()")
    static = recipe.scaler is not None and recipe.scaler.grows == 1.0
    return (_STATIC_SCALER if static else "") + _TRAINING.format(
        names=names,
        fields=_indented(fields),
        body=_indented(body),
        parts=repr(tuple(parts)),
        averages=_AVERAGES if decay is not None else "",
        load_averages=_LOAD_AVERAGES if decay is not None else "",
    )


def recipe_source(recipe: Recipe, *, scheduled: bool) -> str:
    """Return the function of train.py that `regraft verify --recipe` reads."""
    found = ['"loss": training.loss', '"optimizer": training.optimizer']
    found += ['"schedule": training.schedule'] if scheduled else []
    options, scale = recipe.options, _scale_of(recipe)
    for name, key in (("clip norm", "clip_norm"), ("clip value", "clip_value")):
        bound = options[name]
        if isinstance(bound, float):
            found.append(f'"{key}": {_short(bound * scale)!r}')
    if recipe.scaler is not None:
        found.append('"loss_scale": training.scaler')
    elif scale != 1.0:
        found.append(f'"loss_scale": {scale!r}')
    for name, key in (("precision", "precision"), ("averaged weights", "ema")):
        if options[name] is not None:
            found.append(f'"{key}": {options[name]!r}')
    return (
        "\ndef recipe(net):\n"
        '    """Return the parts that `regraft verify --recipe` compares with those of the original."""\n'
        "    training = Training(net)\n"
        f"    return {{{', '.join(found)}}}\n"
    )


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"        {line}" for line in lines)


def _short(value: float) -> float:
    """Return a number without the digits that its factors do not have."""
    return float(f"{value:.7g}")


def _scale_of(recipe: Recipe) -> float:
    times = recipe.options["gradients times"]
    return times if isinstance(times, float) else 1.0


def _clips(recipe: Recipe) -> list[str]:
    """Return the lines that clip gradients, which are as many times too large as the loop makes them."""
    norm, bound, scale = recipe.options["clip norm"], recipe.options["clip value"], _scale_of(recipe)
    found: list[str] = []
    held = '[p for group in self.optimizer.param_groups for p in group["params"]]'
    if isinstance(norm, float):
        found.append(f"nn.utils.clip_grad_norm_(parameters, {_short(norm * scale)!r})")
    if isinstance(bound, float):
        found.append(f"nn.utils.clip_grad_value_(parameters, {_short(bound * scale)!r})")
    return [f"parameters = {held}", *found] if found else []


def _precision_of(recipe: Recipe) -> str:
    """Return the type of mixed precision; empty for none."""
    precision = recipe.options["precision"]
    if precision in (None, "float16", "bfloat16"):
        return "" if precision is None else str(precision)
    raise BackendError(
        "E602",
        f"expected float32 or mixed precision in float16 or bfloat16, got `{precision}`",
        place=recipe.reference,
        hint='leave it out of the recipe, or give "float16"',
    )


def _scaler_text(recipe: Recipe) -> str:
    """Return what makes the scaler; empty for none."""
    scaler: LossScaler | None = recipe.scaler
    if scaler is None:
        return ""
    if scaler.grows == 1.0:
        return f"StaticScaler(self.device.type, {scaler.start!r})"
    return (
        f"torch.amp.GradScaler(self.device.type, {scaler.start!r}, {scaler.grows!r}, {scaler.shrinks!r}, "
        f"{scaler.window!r})"
    )


_STATIC_SCALER = '''
class StaticScaler(torch.amp.GradScaler):
    """A scaler whose factor stays; a step that overflows is left out."""

    def get_growth_factor(self):
        return 1.0

    def get_backoff_factor(self):
        return 1.0

    def update(self, new_scale=None):
        super().update(self.get_scale() if new_scale is None else new_scale)

'''

_TRAINING = '''
class Training:
    """A net in training: the loss of a batch, its gradients, the update."""

    def __init__(self, net):
        self.net, self.device = net.train(), next(net.parameters()).device
{fields}

    def step(self, {names}, labels):
        """Train on a batch, and return its loss."""
{body}

    def state_dict(self):
        """Return the state of the net and of all that trains it, for `torch.save`."""
        parts = {parts}
        return {{name: getattr(self, name).state_dict() for name in parts}}{averages}

    def load_state_dict(self, state):
        """Go on from a state."""
        for name in {parts}:
            getattr(self, name).load_state_dict(state[name]){load_averages}
'''

_AVERAGES = ' | {"averages": self.averages}'

_LOAD_AVERAGES = """
        self.averages = state["averages"]"""
