"""The training scripts of two sides, as the user gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...frontends.training_script import RecipeFunction


@dataclass(frozen=True, slots=True)
class Recipes:
    """The user's recipes.

    Attributes:
        source: the source's recipe function, or ``train.py:recipe``.
        target: the target's.
        steps: how many steps are followed.
    """

    source: str | RecipeFunction
    target: str | RecipeFunction
    steps: int = 20
