"""Averaged weights in train.py."""

from __future__ import annotations

from ....ir import BackendError
from ....ir.recipe import Recipe


def require_decay(recipe: Recipe) -> None:
    """Refuse averages whose decay is not known."""
    decay = recipe.options["averaged weights"]
    if decay is not None and not (isinstance(decay, (int, float)) and 0 <= decay < 1):
        raise BackendError(
            "E602",
            f"expected the decay of averaged weights, a number from 0 to 1, got {decay}",
            place=recipe.reference,
            hint='give `"ema": 0.999`: averages that start as the weights and follow them after every step',
        )
