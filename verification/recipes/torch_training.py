"""Follows a training script of PyTorch's for some steps; the module is left as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from ...frontends.recipe_places import places_of
from ...frontends.recipe_settings import loop_scale, read_scaler
from ...frontends.torch_module.export.evaluation_mode import plainly
from ...frontends.torch_module.export.tensors import array_of
from ...frontends.torch_module.recipe import read_recipe
from ...frontends.training_script import RecipeFunction, Script, build
from ...ir import ModelError
from ...ir.recipe import UpdateRule
from ..causes.hosts import TorchHost
from ..causes.tape import Tape
from ..training.torch_step import borrowed, tensors_of, train, without_dropout
from .loss_causes import recorded_loss
from .rules import State, updated
from .trajectories import Batch, Nest, Reading, Trajectory, in_nest

Forward = Callable[[Mapping[str, np.ndarray]], Any]
"""Calls the module on inputs by name."""


class TorchTraining:
    """A module and the training script for it.

    Args:
        model: the module, or a float64 copy.
        paths: module object -> its path.
        forward: calls it.
        function: the recipe function.
        reference: where that is.
        double: whether the module computes in float64.
    """

    def __init__(
        self,
        model: Any,
        paths: Mapping[Any, str],
        forward: Forward,
        function: RecipeFunction,
        reference: str,
        *,
        double: bool,
    ) -> None:
        self._model, self._forward, self._double = model, forward, double
        self._function, self._reference = function, reference
        self._tensors = tensors_of(paths)

    def _script(self) -> Script:
        import torch

        watched = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
        script = build(self._function, self._reference, self._model, watched)
        if script.step is not None:
            raise ModelError(
                "E704",
                "expected no `step` of a PyTorch script, whose loop is followed by its settings",
                place=self._reference,
                hint="regraft calls only MindSpore's: leave it out",
            )
        if self._double and isinstance(script.loss, torch.nn.Module):  # which other sides may hold too
            script = replace(script, loss=deepcopy(script.loss).double())
        return script

    def read(self, inputs: Mapping[str, np.ndarray], steps: int) -> Reading:
        """Read the script; see `Learner`."""
        import torch
        from torch.utils import _pytree as pytree

        with borrowed(self._model, self._tensors), without_dropout(self._model), plainly():
            script = self._script()
            recipe = read_recipe(
                script, {id(t): n for n, t in self._tensors.items()}, script.steps or steps, self._reference
            )
            train(self._model)
            with torch.no_grad():
                result = self._forward(inputs)
        recipe = replace(recipe, places=places_of(script, self._function))
        leaves = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]

        def loss(output: np.ndarray, labels: Nest) -> float:
            given = _labels(labels, torch.float32)
            return float(_total(script.total(torch.from_numpy(output), given, self._reference)))

        def tape(output: np.ndarray, labels: Nest) -> Tape | None:
            with torch.no_grad():
                given = torch.from_numpy(output), _labels(labels, torch.float32)
                return recorded_loss(TorchHost(), script, *given)

        shape, single = tuple(leaves[0].shape), isinstance(result, torch.Tensor)
        return Reading(
            recipe, shape, loss if single else None, script.labels, script.steps, tape, script.data_reference
        )

    def follow(
        self,
        batches: Sequence[Batch],
        record: frozenset[int],
        rules: Mapping[str, UpdateRule] | None,
        precision: str | None,
    ) -> Trajectory:
        """Train; see `Learner`. A float64 copy computes in float64 whatever the script's precision."""
        with borrowed(self._model, self._tensors), without_dropout(self._model), plainly():
            script = self._script()
            train(self._model)
            try:
                return self._steps(script, batches, record, rules, None if self._double else precision)
            except ModelError:
                raise
            except Exception as error:  # the user's forward, loss and optimizer may raise anything
                raise ModelError(
                    "E704",
                    f"training by the recipe raised {type(error).__name__}: {error}",
                    place=self._reference,
                ) from error

    def _steps(
        self,
        script: Script,
        batches: Sequence[Batch],
        record: frozenset[int],
        rules: Mapping[str, UpdateRule] | None,
        precision: str | None,
    ) -> Trajectory:
        import torch

        found = Trajectory(self._values())
        states: dict[str, State] = {}
        scale = loop_scale(script.loss_scale)
        scaler = None if precision is None or read_scaler(script.loss_scale) is None else script.loss_scale
        lower: Any = torch.bfloat16 if precision == "bfloat16" else torch.float16
        trained = [p for group in script.optimizer.param_groups for p in group["params"]]
        for at, (inputs, labels) in enumerate(batches):
            for parameter in self._model.parameters():
                parameter.grad = None
            with torch.enable_grad():
                with torch.autocast("cpu", lower, enabled=precision is not None):
                    given = _labels(labels, self._float())
                    loss = _total(script.total(self._forward(inputs), given, self._reference))
                (loss * scale if scaler is None else scaler.scale(loss)).backward()
            if scaler is not None:
                scaler.unscale_(script.optimizer)
            if script.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(trained, float(script.clip_norm))
            if script.clip_value is not None:
                torch.nn.utils.clip_grad_value_(trained, float(script.clip_value))
            if rules is None:
                if scaler is None:
                    script.optimizer.step()
                else:
                    scaler.step(script.optimizer)
                    scaler.update()
                if script.schedule is not None and (at + 1) % script.steps_per_rate == 0:
                    script.schedule.step()
            else:
                self._by_rule(rules, states, at)
            found.losses.append(float(loss.detach()))
            if at + 1 in record:
                found.values[at + 1] = self._values()
        return found

    def _by_rule(self, rules: Mapping[str, UpdateRule], states: dict[str, State], at: int) -> None:
        import torch

        with torch.no_grad():
            for name, rule in rules.items():
                tensor = self._tensors[name]
                if tensor.grad is not None:
                    state = states.setdefault(name, {})
                    tensor.copy_(updated(rule, state, tensor, tensor.grad, rule.rates[at]))

    def _float(self) -> Any:
        import torch

        return torch.float64 if self._double else torch.float32

    def _values(self) -> dict[str, np.ndarray]:
        return {
            n: np.array(array_of(t), copy=True) for n, t in self._tensors.items() if t.is_floating_point()
        }


def _total(loss: Any) -> Any:
    return loss.sum() if loss.dim() else loss


def _labels(labels: Nest, real: Any) -> Any:
    """Return indices as int64, as torch's losses ask for; numbers in the net's own type, and masks."""
    import torch

    def convert(array: np.ndarray) -> Any:
        tensor = torch.from_numpy(np.array(array, copy=True))
        if tensor.dtype == torch.bool:
            return tensor
        return tensor.to(real) if tensor.is_floating_point() else tensor.long()

    return in_nest(labels, convert)
