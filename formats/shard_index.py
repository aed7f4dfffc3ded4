"""Checkpoints in several files of bounded size, with an index that says which tensor is in which.

The index has the name and form that Hugging Face's libraries and MindSpore's ports of them read: a JSON
object with a `weight_map`. `mindspore.load_distributed_checkpoint` and MindSpore Transformers look for it
under a name of their own: both names are written, except where only another framework's source reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..ir import UsageError

INDEX = "model.safetensors.index.json"
MINDSPORE_INDEX = "param_name_map.json"
INDEXES = (INDEX, MINDSPORE_INDEX)

DEFAULT_SIZE = "5GB"
"""The size of a shard where a folder is asked for and no size is given, as in Hugging Face's libraries."""

_MADE_BY = {"made_by": "regraft"}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE)
_SHARD = re.compile(r"model-\d{5,}-of-\d{5,}\.safetensors")
_LARGEST_INDEX = 1 << 28


def parse_size(size: int | str) -> int:
    """Return a size in bytes: a number of them, or text such as ``2GB`` (10⁹) and ``2GiB`` (2³⁰).

    Raises:
        UsageError: E001 for anything else, and for less than a byte.
    """
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is not None:
        power = " KMGT".index(found["prefix"].upper() or " ")
        size = int(float(found["number"]) * (1024 if found["binary"] else 1000) ** power)
    if not isinstance(size, int) or size < 1:
        raise UsageError("E001", f"expected a shard size such as `2GB` or `500MB`, got `{size}`")
    return size


def require_shardable(format_: str | None) -> None:
    """Check that a checkpoint format can be written in shards; None stands for one that regraft chooses.

    Raises:
        UsageError: E001 for any but safetensors.
    """
    if format_ not in (None, "safetensors"):
        raise UsageError("E001", f"expected `safetensors` as the format of shards, got `{format_}`")


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of a checkpoint.

    Attributes:
        file: its name.
        names: the tensors in it, in order.
    """

    file: str
    names: tuple[str, ...]


def split(sizes: Mapping[str, int], limit: int, around: tuple[str, str]) -> list[Shard]:
    """Divide tensors among files, in order; one that is larger than a file's limit has a file of its own.

    Args:
        sizes: name of a tensor -> its bytes.
        limit: bytes of tensors in a file.
        around: what stands in a file's name before and after ``-00001-of-00003``; a file that holds all is
            named by these two alone.
    """
    groups: list[list[str]] = []
    held = 0
    for tensor, size in sizes.items():
        if not groups or (held and held + size > limit):
            groups.append([])
            held = 0
        groups[-1].append(tensor)
        held += size
    if len(groups) < 2:
        return [Shard("".join(around), tuple(sizes))]
    return [
        Shard(f"-{number:05}-of-{len(groups):05}".join(around), tuple(names))
        for number, names in enumerate(groups, 1)
    ]


def write_index(
    folder: Path, shards: Sequence[Shard], sizes: Mapping[str, int], names: Sequence[str] = INDEXES
) -> None:
    """Write the index of shards, under each of its names."""
    index = {
        "metadata": {**_MADE_BY, "total_size": sum(sizes.values())},
        "weight_map": {name: shard.file for shard in shards for name in shard.names},
    }
    text = json.dumps(index, indent=2, ensure_ascii=False) + "\n"
    for name in names:
        (folder / name).write_text(text, encoding="utf-8")


def file_names(shards: Sequence[Shard], indexes: Sequence[str] = INDEXES) -> list[str]:
    """Return the names of all files of a checkpoint in shards, the index last; of one file, its own."""
    files = [shard.file for shard in shards]
    return [*files, *indexes] if len(files) > 1 else files


def earlier_files(folder: Path) -> list[str]:
    """Return the files of a checkpoint in shards that regraft wrote into a folder before, by their index.

    Shards beside another's index are no files of ours.
    """
    try:
        if (folder / INDEX).stat().st_size > _LARGEST_INDEX:
            return []
        found = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        ours = _MADE_BY.items() <= found["metadata"].items()
        files = set(found["weight_map"].values()) if ours else set()
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []
    return [*sorted(_only_shards(files)), INDEX, MINDSPORE_INDEX] if files else []


def _only_shards(files: Iterable[object]) -> Iterable[str]:
    return (file for file in files if isinstance(file, str) and _SHARD.fullmatch(file))
