"""The ONNX backend's own passes, which prepare a graph to be written."""

from __future__ import annotations

from ....passes.base import Pass
from ...legalise import Legalise
from ...write_out_double_convolutions import WriteOutDoubleConvolutions
from .count_from_zero import CountFromZero
from .fold_output_padding import FoldOutputPadding
from .name_pad_axes import NamePadAxes
from .separate_pads_from_pools import SeparatePadsFromPools
from .turn_weights import TurnWeights

EXPRESSING: tuple[Pass, ...] = (
    Legalise("ONNX", lambda _, operator: operator.domain == ""),
    WriteOutDoubleConvolutions(),
    CountFromZero(),
    FoldOutputPadding(),
    NamePadAxes(),
    SeparatePadsFromPools(),
)
"""Passes that a graph needs to be an ONNX model."""

LOWERING: tuple[Pass, ...] = (
    *EXPRESSING,
    TurnWeights(),  # last: whether every use transposes is known now
)
"""Passes that a graph needs to be an ONNX file; `regraft passes --to onnx` lists them."""


def lowering_besides(names: frozenset[str]) -> tuple[Pass, ...]:
    """Return the passes of a file that leaves some parameters as they are."""
    return (*EXPRESSING, TurnWeights(names))
