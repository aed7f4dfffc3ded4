"""The options of the library's front door as one record."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..frontends import LoadOptions
from ..ir import TensorData


def loading(
    *,
    params: str | Path | None = None,
    part: str | None = None,
    dynamic_batch: bool = True,
    dynamic: Mapping[str, Sequence[int]] | None = None,
    arguments: Mapping[str, object] | None = None,
    partial: bool = False,
    trust: bool = False,
    keep_prints: bool = False,
    meta: bool = False,
    constants: Mapping[str, object] | None = None,
) -> LoadOptions:
    """Return the options of `api.load` as one record; any other is a TypeError."""
    return LoadOptions(
        Path(params) if params is not None else None,
        dynamic_batch,
        {name: tuple(axes) for name, axes in (dynamic or {}).items()},
        dict(arguments or {}),
        partial,
        trust,
        keep_prints,
        values=functools.partial(_values, part=part),
        align=_align,
        meta=meta,
        constants=dict(constants or {}),
    )


def _values(path: Path, notes: list[str], *, part: str | None) -> Mapping[str, TensorData]:
    """Return the weights of a whole checkpoint, without what an optimizer keeps of them."""
    from ..checkpoints import read_training
    from ..checkpoints.shards import require_whole

    require_whole(path)
    return read_training(path, notes, part)[0]


def _align(
    given: Mapping[str, TensorData], wanted: Mapping[str, tuple[int, ...] | None], notes: list[str]
) -> Mapping[str, TensorData]:
    """Return the weights by the names of a model, without or with what wrappers put before or into names."""
    from ..checkpoints.prefixes import aligned
    from ..checkpoints.slots import without_globals

    return aligned(without_globals(given, wanted, notes), wanted, notes, insert=True)
