"""Packed sequences in source text of TorchScript: padded ones beside their lengths, as of a live module.

How many steps a packed sequence has is data, which no trace follows; see `expansions.packed_sequences`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....ir import UnsupportedError
from .numbers import DataNumber, NumberTensor, tensors_of_numbers

if TYPE_CHECKING:
    from ..expansions.packed_sequences import Padded

_RECURRENT = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN_TANH", "rnn_relu": "RNN_RELU"}


class Packed:
    """A part of a packed sequence, as the program takes it.

    Args:
        sequences: all of it.

    Attributes:
        dtype, device: of the sequences.
    """

    def __init__(self, sequences: Padded) -> None:
        self.sequences = sequences
        self.dtype, self.device = sequences.padded.dtype, sequences.padded.device


class PackedSteps(Packed):
    """The steps of all sequences behind each other."""


class PackedSizes(Packed):
    """The number of sequences at every step."""


@dataclass(frozen=True, slots=True)
class _LongestOf(DataNumber):
    """The number of steps that the longest of packed sequences has.

    Attributes:
        room: the steps that their tensor has.
    """

    room: Any = None


def of_packed(name: str, arguments: list[Any]) -> Any:
    """Return what an operator of ``aten`` or ``prim`` makes of packed sequences; NotImplemented for others.

    Raises:
        UnsupportedError: where it computes with their steps.
    """
    if name == "_pack_padded_sequence":
        return _pack(*map(tensors_of_numbers, arguments))
    if name == "lt" and len(arguments) == 2 and isinstance(arguments[1], _LongestOf):
        return False if _covers(arguments[0], arguments[1].room) else NotImplemented
    held = [value for value in arguments if isinstance(value, Packed)]
    if not held:
        return NotImplemented
    first, sequences = arguments[0], held[0].sequences
    if name in ("__is__", "__isnot__", "dtype", "device"):
        return NotImplemented
    if name in _RECURRENT and len(held) == 2:
        return _recurrent(_RECURRENT[name], sequences, *arguments[2:])
    if name == "_pad_packed_sequence" and len(held) == 2:
        return _pad(sequences, *arguments[2:])
    if isinstance(first, PackedSteps) and name == "dim":
        return sequences.padded.dim() - 1
    if isinstance(first, PackedSteps) and name == "size" and arguments[1:] in ([-1], [1]):
        return sequences.padded.shape[-1]
    if isinstance(first, PackedSizes) and name == "select" and arguments[1:] == [0, 0]:
        return NumberTensor(sequences.lengths.shape[0])
    if isinstance(first, PackedSizes) and name == "size" and arguments[1:] == [0]:
        return _LongestOf(sequences.lengths.max(), int, room=sequences.padded.shape[sequences.batch_first])
    raise UnsupportedError(
        "E203",
        f"the program computes `{name}` of the steps of a packed sequence, whose number is data",
        hint="pad the sequence before that line: `pad_packed_sequence`",
    )


def _covers(length: Any, room: Any) -> bool:
    """Whether a length has room for the longest of the sequences, whatever they are."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return not isinstance(length, DataNumber) and statically_known_true(length >= room)


def _pack(sequences: Any, lengths: Any, batch_first: bool) -> Any:
    from torch._subclasses.fake_tensor import is_fake

    from ..expansions.packed_sequences import define_operator, pack

    if not is_fake(sequences):
        return NotImplemented
    define_operator()
    found = pack(sequences, lengths, batch_first)
    return PackedSteps(found), PackedSizes(found)


def _recurrent(
    kind: str,
    sequences: Padded,
    states: Any,
    weights: list[Any],
    has_biases: bool,
    layers: int,
    dropout: float,
    _: bool,
    bidirectional: bool,
) -> tuple[Any, ...]:
    import torch

    from ..expansions.packed_sequences import Padded

    given = list(states) if isinstance(states, (list, tuple)) else [states]
    for state in given:
        torch._check(state.shape[1] == sequences.lengths.shape[0])
    settings = (kind, has_biases, layers, dropout, bidirectional, sequences.batch_first)
    found = torch.ops.regraft.recurrent_of_lengths(
        sequences.padded, sequences.lengths, given, weights, *settings
    )
    return PackedSteps(Padded(found[0], sequences.lengths, sequences.batch_first)), *found[1:]


def _pad(sequences: Padded, batch_first: bool, value: float, length: Any) -> tuple[Any, Any]:
    from ..expansions.packed_sequences import pad

    return pad(sequences, batch_first, value, None if isinstance(length, _LongestOf) else length)
