"""Runs a torch module whose weights are mapped from a file, and lets go of them module by module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...frontends.torch_module.export.tensors import array_of, tensor_of
from ...frontends.torch_module.given_values import (
    copied_module,
    forget_values,
    prefetch_values,
    release_values,
)
from ...ir import Graph
from ...ir.outside.page_cache import PageEvictor
from ..runners.runs import Run
from ..runners.torch_runner import TorchRunner
from .exact_constants import ExactConstants, recording_constants
from .fixed_weights import FixedWeights
from .handover import Take, keep_outputs
from .pace import Read, ignore_pace
from .titles import name_in_pieces

if TYPE_CHECKING:
    import torch
    from torch.utils.weak import WeakTensorKeyDictionary


class MappedTensors(FixedWeights, TorchRunner):
    """A torch module in eager mode, with mapped weights: those of one of its modules are in memory at a time.

    Attributes:
        read: gets the bytes of a module's weights before they are read.
    """

    read: Read = staticmethod(ignore_pace)

    @cached_property
    def _evictor(self) -> PageEvictor:
        return PageEvictor()

    def _run(
        self, inputs: Mapping[str, np.ndarray], calls: bool, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Run:
        handles = [m.register_forward_hook(_release) for m in self._model.modules()]
        handles += [m.register_forward_pre_hook(self._begin) for m in self._model.modules()]
        try:
            return super()._run(inputs, calls, given)
        finally:
            for handle in handles:
                handle.remove()

    def _begin(self, module: Any, _arguments: Any) -> None:
        size = prefetch_values(module)
        if size:
            self.read(size)
            self._evictor.add(size, partial(forget_values, module))

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Call one module; see `Runner`."""
        found = super().run_module(call, inputs)
        release_values(self._arguments[call][0])
        return found


class TorchPieces(MappedTensors):
    """The torch module of a source in eager mode, in pieces.

    Args:
        graph: what the frontend made of it.
        real: the type that narrower floating-point numbers are widened to, each weight where it is used;
            empty for the module's own types.

    Attributes:
        take: gets a recorded call and what it gave, and returns what goes on in its place; None for that.
    """

    take: Take

    def __init__(self, graph: Graph, real: Literal["", "float32", "float64"] = "") -> None:
        from torch.utils.weak import WeakTensorKeyDictionary

        super().__init__(graph)
        self._real, self.take = real, keep_outputs
        self._own: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._run_kept: tuple[Mapping[str, np.ndarray], Run] | None = None
        self._model = self._given  # as it is: its values are widened where it uses them
        self._double = real == "float64"
        self.runtime = name_in_pieces(self.runtime, real)

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the module; see `Runner`."""
        kept, self._run_kept = self._run_kept, None
        return kept[1] if kept is not None and kept[0] is inputs else self._run(inputs, calls, {})

    def take_calls(self, other: TorchPieces) -> None:
        """Take the calls that another runner of the same module has recorded, to run them alone."""
        self._arguments = other._arguments

    def keep(self, inputs: Mapping[str, np.ndarray], run: Run) -> None:
        """Make the next run on these very inputs return what a run on them has given."""
        self._run_kept = inputs, run

    def _instead(self, call: str, outputs: Sequence[np.ndarray]) -> Sequence[torch.Tensor] | None:
        import torch

        # tensors of inference mode have no version
        others = None if torch.is_inference_mode_enabled() else self.take(call, outputs)
        if others is None:
            return None
        tensors = list(map(tensor_of, others))
        for tensor, own in zip(tensors, outputs, strict=True):
            self._own[tensor] = tensor._version, own
        return tensors

    def _values(self, tensor: torch.Tensor) -> np.ndarray:
        version, own = self._own.get(tensor) or (None, None)
        # what a module hands on is what it got, unless somebody has changed it in place
        return super()._values(tensor) if own is None or version != tensor._version else own

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """Put another tensor in the place of one weight in a with block; see `Runner`.

        Raises:
            ModelError: E702 for all weights, which would not fit into memory.
        """
        import torch

        from ..runners.torch_rounding import is_alterable

        if not only:
            with super().altered(change, call):
                yield
            return
        tensor = self._named_tensors.get(only)
        if tensor is None or not is_alterable(tensor):
            yield
            return
        tables = [t for m in self._modules for t in (m._parameters, m._buffers)]
        places = [(table, name) for table in tables for name, held in table.items() if held is tensor]
        other = tensor_of(change(array_of(tensor.detach())))
        if isinstance(tensor, torch.nn.Parameter):
            other = torch.nn.Parameter(other, tensor.requires_grad)
        for table, name in places:
            table[name] = other
        try:
            yield
        finally:
            for table, name in places:
                table[name] = tensor

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        """Open a with block in which runs of this module and of copies may overlap, each in a thread.

        What they change in torch is as before behind it, in whatever order they end.
        """
        import torch

        threads = torch.get_num_threads()
        with self._ready(), _without_warnings():
            torch.set_num_threads(1)  # one thread a run
            try:
                yield
            finally:
                torch.set_num_threads(threads)

    def separate(self) -> bool:
        """Make this runner run a copy of the module that shares its weights; return whether there is one."""
        from ..training.torch_step import module_paths

        try:
            self._model = copied_module(self._model)
        except Exception:  # a user's module may refuse to be copied in any way
            return False
        self._paths = module_paths(self._model, self._graph.modules)
        self._modules = list(self._model.modules())
        vars(self).pop("_named_tensors", None)  # which is of the other module
        return True

    def exact_constants(self, inputs: Mapping[str, np.ndarray]) -> ExactConstants:
        """Return what the module computes in float32 from neither its inputs nor its parameters.

        Nothing is read and no weights are used: inputs and parameters are on the device ``meta``. Where the
        module's code looks at their values, that is all up to there.
        """
        import torch
        from torch.func import functional_call

        from ..runners.torch_double import in_wide

        found = ExactConstants()
        parameters = {name: p.to("meta") for name, p in self._model.named_parameters()}
        with self._ready():
            arguments, keywords = _on_meta(self._bind(inputs))
            wide = in_wide(torch.float32)
            with suppress(Exception), _without_warnings(), wide, recording_constants(found):
                functional_call(self._model, parameters, tuple(arguments), keywords)
        return found

    def _widening(self) -> AbstractContextManager[object]:
        if not self._real:
            return nullcontext()
        import torch

        from ..runners.torch_double import in_wide

        return in_wide(getattr(torch, self._real))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence torch's warning about an input that is wider than a weight, in a with block."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mismatch dtype between input and weight")
        yield


def _release(module: Any, _arguments: Any, _result: Any) -> None:
    release_values(module)


def _on_meta(values: Any) -> Any:
    """Return nested values whose tensors are on the device ``meta``."""
    import torch
    from torch.utils import _pytree as pytree

    return pytree.tree_map(lambda x: x.to("meta") if isinstance(x, torch.Tensor) else x, values)
