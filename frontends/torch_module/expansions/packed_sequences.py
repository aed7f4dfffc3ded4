"""Packed sequences as padded ones beside their lengths: a recurrent layer of them is one operator.

torch packs the steps of all sequences by how many sequences reach them, in shapes that depend on data, which
no export follows. While a module is captured, packing keeps what it is given, recurrent layers take lengths,
and padding hides what lies beyond them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torch.nn.utils.rnn import PackedSequence

from ..export.patches import patched

if TYPE_CHECKING:
    import torch

_SCHEMA = (
    "recurrent_of_lengths(Tensor x, Tensor lengths, Tensor[] hx, Tensor[] params, str kind, "
    "bool has_biases, int num_layers, float dropout, bool bidirectional, bool batch_first) -> Tensor[]"
)


class Padded(PackedSequence):
    """A packed sequence that was not packed.

    Attributes:
        padded: the sequences, padded to one length.
        lengths: how long each is.
        batch_first: whether their axis comes before that of the steps.
    """

    padded: torch.Tensor
    lengths: torch.Tensor
    batch_first: bool

    def __new__(cls, padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Padded:
        """Make one of padded sequences."""
        made = tuple.__new__(cls, (padded, lengths, None, None))
        made.padded, made.lengths, made.batch_first = padded, lengths, batch_first
        return made


def _refuse_steps(_: Padded) -> None:
    raise RuntimeError("the number of steps of a packed sequence is data")  # which the caller explains


for _name in PackedSequence._fields:  # the steps of all sequences behind each other, which packing alone has
    setattr(Padded, _name, property(_refuse_steps))


@contextmanager
def sequences_padded() -> Iterator[None]:
    """Keep sequences padded that code packs inside."""
    import torch

    define_operator()
    lstm, gru, rnn = (_forward(kind.forward) for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN))
    with (
        patched("torch.nn:LSTM", forward=lstm),
        patched("torch.nn:GRU", forward=gru),
        patched("torch.nn:RNN", forward=rnn),
        patched("torch.nn.utils.rnn", _VF=SimpleNamespace(pack=pack, pad=pad)),
        # the code of the functions, which other modules may have imported by name
        patched("torch.nn.utils.rnn:pack_padded_sequence", __code__=_pack.__code__),
        patched("torch.nn.utils.rnn:pad_packed_sequence", __code__=_pad.__code__),
    ):
        yield


_VF: Any = None
"""In torch's module, whose functions get the code of those below, what is patched there."""


def _pack(
    input: Any,  # noqa: A002 - as torch calls it
    lengths: Any,
    batch_first: Any = False,
    enforce_sorted: Any = True,
) -> Any:
    del enforce_sorted  # each sequence is as long as it is, in any order
    return _VF.pack(input, lengths, batch_first)


def _pad(sequence: Any, batch_first: Any = False, padding_value: Any = 0.0, total_length: Any = None) -> Any:
    return _VF.pad(sequence, batch_first, padding_value, total_length)


def pack(sequences: torch.Tensor, lengths: Any, batch_first: bool) -> Padded:
    """Return padded sequences with their lengths."""
    import torch

    lengths = torch.as_tensor(lengths, dtype=torch.int64)
    torch._check(lengths.shape[0] == sequences.shape[0 if batch_first else 1])
    return Padded(sequences, lengths, batch_first)


def pad(
    packed: Padded, batch_first: bool, value: float, total_length: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded sequences, and the lengths: as many steps as the longest has, or as stated."""
    import torch

    found, lengths = packed.padded, packed.lengths
    found = found if packed.batch_first else found.transpose(0, 1)
    longest = found.shape[1]
    if value:
        kept = torch.arange(longest) < lengths.unsqueeze(1)
        found = torch.where(kept.reshape(*kept.shape, *[1] * (found.dim() - 2)), found, value)
    if total_length is None:
        steps: Any = lengths.max().item()
        torch._check(steps >= 0)
        torch._check(steps <= longest)
        found = found.narrow(1, 0, steps)
    elif total_length is not longest and total_length != longest:
        room = [0, 0] * (found.dim() - 2) + [0, total_length - longest]
        found = torch.nn.functional.pad(found, room, value=value)
    return found if batch_first else found.transpose(0, 1), lengths


def _forward(original: Any) -> Any:
    """Return the forward of a recurrent layer, which takes padded sequences too."""

    def forward(self: Any, input: Any, hx: Any = None) -> Any:  # noqa: A002 - as torch calls it
        if not isinstance(input, Padded):
            return original(self, input, hx)
        return _run_layer(self, input, hx)

    return forward


def _run_layer(layer: Any, packed: Padded, hx: Any) -> tuple[Padded, Any]:
    import torch

    x = packed.padded
    rows, batch = layer.num_layers * (2 if layer.bidirectional else 1), packed.lengths.shape[0]
    is_lstm = layer.mode == "LSTM"
    if hx is None:
        widths = [layer.proj_size or layer.hidden_size, layer.hidden_size][: 1 + is_lstm]
        states = [torch.zeros(rows, batch, width, dtype=x.dtype) for width in widths]
    else:
        states = list(hx) if is_lstm else [hx]
        for state in states:
            torch._check(state.shape[1] == batch)
    found = torch.ops.regraft.recurrent_of_lengths(
        x,
        packed.lengths,
        states,
        layer._flat_weights,
        layer.mode,
        layer.bias,
        layer.num_layers,
        layer.dropout,
        layer.bidirectional,
        packed.batch_first,
    )
    return Padded(found[0], packed.lengths, packed.batch_first), tuple(found[1:]) if is_lstm else found[1]


@cache
def define_operator() -> object:
    """Define the operator, once in a process; the library lives as long as it is held."""
    import torch

    library = torch.library.Library("regraft", "FRAGMENT")
    library.define(_SCHEMA)
    torch.library.register_fake("regraft::recurrent_of_lengths", _shapes, lib=library)
    library.impl("recurrent_of_lengths", _computed, "CPU")
    return library


def _shapes(
    x: torch.Tensor,
    lengths: torch.Tensor,
    hx: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    kind: str,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    batch_first: bool,
) -> list[torch.Tensor]:
    del lengths, params, kind, has_biases, num_layers, dropout, batch_first
    width = hx[0].shape[-1] * (2 if bidirectional else 1)
    return [x.new_empty([*x.shape[:2], width]), *(state.new_empty(state.shape) for state in hx)]


def _computed(
    x: torch.Tensor,
    lengths: torch.Tensor,
    hx: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    kind: str,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    batch_first: bool,
) -> list[torch.Tensor]:
    """Compute it as torch does: packed by length, and padded again."""
    import torch

    functions: Any = torch._VF
    lengths, order = torch.sort(lengths, descending=True)
    back = torch.argsort(order)
    axis, steps = (0, x.shape[1]) if batch_first else (1, x.shape[0])
    data, sizes = functions._pack_padded_sequence(x.index_select(axis, order), lengths, batch_first)
    states = [state.index_select(1, order) for state in hx]
    function = {"LSTM": functions.lstm, "GRU": functions.gru}.get(kind) or getattr(functions, kind.lower())
    given = states if kind == "LSTM" else states[0]
    found = function(data, sizes, given, list(params), has_biases, num_layers, dropout, False, bidirectional)
    y, _ = functions._pad_packed_sequence(found[0], sizes, batch_first, 0.0, steps)
    return [y.index_select(axis, back).contiguous(), *(state.index_select(1, back) for state in found[1:])]
