"""Certifies that two models compute the same, exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats.files import settle_beside, staged
from ..frontends import Inputs
from ..ir import Graph, UsageError
from ..process.entry import public_call
from ..process.progress import phase
from .verdicts import folded, read_back

if TYPE_CHECKING:
    from ..verification.certificate import Certified


@phase("certify")
@public_call()
def certify(
    source: object,
    target: object,
    inputs: Inputs = None,
    *,
    output: str | Path = "certificate.json",
    seed: int | None = None,
    units: float = 0.5,
    **options: Any,
) -> Certified:
    """Write a certificate that two models compute the same, and check it.

    Both graphs are evaluated exactly, so that nothing is measured against a tolerance; anybody checks the
    certificate again with ``regraft-recheck``, which needs NumPy alone.

    Args:
        source: a graph of `load`, or any model that `load` takes.
        target: likewise, or a directory that `save` wrote, whose ``model.py`` is run.
        inputs: as in `load`; None for the graph's own example inputs.
        output: the file of the certificate; its tensors go into a file of safetensors beside it.
        seed: decides the primes of the check; None draws them afresh.
        units: most units in the last place by which a rounded constant may differ from the expression that it
            is the rounding of; 0.5 is its exact rounding.
        options: loading options of the source, as in `load`.

    Returns:
        The result; `passed` is True where every output is certified, up to what its grade names.

    Raises:
        ModelError: when a side cannot be read as a graph, or their inputs differ.
        UsageError: when the files cannot be written, or the tensors' would replace another's (E002).
    """
    from ..verification.certificate import certify_graphs
    from . import load

    settle_beside(source, target)
    graph = source if isinstance(source, Graph) else load(source, inputs, **options)
    other = target if isinstance(target, Graph) else read_back(target, graph, options)
    path = Path(output)
    beside = path.with_suffix(".safetensors")
    if beside.exists() and not path.exists():  # no tensors of an earlier certificate: a checkpoint, maybe
        raise UsageError("E002", f"`{beside}` exists already", hint="give --output another name")
    with staged(path.parent, [path.name, beside.name], force=True) as stage:
        made = certify_graphs(graph, other, stage / path.name, folded=folded(graph), seed=seed, units=units)
    return replace(made, path=path, tensors=beside if made.tensors else None)


def certificate_beside(output: Path) -> Path:
    """Return the file of the certificate of an output: in its directory, or beside its file."""
    return output / "certificate.json" if output.is_dir() else output.with_suffix(".certificate.json")
