"""Advises on settings that differ in a training script, in the words of its framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...frontends.recipe_losses import class_of
from ...ir.recipe import (
    COUPLED,
    DECAY,
    EACH,
    EPSILON_PLACE,
    INSIDE,
    KIND,
    LARGEST,
    OF_LABELS,
    Recipe,
    Setting,
)

_EXPERIMENTAL = "mindspore.experimental.optim"
_ADAMW = f"{_EXPERIMENTAL}.AdamW"
_MS_BATCH = ("gamma", "beta")


@dataclass(frozen=True, slots=True)
class Asked:
    """A setting that differs.

    Attributes:
        setting: its name.
        wanted: its value in the source.
        got: in the target.
        target: the target's script.
        parameters: the target's parameters that it holds for; empty for all.
        beside: the source's other settings of the same loss or update.
        source: the optimizer's class in the source.
    """

    setting: str
    wanted: Setting
    got: Setting
    target: Recipe
    parameters: Sequence[str] = ()
    beside: Mapping[str, Setting] | None = None
    source: str = ""

    @property
    def optimizer(self) -> str:
        """The optimizer's class in the target."""
        return self.target.optimizer

    @property
    def has_torchs_arguments(self) -> bool:
        """Whether the target's optimizer has the arguments that torch's has."""
        return self.target.framework == "torch" or not self.optimizer.startswith("nn.")

    @property
    def loss(self) -> str:
        """The target's loss, as its call begins."""
        written = self.target.loss.written
        return f"`{written}(…, " if written.startswith("nn.") else "`the loss("


Advice = tuple[str, str]
"""The effect of a difference, and the fix in the target's script; either may be empty."""


def advise(asked: Asked) -> Advice:
    """Return what to say of a difference."""
    known = _MINDSPORE if asked.target.framework == "mindspore" else _TORCH
    if asked.setting in known:
        return known[asked.setting](asked)
    keyword = _COMMON.get(asked.setting, "")
    if keyword and asked.wanted is not None:
        return "", f"{keyword}={_literal(asked.wanted)} in `{asked.optimizer}`"
    return "", ""


def _literal(value: Setting) -> str:
    return (
        f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else repr(value)
    )


_COMMON = {"momentum": "momentum", "nesterov": "nesterov", "centered": "centered"}

Adviser = Callable[[Asked], Advice]


# -- losses ----------------------------------------------------------------------------------------


def _kind_of_loss(asked: Asked) -> Advice:
    name = class_of(str(asked.wanted))
    why = ""
    if {asked.wanted, asked.got} == {"cross entropy", "negative log likelihood"}:
        why = "nn.CrossEntropyLoss makes logarithms of probabilities itself, nn.NLLLoss is given them"
    if not name:
        return why, str(asked.wanted)
    stated = [f'reduction="{_reduction_word((asked.beside or {}).get("reduction"))}"']
    return why, f"`{name}({', '.join(stated)})` in place of `{asked.target.loss.written}`"


def _reduction_word(value: Setting) -> str:
    return "sum" if str(value).startswith(("sum", "none")) else "mean"


def _reduction(asked: Asked) -> Advice:
    why = ""
    if asked.got == OF_LABELS:
        call = "ops.cross_entropy" if asked.target.framework == "mindspore" else "F.cross_entropy"
        why = "weights of classes scale its gradients as a whole, which the source divides by their sum"
        return why, f"`{call}(…, weight=…)`, or a division by the sum of the labels' weights"
    if asked.got != "mean" and asked.wanted == "mean":
        why = "its gradients are as many times larger as a batch has labels"
    elif asked.wanted != "mean" and asked.got == "mean":
        why = "its gradients are as many times smaller as a batch has labels"
    return why, f'{asked.loss}reduction="{_reduction_word(asked.wanted)}")`'


def _smoothing(asked: Asked) -> Advice:
    name = "nn.CrossEntropyLoss" if not asked.target.loss.measured else "the loss"
    why = (
        "nn.SoftmaxCrossEntropyWithLogits has no label smoothing for indices"
        if asked.target.loss.written == "nn.SoftmaxCrossEntropyWithLogits"
        else ""
    )
    return why, f"`{name}(label_smoothing={asked.wanted:g})`"


def _ignored(asked: Asked) -> Advice:
    if asked.target.loss.written == "nn.SoftmaxCrossEntropyWithLogits":
        return "it ignores no label", f"`nn.CrossEntropyLoss(ignore_index={asked.wanted})`"
    return "", f"{asked.loss}ignore_index={asked.wanted})`"


def _weights(asked: Asked) -> Advice:
    keyword = "pos_weight" if "positives" in asked.setting else "weight"
    if asked.wanted is None:
        return "", f"no `{keyword}` in `{asked.target.loss.written}`"
    tensor = f"torch.tensor({asked.wanted})"
    if asked.target.framework == "mindspore":
        tensor = f"ms.Tensor({asked.wanted}, ms.float32)"
    if asked.target.loss.written == "nn.SoftmaxCrossEntropyWithLogits":
        return "it has no weights of classes", f"`nn.CrossEntropyLoss({keyword}={tensor})`"
    return "", f"{asked.loss}{keyword}={tensor})`"


def _bend(asked: Asked) -> Advice:
    return "", "" if asked.wanted is None else f"{asked.loss}{asked.setting}={asked.wanted:g})`"


def _times(asked: Asked) -> Advice:
    wanted, got = (1.0 if v is None else float(v) for v in (asked.wanted, asked.got))
    return "", f"{wanted / got:.4g} times the loss"


# -- updates ---------------------------------------------------------------------------------------

_UPDATES = {"SGD": "nn.SGD", "Adam": _ADAMW}
"""Kind of update -> MindSpore's class, where it is none of `mindspore.experimental.optim`."""


def _update(asked: Asked) -> Advice:
    beside = asked.beside or {}
    name = asked.source
    if asked.target.framework == "mindspore":
        name = _UPDATES.get(str(asked.wanted), f"{_EXPERIMENTAL}.{asked.wanted}")
        if asked.wanted == "Adam" and beside.get(KIND) == COUPLED:
            name = "nn.Adam"
    elif not name.startswith("torch."):
        plain = str(asked.wanted)
        decoupled = plain == "Adam" and beside.get(DECAY) and beside.get(KIND) != COUPLED
        name = f"torch.optim.{'AdamW' if decoupled else plain}"
    decay = beside.get(DECAY)
    stated = f", weight_decay={decay:g}" if name.endswith("AdamW") or decay else ""
    return "", f"`{name}(…{stated})` in place of `{asked.optimizer}`"


def _ms_decay(asked: Asked) -> Advice:
    wanted, names = asked.wanted, asked.parameters
    if wanted and asked.got:
        return "", f"weight_decay={wanted:g} in `{asked.optimizer}`" + (" for these" if names else "")
    if wanted:
        decoupled = (asked.beside or {}).get(KIND) not in (None, COUPLED)
        if decoupled and asked.optimizer.endswith(".Adam"):
            return (
                f"`{asked.optimizer}` would add it to the gradient",
                f"`{_ADAMW}(…, weight_decay={wanted:g})` in place of `{asked.optimizer}`",
            )
        skipped = bool(names) and all(any(w in n.lower() for w in _MS_BATCH) for n in names)
        if skipped and asked.optimizer.startswith("nn."):
            return (
                "without groups MindSpore leaves out parameters with `gamma` or `beta` in their names",
                f"`{asked.optimizer}([{{'params': net.trainable_params()}}], …, weight_decay={wanted:g})`",
            )
        return "", f"weight_decay={wanted:g} in `{asked.optimizer}`" + (" for these" if names else "")
    if not names:
        return "", f"weight_decay=0.0 in `{asked.optimizer}`"
    groups = "[{'params': these, 'weight_decay': 0.0}, {'params': the others}]"
    return "", f"groups: `{asked.optimizer}({groups}, …)`"


def _torch_decay(asked: Asked) -> Advice:
    if not asked.parameters:
        return "", f"weight_decay={asked.wanted:g} in `{asked.optimizer}`"
    group = f"{{'params': these, 'weight_decay': {asked.wanted:g}}}"
    return "", f"groups: `{asked.optimizer}([{group}, {{'params': the others}}], …)`"


_L2 = "L2 goes through Adam's moments and is divided by them, decoupled decay is not"


def _ms_kind(asked: Asked) -> Advice:
    if asked.wanted == COUPLED:
        return "", f"`nn.Adam(…, weight_decay=…)` in place of `{asked.optimizer}`"
    return _L2, f"`{_ADAMW}(…)` in place of `{asked.optimizer}`"


def _torch_kind(asked: Asked) -> Advice:
    name = "torch.optim.Adam" if asked.wanted == COUPLED else "torch.optim.AdamW"
    return _L2, f"`{name}` in place of `{asked.optimizer}`"


def _beta(asked: Asked) -> Advice:
    if not asked.has_torchs_arguments:
        return "", f"{asked.setting}={asked.wanted:g} in `{asked.optimizer}`"
    beside = asked.beside or {}
    return "", f"betas=({beside['beta1']:g}, {beside['beta2']:g}) in `{asked.optimizer}`"


def _dampening(asked: Asked) -> Advice:
    if asked.optimizer == "nn.Momentum":
        return "nn.Momentum has no dampening", f"`nn.SGD(…, momentum=…, dampening={asked.wanted:g})`"
    return "", f"dampening={asked.wanted:g} in `{asked.optimizer}`"


def _ms_amsgrad(asked: Asked) -> Advice:
    if asked.wanted and asked.optimizer == f"{_EXPERIMENTAL}.Adam":
        return "", f"`nn.Adam(…, use_amsgrad=True)` in place of `{asked.optimizer}`"
    keyword = "amsgrad" if asked.has_torchs_arguments else "use_amsgrad"
    return "", f"{keyword}={bool(asked.wanted)} in `{asked.optimizer}`"


def _ms_correction(asked: Asked) -> Advice:
    if not asked.wanted:
        return "", "`nn.AdamWeightDecay`, which corrects no bias"
    return (
        f"`{asked.optimizer}` corrects no bias: its first steps are several times larger",
        f"`{_ADAMW}(…)`, which does as torch's",
    )


def _like_torchs(asked: Asked, why: str = "") -> Advice:
    """Another class of MindSpore's, where the target's cannot do as the source's does."""
    name = "RMSprop" if "RMS" in asked.optimizer else "Adagrad"
    return why, f"`{_EXPERIMENTAL}.{name}(…)`, which does as torch's"


def _ms_epsilon(asked: Asked) -> Advice:
    if asked.optimizer == "nn.Adagrad":
        return _like_torchs(asked, "nn.Adagrad has no argument for it")
    keyword = "epsilon" if asked.optimizer == "nn.RMSProp" else "eps"
    return "", f"`{asked.optimizer}(…, {keyword}={asked.wanted:g})`"


def _ms_inside(asked: Asked) -> Advice:
    return _like_torchs(asked) if not asked.wanted else ("", f"`nn.{asked.optimizer.rpartition('.')[2]}`")


def _ms_place(asked: Asked) -> Advice:
    if asked.wanted in (EACH, LARGEST):
        name = f"{_EXPERIMENTAL}.Adamax" if asked.wanted == EACH else "nn.AdaMax"
        return "", f"`{name}` in place of `{asked.optimizer}`"
    return (
        f"in the first steps `{asked.optimizer}`'s epsilon weighs up to 1 / sqrt(1 - beta2) times as much, "
        "which moves what has gradients as small as that",
        f"`{_ADAMW}(…)`, which does as torch's (weight_decay=0.0 for plain Adam)",
    )


def _ms_start(asked: Asked) -> Advice:
    return _like_torchs(asked, "its first steps are smaller")


def _ms_sum(asked: Asked) -> Advice:
    keyword = "initial_accumulator_value" if asked.has_torchs_arguments else "accum"
    return "", f"`{asked.optimizer}(…, {keyword}={asked.wanted:g})`"


def _rate_decay(asked: Asked) -> Advice:
    if asked.optimizer == "nn.Adagrad":
        return "nn.Adagrad has none", f"`{_EXPERIMENTAL}.Adagrad(…, lr_decay={asked.wanted:g})`"
    return "", f"lr_decay={asked.wanted:g} in `{asked.optimizer}`"


def _ms_alpha(asked: Asked) -> Advice:
    keyword = "alpha" if asked.has_torchs_arguments else "decay"
    return "", f"{keyword}={asked.wanted:g} in `{asked.optimizer}`"


def _ms_nesterov(asked: Asked) -> Advice:
    if asked.optimizer == "nn.Momentum" and asked.wanted:
        return (
            "nn.Momentum(use_nesterov=True) does nothing on the CPU",
            "`nn.SGD(…, momentum=…, nesterov=True)`",
        )
    keyword = "use_nesterov" if asked.optimizer == "nn.Adam" else "nesterov"
    return "", f"{keyword}={bool(asked.wanted)} in `{asked.optimizer}`"


def _maximize(asked: Asked) -> Advice:
    if asked.has_torchs_arguments or not asked.wanted:
        return "", f"maximize={bool(asked.wanted)} in `{asked.optimizer}`"
    name = asked.optimizer.removeprefix("nn.").replace("Momentum", "SGD").replace("RMSProp", "RMSprop")
    return "", f"`{_EXPERIMENTAL}.{name}(…, maximize=True)` in place of `{asked.optimizer}`"


def _centralised(asked: Asked) -> Advice:
    how = "with" if asked.wanted else "without"
    return "", f"groups {how} `grad_centralization` in `{asked.optimizer}`"


def _rates(asked: Asked) -> Advice:
    if not asked.has_torchs_arguments:
        return "", f"the source's rates, one for each step, as a list in `{asked.optimizer}`"
    package = "torch.optim" if asked.target.framework == "torch" else _EXPERIMENTAL
    schedule, key = f"{package}.lr_scheduler.LambdaLR(optimizer, …)", '"schedule"'
    return "", f"the source's rates by `{schedule}`, and `{key}` in the recipe"


def _held(asked: Asked) -> Advice:
    if asked.wanted == "yes":
        return "", f"give them to `{asked.optimizer}`"
    return "", f"leave them out of `{asked.optimizer}`, or freeze them"


# -- the loop --------------------------------------------------------------------------------------

_NO_CLIPPING = "no clipping of the gradients"


def _bound(got: Setting) -> str:
    return (
        ""
        if got is None
        else "of the true gradients: a loop that clips scaled ones divides by its loss scale"
    )


def _ms_clipping(call: str, key: str) -> str:
    return f"`gradients = {call}` before the optimizer is called, and `{key}` in the recipe"


def _torch_clipping(call: str, key: str) -> str:
    return f"`{call}` before `optimizer.step()`, and `{key}` in the recipe"


def _ms_clip(asked: Asked) -> Advice:
    if asked.wanted is None:
        return "", _NO_CLIPPING
    call = f"ops.clip_by_global_norm(gradients, {asked.wanted:g})"
    return _bound(asked.got), _ms_clipping(call, f'"clip_norm": {asked.wanted:g}')


def _torch_clip(asked: Asked) -> Advice:
    if asked.wanted is None:
        return "", _NO_CLIPPING
    call = f"torch.nn.utils.clip_grad_norm_(net.parameters(), {asked.wanted:g})"
    return _bound(asked.got), _torch_clipping(call, f'"clip_norm": {asked.wanted:g}')


def _ms_clip_value(asked: Asked) -> Advice:
    if asked.wanted is None:
        return "", _NO_CLIPPING
    call = f"ops.clip_by_value(gradients, -{asked.wanted:g}, {asked.wanted:g})"
    return _bound(asked.got), _ms_clipping(call, f'"clip_value": {asked.wanted:g}')


def _torch_clip_value(asked: Asked) -> Advice:
    if asked.wanted is None:
        return "", _NO_CLIPPING
    call = f"torch.nn.utils.clip_grad_value_(net.parameters(), {asked.wanted:g})"
    return _bound(asked.got), _torch_clipping(call, f'"clip_value": {asked.wanted:g}')


def _scale(asked: Asked) -> Advice:
    why = (
        f"what the optimizer is given is {asked.got:g} times the gradient: the loop's loss_scale divided by "
        "the optimizer's"
    )
    if asked.target.framework == "torch":
        return why, "no loss_scale in the loop, or a GradScaler, which divides the gradients again"
    return (
        why,
        f"the same loss_scale in the loop and in `{asked.optimizer}(…, loss_scale=…)`, or in neither",
    )


def _averages(asked: Asked) -> Advice:
    if asked.wanted is None:
        return "", "no averages of the weights"
    update = f"average += (1 - {asked.wanted}) * (weight - average)"
    key = f'"ema": {asked.wanted}'
    return "", f"`{update}` after every step, from the weights at the start, and `{key}` in the recipe"


def _precision(asked: Asked) -> Advice:
    if asked.wanted is None:
        return "", "no mixed precision"
    if asked.target.framework == "mindspore":
        return "", f'`ms.amp.auto_mixed_precision(net, "auto", ms.{asked.wanted})`'
    return "", f"`with torch.autocast(device, torch.{asked.wanted}):` around the net and the loss"


def _scaler(asked: Asked) -> Advice:
    if asked.wanted is None:
        return "", "no loss scaler"
    name = "ms.amp.DynamicLossScaler" if asked.target.framework == "mindspore" else "torch.amp.GradScaler"
    return "small gradients are 0 in float16", f"`{name}`, {asked.wanted}"


_SHARED: dict[str, Adviser] = {
    "loss": _kind_of_loss,
    "reduction": _reduction,
    "label smoothing": _smoothing,
    "ignore_index": _ignored,
    "class weights": _weights,
    "weights": _weights,
    "weights of positives": _weights,
    "beta": _bend,
    "delta": _bend,
    "times": _times,
    "update": _update,
    "beta1": _beta,
    "beta2": _beta,
    "dampening": _dampening,
    "rate decay": _rate_decay,
    "maximize": _maximize,
    "learning rate": _rates,
    "centralised gradients": _centralised,
    "trained": _held,
    "gradients times": _scale,
    "averaged weights": _averages,
    "precision": _precision,
    "loss scaler": _scaler,
}
_MINDSPORE: dict[str, Adviser] = {
    **_SHARED,
    DECAY: _ms_decay,
    KIND: _ms_kind,
    "bias correction": _ms_correction,
    "epsilon": _ms_epsilon,
    "alpha": _ms_alpha,
    "amsgrad": _ms_amsgrad,
    EPSILON_PLACE: _ms_place,
    "mean square starts at": _ms_start,
    INSIDE: _ms_inside,
    "sum of squares starts at": _ms_sum,
    "nesterov": _ms_nesterov,
    "clip norm": _ms_clip,
    "clip value": _ms_clip_value,
}


def _keyword(name: str) -> Adviser:
    return lambda asked: ("", f"{name}={_literal(asked.wanted)} in `{asked.optimizer}`")


_TORCH: dict[str, Adviser] = {
    **_SHARED,
    DECAY: _torch_decay,
    KIND: _torch_kind,
    "epsilon": _keyword("eps"),
    "alpha": _keyword("alpha"),
    "amsgrad": _keyword("amsgrad"),
    "sum of squares starts at": _keyword("initial_accumulator_value"),
    "clip norm": _torch_clip,
    "clip value": _torch_clip_value,
}
