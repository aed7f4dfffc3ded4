"""What to write in a training script where a setting differs, in the words of its framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.recipe import COUPLED, DECAY, EPSILON_PLACE, KIND, Recipe, Setting

_ADAMW = "mindspore.experimental.optim.AdamW"
_MS_BATCH = ("gamma", "beta")


def advise(
    setting: str, wanted: Setting, got: Setting, target: Recipe, parameters: Sequence[str]
) -> tuple[str, str]:
    """Return what a difference does, and what to write in the target's script; either may be empty.

    Args:
        setting: its name.
        wanted: its value in the source.
        got: in the target.
        target: the target's script.
        parameters: the target's parameters that it holds for; empty for all.
    """
    known = _MINDSPORE if target.framework == "mindspore" else _TORCH
    if setting in known:
        return known[setting](wanted, got, target, parameters)
    keyword = _KEYWORDS.get(target.framework, {}).get(setting, _COMMON.get(setting, ""))
    if keyword and wanted is not None:
        return "", f"{keyword}={_literal(wanted)} in `{target.optimizer}`"
    return "", ""


def _literal(value: Setting) -> str:
    return (
        f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else repr(value)
    )


_COMMON = {"momentum": "momentum", "dampening": "dampening", "nesterov": "nesterov", "centered": "centered"}
_KEYWORDS = {
    "torch": {"epsilon": "eps", "alpha": "alpha", "amsgrad": "amsgrad", "maximize": "maximize"},
    "mindspore": {"alpha": "decay", "amsgrad": "use_amsgrad"},
}

Adviser = Callable[[Setting, Setting, Recipe, Sequence[str]], tuple[str, str]]


def _reduction(wanted: Setting, got: Setting, target: Recipe, _: Sequence[str]) -> tuple[str, str]:
    why = ""
    if got != "mean" and wanted == "mean":
        why = "its gradients are as many times larger as a batch has labels"
    elif wanted != "mean" and got == "mean":
        why = "its gradients are as many times smaller as a batch has labels"
    how = "sum" if str(wanted).startswith(("sum", "none")) else "mean"
    return why, f'`{_call(target)}(…, reduction="{how}")`'


def _call(target: Recipe) -> str:
    return target.loss.written if target.loss.written.startswith("nn.") else "the loss"


def _smoothing(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    name = "nn.CrossEntropyLoss" if not target.loss.measured else "the loss"
    why = (
        "nn.SoftmaxCrossEntropyWithLogits has no label smoothing for indices"
        if target.loss.written == "nn.SoftmaxCrossEntropyWithLogits"
        else ""
    )
    return why, f"`{name}(label_smoothing={wanted:g})`"


def _ignored(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    if target.loss.written == "nn.SoftmaxCrossEntropyWithLogits":
        return "it ignores no label", f"`nn.CrossEntropyLoss(ignore_index={wanted})`"
    return "", f"`{_call(target)}(…, ignore_index={wanted})`"


def _ms_decay(wanted: Setting, got: Setting, target: Recipe, names: Sequence[str]) -> tuple[str, str]:
    if wanted and got:
        return "", f"weight_decay={wanted:g} in `{target.optimizer}`" + (" for these" if names else "")
    if wanted:
        skipped = bool(names) and all(any(w in n.lower() for w in _MS_BATCH) for n in names)
        if skipped and target.optimizer.startswith("nn."):
            return (
                "without groups MindSpore leaves out parameters with `gamma` or `beta` in their names",
                f"`{target.optimizer}([{{'params': net.trainable_params()}}], …, weight_decay={wanted:g})`",
            )
        return "", f"weight_decay={wanted:g} in `{target.optimizer}`" + (" for these" if names else "")
    if not names:
        return "", f"weight_decay=0.0 in `{target.optimizer}`"
    groups = "[{'params': these, 'weight_decay': 0.0}, {'params': the others}]"
    return "", f"groups: `{target.optimizer}({groups}, …)`"


def _torch_decay(wanted: Setting, _: Setting, target: Recipe, names: Sequence[str]) -> tuple[str, str]:
    if not names:
        return "", f"weight_decay={wanted:g} in `{target.optimizer}`"
    group = f"{{'params': these, 'weight_decay': {wanted:g}}}"
    return "", f"groups: `{target.optimizer}([{group}, {{'params': the others}}], …)`"


def _ms_kind(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    if wanted == COUPLED:
        return "", f"`nn.Adam(…, weight_decay=…)` in place of `{target.optimizer}`"
    return (
        "L2 goes through Adam's moments and is divided by them, decoupled decay is not",
        f"`{_ADAMW}(…)` in place of `{target.optimizer}`",
    )


def _torch_kind(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    name = "torch.optim.Adam" if wanted == COUPLED else "torch.optim.AdamW"
    return (
        "L2 goes through Adam's moments and is divided by them, decoupled decay is not",
        f"`{name}` in place of `{target.optimizer}`",
    )


def _ms_correction(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    if not wanted:
        return "", "`nn.AdamWeightDecay`, which corrects no bias"
    return (
        f"`{target.optimizer}` corrects no bias: its first steps are several times larger",
        f"`{_ADAMW}(…)`, which does as torch's",
    )


def _ms_epsilon(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    keyword = "epsilon" if "RMSProp" in target.optimizer else "eps"
    return "", f"`{target.optimizer}(…, {keyword}={wanted:g})`"


def _ms_place(_: Setting, __: Setting, target: Recipe, ___: Sequence[str]) -> tuple[str, str]:
    return (
        f"in the first steps `{target.optimizer}`'s epsilon weighs up to 1 / sqrt(1 - beta2) times as much, "
        "which moves what has gradients as small as that",
        f"`{_ADAMW}(…)`, which does as torch's (weight_decay=0.0 for plain Adam)",
    )


def _ms_start(_: Setting, __: Setting, ___: Recipe, ____: Sequence[str]) -> tuple[str, str]:
    return "its first steps are smaller", "`mindspore.experimental.optim.RMSprop(…)`, which does as torch's"


def _ms_sum(wanted: Setting, _: Setting, __: Recipe, ___: Sequence[str]) -> tuple[str, str]:
    return "", f"`nn.Adagrad(…, accum={wanted:g})`"


def _ms_nesterov(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    if target.optimizer == "nn.Momentum" and wanted:
        return (
            "nn.Momentum(use_nesterov=True) does nothing on the CPU",
            "`nn.SGD(…, momentum=…, nesterov=True)`",
        )
    return "", f"nesterov={bool(wanted)} in `{target.optimizer}`"


def _bound(got: Setting) -> str:
    return (
        ""
        if got is None
        else "of the true gradients: a loop that clips scaled ones divides by its loss scale"
    )


def _ms_clip(wanted: Setting, got: Setting, __: Recipe, ___: Sequence[str]) -> tuple[str, str]:
    if wanted is None:
        return "", "no clipping of the gradients"
    write = f"`gradients = ops.clip_by_global_norm(gradients, {wanted:g})` before the optimizer is called"
    return _bound(got), write


def _torch_clip(wanted: Setting, got: Setting, __: Recipe, ___: Sequence[str]) -> tuple[str, str]:
    if wanted is None:
        return "", "no clipping of the gradients"
    return _bound(
        got
    ), f"`torch.nn.utils.clip_grad_norm_(net.parameters(), {wanted:g})` before `optimizer.step()`"


def _ms_scale(_: Setting, got: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    return (
        f"what the optimizer is given is {got:g} times the gradient: the loop's loss_scale divided by the "
        "optimizer's",
        f"the same loss_scale in the loop and in `{target.optimizer}(…, loss_scale=…)`, or in neither",
    )


def _averages(wanted: Setting, _: Setting, __: Recipe, ___: Sequence[str]) -> tuple[str, str]:
    if wanted is None:
        return "", "no averages of the weights"
    return (
        "",
        f"`average += (1 - {wanted}) * (weight - average)` after every step, from the weights at the start",
    )


def _precision(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    if wanted is None:
        return "", "no mixed precision"
    if target.framework == "mindspore":
        return "", f'`ms.amp.auto_mixed_precision(net, "auto", ms.{wanted})`'
    return "", f"`with torch.autocast(device, torch.{wanted}):` around the net and the loss"


def _ms_scaler(wanted: Setting, _: Setting, __: Recipe, ___: Sequence[str]) -> tuple[str, str]:
    if wanted is None:
        return "", "no loss scaler"
    return "small gradients are 0 in float16", f"`ms.amp.DynamicLossScaler`, {wanted}"


def _torch_scaler(wanted: Setting, _: Setting, __: Recipe, ___: Sequence[str]) -> tuple[str, str]:
    if wanted is None:
        return "", "no loss scaler"
    return "small gradients are 0 in float16", f"`torch.amp.GradScaler`, {wanted}"


def _held(wanted: Setting, _: Setting, target: Recipe, __: Sequence[str]) -> tuple[str, str]:
    if wanted == "yes":
        return "", f"give them to `{target.optimizer}`"
    return "", f"leave them out of `{target.optimizer}`, or freeze them"


_SHARED: dict[str, Adviser] = {
    "reduction": _reduction,
    "label smoothing": _smoothing,
    "ignore_index": _ignored,
    "trained": _held,
    "averaged weights": _averages,
    "precision": _precision,
}
_MINDSPORE: dict[str, Adviser] = {
    **_SHARED,
    DECAY: _ms_decay,
    KIND: _ms_kind,
    "bias correction": _ms_correction,
    "epsilon": _ms_epsilon,
    EPSILON_PLACE: _ms_place,
    "mean square starts at": _ms_start,
    "epsilon inside the root": lambda *_: ("", ""),
    "sum of squares starts at": _ms_sum,
    "nesterov": _ms_nesterov,
    "clip norm": _ms_clip,
    "gradients times": _ms_scale,
    "loss scaler": _ms_scaler,
}
_TORCH: dict[str, Adviser] = {
    **_SHARED,
    DECAY: _torch_decay,
    KIND: _torch_kind,
    "clip norm": _torch_clip,
    "loss scaler": _torch_scaler,
}
