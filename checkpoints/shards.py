"""Checkpoints in several files: an index beside them says which tensor is where, as large models have it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

from ..ir import ModelError, TensorData, require_file, require_name

INDEX = ".index.json"
_MOST = 2**28
"""Bytes of an index; one of a hundred thousand tensors has ten million."""


def index_of(path: Path) -> Path | None:
    """Return the index that a path names: itself, or the one of a folder; None for anything else.

    Raises:
        ModelError: for a folder without an index, or with several.
    """
    if path.name.endswith(INDEX):
        return path
    if not path.is_dir():
        return None
    found = sorted(path.glob(f"*{INDEX}"))
    if len(found) != 1:
        count = len(found) or "none"
        raise ModelError(
            "E101",
            f"expected one index of shards in the folder, such as `model.safetensors{INDEX}`, got {count}",
            place=str(path),
            hint="name the file itself, where the parameters are in one",
        )
    return found[0]


def read_shards(index: Path, read: Callable[[Path], dict[str, TensorData]]) -> dict[str, TensorData]:
    """Return the tensors of all shards by name, none of them loaded.

    Args:
        index: a JSON object whose `weight_map` has the file of every tensor, beside it.
        read: reads one shard.

    Raises:
        ModelError: when the index or a shard is missing or malformed, or does not have what the index says.
    """
    if require_file(index) > _MOST:
        raise ModelError(
            "E101", f"expected an index of shards, got {index.stat().st_size} bytes", place=str(index)
        )
    try:
        document = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            "E101", f"expected an index of shards in JSON, got {error}", place=str(index)
        ) from error
    places = cast("object", document.get("weight_map")) if isinstance(document, dict) else None
    if not isinstance(places, dict) or not all(
        isinstance(f, str) for f in cast("dict[str, object]", places).values()
    ):
        raise ModelError("E101", "expected `weight_map`: the file of every tensor", place=str(index))
    shards: dict[str, dict[str, TensorData]] = {}
    tensors: dict[str, TensorData] = {}
    for name, file in cast("dict[str, str]", places).items():
        require_name(name, "the name of a tensor", str(index))
        if file != Path(file).name or file in ("", ".", "..") or file.endswith(INDEX):
            raise ModelError("E101", f"expected a file beside the index, got `{file}`", place=str(index))
        if file not in shards:
            shards[file] = read(index.parent / file)
        if name not in shards[file]:
            raise ModelError("E101", f"expected `{name}` in `{file}`, as the index says", place=str(index))
        tensors[name] = shards[file][name]
    return tensors
