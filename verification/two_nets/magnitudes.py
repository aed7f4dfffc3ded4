"""Two nets with weights of their own: how large outputs and gradients are, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..runners.runs import CallRecord, Run
from ..training.step import GradientSizes, root_mean_square
from .laws import LawRow
from .pairing import Pairing

_APART = 1.5
"""Times larger or smaller, from which on a layer is said to differ: values that are drawn differ by less."""

_ENOUGH = 16
"""Values of a weight from which on its size says something."""


@dataclass(frozen=True, slots=True)
class MagnitudeRow:
    """One layer that has weights, in the target against the source.

    Attributes:
        layer: its path in the source.
        target: its path in the target.
        outputs: how many times as large its outputs are (root mean square).
        gain: the same divided by how many times as large its inputs are: what the layer itself does.
        gradients: how many times as large its weight's gradient is; None where none was computed.
        law: its initial distribution in the target and in the source, where they differ.
        remedy: what to write in the target for that.
    """

    layer: str
    target: str
    outputs: float
    gain: float
    gradients: float | None = None
    law: str = ""
    remedy: str = ""

    @property
    def is_apart(self) -> bool:
        """Whether the layer itself makes its values larger or smaller than the source's does."""
        return bool(self.law) and not 1 / _APART < self.gain < _APART

    def lines(self) -> list[str]:
        """Its text, with what to write."""
        named = f" (`{self.target}`)" if self.target != self.layer else ""
        law = f": its initial law is {self.law}" if self.law else ""
        slope = "" if self.gradients is None else f", gradients {_times(self.gradients)}"
        entering = self.outputs / (self.gain or 1.0)
        inputs = "" if 1 / _APART < entering < _APART else f" of inputs {_times(entering)}"
        first = f"  `{self.layer}`{named}: outputs {_times(self.outputs)} in the target{inputs}{slope}{law}"
        return [first, f"    write: {self.remedy}"] if self.remedy else [first]


def _times(ratio: float) -> str:
    if not np.isfinite(ratio) or not ratio:
        return "not comparable"
    return f"{ratio:.2g} times larger" if ratio >= 1 else f"{1 / ratio:.2g} times smaller"


def compare_magnitudes(
    pairing: Pairing,
    laws: Sequence[LawRow],
    runs: tuple[Run, Run],
    gradients: tuple[GradientSizes, GradientSizes] | None,
) -> list[MagnitudeRow]:
    """One row per layer with weights that both sides called, in the source's order of calls.

    Args:
        pairing: which layer is which.
        laws: the initial distributions of both.
        runs: of source and target on equal inputs, with calls under the source's names.
        gradients: how large those of each side's parameters are; None where no step was made.
    """
    known = {row.parameter: row for row in laws if row.passed is False}
    weights: dict[str, tuple[str, str, int]] = {}
    for pair in pairing.parameters.values():
        layer, size = pair.source.rpartition(".")[0], int(np.prod(pair.shape))
        if size > weights.get(layer, ("", "", 0))[2]:
            weights[layer] = (pair.source, pair.target, size)
    rows: list[MagnitudeRow] = []
    for call, record in runs[0].calls.items():
        layer, other = call.rpartition("#")[0], runs[1].calls.get(call)
        if layer not in weights or other is None or not call.endswith("#1"):
            continue
        source, target, size = weights[layer]
        outputs, inputs = _ratio(record, other, "outputs"), _ratio(record, other, "inputs")
        if size < _ENOUGH or outputs is None:
            continue
        law = known.get(source)
        rows.append(
            MagnitudeRow(
                layer,
                target.rpartition(".")[0],
                outputs,
                outputs / (inputs or 1.0),
                None if gradients is None else _gradients(gradients, source, target),
                ""
                if law is None
                else f"{law.target_law or 'unknown'}, {law.source_law or 'unknown'} in the source",
                "" if law is None else law.remedy,
            )
        )
    return rows


def _ratio(source: CallRecord, target: CallRecord, which: str) -> float | None:
    """Return the ratio of the target's first tensor to the source's."""
    mine, theirs = getattr(source, which), getattr(target, which)
    if not mine or not theirs or mine[0].dtype.kind != "f" or theirs[0].dtype.kind != "f":
        return None
    return root_mean_square(theirs[0]) / (root_mean_square(mine[0]) or 1e-30)


def _gradients(sizes: tuple[GradientSizes, GradientSizes], source: str, target: str) -> float | None:
    mine, theirs = sizes[0].get(source), sizes[1].get(target)
    return None if mine is None or theirs is None else theirs / (mine or 1e-30)


def magnitude_lines(rows: Sequence[MagnitudeRow]) -> list[str]:
    """The layers whose own law makes their values larger or smaller, then the range of all."""
    if not rows:
        return []
    apart = [row for row in rows if row.is_apart]
    lines = [
        "",
        f"magnitudes, with the weights of each net: {len(apart)} of {len(rows)} layers differ by their law",
    ]
    for row in apart[:_SHOWN]:
        lines += row.lines()
    if len(apart) > _SHOWN:
        lines.append(f"  and {len(apart) - _SHOWN} more")
    lines.append(f"  outputs of all layers: {_range([row.outputs for row in rows])} times the source's")
    slopes = [row.gradients for row in rows if row.gradients is not None]
    if slopes:
        lines.append(f"  gradients of all layers: {_range(slopes)} times the source's")
    return lines


_SHOWN = 8


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2g} to {max(ratios):.2g}"
