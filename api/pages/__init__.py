"""Pages to look at: one HTML file each, which holds all that it needs and reaches for nothing."""

from __future__ import annotations

from .page import LANGUAGES, write_page

__all__ = ["LANGUAGES", "write_page"]
