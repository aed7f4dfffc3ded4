"""Edits in the user's own file, with LibCST: comments and formatting stay as they are."""

from __future__ import annotations

from .edits import Edit, apply_edits

__all__ = ["Edit", "apply_edits"]
