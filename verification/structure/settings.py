"""Compares training-only settings: Dropouts in the order of the run, momenta, and trained scales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from math import isclose

import onnx

from ...ir import Graph, Operator, Parameter
from .report import SettingRow

DROPOUT, CHANNELS, MOMENTUM, SCALE = "Dropout", "Dropout of channels", "momentum", "trained scale"
"""Kinds of setting; for dropouts as the operators' traits name them."""

OF_NORMALISATIONS = (MOMENTUM, SCALE)


@dataclass(frozen=True, slots=True)
class Setting:
    """A layer or function that acts in training only, in the order of a run.

    Attributes:
        kind: `MOMENTUM`, `SCALE`, or what is dropped: `DROPOUT`, `CHANNELS`…
        value: the share that is dropped; the share of the old statistics that is kept; 1 for a scale that is
            a parameter, 0 for one that is a constant.
        module: path of the innermost module around it, the source's where that is known.
        place: file and line of its call; empty where nobody knows.
    """

    kind: str
    value: float
    module: str = ""
    place: str = ""

    @property
    def key(self) -> tuple[str, float]:
        """The compared settings, without the place, to the digits of written ratios."""
        return self.kind, float(f"{self.value:.5g}")


def settings_of(graph: Graph) -> list[Setting] | None:
    """Return the settings of a graph in the order of its run; None if a branch, a loop or an input gives any.

    Attention with dropout counts as one Dropout, a recurrent layer as one between every two of its layers, as
    if both were written in parts.
    """
    if any(_find_settings(part, o, "") for part in list(graph.subgraphs())[1:] for o in part.operators()):
        return None
    if any(_is_given_by_a_run(graph, operator) for operator in graph.operators()):
        return None
    names = graph.modules.call_names()
    found: list[Setting] = []
    for operator in sorted(graph.operators(), key=lambda o: o.key):
        path = "" if operator.call is None else names[operator.call].rpartition("#")[0]
        place = operator.location.partition(" ")[0]
        found += [replace(setting, place=place) for setting in _find_settings(graph, operator, path)]
    return found


def _is_given_by_a_run(graph: Graph, operator: Operator) -> bool:
    """Whether a Dropout of ONNX takes its ratio from an input or from what a run computes."""
    ratio = [*graph.operands(operator.key), None, None][1]
    is_plain = bool(operator.traits.dropout) and not operator.domain
    return is_plain and ratio is not None and graph.constant_value(ratio) is None


def _find_settings(graph: Graph, operator: Operator, path: str) -> list[Setting]:
    """Return the training-only settings of one operator."""
    traits = operator.traits
    if not traits.trains_differently:
        return []
    if traits.drops_inside:
        count = operator.int("num_layers") - 1 if "num_layers" in operator.signature.attributes else 1
        return _dropping(DROPOUT, operator.float("dropout"), path) * count
    if traits.dropout and operator.domain:
        return _dropping(traits.dropout, operator.float("ratio"), path)
    if traits.dropout:
        operands = graph.operands(operator.key)
        given = graph.constant_value(operands[1]) if len(operands) > 1 else None
        return _dropping(traits.dropout, 0.5 if given is None else float(given.reshape(())), path)
    if operator.op_type == "BatchNormalization" and not operator.int("training_mode"):
        scale = graph.operands(operator.key)[1]
        is_trained = scale is not None and isinstance(graph.node(scale.node), Parameter)
        return [
            Setting(MOMENTUM, operator.float("momentum"), path),
            Setting(SCALE, float(is_trained), path),
        ]
    return []


def _dropping(kind: str, ratio: float, path: str) -> list[Setting]:
    """Return a dropout's setting; none if it drops everything: the training step compares those zeros."""
    return [Setting(kind, ratio, path)] if 0 < ratio < 1 else []


def ratios_in(model: onnx.ModelProto) -> list[float]:
    """Return the ratios of the Dropouts that an ONNX model has."""
    values = {t.name: t for t in model.graph.initializer if not t.external_data}
    nodes = [n for n in model.graph.node if n.op_type == "Constant"]
    values |= {n.output[0]: a.t for n in nodes for a in n.attribute if a.name == "value"}
    found: list[float] = []
    for node in model.graph.node:
        if node.op_type == "Dropout":
            given = values.get(node.input[1]) if len(node.input) > 1 else None
            found.append(0.5 if given is None else float(onnx.numpy_helper.to_array(given).reshape(())))
    return found


def compare_settings(source: Sequence[Setting], target: Sequence[Setting]) -> list[SettingRow]:
    """Return the differing settings, in the order of the source's run.

    Settings are equal if they agree in the order of the run, wherever they lie, or module by module, as
    branches side by side may run in either order. Settings of normalisations are compared only if both sides
    have as many: a normalisation that is another operator shows in its numbers.
    """
    rows: list[SettingRow] = []
    for kind in ("", *OF_NORMALISATIONS):
        mine, theirs = (
            [s for s in side if (s.kind if s.kind in OF_NORMALISATIONS else "") == kind]
            for side in (source, target)
        )
        if kind and len(mine) != len(theirs):
            continue
        if [s.key for s in mine] == [s.key for s in theirs]:
            continue
        if Counter((s.module, s.key) for s in mine) == Counter((s.module, s.key) for s in theirs):
            continue
        rows += _align(mine, theirs)
    return rows


def _align(mine: Sequence[Setting], theirs: Sequence[Setting]) -> list[SettingRow]:
    """Return rows of differences: by module where both have the same ones, else in the order of the run."""
    paths = dict.fromkeys(s.module for s in mine)
    if set(paths) >= {s.module for s in theirs}:
        groups = [([s for s in mine if s.module == p], [s for s in theirs if s.module == p]) for p in paths]
    elif len(mine) == len(theirs):
        groups = [([a], [b]) for a, b in zip(mine, theirs, strict=True)]
    else:
        matcher = SequenceMatcher(None, [s.key for s in mine], [s.key for s in theirs], autojunk=False)
        groups = [(mine[a:b], theirs[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    return [row for one, other in groups for a, b in zip_longest(one, other) for row in _rows(a, b)]


def _rows(a: Setting | None, b: Setting | None) -> list[SettingRow]:
    if a is not None and b is not None and a.kind == b.kind:
        same = isclose(a.value, b.value, rel_tol=1e-4, abs_tol=1e-6)
        return [] if same else [SettingRow(a.module, a.kind, a.value, b.value, (a.place, b.place))]
    rows = [] if a is None else [SettingRow(a.module, a.kind, a.value, None, (a.place, ""))]
    return rows + ([] if b is None else [SettingRow(b.module, b.kind, None, b.value, ("", b.place))])
