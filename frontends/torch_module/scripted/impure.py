"""The error of branches and loops on data that are no functions of tensors."""

from __future__ import annotations


class ImpureError(Exception):
    """A body does something that no function of tensors does.

    Args:
        reason: what.
        hint: what to write in its place, where that is not what `refusal` says.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint
