"""Reads ``.mindir`` files, which `mindspore.export` writes, as data, without MindSpore."""

from __future__ import annotations

from .reading import read, read_parameters, read_tree

__all__ = ["read", "read_parameters", "read_tree"]
