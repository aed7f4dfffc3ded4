"""Emits a graph as an MXNet 1.9 symbol: ``<name>-symbol.json`` and ``<name>-0000.params``."""

from __future__ import annotations

from .writing import LOWERING, write

__all__ = ["LOWERING", "write"]
