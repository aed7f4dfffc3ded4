"""The frameworks whose methods are recorded: their tensors, modules and the state in which they run."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np


class Host(Protocol):
    """A framework."""

    name: str
    method: str

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor."""
        ...

    def base(self) -> Any:
        """The class of all modules."""
        ...

    def array(self, tensor: Any) -> np.ndarray:
        """A copy of a tensor's values."""
        ...

    def tensor(self, array: np.ndarray) -> Any:
        """A tensor with these values."""
        ...

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        """(path, module) of a model and of its parts."""
        ...

    def containers(self) -> tuple[Any, ...]:
        """Classes of modules that call their parts in turn."""
        ...

    def parts(self, container: Any) -> list[Any]:
        """Return the calls of a container in order."""
        ...

    def parameters(self, module: Any) -> list[Any]:
        """The parameters and buffers of a module and its parts, in order."""
        ...

    @contextmanager
    def ready(self, model: Any) -> Iterator[None]:
        """A with block in which calls may be made again."""
        ...

    def recover(self) -> None:
        """Undo what a call that raised left behind in the framework."""
        ...

    def remade(self, module: Any, arguments: dict[str, Any]) -> Any:
        """A layer with other arguments and the same weights; None where the weights do not fit."""
        ...

    def aborts(self, function: Any, arguments: Iterable[Any]) -> bool:
        """Whether a call would end the process, and not raise an exception."""
        ...


class TorchHost:
    """PyTorch."""

    name = "torch"
    method = "forward"

    def is_tensor(self, value: Any) -> bool:
        """See `Host`."""
        import torch

        return isinstance(value, torch.Tensor)

    def base(self) -> Any:
        """See `Host`."""
        import torch

        return torch.nn.Module

    def array(self, tensor: Any) -> np.ndarray:
        """See `Host`."""
        from ...frontends.torch_module.export.tensors import copied_array

        return copied_array(tensor)

    def tensor(self, array: np.ndarray) -> Any:
        """See `Host`."""
        from ...frontends.torch_module.export.tensors import tensor_of

        return tensor_of(np.array(array, copy=True))

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        """See `Host`."""
        return list(model.named_modules())

    def containers(self) -> tuple[Any, ...]:
        """See `Host`."""
        import torch

        return (torch.nn.Sequential,)

    def parts(self, container: Any) -> list[Any]:
        """See `Host`."""
        return list(container)

    def parameters(self, module: Any) -> list[Any]:
        """See `Host`."""
        return [*module.parameters(), *module.buffers()]

    @contextmanager
    def ready(self, model: Any) -> Iterator[None]:
        """See `Host`."""
        import torch

        training = [module for module in model.modules() if module.training]
        for module in training:
            module.training = False
        try:
            with torch.no_grad():
                yield
        finally:
            for module in training:
                module.training = True

    def recover(self) -> None:
        """See `Host`."""

    def remade(self, module: Any, arguments: dict[str, Any]) -> Any:
        """See `Host`."""
        import torch

        with torch.random.fork_rng(devices=[]):
            made = type(module)(**arguments)
        mine, theirs = self.parameters(module), self.parameters(made)
        if [p.shape for p in mine] != [p.shape for p in theirs]:
            return None
        for old, new in zip(mine, theirs, strict=True):
            new.data = old.detach().clone()
        return made.eval()

    def aborts(self, function: Any, arguments: Iterable[Any]) -> bool:
        """See `Host`."""
        del function, arguments
        return False


class MindSporeHost:
    """MindSpore, in PyNative mode."""

    name = "mindspore"
    method = "construct"

    def is_tensor(self, value: Any) -> bool:
        """See `Host`."""
        from mindspore import Tensor

        return isinstance(value, Tensor)

    def base(self) -> Any:
        """See `Host`."""
        from mindspore.nn import Cell

        return Cell

    def array(self, tensor: Any) -> np.ndarray:
        """See `Host`."""
        from ..runners.mindspore_values import array_of

        return np.array(array_of(tensor), copy=True)

    def tensor(self, array: np.ndarray) -> Any:
        """See `Host`."""
        from mindspore import Tensor

        return Tensor(np.array(array, copy=True))

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        """See `Host`."""
        return list(model.cells_and_names())

    def containers(self) -> tuple[Any, ...]:
        """See `Host`."""
        from mindspore.nn import SequentialCell

        return (SequentialCell,)

    def parts(self, container: Any) -> list[Any]:
        """See `Host`."""
        return list(container)

    def parameters(self, module: Any) -> list[Any]:
        """See `Host`."""
        return list(module.get_parameters())

    @contextmanager
    def ready(self, model: Any) -> Iterator[None]:
        """See `Host`."""
        from ..runners.mindspore_cells import cells_of, evaluating

        with evaluating([cell for _, cell in cells_of(model)]):
            yield

    def recover(self) -> None:
        """See `Host`."""
        from ...frontends.mindspore_cell.mixed_precision import leave_precision

        leave_precision()

    def remade(self, module: Any, arguments: dict[str, Any]) -> Any:
        """See `Host`."""
        made = type(module)(**copy.copy(arguments))
        if not isinstance(made, self.base()):
            return made
        mine, theirs = self.parameters(module), self.parameters(made)
        if [p.shape for p in mine] != [p.shape for p in theirs]:
            return None
        for old, new in zip(mine, theirs, strict=True):
            new.set_data(old)
        return made.set_train(False)

    def aborts(self, function: Any, arguments: Iterable[Any]) -> bool:
        """See `Host`."""
        name = getattr(function, "__name__", type(function).__name__)
        if name not in _ABORTING:
            return False
        first = next((self.array(leaf) for leaf in arguments if self.is_tensor(leaf)), None)
        return first is not None and first.size > 0 and not bool(((first >= 0) & (first <= 1)).all())


_ABORTING = frozenset({"binary_cross_entropy", "BinaryCrossEntropy", "BCELoss"})
"""Functions of MindSpore whose kernel throws in a worker thread where it is given no probabilities."""


def host_of(framework: str) -> Host | None:
    """The host of a framework; None for one whose models have no methods of the user's."""
    return {"torch": TorchHost(), "mindspore": MindSporeHost()}.get(framework)
