"""Emitters of what Python itself writes, the same in every dialect."""

from ..emitting import EmitterTable
from . import arithmetic, shapes, structural, stubs

PYTHON = EmitterTable.merge(arithmetic.TABLE, shapes.TABLE, structural.TABLE, stubs.TABLE)
"""Arithmetic, comparisons, shapes, stubs, and what the classes around write."""
