"""Follows a training script of MindSpore's for some steps in PyNative mode; values are put back after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...frontends.mindspore_cell.recipe import read_recipe
from ...frontends.recipe_settings import loop_scale
from ...frontends.training_script import RecipeFunction, Script, build
from ...ir import ModelError
from ..training.mindspore_step import restored, start_training, without_functions
from .trajectories import Batch, Reading, Trajectory

Forward = Callable[[Mapping[str, np.ndarray]], Any]
"""Calls the Cell on inputs by name."""


class MindSporeTraining:
    """A Cell, already borrowed, and the training script for it.

    Args:
        net: the Cell.
        cells: every Cell of it.
        parameters: name -> Parameter, each once.
        forward: calls it.
        function: the recipe function.
        reference: where that is.
    """

    def __init__(
        self,
        net: Any,
        cells: Sequence[Any],
        parameters: Mapping[str, Any],
        forward: Forward,
        function: RecipeFunction,
        reference: str,
    ) -> None:
        self._net, self._cells, self._parameters, self._forward = net, cells, parameters, forward
        self._function, self._reference = function, reference

    def read(self, inputs: Mapping[str, np.ndarray], steps: int) -> Reading:
        """Read the script; see `Learner`."""
        from mindspore import Tensor

        from ..runners.mindspore_values import tensors_of

        with restored(self._parameters):
            script = build(self._function, self._reference, self._net)
            recipe = read_recipe(
                script,
                {id(p): n for n, p in self._parameters.items()},
                script.steps or steps,
                self._reference,
            )
            start_training(self._net, self._cells)
            with without_functions():
                result = self._forward(inputs)

        def loss(output: np.ndarray, labels: np.ndarray) -> float:
            return float(script.loss(Tensor(output), _labels(labels)).asnumpy().sum(dtype=np.float64))

        shape = tuple(tensors_of(result)[0].shape)
        return Reading(
            recipe, shape, loss if isinstance(result, Tensor) else None, script.labels, script.steps
        )

    def follow(self, batches: Sequence[Batch], record: frozenset[int]) -> Trajectory:
        """Train; see `Learner`."""
        with restored(self._parameters):
            script = build(self._function, self._reference, self._net)
            start_training(self._net, self._cells)
            with without_functions():
                try:
                    return self._steps(script, batches, record)
                except Exception as error:  # the user's construct, loss and optimizer may raise anything
                    text = next(iter(str(error).strip().splitlines()), "")
                    raise ModelError(
                        "E704",
                        f"training by the recipe raised {type(error).__name__}: {text}",
                        place=self._reference,
                    ) from error

    def _steps(self, script: Script, batches: Sequence[Batch], record: frozenset[int]) -> Trajectory:
        import mindspore
        from mindspore import ops

        found = Trajectory(self._values())
        trained = script.optimizer.parameters
        scale = loop_scale(script.loss_scale)

        def loss_of(inputs: Mapping[str, np.ndarray], labels: Any) -> tuple[Any, Any]:
            loss = script.loss(self._forward(inputs), labels)
            return (loss if scale == 1.0 else loss * scale), loss

        value_and_grad: Any = mindspore.value_and_grad  # whose annotations do not know None
        for at, (inputs, labels) in enumerate(batches):
            given = _labels(labels)
            step = value_and_grad(lambda i=inputs, y=given: loss_of(i, y), None, trained, has_aux=True)
            (_, loss), gradients = step()
            if script.clip_norm is not None:
                gradients = ops.clip_by_global_norm(gradients, float(script.clip_norm))
            if script.clip_value is not None:
                bound = float(script.clip_value)
                gradients = ops.clip_by_value(gradients, -bound, bound)
            script.optimizer(tuple(gradients))
            if script.schedule is not None and (at + 1) % script.steps_per_rate == 0:
                script.schedule.step()
            found.losses.append(float(loss.asnumpy().sum(dtype=np.float64)))
            if at + 1 in record:
                found.values[at + 1] = self._values()
        return found

    def _values(self) -> dict[str, np.ndarray]:
        values = {n: np.array(p.asnumpy(), copy=True) for n, p in self._parameters.items()}
        return {name: value for name, value in values.items() if value.dtype.kind == "f"}


def _labels(labels: np.ndarray) -> Any:
    """Indices as int32, the only ones that MindSpore's CrossEntropyLoss takes; numbers as float32."""
    from mindspore import Tensor

    return Tensor(np.array(labels, np.float32 if labels.dtype.kind == "f" else np.int32))
