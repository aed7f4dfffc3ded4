"""Makes certificates of what was written, for the verdict of its comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..frontends import LoadOptions, read
from ..ir import Graph, ModelError, RegraftError
from ..passes import default_pipeline, parse_pass, run_passes
from .target_capture import capture_beside

if TYPE_CHECKING:
    from ..verification import Report

_LEAST = 0.5
"""Seconds of processor time that a certificate may take however short the comparison was."""

_MOST = 1 << 30
"""Bytes of parameters above which a certificate is made only where somebody asks for it: it holds both sides'
tensors in a file of its own meanwhile."""

_TO_SETTLE = 10.0
"""The same where the comparison leaves something open that a certificate can settle."""


def certifies(wanted: bool | None) -> bool:
    """Whether a verdict uses a certificate, where that is asked for or left to the default."""
    from ..verification.certificate.verdict import certifies_by_default

    return certifies_by_default() if wanted is None else wanted


def settle_verdict(
    report: Report,
    source: Graph,
    target: str | Path | Graph,
    seconds: float,
    *,
    wanted: bool | None = None,
    trust: bool = False,
) -> Report:
    """Return the report of a comparison with a certificate, and with what that settles.

    A comparison of training, of nets that were written apart, in other types or of a model with itself stays
    as it is. To read back a directory costs more than to compare it, so that by default its certificate is
    made only where the comparison leaves something open. And none is made where data give the sizes of
    outputs, as in a detector: a certificate needs sizes that are known, and would only say so.

    Args:
        report: what the comparison found.
        source: the source as read.
        target: what was compared with it: a graph, a file or a directory that regraft wrote.
        seconds: of processor time that the comparison took, which the certificate may take too.
        wanted: whether to make it, whatever it costs; None makes it where it costs no more.
        trust: as in `load`.
    """
    from ..verification.certificate.verdict import is_open, make_certificate, settle
    from ..verification.jumps.few_rows import finds_rows
    from ..verification.streaming.deciding import is_large

    apart = report.training or report.recipes or report.nets or report.scope or report.one_model
    if apart or not certifies(wanted):
        return report
    open_ = is_open(report)
    dear = not isinstance(target, Graph) and Path(target).is_dir()
    if not open_ and (not report.passed or (dear and not wanted)):
        return report
    size = sum(parameter.data.nbytes for parameter in source.parameters())
    if not wanted and (size > _MOST or is_large(source) or finds_rows(source)):
        return report
    certificate, note = make_certificate(
        source,
        lambda: target if isinstance(target, Graph) else read_back(target, source, {"trust": trust}),
        folded,
        math.inf if wanted else max(_TO_SETTLE if open_ else _LEAST, seconds),
    )
    if note:
        report = replace(report, notes=[*report.notes, note])
    return report if certificate is None else settle(report, certificate)


def read_back(target: object, source: Graph, options: dict[str, Any]) -> Graph:
    """Return the target as a frontend reads it.

    Raises:
        ModelError: when it has operators that no frontend reads.
    """
    shown = list(source.origin.inputs.values())
    if isinstance(target, (str, Path)):
        path = Path(target)
        if path.is_dir():
            target = f"{path / 'model.py'}:build"
        elif path.suffix == ".onnx":
            return read(str(path), None, LoadOptions())
        else:
            target = str(target)
    graph = capture_beside(source, target, shown, trust=bool(options.get("trust")))
    if not graph.outputs:
        raise ModelError("E103", f"expected a target that is read as a graph, but {graph.origin.notes[-1]}")
    return graph


def folded(graph: Graph) -> Graph | None:
    """Return the source after the passes that fold normalisations; None where they cannot run on it."""
    new = graph.copy()
    new.provenance = None
    try:
        run_passes(new, [*default_pipeline(), parse_pass("prepare-for-inference")])
    except RegraftError:
        return None
    return new
