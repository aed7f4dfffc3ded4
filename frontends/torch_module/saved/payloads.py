"""The tensors of a saved program: raw bytes of the archive, and those that `torch.save` wrote inside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....formats.pickled import Storage, Strided, Unknown, read_pickle
from ....formats.refusals import malformed, quote
from .records import Records
from .refusing import untrusted

if TYPE_CHECKING:
    import torch

_SPREAD = 256 << 20
"""Bytes that views may show beyond those the file has: a stride of 0 shows one element many times."""
_MOST_PICKLE = 64 << 20


class Tensors:
    """Makes tensors of an archive's records; each record is read once, and its views share it.

    Args:
        records: the archive.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        self._read: dict[str, torch.Tensor] = {}
        self._seen: set[tuple[Any, ...]] = set()
        self._shown = 0

    def view(
        self,
        name: str,
        dtype: torch.dtype,
        sizes: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> torch.Tensor:
        """Return a view of a record's bytes.

        Raises:
            ModelError: when the record is missing or too short, or the view shows far more than it holds.
        """
        import torch

        place = f"{self.records.place}: {quote(name)}"
        whole = self._bytes(name)
        length = whole.numel() // dtype.itemsize
        if len(sizes) != len(strides) or len(sizes) > 64 or any(n < 0 for n in (offset, *sizes, *strides)):
            raise malformed("expected the sizes and strides of a tensor", place)
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        count = _product(sizes)
        if count and last >= length:
            raise malformed(f"expected {last + 1:,} elements or more, got {length:,}", place)
        seen = (name, dtype, tuple(sizes), tuple(strides), offset)
        if seen not in self._seen:
            self._seen.add(seen)
            self._shown += count * dtype.itemsize
            if self._shown > self.records.size + _SPREAD:
                raise malformed(
                    "expected tensors about as large as the file, got views that repeat it", place
                )
        if not count:
            return torch.empty(tuple(sizes), dtype=dtype)
        found = torch.empty(0, dtype=dtype)
        return found.set_(whole.untyped_storage(), offset, tuple(sizes), tuple(strides))

    def _bytes(self, name: str) -> torch.Tensor:
        import torch

        if name not in self._read:
            raw = torch.empty(self.records.size_of(name), dtype=torch.uint8)
            self.records.read_into(name, raw.numpy().data)
            self._read[name] = raw
        return self._read[name]


class Pickled:
    """A file of `torch.save`, read without calling anything that it names.

    Args:
        records: the archive.
        most: how many instructions its pickle may have.
    """

    def __init__(self, records: Records, most: int) -> None:
        self.place = records.place
        self._tensors = Tensors(records)
        if "byteorder" in records and records.read("byteorder", 16).strip() != b"little":
            raise malformed("expected tensors in little-endian order", self.place)
        self.value = read_pickle(records.read("data.pkl", _MOST_PICKLE), f"{records.place}: `data.pkl`", most)

    def tensor(self, found: Strided) -> torch.Tensor:
        """Return the tensor that the pickle describes."""
        return make_tensor(self._tensors, found, "data")


def make_tensor(tensors: Tensors, found: Strided, folder: str) -> torch.Tensor:
    """Return the tensor that a pickle describes.

    Args:
        tensors: reads the records of the archive.
        found: its description.
        folder: where the archive has the storages that the pickle names.

    Raises:
        ModelError: when it has no element type, or no bytes in the file.
    """
    import torch

    dtype = getattr(torch, found.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise malformed("expected a tensor with an element type", tensors.records.place)
    name = f"{folder}/{found.storage.key}"
    made = tensors.view(name, dtype, found.sizes, found.strides, found.offset)
    made = made.conj() if found.conjugate else made
    made = made.neg() if found.negative else made
    return _finished(made, found.is_parameter, found.requires_grad)


def pickled_tensors(records: Records) -> dict[str, torch.Tensor]:
    """Return the tensors by name that torch before 2.9 wrote with `torch.save`.

    Raises:
        ModelError: E107 when something else than plain tensors is pickled.
    """
    saved = Pickled(records, most=3_000_000)
    if not isinstance(saved.value, dict):
        raise _foreign(saved.value, "", records.place)
    found: dict[str, torch.Tensor] = {}
    for name, value in saved.value.items():
        if not isinstance(name, str) or not isinstance(value, Strided):
            raise _foreign(value, name, records.place)
        found[name] = saved.tensor(value)
    return found


def raw_tensors(config: Any, folder: str, tensors: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors that a checked configuration describes.

    Args:
        config: a PayloadConfig.
        folder: where the records are, with a slash.
        tensors: reads them.

    Raises:
        ModelError: E107 when one is pickled.
    """
    import torch
    from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

    found: dict[str, torch.Tensor] = {}
    for name, payload in config.config.items():
        place = f"{tensors.records.place}: {quote(folder + payload.path_name)}"
        meta = payload.tensor_meta
        if payload.use_pickle or not payload.path_name.startswith(("weight_", "tensor_")):
            raise untrusted(
                f"{quote(name)} is pickled: a tensor of a class of its own, or another object", place
            )
        if meta is None or meta.layout != _STRIDED or meta.dtype not in _SERIALIZE_TO_TORCH_DTYPE:
            raise malformed(f"expected a plain tensor {quote(name)}", place)
        sizes, strides = [_number(n, place) for n in meta.sizes], [_number(n, place) for n in meta.strides]
        dtype, offset = _SERIALIZE_TO_TORCH_DTYPE[meta.dtype], _number(meta.storage_offset, place)
        if meta.device.type == "meta":  # shapes without values
            made = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
        else:
            made = tensors.view(folder + payload.path_name, dtype, sizes, strides, offset)
        found[name] = _finished(made, payload.is_param, meta.requires_grad)
    return found


_STRIDED = 7


def _number(size: Any, place: str) -> int:
    if size.type != "as_int":
        raise malformed("expected a tensor whose sizes are numbers", place)
    return size.as_int


def _finished(made: torch.Tensor, is_parameter: bool, requires_grad: bool) -> torch.Tensor:
    import torch

    gradient = requires_grad and (made.is_floating_point() or made.is_complex())
    if is_parameter:
        return torch.nn.Parameter(made, requires_grad=gradient)
    return made.requires_grad_() if gradient else made


def _product(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _foreign(value: object, name: object, place: str) -> Exception:
    if isinstance(value, Unknown):
        return untrusted(f"{quote(name)} is an object of {quote(value.name)}, which is unpickled", place)
    kind = "a storage" if isinstance(value, Storage) else type(value).__name__
    return malformed(f"expected tensors by name, got a {quote(kind)}", place)
