"""PyTorch source's own passes, which prepare a graph to be written as classes."""

from __future__ import annotations

from ...source.lowering import passes_for
from ...source.lowering.adopt_projections import AdoptProjections
from ...source.lowering.drop_reduced_axes import DropReducedAxes
from ...source.lowering.fold_prelu_slopes import FoldPreluSlopes
from ...source.lowering.index_unit_slices import IndexUnitSlices
from ...source.lowering.join_dense import JoinDense
from ...source.lowering.restore_hard_swish import RestoreHardSwish
from ...source.lowering.restore_leaky_relu import RestoreLeakyRelu
from ...source.lowering.restore_swish import RestoreSwish
from ...source.lowering.unstack_slices import UnstackSlices
from ...source.lowering.write_out_operators import WriteOutOperators
from ..dialect import DIALECT, can_emit
from .restore_recurrent import RestoreRecurrent
from .separate_indices import SeparateIndices
from .separate_pads import SeparatePads
from .widen_unsigned import WidenUnsigned
from .write_upcasts import WriteUpcasts

LOWERING = passes_for(
    DIALECT,
    own=(
        WriteUpcasts(),  # while operators are those of the source
        FoldPreluSlopes(),
        RestoreLeakyRelu(),
        RestoreHardSwish(),
        RestoreSwish(),
        DropReducedAxes(),
        RestoreRecurrent(),
        WriteOutOperators(can_emit),  # whose expansions are met like all others
        WidenUnsigned(),
        SeparatePads(),
        SeparateIndices(),
        IndexUnitSlices(),
        UnstackSlices(),
        JoinDense(),
        AdoptProjections(),
    ),
)
"""The passes in order; `regraft passes --to torch` lists them."""
