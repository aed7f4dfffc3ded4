"""What a net under debugging tells and checks: left out with a note, or kept in MindSpore source."""

from __future__ import annotations

from .left_out import Debugging, is_keeping, keeping
from .telling import KINDS, Telling

__all__ = ["KINDS", "Debugging", "Telling", "is_keeping", "keeping"]
