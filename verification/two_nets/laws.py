"""Compares the initial distributions of two nets: what each side states, and what its values show."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...frontends.constructions import Construction, construction_of, drawn_at
from ...ir import Initializer, ModuleTree, Parameter
from .initializer_source import spelling, written
from .pairing import Pairing, ParameterPair
from .remedies import place_of
from .samples import Distribution, looks_like, one_sample, resolved, sample, two_samples

LEVEL = 1e-3
"""Probability that equal laws are called different somewhere in a net, divided among its tensors."""


@dataclass(frozen=True, slots=True)
class LawRow:
    """The initial distribution of one parameter on both sides.

    Attributes:
        parameter: its name in the source.
        target: its name in the target.
        layer: path of the layer in the target.
        class_name: the layer's class in the target.
        source_law: what it is drawn from in the source; empty where neither stated nor shown by its values.
        target_law: likewise in the target.
        measured: the sides ("source", "target") whose law is told from the values, not stated.
        statistic: the two samples' largest distance (Kolmogorov and Smirnov); None where not tested.
        probability: of such a distance under one law, times the number of tensors tested.
        passed: whether both start alike; None where that cannot be told.
        reason: why not, or why it cannot be told.
        remedy: what to write in the target; empty where nothing is to be mended or nothing is known.
        place: file and line of the target to write it at.
        drawn: the call of the user's that draws it, where another than the layer's own construction does.
    """

    parameter: str
    target: str
    layer: str
    class_name: str
    source_law: str = ""
    target_law: str = ""
    measured: tuple[str, ...] = ()
    statistic: float | None = None
    probability: float | None = None
    passed: bool | None = None
    reason: str = ""
    remedy: str = ""
    place: str = ""
    drawn: Construction | None = None


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a pair: what it states, what it shows, and which of the two is believed."""

    law: Initializer | None
    distribution: Distribution | None
    values: np.ndarray | None
    measured: bool = False
    doubt: str = ""


def compare_laws(pairing: Pairing) -> list[LawRow]:
    """One row per pair of floating-point parameters, from the values that both nets hold now.

    Both nets must be as they were constructed.
    """
    pairs = {
        keys: p
        for keys, p in pairing.parameters.items()
        if p.fits and _is_float(pairing.source.parameter(keys[0]))
    }
    comparison = _Comparison(pairing, max(len(pairs), 1))
    return [comparison.row(keys, p) for keys, p in pairs.items()]


class _Comparison:
    def __init__(self, pairing: Pairing, tests: int) -> None:
        self.pairing, self.tests = pairing, tests
        self.owners = {
            key: (layer.path, layer.module)
            for layer in pairing.target.layers
            for key in layer.parameters.values()
        }

    def row(self, keys: tuple[int, int], pair: ParameterPair) -> LawRow:
        source = _believed(self.pairing.source.parameter(keys[0]), self.tests)
        target = _believed(self.pairing.target.parameter(keys[1]), self.tests)
        path, module = self.owners[keys[1]]
        tree = self.pairing.target.graph.modules
        row = LawRow(
            pair.source,
            pair.target,
            path,
            tree.module(module).class_name if module in tree else "",
            "" if source.law is None else written(source.law),
            "" if target.law is None else written(target.law),
            tuple(name for name, side in (("source", source), ("target", target)) if side.measured),
        )
        model = self.pairing.target.graph.origin.model
        drawn = drawn_at(model, path, pair.target.rpartition(".")[2])
        drawn = None if drawn == construction_of(model, path) else drawn
        row = replace(self._tested(row, source, target), drawn=drawn)
        passed, reason = self._verdict(row, source, target)
        row = replace(row, passed=passed, reason=reason)
        if passed is False and source.law is not None:
            attribute = pair.target.rpartition(".")[2]
            framework = self.pairing.target.graph.origin.framework
            inner = _inside_a_layer(tree, row.layer) if drawn is None else ""
            law = _portable(source, pair)
            own = drawn is None and not inner
            remedy = spelling(law, framework, row.class_name, f"{inner}{attribute}", own=own)
            place = place_of(self.pairing.target.graph, row.layer) if drawn is None else drawn.place
            return replace(row, remedy=remedy, place=place)
        return row

    def _tested(self, row: LawRow, source: _Side, target: _Side) -> LawRow:
        a, b = source.values, target.values
        if a is None or b is None or len(a) < 2 or (len(a) == len(b) and np.array_equal(a, b)):
            return row
        statistic, probability = two_samples(a, b)
        return replace(row, statistic=statistic, probability=min(1.0, probability * self.tests))

    def _verdict(self, row: LawRow, source: _Side, target: _Side) -> tuple[bool | None, str]:
        apart = row.probability is not None and row.probability < LEVEL
        doubt = source.doubt or target.doubt
        if source.distribution is not None and target.distribution is not None:
            if source.measured or target.measured:
                return not apart, "the samples differ" if apart else "not stated; the samples agree"
            same = source.distribution.close(target.distribution)
            return same, "" if same else "the laws differ"
        if source.law is not None and source.law == target.law:
            return True, ""
        if doubt:
            return None, doubt
        if row.probability is None:
            return None, "not stated, and the values tell nothing"
        return (False, "the samples differ") if apart else (None, "not stated, and too few values to tell")


def _believed(parameter: Parameter, tests: int) -> _Side:
    """The law a side states, unless its values contradict it; else what the values look like."""
    law, values = parameter.initializer, None
    law = None if law is not None and law.law == "unknown" else law
    if parameter.data.load is not None and parameter.data.nbytes:
        values = sample(parameter.data.numpy())
    found = resolved(law, parameter.data.shape)
    if values is None or not np.isfinite(values).all():
        return _Side(law, found, None)
    if found is not None and one_sample(values, found) * tests > LEVEL:
        return _Side(law, found, values)
    if law is not None and found is None:
        return _Side(law, None, values)  # orthogonal and the like: taken at its word
    shown = looks_like(values)
    if shown is None:
        doubt = "the values follow no usual law, so they are trained or loaded" if len(values) >= 100 else ""
        return _Side(None, None, values, doubt=doubt)
    return _Side(shown, resolved(shown, parameter.data.shape), values, measured=True)


def _portable(source: _Side, pair: ParameterPair) -> Initializer:
    """The source's law, with its numbers where the target's shape would give others."""
    assert source.law is not None
    there = resolved(source.law, pair.target_shape)
    if source.distribution is None or (there is not None and there.close(source.distribution)):
        return source.law
    kind, numbers = source.distribution.kind, source.distribution.numbers
    names = {"uniform": ("low", "high"), "normal": ("mean", "std")}.get(kind)
    return source.law if names is None else Initializer.of(kind, **dict(zip(names, numbers, strict=True)))


def _inside_a_layer(tree: ModuleTree, path: str) -> str:
    """The way to a layer within one of the framework's: ``out_proj.`` of attention; empty for others."""
    parts = path.split(".")
    for size in range(1, len(parts)):
        above = tree.find(".".join(parts[:size]))
        if above is not None and above.class_name.startswith(("MultiheadAttention", "Transformer")):
            steps = "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in parts[size:])
            return f"{steps.removeprefix('.')}."
    return ""


def _is_float(parameter: Parameter) -> bool:
    return parameter.data.dtype.startswith(("float", "bfloat"))
