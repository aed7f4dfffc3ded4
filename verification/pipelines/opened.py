"""A pipeline that is ready to be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Opened:
    """A pipeline, ready to be read.

    Attributes:
        kind: the class of object that the user's function gives.
        batches: yields a batch as a person's code gets it.
        batched: whether axis 0 of a batch counts samples.
        samples: number of samples; None for unknown.
        batch_count: number of batches; None for unknown.
        settings: batch size, and so on.
        chains: numbers of taps in the order of their stages.
        notes: changes that were made for the reading, or could not be.
    """

    kind: str
    batches: Iterable[Any]
    batched: bool = True
    samples: int | None = None
    batch_count: int | None = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    chains: list[list[int]] = field(default_factory=list[list[int]])
    notes: list[str] = field(default_factory=list[str])
