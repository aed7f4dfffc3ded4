"""Tells what a file is by its bytes: names of files say little of what people keep in them."""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path

_HEAD = 512
_LARGEST_HEADER = 100_000_000
"""Bytes of a safetensors header, as its own library bounds them."""

_LARGEST_PICKLE = 1 << 26
"""Bytes of a pickle that is looked through for the classes that it names."""

_HARMLESS = ("torch._utils.", "torch.storage.", "torch._tensor.", "collections.", "builtins.")
_PROTOBUF = {"ckpt", "onnx", "mindir"}

TITLES = {
    "torch": "a file of torch.save",
    "pickle": "a pickle that torch.save did not write",
    "torchscript": "a TorchScript archive",
    "exported": "a program of torch.export",
    "npz": "arrays of numpy.savez",
    "zip": "a zip archive",
    "safetensors": "a safetensors file",
    "params": "parameters of MXNet",
    "ckpt": "a checkpoint of MindSpore",
    "onnx": "an ONNX model",
    "mindir": "a MindIR model",
    "hdf5": "an HDF5 file, as Keras writes",
    "gzip": "a compressed file",
    "tar": "a tar archive of several files",
    "lfs": "a pointer of Git LFS, and not the file itself",
    "html": "a web page, and not the file itself",
}
"""Kind of file -> what it is called in messages."""


def kind_of(path: Path) -> str:
    """Return a key of `TITLES`; empty where the first bytes do not tell, or the file cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            size = path.stat().st_size
    except (OSError, ValueError):
        return ""
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_zip(path)
    if head.startswith(b"\x12\x01\0\0\0\0\0\0"):
        return "params"
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 2:
        return "torch" if head[2:].startswith(b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.") else "pickle"
    length = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and 2 <= length <= min(size - 8, _LARGEST_HEADER):
        return "safetensors"
    for kind, magic in (
        ("hdf5", b"\x89HDF\r\n\x1a\n"),
        ("gzip", b"\x1f\x8b"),
        ("lfs", b"version https://git-lfs"),
    ):
        if head.startswith(magic):
            return kind
    if head[257:262] == b"ustar":
        return "tar"
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "html"
    return _kind_of_protobuf(head, path)


def _kind_of_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return "torch"  # cut off: its reader says so
    ends = {name.partition("/")[2] or name for name in names}
    if "constants.pkl" in ends or any(end.startswith("code/") for end in ends):
        return "torchscript"
    if "data.pkl" in ends:
        return "torch"
    if "archive_format" in ends or "serialized_exported_program.json" in ends | set(names):
        return "exported"
    return "npz" if names and all(name.endswith(".npy") for name in names) else "zip"


def _kind_of_protobuf(head: bytes, path: Path) -> str:
    """Return the kind of a protobuf message by its file's name or, failing that, by its first field."""
    suffix = path.suffix.removeprefix(".")
    if suffix in _PROTOBUF:
        return suffix
    if head[:1] == b"\x08" and head[1:2] and head[1] < 32:  # ir_version of ONNX
        return "onnx"
    if head[:1] == b"\x0a":  # MindSpore: a parameter, which begins with its name; of MindIR a version
        rest = head[1:].lstrip(bytes(range(128, 256)))[1:]
        if rest[:1] == b"\x0a":
            return "ckpt"
        if rest[:1].isdigit() and b"." in rest[:4]:
            return "mindir"
    return ""


def classes_in(path: Path) -> list[str]:
    """Return the classes, in order, that a file of torch.save names besides those of plain tensors."""
    return [n for n in _names_in(path) if not n.startswith(_HARMLESS) and not n.endswith("Storage")]


def _names_in(path: Path) -> list[str]:
    """Return the functions and classes, in order, that a file of torch.save names.

    Nothing is unpickled. A file from before torch 1.6, or too large a pickle, names none here.
    """
    found: dict[str, None] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            info = next(i for i in archive.infolist() if i.filename.endswith("/data.pkl"))
            if info.file_size > _LARGEST_PICKLE:
                return []
            content = archive.read(info)
        texts: list[str] = []
        for code, argument, _ in pickletools.genops(content):
            if code.name == "GLOBAL":
                found[str(argument).replace(" ", ".", 1)] = None
            elif code.name == "STACK_GLOBAL" and len(texts) > 1:
                found[".".join(texts[-2:])] = None
            elif isinstance(argument, str):
                texts = [*texts[-1:], argument]
    except (StopIteration, zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        pass  # its reader says what is wrong
    return list(found)
