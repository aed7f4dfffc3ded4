"""The result of comparing a decoder's steps: how many, what fed them, the first that differs, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps that were compared.

    Attributes:
        count: number of tokens.
        caches: input -> the output that feeds it in the step after, of the side that was stepped.
        roles: what feeds each other input of that side.
        passes: the sides of which one pass over all tokens was compared, ``["source", "target"]``.
        stepped: the sides that were stepped.
        first: the first step that differs, from 1; None where all are equal.
        which: the side whose steps differ there; empty where all are equal.
        causes: lines that say where and why.
        unmoved: inputs of caches whose values move no output, so that nothing proves them.
    """

    count: int
    caches: Mapping[str, str]
    roles: Mapping[str, str]
    passes: Sequence[str]
    stepped: Sequence[str]
    first: int | None = None
    which: str = ""
    causes: Sequence[str] = field(default_factory=list[str])
    unmoved: Sequence[str] = field(default_factory=list[str])

    @property
    def scope(self) -> str:
        """Name the equal runs, as the first line says it."""
        steps = f"in {self.count} steps with a cache"
        return f"{steps} and in one pass" if self.passes else f"{steps}, without one pass to compare with"

    def differences(self) -> str:
        """Name the first step that differs, as the first line says it; empty where all are equal."""
        if self.first is None:
            return ""
        return f"step {self.first} of {self.count}"
