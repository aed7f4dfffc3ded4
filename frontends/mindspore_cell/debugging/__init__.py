"""Prints and checks of a net under debugging: left out with a note, or kept in MindSpore source."""

from __future__ import annotations

from .left_out import Debugging, is_keeping, keeping
from .prints import KINDS, KeptPrints

__all__ = ["KINDS", "Debugging", "KeptPrints", "is_keeping", "keeping"]
