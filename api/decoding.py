"""The check of a decoder: steps that feed their cache to one another, against one pass."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..frontends import Inputs, LoadOptions, read, resolve
from ..ir import Graph, UsageError
from ..verification import Report
from .load_options import loading
from .target_capture import capture_or_name


def verify_steps(
    source: object,
    target: object,
    inputs: Inputs,
    steps: int,
    feed: Mapping[str, str] | None,
    others: Mapping[str, object],
    *,
    pieces: bool | None,
    copy: bool | None,
    html: str | Path | None,
    lang: str,
    **options: Any,
) -> Report:
    """Compare a decoder's steps with one pass; see `api.verify`.

    Args:
        source: as in `api.verify`.
        target: as in `api.verify`.
        inputs: as in `api.verify`.
        steps: number of tokens.
        feed: as in `api.verify`.
        others: options of `api.verify` that steps have no place for, by name.
        pieces: as in `api.verify`.
        copy: as in `api.verify`.
        html: as in `api.verify`.
        lang: as in `api.verify`.
        options: loading options.

    Raises:
        UsageError: for such an option, and for fewer than two steps (E001).
    """
    from ..verification.decoding.comparing import verify_steps as compare
    from ..verification.verify_written import is_written

    if steps < 2:
        raise UsageError("E001", f"expected two or more steps of a decoder, got {steps}", place="--steps")
    wrong = next((name for name, value in {**others, "stream": pieces}.items() if value), None)
    if wrong is not None:
        raise UsageError(
            "E001",
            f"expected --steps without --{wrong.replace('_', '-')}, got both",
            hint="--steps compares what a decoder computes step by step; leave out one of the two",
        )
    given = inputs if inputs is not None or not isinstance(target, Graph) else target.origin.inputs
    graph = source if isinstance(source, Graph) else _load(source, given, options)
    other: Any = target
    if not (isinstance(target, Graph) or is_written(target)):
        shown = inputs if inputs is not None else list(graph.origin.inputs.values())
        trusted = LoadOptions(trust=bool(options.get("trust")))
        other = capture_or_name(target, _taken_by(target, shown, trusted), trusted)
    said = list((feed or {}).items())
    own = other is not target
    report = compare(graph, other, steps, feed=said, own=own, copy=copy)
    if html is not None:
        from .pages import write_page

        write_page(html, graph, other if isinstance(other, Graph) else Path(other), report, lang=lang)
    return report


def _load(model: object, inputs: Inputs, options: dict[str, Any]) -> Graph:
    """Load a model on those of the inputs that it takes; the other side may take more."""
    taken = _taken_by(model, inputs, loading(**options))
    if taken is not inputs and isinstance(taken, Mapping) and options.get("dynamic"):
        first = {name.partition(".")[0] for name in taken}
        axes = {n: a for n, a in options["dynamic"].items() if any(n.startswith(name) for name in first)}
        options = {**options, "dynamic": axes or None}
    return read(model, taken, loading(**options))


def _taken_by(model: object, inputs: Inputs, options: LoadOptions) -> Inputs:
    """Return those of the named inputs that a live model's method has parameters for; all for any other."""
    if not isinstance(inputs, Mapping) or isinstance(model, Path):
        return inputs
    _, found = resolve(model, options)
    method = getattr(found, "forward", None) or getattr(found, "construct", None)
    if method is None or isinstance(found, type):
        return inputs
    parameters = inspect.signature(method).parameters
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values()):
        return inputs
    taken = {name: value for name, value in inputs.items() if name.partition(".")[0] in parameters}
    return taken if len(taken) < len(inputs) else inputs
