"""Passes that prepare a graph to be written as Python classes, in whatever framework."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ....passes.base import Pass
from ....passes.dequantise import Dequantise
from ...expand_functions import ExpandFunctions
from ...legalise import Legalise
from ..dialect import Dialect
from ..emission import can_emit
from .call_idle_leaves import CallIdleLeaves
from .count_iterations import CountIterations
from .dissolve_calls import DissolveCalls
from .enclose_in_root_call import EncloseInRootCall
from .hoist_calls import HoistCalls
from .lower_control_flow import LowerControlFlow
from .measure_sizes import MeasureSizes
from .register_called_leaves import RegisterCalledLeaves
from .register_loose_parameters import RegisterLooseParameters
from .remove_empty_calls import RemoveEmptyCalls
from .return_size_tensors import ReturnSizeTensors
from .separate_arguments import SeparateArguments
from .separate_statistics import SeparateStatistics
from .split_shared_layers import SplitSharedLayers
from .unwrap_flatten import UnwrapFlatten
from .unwrap_recurrent import UnwrapRecurrent


def passes_for(dialect: Dialect, own: Sequence[Pass] = (), late: Sequence[Pass] = ()) -> tuple[Pass, ...]:
    """Return the passes of a source backend, in order.

    Args:
        dialect: what is written.
        own: passes of the backend that bring operators into forms which its framework has.
        late: those that need the composites of which it has none to be written out.
    """
    target, emits = f"{dialect.framework} source", partial(can_emit, dialect)
    return (
        Dequantise(limit=4096),  # weights of quantised files, which no framework has layers for
        EncloseInRootCall(),  # first: regions are registered in the module of a call
        CountIterations(),
        LowerControlFlow(),  # then operators of nested graphs are met like all others
        SeparateStatistics(),  # before a layer would be expanded for them
        ExpandFunctions(target, emits),  # into what the following ones look at
        *own,
        Legalise(target, emits, hint=dialect.missing),
        *late,
        ReturnSizeTensors(),
        RegisterLooseParameters(),
        UnwrapFlatten(),
        UnwrapRecurrent(),
        CallIdleLeaves(),
        RemoveEmptyCalls(),
        RegisterCalledLeaves(),
        SplitSharedLayers(),
        HoistCalls(dialect.names, dialect.keeps),
        MeasureSizes(),
        DissolveCalls(),  # every call is a step of its caller from here on
        SeparateArguments(),
    )
