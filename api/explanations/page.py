"""The content of a page."""

from __future__ import annotations

from typing import NamedTuple


class Page(NamedTuple):
    """The explanation of a code.

    Attributes:
        cause: how it comes about.
        example: lines that show it.
        fix: what to do.
    """

    cause: str
    example: str
    fix: str
