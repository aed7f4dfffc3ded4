"""Operators of archives that older versions of torch wrote, as they computed then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir import UnsupportedError
from .numbers import DataNumber, NumberTensor

_TRUE_DIVISION, TYPES_OF_FILLS = 4, 5
"""Versions of the format since which integers divide to floats, and fills decide element types."""

Arguments = tuple[list[Any], dict[str, Any]]


def as_written(version: int, name: str, given: Sequence[Any], keywords: dict[str, Any]) -> Arguments:
    """Return arguments by which torch's operator of today computes what it did.

    Args:
        version: the archive's.
        name: the operator's.
        given: its arguments.
        keywords: those by name.

    Raises:
        UnsupportedError: E203 for a form whose old result is unknown.
    """
    now = list(given)
    if name in ("div", "div_") and version < _TRUE_DIVISION and keywords.get("rounding_mode") is None:
        return _divided(now, keywords)
    if name == "full" and version < TYPES_OF_FILLS and keywords.get("dtype") is None:
        if not isinstance(now[1], (int, float)):
            raise _refused(name)
        now[1] = float(now[1])
    return now, keywords


def _divided(given: list[Any], keywords: dict[str, Any]) -> Arguments:
    import torch

    operands = given[:2]
    if any(isinstance(operand, NumberTensor) for operand in operands):
        raise _refused("div")
    if not any(isinstance(operand, torch.Tensor) for operand in operands):
        return given, keywords  # numbers, whose quotient was a float then too
    return given, (keywords | {"rounding_mode": "trunc"} if all(map(_is_whole, operands)) else keywords)


def _is_whole(operand: Any) -> bool:
    import torch

    if isinstance(operand, torch.Tensor):
        return not (operand.is_floating_point() or operand.is_complex())
    return issubclass(operand.kind, int) if isinstance(operand, DataNumber) else isinstance(operand, int)


def _refused(name: str) -> UnsupportedError:
    return UnsupportedError(
        "E203",
        f"expected another form of `{name}`, which computed something else when the archive was written",
        hint="write it anew with a later torch: torch.jit.save(torch.jit.load(FILE), NEW)",
    )
