"""PyTorch's .pth: read by torch as weights only, written without torch, tensor by tensor."""

from __future__ import annotations

import importlib
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.elements import element_chunks
from ..frontends.torch_module.export.export_errors import first_line
from ..frontends.torch_module.export.tensors import array_of
from ..ir import BackendError, ModelError, TensorData, require_file, require_name
from ..ir.outside.file_kinds import names_in
from ..ir.types import DTYPES
from .optimizer_state import OptimizerState, of_torch
from .parts import part_of
from .stand_ins import StandIn, unknown_classes_stand_in
from .torch_records import TorchRecords, find_records

if TYPE_CHECKING:
    import torch

_WRAPPERS = ("state_dict", "model_state_dict", "model", "model_state", "module", "net", "params")
"""Keys under which training scripts keep the state beside other things, the first that a file has."""

_OPTIMIZERS = ("optimizer", "optimizer_state_dict", "optim", "optimizer_state", "optimizer_states")
"""Keys under which they keep `optimizer.state_dict()`; Lightning a list of them."""

_STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int8": "CharStorage",
    "int16": "ShortStorage",
    "int32": "IntStorage",
    "int64": "LongStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}

_HINT = "save the state dict alone: torch.save(model.state_dict(), path)"

_NAMED = re.compile(r"\b(?:GLOBAL|global:) (?:GLOBAL )?([\w.]+)")
"""A function or class that a file names, in torch's message on it."""

_QUANTISED = "torch._utils._rebuild_qtensor"
"""What a file calls to make a quantised tensor."""

_ADVICE = ("Do it only if you got the file from a trusted source.", "WeightsUnpickler error:")
"""Ends of torch's advice to let a file run, or to tell torch of it; what is wrong comes behind them."""

_SHOWN = 8

_ALIGNMENT = 64  # torch's own, so that storages can be mapped


class TorchFile:
    """A file of ``torch.save``; its tensors stay in it where the format allows it, and nothing is executed.

    Args:
        path: the file.
        part: which of several states in it is read: a key, or keys with dots between; or what the names of
            its tensors begin with.

    Raises:
        ModelError: when the file is missing or malformed.
    """

    def __init__(self, path: Path, part: str | None = None) -> None:
        try:
            importlib.import_module("torch")
        except ImportError as error:
            raise ModelError(
                "E105", "PyTorch is needed to read its checkpoints", hint='pip install "regraft[torch]"'
            ) from error
        require_file(path)
        records = find_records(path)
        self.path, self._part = path, part
        if records is not None and _QUANTISED in names_in(path):
            records = None  # a device without elements has no quantised tensors
        self._content = _loaded(path, "cpu" if records is None else "meta")
        self._records = None if records is None else TorchRecords(path, records)

    def tensors(self, notes: list[str]) -> dict[str, TensorData]:
        """The tensors of the state dict.

        Args:
            notes: gets a sentence where the state was found inside a larger checkpoint.

        Raises:
            ModelError: when the file holds anything but tensors by name.
        """
        state, rest = _state(self._content, self.path, self._part, notes)
        found = {name: self._handle(name, tensor) for name, tensor in state.items()}
        return part_of(found, rest, self.path)

    def optimizer(self, tensors: Mapping[str, TensorData]) -> OptimizerState | None:
        """What an optimizer keeps of the file's tensors; None where there is none."""
        content = self._content if isinstance(self._content, Mapping) else {}
        for key in _OPTIMIZERS:
            found = content.get(key)
            found = found[0] if isinstance(found, list) and len(found) == 1 else found
            if isinstance(found, Mapping):
                return of_torch(found, tensors, self._slot)
        return None

    def _slot(self, value: object) -> TensorData | None:
        import torch

        return self._handle("slot", value) if isinstance(value, torch.Tensor) else None

    def _handle(self, name: str, tensor: torch.Tensor) -> TensorData:
        dtype = str(tensor.dtype).removeprefix("torch.")
        require_name(name, "the name of a tensor", str(self.path))
        found: TensorData | None = None
        if tensor.layout == _strided() and not tensor.is_quantized and dtype in DTYPES:
            if self._records is not None:
                found = self._records.tensor(name, dtype, tensor)
            elif tensor.device.type == "cpu":
                storage = ("torch", tensor.untyped_storage().data_ptr(), tensor.storage_offset())
                found = TensorData(dtype, tuple(tensor.shape), lambda: array_of(tensor), storage)
        if found is None:
            what = f"`{name}` {tensor.dtype} {tensor.layout}"
            raise ModelError("E101", f"expected a plain tensor, got {what}", place=str(self.path))
        return found


def _loaded(path: Path, device: str) -> object:
    """What `torch.load` reads of a file, as weights only; on ``meta`` nothing of the tensors.

    Objects of classes that are not known are stand-ins where something else is read, too.
    """
    try:
        return _read(path, device)
    except Exception as error:  # torch's reader raises whatever its parsers do
        named = _NAMED.search(str(error))
        if named is None:
            message = f"cannot read `{path}` as weights only: {_cause(error)}"
            raise ModelError("E101", message, hint=_HINT) from error
        try:
            with unknown_classes_stand_in():
                content = _read(path, device)
        except Exception:  # it is no simpler with stand-ins: the first name tells
            content = None
        if content is None or isinstance(content, StandIn):
            raise _not_run(named[1], path) from error
        return content


def _read(path: Path, device: str) -> object:
    import torch

    with warnings.catch_warnings(), _bounded():
        warnings.simplefilter("ignore")  # torch's, about its own formats
        return torch.load(path, map_location=device, weights_only=True)


def _not_run(name: str, path: Path) -> ModelError:
    message = f"expected tensors, numbers and texts, got `{name[:80]}`, which was not run"
    return ModelError("E101", message, place=str(path), hint=_HINT)


def _cause(error: Exception) -> str:
    """What torch's reader stumbled on, without its advice to let the file run."""
    text = str(error)
    for advice in _ADVICE:
        text = text.partition(advice)[2].strip() or text
    return first_line(error if text == str(error) else pickle.UnpicklingError(text))


class _ShortError(pickle.UnpicklingError):
    """What torch's reader raises, with as much text as a person would read."""

    def __str__(self) -> str:
        return super().__str__()[:500]


@contextmanager
def _bounded() -> Iterator[None]:
    """A with block in which torch's reader takes no more memory and time than a file is worth.

    It calls no `bytearray`, which takes as much memory as the number it is given; and its errors are short:
    torch searches them by patterns that take the square of a long name's length.
    """
    reader: Any = importlib.import_module("torch._weights_only_unpickler")
    allowed = reader._get_allowed_globals()
    taken, raised = allowed.pop("builtins.bytearray", None), reader.UnpicklingError
    reader.UnpicklingError = _ShortError
    try:
        yield
    finally:
        reader.UnpicklingError = raised
        if taken is not None:
            allowed["builtins.bytearray"] = taken


def _state(
    content: object, path: Path, part: str | None, notes: list[str]
) -> tuple[Mapping[str, torch.Tensor], str | None]:
    """(the state of a training checkpoint, what names of a part in it begin with)."""
    steps: list[str] = []
    if part is not None:
        content, steps, part = _below(content, part)
    while isinstance(content, Mapping) and not _is_flat(content):
        states = [k for k, v in content.items() if isinstance(k, str) and _has_state(v)]
        key = next((k for k in _WRAPPERS if k in states), None)
        if key is None:  # a name that nobody else gives it, where nothing else can be meant
            if len(states) > 1 and part is not None:
                listed = ", ".join(f"`{k}`" for k in states[:_SHOWN])
                raise ModelError(
                    "E801",
                    f"expected tensors under `{part}`, got none",
                    place=str(path),
                    hint=f"the file has {listed}",
                )
            if len(states) > 1:
                raise ModelError(
                    "E101",
                    f"expected tensors by name, got {len(states)} sets of them: "
                    + ", ".join(f"`{k}`" for k in states[:_SHOWN]),
                    place=str(path),
                    hint=f"say which with --part, such as --part {states[0]}",
                )
            if not states:
                break
            key = states[0]
        others = [k for k in states if k != key and k not in _OPTIMIZERS]
        if others:
            listed = ", ".join(f"`{'.'.join([*steps, k])}`" for k in others[:_SHOWN])
            notes.append(f"`{path.name}` has other tensors under {listed}, which --part reads")
        steps.append(key)
        content = content[key]
    if not isinstance(content, Mapping):
        what = type(content).__name__
        raise ModelError("E101", f"expected tensors by name, got a `{what}`", place=str(path))
    for name, value in content.items():
        if isinstance(value, StandIn):
            raise _not_plain(name, value, path, among=any(map(_is_tensor, content.values())))
    for name, value in content.items():
        if not isinstance(name, str) or not _is_tensor(value):
            raise ModelError(
                "E101",
                f"expected tensors by name, got a `{type(value).__name__}` under {name!r}",
                place=str(path),
                hint=_HINT,
            )
    if steps:
        notes.append(f"`{path.name}`: read what is under {' -> '.join(f'`{s}`' for s in steps)}")
    return content, part


def _not_plain(name: object, value: StandIn, path: Path, *, among: bool) -> ModelError:
    """The error for an object in the place of a tensor, or of all tensors."""
    message = f"expected a plain tensor under `{name}`, got `{value.name[:80]}`, which was not run"
    hint = "where its class is known, save plain tensors, as .dequantize() of a quantised one gives"
    if not among:
        message = f"expected tensors by name under `{name}`, got `{value.name[:80]}`, which was not run"
        hint = _HINT
    return ModelError("E101", message, place=str(path), hint=hint)


def _below(content: object, part: str) -> tuple[object, list[str], str | None]:
    """(what lies under a part, the keys that lead there, what is left of the part)."""
    steps: list[str] = []
    rest = part
    while rest and isinstance(content, Mapping):
        keys = [k for k in content if isinstance(k, str) and f"{rest}.".startswith(f"{k}.")]
        keys = [k for k in keys if isinstance(content[k], Mapping)]
        if not keys:
            break
        key = max(keys, key=len)
        content, rest = content[key], rest[len(key) + 1 :]
        steps.append(key)
    return content, steps, rest or None


def _is_flat(content: Mapping[object, object]) -> bool:
    return all(_is_tensor(value) or isinstance(value, StandIn) for value in content.values())


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _has_state(value: object, depth: int = 3) -> bool:
    """Whether tensors by name lie in a value, or in a dictionary of it."""
    if not isinstance(value, Mapping) or depth == 0:
        return False
    return _is_state(value) or any(_has_state(v, depth - 1) for k, v in value.items() if isinstance(k, str))


def _is_state(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and all(isinstance(key, str) for key in value)
        and _is_flat(value)
        and any(map(_is_tensor, value.values()))
    )


def _strided() -> Any:
    import torch

    return torch.strided


def write_torch(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write a state dict as ``torch.save`` does, one tensor in memory at a time; or dictionaries of them.

    Names that have one and the same handle share one storage in the file.

    Raises:
        BackendError: for an element type that torch's files do not have.
    """
    keys: dict[int, str] = {}
    stored: list[TensorData] = []
    body = bytearray(pickle.PROTO + b"\x02")

    def add(name: str, data: Any) -> bytes:
        if isinstance(data, Mapping):
            inner = b"".join(_text(key) + add(key, value) + pickle.SETITEM for key, value in data.items())
            return pickle.EMPTY_DICT + inner
        if data.dtype not in _STORAGES:
            raise BackendError("E602", f"torch's files have no `{data.dtype}` here", place=f"tensor `{name}`")
        if id(data) not in keys:
            keys[id(data)] = str(len(stored))
            stored.append(data)
        return _tensor(data, keys[id(data)])

    body += add("", tensors) + pickle.STOP
    stem = path.stem or "archive"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _write(archive, f"{stem}/data.pkl", [memoryview(bytes(body))])
        _write(archive, f"{stem}/byteorder", [memoryview(b"little")])
        for number, data in enumerate(stored):
            _write(archive, f"{stem}/data/{number}", element_chunks(data))
        _write(archive, f"{stem}/version", [memoryview(b"3\n")])


def _write(archive: zipfile.ZipFile, name: str, chunks: Iterable[memoryview]) -> None:
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    # a local header has 30 bytes, the name and extra fields; zipfile adds one of 20 bytes with force_zip64
    start = archive.fp.tell() + 30 + len(name.encode()) + 20 + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    with archive.open(info, "w", force_zip64=True) as record:
        for chunk in chunks:
            record.write(chunk)


def _tensor(data: TensorData, key: str) -> bytes:
    """The call ``torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())``."""
    strides = np.cumprod([1, *reversed(data.shape[1:])], dtype=np.int64)[::-1] if data.shape else []
    count = int(np.prod(data.shape, dtype=np.int64))
    storage = b"".join(
        [
            pickle.MARK,
            _text("storage"),
            _global("torch", _STORAGES[data.dtype]),
            _text(key),
            _text("cpu"),
            _number(count),
            pickle.TUPLE,
            pickle.BINPERSID,
        ]
    )
    arguments = [
        storage,
        _number(0),
        _numbers(data.shape),
        _numbers([int(s) for s in strides]),
        pickle.NEWFALSE,
        _global("collections", "OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE,
    ]
    called = _global("torch._utils", "_rebuild_tensor_v2")
    return called + pickle.MARK + b"".join(arguments) + pickle.TUPLE + pickle.REDUCE


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _text(value: str) -> bytes:
    raw = value.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(raw)) + raw


def _number(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little")
    return pickle.LONG1 + bytes([len(raw)]) + raw


def _numbers(values: Any) -> bytes:
    return pickle.MARK + b"".join(_number(v) for v in values) + pickle.TUPLE
