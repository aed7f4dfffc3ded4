"""The messages of regraft, in the languages of its catalogues."""

from __future__ import annotations

from .catalogue import Catalogue, catalogue, read_po, say, say_lines, width_of

__all__ = ["Catalogue", "catalogue", "read_po", "say", "say_lines", "width_of"]
