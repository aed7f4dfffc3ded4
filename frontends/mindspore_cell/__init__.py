"""Reads MindSpore Cells: the Cell tree, one recorded PyNative run, and the MindIR that MindSpore compiles."""

from __future__ import annotations

from .reading import read, read_tree

__all__ = ["read", "read_tree"]
