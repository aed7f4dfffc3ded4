"""Losses that give several parts, in a dict or a tuple, which the training loop weighs and adds up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import ModelError


def total_of(found: Any, weights: Any, reference: str) -> Any:
    """Return the number that a loop trains on: the loss itself, or its parts times their weights, added up.

    Args:
        found: what the loss gave: a tensor, or a dict, list or tuple of tensors.
        weights: a number for each part, by key or in order; None where the recipe states none. A part with
            weight 0 is left out, whatever it is.
        reference: where the recipe is.

    Raises:
        ModelError: E704 when there are parts and no weights, or these do not fit.
    """
    if not isinstance(found, (Mapping, list, tuple)):
        if weights is not None:
            raise ModelError(
                "E704",
                "expected a loss of several parts for `loss_weights`, got one that gives one tensor",
                place=reference,
                hint="leave `loss_weights` out, or multiply in the loss",
            )
        return found
    parts = _by_key(found)
    given = {} if weights is None else _by_key(weights)
    if list(map(str, sorted(parts, key=str))) != list(map(str, sorted(given, key=str))):
        raise ModelError(
            "E704",
            f"expected `loss_weights` of the parts that the loss gives ({_listed(parts)}), got "
            f"{_listed(given) or 'none'}",
            place=reference,
            hint="the recipe states what the loop multiplies each part by: 1 for one that it adds as it is, "
            "0 for one that it only logs",
        )
    terms = [parts[key] * float(weight) for key, weight in given.items() if weight]
    if not terms:
        raise ModelError(
            "E704",
            "expected a weight above 0 in `loss_weights`, got zeros",
            place=reference,
            hint="a loop trains on the parts that it adds up",
        )
    return sum(terms[1:], terms[0])


def added_parts(found: Any, weights: Any) -> Any:
    """Return the parts of a loss that a loop adds up, those of a dict in the order of their keys."""
    if weights is None or not isinstance(found, (Mapping, list, tuple)):
        return found
    parts, given = _by_key(found), _by_key(weights)
    return [parts[key] for key in sorted(parts, key=str) if given.get(key)]


def weights_text(weights: Any) -> str:
    """Return the weights of a loss's parts as the recipe states them; empty for none."""
    if weights is None:
        return ""
    by_key = {key: float(weight) for key, weight in _by_key(weights).items()}
    if isinstance(weights, Mapping):
        return (
            "{" + ", ".join(f'"{key}": {weight:g}' for key, weight in sorted(by_key.items(), key=str)) + "}"
        )
    return "[" + ", ".join(f"{weight:g}" for weight in by_key.values()) + "]"


def _by_key(parts: Any) -> dict[Any, Any]:
    """Return parts by key; those of a list or tuple by their place."""
    return dict(parts) if isinstance(parts, Mapping) else dict(enumerate(parts))


def _listed(parts: Mapping[Any, Any]) -> str:
    return ", ".join(f"`{key}`" for key in parts)
