"""Compares a checkpoint with a net, and gives a checkpoint that colliding names damaged the right names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from ..ir import Graph, ModelError, TensorData, system_errors_told
from . import read_checkpoint, write_checkpoint
from .placing import Member, Placement, Shared, place
from .slots import slot_of

UNIQUE = "`regraft.unique_names(net)` before the net is loaded, saved or given to an optimizer"
_NAMED, _LISTED = 3, 20
_WHY = {
    "shape": "no other has that shape",
    "value": "no other has these values now",
    "order": "it is registered last, and the last tensor saved under a name stays",
}


@dataclass(frozen=True, slots=True)
class SharedCells:
    """Cells whose parameters had the same names when the file was saved.

    Attributes:
        cells: their paths.
        names: the names in the file.
        kept: path of the cell whose values the file holds; empty where that cannot be known.
        by: what tells ("shape", "value" or "order"), and of how many names.
        lost: names in the mended net of what the file does not hold.
        values: how many elements that are.
    """

    cells: tuple[str, ...]
    names: tuple[str, ...]
    kept: str
    by: dict[str, int]
    lost: tuple[str, ...]
    values: int

    def __str__(self) -> str:
        count = len(self.names)
        text = (
            f"{_listed(self.cells)} shared {count} name{'s' * (count != 1)} ({_listed(self.names)}), and the "
            "file holds one tensor for each"
        )
        if not self.kept:
            return f"{text}: whose, nothing tells"
        why = "; ".join(f"{n} by {by}: {_WHY[by]}" for by, n in self.by.items())
        others = [c for c in self.cells if c != self.kept]
        lost = f"lost: {len(self.lost)} of {_listed(others)}, {self.values:,} values"
        return f"{text}, that of `{self.kept}` ({why}); {lost}"


@dataclass(frozen=True, slots=True)
class Fit:
    """The fit of a checkpoint to a net.

    Attributes:
        placement: where every tensor belongs.
        shared: the cells that shared names, folded.
        source: the file.
        model: what the user called the net; empty for a live one.
    """

    placement: Placement
    source: Path
    model: str = ""
    shared: list[SharedCells] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether the net as it is takes the file as it is."""
        return self.placement.whole and not self.placement.moved and not self.placement.clashing

    @property
    def verdict(self) -> str:
        """The first line of a report."""
        p, count = self.placement, self.placement.wanted
        missing = len(p.lost) + len(p.absent)
        if p.lost and not any(s.kept for s in p.shared):
            return f"NOT TOLD: {len(p.shared)} names of the file stand for several parameters of the net each"
        if p.lost:
            return (
                f"DAMAGED when it was saved: {missing} of {count} parameters of the net have no tensor in it"
            )
        if p.misfits:
            return f"DOES NOT FIT: {len(p.misfits)} tensors have another shape than the net's parameters"
        if missing:
            return f"INCOMPLETE: {missing} of {count} parameters of the net have no tensor in the file"
        if p.clashing:
            return "whole, but parameters of the net share names, so that it cannot be loaded as it is"
        if p.moved:
            placed = len(p.placed)
            return f"whole, under other names: {p.moved} of {placed} tensors are called otherwise in the net"
        if p.unknown:
            return f"{len(p.unknown)} tensors of the file belong to nothing of the net"
        return f"fits: {count} of {count} parameters of the net have a tensor of their name and shape"

    @property
    def causes(self) -> list[str]:
        """The causes of the verdict, a line each."""
        p = self.placement
        lines = [str(s) for s in self.shared]
        for name, members in list(p.misfits.items())[:_LISTED]:
            data = members[0].data
            shape = list(p.given[name].shape)
            where = _listed(m.path for m in members)
            lines.append(f"`{name}` is {shape} in the file, and {where} {list(data.shape)} in the net")
        if loose := [m.path for m in p.absent if m.unregistered]:
            lines.append(
                f"{_count(loose)} are in a plain list or dict, which `save_checkpoint` does not see: make "
                f"it a CellList"
            )
        if absent := [m.path for m in p.absent if not m.unregistered]:
            lines.append(f"{_count(absent)} of the net are not in the file, under any name")
        if p.unknown:
            lines.append(f"{_count(p.unknown)} of the file belong to nothing of the net")
        return lines

    @property
    def remarks(self) -> list[str]:
        """Further remarks: shortened names, slots that follow, numbers that stay."""
        p = self.placement
        lines = [f"note: {note}" for note in p.notes]
        for name, first in list(p.tied.items())[:_NAMED]:
            lines.append(f"note: `{name}` of the file is one tensor with `{first}`, as in the net")
        for name, first in list(p.copies.items())[:_NAMED]:
            lines.append(
                f"note: `{name}` of the net is one tensor with `{first}`, under which the file has it"
            )
        if p.slots:
            lines.append(f"note: {_count(list(p.slots))} of an optimizer follow their parameters")
        if p.counters:
            lines.append(f"note: left out, as the net counts no batches: {_count(p.counters)}")
        if p.uncounted:
            counts = _count([m.name for m in p.uncounted])
            lines.append(f"note: zero in a repaired file, as this one counts no batches: {counts}")
        if p.globals:
            lines.append(f"note: {_count(p.globals)} of an optimizer or a callback stay as they are")
        if self._is_of_a_model() and not self.equal:
            model = self.model or "net.py:Net"
            lines.append(f"note: `regraft diff {model} {self.source} --input SHAPE` compares both as models")
        return lines

    @property
    def advice(self) -> list[str]:
        """The commands or code that help."""
        p, model = self.placement, self.model or "net.py:Net"
        suffix = ".safetensors" if self._is_of_a_model() else self.source.suffix
        target = f"{self.source.stem}.repaired{suffix}"
        lines: list[str] = []
        if p.moved or p.shared:
            lines.append(f"regraft repair-checkpoint {model} {self.source} -o {target}")
        if p.clashing:
            lines.append(UNIQUE)
        convert = f"regraft convert-checkpoint {self.source} {target} --like {model}"
        if not lines and self._may_convert():
            lines.append(convert)
        elif not lines and p.misfits:
            lines.append(
                f"the file's sizes where the net makes these layers, or `{convert} --map FILE`, whose FILE "
                f"maps the layers to null"
            )
        return lines

    def _is_of_a_model(self) -> bool:
        """Whether the file holds a model with its weights, which no conversion writes."""
        return self.source.suffix in (".onnx", ".mindir")

    def _may_convert(self) -> bool:
        """Whether the file has as many elements as the net lacks, in other layouts or under other names."""
        p = self.placement
        for name, members in p.misfits.items():
            if all(prod(p.given[name].shape) != prod(m.data.shape) for m in members):
                return False
        lacking = sum(prod(member.data.shape) for member in p.absent)
        spare = sum(prod(p.given[name].shape) for name in p.unknown)
        return lacking <= spare and bool(p.misfits or lacking)

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        p = self.placement
        return {
            "equal": self.equal,
            "verdict": self.verdict,
            "placed": [
                {"saved": name, "name": member.name, "path": member.path, "by": by}
                for name, (member, by) in p.placed.items()
            ],
            "shared": [
                {
                    "cells": list(s.cells),
                    "names": list(s.names),
                    "kept": s.kept or None,
                    "by": s.by,
                    "lost": list(s.lost),
                    "values": s.values,
                }
                for s in self.shared
            ],
            "misfits": {name: [m.path for m in members] for name, members in p.misfits.items()},
            "absent": [m.name for m in p.absent],
            "unknown": p.unknown,
            "slots": p.slots,
            "kept_as_they_are": p.globals,
            "causes": self.causes,
            "advice": self.advice,
            "notes": p.notes,
        }


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair.

    Attributes:
        fit: what was found.
        path: the file written.
        tensors: how many tensors it holds.
    """

    fit: Fit
    path: Path
    tensors: int

    @property
    def whole(self) -> bool:
        """Whether every parameter of the net has a tensor, and every tensor a place."""
        return self.fit.placement.whole


def fit_checkpoint(net: Graph, source: Path | str, part: str | None = None) -> Fit:
    """Say how a checkpoint fits a net.

    Args:
        net: the static part of the net.
        source: the checkpoint.
        part: which of several sets of tensors in it is read; see `read_checkpoint`.
    """
    notes: list[str] = []
    placement = place(net, read_checkpoint(source, notes, part))
    placement.notes[:0] = notes
    reference = net.origin.reference
    return Fit(placement, Path(source), reference if ":" in reference else "", _folded(placement))


@system_errors_told()
def repair_checkpoint(
    net: Graph, source: Path | str, target: Path | str, *, force: bool = False, part: str | None = None
) -> Repaired:
    """Write a checkpoint in which every tensor has the name of the parameter that it belongs to.

    What was lost when it was saved is not in it: nothing is filled in.

    Args:
        net: the static part of the net: as it was when it was saved, or mended since.
        source: the checkpoint.
        target: the checkpoint to write; the suffix says what kind.
        force: whether `target` may be replaced.
        part: which of several sets of tensors in `source` is read; see `read_checkpoint`.

    Raises:
        ModelError: E801 when no tensor belongs to the net; E101 when the file cannot be read.
        UsageError: when the suffixes are not those of checkpoints, or `target` exists.
    """
    fit = fit_checkpoint(net, source, part)
    placement = fit.placement
    if not placement.placed:
        raise ModelError(
            "E801",
            f"no tensor of `{source}` belongs to a parameter of the net",
            place=str(source),
            hint="if the names differ completely: convert-checkpoint --like, which also pairs by shape",
        )
    given = placement.given
    made: dict[str, TensorData] = {}
    for name, (member, _) in placement.placed.items():
        made[member.name] = _shaped(given[name], member.data.shape)
    for new, old in placement.copies.items():
        made[new] = made[placement.placed[old][0].name]
    for old, new in placement.slots.items():
        _, base = slot_of(old, given.keys()) or ("", old)
        shape = placement.placed[base][0].data.shape if given[old].shape else ()
        made[new] = _shaped(given[old], shape)
    made |= {m.name: TensorData.of(np.zeros((), np.int64)) for m in placement.uncounted}
    made |= {name: given[name] for name in placement.globals}
    write_checkpoint(target, made, force=force)
    return Repaired(fit, Path(target), len(made))


def _shaped(data: TensorData, shape: tuple[int, ...]) -> TensorData:
    """Return a tensor with a net's axes of one element."""
    if data.shape == shape:
        return data
    return TensorData(data.dtype, shape, lambda: data.numpy().reshape(shape), data.storage)


def _folded(placement: Placement) -> list[SharedCells]:
    """Return the shared names, those of the same cells together."""
    groups: dict[tuple[tuple[str, ...], str], list[Shared]] = {}
    for shared in placement.shared:
        cells = tuple(_cell(m, shared.saved) for m in shared.members)
        kept = "" if shared.kept is None else _cell(shared.kept, shared.saved)
        groups.setdefault((cells, kept), []).append(shared)
    found: list[SharedCells] = []
    for (cells, kept), some in groups.items():
        lost = [m for s in some for m in s.members if id(m) not in placement.taken]
        names = tuple(s.saved for s in some)
        by = dict(Counter(s.by for s in some if s.by))
        values = sum(prod(m.data.shape) for m in lost)
        found.append(SharedCells(cells, names, kept, by, tuple(m.name for m in lost), values))
    return found


def _cell(member: Member, saved: str) -> str:
    """Return the path of the cell in which a parameter has the name that it was saved under."""
    return next(
        (path.removesuffix(f".{saved}") for path in member.paths if path.endswith(f".{saved}")), member.path
    )


def _listed(names: Iterable[str]) -> str:
    found = [f"`{name}`" for name in dict.fromkeys(names)]
    if len(found) > _NAMED:
        return ", ".join(found[:_NAMED]) + ", …"
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))


def _count(names: list[str]) -> str:
    """Return the number of tensors and the first of them, as text."""
    return f"{len(names)} tensor{'s' * (len(names) != 1)} ({_listed(names)})"
