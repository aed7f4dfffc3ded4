"""The explanation of a difference of two pipelines' values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """An explanation of the difference of two arrays.

    Attributes:
        message: what differs.
        advice: what to do in the second pipeline.
    """

    message: str
    advice: str
