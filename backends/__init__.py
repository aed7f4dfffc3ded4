"""Backends: each states what it can emit, legalises the rest, and writes files."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

from ..ir import Graph, UsageError

TARGETS = {"mindspore": "a directory", "onnx": "an .onnx file", "mxnet": "a directory"}
"""Target -> what its output path names."""


def infer_target(path: Path) -> str | None:
    """The target that an output path implies, or None."""
    return "onnx" if path.suffix == ".onnx" else None


def write(graph: Graph, path: Path, to: str, *, force: bool = False, **options: object) -> list[Path]:
    """Write a graph for a target; returns the files written.

    Args:
        graph: the graph, after the passes.
        path: what `TARGETS` says.
        to: a key of `TARGETS`.
        force: whether existing files may be replaced.
        options: the backend's own.

    Raises:
        UsageError: when the target does not exist, or the path or an option does not fit it.
        UnsupportedError: listing every operator that the backend can neither emit nor expand.
    """
    if to not in TARGETS:
        raise UsageError("E001", f"expected a target among {', '.join(TARGETS)}, got `{to}`")
    if to == "onnx":
        from .onnx_model import write as backend

        if path.suffix != ".onnx":
            raise UsageError("E001", f"expected an .onnx file as output, got `{path}`")
    else:
        if path.suffix == ".onnx":
            raise UsageError("E001", f"expected a directory for `{to}`, got `{path}`")
        if to == "mindspore":
            from .mindspore_source import write as backend
        else:
            from .mxnet_symbol import write as backend
    unknown = [name for name in options if name not in signature(backend).parameters]
    if unknown:
        listed = ", ".join(f"`{name}`" for name in unknown)
        raise UsageError(
            "E001",
            f"expected options of the target `{to}`, got {listed}",
            hint="leave them out for this target",
        )
    return backend(graph, path, force=force, **options)  # type: ignore[arg-type] - the names are checked above
