"""Memory that tensors of a program share: writes into items at places that are data reach their tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....ir import UnsupportedError

if TYPE_CHECKING:
    import torch

_WRITES = frozenset({"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__"})


def writes(name: str) -> bool:
    """Whether an operator of a name writes into its first operand."""
    name = name.split(".")[0]
    in_place = name.startswith("__i") and name.endswith("__") and name not in ("__invert__", "__index__")
    return name in _WRITES or in_place or (name.endswith("_") and not name.endswith("__"))


def memory_of(tensor: torch.Tensor) -> int:
    """Return what identifies the memory of a tensor, as long as a tensor has it."""
    import torch

    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()._cdata


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have one memory."""
    return memory_of(a) == memory_of(b)


@dataclass(slots=True)
class _Copy:
    """A copy of the item of a tensor whose place is data; the program takes it for a view.

    Attributes:
        tensor: the copy.
        whole: the tensor.
        axis: of the item.
        place: number of the item, a tensor of one element.
        version: how often `whole` had been written into when the copy was made.
    """

    tensor: torch.Tensor
    whole: torch.Tensor
    axis: int
    place: torch.Tensor
    version: int


class Memory:
    """The copies of a program, and tensors of which it is not known whether they share memory."""

    def __init__(self) -> None:
        self._copies: dict[int, _Copy] = {}
        self._merged: list[tuple[torch.Tensor, list[torch.Tensor]]] = []
        self._doubtful: dict[int, torch.Tensor] = {}

    def clear(self) -> None:
        """Forget all, as a program begins."""
        self._copies, self._merged, self._doubtful = {}, [], {}

    def select(self, whole: torch.Tensor, axis: int, number: Any) -> torch.Tensor:
        """Return the item of a tensor whose place a tensor holds; a negative place counts from the end."""
        place = number.tensor.reshape(1)
        place = place.where(place >= 0, place + whole.shape[axis])
        found = whole.index_select(axis, place).squeeze(axis)
        self._copies[memory_of(found)] = _Copy(found, whole, axis, place, whole._version)
        return found

    def read(self, tensors: Sequence[torch.Tensor]) -> None:
        """Renew copies whose tensor was written into since they were made.

        Raises:
            UnsupportedError: where a tensor has another value if a branch on data was taken.
        """
        if not self._copies and not self._doubtful:
            return
        for tensor in tensors:
            memory = memory_of(tensor)
            if memory in self._doubtful:
                raise UnsupportedError(
                    "E203",
                    "the program reads a tensor that it wrote into under another name, which names the "
                    "same tensor only if a branch on data was taken",
                    hint="write the module so that it computes `x = x + 1` in place of `x += 1` there",
                )
            copy = self._copies.get(memory)
            if copy is not None:
                self.read([copy.whole])
                if copy.whole._version != copy.version:
                    copy.tensor.copy_(copy.whole.index_select(copy.axis, copy.place).squeeze(copy.axis))
                    copy.version = copy.whole._version

    def wrote(self, tensor: torch.Tensor) -> None:
        """Write a copy that the program wrote into back into its tensor."""
        if not self._copies and not self._merged:
            return
        memory = memory_of(tensor)
        for merged, ways in self._merged:
            if memory == memory_of(merged):
                self._doubtful.update((memory_of(way), way) for way in ways)
            elif any(memory == memory_of(way) for way in ways):
                self._doubtful[memory_of(merged)] = merged
        copy = self._copies.get(memory)
        if copy is not None:
            copy.whole.index_copy_(copy.axis, copy.place, copy.tensor.unsqueeze(copy.axis))
            copy.version = copy.whole._version
            self.wrote(copy.whole)

    def doubt(self, value: torch.Tensor, ways: list[torch.Tensor]) -> None:
        """Note that a value may share the memory of others, by the branch that was taken."""
        self._merged.append((value, ways))

    def is_copied_of(self, tensor: torch.Tensor, whole: torch.Tensor) -> bool:
        """Whether a tensor is a copy of an item of another."""
        copy = self._copies.get(memory_of(tensor))
        return copy is not None and (shares_memory(copy.whole, whole) or self.is_copied_of(copy.whole, whole))


MEMORY = Memory()
"""The memory of the program that is being run; programs run one at a time."""
