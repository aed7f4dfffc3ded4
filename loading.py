"""The options of the library's front door as one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .frontends import LoadOptions
from .ir import TensorData


def loading(
    *,
    params: str | Path | None = None,
    dynamic_batch: bool = True,
    dynamic: Mapping[str, Sequence[int]] | None = None,
    arguments: Mapping[str, object] | None = None,
    partial: bool = False,
    trust: bool = False,
    keep_prints: bool = False,
    meta: bool = False,
    constants: Mapping[str, object] | None = None,
) -> LoadOptions:
    """The options of `api.load` as one record; any other is a TypeError."""
    return LoadOptions(
        Path(params) if params is not None else None,
        dynamic_batch,
        {name: tuple(axes) for name, axes in (dynamic or {}).items()},
        dict(arguments or {}),
        partial,
        trust,
        keep_prints,
        values=_values,
        meta=meta,
        constants=dict(constants or {}),
    )


def _values(path: Path) -> Mapping[str, TensorData]:
    """The weights of a checkpoint, without what an optimizer keeps of them."""
    from .checkpoints import read_training

    return read_training(path, [])[0]
