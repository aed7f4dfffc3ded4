#!/usr/bin/env python3
"""Re-check a certificate that two models compute the same: one file that needs Python and NumPy alone.

Both graphs are evaluated exactly in prime fields. A float is a dyadic rational and has an exact image modulo
a prime; sums, products, means, layouts are exact there. What is no polynomial is an uninterpreted function,
a keyed hash of its name, attributes and operands. Equal terms stay equal; unequal ones agree by chance with a
probability of about degree / p for each prime. Primes and keys are drawn by the checker, by `--seed` or not.

    python recheck.py certificate.json [--seed N] [--primes N] [--json]

Exit code 0 where every output is certified, 1 where one is not, 2 where the certificate cannot be read.
Operators are ONNX's, by the semantics of https://onnx.ai/onnx/operators/ (opset 23).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import secrets
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

# -- bounds of what a certificate may ask for --------------------------------------------------------------

MOST_JSON = 1 << 28
MOST_NODES = 200_000
MOST_DEPTH = 8
MOST_RANK = 16
MOST_ELEMENTS = 1 << 31
MOST_EXACT = 1 << 22
MOST_FRACTIONS = 4096
MOST_STEPS = 4096
MOST_UNITS = 64.0
BLOCK = 2048  # products of two residues below 2**20 in size that sum exactly in float64
GRADES = ("identical", "algebraic", "folded", "axioms", "tested", "different")
SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip
FLOATS = ("float64", "float32", "bfloat16", "float16")


class CertificateError(Exception):
    """A fault that makes a certificate unreadable, with its place."""


class Unsupported(Exception):
    """An operator without a value here: its outputs are compared by other means."""


def _want(condition: object, place: str, text: str) -> None:
    if not condition:
        raise CertificateError(f"{place}: {text}")


# -- reading -----------------------------------------------------------------------------------------------


@dataclass
class Node:
    """One operator: what it reads and writes, in which call of which module."""

    op: str
    ins: list[str]
    outs: list[str]
    attrs: dict[str, object]
    call: str
    place: str
    types: list[object]
    captures: list[str]
    key: str = ""


@dataclass
class Graph:
    """A list of operators in an order in which each reads what is there."""

    inputs: list[tuple[str, str, str, list[object]]] = field(default_factory=list)
    captures: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)


@dataclass
class Definition:
    """The expression that a constant is the rounding of, within some units in its last place."""

    tensor: str
    value: str
    units: float


@dataclass
class Certificate:
    """A certificate as read; nothing in it is believed."""

    folder: Path
    tensors: dict[str, dict[str, object]]
    source: Graph
    target: Graph
    definitions: Graph
    defined: list[Definition]
    sizes: list[dict[str, int]]
    pairs: list[tuple[str, str]]
    axioms: list[str]


def _text(value: object, place: str, most: int = 4096) -> str:
    _want(
        isinstance(value, str) and len(value) <= most, place, f"expected a text, got {type(value).__name__}"
    )
    return str(value)


def _list(value: Any, place: str, most: int = MOST_NODES) -> list[object]:
    _want(isinstance(value, list) and len(value) <= most, place, f"expected a list of at most {most}")
    return list(value)


def _dict(value: Any, place: str, most: int = MOST_NODES * 4) -> dict[str, object]:
    _want(isinstance(value, dict) and len(value) <= most, place, f"expected an object of at most {most} keys")
    return dict(value)


def _int(value: Any, place: str, low: int, high: int) -> int:
    fine = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    _want(fine, place, f"expected a whole number from {low} to {high}")
    return int(value)


def _shape(value: object, place: str, *, symbols: bool = False) -> list[object]:
    dims = _list(value, place, MOST_RANK)
    for d in dims:
        if not (symbols and (d is None or isinstance(d, str))):
            _int(d, place, 0, MOST_ELEMENTS)
    _want(math.prod(d for d in dims if isinstance(d, int)) <= MOST_ELEMENTS, place, "too many elements")
    return dims


def _read_attribute(value: object, place: str, depth: int, tensors: dict[str, dict[str, object]]) -> object:
    if isinstance(value, dict):
        if set(value) == {"graph"}:
            return _read_graph(value["graph"], f"{place}.graph", tensors, depth + 1)
        _want(set(value) == {"tensor"}, place, "expected a graph or a tensor")
        _want(value["tensor"] in tensors, place, "names no tensor of the certificate")
        return _Tensor(str(value["tensor"]))
    if isinstance(value, list):
        _want(len(value) <= 65536, place, "expected a shorter list")
        _want(all(isinstance(v, (int, float, str)) for v in value), place, "expected numbers or texts")
        return value
    _want(
        isinstance(value, (int, float, str)), place, "expected a number, a text, a list, a graph or a tensor"
    )
    return value


_OF_A_NODE = {"op", "in", "out", "attributes", "call", "at", "types", "captures"}


class _Tensor(str):
    """The name of a tensor, as an attribute has it."""


def _read_graph(value: object, place: str, tensors: dict[str, dict[str, object]], depth: int = 0) -> Graph:
    _want(depth <= MOST_DEPTH, place, "graphs are nested too deep")
    given = _dict(value, place)
    graph = Graph()
    known: set[str] = set()

    def define(name: object, where: str) -> str:
        text = _text(name, where)
        _want(text and text not in known, where, f"value `{text[:80]}` is defined twice or has no name")
        known.add(text)
        return text

    for i, raw in enumerate(_list(given.get("inputs", []), f"{place}.inputs")):
        where = f"{place}.inputs[{i}]"
        item = _dict(raw, where)
        dtype = _text(item.get("dtype"), f"{where}.dtype")
        _want(dtype in SIZES, f"{where}.dtype", f"element type `{dtype[:40]}` is not known")
        shape = _shape(item.get("shape"), f"{where}.shape", symbols=True) if "shape" in item else []
        name = define(item.get("value"), where)
        graph.inputs.append((_text(item.get("name", name), where), name, dtype, shape))
    graph.captures = [
        define(v, f"{place}.captures[{i}]") for i, v in enumerate(_list(given.get("captures", []), place))
    ]
    for name, tensor in _dict(given.get("constants", {}), f"{place}.constants").items():
        where = f"{place}.constants.{name[:80]}"
        _want(isinstance(tensor, str) and tensor in tensors, where, "names no tensor of the certificate")
        graph.constants[define(name, where)] = str(tensor)
    for i, raw in enumerate(_list(given.get("nodes", []), f"{place}.nodes")):
        where = f"{place}.nodes[{i}]"
        item = _dict(raw, where, 16)
        _want(set(item) <= _OF_A_NODE, where, f"expected only {', '.join(sorted(_OF_A_NODE))}")
        ins = [_text(v, where) for v in _list(item.get("in", []), f"{where}.in", 65536)]
        captured = [_text(v, where) for v in _list(item.get("captures", []), f"{where}.captures", 65536)]
        for name in (*ins, *captured):
            _want(not name or name in known, where, f"reads `{name[:80]}`, which nothing above it defines")
        attrs = {
            _text(k, where): _read_attribute(v, f"{where}.attributes.{k[:40]}", depth, tensors)
            for k, v in _dict(item.get("attributes", {}), f"{where}.attributes", 256).items()
        }
        outs = [define(v, f"{where}.out") if v else "" for v in _list(item.get("out"), f"{where}.out", 65536)]
        types = _list(item.get("types", []), f"{where}.types", 65536)
        op = _text(item.get("op"), f"{where}.op", 256)
        call, at = _text(item.get("call", ""), where), _text(item.get("at", ""), where)
        key = json.dumps(item.get("attributes", {}), sort_keys=True)
        graph.nodes.append(Node(op, ins, outs, attrs, call, at, types, captured, key))
    for i, raw in enumerate(_list(given.get("outputs", []), f"{place}.outputs")):
        item = _dict(raw, f"{place}.outputs[{i}]", 8)
        name = _text(item.get("value"), f"{place}.outputs[{i}]")
        _want(name in known, f"{place}.outputs[{i}]", f"returns `{name[:80]}`, which nothing defines")
        graph.outputs.append((_text(item.get("name", ""), place), name))
    for call, parent in _dict(given.get("calls", {}), f"{place}.calls").items():
        graph.calls[call] = _text(parent, f"{place}.calls.{call[:80]}")
    return graph


def read_certificate(path: Path) -> Certificate:
    """Read a certificate; raises `CertificateError` with a place for whatever it is not."""
    try:
        _want(path.stat().st_size <= MOST_JSON, str(path), f"larger than {MOST_JSON} bytes")
        given = json.loads(path.read_text("utf-8"), parse_constant=_no_constant)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"{path}: is no JSON document: {error}") from error
    top = _dict(given, "certificate", 32)
    _want(top.get("format") == "regraft-certificate", "format", "expected `regraft-certificate`")
    _want(top.get("version") == 1, "version", "expected 1")
    tensors = {
        k: _tensor_entry(v, f"tensors.{k[:80]}") for k, v in _dict(top.get("tensors"), "tensors").items()
    }
    definitions = _dict(top.get("definitions", {}), "definitions")
    rows: list[Definition] = []
    graph = _read_graph(
        {k: v for k, v in definitions.items() if k in ("constants", "nodes")}, "definitions", tensors
    )
    known = {*graph.constants, *(v for n in graph.nodes for v in n.outs)}
    for i, raw in enumerate(_list(definitions.get("of", []), "definitions.of")):
        where = f"definitions.of[{i}]"
        item = _dict(raw, where, 8)
        units = item.get("units")
        _want(
            isinstance(units, (int, float)) and 0 <= units <= MOST_UNITS,
            where,
            f"expected at most {MOST_UNITS} units",
        )
        _want(item.get("value") in known, where, "names no value of the definitions")
        _want(item.get("tensor") in tensors, where, "names no tensor of the certificate")
        rows.append(Definition(str(item["tensor"]), str(item["value"]), float(units)))  # type: ignore[arg-type]
    sizes = [
        {_text(k, "sizes"): _int(v, f"sizes[{i}]", 1, 1 << 20) for k, v in _dict(row, "sizes", 256).items()}
        for i, row in enumerate(_list(top.get("sizes", [{}]), "sizes", 8))
    ]
    pairs: list[tuple[str, str]] = []
    for raw in _list(top.get("pairs", []), "pairs"):
        pair = _list(raw, "pairs", 2)
        _want(len(pair) == 2, "pairs", "expected two calls")
        pairs.append((_text(pair[0], "pairs"), _text(pair[1], "pairs")))
    axioms = [_text(a, "axioms", 64) for a in _list(top.get("axioms", []), "axioms", 64)]
    for name in axioms:
        _want(name in AXIOMS, "axioms", f"`{name}` is none of {', '.join(AXIOMS)}")
    return Certificate(
        path.resolve().parent,
        tensors,
        _read_graph(top.get("source"), "source", tensors),
        _read_graph(top.get("target"), "target", tensors),
        graph,
        rows,
        sizes or [{}],
        pairs,
        axioms,
    )


def _no_constant(name: str) -> object:
    raise ValueError(f"`{name}` is no number")


def _tensor_entry(value: object, place: str) -> dict[str, object]:
    entry = _dict(value, place, 8)
    dtype = _text(entry.get("dtype"), place)
    _want(dtype in SIZES, place, f"element type `{dtype[:40]}` is not known")
    shape = _shape(entry.get("shape"), place)
    count = math.prod(shape)  # type: ignore[arg-type]
    if "values" in entry:
        values = _list(entry["values"], place, 65536)
        _want(len(values) == count, place, f"expected {count} values, got {len(values)}")
        _want(all(isinstance(v, (int, float)) for v in values), place, "expected numbers")
    else:
        name = _text(entry.get("file"), place)
        inside = name and "\0" not in name and not Path(name).is_absolute() and ".." not in Path(name).parts
        _want(inside, place, "expected the name of a file beside the certificate")
        _int(entry.get("offset"), place, 0, 1 << 50)
        digest = _text(entry.get("sha256"), place)
        _want(len(digest) == 64, place, "expected a SHA-256")
    return entry


class Tensors:
    """The tensors of a certificate, read when they are wanted; bytes must have the digest that it states."""

    def __init__(self, folder: Path, entries: dict[str, dict[str, object]]) -> None:
        self.folder, self.entries = folder, entries
        self.checked: set[str] = set()

    def load(self, name: str) -> np.ndarray:
        """Return a tensor; bfloat16 comes as the float32 of the same value."""
        entry = self.entries[name]
        dtype, shape = str(entry["dtype"]), tuple(entry["shape"])  # type: ignore[arg-type]
        count = math.prod(shape)
        if "values" in entry:
            plain = "float32" if dtype == "bfloat16" else dtype
            try:
                return (
                    np.array(entry["values"], "float64" if plain.startswith("f") else plain)
                    .astype(plain)
                    .reshape(shape)
                )
            except (OverflowError, ValueError) as error:
                raise CertificateError(f"tensors.{name[:80]}: {error}") from error
        path = self.folder / str(entry["file"])
        stored = "uint16" if dtype == "bfloat16" else dtype
        offset = _int(entry["offset"], f"tensors.{name[:80]}.offset", 0, 1 << 62)
        try:
            _want(path.is_file(), f"tensors.{name[:80]}", f"no file `{path}`")
            size = path.stat().st_size
            _want(offset + count * SIZES[dtype] <= size, f"tensors.{name[:80]}", f"lies outside of `{path}`")
            with path.open("rb") as file:
                file.seek(offset)
                array = np.fromfile(file, np.dtype(stored).newbyteorder("<"), count)
        except OSError as error:
            raise CertificateError(f"tensors.{name[:80]}: {error.strerror} `{path}`") from error
        if name not in self.checked:
            found = hashlib.sha256(array.data).hexdigest() if count else hashlib.sha256(b"").hexdigest()
            _want(
                found == entry["sha256"],
                f"tensors.{name[:80]}",
                f"`{path}` has other bytes there than stated",
            )
            self.checked.add(name)
        if dtype == "bfloat16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array.reshape(shape)


# -- prime fields ------------------------------------------------------------------------------------------

_C1, _C2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_PART = 1 << 15
_SMOOTH = (2, 3, 5, 7, 11, 13)


def _is_prime(n: int) -> bool:
    return n > 2 and n % 2 == 1 and all(n % d for d in range(3, math.isqrt(n) + 1, 2))


def draw_primes(count: int, rng: np.random.Generator) -> list[int]:
    """Return primes just below 2**21 in which small whole numbers have the roots that they have in the reals.

    Modulo a prime p = 3 (mod 4), x**((p+1)/4) is the root of a square that is a square itself, so that roots
    multiply; with 2 to 13 among the squares, the root of 64 is 8, and that of 32 is 4 times that of 2.
    """
    found: list[int] = []
    while len(found) < count:
        p = int(rng.integers((1 << 21) - (1 << 19), 1 << 21)) | 7
        if (
            p < 1 << 21
            and p not in found
            and _is_prime(p)
            and all(pow(q, (p - 1) // 2, p) == 1 for q in _SMOOTH)
        ):
            found.append(p)
    return found


def _threads() -> ThreadPoolExecutor:
    global _POOL
    if _POOL is None:
        _POOL = ThreadPoolExecutor(
            max(
                1,
                min(
                    8,
                    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
                ),
            )
        )
    return _POOL


_POOL: ThreadPoolExecutor | None = None


class Field:
    """Arithmetic modulo a prime: arrays of float64 that hold whole numbers from -(p-1)/2 to (p-1)/2."""

    def __init__(self, p: int, key: bytes) -> None:
        self.p, self.key = p, key
        self.half = (p + 1) // 2
        self._keys: dict[str, np.uint64] = {}
        self._inverses: np.ndarray | None = None
        self._tops: tuple[np.ndarray, np.ndarray] | None = None
        self._roots: tuple[np.ndarray, np.ndarray] | None = None
        self._marks = (
            np.random.default_rng(self.number("fingerprint")).integers(1, p, (BLOCK, 4)).astype(np.float64)
        )
        self.reduce(self._marks)
        self._more: np.ndarray = np.ones((0, 4))

    def number(self, name: str) -> int:
        """Return 64 bits that depend on the key, the prime and a name alone."""
        return int.from_bytes(
            hashlib.blake2b(f"{self.p} {name}".encode(), key=self.key, digest_size=8).digest(), "little"
        )

    def key_of(self, name: str) -> np.uint64:
        if name not in self._keys:
            self._keys[name] = np.uint64(self.number(name))
        return self._keys[name]

    def scalar(self, n: int | Fraction) -> int:
        """Return the residue of a rational."""
        n = Fraction(n)
        d = n.denominator % self.p
        r = n.numerator % self.p * (pow(d, -1, self.p) if d else 0) % self.p
        return r - self.p if r > self.p // 2 else r

    def parts(self, work: object, *arrays: np.ndarray) -> None:
        """Run `work` on stretches of flat arrays that fit into a cache, in threads where there are many."""
        flat = [a.reshape(-1) for a in arrays]
        n = flat[0].size
        if n <= 4 * _PART:
            for i in range(0, n, _PART):
                work(*[a[i : i + _PART] for a in flat])  # type: ignore[operator]
            return

        def run(first: int) -> None:
            for i in range(first, min(first + 8 * _PART, n), _PART):
                work(*[a[i : i + _PART] for a in flat])  # type: ignore[operator]

        list(_threads().map(run, range(0, n, 8 * _PART)))

    def _mod(self, x: np.ndarray) -> None:
        q = x * (1.0 / self.p)
        np.rint(q, out=q)
        q *= self.p
        x -= q

    def reduce(self, x: np.ndarray) -> np.ndarray:
        """Reduce whole numbers below 2**51 in size, in place where the array is contiguous."""
        shape = np.shape(x)
        x = np.ascontiguousarray(x, np.float64).reshape(shape)
        if x.size <= _PART:
            if x.size:
                self._mod(x.reshape(-1))
        else:
            self.parts(self._mod, x)
        return x

    def add(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.reduce(np.add(a, b))

    def sub(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.reduce(np.subtract(a, b))

    def mul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.reduce(np.multiply(a, b))

    def times(self, a: np.ndarray, n: int | Fraction) -> np.ndarray:
        return self.reduce(np.multiply(a, float(self.scalar(n))))

    def power(self, a: np.ndarray, n: int) -> np.ndarray:
        if n < 0:
            return self.power(self.inverse(a), -n)
        result, base = np.ones_like(a), a
        while n:
            if n & 1:
                result = self.mul(result, base)
            n >>= 1
            if n:
                base = self.mul(base, base)
        return result

    def inverse(self, a: np.ndarray) -> np.ndarray:
        """Return inverses; that of 0 is 0, on both sides."""
        if a.size <= 16384:
            return self.power(a, self.p - 2)
        if self._inverses is None:
            g = self._generator()
            powers = np.ones(self.p - 1)
            done, step = 1, g
            while done < self.p - 1:  # g**0 ... g**(p-2), each time twice as many
                n = min(done, self.p - 1 - done)
                powers[done : done + n] = self.times(powers[:n], step)
                done += n
                step = step * step % self.p
            table = np.zeros(self.p)
            at = powers.astype(np.int64) % self.p
            table[at] = np.concatenate((powers[:1], powers[:0:-1]))
            self._inverses = table
        out = np.empty(a.shape)
        table = self._inverses

        def work(x: np.ndarray, y: np.ndarray) -> None:
            y[:] = table[x.astype(np.int64)]  # an index below 0 counts from the end, as the residue does

        self.parts(work, np.ascontiguousarray(a), out)
        return out

    def _generator(self) -> int:
        n, factors, d = self.p - 1, set(), 2
        while d * d <= n:
            while n % d == 0:
                factors.add(d)
                n //= d
            d += 1
        if n > 1:
            factors.add(n)
        return next(
            g for g in range(2, self.p) if all(pow(g, (self.p - 1) // f, self.p) != 1 for f in factors)
        )

    # hashes: uninterpreted functions

    def _mix(self, z: np.ndarray) -> np.ndarray:
        z ^= z >> _S30
        z *= _C1
        z ^= z >> _S27
        z *= _C2
        z ^= z >> _S31
        return z

    def bits(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return 64 pseudo-random bits for each residue."""
        key, again = self.key_of(name), self.key_of(f"{name} again")
        out = np.empty(x.shape, np.uint64)

        def work(a: np.ndarray, o: np.ndarray) -> None:
            z = a.astype(np.int64).view(np.uint64)
            z ^= key
            z *= _C1
            self._mix(z)
            z += again
            o[:] = self._mix(z)

        self.parts(work, np.ascontiguousarray(x, np.float64), out)
        return out

    def residues(self, bits: np.ndarray) -> np.ndarray:
        """Return the residues of 64-bit numbers' upper 50 bits."""
        return self.reduce((bits >> np.uint64(14)).astype(np.float64))

    def function(self, name: str, *xs: np.ndarray) -> np.ndarray:
        """Return an uninterpreted function of the elements at one place, operands broadcast."""
        if len(xs) == 1:
            key, again = self.key_of(name), self.key_of(f"{name} again")
            out = np.empty(xs[0].shape)

            def work(a: np.ndarray, o: np.ndarray) -> None:
                z = a.astype(np.int64).view(np.uint64)
                z ^= key
                z *= _C1
                self._mix(z)
                z += again
                self._mix(z)
                z >>= np.uint64(14)
                o[:] = z
                self._mod(o)

            self.parts(work, np.ascontiguousarray(xs[0], np.float64), out)
            return out
        total = self.bits(f"{name} 0", xs[0])
        for i, x in enumerate(xs[1:], 1):
            total = self._mix(total + self.bits(f"{name} {i}", x))
        return self.residues(total)

    def odd(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return an uninterpreted function with f(-x) = -f(x)."""
        return np.sign(x) * self.function(name, np.abs(x))

    def even(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return an uninterpreted function with f(-x) = f(x)."""
        return self.function(name, np.abs(x))

    def sequence(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return 64 bits of the elements along the last axis, their order included."""
        b = self.bits(name, x)
        places = self.bits(f"{name} place", np.arange(x.shape[-1], dtype=np.float64)) | np.uint64(1)
        with np.errstate(over="ignore"):
            return self._mix(
                (self._mix(b + places) * places).sum(-1, dtype=np.uint64) + np.uint64(x.shape[-1])
            )

    def sign(self, x: np.ndarray) -> np.ndarray:
        return self.odd("Sign", x)

    def absolute(self, x: np.ndarray) -> np.ndarray:
        return self.mul(x, self.sign(x))

    def relu(self, x: np.ndarray) -> np.ndarray:
        return self.maximum(x, np.zeros(1))

    def maximum(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(a + b + |a - b|) / 2, so that max(a, b) + min(a, b) = a + b."""
        d = self.sub(a, b)
        return self.times(self.reduce(a + b + self.absolute(d)), Fraction(1, 2))

    def minimum(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return -self.maximum(-a, -b)

    def root(self, x: np.ndarray) -> np.ndarray:
        """Return an uninterpreted root, never 0; smooth whole numbers and inverses have the field's."""
        if self._roots is None:
            special: dict[int, int] = {0: 0}
            for n in range(1, 8193):
                rest = n
                for q in _SMOOTH:
                    while rest % q == 0:
                        rest //= q
                if rest == 1:
                    for value in (n % self.p, pow(n, -1, self.p)):
                        root = pow(value, (self.p + 1) // 4, self.p)
                        special[self.scalar(value)] = self.scalar(root)
                        special[self.scalar(root)] = self.scalar(pow(root, (self.p + 1) // 4, self.p))
            keys = np.array(sorted(special), np.float64)
            self._roots = keys, np.array([special[int(k)] for k in keys], np.float64)
        out = self.function("Sqrt", x)
        out[out == 0] = 1
        keys, roots = self._roots
        at = np.minimum(np.searchsorted(keys, x), len(keys) - 1)
        return np.where(keys[at] == x, roots[at], out)

    # products

    def matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        k = a.shape[-1]
        if a.ndim > 2 and b.ndim == 2:
            return self.matmul(a.reshape(-1, k), b).reshape(*a.shape[:-1], b.shape[-1])
        if a.ndim > 2 or b.ndim > 2:
            a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        total: np.ndarray | None = None
        for i in range(0, max(k, 1), BLOCK):
            part = self.reduce(np.matmul(a[..., i : i + BLOCK], b[..., i : i + BLOCK, :]))
            total = part if total is None else self.add(total, part)
        assert total is not None
        return total

    def sum(self, x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
        """Sum along axes: 2**31 residues stay below 2**51."""
        return self.reduce(np.sum(x, axis=axes, keepdims=keep)) if axes else x

    def fingerprint(self, x: np.ndarray) -> tuple[object, ...]:
        """Return shape and four keyed sums of the elements: arrays that differ agree in them by 2**-80."""
        flat = np.ascontiguousarray(x, np.float64).reshape(-1)
        rows = -(-flat.size // BLOCK)
        while len(self._more) < rows:
            new = np.random.default_rng(self.number(f"rows {len(self._more)}")).integers(
                1, self.p, (max(1024, rows), 4)
            )
            self._more = np.concatenate((self._more, self.reduce(new.astype(np.float64))))
        full = flat.size // BLOCK
        sums = np.zeros((rows, 4))
        if full:
            sums[:full] = flat[: full * BLOCK].reshape(full, BLOCK) @ self._marks
        if rows > full:
            sums[full] = flat[full * BLOCK :] @ self._marks[: flat.size - full * BLOCK]
        total = self.reduce(self.mul(self.reduce(sums), self._more[:rows]).sum(0))
        return (*x.shape, *(int(v) for v in total))

    # images of numbers

    def image(self, array: np.ndarray) -> np.ndarray:
        """Return the residues of an array's exact values."""
        if array.dtype == object:
            return np.array([self.scalar(v) for v in array.reshape(-1)], np.float64).reshape(array.shape)
        if array.dtype == bool:
            return array.astype(np.float64)
        if array.dtype.kind in "iu":
            r = (array % array.dtype.type(self.p) if array.dtype.itemsize > 2 else array).astype(np.float64)
            return self.reduce(r)
        if array.dtype == np.float16:
            array = array.astype(np.float32)
        if array.dtype == np.float64:
            m, e = np.frexp(array)
            m = np.where(np.isfinite(m), m, 0)
            whole = np.ldexp(m, 53)
            high = np.floor(whole / 2**27)
            r = self.reduce(self.times(self.reduce(high), 2**27) + self.reduce(whole - high * 2**27))
            scales = np.array(
                [self.scalar(Fraction(2) ** (int(k) - 53)) for k in range(-1100, 1100)], np.float64
            )
            return self._infinite(self.mul(r, scales[np.where(np.isfinite(array), e, 0) + 1100]), array)
        return self._infinite(self._image32(array), array)

    def _image32(self, array: np.ndarray) -> np.ndarray:
        """The upper 16 bits of a float32 are a number; the lower ones count in a unit that it decides."""
        if self._tops is None:
            bits = np.arange(1 << 16, dtype=np.uint32)
            e = ((bits >> 7) & 255).astype(np.int64)
            unit = np.array(
                [self.scalar(Fraction(2) ** (max(int(k), 1) - 150)) for k in range(256)], np.float64
            )[e]
            unit[e == 255] = 0
            m = ((bits & 127).astype(np.float64) + np.where(e > 0, 128, 0)) * 65536
            s = np.where(bits >> 15, -1.0, 1.0)
            self._tops = self.reduce(self.mul(m, unit) * s), unit * s
        tops, units = self._tops
        words = np.ascontiguousarray(array, "<f4").reshape(-1).view("<u2").reshape(-1, 2)
        out = np.empty(array.size)

        def run(i: int) -> None:
            w = words[i : i + _PART]
            r = units[w[:, 1]]
            r *= w[:, 0]
            r += tops[w[:, 1]]
            self._mod(r)
            out[i : i + _PART] = r

        list((_threads().map if array.size > 4 * _PART else map)(run, range(0, array.size, _PART)))
        return out.reshape(array.shape)

    def _infinite(self, r: np.ndarray, array: np.ndarray) -> np.ndarray:
        odd = ~np.isfinite(array)
        if odd.any():
            names = np.where(np.isnan(array), self.number("nan") % 1000003, self.number("inf") % 1000003)
            r = np.where(odd, np.where(array < 0, -1, 1) * names, r)
            return self.reduce(r)
        return r


# -- values ------------------------------------------------------------------------------------------------


class Val:
    """A tensor in one field: exact numbers where they are known before any input, else residues."""

    __slots__ = ("_field", "dtype", "exact", "id", "shape", "tested")

    def __init__(
        self, dtype: str, *, exact: np.ndarray | None = None, residues: np.ndarray | None = None
    ) -> None:
        self.dtype, self.exact, self._field = dtype, exact, residues
        held = exact if exact is not None else residues
        assert held is not None
        self.shape: tuple[int, ...] = held.shape
        self.id = -1
        self.tested = False

    def residues(self, run: Run) -> np.ndarray:
        if self._field is None:
            assert self.exact is not None
            self._field = run.field.image(self.exact)
        return self._field

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers or truth values by its type."""
        return self.dtype not in FLOATS


def _rational(val: Val | None) -> np.ndarray | None:
    """Return exact values as integers or fractions, where they are few and known."""
    if val is None or val.exact is None:
        return None
    a = val.exact
    if a.dtype.kind in "iub":
        return a
    if a.size > MOST_FRACTIONS:
        return None
    if a.dtype == object:
        return a
    if not np.isfinite(a).all():
        return None
    return np.array([Fraction(float(v)) for v in a.reshape(-1)], object).reshape(a.shape)


def _plain(array: np.ndarray) -> np.ndarray:
    """Return int64 where the numbers of an object array are whole and small enough."""
    if array.dtype != object:
        return array
    flat = array.reshape(-1)
    if all(Fraction(v).denominator == 1 and abs(v) < 1 << 62 for v in flat):
        return np.array([int(v) for v in flat], np.int64).reshape(array.shape)
    return array


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise Unsupported(f"operands of shapes {shapes} do not broadcast") from error
    _room(shape)
    return shape


def _room(shape: tuple[int, ...] | list[int], times: int = 1) -> None:
    """Refuse what would take more memory than the checker may use, before it is allocated."""
    if len(shape) > MOST_RANK or any(d < 0 for d in shape) or math.prod(shape) * times > LIMIT[0]:
        raise Unsupported(f"a tensor of shape {[int(d) for d in shape]} is larger than this check may hold")


LIMIT = [1 << 29]
"""Most elements of one tensor."""

OPS: dict[str, Callable[[Args], Val | Sequence[Val | None]]] = {}


def op(*names: str):
    def add(function):
        for name in names:
            assert name not in OPS, name
            OPS[name] = function
        return function

    return add


class _Read(dict[str, object]):
    """Attributes that note which of them were read, as one that is not could differ unnoticed."""

    def __init__(self, given: dict[str, object]) -> None:
        super().__init__(given)
        self.unread = set(given)

    def get(self, name: str, default: object = None) -> object:
        self.unread.discard(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> object:
        self.unread.discard(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.unread.discard(str(name))
        return super().__contains__(name)


_WITHOUT_EFFECT = {
    "Cast": {"saturate", "round_mode"},
    "Dropout": {"seed"},
    "BatchNormalization": {"momentum"},
    "MaxPool": {"storage_order"},
    "Split": {"num_outputs"},
    "Resize": {
        "coordinate_transformation_mode",
        "cubic_coeff_a",
        "exclude_outside",
        "extrapolation_value",
        "nearest_mode",
    },
    "ConvTranspose": {"output_padding", "output_shape"},
    "BitShift": {"direction"},  # these two hash all of them
    "IsInf": {"detect_negative", "detect_positive"},
    "QuantizeLinear": {"axis", "saturate", "output_dtype", "precision"},
    "DequantizeLinear": {"axis", "output_dtype"},
    "CastLike": {"saturate", "round_mode"},
}
"""Operator -> attributes that its value does not depend on, or only in forms in which they are read."""


class Args:
    """One operator as its semantics read it: operands, attributes, and the field."""

    def __init__(self, run: Run, node: Node, vals: list[Val | None]) -> None:
        self.run, self.node, self.vals, self.f = run, node, vals, run.field
        self.attrs = _Read(node.attrs)

    def has(self, i: int) -> bool:
        return i < len(self.vals) and self.vals[i] is not None

    def val(self, i: int) -> Val:
        found = self.vals[i] if i < len(self.vals) else None
        if found is None:
            raise Unsupported(f"operand {i} is missing")
        return found

    def res(self, i: int) -> np.ndarray:
        return self.val(i).residues(self.run)

    def ints(self, i: int) -> list[int]:
        """Return an operand that must be known before any input: a shape, axes, repeats."""
        exact = _rational(self.val(i))
        if exact is None:
            raise Unsupported(f"operand {i} depends on data")
        flat = _plain(exact).reshape(-1)
        if len(flat) > 65536 or flat.dtype == object:
            raise Unsupported(f"operand {i} is no list of whole numbers")
        return [int(v) for v in flat]

    def numbers(self, i: int) -> list[Fraction]:
        exact = _rational(self.val(i))
        if exact is None:
            raise Unsupported(f"operand {i} depends on data")
        return [
            Fraction(v) if not isinstance(v, (np.integer, np.bool_)) else Fraction(int(v))
            for v in exact.reshape(-1)
        ]

    def int(self, name: str, default: int | None = None) -> int:
        value = self.attrs.get(name, default)
        if not isinstance(value, int):
            raise Unsupported(f"attribute `{name}` is no whole number")
        return int(value)

    def number(self, name: str, default: float | None = None) -> Fraction:
        """Return a float attribute, which ONNX holds in float32."""
        value = self.attrs.get(name, default)
        if not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > 3e38:
            raise Unsupported(f"attribute `{name}` is no number")
        return Fraction(float(np.float32(value)))

    def text(self, name: str, default: str) -> str:
        value = self.attrs.get(name, default)
        if not isinstance(value, str):
            raise Unsupported(f"attribute `{name}` is no text")
        return value

    def list(self, name: str, default: list[int] | None = None) -> list[int]:
        value = self.attrs.get(name, default)
        if not isinstance(value, list) or not all(isinstance(v, int) and abs(v) < 1 << 40 for v in value):
            raise Unsupported(f"attribute `{name}` is no list of whole numbers")
        return [int(v) for v in value]

    def axes(self, rank: int, at: int = 1) -> list[int] | None:
        """Return the axes of an operator that takes them as an operand or an attribute."""
        found = self.ints(at) if self.has(at) else self.list("axes") if "axes" in self.attrs else None
        return None if found is None else [_axis(a, rank) for a in found]

    def out(self, residues: np.ndarray, dtype: str | None = None) -> Val:
        return Val(dtype or self.val(0).dtype, residues=residues)


def _axis(a: int, rank: int) -> int:
    if not -rank <= a < max(rank, 1):
        raise Unsupported(f"axis {a} of a tensor of rank {rank}")
    return a % rank if rank else 0


def _move(a: Args, function, dtype: str | None = None) -> Val:
    """Apply what only moves elements to exact values or residues."""
    v = a.val(0)
    if v.exact is not None:
        return Val(dtype or v.dtype, exact=function(v.exact))
    return Val(dtype or v.dtype, residues=function(v.residues(a.run)))


# -- operators that move elements --------------------------------------------------------------------------


@op("Identity", "Dropout")
def _identity(a: Args) -> list[Val]:
    v = a.val(0)
    if a.has(2) and any(a.ints(2)):
        raise Unsupported("training")
    rest = [Val("bool", exact=np.ones(v.shape, bool))] if len(a.node.outs) > 1 else []
    return [v, *rest]


@op("Reshape")
def _reshape(a: Args) -> Val:
    shape, given, zero = a.ints(1), a.val(0).shape, a.int("allowzero", 0)
    shape = [given[i] if d == 0 and not zero and i < len(given) else d for i, d in enumerate(shape)]
    if shape.count(-1) == 1:
        known = math.prod(d for d in shape if d != -1)
        shape[shape.index(-1)] = a.val(0).size // known if known else 0
    if math.prod(shape) != a.val(0).size or any(d < 0 for d in shape):
        raise Unsupported(f"{list(given)} cannot have the shape {shape}")
    return _move(a, lambda x: x.reshape(shape))


@op("Flatten")
def _flatten(a: Args) -> Val:
    shape = a.val(0).shape
    axis = a.int("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return _move(a, lambda x: x.reshape(math.prod(shape[:axis]), math.prod(shape[axis:])))


@op("Transpose")
def _transpose(a: Args) -> Val:
    rank = len(a.val(0).shape)
    perm = a.list("perm", list(range(rank))[::-1])
    if sorted(perm) != list(range(rank)):
        raise Unsupported(f"{perm} orders no {rank} axes")
    return _move(a, lambda x: np.ascontiguousarray(x.transpose(perm)))


@op("Squeeze")
def _squeeze(a: Args) -> Val:
    shape = a.val(0).shape
    axes = a.axes(len(shape))
    axes = [i for i, d in enumerate(shape) if d == 1] if axes is None else axes
    if any(shape[i] != 1 for i in axes):
        raise Unsupported(f"axes {axes} of {list(shape)} are not 1")
    return _move(a, lambda x: x.reshape([d for i, d in enumerate(shape) if i not in axes]))


@op("Unsqueeze")
def _unsqueeze(a: Args) -> Val:
    shape = list(a.val(0).shape)
    found = a.ints(1) if a.has(1) else a.list("axes")
    rank = len(shape) + len(found)
    for i in sorted(_axis(x, rank) for x in found):
        shape.insert(i, 1)
    return _move(a, lambda x: x.reshape(shape))


@op("Concat")
def _concat(a: Args) -> Val:
    vals = [v for v in a.vals if v is not None]
    axis = _axis(a.int("axis"), len(vals[0].shape))
    _room(vals[0].shape, len(vals))
    rationals = [_rational(v) for v in vals]
    try:
        if all(r is not None for r in rationals):
            return Val(vals[0].dtype, exact=_plain(np.concatenate(rationals, axis)))  # type: ignore[arg-type]
        return Val(vals[0].dtype, residues=np.concatenate([v.residues(a.run) for v in vals], axis))
    except ValueError as error:
        raise Unsupported(str(error)) from error


@op("Split")
def _split(a: Args) -> list[Val]:
    axis, shape = _axis(a.int("axis", 0), len(a.val(0).shape)), a.val(0).shape
    parts = len(a.node.outs)
    if a.has(1):
        sizes = a.ints(1)
    elif "split" in a.attrs:
        sizes = a.list("split")
    else:
        each = -(-shape[axis] // parts)
        sizes = [min(each, shape[axis] - i * each) for i in range(parts)]
    if sum(sizes) != shape[axis] or min(sizes) < 0 or len(sizes) != parts:
        raise Unsupported(f"{shape[axis]} does not split into {sizes}")
    at = np.cumsum([0, *sizes])
    index = [slice(None)] * len(shape)
    out = []
    for i in range(parts):
        index[axis] = slice(int(at[i]), int(at[i + 1]))
        where = tuple(index)
        out.append(_move(a, lambda x, w=where: np.ascontiguousarray(x[w])))
    return out


@op("Slice")
def _slice(a: Args) -> Val:
    shape = a.val(0).shape
    starts, ends = a.ints(1), a.ints(2)
    axes = a.ints(3) if a.has(3) else list(range(len(starts)))
    steps = a.ints(4) if a.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Unsupported("starts, ends, axes and steps differ in length")
    index: list[object] = [slice(None)] * len(shape)
    for start, end, raw, step in zip(starts, ends, axes, steps, strict=True):
        axis = _axis(raw, len(shape))
        n = shape[axis]
        if step == 0:
            raise Unsupported("a step of 0")
        start, end = start + n if start < 0 else start, end + n if end < 0 else end
        if step > 0:
            index[axis] = slice(min(max(start, 0), n), min(max(end, 0), n), step)
        else:
            start, end = min(max(start, 0), n - 1), min(max(end, -1), n - 1)
            index[axis] = slice(start, None if end < 0 else end, step) if n else slice(0, 0)
    return _move(a, lambda x: np.ascontiguousarray(x[tuple(index)]))


@op("Expand")
def _expand(a: Args) -> Val:
    shape = _broadcast([a.val(0).shape, tuple(a.ints(1))])
    return _move(a, lambda x: np.broadcast_to(x, shape).copy())


@op("Tile")
def _tile(a: Args) -> Val:
    repeats = a.ints(1)
    if len(repeats) != len(a.val(0).shape) or min(repeats, default=0) < 0:
        raise Unsupported(f"repeats {repeats} of a tensor of rank {len(a.val(0).shape)}")
    _room([d * r for d, r in zip(a.val(0).shape, repeats, strict=True)])
    return _move(a, lambda x: np.tile(x, repeats))


@op("DepthToSpace")
def _depth_to_space(a: Args) -> Val:
    n, c, h, w = a.val(0).shape
    b = a.int("blocksize")
    if b < 1 or c % (b * b):
        raise Unsupported(f"{c} channels in blocks of {b}")
    if a.text("mode", "DCR") == "DCR":
        return _move(
            a,
            lambda x: np.ascontiguousarray(
                x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
            ).reshape(n, c // b**2, h * b, w * b),
        )
    return _move(
        a,
        lambda x: np.ascontiguousarray(
            x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        ).reshape(n, c // b**2, h * b, w * b),
    )


@op("SpaceToDepth")
def _space_to_depth(a: Args) -> Val:
    n, c, h, w = a.val(0).shape
    b = a.int("blocksize")
    if b < 1 or h % b or w % b:
        raise Unsupported(f"{h}x{w} in blocks of {b}")
    return _move(
        a,
        lambda x: np.ascontiguousarray(
            x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
        ).reshape(n, c * b * b, h // b, w // b),
    )


@op("Trilu")
def _trilu(a: Args) -> Val:
    k, keep = a.ints(1)[0] if a.has(1) else 0, np.triu if a.int("upper", 1) else np.tril
    return _move(
        a,
        lambda x: (
            x * keep(np.ones(x.shape[-2:], bool), k)
            if x.dtype == object
            else np.where(keep(np.ones(x.shape[-2:], bool), k), x, x.dtype.type(0))
        ),
    )


@op("Pad")
def _pad(a: Args) -> Val:
    shape = a.val(0).shape
    pads = a.ints(1) if a.has(1) else a.list("pads")
    axes = [_axis(x, len(shape)) for x in a.ints(3)] if a.has(3) else list(range(len(shape)))
    if len(pads) != 2 * len(axes):
        raise Unsupported(f"{len(pads)} pads for {len(axes)} axes")
    before, after = [0] * len(shape), [0] * len(shape)
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    _room([d + max(b, 0) + max(e, 0) for d, b, e in zip(shape, before, after, strict=True)])
    mode = a.text("mode", "constant")
    if mode == "constant":
        v, fill = a.val(0), a.vals[2] if a.has(2) else None
        kept = tuple(slice(max(-b, 0), d - max(-e, 0)) for d, b, e in zip(shape, before, after, strict=True))
        size = [d + b + e for d, b, e in zip(shape, before, after, strict=True)]
        if min(size, default=0) < 0:
            raise Unsupported(f"pads {pads} of {list(shape)}")
        inner = tuple(slice(max(b, 0), s - max(e, 0)) for b, e, s in zip(before, after, size, strict=True))
        if (
            v.exact is not None
            and v.exact.dtype.kind in "iub"
            and (fill is None or (fill.exact is not None and fill.exact.dtype.kind in "iub"))
        ):
            whole = np.full(
                size, 0 if fill is None or fill.exact is None else fill.exact.reshape(-1)[0], v.exact.dtype
            )
            whole[inner] = v.exact[kept]
            return Val(v.dtype, exact=whole)
        out = np.full(size, 0.0 if fill is None else fill.residues(a.run).reshape(-1)[0])
        out[inner] = v.residues(a.run)[kept]
        return a.out(out)
    numpy_mode: Any = mode
    if mode not in ("reflect", "edge", "wrap") or min(before + after, default=0) < 0:
        raise Unsupported(f"Pad of mode {mode} by {pads}")
    return _move(a, lambda x: np.pad(x, list(zip(before, after, strict=True)), numpy_mode))


@op("Shape")
def _shape_of(a: Args) -> Val:
    shape = a.val(0).shape
    end = a.int("end", len(shape))
    return Val("int64", exact=np.array(shape[slice(a.int("start", 0), end)], np.int64))


@op("Size")
def _size_of(a: Args) -> Val:
    return Val("int64", exact=np.array(a.val(0).size, np.int64))


@op("ConstantOfShape")
def _constant_of_shape(a: Args) -> Val:
    shape = a.ints(0)
    _room(shape)
    fill = a.attrs.get("value")
    if isinstance(fill, _Tensor):
        array = a.run.tensors.load(fill).reshape(-1)
        return Val(str(a.run.tensors.entries[fill]["dtype"]), exact=np.full(shape, array[0]))
    return Val("float32", exact=np.zeros(shape, np.float32))


@op("EyeLike")
def _eye_like(a: Args) -> Val:
    n, m = a.val(0).shape
    return Val(
        a.run.dtype_of(a.attrs.get("dtype"), a.val(0).dtype), exact=np.eye(n, m, a.int("k", 0), np.int64)
    )


@op("Range")
def _range(a: Args) -> Val:
    start, limit, step = (a.numbers(i)[0] for i in range(3))
    if step == 0:
        raise Unsupported("a step of 0")
    n = max(0, math.ceil((limit - start) / step))
    _room([n])
    if start.denominator == step.denominator == 1:
        return Val(a.val(0).dtype, exact=int(start) + int(step) * np.arange(n, dtype=np.int64))
    _room([n * (LIMIT[0] // MOST_FRACTIONS)])
    return Val(a.val(0).dtype, exact=np.array([start + i * step for i in range(n)], object))


def _indices(a: Args, i: int, n: int) -> np.ndarray | None:
    """Return known indices in 0...n-1; None where they depend on data."""
    exact = a.val(i).exact
    if exact is None or exact.dtype.kind not in "iu":
        return None
    found = exact.astype(np.int64)
    if found.size and (found.min() < -n or found.max() >= n):
        raise Unsupported(f"an index outside of {n} elements")
    return np.where(found < 0, found + n, found)


def _selectors(a: Args, i: int, n: int) -> np.ndarray:
    """Return for each index and each place whether it is the place, as an uninterpreted truth value.

    An index below 0 counts from the end, so that a place is met by two numbers.
    """
    index = a.res(i)[..., None]
    _room((*index.shape[:-1], n))
    places = np.arange(n, dtype=np.float64)
    return a.f.add(a.run.equal(index - places), a.run.equal(index - places + n))


@op("Gather")
def _gather(a: Args) -> Val:
    shape = a.val(0).shape
    axis = _axis(a.int("axis", 0), len(shape))
    index = _indices(a, 1, shape[axis])
    if index is not None:
        _room((*shape[:axis], *index.shape, *shape[axis + 1 :]))
        return _move(a, lambda x: np.take(x, index, axis))
    table = np.moveaxis(a.res(0), axis, 0).reshape(shape[axis], -1)
    chosen = a.f.matmul(_selectors(a, 1, shape[axis]).reshape(-1, shape[axis]), table)
    spread = chosen.reshape(*a.val(1).shape, *shape[:axis], *shape[axis + 1 :])
    rank = len(a.val(1).shape)
    order = [*range(rank, rank + axis), *range(rank), *range(rank + axis, spread.ndim)]
    return a.out(np.ascontiguousarray(spread.transpose(order)))


@op("GatherElements")
def _gather_elements(a: Args) -> Val:
    shape = a.val(0).shape
    axis = _axis(a.int("axis", 0), len(shape))
    index = _indices(a, 1, shape[axis])
    cut = tuple(slice(0, d) if i != axis else slice(None) for i, d in enumerate(a.val(1).shape))
    if index is not None:
        return _move(a, lambda x: np.take_along_axis(x[cut], index, axis))
    lines = np.moveaxis(a.res(0)[cut], axis, -1)
    chosen = np.moveaxis(_selectors(a, 1, shape[axis]), axis, -2)
    return a.out(np.moveaxis(a.f.matmul(chosen, lines[..., None])[..., 0], -1, axis))


@op("GatherND")
def _gather_nd(a: Args) -> Val:
    shape, where, batch = a.val(0).shape, a.val(1).exact, a.int("batch_dims", 0)
    if where is None or where.dtype.kind not in "iu":
        raise Unsupported("indices depend on data")
    depth = where.shape[-1]
    _room((*where.shape[:-1], *shape[batch + depth :]))
    grid = np.indices(where.shape[:batch]) if batch else np.zeros((0,))
    index = [g.reshape(*where.shape[:batch], *[1] * (where.ndim - 1 - batch)) for g in grid]
    for i in range(depth):
        n, at = shape[batch + i], where[..., i].astype(np.int64)
        if at.size and (at.min() < -n or at.max() >= n):
            raise Unsupported("an index outside of the tensor")
        index.append(at)
    return _move(a, lambda x: x[tuple(index)])


@op("ScatterND")
def _scatter_nd(a: Args) -> Val:
    shape, where = a.val(0).shape, a.val(1).exact
    if where is None or where.dtype.kind not in "iu":
        raise Unsupported("indices depend on data")
    flat = where.reshape(-1, where.shape[-1]).astype(np.int64)
    bounds = np.array(shape[: where.shape[-1]])
    if flat.size and ((flat < -bounds).any() or (flat >= bounds).any()):
        raise Unsupported("an index outside of the tensor")
    flat = np.where(flat < 0, flat + bounds, flat)
    single = (
        np.ravel_multi_index(tuple(flat.T), tuple(int(b) for b in bounds)) if flat.size else np.zeros(0, int)
    )
    return _scatter(a, single, a.res(2).reshape(len(flat), *shape[where.shape[-1] :]), int(math.prod(bounds)))


def _scatter(a: Args, at: Any, updates: np.ndarray, n: int) -> Val:
    out = a.res(0).copy().reshape(n, *updates.shape[1:])
    mode = a.text("reduction", "none")
    if mode == "none":
        if len(np.unique(at)) != len(at):
            raise Unsupported("two updates of one element")
        out[at] = updates
    elif mode == "add":
        np.add.at(out, at, updates)
    else:
        raise Unsupported(f"the reduction {mode}")
    return a.out(a.f.reduce(out).reshape(a.val(0).shape))


@op("ScatterElements")
def _scatter_elements(a: Args) -> Val:
    shape = a.val(0).shape
    axis = _axis(a.int("axis", 0), len(shape))
    index = _indices(a, 1, shape[axis])
    if index is None:
        raise Unsupported("indices depend on data")
    grid = list(np.indices(index.shape))
    grid[axis] = index
    single = np.ravel_multi_index(tuple(g.reshape(-1) for g in grid), shape)
    return _scatter(a, single, a.res(2).reshape(-1), a.val(0).size)


@op("OneHot")
def _one_hot(a: Args) -> Val:
    depth = a.ints(1)[0]
    axis = _axis(a.int("axis", -1), len(a.val(0).shape) + 1)
    _room((*a.val(0).shape, max(depth, 0)))
    off, on = a.res(2)
    index = _indices(a, 0, depth) if a.val(0).exact is not None else None
    hot = (
        (index[..., None] == np.arange(depth)).astype(np.float64)
        if index is not None
        else _selectors(a, 0, depth)
    )
    return a.out(
        np.moveaxis(
            a.f.add(np.full(1, off), a.f.mul(hot, a.f.sub(np.full(1, on), np.full(1, off)))),
            -1,
            axis,
        ),
        a.val(2).dtype,
    )


@op("NonZero")
def _non_zero(a: Args) -> Val:
    exact = _rational(a.val(0))
    if exact is None:
        raise Unsupported("its size depends on data")
    return Val("int64", exact=np.array(np.nonzero(exact), np.int64))


@op("ReverseSequence")
def _reverse_sequence(a: Args) -> Val:
    lengths, batch, time = a.ints(1), a.int("batch_axis", 1), a.int("time_axis", 0)
    order = np.arange(a.val(0).shape[time])[:, None].repeat(len(lengths), 1)
    for i, n in enumerate(lengths):
        order[:n, i] = order[:n, i][::-1]
    shape = [1] * len(a.val(0).shape)
    shape[time], shape[batch] = order.shape
    index = (order if time < batch else order.T).reshape(shape)
    return _move(a, lambda x: np.take_along_axis(x, np.broadcast_to(index, x.shape), time))


# -- elementwise -------------------------------------------------------------------------------------------


def _exactly(a: Args, function, dtype: str | None = None) -> Val | None:
    """Apply a function to exact operands; None where one is not exact, or the numbers get too large."""
    given = [_rational(v) for v in a.vals if v is not None]
    if any(g is None for g in given):
        return None
    arrays = [g for g in given if g is not None]
    size = math.prod(_broadcast([g.shape for g in arrays]))
    small = all(
        g.dtype != object
        and (g.dtype == bool or not g.size or (np.abs(g.astype(np.float64)).max() < 1 << 30))
        for g in arrays
    )
    if size > (MOST_EXACT if small else MOST_FRACTIONS):
        return None
    try:
        if small:
            done = function(*[g if g.dtype == bool else g.astype(np.int64) for g in arrays])
        else:
            done = function(
                *[
                    np.array(
                        [v if isinstance(v, Fraction) else Fraction(int(v)) for v in g.reshape(-1)], object
                    ).reshape(g.shape)
                    for g in arrays
                ]
            )
    except (ZeroDivisionError, OverflowError, TypeError):
        return None
    return Val(dtype or a.val(0).dtype, exact=_plain(np.asarray(done)))


def _arith(name: str, exactly, infield) -> None:
    def run(a: Args) -> Val:
        found = _exactly(a, exactly)
        if found is not None:
            return found
        total = a.res(0)
        for i in range(1, len(a.vals)):
            _broadcast([total.shape, a.val(i).shape])
            total = infield(a.f, total, a.res(i))
        return a.out(total)

    op(name)(run)


_arith("Add", lambda x, y: _whole(x) + _whole(y), Field.add)
_arith("Sub", lambda x, y: _whole(x) - _whole(y), Field.sub)
_arith("Mul", lambda x, y: _whole(x) * _whole(y), Field.mul)
_arith("Sum", lambda *xs: sum((_whole(x) for x in xs[1:]), _whole(xs[0])), Field.add)
_arith("Max", lambda *xs: _fold(np.maximum, xs), Field.maximum)
_arith("Min", lambda *xs: _fold(np.minimum, xs), Field.minimum)


def _whole(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64) if x.dtype == bool else x


def _fold(function, xs) -> np.ndarray:
    out = xs[0]
    for x in xs[1:]:
        out = function(out, x)
    return out


@op("Mean")
def _mean(a: Args) -> Val:
    total = a.res(0)
    for i in range(1, len(a.vals)):
        total = a.f.add(total, a.res(i))
    return a.out(a.f.times(total, Fraction(1, len(a.vals))))


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divide as C does: towards 0."""
    if (y == 0).any():
        raise ZeroDivisionError
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


@op("Div")
def _div(a: Args) -> Val:
    if a.val(0).whole:
        found = _exactly(a, _quotient)
        if found is not None:
            return found
        by = a.val(1).exact
        if by is None or by.size != 1 or abs(int(by.reshape(-1)[0])) != 1:
            return a.out(a.f.function("IntegerDiv", a.res(0), a.res(1)))
    else:
        found = _exactly(a, lambda x, y: _nonzero(x) / y if x.dtype == object else _ratio(x, y))
        if found is not None:
            return found
    _broadcast([a.val(0).shape, a.val(1).shape])
    return a.out(a.f.mul(a.res(0), a.f.inverse(a.res(1))))


def _nonzero(x: np.ndarray) -> np.ndarray:
    return x


def _ratio(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.size * y.size > MOST_FRACTIONS:
        raise OverflowError
    make = np.vectorize(lambda v: Fraction(int(v)), otypes=[object])
    return make(x) / make(y) if x.size and y.size else _broadcast_empty(x, y)


def _broadcast_empty(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.zeros(np.broadcast_shapes(x.shape, y.shape), np.int64)


@op("Mod")
def _mod(a: Args) -> Val:
    fmod = a.int("fmod", 0)

    def exactly(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if (y == 0).any() or x.dtype == object:
            raise ZeroDivisionError
        return np.fmod(x, y) if fmod else np.mod(x, y)

    found = _exactly(a, exactly)
    return found if found is not None else a.out(a.f.function(f"Mod {fmod}", a.res(0), a.res(1)))


@op("Neg")
def _neg(a: Args) -> Val:
    found = _exactly(a, lambda x: -x)
    return found if found is not None else a.out(-a.res(0))


@op("Abs")
def _abs(a: Args) -> Val:
    found = _exactly(a, lambda x: abs(x))
    return found if found is not None else a.out(a.f.absolute(a.res(0)))


@op("Sign")
def _sign(a: Args) -> Val:
    found = _exactly(
        a,
        lambda x: (
            np.sign(x) if x.dtype != object else np.vectorize(lambda v: (v > 0) - (v < 0), otypes=[object])(x)
        ),
    )
    return found if found is not None else a.out(a.f.sign(a.res(0)))


def _rounded(name: str, function) -> None:
    def run(a: Args) -> Val:
        found = _exactly(
            a,
            lambda x: (
                x if x.dtype != object else np.vectorize(lambda v: Fraction(function(v)), otypes=[object])(x)
            ),
        )
        return found if found is not None else a.out(a.f.function(name, a.res(0)))

    op(name)(run)


_rounded("Floor", math.floor)
_rounded("Ceil", math.ceil)
_rounded("Round", round)


@op("Sqrt")
def _sqrt(a: Args) -> Val:
    return a.out(a.f.root(a.res(0)))


@op("Reciprocal")
def _reciprocal(a: Args) -> Val:
    return a.out(a.f.inverse(a.res(0)))


@op("Pow")
def _pow(a: Args) -> Val:
    exponent = _rational(a.val(1))
    if exponent is not None and exponent.size == 1:
        e = (
            Fraction(exponent.reshape(-1)[0])
            if exponent.dtype == object
            else Fraction(int(exponent.reshape(-1)[0]))
        )
        shape = _broadcast([a.val(0).shape, a.val(1).shape])
        if e.denominator == 1 and 0 <= e <= 8:
            found = _exactly(
                a,
                lambda x, _: (
                    _whole(x) ** int(e)
                    if x.dtype == object or not x.size or np.abs(x).max() < 128
                    else _too_large()
                ).reshape(shape),
            )
            if found is not None:
                return found
        if e.denominator == 1 and abs(e) <= 64:
            return a.out(a.f.power(a.res(0), int(e)).reshape(shape))
        if e.denominator == 2 and abs(e) <= 64:
            return a.out(a.f.power(a.f.root(a.res(0)), int(2 * e)).reshape(shape))
    return a.out(a.f.function("Pow", *np.broadcast_arrays(a.res(0), a.res(1))))


def _too_large() -> np.ndarray:
    raise OverflowError


for _name in (
    "Exp",
    "Log",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Erf",
):
    _odd = _name in ("Sin", "Tan", "Asin", "Atan", "Sinh", "Asinh", "Atanh", "Erf")
    _even = _name in ("Cos", "Cosh")
    op(_name)(
        lambda a, n=_name, o=_odd, e=_even: a.out(
            (a.f.odd if o else a.f.even if e else a.f.function)(n, a.res(0))
        )
    )


def _sigmoid_of(run: Run, x: np.ndarray) -> np.ndarray:
    """An uninterpreted s with s(x) + s(-x) = 1; by the axiom "sigmoid-exp", 1 / (1 + exp(-x))."""
    f = run.field
    if run.uses("sigmoid-exp"):
        return f.inverse(f.add(np.ones(1), f.function("Exp", -x)))
    return f.times(f.add(np.ones(1), f.odd("Tanh half", x)), Fraction(1, 2))


@op("Sigmoid")
def _sigmoid(a: Args) -> Val:
    return a.out(_sigmoid_of(a.run, a.res(0)))


def _tanh_of(run: Run, x: np.ndarray) -> np.ndarray:
    """2 sigmoid(2 x) - 1."""
    f = run.field
    return f.sub(f.times(_sigmoid_of(run, f.times(x, 2)), 2), np.ones(1))


@op("Tanh")
def _tanh(a: Args) -> Val:
    return a.out(_tanh_of(a.run, a.res(0)))


@op("Relu")
def _relu(a: Args) -> Val:
    found = _exactly(
        a,
        lambda x: (
            np.maximum(x, 0)
            if x.dtype != object
            else np.vectorize(lambda v: max(v, Fraction(0)), otypes=[object])(x)
        ),
    )
    return found if found is not None else a.out(a.f.relu(a.res(0)))


def _leaky(f: Field, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """max(x, 0) - slope * max(-x, 0)."""
    up = f.relu(x)
    return f.add(up, f.mul(f.sub(x, up), slope))


@op("LeakyRelu")
def _leaky_relu(a: Args) -> Val:
    return a.out(_leaky(a.f, a.res(0), np.full(1, float(a.f.scalar(a.number("alpha", 0.01))))))


@op("PRelu")
def _prelu(a: Args) -> Val:
    return a.out(_leaky(a.f, a.res(0), a.res(1)))


@op("ThresholdedRelu")
def _thresholded(a: Args) -> Val:
    x = a.res(0)
    return a.out(a.f.mul(x, a.run.less(np.full(1, float(a.f.scalar(a.number("alpha", 1.0)))), x)))


def _elu(a: Args, x: np.ndarray, alpha: object, inner: object) -> np.ndarray:
    """max(x, 0) + alpha * (exp(min(x, 0) * inner) - 1)."""
    f = a.f
    low = f.minimum(x, np.zeros(1))
    curve = f.sub(f.function("Exp", f.mul(low, np.float64(inner))), f.function("Exp", np.zeros(1)))  # type: ignore[arg-type]
    return f.add(f.relu(x), f.mul(curve, np.float64(alpha)))  # type: ignore[arg-type]


@op("Elu")
def _elu_op(a: Args) -> Val:
    return a.out(_elu(a, a.res(0), a.f.scalar(a.number("alpha", 1.0)), 1))


@op("Celu")
def _celu(a: Args) -> Val:
    alpha = a.number("alpha", 1.0)
    return a.out(_elu(a, a.res(0), a.f.scalar(alpha), a.f.scalar(1 / alpha)))


@op("Selu")
def _selu(a: Args) -> Val:
    gamma = a.number("gamma", 1.0507009873554805)
    return a.out(a.f.times(_elu(a, a.res(0), a.f.scalar(a.number("alpha", 1.6732632423543772)), 1), gamma))


def _clip_of(f: Field, x: np.ndarray, low: np.ndarray | None, high: np.ndarray | None) -> np.ndarray:
    x = x if low is None else f.maximum(x, low)
    return x if high is None else f.minimum(x, high)


@op("Clip")
def _clip(a: Args) -> Val:
    if "min" in a.attrs or "max" in a.attrs:
        low, high = (
            np.full(1, float(a.f.scalar(a.number(n)))) if n in a.attrs else None for n in ("min", "max")
        )
        return a.out(_clip_of(a.f, a.res(0), low, high))
    if any(a.has(i) and a.val(i).size != 1 for i in (1, 2)):
        raise Unsupported("bounds that are no scalars")
    v = _rational(a.val(0))
    bounds = [a.numbers(i)[0] if a.has(i) and _rational(a.val(i)) is not None else None for i in (1, 2)]
    if (
        v is not None
        and v.dtype != object
        and all(b is not None or not a.has(i + 1) for i, b in enumerate(bounds))
    ):
        low = -(1 << 62) if bounds[0] is None else math.ceil(bounds[0])
        high = 1 << 62 if bounds[1] is None else math.floor(bounds[1])
        return Val(a.val(0).dtype, exact=np.minimum(np.maximum(v.astype(np.int64), low), high))
    return a.out(_clip_of(a.f, a.res(0), *[a.res(i).reshape(-1) if a.has(i) else None for i in (1, 2)]))


@op("HardSigmoid")
def _hard_sigmoid(a: Args) -> Val:
    line = a.f.add(
        a.f.times(a.res(0), a.number("alpha", 0.2)), np.full(1, float(a.f.scalar(a.number("beta", 0.5))))
    )
    return a.out(_clip_of(a.f, line, np.zeros(1), np.ones(1)))


@op("HardSwish")
def _hard_swish(a: Args) -> Val:
    """X times HardSigmoid of alpha 1/6: exactly a sixth, as ONNX defines it."""
    x = a.res(0)
    line = a.f.add(a.f.times(x, Fraction(1, 6)), np.full(1, float(a.f.scalar(Fraction(1, 2)))))
    return a.out(a.f.mul(x, _clip_of(a.f, line, np.zeros(1), np.ones(1))))


@op("Softplus")
def _softplus(a: Args) -> Val:
    return a.out(_softplus_of(a.f, a.res(0)))


def _softplus_of(f: Field, x: np.ndarray) -> np.ndarray:
    return f.function("Log", f.add(f.function("Exp", x), np.ones(1)))


@op("Mish")
def _mish(a: Args) -> Val:
    return a.out(a.f.mul(a.res(0), _tanh_of(a.run, _softplus_of(a.f, a.res(0)))))


@op("Softsign")
def _softsign(a: Args) -> Val:
    x = a.res(0)
    return a.out(a.f.mul(x, a.f.inverse(a.f.add(a.f.absolute(x), np.ones(1)))))


@op("Gelu")
def _gelu(a: Args) -> Val:
    f, x = a.f, a.res(0)
    if a.text("approximate", "none") == "tanh":
        cube = f.times(f.power(x, 3), Fraction(44715, 1000000))
        scale = f.mul(f.root(np.full(1, 2.0)), f.inverse(f.root(a.run.pi())))
        inner = _tanh_of(a.run, f.mul(f.add(x, cube), scale))
    else:
        inner = f.odd("Erf", f.mul(x, f.inverse(f.root(np.full(1, 2.0)))))
    return a.out(f.times(f.mul(x, f.add(inner, np.ones(1))), Fraction(1, 2)))


@op("Shrink")
def _shrink(a: Args) -> Val:
    f, x = a.f, a.res(0)
    lam, bias = (np.full(1, float(f.scalar(a.number(n, d)))) for n, d in (("lambd", 0.5), ("bias", 0.0)))
    low, high = a.run.less(x, -lam), a.run.less(lam, x)
    return a.out(f.add(f.mul(low, f.add(x, bias)), f.mul(high, f.sub(x, bias))))


@op("IsNaN", "IsInf")
def _is_odd(a: Args) -> Val:
    return a.out(a.f.function(f"{a.node.op} {a.node.key}", a.res(0)), "bool")


@op("Cast")
def _cast(a: Args) -> Val:
    return _to(a, a.run.dtype_of(a.attrs.get("to"), ""))


@op("CastLike")
def _cast_like(a: Args) -> Val:
    return _to(a, a.val(1).dtype)


def _to(a: Args, dtype: str) -> Val:
    v = a.val(0)
    if dtype not in SIZES:
        raise Unsupported(f"a cast to {dtype}")
    exact = _rational(v)
    if dtype in FLOATS:
        narrower = v.dtype in FLOATS and FLOATS.index(dtype) > FLOATS.index(v.dtype)
        if (
            exact is not None
            and exact.dtype != object
            and (not exact.size or np.abs(exact.astype(np.float64)).max() <= 1 << 8)
        ):
            return Val(dtype, exact=_whole(exact))
        if not narrower:
            return Val(dtype, exact=v.exact) if v.exact is not None else a.out(v.residues(a.run), dtype)
        if (
            v.exact is not None
            and v.exact.dtype != object
            and v.exact.dtype.kind == "f"
            and dtype in ("float16", "float32")
        ):
            return Val(dtype, exact=v.exact.astype(dtype))
        return a.out(a.f.function(f"round to {dtype}", v.residues(a.run)), dtype)
    if dtype == "bool":
        if exact is not None:
            return Val("bool", exact=exact != 0)
        if v.dtype == "bool":
            return v
        return a.out(a.f.sub(np.ones(1), a.run.equal(v.residues(a.run))), "bool")
    if exact is not None:
        whole = _plain(
            exact
            if exact.dtype != object
            else np.array([math.trunc(x) for x in exact.reshape(-1)], object).reshape(exact.shape)
        )
        if whole.dtype != object and (
            SIZES[dtype] >= 4 or not whole.size or 0 <= whole.min() <= whole.max() < 128
        ):
            return Val(dtype, exact=whole.astype(np.int64))
    if v.whole and SIZES[dtype] >= 4:  # no whole number is taken to overflow 32 bits
        return a.out(v.residues(a.run), dtype)
    return a.out(a.f.function(f"cast to {dtype}", v.residues(a.run)), dtype)


def _compared(name: str, exactly, infield) -> None:
    def run(a: Args) -> Val:
        found = _exactly(a, exactly, "bool")
        if found is not None:
            return found
        _broadcast([a.val(0).shape, a.val(1).shape])
        return a.out(infield(a.run, a.res(0), a.res(1)), "bool")

    op(name)(run)


_compared("Equal", lambda x, y: x == y, lambda r, x, y: r.equal(r.field.sub(x, y)))
_compared("Less", lambda x, y: x < y, lambda r, x, y: r.less(x, y))
_compared("Greater", lambda x, y: x > y, lambda r, x, y: r.less(y, x))
_compared("LessOrEqual", lambda x, y: x <= y, lambda r, x, y: r.field.sub(np.ones(1), r.less(y, x)))
_compared("GreaterOrEqual", lambda x, y: x >= y, lambda r, x, y: r.field.sub(np.ones(1), r.less(x, y)))
_compared("And", lambda x, y: x & y, lambda r, x, y: r.field.mul(x, y))
_compared("Or", lambda x, y: x | y, lambda r, x, y: r.field.sub(x + y, r.field.mul(x, y)))
_compared("Xor", lambda x, y: x ^ y, lambda r, x, y: r.field.reduce(x + y - 2 * r.field.mul(x, y)))


@op("Not")
def _not(a: Args) -> Val:
    found = _exactly(a, lambda x: ~x, "bool")
    return found if found is not None else a.out(a.f.sub(np.ones(1), a.res(0)), "bool")


@op("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
def _bitwise(a: Args) -> Val:
    name = f"{a.node.op} {a.val(0).dtype} {a.node.key}"
    return a.out(a.f.function(name, *np.broadcast_arrays(*[a.res(i) for i in range(len(a.vals))])))


@op("Where")
def _where(a: Args) -> Val:
    shape = _broadcast([a.val(i).shape for i in range(3)])
    c = _rational(a.val(0))
    if c is not None:
        x, y = _rational(a.val(1)), _rational(a.val(2))
        if x is not None and y is not None:
            return Val(a.val(1).dtype, exact=_plain(np.where(np.broadcast_to(c, shape), x, y)))
        return a.out(np.where(np.broadcast_to(c, shape), a.res(1), a.res(2)), a.val(1).dtype)
    return a.out(a.f.add(a.res(2), a.f.mul(a.res(0), a.f.sub(a.res(1), a.res(2)))), a.val(1).dtype)


# -- reductions and normalisations -------------------------------------------------------------------------


def _reduced_axes(a: Args) -> tuple[int, ...]:
    rank = len(a.val(0).shape)
    axes, noop = a.axes(rank), a.int("noop_with_empty_axes", 0)
    if not axes:
        return () if noop else tuple(range(rank))
    return tuple(sorted(set(axes)))


def _reduction(name: str, function, exactly=None) -> None:
    def run(a: Args) -> Val:
        axes, keep = _reduced_axes(a), bool(a.int("keepdims", 1))
        exact = _rational(a.val(0))
        if (
            exactly is not None
            and exact is not None
            and exact.dtype != object
            and exact.size
            and np.abs(exact.astype(np.float64)).max() < 1 << 20
            and (name != "ReduceProd" or exact.size <= 3)
        ):
            return Val(a.val(0).dtype, exact=exactly(exact.astype(np.int64), axis=axes, keepdims=keep))
        if not axes and name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
            return a.val(0)
        x = a.res(0)
        count = math.prod(x.shape[i] for i in axes)
        out = function(a, x, axes, count)  # with the axes kept
        return a.out(out if keep else out.reshape([d for i, d in enumerate(out.shape) if i not in axes]))

    op(name)(run)


def _multiset_max(f: Field, x: np.ndarray, axes: tuple[int, ...], count: int) -> np.ndarray:
    """The maximum along axes, as a function of the multiset of the elements; of two, as `Field.maximum`."""
    if count == 0:
        raise Unsupported("the maximum of nothing")
    if count == 1:
        return x
    if count == 2:
        moved = np.moveaxis(x, axes, range(len(axes)))
        both = moved.reshape(2, *moved.shape[len(axes) :])
        return np.expand_dims(f.maximum(both[0], both[1]), axes)
    return f.residues(f._mix(f.bits("max", x).sum(axis=axes, keepdims=True, dtype=np.uint64)))


def _mean_of(f: Field, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    count = math.prod(x.shape[i] for i in axes)
    return f.times(f.sum(x, axes, True), Fraction(1, max(count, 1)))


def _product(a: Args, x: np.ndarray, axes: tuple[int, ...], count: int) -> np.ndarray:
    moved = np.moveaxis(x, axes, range(len(axes))).reshape(count, -1)
    if count > MOST_STEPS:
        raise Unsupported("a product of that many factors")
    out = np.ones(moved.shape[1])
    for row in moved:
        out = a.f.mul(out, row)
    return out.reshape([1 if i in axes else d for i, d in enumerate(x.shape)])


_reduction("ReduceSum", lambda a, x, axes, n: a.f.sum(x, axes, True), np.sum)
_reduction("ReduceMean", lambda a, x, axes, n: _mean_of(a.f, x, axes))
_reduction("ReduceMax", lambda a, x, axes, n: _multiset_max(a.f, x, axes, n), np.max)
_reduction("ReduceMin", lambda a, x, axes, n: -_multiset_max(a.f, -x, axes, n), np.min)
_reduction("ReduceProd", _product, np.prod)
_reduction("ReduceL1", lambda a, x, axes, n: a.f.sum(a.f.absolute(x), axes, True))
_reduction("ReduceL2", lambda a, x, axes, n: a.f.root(a.f.sum(a.f.mul(x, x), axes, True)))
_reduction("ReduceSumSquare", lambda a, x, axes, n: a.f.sum(a.f.mul(x, x), axes, True))
_reduction("ReduceLogSum", lambda a, x, axes, n: a.f.function("Log", a.f.sum(x, axes, True)))


@op("ReduceLogSumExp")
def _log_sum_exp(a: Args) -> Val:
    axes, f, x = _reduced_axes(a), a.f, a.res(0)
    shift = _shift(a.run, x, axes)
    total = f.add(f.function("Log", f.sum(f.function("Exp", f.sub(x, shift)), axes, True)), shift)
    return a.out(
        total if a.int("keepdims", 1) else total.reshape([d for i, d in enumerate(x.shape) if i not in axes])
    )


def _shift(run: Run, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return the number that a softmax takes off: the maximum, or by the axiom "softmax-shift" the mean."""
    if run.uses("softmax-shift"):
        return _mean_of(run.field, x, axes)
    return _multiset_max(run.field, x, axes, math.prod(x.shape[i] for i in axes))


@op("Softmax", "LogSoftmax")
def _softmax(a: Args) -> Val:
    f, x = a.f, a.res(0)
    axes = (_axis(a.int("axis", -1), x.ndim),)
    moved = f.sub(x, _shift(a.run, x, axes))
    powers = f.function("Exp", moved)
    total = f.sum(powers, axes, True)
    if a.node.op == "LogSoftmax":
        return a.out(f.sub(moved, f.function("Log", total)))
    return a.out(f.mul(powers, f.inverse(total)))


@op("Hardmax", "ArgMax", "ArgMin")
def _arg_max(a: Args) -> Val:
    axis = _axis(a.int("axis", -1 if a.node.op == "Hardmax" else 0), len(a.val(0).shape))
    lines = np.ascontiguousarray(np.moveaxis(a.res(0), axis, -1))
    seq = a.f.sequence(f"{a.node.op} {a.int('select_last_index', 0)}", lines)
    if a.node.op == "Hardmax":
        chosen = a.f.residues(seq)[..., None] - np.arange(lines.shape[-1])
        return a.out(np.moveaxis(a.run.equal(a.f.reduce(chosen)), -1, axis))
    out = np.expand_dims(a.f.residues(seq), axis)
    return a.out(
        out if a.int("keepdims", 1) else out.reshape([d for i, d in enumerate(a.val(0).shape) if i != axis]),
        "int64",
    )


@op("TopK")
def _top_k(a: Args) -> list[Val]:
    axis, k, f = _axis(a.int("axis", -1), len(a.val(0).shape)), a.ints(1)[0], a.f
    lines = np.ascontiguousarray(np.moveaxis(a.res(0), axis, -1))
    n = lines.shape[-1]
    if not 0 <= k <= n:
        raise Unsupported(f"the {k} largest of {n}")
    largest, ordered = a.int("largest", 1), a.int("sorted", 1)
    bag = f.bits("max", lines).sum(-1, dtype=np.uint64)
    seq = f.sequence("TopK", lines)
    values, places = [], []
    for i in range(k):
        name = f"{largest} {i}" if ordered else f"{largest} {i} of {k} in any order"
        values.append(f.residues(f._mix(bag + f.key_of(f"value {name}"))))
        places.append(f.residues(f._mix(seq + f.key_of(f"place {name}"))))
    if k and ordered:
        values[0] = (
            _multiset_max(f, lines, (lines.ndim - 1,), n)[..., 0]
            if largest
            else -_multiset_max(f, -lines, (lines.ndim - 1,), n)[..., 0]
        )
    shape = (*lines.shape[:-1], k)
    stack = [np.moveaxis(np.stack(p, -1) if k else np.zeros(shape), -1, axis) for p in (values, places)]
    return [a.out(stack[0]), a.out(stack[1], "int64")]


@op("CumSum")
def _cum_sum(a: Args) -> Val:
    axis = _axis(a.ints(1)[0], len(a.val(0).shape))
    exclusive, backwards = a.int("exclusive", 0), a.int("reverse", 0)

    def run(x: np.ndarray) -> np.ndarray:
        y = np.flip(x, axis) if backwards else x
        total = np.cumsum(y, axis)
        total = total - y if exclusive else total
        return np.flip(total, axis) if backwards else total

    exact = _rational(a.val(0))
    if exact is not None and exact.dtype != object:
        return Val(a.val(0).dtype, exact=run(exact.astype(np.int64)))
    return a.out(a.f.reduce(run(a.res(0))))


def _standardise(
    a: Args, x: np.ndarray, axes: tuple[int, ...], epsilon: Fraction, *, centre: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (x - mean) / sqrt(var + epsilon), the mean and 1 / sqrt(...)."""
    f = a.f
    mean = _mean_of(f, x, axes)
    moved = f.sub(x, mean) if centre else x
    inverse = f.inverse(
        f.root(f.add(_mean_of(f, f.mul(moved, moved), axes), np.full(1, float(f.scalar(epsilon)))))
    )
    return f.mul(moved, inverse), mean, inverse


def _per_channel(v: np.ndarray, rank: int) -> np.ndarray:
    return v.reshape(1, -1, *[1] * (rank - 2)) if rank > 1 else v.reshape(-1)


def _affine(a: Args, y: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None) -> np.ndarray:
    if scale is not None:
        _broadcast([y.shape, scale.shape])
        y = a.f.mul(y, scale)
    return y if bias is None else a.f.add(y, bias)


@op("BatchNormalization")
def _batch_norm(a: Args) -> Val:
    f, x = a.f, a.res(0)
    if a.int("training_mode", 0):
        raise Unsupported("training")
    scale, bias, mean, var = (_per_channel(a.res(i), x.ndim) for i in range(1, 5))
    factor = f.mul(
        scale, f.inverse(f.root(f.add(var, np.full(1, float(f.scalar(a.number("epsilon", 1e-5)))))))
    )
    return a.out(f.add(f.mul(x, factor), f.sub(bias, f.mul(mean, factor))))


@op("InstanceNormalization")
def _instance_norm(a: Args) -> Val:
    x = a.res(0)
    y = _standardise(a, x, tuple(range(2, x.ndim)), a.number("epsilon", 1e-5))[0]
    return a.out(_affine(a, y, _per_channel(a.res(1), x.ndim), _per_channel(a.res(2), x.ndim)))


@op("GroupNormalization")
def _group_norm(a: Args) -> Val:
    x, groups = a.res(0), a.int("num_groups")
    n, c = x.shape[:2]
    if groups < 1 or c % groups:
        raise Unsupported(f"{c} channels in {groups} groups")
    y = _standardise(a, x.reshape(n, groups, -1), (2,), a.number("epsilon", 1e-5))[0].reshape(x.shape)
    return a.out(_affine(a, y, _per_channel(a.res(1), x.ndim), _per_channel(a.res(2), x.ndim)))


@op("LayerNormalization", "RMSNormalization")
def _layer_norm(a: Args) -> list[Val]:
    x = a.res(0)
    axes = tuple(range(_axis(a.int("axis", -1), x.ndim), x.ndim))
    y, mean, inverse = _standardise(
        a, x, axes, a.number("epsilon", 1e-5), centre=a.node.op == "LayerNormalization"
    )
    out = _affine(a, y, a.res(1), a.res(2) if a.has(2) else None)
    return [a.out(out), a.out(mean), a.out(inverse)]


@op("MeanVarianceNormalization")
def _mvn(a: Args) -> Val:
    x = a.res(0)
    return a.out(
        _standardise(a, x, tuple(_axis(i, x.ndim) for i in a.list("axes", [0, 2, 3])), Fraction(1, 10**9))[0]
    )


@op("LpNormalization")
def _lp_norm(a: Args) -> Val:
    f, x, axes = a.f, a.res(0), (_axis(a.int("axis", -1), len(a.val(0).shape)),)
    one = a.int("p", 2) == 1
    norm = f.sum(f.absolute(x), axes, True) if one else f.root(f.sum(f.mul(x, x), axes, True))
    return a.out(f.mul(x, f.inverse(norm)))


@op("LRN")
def _lrn(a: Args) -> Val:
    f, x, size = a.f, a.res(0), a.int("size")
    squares = np.pad(f.mul(x, x), [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)])
    total = f.reduce(sum(squares[:, i : i + x.shape[1]] for i in range(size)))  # type: ignore[arg-type]
    base = f.add(
        f.times(total, a.number("alpha", 1e-4) / size), np.full(1, float(f.scalar(a.number("bias", 1.0))))
    )
    beta = a.number("beta", 0.75)
    return a.out(f.mul(x, f.inverse(f.function("Pow", base, np.full(1, float(f.scalar(beta)))))))


# -- products ----------------------------------------------------------------------------------------------


@op("MatMul")
def _matmul(a: Args) -> Val:
    x, y = a.res(0), a.res(1)
    x2, y2 = (x[None] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
    if x2.shape[-1] != y2.shape[-2]:
        raise Unsupported(f"{list(x.shape)} times {list(y.shape)}")
    _room((*_broadcast([x2.shape[:-2], y2.shape[:-2]]), x2.shape[-2], y2.shape[-1]))
    out = a.f.matmul(x2, y2)
    out = out[..., 0, :] if x.ndim == 1 else out
    return a.out(out[..., 0] if y.ndim == 1 else out)


@op("Gemm")
def _gemm(a: Args) -> Val:
    f, x, y = a.f, a.res(0), a.res(1)
    if x.ndim != 2 or y.ndim != 2:
        raise Unsupported("operands are no matrices")
    x, y = (x.T if a.int("transA", 0) else x), (y.T if a.int("transB", 0) else y)
    if x.shape[1] != y.shape[0]:
        raise Unsupported(f"{list(x.shape)} times {list(y.shape)}")
    out, beta = f.times(f.matmul(x, y), a.number("alpha", 1.0)), a.number("beta", 1.0)
    return a.out(f.add(out, f.times(a.res(2), beta)) if a.has(2) else out)


@op("Einsum")
def _einsum(a: Args) -> Val:
    text = a.text("equation", "").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if "." in text or len(terms) != len(a.vals) or not left.replace(",", "").isalpha():
        raise Unsupported(f"the equation {text}")
    if not arrow:
        right = "".join(sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1))
    done, labels = a.res(0), terms[0]
    sizes: dict[str, int] = {}
    for i, t in enumerate(terms):
        if len(t) != len(a.val(i).shape) or len(set(t)) != len(t):
            raise Unsupported(f"the equation {text}")
        for c, d in zip(t, a.val(i).shape, strict=True):
            if sizes.setdefault(c, d) != d:
                raise Unsupported(f"the equation {text}")
    for i, t in enumerate(terms[1:], 1):
        later = set(right).union(*terms[i + 1 :]) if terms[i + 1 :] else set(right)
        y = a.res(i)
        batch = [c for c in labels if c in t and c in later]
        summed = [c for c in labels if c in t and c not in later]
        only, other = [c for c in labels if c not in t], [c for c in t if c not in labels]
        x = done.transpose([labels.index(c) for c in (*batch, *only, *summed)])
        y = y.transpose([t.index(c) for c in (*batch, *summed, *other)])
        n = [math.prod(sizes[c] for c in group) for group in (batch, only, summed, other)]
        _room((n[0], n[1], n[3]))
        out = a.f.matmul(
            np.ascontiguousarray(x).reshape(n[0], n[1], n[2]),
            np.ascontiguousarray(y).reshape(n[0], n[2], n[3]),
        )
        labels = "".join((*batch, *only, *other))
        done = out.reshape([sizes[c] for c in labels])
    gone = tuple(i for i, c in enumerate(labels) if c not in right)
    done, labels = a.f.sum(done, gone, False), "".join(c for c in labels if c in right)
    if sorted(labels) != sorted(right):
        raise Unsupported(f"the equation {text}")
    return a.out(np.ascontiguousarray(done.transpose([labels.index(c) for c in right])))


@dataclass
class Window:
    """The windows of a convolution or a pool along each axis."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    out: list[int]


def _window(a: Args, kernel: list[int], size: tuple[int, ...], *, pool: bool = False) -> Window:
    n = len(kernel)
    strides, dilations = a.list("strides", [1] * n), a.list("dilations", [1] * n)
    pads, auto = a.list("pads", [0] * 2 * n), a.text("auto_pad", "NOTSET")
    if (
        len(size) != n
        or len(strides) != n
        or len(dilations) != n
        or len(pads) != 2 * n
        or min(*kernel, *strides, *dilations) < 1
    ):
        raise Unsupported("kernel, strides, dilations and pads differ in length")
    if min(pads) < 0:
        raise Unsupported("pads below 0")
    before, after, out = pads[:n], pads[n:], []
    ceil = pool and a.int("ceil_mode", 0)
    for i in range(n):
        reach = (kernel[i] - 1) * dilations[i] + 1
        if auto.startswith("SAME"):
            count = -(-size[i] // strides[i])
            total = max(0, (count - 1) * strides[i] + reach - size[i])
            small = total // 2
            before[i], after[i] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
        elif auto == "VALID":
            before[i] = after[i] = 0
        room = size[i] + before[i] + after[i] - reach
        if room < 0:
            raise Unsupported(f"a window of {reach} along an axis of {size[i]}")
        count = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        if ceil and (count - 1) * strides[i] >= size[i] + before[i]:
            count -= 1
        out.append(count)
    return Window(kernel, strides, dilations, before, after, out)


def _views(x: np.ndarray, w: Window, fill: float = 0.0):
    """Yield for each place in the kernel the strided view of the padded input that it meets."""
    n = len(w.kernel)
    reach = [(w.out[i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 for i in range(n)]
    padded = x
    size = x.shape[x.ndim - n :]
    if any(w.before) or any(reach[i] > size[i] for i in range(n)):
        more = [(w.before[i], max(0, reach[i] - size[i] - w.before[i])) for i in range(n)]
        _room([*x.shape[: x.ndim - n], *(size[i] + sum(more[i]) for i in range(n))])
        padded = np.pad(x, [(0, 0)] * (x.ndim - n) + more, constant_values=fill)
    for place in np.ndindex(*w.kernel):
        cut = tuple(
            slice(
                place[i] * w.dilations[i],
                place[i] * w.dilations[i] + (w.out[i] - 1) * w.strides[i] + 1,
                w.strides[i],
            )
            for i in range(n)
        )
        yield place, padded[(..., *cut)]


def _convolve(f: Field, x: np.ndarray, weight: np.ndarray, w: Window, group: int) -> np.ndarray:
    """Sum products over channels and places, a group of at most 2,048 at a time."""
    n, c = x.shape[:2]
    o, cg = weight.shape[:2]
    if c != cg * group or o % group:
        raise Unsupported(f"{c} channels and weights {list(weight.shape)} in {group} groups")
    places = math.prod(w.kernel)
    _room((n, o, *w.out))
    if cg == 1:
        depthwise = np.zeros((n, group, o // group, *w.out))
        kernel = weight.reshape(group, o // group, *w.kernel)
        rank = len(w.kernel)
        for count, (place, view) in enumerate(_views(x, w), 1):
            depthwise += view[:, :, None] * kernel[(..., *place)].reshape(1, group, o // group, *[1] * rank)
            if count % 1024 == 0:
                f.reduce(depthwise)
        return f.reduce(depthwise).reshape(n, o, *w.out)
    area = math.prod(w.out)
    out = np.empty((n, o, *w.out))
    flat = np.ascontiguousarray(weight.reshape(group, o // group, cg, places).transpose(0, 1, 3, 2))
    views = [view for _, view in _views(x, w)]
    at_once = max(1, min(places, BLOCK // cg)) if cg <= BLOCK else 1
    images = max(1, min(n, (1 << 22) // max(1, at_once * c * area)))
    for first in range(0, n, images):
        last = min(n, first + images)
        total: np.ndarray | None = None
        for i in range(0, places, at_once):
            here = views[i : i + at_once]
            columns = np.empty((last - first, group, len(here), cg, area))
            for j, view in enumerate(here):
                columns[:, :, j] = view[first:last].reshape(last - first, group, cg, area)
            kernel = flat[:, :, i : i + at_once].reshape(group, o // group, len(here) * cg)
            part = f.matmul(kernel[None], columns.reshape(last - first, group, len(here) * cg, area))
            total = part if total is None else f.add(total, part)
        assert total is not None
        out[first:last] = total.reshape(last - first, o, *w.out)
    return out


@op("Conv")
def _conv(a: Args) -> Val:
    x, weight = a.res(0), a.res(1)
    w = _window(a, list(weight.shape[2:]), x.shape[2:])
    out = _convolve(a.f, x, weight, w, a.int("group", 1))
    return a.out(a.f.add(out, _per_channel(a.res(2), x.ndim)) if a.has(2) else out)


@op("ConvTranspose")
def _conv_transpose(a: Args) -> Val:
    f, x, weight, group = a.f, a.res(0), a.res(1), a.int("group", 1)
    n, kernel = x.ndim - 2, list(weight.shape[2:])
    strides, dilations = a.list("strides", [1] * n), a.list("dilations", [1] * n)
    more = a.list("output_padding", [0] * n)
    pads, auto = a.list("pads", [0] * 2 * n), a.text("auto_pad", "NOTSET")
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    full = [s * (i - 1) + m + r for s, i, m, r in zip(strides, x.shape[2:], more, reach, strict=True)]
    if "output_shape" in a.attrs or auto.startswith("SAME"):
        wanted = a.list("output_shape", [s * i for s, i in zip(strides, x.shape[2:], strict=True)])[-n:]
        total = [g - s for g, s in zip(full, wanted, strict=True)]
        small = [t // 2 for t in total]
        large = [t - s for t, s in zip(total, small, strict=True)]
        pads = [*small, *large] if auto == "SAME_UPPER" else [*large, *small]
    out = [g - pads[i] - pads[i + n] for i, g in enumerate(full)]
    if min(*out, *strides) < 1 or x.shape[1] % group:
        raise Unsupported(f"an output of {out}")
    _room((x.shape[0], x.shape[1], *full))
    spread = np.zeros((*x.shape[:2], *(s * (i - 1) + 1 for s, i in zip(strides, x.shape[2:], strict=True))))
    spread[(..., *(slice(None, None, s) for s in strides))] = x
    cin, og = weight.shape[0] // group, weight.shape[1]
    turned = np.flip(weight, tuple(range(2, n + 2))).reshape(group, cin, og, *kernel).swapaxes(1, 2)
    turned = np.ascontiguousarray(turned.reshape(group * og, cin, *kernel))
    w = Window(
        kernel,
        [1] * n,
        dilations,
        [r - 1 for r in reach],
        [r - 1 + m for r, m in zip(reach, more, strict=True)],
        full,
    )
    done = _convolve(f, spread, turned, w, group)
    cut = tuple(slice(pads[i], pads[i] + out[i]) if pads[i] >= 0 else slice(0, 0) for i in range(n))
    if min(pads) < 0:
        raise Unsupported("pads below 0")
    done = np.ascontiguousarray(done[(..., *cut)])
    return a.out(f.add(done, _per_channel(a.res(2), x.ndim)) if a.has(2) else done)


@op("AveragePool")
def _average_pool(a: Args) -> Val:
    f, x = a.f, a.res(0)
    w = _window(a, a.list("kernel_shape"), x.shape[2:], pool=True)
    total = np.zeros((*x.shape[:2], *w.out))
    count = np.zeros(w.out)
    if a.int("count_include_pad", 0):  # all that lies within the padding that is stated
        inside = np.ones([d + b + e for d, b, e in zip(x.shape[2:], w.before, w.after, strict=True)])
        counted = Window(w.kernel, w.strides, w.dilations, [0] * len(w.kernel), w.after, w.out)
    else:
        inside, counted = np.ones(x.shape[2:]), w
    for _, view in _views(inside, counted):
        count += view
    for _, view in _views(x, w):
        total += view
    return a.out(f.mul(f.reduce(total), f.inverse(count)))


@op("MaxPool")
def _max_pool(a: Args) -> Val:
    if len(a.node.outs) > 1 and a.node.outs[1]:
        raise Unsupported("places of the largest elements")
    x = a.res(0)
    return a.out(_window_max(a.f, x, _window(a, a.list("kernel_shape"), x.shape[2:], pool=True)))


def _window_max(f: Field, x: np.ndarray, w: Window) -> np.ndarray:
    """The maximum of each window as a function of the multiset of its elements, padding left out."""
    count = np.zeros(w.out, np.int64)
    for _, view in _views(np.ones(x.shape[2:]), w):
        count += view.astype(np.int64)
    bag = np.zeros((*x.shape[:2], *w.out), np.uint64)
    shifted = f.bits("max", x)
    for _, view in _views(shifted, w, 0):
        bag += view
    out = f.residues(f._mix(bag))
    if (count < 3).any():  # one is itself; two are as for Max
        few = count < 3
        total, low, high = np.zeros(out.shape), np.full(out.shape, np.inf), np.full(out.shape, -np.inf)
        for (_, view), (_, there) in zip(_views(x, w), _views(np.ones(x.shape[2:]), w), strict=True):
            total += view
            np.minimum(low, np.where(there > 0, view, np.inf), out=low)
            np.maximum(high, np.where(there > 0, view, -np.inf), out=high)
        if (count < 1).any():
            raise Unsupported("a window of padding alone")
        out[..., few] = np.where(count[few] == 1, total[..., few], f.maximum(low[..., few], high[..., few]))
    return out


@op("GlobalAveragePool")
def _global_average(a: Args) -> Val:
    x = a.res(0)
    return a.out(_mean_of(a.f, x, tuple(range(2, x.ndim))))


@op("GlobalMaxPool")
def _global_max(a: Args) -> Val:
    x = a.res(0)
    axes = tuple(range(2, x.ndim))
    return a.out(_multiset_max(a.f, x, axes, math.prod(x.shape[2:])))


@op("LpPool", "GlobalLpPool")
def _lp_pool(a: Args) -> Val:
    f, x, p = a.f, a.res(0), a.int("p", 2)
    if p not in (1, 2):
        raise Unsupported(f"p = {p}")
    powers = f.absolute(x) if p == 1 else f.mul(x, x)
    if a.node.op == "GlobalLpPool":
        total = f.sum(powers, tuple(range(2, x.ndim)), True)
    else:
        w = _window(a, a.list("kernel_shape"), x.shape[2:], pool=True)
        total = f.reduce(sum(view for _, view in _views(powers, w)))  # type: ignore[arg-type]
    return a.out(total if p == 1 else f.root(total))


# -- resizing ----------------------------------------------------------------------------------------------


@op("Resize")
def _resize(a: Args) -> Val:
    x, attrs = a.res(0), a.attrs
    rank = x.ndim
    axes = [_axis(i, rank) for i in a.list("axes", list(range(rank)))]
    if a.int("antialias", 0) or a.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported("antialias, or a policy of the aspect ratio")
    if a.has(3) and a.val(3).size:
        sizes = a.ints(3)
        scales = [Fraction(s, x.shape[i]) for s, i in zip(sizes, axes, strict=True)]
    else:
        scales = a.numbers(2)
        sizes = [math.floor(x.shape[i] * s) for s, i in zip(scales, axes, strict=True)]
    if len(sizes) != len(axes):
        raise Unsupported("sizes and axes differ in length")
    mode, coordinates = a.text("mode", "nearest"), a.text("coordinate_transformation_mode", "half_pixel")
    for axis, size, scale in zip(axes, sizes, scales, strict=True):
        n = x.shape[axis]
        if size == n and scale == 1:
            continue
        _room((*x.shape[:axis], size, *x.shape[axis + 1 :]))
        if size < 1 or size * n > 1 << 24:
            raise Unsupported(f"a size of {size}")
        where = [_coordinate(coordinates, i, n, size, scale) for i in range(size)]
        if mode == "nearest":
            near = [_nearest(c, a.text("nearest_mode", "round_prefer_floor")) for c in where]
            x = np.take(x, [min(max(i, 0), n - 1) for i in near], axis)
        else:
            cubic = a.number("cubic_coeff_a", -0.75) if mode == "cubic" else None
            matrix = _interpolation(where, n, cubic, bool(attrs.get("exclude_outside", 0)))
            image = np.array([[a.f.scalar(v) for v in row] for row in matrix], np.float64)
            moved = np.ascontiguousarray(np.moveaxis(x, axis, -1))
            x = np.ascontiguousarray(
                np.moveaxis(
                    a.f.matmul(moved.reshape(-1, n), image.T).reshape(*moved.shape[:-1], size), -1, axis
                )
            )
    return a.out(x)


def _coordinate(mode: str, i: int, n: int, size: int, scale: Fraction) -> Fraction:
    half = Fraction(1, 2)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and size > 1):
        return (i + half) / scale - half
    if mode == "pytorch_half_pixel":
        return Fraction(0)
    if mode == "align_corners":
        return Fraction(i * (n - 1), size - 1) if size > 1 else Fraction(0)
    if mode == "asymmetric":
        return i / scale
    if mode == "half_pixel_symmetric":
        adjust = size / (n * scale)
        return Fraction(n, 2) * (1 - adjust) + (i + half) / scale - half
    raise Unsupported(f"the coordinates {mode}")


def _nearest(c: Fraction, mode: str) -> int:
    half = Fraction(1, 2)
    if mode == "floor":
        return math.floor(c)
    if mode == "ceil":
        return math.ceil(c)
    if mode == "round_prefer_ceil":
        return math.floor(c + half)
    return math.ceil(c - half)


def _interpolation(
    where: list[Fraction], n: int, cubic: Fraction | None, exclude: bool
) -> list[list[Fraction]]:
    rows = []
    for c in where:
        row = [Fraction(0)] * n
        if cubic is None:
            c = min(max(c, Fraction(0)), Fraction(n - 1))
            low = math.floor(c)
            row[low] += 1 - (c - low)
            row[min(low + 1, n - 1)] += c - low
        else:
            low = math.floor(c)
            weights = [_cubic(abs(c - (low + k)), cubic) for k in (-1, 0, 1, 2)]
            if exclude:
                weights = [
                    w if 0 <= low + k < n else Fraction(0)
                    for w, k in zip(weights, (-1, 0, 1, 2), strict=True)
                ]
                weights = [w / sum(weights) for w in weights]
            for k, w in zip((-1, 0, 1, 2), weights, strict=True):
                row[min(max(low + k, 0), n - 1)] += w
        rows.append(row)
    return rows


def _cubic(d: Fraction, a: Fraction) -> Fraction:
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else Fraction(0)


# -- quantised numbers -------------------------------------------------------------------------------------


def _along(a: Args, v: np.ndarray, rank: int) -> np.ndarray:
    if v.size == 1:
        return v.reshape([1] * rank)
    shape = [1] * rank
    shape[_axis(a.int("axis", 1), rank)] = -1
    return v.reshape(shape)


@op("DequantizeLinear")
def _dequantise(a: Args) -> Val:
    x, scale = a.res(0), a.res(1)
    if a.int("block_size", 0):
        raise Unsupported("scales of blocks")
    zero = _along(a, a.res(2), x.ndim) if a.has(2) else np.zeros(1)
    return a.out(a.f.mul(a.f.sub(x, zero), _along(a, scale, x.ndim)), a.val(1).dtype)


@op("QuantizeLinear")
def _quantise(a: Args) -> Val:
    x = a.res(0)
    if a.int("block_size", 0):
        raise Unsupported("scales of blocks")
    dtype = a.val(2).dtype if a.has(2) else "uint8"
    ratio = a.f.mul(x, a.f.inverse(_along(a, a.res(1), x.ndim)))
    zero = _along(a, a.res(2), x.ndim) if a.has(2) else np.zeros(1)
    return a.out(a.f.function(f"quantise to {dtype}", *np.broadcast_arrays(ratio, zero)), dtype)


# -- control flow ------------------------------------------------------------------------------------------


@op("If")
def _if(a: Args) -> list[Val]:
    chosen = _rational(a.val(0))
    branches = {name: a.attrs.get(f"{name}_branch") for name in ("then", "else")}
    if not all(isinstance(b, Graph) for b in branches.values()):
        raise Unsupported("a branch is missing")
    captured = a.vals[len(a.node.ins) :]
    if chosen is not None:
        return a.run.nested(branches["then" if bool(chosen.reshape(-1)[0]) else "else"], [], captured)  # type: ignore[arg-type]
    then, other = (a.run.nested(branches[n], [], captured) for n in ("then", "else"))  # type: ignore[arg-type]
    c = a.res(0).reshape(-1)[:1]
    out = []
    for x, y in zip(then, other, strict=True):
        if x.shape != y.shape:
            raise Unsupported("branches of different shapes, chosen by data")
        rx, ry = x.residues(a.run), y.residues(a.run)
        out.append(Val(x.dtype, residues=a.f.add(ry, a.f.mul(c, a.f.sub(rx, ry)))))
    return out


@op("Loop")
def _loop(a: Args) -> list[Val]:
    body = a.attrs.get("body")
    carried: Sequence[Val | None] = a.vals[2 : len(a.node.ins)]
    captured = a.vals[len(a.node.ins) :]
    most = a.ints(0)[0] if a.has(0) else MOST_STEPS + 1
    if not isinstance(body, Graph):
        raise Unsupported("the body is missing")
    going = a.val(1) if a.has(1) else Val("bool", exact=np.array(True))
    scans: list[list[Val]] = []
    for step in range(max(0, most)):
        known = _rational(going)
        if known is None:
            raise Unsupported("the number of steps depends on data")
        if not bool(known.reshape(-1)[0]):
            break
        if step >= MOST_STEPS:
            raise Unsupported(f"more than {MOST_STEPS} steps")
        number = Val("int64", exact=np.array(step, np.int64))
        going, *rest = a.run.nested(body, [number, going, *carried], captured)
        carried, scanned = rest[: len(carried)], rest[len(carried) :]
        scans.append(scanned)
    if not scans and len(a.node.outs) > len(carried):
        raise Unsupported("no steps")
    stacked = [
        Val(column[0].dtype, residues=np.stack([v.residues(a.run) for v in column]))
        for column in zip(*scans, strict=True)
    ]
    return [*[c for c in carried if c is not None], *stacked]


# -- evaluation --------------------------------------------------------------------------------------------

AXIOMS = {
    "softmax-shift": "exp(x - c) / sum(exp(x - c)) is the same for every c that is constant along the axis",
    "sigmoid-exp": "sigmoid(x) = 1 / (1 + exp(-x)), tanh(x) = 2 sigmoid(2 x) - 1",
}
"""Name of an identity of functions that are no polynomials -> the identity."""

_TRIGGERS = {
    "softmax-shift": {"Softmax", "LogSoftmax", "ReduceLogSumExp", "Exp"},
    "sigmoid-exp": {"Sigmoid", "Tanh", "Exp", "Mish", "Gelu", "LSTM", "GRU", "RNN"},
}

_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip


class Run:
    """One evaluation of both graphs in one prime field."""

    def __init__(
        self,
        certificate: Certificate,
        tensors: Tensors,
        prime: int,
        key: bytes,
        axioms: set[str],
        defined: set[str],
        memory: int,
    ) -> None:
        self.certificate, self.tensors, self.axioms, self.defined = certificate, tensors, axioms, defined
        self.field = Field(prime, key)
        self.memory = memory
        self.ids: dict[object, int] = {}
        self.memo: OrderedDict[object, list[Val]] = OrderedDict()
        self.held = 0
        self.symbols: dict[str, int] = {}
        self.constants: dict[str, Val] = {}
        self.tested: dict[int, str] = {}
        self.hits = self.computed = 0

    def uses(self, axiom: str) -> bool:
        return axiom in self.axioms

    def pi(self) -> np.ndarray:
        return self.field.function("pi", np.ones(1))

    def equal(self, d: np.ndarray) -> np.ndarray:
        """Whether a difference is 0: uninterpreted, of both signs alike, and 1 at 0."""
        return np.where(d == 0, 1.0, self.field.even("Equal", d))

    def less(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        d = self.field.sub(y, x)
        return np.where(d == 0, 0.0, self.field.function("Positive", d))

    def dtype_of(self, value: object, default: str) -> str:
        return (
            _DTYPES.get(value, "") if isinstance(value, int) else value if isinstance(value, str) else default
        )

    def identify(self, val: Val) -> Val:
        if val.id < 0:
            mark = self.field.fingerprint(val.residues(self))
            val.id = self.ids.setdefault(mark, len(self.ids))
        return val

    def constant(self, name: str) -> Val:
        if name not in self.constants:
            if name in self.defined:
                self.define()
            else:
                array = self.tensors.load(name)
                _room(array.shape)
                self.constants[name] = Val(str(self.tensors.entries[name]["dtype"]), exact=array)
        return self.constants[name]

    def define(self) -> None:
        """Put the defining expressions in the place of the constants that they define."""
        graph = self.certificate.definitions
        env: dict[str, Val | None] = {
            v: Val(str(self.tensors.entries[t]["dtype"]), exact=self.tensors.load(t))
            for v, t in graph.constants.items()
        }
        for node in graph.nodes:
            vals = [env.get(n) if n else None for n in node.ins]
            if node.op == "Pi":
                env[node.outs[0]] = Val("float64", residues=self.pi().reshape(()))
                continue
            out = OPS[node.op](Args(self, node, vals))
            for name, val in zip(node.outs, [out] if isinstance(out, Val) else out, strict=False):
                env[name] = val
        for row in self.certificate.defined:
            if row.tensor in self.defined:
                shape = tuple(self.tensors.entries[row.tensor]["shape"])  # type: ignore[arg-type]
                value = env[row.value]
                if value is None:
                    raise Unsupported(f"the definition of {row.tensor} has no value")
                residues = np.broadcast_to(value.residues(self), shape).copy()
                self.constants[row.tensor] = Val(
                    str(self.tensors.entries[row.tensor]["dtype"]), residues=residues
                )

    def nested(self, graph: Graph, args: list[Val | None], captured: list[Val | None]) -> list[Val]:
        """Run a branch or a body."""
        env: dict[str, Val | None] = {}
        if len(args) != len(graph.inputs) or len(captured) != len(graph.captures):
            raise Unsupported("a nested graph is given another number of values")
        env.update(zip((name for _, name, _, _ in graph.inputs), args, strict=True))
        env.update(zip(graph.captures, captured, strict=True))
        env.update((v, self.constant(t)) for v, t in graph.constants.items())
        for node in graph.nodes:
            for name, val in zip(node.outs, self.apply(node, env, strict=True), strict=False):
                env[name] = val
        out = [env[name] for _, name in graph.outputs]
        if any(v is None for v in out):
            raise Unsupported("a nested graph gives nothing")
        return [v for v in out if v is not None]

    def apply(self, node: Node, env: dict[str, Val | None], *, strict: bool = False) -> list[Val | None]:
        """Return the values of an operator's outputs; None where there are none to compute with."""
        names = (*node.ins, *node.captures)
        vals = [env.get(name) if name else None for name in names]
        if any(name and v is None for name, v in zip(names, vals, strict=True)):
            self.tested[id(node)] = self.tested.get(id(node), "reads a value that is not known")
            return [None] * len(node.outs)
        key = None
        if not any(isinstance(v, Graph) for v in node.attrs.values()):
            marks = tuple(
                None if v is None else (self.identify(v).id, v.exact is not None, v.dtype) for v in vals
            )
            key = (node.op, node.key, marks, tuple(bool(o) for o in node.outs))
            if key in self.memo:
                self.hits += 1
                self.memo.move_to_end(key)
                return list(self.memo[key])
        self.computed += 1
        try:
            function = OPS.get(node.op)
            if function is None:
                raise Unsupported("this checker has no semantics of it")
            with np.errstate(all="ignore"):
                args = Args(self, node, vals)
                out = function(args)
            unread = args.attrs.unread - _WITHOUT_EFFECT.get(node.op, set()) - {"stash_type"}
            if unread:
                raise Unsupported(f"attribute `{min(unread)}` is not known")
        except (
            Unsupported,
            ValueError,
            IndexError,
            TypeError,
            ZeroDivisionError,
            OverflowError,
            AttributeError,
            MemoryError,
        ) as error:
            if strict:
                raise error if isinstance(error, Unsupported) else Unsupported(str(error)) from error
            self.tested[id(node)] = str(error)[:200]
            out = self.opaque(node, vals)
        found: list[Val | None] = [out] if isinstance(out, Val) else list(out)
        found += [None] * (len(node.outs) - len(found))
        known = [v for v in found if v is not None]
        if key is not None and len(known) == len(found):
            self._remember(key, known)
        return found

    def _remember(self, key: object, vals: list[Val]) -> None:
        self.memo[key] = vals
        self.held += sum(v.size for v in vals)
        while self.held * 8 > self.memory and len(self.memo) > 1:
            _, gone = self.memo.popitem(last=False)
            self.held -= sum(v.size for v in gone)

    def opaque(self, node: Node, vals: list[Val | None]) -> list[Val | None]:
        """Return values that depend on operator, attributes and all operands; of the stated shapes."""
        marks = [None if v is None else self.identify(v).id for v in vals]
        forms = [None if v is None else next(k for k, i in self.ids.items() if i == v.id) for v in vals]
        seed = self.field.number(f"opaque {node.op} {node.key} {forms if marks else ''}")
        out: list[Val | None] = []
        for i, name in enumerate(node.outs):
            stated = node.types[i] if i < len(node.types) else None
            try:
                dtype, dims = stated  # type: ignore[misc]
                shape = [_size(d, self.symbols) for d in dims]
                _room(shape)
            except (Unsupported, TypeError, ValueError, KeyError):
                out.append(None)
                continue
            flat = np.random.default_rng([seed, i]).integers(-(self.field.p // 2), self.field.p // 2, shape)
            out.append(Val(str(dtype), residues=flat.astype(np.float64)) if name else None)
        return out


def _size(dim: object, symbols: dict[str, int]) -> int:
    """Return a size that is stated as a number or in terms of symbols: `N`, `2*N`, `H//2+1`."""
    import ast

    if isinstance(dim, int):
        return dim
    if not isinstance(dim, str) or len(dim) > 200:
        raise ValueError

    def of(tree: ast.AST) -> int:
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
            return tree.value
        if isinstance(tree, ast.Name):
            return symbols[tree.id]
        if isinstance(tree, ast.BinOp):
            x, y = of(tree.left), of(tree.right)
            if isinstance(tree.op, ast.FloorDiv):
                return x // y
            if isinstance(tree.op, (ast.Add, ast.Sub, ast.Mult)):
                return (
                    x + y
                    if isinstance(tree.op, ast.Add)
                    else x - y
                    if isinstance(tree.op, ast.Sub)
                    else x * y
                )
        raise ValueError

    if dim in symbols:
        return symbols[dim]
    try:
        return of(ast.parse(dim, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, ZeroDivisionError) as error:
        raise ValueError from error


class Walk:
    """A graph under evaluation: values that are still read, and the number of each that was computed."""

    def __init__(
        self,
        run: Run,
        graph: Graph,
        given: list[Val],
        keep: set[str] | None = None,
        put: dict[str, Val] | None = None,
    ) -> None:
        self.run, self.graph, self.put = run, graph, put or {}
        self.env: dict[str, Val | None] = {}
        self.ids: dict[str, int] = {}
        self.kept: dict[str, Val] = {}
        self.keep = keep or set()
        self.left = Counter(name for n in graph.nodes for name in {*n.ins, *n.captures})
        self.left.update({name for _, name in graph.outputs})
        self.next = 0
        for (_, name, _, _), val in zip(graph.inputs, given, strict=True):
            self._hold(name, val)

    def _hold(self, name: str, val: Val | None) -> None:
        if val is not None and name:
            self.ids[name] = self.run.identify(val).id
            if name in self.keep:
                self.kept[name] = val
        if name in self.put:
            val = self.put[name]
        if name and self.left[name]:
            self.env[name] = val

    @property
    def done(self) -> float:
        return self.next / len(self.graph.nodes) if self.next < len(self.graph.nodes) else 2.0

    def step(self) -> None:
        """Evaluate the next operator, and let go of what nothing reads any more."""
        node = self.graph.nodes[self.next]
        self.next += 1
        for name in (*node.ins, *node.captures):
            if name in self.graph.constants and name not in self.env:
                self._hold(name, self.run.constant(self.graph.constants[name]))
        out = self.run.apply(node, self.env)
        for name in {*node.ins, *node.captures}:
            self.left[name] -= 1
            if not self.left[name]:
                self.env.pop(name, None)
                if name in self.graph.constants:
                    self.run.constants.pop(self.graph.constants[name], None) if self.graph.constants[
                        name
                    ] not in self.run.defined else None
        for name, val in zip(node.outs, out, strict=False):
            self._hold(name, val)

    def finish(self) -> None:
        for _, name in self.graph.outputs:
            if name in self.graph.constants and name not in self.env:
                self._hold(name, self.run.constant(self.graph.constants[name]))


def _draw_inputs(run: Run, rng: np.random.Generator, number: int) -> list[Val]:
    """Return random residues for each input, of the shapes that the certificate has for this evaluation."""
    source, target = run.certificate.source, run.certificate.target
    _want(
        len(source.inputs) == len(target.inputs),
        "target.inputs",
        f"expected {len(source.inputs)} inputs, as the source has",
    )
    sizes = run.certificate.sizes[number % len(run.certificate.sizes)]
    given = []
    for i, (mine, other) in enumerate(zip(source.inputs, target.inputs, strict=True)):
        stated = [d if isinstance(d, int) else sizes.get(str(d)) for d in mine[3]]
        dims = [d for d in stated if d is not None]
        _want(len(dims) == len(stated), f"source.inputs[{i}]", "`sizes` has no number for one of its axes")
        _want(len(dims) == len(other[3]), f"target.inputs[{i}]", f"expected {len(dims)} axes")
        for d, o in zip(dims, other[3], strict=True):
            _want(not isinstance(o, int) or o == d, f"target.inputs[{i}]", f"expected a size of {d}, got {o}")
            if isinstance(o, str):
                run.symbols.setdefault(o, d)
        for d, o in zip(dims, mine[3], strict=True):
            if isinstance(o, str):
                run.symbols[o] = d
        _want(math.prod(dims) <= LIMIT[0], f"source.inputs[{i}]", "too many elements")
        p = run.field.p
        given.append(Val(mine[2], residues=rng.integers(-(p // 2), p // 2 + 1, dims).astype(np.float64)))
    return given


# -- definitions of rounded constants ----------------------------------------------------------------------

_FLOAT = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Sqrt": np.sqrt,
    "Neg": np.negative, "Exp": np.exp, "Log": np.log, "Pow": np.power,
    "Reciprocal": np.reciprocal, "MatMul": np.matmul,
}  # fmt: skip
_MOVES = {
    "Identity",
    "Reshape",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Slice",
    "Concat",
    "Expand",
    "Tile",
    "Flatten",
    "Gather",
}


def _relative_error(op: str, found: np.ndarray, ins: list[np.ndarray], errors: list[float]) -> float:
    """Bound the relative error of a result by those of its operands; infinite where it is above 1 / 16."""
    eps = float(np.finfo(np.longdouble).eps)
    sizes = [np.abs(x) for x in ins]
    if op in ("Add", "Sub", "MatMul"):
        if op == "MatMul":
            gap = (sum(errors) + ins[0].shape[-1] * eps) * (sizes[0] @ sizes[1])
        else:
            gap = sizes[0] * errors[0] + sizes[1] * errors[1]
        error = np.max(np.where(gap == 0, 0, gap / np.abs(found)), initial=0)
    elif op == "Exp":
        error = errors[0] * np.max(sizes[0], initial=0)
    elif op == "Log":
        error = np.max(errors[0] / np.abs(found), initial=0) if errors[0] else 0.0
    elif op == "Pow":
        error = errors[0] * np.max(sizes[1], initial=0)
        error += errors[1] * np.max(np.abs(sizes[1] * np.log(sizes[0])), initial=0) if errors[1] else 0.0
    else:
        error = sum(errors)
    error = 1.1 * float(error) + 4 * eps
    return error if error <= 2**-4 else math.inf


def check_definitions(
    certificate: Certificate, tensors: Tensors, units: float
) -> tuple[dict[str, float], dict[str, str]]:
    """Compare each constant with the rounding of its expression, in the longest floats that NumPy has.

    Returns:
        Tensor -> units in the last place by which it differs, and tensor -> why its definition does not hold.
    """
    graph = certificate.definitions
    env: dict[str, np.ndarray | None] = {}
    errors: dict[str, float] = {}
    fine: dict[str, float] = {}
    wrong: dict[str, str] = {}
    run = Run(certificate, tensors, 2097143, b"", set(), set(), 1 << 20)
    for value, name in graph.constants.items():
        array = tensors.load(name)
        env[value] = array.astype(np.longdouble) if array.dtype.kind == "f" else array
    for node in graph.nodes:
        ins = [env.get(n) for n in node.ins]
        known = [x for x in ins if x is not None]
        whole = len(known) == len(ins)
        try:
            _want(len(node.outs) == 1, "definitions", f"{node.op} has several outputs")
            with np.errstate(all="ignore"):
                if node.op == "Pi":
                    env[node.outs[0]] = np.asarray(np.longdouble("3.14159265358979323846264338327950288"))
                    errors[node.outs[0]] = float(np.finfo(np.longdouble).eps)
                elif node.op in _FLOAT and whole:
                    floats = all(x.dtype.kind == "f" for x in known[: 1 if node.op == "Pow" else None])
                    if not floats:
                        raise Unsupported(f"{node.op} of whole numbers")
                    _room(np.broadcast_shapes(*[x.shape for x in known]) if node.op != "MatMul" else ())
                    operands = [np.asarray(x, np.longdouble) for x in known]
                    found = env[node.outs[0]] = _FLOAT[node.op](*operands)
                    own = [errors.get(n, 0.0) for n in node.ins]
                    errors[node.outs[0]] = _relative_error(node.op, found, operands, own)
                elif node.op == "Concat" and whole:
                    errors[node.outs[0]] = max(errors.get(n, 0.0) for n in node.ins)
                    axis = _axis(Args(run, node, []).int("axis", 0), known[0].ndim)
                    env[node.outs[0]] = np.concatenate(known, axis)
                elif node.op in _MOVES and whole:
                    vals = [Val("int64" if x.dtype.kind in "iub" else "float64", exact=x) for x in known]
                    errors[node.outs[0]] = max(errors.get(n, 0.0) for n in node.ins)
                    moved = OPS[node.op](Args(run, node, [*vals]))
                    env[node.outs[0]] = moved.exact if isinstance(moved, Val) else None
                else:
                    raise Unsupported(f"no floats for {node.op}")
        except (Unsupported, ValueError, TypeError, IndexError, AttributeError) as error:
            env[node.outs[0]] = None
            for row in certificate.defined:
                wrong.setdefault(row.tensor, f"{node.op}: {error}") if row.value in node.outs else None
    for row in certificate.defined:
        stated, value = tensors.load(row.tensor), env.get(row.value)
        if value is None:
            wrong.setdefault(row.tensor, "its expression has no value")
            continue
        try:
            value = np.broadcast_to(np.asarray(value, np.longdouble), stated.shape)
        except ValueError:
            wrong[row.tensor] = "its expression has another shape"
            continue
        if stated.dtype.kind != "f" or not np.isfinite(value).all():
            wrong[row.tensor] = "its expression is not finite, or it holds no floats"
            continue
        with np.errstate(all="ignore"):
            unit = np.abs(np.spacing(value.astype(stated.dtype))).astype(np.longdouble)
            if tensors.entries[row.tensor]["dtype"] == "bfloat16":
                unit = unit * 65536
            off = np.abs(stated.astype(np.longdouble) - value) / unit
            lost = float(np.max(np.abs(value) / unit, initial=0)) * errors.get(row.value, 0.0)
            if not lost <= 2**-4:
                wrong[row.tensor] = "its expression cancels, so that its value is not known well enough"
                continue
        worst = float(off.max()) if off.size else 0.0
        if not worst <= min(row.units, units) * (1 + 2**-8):
            wrong[row.tensor] = f"differs from its expression by {worst:.3g} units in the last place"
        else:
            fine[row.tensor] = worst
    return {t: u for t, u in fine.items() if t not in wrong}, wrong


# -- grades ------------------------------------------------------------------------------------------------


class Calls:
    """The operators of each module call, and the values that go in and come out of it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.above: dict[str, tuple[str, ...]] = {"": ()}
        self.nodes: dict[str, list[Node]] = defaultdict(list)
        self.outs: dict[str, dict[str, None]] = defaultdict(dict)
        self.ins: dict[str, dict[str, None]] = defaultdict(dict)
        self.maker = {v: n for n in graph.nodes for v in n.outs if v}
        for node in graph.nodes:
            for call in self._above(node.call):
                self.nodes[call].append(node)
        readers = [(self._above(n.call), (*n.ins, *n.captures)) for n in graph.nodes]
        readers.append(((), tuple(v for _, v in graph.outputs)))
        for here, names in readers:
            for name in names:
                maker = self.maker.get(name)
                there = self._above(maker.call) if maker is not None else ()
                for call in there:
                    if call not in here:
                        self.outs[call][name] = None
                for call in here:
                    if call not in there and name and name not in graph.constants:
                        self.ins[call][name] = None

    def _above(self, call: str) -> tuple[str, ...]:
        if call not in self.above:
            chain: list[str] = []
            at: str | None = call
            while at and at not in chain and len(chain) < 1000:
                chain.append(at)
                at = self.graph.calls.get(at, "")
            self.above[call] = tuple(chain)
        return self.above[call]

    def ordered_outs(self, call: str) -> list[str]:
        made = [v for n in self.nodes[call] for v in n.outs]
        return [v for v in made if v in self.outs[call]]


@dataclass
class Outcome:
    """The result of several evaluations."""

    ids: list[dict[str, tuple[int, ...]]]
    tested: dict[int, str]
    dtypes: list[dict[str, str]]


def evaluate(
    certificate: Certificate,
    tensors: Tensors,
    primes: list[int],
    key: bytes,
    axioms: set[str],
    defined: set[str],
    memory: int,
    swaps: dict[str, str] | None = None,
) -> Outcome:
    """Evaluate both graphs for each prime; `swaps` puts values of the source in the place of the target's."""
    totals: list[dict[str, tuple[int, ...]]] = [{}, {}]
    dtypes: list[dict[str, str]] = [{}, {}]
    tested: dict[int, str] = {}
    for number, prime in enumerate(primes):
        run = Run(certificate, tensors, prime, key, axioms, defined, memory)
        given = _draw_inputs(run, np.random.default_rng(run.field.number("inputs")), number)
        source = Walk(run, certificate.source, given, set((swaps or {}).values()))
        target = Walk(run, certificate.target, given)
        if swaps is not None:
            while source.done < 2:
                source.step()
            target.put = {name: source.kept[mine] for name, mine in swaps.items() if mine in source.kept}
        while source.done < 2 or target.done < 2:
            (source if source.done <= target.done else target).step()
        for side, walk in enumerate((source, target)):
            walk.finish()
            for name, i in walk.ids.items():
                totals[side][name] = (*totals[side].get(name, ()), i)
            for name, val in walk.env.items():
                if val is not None:
                    dtypes[side][name] = val.dtype
        tested.update(run.tested)
    full = len(primes)
    return Outcome([{n: t for n, t in side.items() if len(t) == full} for side in totals], tested, dtypes)


def _grade(
    outcome: Outcome,
    calls: list[Calls],
    nodes: list[Node],
    outs: list[str],
    stop: set[tuple[int, ...]],
    axioms: set[str],
    defined: set[str],
) -> tuple[str, list[str]]:
    """Return the grade of a part of the source whose outputs are in the target, and what it rests on."""
    mine, other = outcome.ids
    by_id: dict[tuple[int, ...], str] = {}
    for name, i in other.items():
        by_id.setdefault(i, name)
    seen: set[int] = set()
    part: list[Node] = []
    stack = [by_id[mine[v]] for v in outs if mine.get(v) in by_id]
    constants: set[str] = {
        calls[0].graph.constants[v] for n in nodes for v in n.ins if v in calls[0].graph.constants
    }
    while stack:
        name = stack.pop()
        if name in calls[1].graph.constants:
            constants.add(calls[1].graph.constants[name])
        node = calls[1].maker.get(name)
        if node is None or id(node) in seen or other.get(name) in stop:
            continue
        seen.add(id(node))
        part.append(node)
        stack += [v for v in (*node.ins, *node.captures) if v]
    unknown = sorted({f"{n.op}: {outcome.tested[id(n)]}" for n in (*nodes, *part) if id(n) in outcome.tested})
    if unknown:
        return "tested", unknown

    def terms(graph_nodes: list[Node], ids: dict[str, tuple[int, ...]]) -> Counter:
        return Counter(
            (n.op, n.key, tuple(ids.get(v) for v in n.ins)) for n in graph_nodes if n.op != "Identity"
        )

    if terms(nodes, mine) == terms(part, other) and not constants & defined:
        return "identical", []
    used = sorted(a for a in axioms if any(n.op in _TRIGGERS[a] for n in (*nodes, *part)))
    if used:
        return "axioms", used
    folded = sorted(constants & defined)
    return ("folded", folded) if folded else ("algebraic", [])


def check(
    certificate: Certificate,
    *,
    seed: int | None = None,
    primes: int = 3,
    units: float = 0.5,
    memory: int = 1 << 30,
) -> dict[str, Any]:
    """Check a certificate; returns the report, as `--json` prints it."""
    seed = secrets.randbits(63) if seed is None else seed
    rng = np.random.default_rng(seed)
    chosen = draw_primes(primes, rng)
    key = hashlib.sha256(f"regraft {seed}".encode()).digest()
    tensors = Tensors(certificate.folder, certificate.tensors)
    fine, wrong = check_definitions(certificate, tensors, units) if certificate.defined else ({}, {})
    defined = set(fine)
    axioms: set[str] = set()
    calls = [Calls(certificate.source), Calls(certificate.target)]
    _want(
        len(certificate.source.outputs) == len(certificate.target.outputs),
        "target.outputs",
        f"expected {len(certificate.source.outputs)} outputs, as the source has",
    )
    outcome = evaluate(certificate, tensors, chosen, key, axioms, defined, memory)
    rows = _outputs(certificate, outcome)
    if certificate.axioms and not all(r["equal"] for r in rows):
        axioms = set(certificate.axioms)
        outcome = evaluate(certificate, tensors, chosen, key, axioms, defined, memory)
        rows = _outputs(certificate, outcome)
    whole = all(r["equal"] for r in rows) and bool(rows)
    grade, why = "different", []
    if whole:
        grade, why = _grade(
            outcome,
            calls,
            certificate.source.nodes,
            [v for _, v in certificate.source.outputs],
            set(),
            axioms,
            defined,
        )
    elif any(not r["known"] for r in rows):
        grade, why = "tested", sorted(set(outcome.tested.values()))
    modules = _modules(certificate, outcome, calls, axioms, defined, grade)
    if not whole and certificate.pairs:
        modules = _localised(certificate, tensors, chosen, key, axioms, defined, memory, calls)
    counts = Counter(m["grade"] for m in modules)
    return {
        "equal": whole and grade != "tested",
        "grade": grade,
        "why": why[:20],
        "outputs": rows,
        "modules": modules,
        "counts": {g: counts[g] for g in GRADES if counts[g]},
        "axioms": {a: AXIOMS[a] for a in why} if grade == "axioms" else {},
        "constants": len(defined),
        "units": max(fine.values(), default=0.0),
        "refused": dict(list(wrong.items())[:20]),
        "tested": dict(Counter(n.op for c in calls for n in c.graph.nodes if id(n) in outcome.tested)),
        "primes": chosen,
        "seed": seed,
    }


def _outputs(certificate: Certificate, outcome: Outcome) -> list[dict[str, object]]:
    """Compare each output of the source with the target's at its place."""
    mine, other = outcome.ids
    rows: list[dict[str, object]] = []
    for i, ((name, value), (_, target)) in enumerate(
        zip(certificate.source.outputs, certificate.target.outputs, strict=True)
    ):
        equal = value in mine and mine[value] == other.get(target)
        types = [d.get(v, "") for d, v in zip(outcome.dtypes, (value, target), strict=True)]
        known = value in mine and target in other
        rows.append({"name": name or str(i), "equal": equal and types[0] == types[1], "known": known})
    return rows


def _modules(
    certificate: Certificate,
    outcome: Outcome,
    calls: list[Calls],
    axioms: set[str],
    defined: set[str],
    whole: str,
) -> list[dict[str, object]]:
    """Grade each module call of the source by the values that come out of it, wherever they are there."""
    mine, other = outcome.ids
    there = set(other.values())
    rows = []
    for call in certificate.source.calls:
        outs = calls[0].ordered_outs(call)
        if not outs:
            continue
        if all(mine.get(v) in there for v in outs):
            stop = {mine[v] for v in calls[0].ins[call] if v in mine}
            grade, why = _grade(outcome, calls, calls[0].nodes[call], outs, stop, axioms, defined)
        else:
            grade, why = ("" if all(v in mine for v in outs) else "tested"), []
        rows.append({"call": call, "grade": grade, "why": why[:5]})
    found = {str(r["call"]): str(r["grade"]) for r in rows}
    for row in rows:
        if not row[
            "grade"
        ]:  # no value of the target is this one: it was computed together with its neighbours
            around = [found[c] for c in calls[0]._above(str(row["call"])) if found.get(c)]
            row.update(grade=around[0] if around else whole, why=["together with what is around it"])
    return rows


def _localised(
    certificate: Certificate,
    tensors: Tensors,
    primes: list[int],
    key: bytes,
    axioms: set[str],
    defined: set[str],
    memory: int,
    calls: list[Calls],
) -> list[dict[str, object]]:
    """Grade each paired call on the source's own inputs, so that one difference is blamed on one call."""
    swaps: dict[str, str] = {}
    pairs: dict[str, tuple[list[str], list[str]]] = {}
    for mine, other in certificate.pairs:
        both = calls[0].ordered_outs(mine), calls[1].ordered_outs(other)
        if both[0] and len(both[0]) == len(both[1]):
            pairs[mine] = both
            swaps.update(zip(both[1], both[0], strict=True))
    outcome = evaluate(certificate, tensors, primes[:1], key, axioms, defined, memory, swaps)
    own, target = outcome.ids
    rows: list[dict[str, object]] = []
    bad: set[str] = set()
    for call in certificate.source.calls:
        if call not in pairs:
            if calls[0].ordered_outs(call):
                rows.append({"call": call, "grade": "tested", "why": ["has no partner in the target"]})
            continue
        left, right = pairs[call]
        if any(v not in own or w not in target for v, w in zip(left, right, strict=True)):
            rows.append({"call": call, "grade": "tested", "why": ["a value is not known"]})
        elif all(own[v] == target[w] for v, w in zip(left, right, strict=True)):
            stop = {own[v] for v in calls[0].ins[call] if v in own}
            grade, why = _grade(outcome, calls, calls[0].nodes[call], left, stop, axioms, defined)
            rows.append({"call": call, "grade": grade, "why": why[:5]})
        else:
            bad.add(call)
            rows.append({"call": call, "grade": "different", "why": []})
    inside = {c for b in bad for c in calls[0]._above(b)} - bad
    for row in rows:
        if row["call"] in inside and row["grade"] != "tested":
            row.update(grade="different", why=["a call inside of it"])
    return rows


# -- the command -------------------------------------------------------------------------------------------


def summary(report: dict[str, Any]) -> str:
    """Return the verdict in one line."""
    grade, n, units = report["grade"], report["constants"], report["units"]
    if grade == "identical":
        return "equal exactly: the same operators on the same constants"
    if grade == "algebraic":
        return "equal exactly, as algebra"
    but = []
    if n:
        but.append(f"{n} rounded constants ({units:.2f} units in the last place at most)")
    if grade == "folded":
        return f"equal exactly, but for {but[0]}"
    if grade == "axioms":
        but += list(report["axioms"])
        return f"equal exactly, but for {' and '.join(but)}"
    if grade == "tested":
        return "not certified: operators that this check does not know, or whose indices depend on data"
    return "not certified: the target is not equal to the source as algebra"


def main(arguments: list[str] | None = None) -> int:
    """Check one certificate and print what it shows."""
    parser = argparse.ArgumentParser(
        prog="recheck", description="Re-check a certificate that two models compute the same."
    )
    parser.add_argument("certificate", type=Path)
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of primes and keys; drawn afresh by default"
    )
    parser.add_argument("--primes", type=int, default=3, help="number of prime fields (default 3)")
    parser.add_argument(
        "--units",
        type=float,
        default=0.5,
        help="most units in the last place of a rounded constant (default 0.5)",
    )
    parser.add_argument(
        "--memory", type=float, default=1.0, help="GiB of results kept for the second graph (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="every module call")
    options = parser.parse_args(arguments)
    try:
        _want(1 <= options.primes <= 64, "--primes", "expected 1 to 64")
        _want((options.seed or 0) >= 0, "--seed", "expected a whole number that is not negative")
        _want(0 <= options.units < math.inf, "--units", "expected a finite number that is not negative")
        _want(0 < options.memory < math.inf, "--memory", "expected a positive number of GiB")
        certificate = read_certificate(options.certificate)
        report = check(
            certificate,
            seed=options.seed,
            primes=options.primes,
            units=options.units,
            memory=int(options.memory * 2**30),
        )
    except (CertificateError, Unsupported) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (RecursionError, MemoryError) as error:
        print(f"error: {options.certificate}: {type(error).__name__}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(report, indent=2))
        return 0 if report["equal"] else 1
    lines = [summary(report)]
    counts: dict[str, int] = report["counts"]
    if counts:
        lines.append("module calls: " + ", ".join(f"{n} {g}" for g, n in counts.items()))
    for name, text in report["axioms"].items():
        lines.append(f"axiom {name}: {text}")
    for row in report["outputs"]:
        if not row["equal"]:
            lines.append(f"output {row['name']}: {'differs' if row['known'] else 'is not known'}")
    for row in report["modules"]:
        if options.verbose or row["grade"] in ("different", "tested"):
            lines.append(f"  {row['grade']:<10} {row['call']} {'; '.join(row['why'])}".rstrip())
    for name, why in report["refused"].items():
        lines.append(f"constant {name}: {why}")
    lines.append(f"primes {', '.join(map(str, report['primes']))}; seed {report['seed']}")
    print("\n".join(lines))
    return 0 if report["equal"] else 1


def console() -> None:
    """Run as an installed command."""
    sys.exit(main())


if __name__ == "__main__":
    console()
