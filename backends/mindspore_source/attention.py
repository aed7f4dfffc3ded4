"""Attention: composites are emitted as their expansion, matrix products around a softmax."""

from __future__ import annotations

from .emitting import EmitterTable

table = EmitterTable()
