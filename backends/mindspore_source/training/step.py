"""TrainStep in train.py: the loss of a batch, its gradients, what the loop does to them, the update."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import iskeyword

from ....ir import BackendError
from ....ir.recipe import LossScaler, Recipe

_OWN = ("labels", "self", "ms", "nn", "ops")
"""Names that mean something else in the step."""


def step_source(recipe: Recipe, inputs: Sequence[str]) -> str:
    """Return the class of one training step, and of the loss of a batch where that computes in another type.

    Raises:
        BackendError: for a precision or a scaler that is not written (E602).
    """
    names = ", ".join(name + "_" * (name in _OWN or iskeyword(name)) for name in inputs)
    options, scaler = recipe.options, _scaler_text(recipe)
    mixed = _precision_of(recipe) is not None
    scaled = scaler or options["gradients times"] != 1.0
    fields = ["self.loss = make_loss()", "self.optimizer = make_optimizer(net)"]
    after: list[str] = []
    if mixed:
        fields.append(
            'self.of_batch = ms.amp.auto_mixed_precision(OfBatch(net, self.loss), "auto", ms.float16)'
        )
    if scaler:
        fields.append(f"self.scaler = {scaler}")
    if options["averaged weights"] is not None:
        fields.append('self.averages = self.optimizer.parameters.clone(prefix="average", init="same")')
        after += [line.format(decay=options["averaged weights"]) for line in _AVERAGING]
    auxiliary = ", has_aux=True" if scaled else ""
    fields.append(
        f"self.gradients_of = ms.value_and_grad(self.forward, None, self.optimizer.parameters{auxiliary})"
    )
    call = f"self.of_batch({names}, labels)" if mixed else f"self.loss(self.net({names}), labels)"
    if not scaled:
        forward = [f"return {call}"]
        first = f"loss, gradients = self.gradients_of({names}, labels)"
    else:
        times = "self.scaler.scale(loss)" if scaler else f"loss * {options['gradients times']!r}"
        forward = [f"loss = {call}", f"return {times}, loss"]
        first = f"(_, loss), gradients = self.gradients_of({names}, labels)"
    update = [*_clips(recipe), "self.optimizer(gradients)"]
    body = [first]
    if scaler:
        body += [*_SCALING, *(f"    {line}" for line in update)]
    else:
        body += update
    body += [*after, "return loss"]
    return (
        (_OF_BATCH.format(names=names) if mixed else "")
        + _STEP.format(
            names=names,
            fields=_indented(fields),
            forward=_indented(forward),
            body=_indented(body),
        )
        + (_AVERAGED if after else "")
    )


def recipe_source(recipe: Recipe) -> str:
    """Return the function of train.py that `regraft verify --recipe` reads."""
    found = ['"loss": step.loss', '"optimizer": step.optimizer', '"step": step']
    options = recipe.options
    times = options["gradients times"]
    scale = times if isinstance(times, float) else 1.0
    for name, key, factor in (("clip norm", "clip_norm", scale), ("clip value", "clip_value", scale)):
        bound = options[name]
        if isinstance(bound, float):
            found.append(f'"{key}": {_short(bound * factor)!r}')
    if recipe.scaler is not None:
        found.append('"loss_scale": step.scaler')
    elif scale != 1.0:
        found.append(f'"loss_scale": {scale!r}')
    if options["precision"] is not None:
        found.append(f'"precision": {options["precision"]!r}')
    if options["averaged weights"] is not None:
        found.append(f'"ema": {options["averaged weights"]!r}')
    return (
        "\ndef recipe(net):\n"
        '    """Return the parts that `regraft verify --recipe` compares with those of the original."""\n'
        "    step = TrainStep(net)\n"
        f"    return {{{', '.join(found)}}}\n"
    )


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"        {line}" if line else "" for line in lines)


def _short(value: float) -> float:
    """Return a product without the digits that its factors do not have."""
    return float(f"{value:.7g}")


def _clips(recipe: Recipe) -> list[str]:
    """Return the lines that clip gradients, which are as many times too large as the loop makes them."""
    norm, bound = recipe.options["clip norm"], recipe.options["clip value"]
    times = recipe.options["gradients times"]
    scale = times if isinstance(times, float) else 1.0
    found: list[str] = []
    if isinstance(norm, float):
        found.append(f"gradients = ops.clip_by_global_norm(gradients, {_short(norm * scale)!r})")
    if isinstance(bound, float):
        value = _short(bound * scale)
        found.append(f"gradients = tuple([ops.clamp(each, -{value!r}, {value!r}) for each in gradients])")
    return found


def _precision_of(recipe: Recipe) -> str | None:
    precision = recipe.options["precision"]
    if precision in (None, "float16"):
        return None if precision is None else "float16"
    raise BackendError(
        "E602",
        f"expected float32 or mixed precision in float16, got `{precision}`",
        place=recipe.reference,
        hint="MindSpore has no bfloat16 on the CPU, so regraft could not verify the script"
        if precision == "bfloat16"
        else 'leave it out of the recipe, or give "float16"',
    )


def _scaler_text(recipe: Recipe) -> str:
    """Return the constructor of the scaler; empty for none."""
    scaler: LossScaler | None = recipe.scaler
    if scaler is None:
        return ""
    if scaler.grows == 1.0:
        return f"ms.amp.StaticLossScaler({scaler.start!r})"
    if scaler.shrinks * scaler.grows != 1.0 or scaler.grows % 1:
        raise BackendError(
            "E602",
            f"expected a loss scaler that shrinks as it grows, by a whole number, got {scaler}",
            place=recipe.reference,
            hint="MindSpore's DynamicLossScaler has one factor: give backoff_factor = 1 / growth_factor",
        )
    return f"ms.amp.DynamicLossScaler({scaler.start!r}, {int(scaler.grows)}, {scaler.window!r})"


_OF_BATCH = '''
class OfBatch(nn.Cell):
    """Compute the loss of a batch; the loss stays in float32 where the net computes in float16."""

    def __init__(self, net, loss):
        super().__init__(auto_prefix=False)
        self.net, self.loss = net, loss

    def construct(self, {names}, labels):
        return self.loss(self.net({names}).astype(ms.float32), labels)
'''

_STEP = '''
class TrainStep(nn.Cell):
    """One step of training, in PyNative and graph mode: the loss of a batch, its gradients, the update."""

    def __init__(self, net):
        super().__init__(auto_prefix=False)
        self.net = net.set_train()
{fields}

    def forward(self, {names}, labels):
{forward}

    def construct(self, {names}, labels):
{body}
'''

_SCALING = (
    "gradients = self.scaler.unscale(gradients)",
    "finite = ms.amp.all_finite(gradients)",
    "self.scaler.adjust(finite)",
    "if finite:  # otherwise skip this batch",
)

_AVERAGING = (
    "for i in range(len(self.averages)):",
    "    average, value = self.averages[i], self.optimizer.parameters[i]",
    "    ops.assign(average, average + (1 - {decay!r}) * (value - average))",
)

_AVERAGED = '''
    def averaged(self):
        """Return the net's state with the averaged weights, for `ms.save_checkpoint`."""
        found = {p.name: p for p in self.net.get_parameters()}
        found |= {p.name: a for p, a in zip(self.optimizer.parameters, self.averages)}
        return [{"name": name, "data": value} for name, value in found.items()]
'''
