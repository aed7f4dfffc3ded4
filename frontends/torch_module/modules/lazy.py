"""Lazy layers: parameters that get their sizes, and their values, in the first run of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....ir import ModelError

if TYPE_CHECKING:
    from torch.nn import Module


def uninitialised(module: Module) -> list[str]:
    """Return the names of the parameters and buffers without sizes."""
    from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

    named = [*module.named_parameters(), *module.named_buffers()]
    return [name for name, tensor in named if isinstance(tensor, UninitializedTensorMixin)]


def uninitialised_error(names: list[str]) -> ModelError:
    """E104: what there is to do about parameters without sizes."""
    return ModelError(
        "E104",
        f"expected initialised parameters, got those of lazy layers: {_listed(names)}",
        place=names[0],
        hint="run the model once on an example, which draws them, or name it as file.py:Name with --input",
    )


def initialise(module: Module, call: Callable[[], object]) -> str:
    """Run a model once, in evaluation mode, so that its lazy layers get their parameters; returns a note.

    Raises:
        ModelError: E104 when the run does not reach all of them.
    """
    import torch

    names = uninitialised(module)
    modes = {m: m.training for m in module.modules()}
    try:
        for m in modes:
            m.training = False
        with torch.no_grad():
            call()
    finally:
        for m, training in modes.items():
            m.training = training
    if left := uninitialised(module):
        raise uninitialised_error(left)
    return f"the parameters of lazy layers are those of a first run on the inputs given: {_listed(names)}"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:3]) + (", …" if len(names) > 3 else "")
