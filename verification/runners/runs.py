"""The records of a model's run: its outputs, and what entered and left every module call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ...ir import Operator
from .records import ValueStore

ELUS = frozenset({"Celu", "Elu", "Selu"})
"""Operators that runtimes compute as `alpha * (exp(x) - 1)`: off by units of alpha, however small the result.

Torch's own are not, so its runs are measured with that error added (`torch_rounding`).
"""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One module call: the tensors that entered and left it, in the runtime's order.

    The arrays are read-only by convention, because equal values share one array.

    Attributes:
        class_name: the module's class.
        inputs: what entered.
        outputs: what left.
        alone: whether it is the source's function of what enters; a pass may have done its beginning before.
        rounded: which outputs are integers that stand for floats, and were rounded; empty where none is.
        entered_rounded: which inputs are such integers; empty where none is.
    """

    class_name: str
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    alone: bool = True
    rounded: tuple[bool, ...] = ()
    entered_rounded: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a model.

    Attributes:
        outputs: (name, array) in order.
        calls: call name ``path#n`` -> record, in the order the calls were made.
        store: holds the arrays of `calls`; None where they are nobody's but theirs.
    """

    outputs: list[tuple[str, np.ndarray]]
    calls: dict[str, CallRecord] = field(default_factory=dict)
    store: ValueStore | None = None

    def release(self) -> None:
        """Release the memory that reading recorded values from disk took; they can be read again."""
        if self.store is not None:
            self.store.release()

    def forget(self) -> None:
        """Forget the recorded calls, whose values take memory."""
        self.calls.clear()
        if self.store is not None:
            self.store.clear()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The place of tensor number `index` among recorded arguments.

    Attributes:
        index: its number.
        like: a quantised tensor, of whose scale it is.
    """

    index: int
    like: Any = None


class Runner(Protocol):
    """A model in a runtime."""

    @property
    def runtime(self) -> str:
        """The name of the runtime, for the report: ``PyTorch 2.13 (evaluation mode)``."""
        ...

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:
        """Return the error of the runtime's arithmetic, in units in the last place of the largest value.

        Args:
            operators: the operators in the model, as its graph has them.
        """
        ...

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the model on inputs in the order of its formal inputs; `calls`: whether to record modules."""
        ...

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one module call on its own, on inputs in the order of its `CallRecord` in the last `run`."""
        ...

    def run_with(self, inputs: Mapping[str, np.ndarray], given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the model with other values in place of what the calls named return.

        Args:
            inputs: as of `run`.
            given: call -> what it is to return, in the order of its record.
        """
        ...

    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> AbstractContextManager[None]:
        """Change every floating-point weight in a with block.

        Args:
            change: makes the values of a weight.
            call: only weights of that call's module.
            only: only the weight of that name, as the graph has it.
        """
        ...

    def close(self) -> None:
        """Restore the model, and free what was loaded for it."""
        ...


class ForwardingRunner:
    """The part of a runner that another does for it.

    Args:
        runner: the other.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    @property
    def runtime(self) -> str:
        """The runtime; see `Runner`."""
        return self._runner.runtime

    def ulp_tolerance(self, operators: Sequence[Any]) -> int:
        """Return the error of the runtime's arithmetic; see `Runner`."""
        return self._runner.ulp_tolerance(operators)

    def altered(self, *args: Any, **options: Any) -> AbstractContextManager[None]:
        """Change weights in a with block; see `Runner`."""
        return self._runner.altered(*args, **options)

    def close(self) -> None:
        """Free the runner; see `Runner`."""
        self._runner.close()


class ModelRunner(Runner, Protocol):
    """A live model in its own framework."""

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Set parameters and buffers to other values, by name, until `close`."""
        ...


@dataclass(frozen=True, slots=True)
class ElementProbe:
    """Some elements of a call's result.

    Attributes:
        recorded: their values in the run.
        before: their values from the layer alone.
        after: their values from the layer with one parameter changed.
    """

    recorded: np.ndarray
    before: np.ndarray
    after: np.ndarray


Changing = Callable[[np.ndarray, "slice | np.ndarray"], "np.ndarray | None"]
"""Returns other values of a part of a parameter, from all of its values and the part's indices."""


@runtime_checkable
class ElementProber(Protocol):
    """A runner that can compute some elements of a plain layer's result, at little cost."""

    def probe_elements(
        self, call: str, record: CallRecord, only: str, change: Changing
    ) -> ElementProbe | None:
        """Return some elements of a call's result, without and with one of its parameters changed.

        Args:
            call: the call.
            record: its values in the last `run`.
            only: name of the parameter, as the graph has it.
            change: makes other values of a part of a parameter; None where it cannot.

        Returns:
            None where the call's module is no plain layer.
        """
        ...


@runtime_checkable
class Replacing(Protocol):
    """A runner that calls another layer in the place of one of the model's."""

    def run_part(self, call: str, part: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run a layer with the arguments of one module call, tensors replaced as in `run_module`."""
        ...


@runtime_checkable
class Varying(Protocol):
    """A runner that changes one parameter after the other, where there are no gradients."""

    def run_varied(
        self,
        inputs: Mapping[str, np.ndarray],
        names: Sequence[str],
        change: Callable[[np.ndarray], np.ndarray],
    ) -> Iterator[tuple[str, list[np.ndarray]]]:
        """Yield (name, outputs) with each of some parameters changed alone."""
        ...


@runtime_checkable
class Selecting(Protocol):
    """A runner that shows the values by which its model selects elements."""

    def selected_values(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return what was ordered, compared, suppressed or rounded in a run, in order."""
        ...


@runtime_checkable
class Fusing(Protocol):
    """A runner whose runtime fuses operators, and may compute something else by it."""

    @property
    def fuses(self) -> bool:
        """Whether operators are fused, as by default, or run one by one, as the standard defines them."""
        ...

    @property
    def rounds_coarsely(self) -> bool:
        """Whether the model has values of so few bits that its runtime's fusions may round much more."""
        ...

    def fusing(self, on: bool) -> AbstractContextManager[None]:
        """Fuse operators in a with block, or run them one by one there."""
        ...


class KernelError(NamedTuple):
    """The error of a kernel's results in units in the last place.

    Attributes:
        relative: units of each result.
        absolute: units of 1.
        scaled: units of the operand, by which the kernel multiplies what has an absolute error.
        summed: units of the result for the sizes of the terms, whose own signs may cancel; the errors of more
            than a thousand terms grow with the root of their number.
    """

    relative: float = 0.0
    absolute: float = 0.0
    scaled: float = 0.0
    summed: float = 0.0


KernelErrors = Mapping[str, KernelError]
"""Operator of torch (``aten.exp``) -> the error of its results."""


@runtime_checkable
class Coarse(Protocol):
    """A runner of whose runtime some kernels are coarser than float32's arithmetic."""

    @property
    def kernel_errors(self) -> KernelErrors:
        """The errors of those kernels' results."""
        ...


@runtime_checkable
class RoundsLike(Protocol):
    """A runner that adds such errors to its own results while its weights are altered by rounding."""

    def round_like(self, errors: KernelErrors) -> None:
        """Set the errors that are added from now on."""
        ...


@runtime_checkable
class Correcting(Protocol):
    """A runner that corrects kernels of its framework that saturate sums or exchange elements."""

    @property
    def saturated(self) -> list[str]:
        """The names of the operators whose sums it replaced in the runs so far."""
        ...

    @property
    def mixed(self) -> list[str]:
        """The names of the operators whose elements it put back in the runs so far."""
        ...


class Unrounded(NamedTuple):
    """Values before a source rounds them to integers that stand for floats.

    Attributes:
        steps: where they lie among the integers.
        unit: the part of a step to which a kernel may round the bias, as a sum of products of integers.
    """

    steps: np.ndarray
    unit: float


@runtime_checkable
class Unrounding(Protocol):
    """A runner that shows where values lie before its framework rounds them to integers."""

    def run_unrounded(self, inputs: Mapping[str, np.ndarray]) -> Mapping[tuple[str, str, int], Unrounded]:
        """Run the model and return them, by call, side of its record, and index, where they are known."""
        ...


@runtime_checkable
class Tracing(Protocol):
    """A runner that sees the values that enter its framework's own operators."""

    def meets_open_operator(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether NaN enters an operator whose documents leave open what it gives of it."""
        ...
