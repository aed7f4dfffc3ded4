"""Mutations: of bytes, of JSON documents, of protobuf messages, of zip archives, of lines of text."""

# ruff: noqa: E501, RUF001 - tables of odd texts

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from random import Random

MARK = "REGRAFT_WAS_HERE"
"""What planted code would leave behind: a file of this name, or a call of it in emitted source."""

_CODE = f"open('{MARK}', 'w').close() or {MARK}(1)"

TEXTS = (
    "", " ", ".", "..", "/", "a.b", "a/b", "../up", "~", "-", "--force", "0", "None", "self", "class", "__class__",
    "nn", "ops", "ms", "super", "construct", "__init__", "weight", "data", "a" * 300, "a" * 70_000, "x" * 255 + ".y",
    "\0", "a\0b", "\n", "a\nb", "\r\x0b\x0c\x1c\x85\u2028\u2029", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J",
    "\u202eevil\u202c", "\u2066x\u2069", "\ufeff", "\ud800", "a\udfffb", "\U000e0001", "é", "e\u0301", "²x6", "１", "Ⅷ",
    "名前", "ﬁ", "µ", "ſ", "𝐱", "'", '"', "'''", '"""', "\\", "\\N{BULLET}", "\\x41", "\\u0041", "{}", "{0}", "{x!r}",
    "%s", "%(x)s", "$x", "`x`", "`whoami`", "#", "x #", "# type: ignore", "# fmt: off", "# noqa", "x=1", "a:b", "a,b", "a+b",
    f"\n{_CODE}\n", f'"""\n{_CODE}\n"""', f"'''\n{_CODE}\n'''", f'");{_CODE}#', f"');{_CODE}#", f"\\');{_CODE}#",
    f'\\";{_CODE}#', f"\r{_CODE}\r", f"\x0c{_CODE}", f"\u2028{_CODE}", f"\x85{_CODE}", f"{{{_CODE}}}", f"]\n{_CODE}", f"x;{_CODE}",
    f"# coding: utf-7\n{_CODE}", f"x:\n    {_CODE}\n#", f"(lambda: {_CODE})()", f"__import__('os').system('touch {MARK}')",
    "float32", "int64", "bfloat16", "string", "complex64", "inf", "nan", "-nan", "1e999", "-0", "1_0", "0x10", "1L", "(1,)", "(0, 0)",
    "(-1, 2)", "[]", "()", "True", "1e18", "(100000, 100000)", "1000000000000000000", "9" * 5000, "(((((((((1,),),),),),),),),)",
)  # fmt: skip
"""Texts that something somewhere takes for more than text."""

NUMBERS = (
    0, 1, -1, 2, 3, 7, 8, 31, 32, 64, 127, 128, 255, 256, 1000, 65_535, 65_536, 10**6, 2**31 - 1, 2**31, -(2**31), 2**32,
    2**40, 2**53 + 1, 10**18, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, 10**40,
)  # fmt: skip

Mutation = Callable[[bytes, Random], bytes]


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Flip, overwrite, cut, repeat or move bytes; words of 4 and 8 bytes get numbers at the edges."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(out) + 1)
        kind = random.randrange(9)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << random.randrange(8)
        elif kind == 1 and out:
            out[at % len(out)] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + random.choice((1, 2, 4, 8, 64))]
        elif kind == 4:
            out[at:at] = random.randbytes(random.choice((1, 4, 8, 32)))
        elif kind == 5:
            start = random.randrange(len(out) + 1)
            out[at:at] = out[start : start + random.choice((4, 8, 64, 512))]
        elif kind == 6 and len(out) >= 8:
            size = random.choice((4, 8))
            at -= at % 4
            number = random.choice(NUMBERS) & ((1 << 8 * size) - 1)
            out[at : at + size] = number.to_bytes(size, "little")
        elif kind == 7:
            text = random.choice(TEXTS).encode("utf-8", "surrogatepass")
            out[at : at + len(text)] = text
        elif kind == 8 and len(out) >= 4:
            size = random.choice((1, 2, 4, 8))
            at -= at % size
            word = int.from_bytes(out[at : at + size], "little") + random.choice((-1, 1, 2, -8, 64))
            out[at : at + size] = (word & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(out)


# -- JSON ------------------------------------------------------------------------------------------


def mutate_json(data: bytes, random: Random) -> bytes:
    """Change values, keys and structure of a document; now and then its text as text."""
    if random.random() < 0.06:
        return mutate_bytes(data, random)
    if random.random() < 0.02:
        return _odd_json(data, random)
    document = json.loads(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
        document = _changed(document, random)
    text = json.dumps(document)
    if random.random() < 0.1:
        text = json.dumps(document, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _odd_json(data: bytes, random: Random) -> bytes:
    depth = random.choice((900, 3000, 100_000))
    nested = random.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth))
    places = [at for at, c in enumerate(data) if c in b":[,"]
    if random.random() < 0.5 or not places:
        return nested.encode()
    at = random.choice(places) + 1
    odd = random.choice(
        (nested, "9" * 5000, "1e999", "-", "NaN", "Infinity", "\ufeff", "'a'", "// x\n", ",", "\\ud800")
    )
    return data[:at] + odd.encode() + data[at:]


def _places(document: object) -> list[tuple[object, object]]:
    """(container, key) of everything in a document."""
    found: list[tuple[object, object]] = []
    stack = [document]
    while stack:
        inside = stack.pop()
        keys = (
            list(inside)
            if isinstance(inside, dict)
            else range(len(inside))
            if isinstance(inside, list)
            else ()
        )
        for key in keys:
            found.append((inside, key))
            stack.append(inside[key])  # type: ignore[index] - of that container
    return found


def _changed(document: object, random: Random) -> object:
    places = _places(document)
    if not places or random.random() < 0.01:
        return _value(document, random)
    inside, key = random.choice(places)
    assert isinstance(inside, (dict, list))
    kind = random.randrange(10)
    if kind < 5:
        inside[key] = _value(inside[key], random)  # type: ignore[index,call-overload]
    elif kind == 5:
        del inside[key]  # type: ignore[arg-type]
    elif kind == 6:
        other, its = random.choice(places)
        try:
            inside[key] = json.loads(json.dumps(other[its]))  # type: ignore[index,call-overload]
        except (LookupError, ValueError, RecursionError):  # gone with what a former change took out
            inside[key] = None  # type: ignore[index,call-overload]
    elif kind == 7 and isinstance(inside, dict):
        inside[random.choice((*map(str, inside), *TEXTS))] = inside.pop(key)
    elif kind == 8 and isinstance(inside, list):
        inside.insert(random.randrange(len(inside) + 1), inside[key])  # type: ignore[call-overload]
        if random.random() < 0.02:
            inside += [inside[key]] * random.choice((1000, 30_000))  # type: ignore[call-overload]
    elif isinstance(inside, dict):
        inside[random.choice(TEXTS)] = _value(inside[key], random)
    else:
        random.shuffle(inside)
    return document


def _value(old: object, random: Random) -> object:
    """Another value: near the old one as a rule, of another kind now and then."""
    if random.random() < 0.25:
        return random.choice(
            (None, True, False, 1.5, float("nan"), float("inf"), [], {}, [[]], [None], {"": {}})
        )
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, float)) and random.random() < 0.85:
        return random.choice(
            (*NUMBERS, int(min(max(old, -1e18), 1e18)) + random.choice((-2, -1, 1, 2)) if old == old else 0)
        )
    if isinstance(old, str) and random.random() < 0.8:
        return mutate_text(old, random)
    return random.choice((*NUMBERS, *TEXTS))


def mutate_text(old: str, random: Random) -> str:
    """Another text: one of the odd ones, or the old with a number changed or an odd one inside."""
    digits = [at for at, c in enumerate(old) if c.isdigit()]
    if digits and random.random() < 0.6:
        at = random.choice(digits)
        return f"{old[:at]}{random.choice((*NUMBERS, '', '.', 'x', 'e9', ',', '²'))}{old[at + 1 :]}"
    odd = random.choice(TEXTS)
    at = random.randrange(len(old) + 1)
    return random.choice((odd, odd, old[:at] + odd + old[at:], old[:at], old * 2, old.upper()))


# -- protobuf --------------------------------------------------------------------------------------

Message = list[tuple[int, int, object]]
"""(number, wire type, value): a number, bytes, or a message."""


def mutate_message(data: bytes, random: Random) -> bytes:
    """Change fields of a protobuf message of any kind, found by trying; now and then its bytes as bytes."""
    message = None if random.random() < 0.15 else _decoded(data)
    if message is None:
        return mutate_bytes(data, random)
    for _ in range(random.choice((1, 1, 2, 4))):
        _change_field(message, random)
    return _encoded(message)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError


def _decoded(data: bytes, depth: int = 8) -> Message | None:
    message: Message = []
    at = 0
    try:
        while at < len(data):
            key, at = _varint(data, at)
            number, wire = key >> 3, key & 7
            if not 0 < number < 2000:
                return None
            if wire == 0:
                value, at = _varint(data, at)
                message.append((number, wire, value))
                continue
            if wire == 2:
                size, at = _varint(data, at)
            else:
                size = {1: 8, 5: 4}[wire]
            part = data[at : at + size]
            if len(part) != size:
                return None
            at += size
            inner = _decoded(part, depth - 1) if wire == 2 and depth and 1 < size < 20_000 else None
            message.append((number, wire, inner if inner else part))
    except (IndexError, KeyError, ValueError):
        return None
    return message


def _number(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _encoded(message: Message) -> bytes:
    out = bytearray()
    for number, wire, value in message:
        out += _number(number << 3 | wire)
        if isinstance(value, int):
            out += _number(value)
        else:
            raw = _encoded(value) if isinstance(value, list) else value
            assert isinstance(raw, bytes)
            out += (_number(len(raw)) if wire == 2 else b"") + raw
    return bytes(out)


def _change_field(message: Message, random: Random) -> None:
    while message:
        at = random.randrange(len(message))
        value = message[at][2]
        if isinstance(value, list) and value and random.random() < 0.85:
            message = value
            continue
        number, wire, _ = message[at]
        kind = random.randrange(8)
        if kind == 0:
            del message[at]
        elif kind == 1:
            message.insert(random.randrange(len(message) + 1), message[at])
        elif kind == 2:
            message[at] = (
                random.choice((number + 1, max(1, number - 1), random.randrange(1, 30))),
                wire,
                value,
            )
        elif kind == 3:
            message.append(random.choice(message))
        elif isinstance(value, int):
            message[at] = (number, wire, random.choice((*NUMBERS, value + 1, value - 1)))
        elif wire == 2:
            raw = _encoded(value) if isinstance(value, list) else value
            assert isinstance(raw, bytes)
            odd = random.choice(TEXTS).encode("utf-8", "surrogatepass")
            message[at] = (number, wire, random.choice((odd, mutate_bytes(raw, random), b"")))
        else:
            message[at] = (number, wire, random.randbytes(4 if wire == 5 else 8))
        return


# -- the others ------------------------------------------------------------------------------------


def mutate_zip(data: bytes, random: Random) -> bytes:
    """Change members of an archive and close it again, with right checksums; or its bytes as bytes."""
    if random.random() < 0.3 or not zipfile.is_zipfile(io.BytesIO(data)):
        return mutate_bytes(data, random)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = random.randrange(len(members))
    if random.random() < 0.6:  # the pickle, where most of the structure is
        at = next((i for i, (name, _) in enumerate(members) if name.endswith(".pkl")), at)
    name, content = members[at]
    kind = random.randrange(8)
    if kind == 0:
        del members[at]
    elif kind == 1:
        members[at] = (
            mutate_text(name, random).replace("\0", "").encode("utf-8", "ignore").decode()[:60_000] or "x",
            content,
        )
    else:
        members[at] = (name, mutate_bytes(content, random))
    out = io.BytesIO()
    with zipfile.ZipFile(
        out, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def mutate_header(data: bytes, random: Random) -> bytes:
    """Change the JSON header of a safetensors file, its length kept right; or its bytes as bytes."""
    if random.random() < 0.25:
        return mutate_bytes(data, random)
    (length,) = struct.unpack_from("<Q", data)
    header = mutate_json(data[8 : 8 + length], random)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def mutate_lines(data: bytes, random: Random) -> bytes:
    """Drop, repeat, move and change lines of a text."""
    lines = data.decode("utf-8", "surrogatepass").split("\n")
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(lines))
        kind = random.randrange(6)
        if kind == 0 and len(lines) > 1:
            del lines[at]
        elif kind == 1:
            lines.insert(random.randrange(len(lines) + 1), lines[at])
        elif kind == 2:
            other = random.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            words = lines[at].split(" ")
            word = random.randrange(len(words))
            words[word] = mutate_text(words[word], random)
            lines[at] = " ".join(words)
        elif kind == 4:
            lines[at] = mutate_text(lines[at], random)
        else:
            marks = [i for i, c in enumerate(lines[at]) if not c.isalnum()] or [0]
            place = random.choice(marks)
            lines[at] = lines[at][:place] + random.choice("[](){}=:,@%\"'\\._-?<> ") + lines[at][place + 1 :]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def one_of(*mutations: Mutation) -> Mutation:
    """Any of these, each time."""
    return lambda data, random: random.choice(mutations)(data, random)


def seeded(seeds: Sequence[bytes], mutation: Mutation, random: Random) -> bytes:
    """A mutation of one of the seeds."""
    return mutation(random.choice(seeds), random)
