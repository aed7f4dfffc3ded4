"""Checkpoints of every framework: read lazily, written tensor by tensor, converted and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats.files import staged
from ..formats.shard_index import earlier_files, file_names
from ..ir import ModelError, TensorData, UsageError, require_file
from ..ir.outside.file_kinds import TITLES, kind_of
from .parts import part_of
from .shards import find_checkpoint, indexes_in, is_index, plan_shards, read_shards, write_shards

if TYPE_CHECKING:
    from .optimizer_state import OptimizerState

__all__ = ["READABLE", "WRITABLE", "read_checkpoint", "read_training", "write_checkpoint"]

READABLE = (".ckpt", ".safetensors", ".params", ".pth", ".pt", ".bin", ".tar", ".onnx", ".mindir")
"""Suffixes by which checkpoints are known; what a file is, its first bytes tell where they can."""
WRITABLE = (".ckpt", ".safetensors", ".params", ".pth", ".pt")

_READ = {"torch", "safetensors", "params", "ckpt", "onnx", "mindir"}
_BY_SUFFIX = {".pth": "torch", ".pt": "torch", ".bin": "torch", ".tar": "torch"}
_ADVICE = {
    "lfs": "download it: git lfs pull",
    "html": "download the file itself, and not the page that shows it",
    "torchscript": "its weights alone: torch.save(torch.jit.load(FILE).state_dict(), NEW)",
    "exported": "its weights alone: torch.save(torch.export.load(FILE).state_dict, NEW)",
    "tar": "unpack it first",
    "gzip": "unpack it first",
    "npz": "arrays of names go into a file with safetensors.numpy.save_file(dict(numpy.load(FILE)), NEW)",
    "hdf5": "write its arrays by name with safetensors.numpy.save_file",
}


def read_checkpoint(
    path: Path | str, notes: list[str] | None = None, part: str | None = None
) -> dict[str, TensorData]:
    """Return the tensors of a checkpoint by name, none of them loaded.

    Args:
        path: a file, the index of a checkpoint in shards, or a folder that has one, or one such file. The
            first bytes tell what a file is, whatever its name is; a suffix of `READABLE` where they do not.
        notes: gets a sentence where something of the file was not read.
        part: which of several sets of tensors in the file is read: a key of a file of torch.save, or what
            their names begin with.

    Raises:
        UsageError: when neither name nor content are of a checkpoint.
        ModelError: when the file is missing, truncated, malformed or holds anything but tensors, or has no
            such part.
    """
    path, notes = _located(Path(path)), [] if notes is None else notes
    if is_index(path):
        return part_of(read_shards(path, read_checkpoint), part, path)
    kind = checkpoint_kind(path)
    if kind == "torch":
        from .torch_states import TorchStates

        return TorchStates(path, part).tensors(notes)
    if kind == "safetensors":
        from ..formats.safetensors_file import read_safetensors as read
    elif kind == "params":
        from .params_file import read_params as read
    elif kind == "onnx":
        from .onnx_states import read_onnx_state as read
    elif kind == "mindir":
        from ..frontends.mindspore_cell.saved import read_parameters as read
    else:
        from ..formats.ckpt import read_ckpt as read
    return part_of(read(path), part, path)


def read_training(
    path: Path | str, notes: list[str], part: str | None = None
) -> tuple[dict[str, TensorData], OptimizerState | None]:
    """Return (the weights of a checkpoint as `read_checkpoint` gives them, what an optimizer keeps of them).

    MindSpore's slots are tensors of the file like any other, and no weights here; MXNet keeps its in files of
    their own.
    """
    path = _located(Path(path))
    kind = "safetensors" if is_index(path) else checkpoint_kind(path)
    if kind == "torch":
        from .torch_states import TorchStates

        file = TorchStates(path, part)
        tensors = file.tensors(notes)
        return tensors, file.optimizer(tensors)
    if kind in ("params", "onnx", "mindir"):
        return read_checkpoint(path, notes, part), None
    from .optimizer_state import split_slots

    weights, state = split_slots(read_checkpoint(path, notes), notes)
    if part is None:
        return weights, state
    return part_of(weights, part, path), None


def _located(path: Path) -> Path:
    """Return the checkpoint of a folder, else the path; its reader refuses a folder with a file's name."""
    return find_checkpoint(path, WRITABLE) if path.is_dir() and path.suffix not in READABLE else path


def holds_one(folder: Path) -> bool:
    """Whether a folder is one checkpoint in shards, or an emitted net with its own, rather than several."""
    return folder.is_dir() and ((folder / "renames.json").is_file() or bool(indexes_in(folder)))


def checkpoint_kind(path: Path) -> str:
    """Return the kind of a file of weights, by its first bytes or, where these do not decide, its suffix.

    Raises:
        UsageError: for a file of another kind by name, whose content says nothing.
        ModelError: when it cannot be read, or is of a kind that is not read.
    """
    if path.suffix not in READABLE and path.suffix and not path.exists():
        raise UsageError("E001", f"expected a checkpoint ({', '.join(READABLE)}), got `{path}`")
    require_file(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ModelError("E101", f"cannot read `{path}`: {error.strerror}") from error
    kind = kind_of(path)
    if kind in _READ:
        return kind
    if kind in _ADVICE:
        raise ModelError(
            "E101", f"expected a checkpoint, got {TITLES[kind]}", place=str(path), hint=_ADVICE[kind]
        )
    if path.suffix not in READABLE:
        raise UsageError("E001", f"expected a checkpoint ({', '.join(READABLE)}), got `{path}`")
    return _BY_SUFFIX.get(path.suffix, path.suffix.removeprefix("."))


def write_checkpoint(
    path: Path | str,
    tensors: Mapping[str, Any],
    *,
    force: bool = False,
    max_shard_size: int | str | None = None,
) -> None:
    """Write a checkpoint, one tensor in memory at a time; it appears when it is whole.

    Args:
        path: a file whose suffix is in `WRITABLE`: ``.pth`` and ``.pt`` become a plain dictionary of tensors.
            A folder gets .safetensors files and their index.
        tensors: values by name, written in this order; in ``.params`` names carry MXNet's ``arg:``, ``aux:``;
            a ``.pth`` may hold dictionaries of them.
        force: whether a file that exists may be replaced.
        max_shard_size: most bytes of a file of a folder, a number or text such as ``2GB``; None for ``5GB``.

    Raises:
        UsageError: when the suffix is none that is written, a file exists, or a file is to have shards.
        BackendError: for an element type that the format does not have.
    """
    path = Path(path)
    if is_folder(path, max_shard_size):
        shards = plan_shards(tensors, max_shard_size)
        with staged(path, file_names(shards), force=force, obsolete=earlier_files(path)) as folder:
            write_shards(folder, tensors, shards)
        return
    if path.suffix not in WRITABLE:
        raise UsageError("E001", f"expected a checkpoint to write ({', '.join(WRITABLE)}), got `{path}`")
    if path.is_dir():
        raise UsageError("E002", f"expected a file, got the directory `{path}`")
    write = _writer(path.suffix)
    with staged(path.parent, [path.name], force=force) as folder:
        write(folder / path.name, tensors)


def is_folder(path: Path, max_shard_size: int | str | None = None) -> bool:
    """Whether a checkpoint that is to be written is a folder of shards.

    Raises:
        UsageError: when a file is to have shards.
    """
    if path.suffix in WRITABLE and max_shard_size is not None:
        raise UsageError("E001", f"expected a folder for shards, got the file `{path}`")
    return path.suffix not in WRITABLE and (not path.suffix or path.is_dir() or max_shard_size is not None)


def _writer(suffix: str) -> Callable[[Path, Mapping[str, TensorData]], None]:
    if suffix in (".pth", ".pt"):
        from ..formats.torch_file import write_torch

        return write_torch
    if suffix == ".params":
        from ..formats.params_file import write_params

        return lambda path, tensors: write_params(path, tensors.items())
    if suffix == ".safetensors":
        from ..formats.safetensors_file import write_safetensors as write
    else:
        from ..formats.ckpt import write_ckpt as write
    return lambda path, tensors: write(path, [(name, data, data.shape) for name, data in tensors.items()])
