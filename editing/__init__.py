"""Edits in the user's own file, with LibCST: comments and formatting stay as they are."""

from __future__ import annotations

from .edits import Edit, edited

__all__ = ["Edit", "edited"]
