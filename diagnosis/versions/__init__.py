"""Uses that a release of MindSpore removes, changes or marks for removal, by one table of facts."""

from __future__ import annotations

from .facts import SOURCES, VERSIONS, Fact, facts
from .uses import CODES, Use, find_uses, release_of

__all__ = ["CODES", "SOURCES", "VERSIONS", "Fact", "Use", "facts", "find_uses", "release_of"]
