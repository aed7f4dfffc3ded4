"""Decides whether a comparison runs in pieces, and refuses what cannot be compared so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...ir import Graph, UsageError
from ...ir.outside.memory_limits import memory_limit
from ..runners.registry import runtime_of_output

_SMALLEST, _LARGEST = 1 << 24, 1 << 28
"""Bounds of the bytes of weights in one piece."""


WITHOUT_LAWS = "initial distributions were not compared: to draw them takes as much memory as all weights"
"""Note on a folder of source that was compared in pieces."""

_CHEAPER = 1 << 30
"""Bytes of weights above which pieces cost less than the whole: it computes no gradients there either, and
copies what pieces read where it lies. Below, it shows which weights move an output, and costs seconds."""


def is_large(graph: Graph) -> bool:
    """Whether the weights of a graph are more than half of the memory."""
    return 2 * _size(graph) > memory_limit()


def costs_less_in_pieces(graph: Graph) -> bool:
    """Whether a graph has so many weights that it costs less to run it in pieces."""
    return _size(graph) > _CHEAPER or is_large(graph)


def chooses_pieces(source: Graph, target: object, others: Sequence[object] = ()) -> bool:
    """Whether a comparison runs in pieces that nobody asked for: because it costs less, or can only run so.

    Args:
        source: the source.
        target: the target.
        others: what else is compared than the forward pass; all falsy where nothing is.
    """
    if _obstacle(source, target):
        return False
    cheaper = costs_less_in_pieces(source) or computes_wide(source, Path(str(target)))
    return is_large(source) or (cheaper and not any(others))


def computes_wide(source: Graph, target: Path) -> bool:
    """Whether numbers of bfloat16 are compared in float32, as the target's runtime lacks them on the CPU."""
    runtime = runtime_of_output(target)
    narrow = runtime is None or not runtime.has_bfloat16
    return narrow and any(p.data.dtype == "bfloat16" for p in source.parameters())


def _size(graph: Graph) -> int:
    return sum(p.data.nbytes for p in graph.parameters())


def require_pieces(source: Graph, target: object, others: Sequence[object] = ()) -> None:
    """Check that a comparison that was asked for in pieces can be made so.

    Args:
        source: the source.
        target: the target.
        others: what else was asked for; all falsy where it is the forward pass alone.

    Raises:
        UsageError: E001, with what stands against it.
    """
    why = _obstacle(source, target)
    if why:
        raise UsageError("E001", f"expected sides that run in pieces, got {why}", hint=_HINT)
    if any(others):
        raise UsageError(
            "E001",
            "expected a comparison of the forward pass alone, as the models run in pieces, got more",
            hint="leave out --train, --recipe, --oracle and recorded outputs, or give --whole",
        )


_HINT = (
    "regraft runs a PyTorch module in pieces, and an .onnx file or a folder of source that it wrote from one"
)


def _obstacle(source: Graph, target: object) -> str:
    """Explain why two sides do not run in pieces; empty if they do."""
    model = source.origin.model
    if source.origin.framework != "torch" or model is None or isinstance(model, (str, Path)):
        return f"{source.origin.reference or 'a graph'} as the source"
    if not hasattr(model, "register_forward_hook"):  # an exported programme
        return "an exported program as the source"
    if isinstance(target, (str, Path)):
        runtime = runtime_of_output(Path(target))
        if runtime is not None and runtime.pieces:
            return ""
    return f"`{target}` as the target" if isinstance(target, (str, Path)) else "a graph as the target"


def budget() -> int:
    """Return the bytes of weights that a piece may have."""
    return min(max(memory_limit() // 16, _SMALLEST), _LARGEST)
