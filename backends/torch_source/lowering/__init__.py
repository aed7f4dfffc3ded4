"""PyTorch source's own passes, which prepare a graph to be written as classes."""

from __future__ import annotations

from ...source.lowering import passes_for
from ...source.lowering.write_out_operators import WriteOutOperators
from ..dialect import DIALECT, can_emit

LOWERING = passes_for(
    DIALECT,
    own=(WriteOutOperators(can_emit),),  # whose expansions are met like all others
)
"""The passes in order; `regraft passes --to torch` lists them."""
