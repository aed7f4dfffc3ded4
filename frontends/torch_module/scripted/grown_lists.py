"""Lists that a loop on data makes longer by a tensor in each turn: rows of one tensor, as many as turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....ir import UnsupportedError
from .impure import ImpureError

ADVICE = (
    "make a tensor before the loop, `out = torch.zeros(most, 4)`, and write `out[i] = x` in place of "
    "`out.append(x)`; or export the Python module"
)
"""Hint for a list that grows in another way."""


@dataclass(frozen=True, slots=True)
class Rows:
    """In a list: as many tensors as a tensor has rows.

    Attributes:
        tensor: the rows.
        count: how many, a number of data.
    """

    tensor: Any
    count: Any


@dataclass(slots=True)
class Growing:
    """Stands for a list in a turn that makes it longer and does not read it.

    Attributes:
        items: what the turn appends.
    """

    items: list[Any] = field(default_factory=list)

    def __getitem__(self, _: Any) -> Any:
        raise _reads()

    def __len__(self) -> int:
        raise _reads()

    def __bool__(self) -> bool:
        return True


class Watched(list[Any]):
    """A list that a turn makes longer when it is tried."""


def _reads() -> Exception:
    return ImpureError("it reads a list that it makes longer", ADVICE)


def of_lists(name: str, arguments: list[Any], keywords: Mapping[str, Any], call: Callable[..., Any]) -> Any:
    """Return what an operator makes of lists that grow or grew; NotImplemented where none is one.

    Args:
        name: of the operator.
        arguments: by position.
        keywords: by name.
        call: calls an operator of torch, as `call_operator` does.
    """
    if any(isinstance(a, Growing) for a in arguments):
        held = arguments[0]
        if not isinstance(held, Growing) or name not in ("append", "add_", "extend"):
            raise _reads()
        held.items.extend([arguments[1]] if name == "append" else arguments[1])
        return held
    if not any(type(a) is list and any(isinstance(item, Rows) for item in a) for a in arguments):
        return NotImplemented
    items = arguments[0]
    if name in ("append", "add_", "extend"):
        return NotImplemented
    if name == "len":
        counts = [item.count if isinstance(item, Rows) else 1 for item in items]
        total = counts[0]
        for count in counts[1:]:
            total = call("aten", "add", [total, count], {})
        return total
    if name not in ("stack", "cat", "concat"):
        raise refused(f"`{name}`")
    axis = arguments[1] if len(arguments) > 1 else keywords.get("dim", 0)
    parts = [_joined(item, axis, stacked=name == "stack", call=call) for item in items]
    return parts[0] if len(parts) == 1 else call("aten", "cat", [parts, axis], {})


def _joined(item: Any, axis: int, *, stacked: bool, call: Callable[..., Any]) -> Any:
    """Return what an item gives a `stack` or `cat`."""
    if not isinstance(item, Rows):
        return call("aten", "unsqueeze", [item, axis], {}) if stacked else item
    rank = item.tensor.dim() - (not stacked)
    at = axis % rank
    moved = call("aten", "movedim", [item.tensor, 0, at], {})
    return moved if stacked else call("aten", "flatten", [moved, at, at + 1], {})


def refused(reader: str) -> UnsupportedError:
    """Return the error of a reader of a list that is as long as data say."""
    return UnsupportedError(
        "E203",
        f"expected `torch.stack`, `torch.cat` or `len` of a list that a loop on data made, got {reader}",
        hint=ADVICE,
    )
