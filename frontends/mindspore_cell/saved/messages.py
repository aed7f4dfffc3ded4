"""The protobuf messages of a ``.mindir`` file, read without MindSpore; tensors stay in the mapped file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ....ir import ModelError
from ....ir.outside import protobuf
from ....ir.outside.mapped import MappedFile

_MOST_MESSAGES, _MOST_DEPTH = 1_000_000, 64
"""Far above what the largest nets need: a node has about five messages."""

_IGNORED = "ignored"
"""Kind of a field that says nothing of what is computed."""

_SCHEMA: dict[str, dict[int, tuple[str, str]]] = {
    "Model": {
        1: ("ir_version", _IGNORED),
        2: ("producer_name", "text"),
        3: ("producer_version", "text"),
        4: ("domain", _IGNORED),
        5: ("model_version", "text"),
        6: ("doc_string", _IGNORED),
        7: ("graph", "Graph"),
        8: ("functions", "*Graph"),
        9: ("preprocessor", _IGNORED),
        10: ("little_endian", "int"),
        11: ("parallel", _IGNORED),
        12: ("primitives", "*Primitive"),
        13: ("mind_ir_version", "int"),
        14: ("user_info", _IGNORED),
    },
    "Graph": {
        1: ("node", "*Node"),
        2: ("name", "text"),
        3: ("parameter", "*Tensor"),
        4: ("doc_string", _IGNORED),
        5: ("input", "*ValueInfo"),
        6: ("output", "*ValueInfo"),
        7: ("bprop_hash", _IGNORED),
        8: ("attribute", _IGNORED),
        9: ("bprop_filepath", _IGNORED),
    },
    "ValueInfo": {
        1: ("name", "text"),
        2: ("tensor", "*Tensor"),
        3: ("doc_string", _IGNORED),
        4: ("denotation", "text"),
        5: ("attr_info", "Attribute"),
    },
    "Node": {
        1: ("input", "*text"),
        2: ("output", "*text"),
        3: ("name", "text"),
        4: ("op_type", "text"),
        5: ("attribute", "*Attribute"),
        6: ("doc_string", _IGNORED),
        7: ("domain", "text"),
        8: ("node_attr", _IGNORED),
        9: ("primal_attr", _IGNORED),
    },
    "Primitive": {
        1: ("name", "text"),
        2: ("op_type", "text"),
        3: ("attribute", "*Attribute"),
        4: ("instance_name", "text"),
        5: ("prim_type", "int"),
    },
    "Attribute": {
        1: ("name", "text"),
        2: ("f", "float"),
        3: ("i", "int"),
        4: ("d", "double"),
        5: ("s", "bytes"),
        6: ("t", "Tensor"),
        8: ("floats", "*float"),
        9: ("doubles", "*double"),
        10: ("ints", "*int"),
        11: ("strings", "*bytes"),
        12: ("tensors", "*Tensor"),
        14: ("doc_string", _IGNORED),
        15: ("ref_attr_name", _IGNORED),
        16: ("type", "int"),
        17: ("values", "*Attribute"),
        18: ("seq_info", _IGNORED),
        19: ("functor", _IGNORED),
    },
    "Tensor": {
        1: ("dims", "*int"),
        2: ("data_type", "int"),
        7: ("name", "text"),
        8: ("doc_string", _IGNORED),
        9: ("raw_data", "slice"),
        12: ("external_data", "External"),
        13: ("ref_key", _IGNORED),
        14: ("min_dims", _IGNORED),
        15: ("max_dims", _IGNORED),
        16: ("compression_type", "zero"),
    },
    "External": {1: ("location", "text"), 2: ("offset", "int"), 3: ("length", "int")},
}
"""Message -> number of a field -> its name and kind, ``*`` for a repeated one. Others are refused."""

_DEFAULTS: dict[str, Any] = {
    "text": "",
    "bytes": b"",
    "int": 0,
    "zero": 0,
    "float": 0.0,
    "double": 0.0,
    "slice": b"",
}
_NAMES = {kind: dict(fields.values()) for kind, fields in _SCHEMA.items()}


class Message:
    """One message, whose fields are read as those of MindSpore's own protobuf classes.

    Attributes:
        start: its first byte in the file.
        held: (first byte, length) of ``raw_data``; None without.
    """

    __slots__ = ("_kind", "_values", "held", "start")

    def __init__(self, kind: str, start: int) -> None:
        self._kind, self.start = kind, start
        self._values: dict[str, Any] = {}
        self.held: tuple[int, int] | None = None

    def __getattr__(self, name: str) -> Any:
        found = self._values.get(name)
        if found is not None:
            return found
        kind = _NAMES[self._kind].get(name)
        if kind is None:
            raise AttributeError(name)
        return () if kind.startswith("*") else _DEFAULTS.get(kind)

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
        """Whether the message has a field."""
        return name in self._values


class Reader:
    """Reads messages of a mapped file, no more than `_MOST_MESSAGES` of them.

    Args:
        file: the file.
    """

    def __init__(self, file: MappedFile) -> None:
        self._file, self._left = file, _MOST_MESSAGES

    def model(self) -> Message:
        """Return the whole model.

        Raises:
            ModelError: when the bytes are no model, with the byte at fault.
        """
        found = self._message("Model", 0, self._file.size, _MOST_DEPTH)
        if found.graph is None:
            raise self._file.fail("expected a model with a graph, got none", 0)
        return found

    def _message(self, kind: str, start: int, end: int, depth: int) -> Message:
        self._left -= 1
        if self._left < 0 or not depth:
            raise ModelError(
                "E106",
                f"expected at most {_MOST_MESSAGES:,} parts, nested at most {_MOST_DEPTH} deep, got more",
                place=f"{self._file.path}, byte {start}",
            )
        message, known = Message(kind, start), _SCHEMA[kind]
        for field in protobuf.fields(self._file, start, end):
            name, of = known.get(field.number, ("", ""))
            if not name:
                raise self._file.fail(
                    f"expected the fields of MindIR's {kind}, got field {field.number}", field.start
                )
            if of == _IGNORED:
                continue
            if of.startswith("*"):
                values = list(self._repeated(of[1:], field, depth))
                self._left -= len(values)
                message._values.setdefault(name, []).extend(values)
                continue
            if of == "slice":
                message.held = (field.start, field.end - field.start)
            message._values[name] = self._single(of, field, depth)
        return message

    def _repeated(self, of: str, field: protobuf.Field, depth: int) -> Iterator[Any]:
        """Yield the values of a repeated field, packed or not."""
        if of == "int":
            if field.wire == protobuf.BYTES and field.end - field.start > self._left:
                raise self._file.fail("expected fewer numbers", field.start)
            yield from protobuf.numbers(self._file, field)
        elif of in _SIZES and field.wire == protobuf.BYTES:
            size, form = _SIZES[of]
            if (field.end - field.start) % size:
                raise self._file.fail(f"expected numbers of {size} bytes", field.start)
            for at in range(field.start, field.end, size):
                yield struct.unpack_from(form, self._file.view, at)[0]
        else:
            yield self._single(of, field, depth)

    def _single(self, of: str, field: protobuf.Field, depth: int) -> Any:
        if of in ("int", "zero"):
            if field.wire != protobuf.VARINT:
                raise self._file.fail(f"expected a number, got wire type {field.wire}", field.start)
            value = protobuf.signed(field.value)
            if of == "zero" and value:
                raise self._file.fail("expected tensors that are not compressed", field.start)
            return value
        if of in _SIZES:
            size, form = _SIZES[of]
            if field.end - field.start != size or field.wire == protobuf.BYTES:
                raise self._file.fail(f"expected a number of {size} bytes", field.start)
            return struct.unpack_from(form, self._file.view, field.start)[0]
        if of == "text":
            return protobuf.text(self._file, field)
        if field.wire != protobuf.BYTES:
            raise self._file.fail(f"expected bytes, got wire type {field.wire}", field.start)
        if of == "bytes":
            return bytes(self._file.view[field.start : field.end])
        if of == "slice":
            return memoryview(self._file.view)[field.start : field.end]
        return self._message(of, field.start, field.end, depth - 1)


_SIZES = {"float": (4, "<f"), "double": (8, "<d")}
