"""Checkpoints in several files: an index beside them says which tensor is where, as large models have it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from ..formats.shard_index import DEFAULT_SIZE, INDEX, MINDSPORE_INDEX, Shard, parse_size, split
from ..ir import ModelError, TensorData, read_json, require_name
from ..ir.outside.links import file_beside

_SUFFIX = ".index.json"

_KNOWN = ("model.safetensors", "pytorch_model.bin")
"""Files that hold the weights in Hugging Face's folders, beside others of a trainer or in other formats."""


def find_checkpoint(folder: Path, suffixes: Sequence[str]) -> Path:
    """Return the checkpoint of a folder: the index of its shards, or the one file that it has.

    Args:
        folder: the folder.
        suffixes: those of the files that are looked for where there is no index.

    Raises:
        ModelError: when there is none, or there are several.
    """
    found = indexes_in(folder) or [folder / name for name in _KNOWN if (folder / name).is_file()][:1]
    found = found or [p for p in sorted(folder.iterdir()) if p.suffix in suffixes and p.is_file()]
    if len(found) != 1:
        count = len(found) or "none"
        what = "one index of shards in the folder, such as `model.safetensors.index.json`"
        raise ModelError(
            "E101",
            f"expected {what}, got {count}",
            place=str(folder),
            hint="name the file itself, where the parameters are in one",
        )
    return found[0]


def is_index(path: Path) -> bool:
    """Whether a path is named as an index of shards is."""
    return path.name.endswith(_SUFFIX) or path.name == MINDSPORE_INDEX


def indexes_in(folder: Path) -> list[Path]:
    """Return the indexes of a folder, one of those that stand for each other."""
    found = {path.name: path for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    if INDEX in found:  # the same weights as files of torch, which Hugging Face's folders have beside them
        found.pop("pytorch_model.bin.index.json", None)
    if (folder / MINDSPORE_INDEX).is_file():
        other = found.get(INDEX)
        if other is None or _places(other) != _places(folder / MINDSPORE_INDEX):
            found[MINDSPORE_INDEX] = folder / MINDSPORE_INDEX
    return [*found.values()]


def require_whole(path: Path) -> None:
    """Check that a file is not one of several which an index beside it lists.

    Raises:
        ModelError: E101 otherwise.
    """
    if path.is_dir() or is_index(path):
        return
    for index in indexes_in(path.parent):
        shards = set(_places(index).values())
        if len(shards) > 1 and path.name in shards:
            raise ModelError(
                "E101",
                f"expected all weights of a model, got one of {len(shards)} shards",
                place=str(path),
                hint=f"name the index, which lists them: {index}",
            )


def read_shards(index: Path, read: Callable[[Path], dict[str, TensorData]]) -> dict[str, TensorData]:
    """Return the tensors of all shards by name, none of them loaded.

    Args:
        index: a JSON object whose `weight_map` has the file of every tensor, beside it; MindSpore's may be
            that map itself.
        read: reads one shard.

    Raises:
        ModelError: when the index or a shard is missing or malformed, or a shard does not have what the index
            says and nothing else.
    """
    places = _places(index)
    shards: dict[str, dict[str, TensorData]] = {}
    for name, file in places.items():
        require_name(name, "the name of a tensor", str(index))
        if file != Path(file).name or "\\" in file or file in ("", ".", "..") or is_index(Path(file)):
            raise ModelError("E101", f"expected a file beside the index, got `{file}`", place=str(index))
        shards.setdefault(file, {})
    missing = [file for file in shards if not os.path.lexists(index.parent / file)]
    if missing:
        total, there, first = len(shards), len(shards) - len(missing), missing[0]
        raise ModelError(
            "E101",
            f"expected {total} shards beside the index, got {there} and no `{first}`",
            place=str(index),
            hint="download or copy the whole folder",
        )
    for file in shards:
        file_beside(index, file)  # which refuses a link that leads elsewhere
        shards[file] = read(index.parent / file)
    for name, file in places.items():
        if name not in shards[file]:
            raise ModelError("E101", f"expected `{name}` in `{file}`, as the index says", place=str(index))
    for file, tensors in shards.items():
        stray = [name for name in tensors if places.get(name) != file]
        if stray:
            name, other = stray[0], places.get(stray[0])
            raise ModelError(
                "E101",
                f"expected `{file}` to match the index, got `{name}`, which the index has in `{other}`"
                if other
                else f"expected `{file}` to match the index, got `{name}`, which the index does not have",
                place=str(index),
                hint="a shard of another checkpoint has that name: copy the whole folder again",
            )
    return {name: shards[file][name] for name, file in places.items()}


def _places(index: Path) -> dict[str, str]:
    """Return the file of every tensor, as an index says it."""
    document = read_json(index)
    places = cast("object", document.get("weight_map")) if isinstance(document, dict) else None
    if places is None and index.name == MINDSPORE_INDEX:
        places = document
    if not isinstance(places, dict) or not all(
        isinstance(f, str) for f in cast("dict[str, object]", places).values()
    ):
        raise ModelError("E101", "expected `weight_map`: the file of every tensor", place=str(index))
    return cast("dict[str, str]", places)


def plan_shards(tensors: Mapping[str, TensorData], size: int | str | None) -> list[Shard]:
    """Return the .safetensors files of a folder that tensors go to.

    Args:
        tensors: values by name.
        size: most bytes of a file; None for `DEFAULT_SIZE`.

    Raises:
        UsageError: for a size that is none.
    """
    sizes = {name: data.nbytes for name, data in tensors.items()}
    return split(sizes, parse_size(DEFAULT_SIZE if size is None else size), ("model", ".safetensors"))


def write_shards(folder: Path, tensors: Mapping[str, TensorData], shards: Sequence[Shard]) -> None:
    """Write shards and their index, one tensor in memory at a time.

    Raises:
        BackendError: for an element type that the format does not have.
    """
    from ..formats.safetensors_file import write_shards as write_values  # few need it

    write_values(folder, [(name, data, data.shape) for name, data in tensors.items()], shards)
