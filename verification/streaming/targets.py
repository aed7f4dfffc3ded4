"""The targets that run in pieces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ...formats.written_behind import Await
from ..runners.registry import runtime_of_output
from ..runners.runs import Runner
from ..structure.sharing import Held
from .exact_constants import ExactConstants
from .handover import Give
from .pace import Read


class PiecesTarget(Runner, Protocol):
    """The output of a source, run in pieces.

    Attributes:
        read: gets the bytes of weights before they are read.
        has_read: gets the name of a weight when it has been read.
        give: gets what each recorded call of a module gives, as soon as it is there.
    """

    read: Read
    has_read: Callable[[str], None]
    give: Give

    def held(self) -> list[Held]:
        """Return every tensor, each once."""
        ...

    @property
    def calls(self) -> Mapping[str, Mapping[str, Any]]:
        """Name of a call -> the names in `moved` of what enters and leaves it."""
        ...

    @property
    def moved(self) -> Mapping[str, float]:
        """The possible movement of the last run's values by constants rounded to a narrow type, by name."""
        ...

    def gives(self, call: str) -> bool:
        """Whether a run gives what a call of a module gives."""
        ...

    def stated_types(self) -> Sequence[str] | None:
        """Return the element types of the outputs as the file states them; None where it states none."""
        ...


def target_in_pieces(
    path: Path,
    *,
    threads: int | None,
    wide: bool,
    budget: int,
    weights: Collection[str],
    literals: Sequence[float],
    constants: ExactConstants,
    wait_for: Await,
) -> PiecesTarget:
    """Return a runner of a target.

    Args:
        path: an ``.onnx`` file, or an emitted folder.
        threads: for ONNX Runtime.
        wide: whether to compute in float32 what is narrower.
        budget: bytes of weights in one piece.
        weights: names of the source's tensors in the target.
        literals: numbers of the source, which constants of the target may be rounded from.
        constants: arrays of the source, likewise.
        wait_for: called before bytes of its files are read, which may still be written.
    """
    runtime = runtime_of_output(path)
    assert runtime is not None
    made: PiecesTarget = import_module(f".{runtime.pieces}", __package__).output_in_pieces(
        path,
        threads=threads,
        wide=wide,
        budget=budget,
        weights=weights,
        literals=literals,
        constants=constants,
        wait_for=wait_for,
    )
    return made
