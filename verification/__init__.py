"""Runs source and target in their own runtimes and compares outputs, module boundaries and modules alone."""

from __future__ import annotations

from .compare import Comparison, Yardstick, compare
from .recipes.scripts import Recipes
from .report import ModuleRow, OutputRow, Report, TrainingRow
from .two_nets.pair_map import read_pair_map
from .verifying import verify

__all__ = [
    "Comparison",
    "ModuleRow",
    "OutputRow",
    "Recipes",
    "Report",
    "TrainingRow",
    "Yardstick",
    "compare",
    "read_pair_map",
    "verify",
]
