"""Compares two input pipelines: counts, order, fields, values, and the first transform that differs."""

from __future__ import annotations

from .comparing import compare_pipelines
from .result import DataReport, Finding

__all__ = ["DataReport", "Finding", "compare_pipelines"]
