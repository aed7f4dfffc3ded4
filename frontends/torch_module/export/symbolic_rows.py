"""`list` of a tensor whose first size is symbolic: as many rows as there are, which can be joined again."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from .symbolic_builtins import StandIn

if TYPE_CHECKING:
    from torch import Tensor


class Rows(builtins.list):
    """The rows of a tensor for `torch.cat` and `torch.stack`; whatever else wants them fails.

    Attributes:
        whole: the tensor.
    """

    def __init__(self, whole: Tensor) -> None:
        super().__init__([_Every(whole)])
        self.whole = whole

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError("the rows of a symbolic size cannot be counted")

    def __len__(self) -> int:
        raise TypeError("the rows of a symbolic size cannot be counted")

    __getitem__: Any = __iter__


class _Every:
    """Stands for all rows where torch is given them."""

    def __init__(self, whole: Tensor) -> None:
        self.whole = whole

    def __torch_function__(
        self, function: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Tensor:
        import torch

        given = {**dict(zip(("tensors", "dim"), args, strict=False)), **(kwargs or {})}
        known = given.get("dim", 0) == 0 and given.keys() <= {"tensors", "dim"}
        if known and function is torch.cat and self.whole.dim() > 1:
            return self.whole.flatten(0, 1)
        if known and function is torch.stack:
            return self.whole
        raise TypeError(f"{function} of the rows of a symbolic size")


class _List(StandIn):
    standard = builtins.list

    def __call__(self, *args: Any) -> Any:
        import torch

        of = args[0] if args and isinstance(args[0], torch.Tensor) and args[0].dim() else None
        return builtins.list(*args) if of is None or isinstance(of.shape[0], int) else Rows(of)


class Listed(builtins.list, metaclass=_List):
    """`list`, but of a tensor of a symbolic size its rows."""
