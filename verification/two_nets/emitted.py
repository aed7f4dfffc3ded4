"""The initial distributions of an emitted net, as `build(checkpoint=None)` draws it, against the source's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from ...formats.renames import computed, read_renames
from ...ir import Graph, Initializer, ModelError, Parameter
from ..runners.registry import runtime_of_output
from .initializer_source import spelling, written
from .laws import LawRow
from .report import Laws
from .samples import Distribution, looks_like, probability_of, resolved, sample

_LEVEL = 1e-5
"""Probability that values of the right law are called others somewhere in a net, drawn every time."""

_DRAWS, _ENOUGH = 8, 1024
"""Maximum draws of a net, so that its smallest random parameter has enough values."""


def emitted_laws(source: Graph, folder: Path, *, train: bool) -> Laws | None:
    """One row per floating-point parameter of an emitted folder that the source has too.

    What the source draws it from is what the source states: its weights may be trained. What the emitted net
    draws it from is told by its values, and by its layers where they keep what they were given.

    Args:
        source: the source's graph.
        folder: the emitted folder, for its ``renames.json``.
        train: whether a difference counts: then small parameters are drawn several times, as a few values
            tell little.

    Returns:
        None where the folder has no ``renames.json``.

    Raises:
        ModelError: when ``renames.json`` is malformed (E101).
    """
    if not (folder / "renames.json").exists():
        return None
    targets = _targets(folder / "renames.json")
    names = source.parameter_paths()
    runtime = runtime_of_output(folder)
    assert runtime is not None
    draw = partial(runtime.load_for_outputs().constructed, folder)
    drawn = draw()
    found = _by_path(drawn)
    pairs: list[tuple[str, str, Parameter, list[Parameter]]] = []
    for parameter in source.parameters():
        known = [*names.get(parameter.key, []), parameter.declared]  # several may have one declared name
        target = next((targets[n] for n in known if n in targets), "")
        if target in found and parameter.data.dtype.startswith("float"):
            shown = names.get(parameter.key, [parameter.declared])[0]
            pairs.append((shown, target, parameter, [found[target]]))
    random = [theirs for *_, mine, theirs in pairs if _is_random(mine)]
    fewest = min((prod(theirs[0].data.shape) for theirs in random), default=_ENOUGH)
    for _ in range(min(-(-_ENOUGH // max(fewest, 1)), _DRAWS) - 1 if train else 0):
        again = _by_path(draw())
        for _, target, _, theirs in pairs:
            if target in again:
                theirs.append(again[target])
    framework = runtime.framework
    rows = [_row(framework, drawn, *pair, tests=max(len(pairs), 1)) for pair in pairs]
    return Laws(framework, rows, train=train)


def _by_path(graph: Graph) -> dict[str, Parameter]:
    paths = graph.parameter_paths()
    return {path: p for p in graph.parameters() for path in paths.get(p.key, [p.declared])}


def _is_random(parameter: Parameter) -> bool:
    found = resolved(parameter.initializer, parameter.data.shape)
    return found is not None and found.kind != "constant"


def _targets(path: Path) -> Mapping[str, str]:
    """Name or path of a parameter of the source -> its own name in the emitted net."""
    rows = read_renames(path).get("parameters")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ModelError("E101", "expected a list of rows under `parameters`", place=str(path))
    found: dict[str, str] = {}
    held = [r for r in rows if r.get("target") and not computed(str(r.get("transform"))) and not r.get("tie")]
    for kind in ("source_path", "source"):
        for row in held:
            if row.get(kind):
                found.setdefault(str(row[kind]), str(row["target"]))
    return found


def _row(
    framework: str,
    drawn: Graph,
    name: str,
    target: str,
    mine: Parameter,
    draws: Sequence[Parameter],
    *,
    tests: int,
) -> LawRow:
    theirs = draws[0]
    law = mine.initializer
    layer, _, attribute = target.rpartition(".")
    module = drawn.modules.find(layer)
    class_name = "" if module is None else module.class_name
    distribution = resolved(law, mine.data.shape)
    passed, probability, reason = _judged(law, distribution, draws, tests)
    other, measured = theirs.initializer, ()
    if passed is False and other is None:
        other, measured = looks_like(sample(theirs.data.numpy())), ("target",)
    remedy = ""
    if passed is False and law is not None:
        remedy = spelling(law, framework, class_name, attribute, own=True)
    return LawRow(
        name,
        target,
        layer,
        class_name,
        "" if law is None else written(law),
        "" if other is None else written(other),
        measured if other is not None else (),
        probability=probability,
        passed=passed,
        reason=reason,
        remedy=remedy,
    )


def _judged(
    law: Initializer | None, distribution: Distribution | None, draws: Sequence[Parameter], tests: int
) -> tuple[bool | None, float | None, str]:
    """(whether the drawn values are of the source's law, with what probability, why not)."""
    if law is None or law.law == "unknown":
        return None, None, "the source does not state it"
    if distribution is None:
        same = draws[0].initializer is not None and draws[0].initializer == law
        return (True, None, "") if same else (None, None, "not told from values")
    drawn = {array.tobytes(): array for d in draws for array in [sample(d.data.numpy())]}
    values = np.sort(np.concatenate(list(drawn.values())))  # under a seed a net may be drawn the same again
    if not len(values) or not np.isfinite(values).all():
        return None, None, "it has no values"
    probability = min(1.0, probability_of(values, distribution) * tests)
    passed = probability >= _LEVEL
    return passed, probability, "" if passed else "the values drawn are of another law"
