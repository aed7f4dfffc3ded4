"""One planted fault: what it is, where, and how to make the target that has it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...ir import Graph

Target = Path | Graph
"""What `regraft.verify` takes as a target here."""


class NotApplicableError(Exception):
    """The fault cannot be planted there after all."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A target with one fault.

    Attributes:
        kind: what was done, in the words of the table.
        place: where, stable from run to run.
        build: makes the target in an empty folder.
        train: whether only a training step, or what training starts from, can show it.
    """

    kind: str
    place: str
    build: Callable[[Path], Target]
    train: bool = False

    @property
    def name(self) -> str:
        """Kind and place, which no other mutant of the target has."""
        return f"{self.kind} | {self.place}"


def sampled(mutants: Iterable[Mutant], each: int, seed: str) -> list[Mutant]:
    """At most `each` mutants of every kind, the same ones whenever kinds and places are the same.

    Chosen by a hash of each mutant's own name, so that a mutant more or less moves no other.
    """
    kinds: dict[str, dict[str, Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, {}).setdefault(mutant.name, mutant)
    chosen: list[Mutant] = []
    for kind in sorted(kinds):
        ranked = sorted(kinds[kind].values(), key=lambda m: (zlib.crc32(f"{seed}|{m.name}".encode()), m.name))
        chosen += ranked[:each] if each else ranked
    return chosen


def generator(*words: str) -> np.random.Generator:
    """Random numbers that depend on words only."""
    return np.random.default_rng(zlib.crc32("|".join(words).encode()))
