"""MindSpore source's own passes, which prepare a graph to be written as classes."""

from __future__ import annotations

from ...source.lowering import passes_for
from ...source.lowering.adopt_projections import AdoptProjections
from ...source.lowering.fold_prelu_slopes import FoldPreluSlopes
from ...source.lowering.index_unit_slices import IndexUnitSlices
from ...source.lowering.join_dense import JoinDense
from ...source.lowering.restore_leaky_relu import RestoreLeakyRelu
from ...source.lowering.unstack_slices import UnstackSlices
from ...source.lowering.write_out_operators import WriteOutOperators
from ...write_out_double_convolutions import WriteOutDoubleConvolutions
from ..dialect import DIALECT, can_emit
from .attention_forms import computes_alike
from .choose_precise_activations import ChoosePreciseActivations
from .fold_transposes import FoldTransposes
from .indexing.count_indices_from_front import CountIndicesFromFront
from .indexing.lower_gather_nd import LowerGatherNd
from .indexing.widen_places import WidenPlaces
from .inline_empty_parameters import InlineEmptyParameters
from .keep_rows_apart import KeepRowsApart
from .kernels.lower_conv_transpose import LowerConvTranspose
from .kernels.lower_resize import LowerResize
from .kernels.lower_roi_align import LowerRoiAlign
from .kernels.lower_unique import LowerUnique
from .write_out_attention import WriteOutAttention

LOWERING = passes_for(
    DIALECT,
    own=(
        InlineEmptyParameters(),
        FoldPreluSlopes(),
        RestoreLeakyRelu(),
        WriteOutAttention(),
        WriteOutDoubleConvolutions(),
        WriteOutOperators(can_emit),  # whose expansions are met like all others
        CountIndicesFromFront(),
        LowerGatherNd(),
        LowerResize(),
        LowerRoiAlign(),
        LowerConvTranspose(),
        LowerUnique(),
        WidenPlaces(),
        IndexUnitSlices(),
        UnstackSlices(),
        ChoosePreciseActivations(),
        JoinDense(),
        AdoptProjections(computes_alike),  # which says whether an attention that is left is one layer
    ),
    late=(
        FoldTransposes(),  # in attention as well, which is written out now
        KeepRowsApart(),
    ),
)
"""The passes in order; `regraft passes --to mindspore` lists them."""
