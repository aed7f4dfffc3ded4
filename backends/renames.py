"""``renames.json``: source name -> target name of every parameter, versioned and invertible."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..ir import Graph, ModelError, Parameter

VERSION = 1


@dataclass(frozen=True, slots=True)
class Rename:
    """One parameter's way from the source to the target.

    Attributes:
        source: declared name in the source.
        source_path: module path that held it in the source (distinct even where declared names collide).
        target: name in the target's checkpoint.
        by: the pass that renamed or tied it, or the backend's convention; empty when the name is the same.
        transform: what happens to the values: "identity", "reshape", or "transpose:1,0".
        shape: shape in the source.
        target_shape: shape in the target.
        dtype: element type.
        tie: target name of the parameter that holds the values, when this one was tied into it.
    """

    source: str
    source_path: str
    target: str
    by: str = ""
    transform: str = "identity"
    shape: list[int] = field(default_factory=list)
    target_shape: list[int] = field(default_factory=list)
    dtype: str = "float32"
    tie: str = ""


def rename_rows(
    graph: Graph, targets: dict[int, tuple[str, str, tuple[int, ...]]] | None = None
) -> list[Rename]:
    """The rows of a graph.

    Args:
        graph: after the passes.
        targets: parameter key -> (target name, transform, target shape) where the backend changes any.
    """
    rows: list[Rename] = []
    paths = graph.parameter_paths()
    for parameter in graph.parameters():
        target, transform, shape = (targets or {}).get(
            parameter.key, (parameter.name, "identity", parameter.data.shape)
        )
        rows.append(_row(parameter, parameter.declared, paths, target, transform, shape, tie=""))
        rows += [
            _row(parameter, declared, paths, target, transform, shape, tie=target)
            for declared in parameter.absorbed
        ]
    return rows


def _row(
    parameter: Parameter,
    declared: str,
    paths: dict[int, list[str]],
    target: str,
    transform: str,
    shape: tuple[int, ...],
    tie: str,
) -> Rename:
    held = paths.get(parameter.key, [])
    path = declared if tie and declared in held else held[0] if held else declared
    by = "tie-weights" if tie else "rename-parameters" if declared != parameter.name else ""
    if not by and target != declared:
        by = "backend"
    return Rename(
        declared,
        path,
        target,
        by,
        transform,
        list(parameter.data.shape),
        list(shape),
        parameter.data.dtype,
        tie,
    )


def write_renames(
    path: Path, rows: Sequence[Rename], *, source: str, target: str, modules: dict[str, str] | None = None
) -> None:
    """Write ``renames.json``.

    Args:
        path: the file.
        rows: one per parameter.
        source: framework of the source.
        target: framework of the target.
        modules: source module path -> target module path, where they differ.
    """
    document = {
        "format": "regraft-renames",
        "version": VERSION,
        "source": source,
        "target": target,
        "modules": modules or {},
        "parameters": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_renames(path: Path) -> dict[str, object]:
    """Read ``renames.json``.

    Raises:
        ModelError: when it is missing, malformed or of another version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError("E101", f"cannot read `{path}`: {error}") from error
    if (
        not isinstance(document, dict)
        or document.get("format") != "regraft-renames"
        or document.get("version") != VERSION
    ):
        raise ModelError("E101", f"expected a renames.json of version {VERSION}", place=str(path))
    return document
