"""Reads what a PyTorch training script builds: its optimizer, schedule and loss."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from ...frameworks.optimizers import TORCH, WRITTEN_FOR_TORCH
from ...ir import ModelError
from ...ir.recipe import Recipe, UpdateRule
from ..recipe_losses import read_loss
from ..recipe_settings import options_of, rates_of_groups, read_scaler, refuse_optimizer, update_rule
from ..training_script import Script


def read_recipe(script: Script, names: Mapping[int, str], steps: int, reference: str) -> Recipe:
    """Read what a script built; its schedule is used up by it.

    Args:
        script: what the recipe function returned.
        names: id of a parameter -> its name.
        steps: for how many steps to read the learning rate.
        reference: where the script is.

    Raises:
        ModelError: for an optimizer or schedule that is not known, and one that holds what is not the net's
            (E704).
    """
    optimizer = script.optimizer
    class_name = type(optimizer).__name__
    is_torchs = type(optimizer).__module__.startswith("torch.optim")
    update = getattr(optimizer, "UPDATE", "")
    known = TORCH.get(class_name) if is_torchs else WRITTEN_FOR_TORCH.get(update)
    if known is None:
        raise refuse_optimizer(optimizer, reference, [f"torch.optim.{name}" for name in TORCH])
    with warnings.catch_warnings():  # that the schedule moves before the optimizer does
        warnings.simplefilter("ignore")
        rates = rates_of_groups(lambda: optimizer.param_groups, script, steps, reference)
    rules: dict[str, UpdateRule] = {}
    for group, found in zip(optimizer.param_groups, rates, strict=True):
        rule = update_rule(known, group.get, found)
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ModelError(
                    "E704",
                    f"expected the optimizer to hold the net's parameters, got a tensor of shape "
                    f"{list(parameter.shape)} that is none of them",
                    place=reference,
                    hint="the function must use the net that it receives, not one that it makes",
                )
            if parameter.requires_grad:
                rules[names[id(parameter)]] = rule
    return Recipe(
        "torch",
        reference,
        f"torch.optim.{class_name}" if is_torchs else class_name,
        read_loss(script.loss, "torch.nn.modules", script.loss_weights),
        rules,
        options_of(script),
        scaler=read_scaler(script.loss_scale),
    )
