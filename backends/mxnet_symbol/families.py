"""Every IR operator that can be written as an MXNet symbol: the tables of the family files, merged."""

from __future__ import annotations

from .elementwise import TABLE as ELEMENTWISE
from .layers import TABLE as LAYERS
from .shape import TABLE as SHAPE
from .symbol import Emitter, EmitterTable

TABLE: dict[str, Emitter] = EmitterTable.merge(LAYERS, ELEMENTWISE, SHAPE)
"""IR operator -> emitter."""
