"""Two training runs, a folder of checkpoints each: where they part, and how each layer moves over time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..ir import ModelError, TensorData, UsageError
from . import READABLE
from .side_by_side import Pair, lay_side_by_side

_APART = 1e-3
"""Relative distance from which weights count as apart; rounding alone stays below it for some epochs."""
_SURE = 4.0
"""Standard errors by which the spreads of two draws of one law do not differ."""
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class Layer:
    """One parameter over time, a number for each aligned checkpoint.

    Attributes:
        name: in the first run.
        other: in the second.
        size: number of elements.
        norms: of the values, in both runs.
        spreads: standard deviations of the values, in both runs.
        updates: norm of the change since the checkpoint before, in both runs; none for the first.
        gaps: distance between the runs, relative to the larger norm; infinite where one is not finite.
    """

    name: str
    other: str
    size: int
    norms: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    spreads: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    updates: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    gaps: list[float] = field(default_factory=list)

    @property
    def spread_ratio(self) -> float:
        """The ratio of the first run's spread to the second's where the runs begin."""
        first, second = self.spreads[0][0], self.spreads[1][0]
        return first / second if second else np.inf if first else 1.0

    @property
    def same_law(self) -> bool:
        """Whether the spreads where the runs begin may be those of two draws of one law."""
        return abs(np.log(max(self.spread_ratio, 1e-30))) <= _SURE / np.sqrt(max(self.size, 1))


@dataclass(slots=True)
class Runs:
    """Two runs compared.

    Attributes:
        epochs: the numbers in the files' names that both have, in both runs.
        layers: in the first file's order.
        alone: files of either run without a counterpart.
        notes: what was left out, and how the files were aligned.
    """

    epochs: list[tuple[int, int]]
    layers: list[Layer]
    alone: tuple[list[str], list[str]]
    notes: list[str]

    @property
    def parted(self) -> tuple[int, Layer] | None:
        """(place of the first checkpoint, the layer) where the runs are apart; None where they never are."""
        for at in range(len(self.epochs)):
            away = [layer for layer in self.layers if not layer.gaps[at] <= _APART]
            if away:
                return at, away[0]
        return None

    @property
    def equal(self) -> bool:
        """Whether the runs are never apart, and every checkpoint of one has a counterpart."""
        return self.parted is None and not any(self.alone)

    @property
    def verdict(self) -> str:
        """The first line of a report."""
        parted, count = self.parted, len(self.epochs)
        if parted is None:
            most = max(max(layer.gaps) for layer in self.layers)
            return f"together: {count} checkpoints, {len(self.layers)} parameters, at most {most:.1e} apart"
        at, layer = parted
        away = sum(not each.gaps[at] <= _APART for each in self.layers)
        where = (
            f"`{layer.name}` first, {layer.gaps[at]:.2g} of its norm; {away} of {len(self.layers)} parameters"
        )
        if at == 0:
            return f"APART from the first checkpoint on ({self._epoch(0)}): {where}"
        return f"PART at {self._epoch(at)}, together until {self._epoch(at - 1)}: {where}"

    def _epoch(self, at: int) -> str:
        first, second = self.epochs[at]
        return f"epoch {first}" if first == second else f"epoch {first} against {second}"

    @property
    def causes(self) -> list[str]:
        """The causes of the first difference between the runs, a line each."""
        parted = self.parted
        if parted is None:
            return []
        if parted[0] > 0:
            name = parted[1].name
            late = [layer.name for layer in self.layers if layer.gaps[parted[0]] <= _APART]
            return [
                "the start was equal: from there on data, loss, optimizer and its settings decide"
                + (f"; `{name}` is apart while {len(late)} parameters are not yet" if late else "")
            ]
        lines = [
            f"an equal start has distance 0 here; two draws of one law lie about 1.41 norms apart, with one "
            f"spread (within {_SURE:g} standard errors)"
        ]
        odd = [layer for layer in self.layers if not layer.same_law]
        odd.sort(key=lambda layer: -abs(np.log(max(layer.spread_ratio, 1e-30))))
        for layer in odd[:_LISTED]:
            one, other = layer.spreads[0][0], layer.spreads[1][0]
            ratio = layer.spread_ratio
            text = f"{ratio:.2g} times larger" if ratio >= 1 else f"{1 / max(ratio, 1e-30):.2g} times smaller"
            lines.append(f"`{layer.name}` spreads {text} in the first run: {one:.3g} against {other:.3g}")
        if len(odd) > _LISTED:
            lines.append(f"and {len(odd) - _LISTED} more")
        if odd:
            lines.append(
                "other initial laws, or files of after different steps: `regraft verify A B` compares laws"
            )
        else:
            lines.append(
                "the spreads are those of one law: another seed, or other steps before the first file"
            )
        return lines

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        parted = self.parted
        return {
            "equal": self.equal,
            "verdict": self.verdict,
            "causes": self.causes,
            "parted": None
            if parted is None
            else {"epochs": list(self.epochs[parted[0]]), "layer": parted[1].name},
            "epochs": [list(pair) for pair in self.epochs],
            "layers": [
                {
                    "name": layer.name,
                    "other": layer.other,
                    "norms": [_plain(v) for v in layer.norms],
                    "spreads": [_plain(v) for v in layer.spreads],
                    "updates": [_plain(v) for v in layer.updates],
                    "gaps": _plain(layer.gaps),
                }
                for layer in self.layers
            ],
            "alone": [list(names) for names in self.alone],
            "notes": self.notes,
        }


_LISTED = 8


def diff_runs(first: Path | str, second: Path | str, map_: Path | str | None = None) -> Runs:
    """Compare two folders of checkpoints, one pair of tensors in memory at a time.

    Args:
        first: a folder with one file an epoch, whose names hold its number.
        second: another.
        map_: as for two checkpoints.

    Raises:
        UsageError: when a folder has no checkpoints with numbers, or the two have none in common.
    """
    notes: list[str] = []
    a, b = _numbered(Path(first)), _numbered(Path(second))
    shift = min(b) - min(a)
    if shift and len(a) == len(b) and {n + shift for n in a} == set(b):
        notes.append(f"the numbers of the second run are {abs(shift)} {'higher' if shift > 0 else 'lower'}")
    else:
        shift = 0
    epochs = [(n, n + shift) for n in sorted(a) if n + shift in b]
    if not epochs:
        raise UsageError(
            "E001",
            f"expected files of the same epochs, got {_some(a)} against {_some(b)}",
            place=f"{first}, {second}",
        )
    layers: dict[str, Layer] = {}
    before: dict[str, Pair] = {}
    for n, m in epochs:
        told: list[str] = []
        sides = lay_side_by_side(a[n], b[m], map_, told)
        if not before:
            notes += told
        here = {pair.name: pair for pair in sides.pairs if _is_trained(pair)}
        for name, pair in here.items():
            if not before:
                layers[name] = Layer(name, pair.other, int(np.prod(pair.first.shape)))
            if name in layers:
                _add(layers[name], pair, before.get(name))
        if lost := layers.keys() - here.keys():
            notes.append(f"not in every file, so left out: {len(lost)} (`{min(lost)}`, …)")
            layers = {name: layer for name, layer in layers.items() if name in here}
        before = here
    if not layers:
        raise ModelError(
            "E801", "no tensor of one run has a counterpart in the other", place=f"{a[epochs[0][0]]}"
        )
    common = ({n for n, _ in epochs}, {m for _, m in epochs})
    alone = tuple(
        [side[n].name for n in sorted(side.keys() - c)] for side, c in zip((a, b), common, strict=True)
    )
    return Runs(epochs, list(layers.values()), (alone[0], alone[1]), notes)


def _numbered(folder: Path) -> dict[int, Path]:
    """Return number -> file; where names hold several, the first that is not the same in all of them."""
    files = sorted(
        p
        for p in folder.iterdir()
        if p.suffix in READABLE and p.suffix not in (".onnx", ".mindir") and p.is_file()
    )
    numbers = {p: [int(n) for n in _NUMBER.findall(p.stem)] for p in files}
    numbers = {p: n for p, n in numbers.items() if n}
    if not numbers:
        raise UsageError(
            "E001", "expected checkpoints with an epoch's number in their names", place=str(folder)
        )
    length = min(map(len, numbers.values()))
    varying = [at for at in range(length) if len({n[at] for n in numbers.values()}) > 1] or [length - 1]
    found: dict[int, Path] = {}
    for path in sorted(numbers, key=lambda p: numbers[p]):
        found[numbers[path][varying[0]]] = path  # of several files of one epoch the last
    return found


def _some(numbers: dict[int, Path]) -> str:
    shown = [str(n) for n in sorted(numbers)]
    return ", ".join(shown[:3]) + (", …" if len(shown) > 3 else "")


def _is_trained(pair: Pair) -> bool:
    return pair.first.shape == pair.second.shape and all(
        "float" in d.dtype and d.shape != () for d in (pair.first, pair.second)
    )


def _add(layer: Layer, pair: Pair, before: Pair | None) -> None:
    arrays = [_wide(pair.first), _wide(pair.second)]
    with np.errstate(all="ignore"):
        norms = [float(np.linalg.norm(a)) for a in arrays]
        gap = float(np.linalg.norm(arrays[0] - arrays[1]))
        for side, array in enumerate(arrays):
            layer.norms[side].append(norms[side])
            layer.spreads[side].append(float(array.std()) if array.size else 0.0)
        if before is not None:
            for side, (array, old) in enumerate(zip(arrays, (before.first, before.second), strict=True)):
                same = old.shape == pair.first.shape
                layer.updates[side].append(
                    float(np.linalg.norm(array - _wide(old))) if same else float("nan")
                )
        scale = max(norms)
        share = gap / scale if scale else 0.0
    layer.gaps.append(share if np.isfinite(share) else float("inf"))


def _wide(data: TensorData) -> np.ndarray:
    return data.numpy().astype(np.float64).reshape(-1)


def _plain(values: Sequence[float]) -> list[float | str]:
    return [v if np.isfinite(v) else str(v) for v in values]
