"""The kernels of a torch module's quantised layers: corrected in its runs, and shown before they round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ...ir import ModelError
from .refusals import WrongKernelError

if TYPE_CHECKING:
    import torch

    from .quantised.readings import NotedSteps, Steps


class QuantisedKernels:
    """Corrections and notes in the runs of a module with layers that compute on integers.

    Attributes:
        saturated: the operators whose sums a kernel saturated so far.
        mixed: the clamps whose kernel exchanged elements so far.
    """

    def __init__(self) -> None:
        self.saturated: set[str] = set()
        self.mixed: set[str] = set()
        self._steps: NotedSteps | None = None
        self._found: dict[tuple[str, str, int], Steps] = {}

    @contextmanager
    def corrected(self) -> Iterator[None]:
        """Open a with block in which quantised layers add up exactly and clamps exchange nothing."""
        from .quantised.clamps import clamps_in_order
        from .quantised.exact_sums import exact_sums
        from .quantised.readings import steps_noted

        noting = nullcontext() if self._steps is None else steps_noted(self._steps)
        with exact_sums(self.saturated), clamps_in_order(self.mixed), noting:
            yield

    @contextmanager
    def noting(self) -> Iterator[Mapping[tuple[str, str, int], Steps]]:
        """Open a with block in which runs note values before they are rounded; gives what they note."""
        from .quantised.readings import NotedSteps

        self._steps, self._found = NotedSteps(), {}
        try:
            yield self._found
        finally:
            self._steps = None

    def note(self, call: str, side: str, index: int, tensor: torch.Tensor) -> None:
        """Note what a tensor at an edge of a call was before it was rounded, in a run that is to show it."""
        found = None if self._steps is None else self._steps.of(tensor)
        if found is not None:
            self._found[call, side, index] = found


def failure_of(error: Exception, model: torch.nn.Module) -> ModelError:
    """Return the failure of a run of a module in which something was raised."""
    if not isinstance(error, WrongKernelError):
        return ModelError("E702", f"the torch module raised {type(error).__name__}: {error}")
    held = (name for name, m in model.named_modules() if any(v is error.packed for v in vars(m).values()))
    layer = next(held, "") or error.operator
    return ModelError(
        "E702",
        f"torch's kernel of `{layer}` does not compute the layer: its numbers are up to {error.steps} steps "
        "off and may change from run to run, so that there is nothing to compare with",
        hint="its kernels for QNNPACK and oneDNN are right: set torch.backends.quantized.engine before "
        "torch.ao converts the model",
    )


def refuse_packed(values: Mapping[str, Any], held: Mapping[str, Any]) -> None:
    """Refuse other values of what torch packs for its kernels.

    Raises:
        ModelError: where one of the values is of none of the tensors that the model holds.
    """
    packed = next((name for name in values if name not in held), None)
    if packed is not None:
        raise ModelError(
            "E702",
            f"torch holds `{packed}` packed for its kernels, so that it cannot be given other values",
            hint="give both models equal weights before quantising them, and compare with --own-weights",
        )
