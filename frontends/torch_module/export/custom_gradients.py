"""Gradients that a model writes itself, which no program shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .patches import original, patched


@contextmanager
def own_gradients() -> Iterator[list[str]]:
    """Record the names of the model's own `torch.autograd.Function`s applied in the block, each once."""
    kept = original("torch.autograd:Function", "apply")
    found: list[str] = []

    def apply(cls: type, *arguments: Any, **keywords: Any) -> Any:
        if not cls.__module__.startswith("torch.") and cls.__name__ not in found:
            found.append(cls.__name__)
        return kept.__get__(None, cls)(*arguments, **keywords)

    with patched("torch.autograd:Function", apply=classmethod(apply)):
        yield found
