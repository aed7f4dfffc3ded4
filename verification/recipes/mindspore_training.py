"""Follows a training script of MindSpore's for some steps in PyNative mode; values are put back after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...frontends.mindspore_cell.recipe import read_recipe
from ...frontends.recipe_places import places_of
from ...frontends.recipe_settings import loop_scale
from ...frontends.training_script import RecipeFunction, Script, build
from ...ir import ModelError
from ..causes.hosts import MindSporeHost
from ..causes.tape import Tape
from ..training.mindspore_step import restored, start_training, without_functions
from .loss_causes import recorded_loss
from .trajectories import Batch, Nest, Reading, Trajectory, in_nest

Bind = Callable[[Mapping[str, np.ndarray]], Sequence[Any]]
"""Makes the Cell's arguments of inputs by name."""


class MindSporeTraining:
    """A Cell, already borrowed, and the training script for it.

    Args:
        net: the Cell.
        cells: every Cell of it.
        parameters: name -> Parameter, each once.
        bind: makes its arguments.
        function: the recipe function.
        reference: where that is.
    """

    def __init__(
        self,
        net: Any,
        cells: Sequence[Any],
        parameters: Mapping[str, Any],
        bind: Bind,
        function: RecipeFunction,
        reference: str,
    ) -> None:
        self._net, self._cells, self._parameters, self._bind = net, cells, parameters, bind
        self._function, self._reference = function, reference

    def _script(self) -> Script:
        from mindspore.experimental.optim.lr_scheduler import LRScheduler
        from mindspore.nn import Cell

        return build(self._function, self._reference, self._net, (Cell, LRScheduler))

    def read(self, inputs: Mapping[str, np.ndarray], steps: int) -> Reading:
        """Read the script; see `Learner`."""
        from mindspore import Tensor

        from ..runners.mindspore_values import tensors_of

        with restored(self._parameters):
            script = self._script()
            recipe = read_recipe(
                script,
                {id(p): n for n, p in self._parameters.items()},
                script.steps or steps,
                self._reference,
            )
            recipe = replace(recipe, places=places_of(script, self._function))
            start_training(self._net, self._cells)
            with without_functions():
                result = self._net(*self._bind(inputs))

        def loss(output: np.ndarray, labels: Nest) -> float:
            found = script.total(Tensor(output), _labels(labels), self._reference)
            return float(found.asnumpy().sum(dtype=np.float64))

        def tape(output: np.ndarray, labels: Nest) -> Tape | None:
            return recorded_loss(MindSporeHost(), script, Tensor(output), _labels(labels))

        shape = tuple(tensors_of(result)[0].shape)
        single = isinstance(result, Tensor)
        return Reading(
            recipe, shape, loss if single else None, script.labels, script.steps, tape, script.data_reference
        )

    def follow(self, batches: Sequence[Batch], record: frozenset[int], precision: str | None) -> Trajectory:
        """Train; see `Learner`."""
        with restored(self._parameters):
            script = self._script()
            start_training(self._net, self._cells)
            with without_functions():
                try:
                    made = self._own_steps if script.step is not None else self._steps
                    return made(script, batches, record, precision)
                except ModelError:
                    raise
                except Exception as error:  # the user's construct, loss and optimizer may raise anything
                    text = next(iter(str(error).strip().splitlines()), "")
                    raise ModelError(
                        "E704",
                        f"training by the recipe raised {type(error).__name__}: {text}",
                        place=self._reference,
                    ) from error

    def _own_steps(
        self,
        script: Script,
        batches: Sequence[Batch],
        record: frozenset[int],
        precision: str | None,  # noqa: ARG002 - it computes in what it was made to
    ) -> Trajectory:
        """Return the steps of a script that makes whole ones."""
        assert script.step is not None
        found = Trajectory(self._values())
        for at, (inputs, labels) in enumerate(batches):
            loss = script.step(*self._bind(inputs), _labels(labels))
            self._keep(found, at, loss, record)
        return found

    def _keep(self, found: Trajectory, at: int, loss: Any, record: frozenset[int]) -> None:
        found.losses.append(float(loss.asnumpy().sum(dtype=np.float64)))
        if at + 1 in record:
            found.values[at + 1] = self._values()

    def _steps(
        self, script: Script, batches: Sequence[Batch], record: frozenset[int], precision: str | None
    ) -> Trajectory:
        import mindspore
        from mindspore import amp, ops

        found = Trajectory(self._values())
        trained = script.optimizer.parameters
        scale = loop_scale(script.loss_scale)
        scaler: Any = None
        if precision is not None and hasattr(script.loss_scale, "unscale"):
            scaler = script.loss_scale

        def outputs_of(*inputs: Any) -> Any:
            return self._net(*inputs)

        if precision is not None:  # of the function: the user's Cell stays as it is
            kind: Any = getattr(mindspore, precision)
            outputs_of = cast(Callable[..., Any], amp.auto_mixed_precision(outputs_of, "auto", kind))

        def loss_of(inputs: Mapping[str, np.ndarray], labels: Any) -> tuple[Any, Any]:
            outputs = outputs_of(*self._bind(inputs))
            if precision is not None:
                outputs = outputs.astype(mindspore.float32)
            loss = script.total(outputs, labels, self._reference)
            if scaler is not None:
                return scaler.scale(loss), loss
            return (loss if scale == 1.0 else loss * scale), loss

        value_and_grad: Any = mindspore.value_and_grad  # whose annotations do not know None
        for at, (inputs, labels) in enumerate(batches):
            given = _labels(labels)
            step = value_and_grad(lambda i=inputs, y=given: loss_of(i, y), None, trained, has_aux=True)
            (_, loss), gradients = step()
            finite = True
            if scaler is not None:
                gradients = scaler.unscale(gradients)
                finite = bool(amp.all_finite(gradients))
                scaler.adjust(mindspore.Tensor(finite))
            if script.clip_norm is not None:
                gradients = ops.clip_by_global_norm(gradients, float(script.clip_norm))
            if script.clip_value is not None:
                bound = float(script.clip_value)
                gradients = ops.clip_by_value(gradients, -bound, bound)
            if finite:
                script.optimizer(tuple(gradients))
            if script.schedule is not None and (at + 1) % script.steps_per_rate == 0:
                script.schedule.step()
            self._keep(found, at, loss, record)
        return found

    def _values(self) -> dict[str, np.ndarray]:
        values = {n: np.array(p.asnumpy(), copy=True) for n, p in self._parameters.items()}
        return {name: value for name, value in values.items() if value.dtype.kind == "f"}


def _labels(labels: Nest) -> Any:
    """Return indices as int32, which MindSpore's CrossEntropyLoss asks for; numbers as float32, and masks."""
    from mindspore import Tensor

    types = {"f": np.float32, "b": np.bool_}
    return in_nest(labels, lambda array: Tensor(np.array(array, types.get(array.dtype.kind, np.int32))))
