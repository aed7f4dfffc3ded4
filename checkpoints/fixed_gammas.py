"""Scales of MXNet's BatchNorm that count as 1 whatever is stored: ``fix_gamma``, which is its default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..frontends.mxnet_symbol.files_beside import symbol_beside
from ..frontends.mxnet_symbol.fixed_gammas import fixed_gammas
from ..ir import TensorData, numpy_dtype
from . import checkpoint_kind
from .shards import is_index

_SHOWN = 3


def with_fixed_gammas(given: Mapping[str, TensorData], path: Path, notes: list[str]) -> dict[str, TensorData]:
    """Return the tensors of a checkpoint as the symbol beside it uses them.

    Args:
        given: the tensors.
        path: the file; nothing happens where it is not MXNet's, or no symbol lies beside it.
        notes: gets the scales that are stored otherwise.
    """
    symbol = symbol_beside(path) if _is_params(path) else None
    if symbol is None:
        return dict(given)
    fixed = [name for name in fixed_gammas(symbol, path) if name in given and not _is_ones(given[name])]
    if fixed:
        notes.append(f"{_listed(fixed)}: taken as 1, as fix_gamma in `{symbol.name}` says, not as stored")
    return {**given, **{name: _ones(given[name]) for name in fixed}}


def doubtful_gammas(given: Mapping[str, TensorData], path: Path) -> list[str]:
    """Return the scales in a file of MXNet without its symbol that are not 1 and may count as 1.

    They are a symbol's: those of a Gluon block have dots in their names, and nothing fixes them by default.
    """
    if not _is_params(path) or symbol_beside(path) is not None:
        return []
    return [
        name
        for name in given
        if "." not in name
        and name.endswith("_gamma")
        and not given.keys().isdisjoint(name.replace("_gamma", f"_{s}_mean") for s in ("moving", "running"))
        and not _is_ones(given[name])
    ]


def doubt(names: Sequence[str], path: Path) -> str:
    """Return a note on such scales."""
    beside = f"{path.stem.rpartition('-')[0] or path.stem}-symbol.json"
    return (
        f"{_listed(names)}: carried over as stored, which is not 1; where the symbol has fix_gamma, "
        f"BatchNorm's default, it counts as 1: put it beside the file, as `{beside}`, to have that"
    )


def _is_params(path: Path) -> bool:
    return not path.is_dir() and not is_index(path) and checkpoint_kind(path) == "params"


def _is_ones(data: TensorData) -> bool:
    return bool((data.numpy() == 1).all())


def _ones(data: TensorData) -> TensorData:
    return TensorData(data.dtype, data.shape, lambda: np.ones(data.shape, numpy_dtype(data.dtype)))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
