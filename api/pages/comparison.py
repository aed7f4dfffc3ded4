"""Gathers what a page shows: the verdict, both nets, their pairs, errors, distributions, names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...checkpoints.mapping import read_map
from ...formats.renames import Rename
from ...frontends import LoadOptions, read
from ...ir import Graph, ModelError, RegraftError
from ...verification import Report
from ...verification.runners.onnx_runner import OnnxRunner
from .histograms import Tensor, bin_pairs
from .nets import Net, describe_graph, describe_onnx, short_reference

Target = Graph | Path | None
"""A graph, an ``.onnx`` file, an emitted directory, or nothing."""

_TENSORS = 4000
"""Tensors whose values a page shows: more would make it slow to open."""


class _Side:
    """One net: its description, and its tensors by every name that they have."""

    def __init__(
        self, net: Net | None, tensors: dict[str, Tensor], note: str = "", runner: OnnxRunner | None = None
    ) -> None:
        self.net, self.tensors, self.note = net, tensors, note
        self._runner = runner  # whose folder holds large tensors until they are binned

    def close(self) -> None:
        """Let go of what the tensors are read from."""
        if self._runner is not None:
            self._runner.close()

    @staticmethod
    def of_graph(graph: Graph) -> _Side:
        paths = graph.parameter_paths()
        tensors: dict[str, Tensor] = {}
        for parameter in graph.parameters():
            names = [*paths.get(parameter.key, []), parameter.name, parameter.declared]
            if parameter.data.load is not None:
                tensor = Tensor(names[0], parameter.data.numpy, parameter.initializer)
                for name in names:
                    tensors.setdefault(name, tensor)
        return _Side(describe_graph(graph), tensors)

    @staticmethod
    def of_onnx(path: Path) -> _Side:
        runner = OnnxRunner(path)
        tensors = {name: Tensor(name, held.load) for held in runner.held() for name in held.names}
        return _Side(describe_onnx(runner.model, path.name, runner.calls), tensors, runner=runner)

    @staticmethod
    def of_folder(folder: Path, source: Graph) -> _Side:
        """Return what an emitted folder holds, or why it cannot be shown."""
        try:
            inputs = list(source.origin.inputs.values()) or None
            symbol = next(iter(sorted(folder.glob("*-symbol.json"))), None)
            name = str(symbol) if symbol is not None else f"{folder / 'model.py'}:build"
            side = _Side.of_graph(read(name, inputs, LoadOptions()))
        except RegraftError as error:
            return _Side(None, {}, f"the target cannot be shown: {error.code} {error.message}")
        assert side.net is not None
        side.net.title = folder.name
        return side


def gather(
    source: Graph, target: Target = None, report: Report | None = None, renames: Sequence[Rename] = ()
) -> dict[str, Any]:
    """Return what a page shows, as plain data.

    Args:
        source: the source's graph.
        target: what it is compared with; None for a page of the source alone.
        report: what a comparison found.
        renames: where the source's parameters went; empty to take those beside a written target.
    """
    mine = _Side.of_graph(source)
    theirs = _target_side(target, source)
    try:
        return _gathered(source, mine, theirs, report, list(renames) or _written_renames(target))
    finally:
        if theirs is not None:
            theirs.close()


def _gathered(
    source: Graph, mine: _Side, theirs: _Side | None, report: Report | None, rows: list[Rename]
) -> dict[str, Any]:
    pairs = _pairs(mine, theirs, report, rows)
    data: dict[str, Any] = {
        "source": _net(mine),
        "target": _net(theirs),
        "modules": {} if report is None or report.nets is None else report.nets.modules,
        "histograms": [h.to_json() for h in bin_pairs(pairs[:_TENSORS])],
        "renames": [
            [r.source_path or r.source, r.target, r.transform, r.by, r.tie] for r in rows if _tells(r)
        ],
        "notes": [n for n in (theirs.note if theirs else "",) if n],
        "report": None if report is None else _report(report, source, theirs),
    }
    if report is None:
        data["notes"] += source.origin.notes
    if len(pairs) > _TENSORS:
        data["notes"].append(f"distributions of {len(pairs) - _TENSORS} further tensors are left out")
    return data


def _net(side: _Side | None) -> dict[str, Any] | None:
    return None if side is None or side.net is None else side.net.to_json()


def _target_side(target: Target, source: Graph) -> _Side | None:
    if isinstance(target, Graph):
        return _Side.of_graph(target)
    if isinstance(target, Path):
        return _Side.of_folder(target, source) if target.is_dir() else _Side.of_onnx(target)
    return None


def _written_renames(target: Target) -> list[Rename]:
    """Return the rows of the ``renames.json`` beside a written target."""
    if not isinstance(target, Path):
        return []
    path = target / "renames.json" if target.is_dir() else target.with_suffix(".renames.json")
    try:
        return list(read_map(path).rows) if path.is_file() else []
    except ModelError:  # a map of another kind: then names are paired as they are
        return []


def _tells(row: Rename) -> bool:
    """Whether a row says more than that a tensor kept its name and values."""
    return (row.source_path or row.source) != row.target or row.transform != "identity" or bool(row.tie)


def _pairs(
    mine: _Side, theirs: _Side | None, report: Report | None, rows: Iterable[Rename]
) -> list[tuple[Tensor | None, Tensor | None]]:
    """Return the tensors that stand for each other, in the source's order, then those of one side."""
    if theirs is None or not theirs.tensors:
        return [(tensor, None) for tensor in _distinct(mine)]
    if report is not None and report.nets is not None:
        names = [(p.source, p.target) for p in report.nets.pairs]
    else:
        renamed = {r.source_path or r.source: r.target for r in rows if r.target and not r.tie}
        names = [(t.name, renamed.get(t.name, t.name)) for t in _distinct(mine)]
    found: list[tuple[Tensor | None, Tensor | None]] = []
    for one, other in names:
        if one in mine.tensors or other in theirs.tensors:
            found.append((mine.tensors.get(one), theirs.tensors.get(other)))
    shown = {id(t) for pair in found for t in pair}
    found += [(t, None) for t in _distinct(mine) if id(t) not in shown]
    return found + [(None, t) for t in _distinct(theirs) if id(t) not in shown]


def _distinct(side: _Side) -> list[Tensor]:
    return list({id(t): t for t in side.tensors.values()}.values())


def _report(report: Report, source: Graph, target: _Side | None) -> dict[str, Any]:
    """Return a report's rows as a page needs them."""
    named = "" if target is None or target.net is None else target.net.title
    return {
        "state": report.verdict,
        "line": report.summary(),
        "covered": "" if report.coverage is None else report.coverage.line(),
        "told": "\n".join(report.causes()).strip("\n"),
        "source": _without_folder(report.source, source),
        "target": f"{named} in {report.target}" if named else report.target,
        "yardstick": report.yardstick,
        "divergence": report.first_divergence or "",
        "outputs": [
            _cells(r, "name case shape max_abs max_rel tolerance passed reason") for r in report.outputs
        ],
        "modules": [
            _cells(
                r,
                "call class_name max_abs max_rel tolerance isolated_max_abs isolated_tolerance passed reason "
                "isolated_passed unproven",
            )
            for r in report.modules
        ],
        "nodes": [_cells(r, "call class_name max_abs max_rel tolerance passed reason") for r in report.nodes],
        "training": [
            _cells(
                r,
                "parameter target gradient_max_abs step_max_abs statistic_max_abs tolerance passed reason "
                "step_tolerance",
            )
            for r in report.training
        ],
        "losses": _losses(report),
        "unproven": [
            *(f"`{name}`: {why}" for name, why in report.unproven.items()),
            *([] if report.coverage is None else report.coverage.unproved()),
        ],
        "notes": report.notes,
    }


def _cells(row: object, names: str) -> list[Any]:
    """Return attributes of a row as the page's scripts number them; a shape as it is written."""
    cells = [getattr(row, name) for name in names.split()]
    return ["x".join(map(str, cell)) or "()" if isinstance(cell, tuple) else cell for cell in cells]


def _without_folder(title: str, source: Graph) -> str:
    """Return the title of a side without the folders of its file, which are nobody else's business."""
    reference = source.origin.reference
    return title.replace(reference, short_reference(reference), 1) if reference else title


def _losses(report: Report) -> dict[str, list[float]] | None:
    """Return the losses of two training scripts step by step; None where none were followed."""
    followed = None if report.recipes is None else report.recipes.trajectory
    return None if followed is None else {"source": followed.source, "target": followed.target}
