"""Composites: what frameworks have as one layer and ONNX only as several operators.

A composite is a signature, a typing rule and an expansion into ONNX operators. A backend that knows it emits
it whole; every other backend gets the expansion. One file per family, each with its own table.
"""

from __future__ import annotations

from ..declarations import declare_domain, find_declaration
from ..signatures import DOMAIN
from ..table import Table
from .activation import TABLE as ACTIVATION
from .attention import TABLE as ATTENTION
from .base import Composite, CompositeTable
from .bessel import TABLE as BESSEL
from .distance import TABLE as DISTANCE
from .dropout import TABLE as DROPOUT
from .eigenvalues import TABLE as EIGENVALUES
from .elimination import TABLE as ELIMINATION
from .fourier import TABLE as FOURIER
from .indexing import TABLE as INDEXING
from .linear import TABLE as LINEAR
from .loss import TABLE as LOSS
from .multihead import TABLE as MULTIHEAD
from .polynomial import TABLE as POLYNOMIAL
from .pool import TABLE as POOL
from .recurrent import TABLE as RECURRENT
from .reflections import TABLE as REFLECTIONS
from .scan import TABLE as SCAN
from .selection import TABLE as SELECTION
from .special import TABLE as SPECIAL
from .stub import TABLE as STUB
from .triangular import TABLE as TRIANGULAR

COMPOSITES: Table[Composite] = Table(
    ACTIVATION,
    ATTENTION,
    BESSEL,
    DISTANCE,
    DROPOUT,
    FOURIER,
    INDEXING,
    LINEAR,
    LOSS,
    MULTIHEAD,
    POLYNOMIAL,
    POOL,
    RECURRENT,
    SCAN,
    SPECIAL,
    EIGENVALUES,
    ELIMINATION,
    REFLECTIONS,
    SELECTION,
    TRIANGULAR,
    STUB,
)
"""Every composite by name."""


def composite(name: str) -> Composite:
    """Return the composite of that name.

    Raises:
        InvalidGraphError: when there is none.
    """
    found = find_declaration(name)
    assert isinstance(found, Composite)
    return found


declare_domain(DOMAIN, lambda: COMPOSITES)

__all__ = ["COMPOSITES", "Composite", "CompositeTable", "composite"]
