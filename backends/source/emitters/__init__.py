"""Emitters of what Python itself writes, the same in every dialect."""

from ..emitting import EmitterTable
from . import arithmetic, shapes, structural

PYTHON = EmitterTable.merge(arithmetic.TABLE, shapes.TABLE, structural.TABLE)
"""Arithmetic, comparisons, shapes, and what the classes around write."""
