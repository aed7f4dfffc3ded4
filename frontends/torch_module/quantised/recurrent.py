"""torch.ao's recurrent layers whose products quantise their operands in every run, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .packed import Cell, Packed
from .stand_in import NoFormError

Product = Callable[[Tensor, Packed, bool], Tensor]


def run_layers(
    product: Product,
    kind: str,
    x: Tensor,
    states: Sequence[Tensor],
    cells: Sequence[Cell],
    *,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[Tensor]:
    """Return the outputs of all steps, and the last states of all layers.

    Args:
        product: quantises a tensor and multiplies it by packed weights.
        kind: "lstm" or "gru".
        x: the sequences.
        states: h, and c of an LSTM, of all layers.
        cells: the weights of each layer and direction.
        num_layers: number of layers.
        bidirectional: whether each layer has a second direction.
        batch_first: whether the axis of the sequences comes before that of the steps.

    The steps are written out one by one, since each has a scale of its own; the inputs of all have one.
    """
    step = _STEPS[kind]
    x = x.transpose(0, 1) if batch_first else x
    last: list[list[Tensor]] = []
    directions = 2 if bidirectional else 1
    for layer in range(num_layers):
        found: list[Tensor] = []
        for direction in range(directions):
            at = layer * directions + direction
            cell, state = cells[at], [each[at] for each in states]
            inputs = list(product(x, cell.ih, cell.reduce_range).unbind(0))
            outputs: list[Tensor] = []
            for given in reversed(inputs) if direction else inputs:
                state = step(given, product(state[0], cell.hh, cell.reduce_range), state)
                outputs.append(state[0])
            found.append(torch.stack(outputs[::-1] if direction else outputs))
            last.append(state)
        x = torch.cat(found, -1) if bidirectional else found[0]
    y = x.transpose(0, 1) if batch_first else x
    return [y, *(torch.stack(each) for each in zip(*last, strict=True))]


def step_lstm(given: Tensor, hidden: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
    """Return h and c after a step, of the gates' parts from its input and from h."""
    entry, forget, new, out = (given + hidden).chunk(4, -1)
    c = torch.sigmoid(forget) * state[1] + torch.sigmoid(entry) * torch.tanh(new)
    return [torch.sigmoid(out) * torch.tanh(c), c]


def step_gru(given: Tensor, hidden: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
    """Return h after a step."""
    inputs, own = given.chunk(3, -1), hidden.chunk(3, -1)
    reset, update = torch.sigmoid(own[0] + inputs[0]), torch.sigmoid(own[1] + inputs[1])
    new = torch.tanh(inputs[2] + own[2] * reset)
    return [(state[0] - new) * update + new]


_STEPS: dict[str, Callable[..., list[Tensor]]] = {"lstm": step_lstm, "gru": step_gru}


def define_layers(
    product: Product, functions: dict[Any, Callable[..., Any]], operators: dict[str, Callable[..., Any]]
) -> None:
    """Define torch's functions of such layers and cells in two tables."""

    def layers(kind: str) -> Callable[..., Any]:
        def called(x: Tensor, hx: Any, params: Any, *further: Any, **named: Any) -> Any:
            if not isinstance(params, (list, tuple)):
                raise NoFormError("a recurrent layer on packed sequences")
            names = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
            given = dict(zip(names, further, strict=False)) | named
            states = list(hx) if kind == "lstm" else [hx]
            form = {name: given[name] for name in ("num_layers", "bidirectional", "batch_first")}
            return tuple(run_layers(product, kind, x, states, params, **form))

        return called

    def cell(step: Callable[..., list[Tensor]]) -> Callable[..., Any]:
        def called(input: Tensor, hx: Any, w_ih: Packed, w_hh: Packed, *_: Any, **__: Any) -> Any:  # noqa: A002
            states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
            found = step(product(input, w_ih, True), product(states[0], w_hh, True), states)
            return tuple(found) if len(found) > 1 else found[0]

        return called

    functions[torch.quantized_lstm], functions[torch.quantized_gru] = layers("lstm"), layers("gru")
    operators["quantized_lstm_cell_dynamic"], operators["quantized_gru_cell_dynamic"] = (
        cell(step_lstm),
        cell(step_gru),
    )
    for name in ("tanh", "relu"):
        activation = getattr(torch, name)

        def step(
            given: Tensor, hidden: Tensor, _: Any, activation: Callable[[Tensor], Tensor] = activation
        ) -> list[Tensor]:
            return [activation(given + hidden)]

        operators[f"quantized_rnn_{name}_cell_dynamic"] = cell(step)
