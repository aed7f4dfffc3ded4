"""MindSpore source's own passes, which prepare a graph to be written as classes."""

from __future__ import annotations

from ....passes.base import Pass
from ....passes.dequantise import Dequantise
from ...expand_functions import ExpandFunctions
from ...legalise import Legalise
from ...write_out_double_convolutions import WriteOutDoubleConvolutions
from ..dialect import NAMES, can_emit
from .call_idle_leaves import CallIdleLeaves
from .choose_precise_activations import ChoosePreciseActivations
from .count_turns import CountTurns
from .dissolve_calls import DissolveCalls
from .enclose_in_root_call import EncloseInRootCall
from .fold_prelu_slopes import FoldPreluSlopes
from .hoist_calls import HoistCalls
from .indexing.count_indices_from_front import CountIndicesFromFront
from .indexing.index_unit_slices import IndexUnitSlices
from .indexing.lower_gather_nd import LowerGatherNd
from .indexing.unstack_slices import UnstackSlices
from .indexing.widen_places import WidenPlaces
from .inline_empty_parameters import InlineEmptyParameters
from .keep_rows_apart import KeepRowsApart
from .kernels.lower_conv_transpose import LowerConvTranspose
from .kernels.lower_resize import LowerResize
from .kernels.lower_roi_align import LowerRoiAlign
from .kernels.lower_unique import LowerUnique
from .lower_control_flow import LowerControlFlow
from .measure_sizes import MeasureSizes
from .products.adopt_projections import AdoptProjections
from .products.fold_transposes import FoldTransposes
from .products.join_dense import JoinDense
from .register_called_leaves import RegisterCalledLeaves
from .register_loose_parameters import RegisterLooseParameters
from .remove_empty_calls import RemoveEmptyCalls
from .restore_leaky_relu import RestoreLeakyRelu
from .return_size_tensors import ReturnSizeTensors
from .separate_arguments import SeparateArguments
from .separate_statistics import SeparateStatistics
from .split_shared_layers import SplitSharedLayers
from .unwrap_flatten import UnwrapFlatten
from .unwrap_recurrent import UnwrapRecurrent
from .write_out_attention import WriteOutAttention
from .write_out_operators import WriteOutOperators

LOWERING: tuple[Pass, ...] = (
    Dequantise(limit=4096),  # weights of quantised files, which MindSpore has no layers for
    EncloseInRootCall(),  # first: regions are registered in the module of a call
    CountTurns(),
    LowerControlFlow(),  # then operators of nested graphs are met like all others
    SeparateStatistics(),  # before a layer would be expanded for them
    ExpandFunctions("MindSpore source", can_emit),  # into what the following ones look at
    InlineEmptyParameters(),
    FoldPreluSlopes(),
    RestoreLeakyRelu(),
    WriteOutAttention(),
    WriteOutDoubleConvolutions(),
    WriteOutOperators(),  # whose expansions are met like all others
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
    AdoptProjections(),  # which says whether an attention that is left is one layer
    Legalise(
        "MindSpore source",
        can_emit,
        hint="`--partial` writes the rest, and leaves these to be written by hand; `--to onnx` may have them",
    ),
    FoldTransposes(),  # in attention as well, which is written out now
    ReturnSizeTensors(),
    KeepRowsApart(),
    RegisterLooseParameters(),
    UnwrapFlatten(),
    UnwrapRecurrent(),
    CallIdleLeaves(),
    RemoveEmptyCalls(),
    RegisterCalledLeaves(),
    SplitSharedLayers(),
    HoistCalls(NAMES),
    MeasureSizes(),
    DissolveCalls(),  # every call is a step of its caller from here on
    SeparateArguments(),
)
"""The passes in order; `regraft passes --to mindspore` lists them."""
