"""Compares what was written from a graph with its source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..backends import find_target
from ..formats.written_behind import WritingBehind
from ..frontends import LoadOptions, read
from ..ir import Graph, MismatchError, UsageError, missing_file
from ..ir.analysis.ending import end_at
from ..ir.analysis.restriction import restrict
from .recipes.scripts import Recipes
from .report import Report
from .report_text import name_call
from .verifying import verify


class VerificationError(MismatchError):
    """The files written do not compute what the source computes.

    Attributes:
        report: what was compared.
    """

    def __init__(self, report: Report, path: Path) -> None:
        self.report = report
        proof = "that is not proven" if not report.differs else "it does not"
        super().__init__(
            "E701",
            f"expected the output to compute the same as the source, but {proof}",
            place=name_call(report.first_divergence) or str(path),
            hint="nothing was written; --no-verify writes it all the same",
        )


def is_written(target: object) -> bool:
    """Whether `target` names an ONNX file or a directory with an output, rather than a model."""
    return isinstance(target, (str, Path)) and (str(target).endswith(".onnx") or Path(target).is_dir())


def no_map() -> UsageError:
    """Return the error of a map beside a target that `is_written` or is a graph."""
    return UsageError(
        "E001",
        "expected a model as the target of a map, got a graph or an output written from one",
        hint="files that regraft wrote are paired by the renames.json beside them",
    )


def require_target(target: object, *files: str | Path) -> None:
    """Check that what a source is to be compared with is there, before anything is loaded.

    Args:
        target: as in `verify`.
        files: further files that are read.

    Raises:
        ModelError: for a file that is missing (E101).
    """
    paths = [str(path) for path in files]
    if isinstance(target, (str, Path)):
        where, _, name = str(target).rpartition(":")
        named = where if where.endswith(".py") and name else str(target)
        if named.endswith((".py", ".onnx", ".json", ".mindir", ".pt2", ".pt")) or "/" in named:
            paths.insert(0, named)
    for path in paths:
        if not Path(path).exists():
            raise missing_file(path)


def verify_written(
    graph: Graph,
    rewritten: Graph,
    files: list[Path],
    out: Path,
    target: str,
    oracle: str | Path | None = None,
    recipes: Recipes | None = None,
    pieces: bool | None = None,
    behind: WritingBehind | None = None,
) -> Report:
    """Compare what was written with the source, or with the rewritten graph if passes added inputs.

    Args:
        graph: the source's graph, before any pass.
        rewritten: the graph after the passes.
        files: what was written.
        out: the file or directory that was asked for.
        target: a key of `backends.TARGETS`.
        oracle: a Python in which the source runs itself; see `verify`.
        recipes: the source's training script and the one that was written; see `verify`.
        pieces: whether both sides run in pieces; see `verify`.
        behind: what is still to be written of the files.
    """
    if behind is not None and find_target(target).is_read_back:
        behind.finish()
    written: Graph | Path = out
    renames: Path | None = None
    if find_target(target).is_read_back:  # what the target would read
        written = read(files[0], dict(rewritten.origin.inputs), LoadOptions())
        renames = next((f for f in files if f.name.endswith("renames.json")), None)
    graph = _ended_alike(graph, rewritten)
    if choose_comparable(graph, rewritten) is graph:
        train = recipes is not None
        return verify(
            graph,
            written,
            renames=renames,
            oracle=oracle,
            train=train,
            recipes=recipes,
            pieces=pieces,
            behind=behind,
            written=True,
        )
    if behind is not None:
        behind.finish()
    report = verify(graph, restrict(rewritten, [n.name for n in graph.input_nodes()]), oracle=oracle)
    return verify(rewritten, written, renames=renames, written=True) if report.passed else report


def _ended_alike(graph: Graph, rewritten: Graph) -> Graph:
    """Return the source, ended where the rewritten graph is; what is left of it runs as it was lowered."""
    if not rewritten.origin.ends:
        return graph
    ended = graph.copy()
    for source, at in rewritten.origin.ends:
        end_at(ended, source, at)
    ended.origin = replace(ended.origin, model=None)
    return ended


def choose_comparable(graph: Graph, rewritten: Graph) -> Graph:
    """Return the source, or the rewritten graph if passes added inputs or outputs."""
    same = len(graph.inputs) == len(rewritten.inputs) and len(graph.outputs) == len(rewritten.outputs)
    return graph if same else rewritten
