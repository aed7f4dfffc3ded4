"""Protobuf messages read field by field from a mapped file, every length checked, nothing copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .mapped import MappedFile

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        number: its number.
        wire: its wire type.
        value: of a varint.
        start: first byte of the content.
        end: the byte after it.
    """

    number: int
    wire: int
    value: int
    start: int
    end: int


def fields(file: MappedFile, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in bytes `start` to `end`.

    Raises:
        ModelError: when these bytes are no message, with the byte at fault.
    """
    at = start
    while at < end:
        key, content = varint(file, at, end)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, after = varint(file, content, end)
            yield Field(number, wire, value, content, after)
        elif wire in (FIXED64, FIXED32):
            after = content + (8 if wire == FIXED64 else 4)
            if after > end:
                raise file.fail(
                    f"expected a value of {after - content} bytes, got the end of the message", content
                )
            yield Field(number, wire, 0, content, after)
        elif wire == BYTES:
            length, content = varint(file, content, end)
            after = content + length
            if after > end:
                raise file.fail(
                    f"expected {length} bytes, got {end - content} to the end of the message", content
                )
            yield Field(number, wire, 0, content, after)
        else:
            raise file.fail(f"expected a protobuf wire type, got {wire}", at)
        at = after


def varint(file: MappedFile, at: int, end: int) -> tuple[int, int]:
    """Return (number, the byte after it) of a variable-length number.

    Raises:
        ModelError: when it does not end within `end` or 64 bits.
    """
    value = 0
    for place in range(at, min(end, at + _LONGEST_VARINT)):
        byte = file.view[place]
        value |= (byte & 0x7F) << 7 * (place - at)
        if byte < 0x80:
            return value & (1 << 64) - 1, place + 1
    raise file.fail("expected a number, got the end of the message or more than 64 bits", at)


def signed(value: int) -> int:
    """Return an int64 that is stored as a varint."""
    return value - (1 << 64) if value >> 63 else value


def numbers(file: MappedFile, field: Field) -> list[int]:
    """Return the values of a repeated int64 field, packed or not.

    Raises:
        ModelError: when its wire type is another one.
    """
    if field.wire == VARINT:
        return [signed(field.value)]
    if field.wire != BYTES:
        raise file.fail(f"expected numbers, got wire type {field.wire}", field.start)
    found: list[int] = []
    at = field.start
    while at < field.end:
        value, at = varint(file, at, field.end)
        found.append(signed(value))
    return found


def text(file: MappedFile, field: Field) -> str:
    """Return the value of a string field.

    Raises:
        ModelError: when it is no UTF-8.
    """
    if field.wire != BYTES:
        raise file.fail(f"expected a text, got wire type {field.wire}", field.start)
    try:
        return bytes(file.view[field.start : field.end]).decode("utf-8")
    except UnicodeDecodeError:
        raise file.fail("expected a text in UTF-8", field.start) from None
