"""What regraft says, in the languages that it has a catalogue of."""

from __future__ import annotations

from .catalogue import Catalogue, catalogue, read_po, say, say_lines, width_of

__all__ = ["Catalogue", "catalogue", "read_po", "say", "say_lines", "width_of"]
