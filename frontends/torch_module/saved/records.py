"""The records of a zip archive as PyTorch writes it: stored, not compressed; read in place and bounded."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from typing import BinaryIO

from ....formats.refusals import malformed, quote
from .refusing import untrusted

MOST_RECORDS = 200_000
_LONGEST_NAME = 1024
_MOST_DIRECTORY = 64 << 20
_CHUNK = 16 << 20

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_FULL = 0xFFFFFFFF
_DEFLATED = 8


@dataclass(frozen=True, slots=True)
class Record:
    """The place of a record's bytes in the file.

    Attributes:
        start: where they begin.
        size: how many they are, inflated.
        crc: their checksum.
        packed: how many they are in the file, where that holds them compressed.
    """

    start: int
    size: int
    crc: int
    packed: int | None = None


class Records:
    """The records of a zip archive, by name without the folder that all names share.

    Compressed records are refused but where `inflated` allows them, so that the file's size bounds what is
    read. Every byte belongs to at most one record. Only this class reads the archive, so that what is checked
    is what is used.

    Args:
        file: the open file.
        place: what messages call it.
        start: where the archive begins in the file.
        size: its length.
        inflated: the bytes that all compressed records together may have once they are inflated.

    Raises:
        ModelError: for anything that PyTorch does not write.
    """

    def __init__(self, file: BinaryIO, place: str, start: int, size: int, inflated: int = 0) -> None:
        self._file, self.place, self._start, self.size = file, place, start, size
        self._inflated = inflated
        count, at, length = self._directory()
        entries = self._entries(self._at(at, length), count)
        self._found = self._located(entries, at)
        self._trim()

    def __contains__(self, name: object) -> bool:
        return name in self._found

    @property
    def names(self) -> list[str]:
        """The names of all records."""
        return list(self._found)

    def size_of(self, name: str) -> int:
        """Return the length of a record; it must be there."""
        return self._record(name).size

    def read(self, name: str, most: int) -> bytes:
        """Return a record's bytes.

        Raises:
            ModelError: when there is none, it is longer than `most`, or its checksum is another.
        """
        record = self._record(name)
        if record.size > most:
            raise malformed(
                f"expected at most {most:,} bytes, got {record.size:,}", f"{self.place}: {quote(name)}"
            )
        found = bytearray(record.size)
        self.read_into(name, memoryview(found))
        return bytes(found)

    def read_into(self, name: str, target: memoryview) -> None:
        """Fill `target`, which is as long as the record.

        Raises:
            ModelError: when the file ends early or the checksum is another.
        """
        record = self._record(name)
        assert len(target) == record.size
        if record.packed is not None:
            target[:] = self._inflate(name, record, record.packed)
            return
        self._file.seek(self._start + record.start)
        crc = 0
        for at in range(0, record.size, _CHUNK):
            part = target[at : at + _CHUNK]
            filled = 0
            while filled < len(part):
                got = self._file.readinto(part[filled:])  # type: ignore[attr-defined] - files have it
                if not got:
                    raise malformed("the file ends inside a record", f"{self.place}: {quote(name)}")
                filled += got
            crc = zlib.crc32(part, crc)
        if crc != record.crc:
            raise malformed("the bytes do not have their checksum", f"{self.place}: {quote(name)}")

    def _inflate(self, name: str, record: Record, packed: int) -> bytes:
        place = f"{self.place}: {quote(name)}"
        machine = zlib.decompressobj(-15)
        try:
            found = machine.decompress(self._at(record.start, packed), record.size + 1)
        except zlib.error as error:
            raise malformed("expected a compressed record, got damaged bytes", place) from error
        if len(found) != record.size or zlib.crc32(found) != record.crc:
            raise malformed("the bytes do not have their checksum", place)
        return found

    def within(self, name: str) -> Records:
        """Return the archive that a record is."""
        record = self._record(name)
        return Records(self._file, f"{self.place}: {quote(name)}", self._start + record.start, record.size)

    def _record(self, name: str) -> Record:
        if name not in self._found:
            raise malformed(f"expected a record {quote(name)}, got none", self.place)
        return self._found[name]

    def _at(self, at: int, length: int) -> bytes:
        if at < 0 or length < 0 or at + length > self.size:
            raise malformed("expected a zip archive, got one that points outside itself", self.place)
        self._file.seek(self._start + at)
        found = self._file.read(length)
        if len(found) != length:
            raise malformed("the file ends inside the archive", self.place)
        return found

    def _directory(self) -> tuple[int, int, int]:
        """(number of records, where their directory begins, its length); it ends where the archive does."""
        end = self.size - _END.size
        if end < 0:
            raise malformed("expected a zip archive, got another file", self.place)
        mark, disk, first, here, count, length, at, comment = _END.unpack(self._at(end, _END.size))
        if mark != b"PK\5\6" or comment or disk or first or here != count:
            raise malformed(
                "expected a zip archive that ends with its directory, got another file", self.place
            )
        located = end - _LOCATOR.size
        if located >= 0 and self._at(located, 4) == b"PK\6\7":  # PyTorch writes the larger form always
            _, disk, end, disks = _LOCATOR.unpack(self._at(located, _LOCATOR.size))
            if disk or disks != 1 or end + _END64.size != located:
                raise malformed("expected a zip archive, got a damaged directory", self.place)
            fields = _END64.unpack(self._at(end, _END64.size))
            if fields[0] != b"PK\6\6" or fields[4] or fields[5] or fields[6] != fields[7]:
                raise malformed("expected a zip archive, got a damaged directory", self.place)
            for short, full in zip((count, length, at), fields[7:10], strict=True):
                if short not in (full, 0xFFFF, _FULL):
                    raise malformed("expected a zip archive, got two directories", self.place)
            count, length, at = fields[7:10]
        if count > MOST_RECORDS or length > _MOST_DIRECTORY:
            raise untrusted(f"expected at most {MOST_RECORDS:,} records, got {count:,}", self.place)
        if at + length != end or length < count * _ENTRY.size:
            raise malformed("expected a zip archive, got a directory that is not at its end", self.place)
        return count, at, length

    def _entries(self, directory: bytes, count: int) -> list[tuple[str, int, Record]]:
        """Return (name, offset of the local header, record that begins nowhere yet) of every record."""
        found: list[tuple[str, int, Record]] = []
        inflated = 0
        at = 0
        for _ in range(count):
            if at + _ENTRY.size > len(directory):
                raise malformed("expected a zip archive, got a damaged directory", self.place)
            entry = _ENTRY.unpack_from(directory, at)
            mark, flags, method, crc, packed, size = entry[0], entry[3], entry[4], *entry[7:10]
            name_length, extra_length, comment_length = entry[10:13]
            offset = entry[16]
            at += _ENTRY.size
            name = directory[at : at + name_length]
            extra = directory[at + name_length : at + name_length + extra_length]
            at += name_length + extra_length + comment_length
            if mark != b"PK\1\2" or at > len(directory):
                raise malformed("expected a zip archive, got a damaged directory", self.place)
            text = self._name(name)
            if _FULL in (packed, size, offset):
                size, packed, offset = self._large(extra, size, packed, offset)
            if flags & 1:
                raise malformed(
                    "expected a plain record, got an encrypted one", f"{self.place}: {quote(text)}"
                )
            if method == _DEFLATED:
                inflated += size
            if packed != size if method == 0 else method != _DEFLATED or inflated > self._inflated:
                raise untrusted(
                    "expected a stored record, as PyTorch writes it, got a compressed one",
                    f"{self.place}: {quote(text)}",
                )
            found.append((text, offset, Record(0, size, crc, packed if method else None)))
        if at != len(directory):
            raise malformed("expected a zip archive, got a damaged directory", self.place)
        return found

    def _name(self, raw: bytes) -> str:
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            name = ""
        parts = name.split("/")
        if (
            not name
            or len(name) > _LONGEST_NAME
            or not name.isprintable()
            or "\\" in name
            or ":" in parts[0]
            or any(part in ("", ".", "..") for part in parts)
        ):
            raise malformed(f"expected a record's name, got {quote(raw)}", self.place)
        return name

    def _large(self, extra: bytes, *values: int) -> list[int]:
        """Return the values that are too large for their fields, from the extra field that holds them."""
        while len(extra) >= 4:
            kind, length = struct.unpack_from("<2H", extra)
            if kind == 1:
                given = extra[4 : 4 + length]
                numbers = iter(struct.unpack(f"<{len(given) // 8}Q", given[: len(given) // 8 * 8]))
                found = [next(numbers, None) if value == _FULL else value for value in values]
                if None not in found:
                    return [value for value in found if value is not None]
            extra = extra[4 + length :]
        raise malformed("expected a zip archive, got a damaged directory", self.place)

    def _located(self, entries: list[tuple[str, int, Record]], end: int) -> dict[str, Record]:
        found: dict[str, Record] = {}
        taken = 0
        for name, offset, record in sorted(entries, key=lambda entry: entry[1]):
            place = f"{self.place}: {quote(name)}"
            if name in found:
                raise malformed("expected records of different names, got two of one", place)
            if offset < taken:
                raise malformed("expected records that lie apart, got two that overlap", place)
            local = _LOCAL.unpack(self._at(offset, _LOCAL.size))
            start = offset + _LOCAL.size + local[9] + local[10]
            named = self._at(offset + _LOCAL.size, local[9])
            method = 0 if record.packed is None else _DEFLATED
            if local[0] != b"PK\3\4" or named != name.encode() or local[3] != method:
                raise malformed("expected the record that the directory names, got another", place)
            taken = start + (record.size if record.packed is None else record.packed)
            if taken > end:
                raise malformed("expected a record within the archive, got one beyond it", place)
            found[name] = replace(record, start=start)
        return found

    def _trim(self) -> None:
        """Leave out the folder that all names share, as torch's reader does."""
        roots = {name.partition("/")[0] for name in self._found}
        if len(roots) == 1 and all("/" in name for name in self._found):
            self._found = {name.partition("/")[2]: record for name, record in self._found.items()}
