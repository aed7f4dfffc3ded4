"""Runs an emitted folder of PyTorch source whose parameters are mapped from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...checkpoints import read_checkpoint
from ...formats.written_behind import Await
from ...frontends.torch_module.given_values import place_of, with_values, without_values
from ...ir import ModelError
from ..runners.emitted_folder import LoadNothing
from ..runners.runs import Run
from ..runners.torch_folder import TorchFolderRunner
from .exact_constants import ExactConstants
from .handover import Give, ignore_outputs
from .pace import ignore_weight
from .titles import name_in_pieces
from .torch_pieces import MappedTensors

if TYPE_CHECKING:
    import torch

_WHOLE = 1 << 62
"""More bytes than a file has."""


class TorchFolderPieces(MappedTensors, TorchFolderRunner):
    """The net of an emitted folder in eager mode, in pieces.

    Args:
        folder: the folder.
        wait_for: called before bytes of its files are read, which may still be written.

    Attributes:
        moved: nothing, as the net computes in the source's own types.
        calls: nothing, likewise.
        has_read: gets the name of a parameter when it is there.
        give: gets what each recorded call gives.
    """

    moved: Mapping[str, float]
    calls: Mapping[str, Mapping[str, Any]]

    def __init__(self, folder: Path, wait_for: Await) -> None:
        super().__init__(folder, partial(_mapped_net, folder, wait_for))
        self.has_read: Callable[[str], None] = ignore_weight
        self.give: Give = ignore_outputs
        self.moved, self.calls = {}, {}
        self._wait_for, self._awaited = wait_for, dict[int, str]()
        for name, parameter in self._model.named_parameters():
            self._awaited[id(parameter)] = name
        self.runtime = name_in_pieces(self.runtime)

    def _run(
        self, inputs: Mapping[str, np.ndarray], calls: bool, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Run:
        with self._reading():
            return super()._run(inputs, calls, given)

    def _reading(self) -> AbstractContextManager[object]:
        """Return a with block in which a parameter that an operator reads is there before."""
        from torch.utils import _pytree as pytree
        from torch.utils._python_dispatch import TorchDispatchMode

        awaited, take = self._awaited, self._take

        class Reading(TorchDispatchMode):
            supports_higher_order_operators = True

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                given = kwargs or {}
                for leaf in pytree.tree_leaves((args, given)) if awaited else ():
                    if id(leaf) in awaited:
                        take(leaf)
                return func(*args, **given)

        return Reading()

    def _take(self, parameter: torch.Tensor) -> None:
        name, place = self._awaited.pop(id(parameter)), place_of(parameter)
        if place is not None:
            self._wait_for(*place, parameter.nbytes)
        self.has_read(name)

    def _instead(self, call: str, outputs: Sequence[np.ndarray]) -> None:
        self.give(call, outputs)

    def gives(self, call: str) -> bool:
        """Whether a module has the path of a call."""
        path = call.rpartition("#")[0]
        return any(path in ([p] if isinstance(p, str) else p) for p in self._sources.values())

    def stated_types(self) -> None:
        """Return None: the emitted source states no types of its outputs."""


def _mapped_net(folder: Path, wait_for: Await, module: Any) -> Any:
    """Return the net of an imported ``model.py``, with parameters mapped from its checkpoint."""
    for file in sorted(folder.glob("constants*.safetensors")):
        wait_for(file, 0, _WHOLE)  # `build` reads it
    loading = LoadNothing()
    net = loading.build(module, without_values())
    if loading.checkpoint is None:
        return net
    values = read_checkpoint(loading.checkpoint)
    types = {name: str(p.dtype).removeprefix("torch.") for name, p in net.named_parameters()}
    for name, data in values.items():
        if types.get(name, data.dtype) != data.dtype:  # which `load` would convert
            raise ModelError(
                "E702",
                f"the checkpoint does not fit the net: {name} is {data.dtype}, {types[name]} in the net",
                place=str(loading.checkpoint),
            )
        if name not in types or data.place is None:  # what is not mapped is read at once
            wait_for(*(data.place or (loading.checkpoint, 0)), data.nbytes if data.place else _WHOLE)
    return with_values(net, values, own=True, read_only=True)


def output_in_pieces(
    path: Path,
    *,
    threads: int | None,
    wide: bool,
    budget: int,
    weights: Collection[str],
    literals: Sequence[float],
    constants: ExactConstants,
    wait_for: Await,
) -> TorchFolderPieces:
    """Return a runner of an emitted folder's net; see `targets`.

    Raises:
        ModelError: when its files cannot be used, or the checkpoint does not fit the net.
    """
    del threads, wide, budget, weights, literals, constants  # it computes as the source does
    return TorchFolderPieces(path, wait_for)
