#!/usr/bin/env python3
"""Re-check a certificate that two models compute the same: one file that needs Python and NumPy alone.

Both graphs become terms over a prime field. A float is a dyadic rational and has an exact image modulo a
prime; sums, products, means, layouts are exact there. What is no polynomial is an uninterpreted function, a
keyed hash of its name, attributes and operands. Terms of one structure are equal, and nothing is computed for
them. Where structure does not decide, terms are evaluated on random inputs: equal ones agree, and others
agree by chance with a probability of about degree / p for each prime. Primes and keys are drawn here.

    python recheck.py certificate.json [--seed N] [--primes N] [--json]

Exit code 0 where every output is certified, 1 where one is not, 2 where the certificate cannot be read.
Operators are ONNX's, by the semantics of https://onnx.ai/onnx/operators/ (opset 23).

To audit it, begin with `check`, which decides. `OPS` and `Operators` state ONNX's operators as terms; `add`
and `multiply` alone rewrite terms; `FUNCTIONS` is what a term computes, by the arithmetic of `Field`, and
`OF_NUMBERS` what it does of numbers that are known before any input. `Run` gives equal terms one id, and
`Walk` brings both graphs there; `real` and `apart` bound how far a constant is from its expression. A fault
there could make equal what differs; one in the rest (reading, grades of modules, the command) refuses too
much.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import itertools
import json
import math
import operator
import os
import secrets
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial, reduce
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

# Bounds of what a certificate may ask for.
MOST_JSON, MOST_NODES, MOST_LIST, MOST_DEPTH, MOST_RANK = 1 << 28, 200_000, 65536, 8, 16
MOST_STATED, MOST_HELD = 1 << 31, 1 << 29  # elements of a tensor: by its stated shape, in memory
MOST_EXACT, MOST_FRACTIONS, MOST_MATRIX = 1 << 22, 256, 1 << 20  # in whole numbers, fractions, of resizing
MOST_PLAIN = 16  # elements of a tensor of floats that is taken as fractions
MOST_SMALL = 4096  # elements of a constant that is always evaluated
MOST_STEPS = 4096
MOST_KEPT = 1 << 30  # bytes of results that are kept for the second graph
MOST_UNITS = 64.0
BLOCK = 2048  # products of two residues below 2**20 in size that sum exactly in float64
GRADES = ("identical", "algebraic", "folded", "axioms", "tested", "different")
SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip
FLOATS = ("float64", "float32", "bfloat16", "float16")
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip
AXIOMS = {
    "softmax-shift": "exp(x - c) / sum(exp(x - c)) is the same for every c that is constant along the axis",
    "sigmoid-exp": "sigmoid(x) = 1 / (1 + exp(-x)), tanh(x) = 2 sigmoid(2 x) - 1",
}
"""Name of an identity of functions that are no polynomials -> the identity."""
TRIGGERS = {
    "softmax-shift": {"Softmax", "LogSoftmax", "ReduceLogSumExp", "Exp"},
    "sigmoid-exp": {"Sigmoid", "Tanh", "Exp", "Mish", "Gelu", "LSTM", "GRU", "RNN"},
}
Array = np.ndarray
Ints = list[int]
Shape = tuple[int, ...]
Number = Fraction | float


class CertificateError(Exception):
    """A fault that makes a certificate unreadable, with its place."""


class Unsupported(Exception):
    """An operator without a value here: its outputs are compared by other means."""


def want(condition: object, place: str, text: str) -> None:
    if not condition:
        raise CertificateError(f"{place}: {text}")


def need(condition: object, text: str) -> None:
    if not condition:
        raise Unsupported(text)


# -- reading -----------------------------------------------------------------------------------------------


def whole(low: int, high: int) -> Any:
    return lambda v: type(v) is int and low <= v <= high, f"a whole number from {low} to {high}"


# A form of JSON: a pair (test, words), a list [form, most], a mapping {"*": form}, or an object of these
# keys, of which those with a `?` may be missing.
ANY = (lambda _: True, "")
TEXT = (lambda v: isinstance(v, str) and len(v) <= 4096, "a text of at most 4096 characters")
NUMBER = (lambda v: isinstance(v, (int, float)), "a number")
KIND = (lambda v: isinstance(v, str) and v in SIZES, f"an element type: {', '.join(SIZES)}")
FILE = (
    lambda v: TEXT[0](v) and v and "\0" not in v and not Path(v).is_absolute() and ".." not in Path(v).parts,
    "the name of a file beside the certificate",
)
SHAPE = [whole(0, MOST_STATED), MOST_RANK]
AXES = [(lambda v: TEXT[0](v) or SHAPE[0][0](v), "a size or the name of one"), MOST_RANK]
VALUE = (lambda v: isinstance(v, (int, float, str)), "a number, a text, a list of them, a graph or a tensor")
# fmt: off
TENSOR = {
    "dtype": KIND, "shape": SHAPE, "values?": [NUMBER, MOST_LIST], "file?": FILE,
    "offset?": whole(0, 1 << 50), "sha256?": TEXT,
}
NODE = {
    "op": TEXT, "in?": [TEXT, MOST_LIST], "out": [TEXT, MOST_LIST], "attributes?": {"*": ANY}, "call?": TEXT,
    "at?": TEXT, "types?": [ANY, MOST_LIST], "captures?": [TEXT, MOST_LIST],
}
GRAPH = {
    "inputs?": [{"name?": TEXT, "value": TEXT, "dtype": KIND, "shape?": AXES}, MOST_LIST],
    "captures?": [TEXT, MOST_LIST], "constants?": {"*": TEXT}, "nodes?": [NODE, MOST_NODES],
    "outputs?": [{"name?": TEXT, "value": TEXT}, MOST_LIST], "calls?": {"*": TEXT},
}
CERTIFICATE = {
    "format": (lambda v: v == "regraft-certificate", "`regraft-certificate`"), "version": whole(1, 1),
    "tensors": {"*": TENSOR}, "source": ANY, "target": ANY, "sizes?": [{"*": whole(1, 1 << 20)}, 8],
    "definitions?": {
        "constants?": ANY, "nodes?": ANY,
        "of?": [{"tensor": TEXT, "value": TEXT, "units": NUMBER}, MOST_NODES],
    },
    "pairs?": [[TEXT, 2], MOST_NODES], "axioms?": [TEXT, 64],
}
# fmt: on


def read(form: Any, value: Any, place: str) -> Any:
    """Return a value of JSON that has a form; what may be missing is None, or empty."""
    if isinstance(form, tuple):
        want(form[0](value), place, f"expected {form[1]}")
        return value
    if isinstance(form, list):
        fine = isinstance(value, list) and len(value) <= form[1]
        want(fine, place, f"expected a list of at most {form[1]}")
        return [read(form[0], v, f"{place}[{i}]") for i, v in enumerate(value)]
    want(isinstance(value, dict) and len(value) <= 4 * MOST_NODES, place, "expected an object")
    if "*" in form:
        return {read(TEXT, k, place): read(form["*"], v, f"{place}.{k[:80]}") for k, v in value.items()}
    forms = {name.rstrip("?"): rule for name, rule in form.items()}
    want(set(value) <= set(forms), place, f"expected only {', '.join(sorted(forms))}")
    missing = [name for name in form if name[-1] != "?" and name not in value]
    want(not missing, place, f"expected {', '.join(missing)}")
    empty = {name: None if isinstance(rule, tuple) else type(rule)() for name, rule in forms.items()}
    return empty | {name: read(forms[name], v, f"{place}.{name}") for name, v in value.items()}


class Node(NamedTuple):
    """One operator: what it reads and writes, in which call of which module."""

    op: str
    ins: list[str]
    outs: list[str]
    attrs: dict[str, Any]
    call: str = ""
    types: Sequence[Any] = ()
    captures: Sequence[str] = ()
    key: str = ""

    @property
    def reads(self) -> list[str]:
        return [*self.ins, *self.captures]


class Graph(NamedTuple):
    """A list of operators in an order in which each reads what is there."""

    inputs: list[dict[str, Any]]
    captures: list[str]
    constants: dict[str, str]
    nodes: list[Node]
    outputs: list[tuple[str, str]]
    calls: dict[str, str]


class TensorName(str):
    """The name of a tensor, as an attribute has it."""


class Certificate(NamedTuple):
    """A certificate as read: `defined` constants are roundings of `definitions`, `pairs` are of calls."""

    folder: Path
    tensors: dict[str, dict[str, Any]]
    source: Graph
    target: Graph
    definitions: Graph
    defined: list[dict[str, Any]]
    sizes: list[dict[str, int]]
    pairs: list[list[str]]
    axioms: list[str]


def read_graph(value: Any, place: str, tensors: dict[str, Any], depth: int = 0) -> Graph:
    """Read a graph in which each name is defined once, before it is read."""
    want(depth <= MOST_DEPTH, place, "graphs are nested too deep")
    given = read(GRAPH, value, place)
    known: set[str] = set()

    def define(names: Sequence[str], where: str) -> None:
        for name in names:
            want(name and name not in known, where, f"value `{name[:80]}` is defined twice or has no name")
            known.add(name)

    def attribute(value: Any, where: str) -> Any:
        if isinstance(value, dict) and set(value) == {"graph"}:
            return read_graph(value["graph"], f"{where}.graph", tensors, depth + 1)
        if isinstance(value, dict):
            name = read({"tensor": TEXT}, value, where)["tensor"]
            want(name in tensors, where, "names no tensor of the certificate")
            return TensorName(name)
        return read([VALUE, MOST_LIST] if isinstance(value, list) else VALUE, value, where)

    define([row["value"] for row in given["inputs"]], f"{place}.inputs")
    define([*given["captures"], *given["constants"]], f"{place}.constants")
    for name, tensor in given["constants"].items():
        want(tensor in tensors, f"{place}.constants.{name[:80]}", "names no tensor of the certificate")
    nodes: list[Node] = []
    for i, row in enumerate(given["nodes"]):
        where, key = f"{place}.nodes[{i}]", json.dumps(row["attributes"], sort_keys=True)
        for name in (*row["in"], *row["captures"]):
            want(not name or name in known, where, f"reads `{name[:80]}`, which nothing above it defines")
        attrs = {k: attribute(v, f"{where}.attributes.{k[:40]}") for k, v in row["attributes"].items()}
        rest = row["call"] or "", row["types"], row["captures"], key
        nodes.append(Node(row["op"], row["in"], row["out"], attrs, *rest))
        define([name for name in row["out"] if name], where)
    outputs = [(row["name"] or str(i), row["value"]) for i, row in enumerate(given["outputs"])]
    for i, (_, name) in enumerate(outputs):
        want(name in known, f"{place}.outputs[{i}]", f"returns `{name[:80]}`, which nothing defines")
    return Graph(given["inputs"], given["captures"], given["constants"], nodes, outputs, given["calls"])


def no_constant(name: str) -> None:
    raise ValueError(f"`{name}` is no number")


def no_key_twice(rows: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(rows)
    if len(found) < len(rows):
        raise ValueError("an object has a key twice")
    return found


def read_certificate(path: Path) -> Certificate:
    """Read a certificate; raises `CertificateError` with a place for whatever it is not."""
    try:
        want(path.stat().st_size <= MOST_JSON, str(path), f"larger than {MOST_JSON} bytes")
        given = json.loads(
            path.read_text("utf-8"), parse_constant=no_constant, object_pairs_hook=no_key_twice
        )
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"{path}: is no JSON document: {error}") from error
    top = read(CERTIFICATE, given, "certificate")
    tensors = top["tensors"]
    for name, entry in tensors.items():
        place, count = f"tensors.{name[:80]}", math.prod(entry["shape"])
        want(count <= MOST_STATED, place, "too many elements")
        if entry["sha256"] is None:
            want(len(entry["values"]) == count, place, f"expected {count} values, got {len(entry['values'])}")
        else:
            want(entry["file"] and entry["offset"] is not None, place, "expected a file and an offset")
    stated = top["definitions"] or {"of": []}
    graph = {k: stated[k] for k in ("constants", "nodes") if stated.get(k)}
    definitions = read_graph(graph, "definitions", tensors)
    known = {*definitions.constants, *(v for n in definitions.nodes for v in n.outs)}
    for i, row in enumerate(stated["of"]):
        place = f"definitions.of[{i}]"
        want(0 <= row["units"] <= MOST_UNITS, place, f"expected at most {MOST_UNITS} units")
        want(row["value"] in known, place, "names no value of the definitions")
        want(row["tensor"] in tensors, place, "names no tensor of the certificate")
    want(all(len(pair) == 2 for pair in top["pairs"]), "pairs", "expected two calls")
    for name in top["axioms"]:
        want(name in AXIOMS, "axioms", f"`{name}` is none of {', '.join(AXIOMS)}")
    both = [read_graph(top[side], side, tensors) for side in ("source", "target")]
    for kind in ("inputs", "outputs"):
        counts = [len(getattr(graph, kind)) for graph in both]
        want(counts[0] == counts[1], f"target.{kind}", f"expected {counts[0]}, as the source has")
    rest = stated["of"], top["sizes"] or [{}], top["pairs"], top["axioms"]
    return Certificate(path.resolve().parent, tensors, both[0], both[1], definitions, *rest)


class Tensors:
    """The tensors of a certificate, read when they are wanted; bytes must have the digest that it states."""

    def __init__(self, folder: Path, entries: dict[str, dict[str, Any]]) -> None:
        self.folder, self.entries = folder, entries
        self.checked: set[str] = set()
        self.odd: set[str] = set()  # that hold NaN or infinity
        self.small: dict[str, Array] = {}

    def load(self, name: str) -> Array:
        """Return a tensor; bfloat16 comes as the float32 of the same value."""
        if name in self.small:
            return self.small[name]
        place, entry = f"tensors.{name[:80]}", self.entries[name]
        kind, count = entry["dtype"].replace("bfloat16", "uint16"), math.prod(entry["shape"])
        try:
            if entry["sha256"] is None:
                kind = entry["dtype"].replace("bfloat16", "float32")
                array = np.array(entry["values"], "float64" if kind in FLOATS else None).astype(kind)
                want(array.tolist() == entry["values"], place, f"holds a number that is no {kind}")
            else:
                path, offset = self.folder / entry["file"], entry["offset"]
                want(path.is_file(), place, f"no file `{path}`")
                there = offset + count * SIZES[kind] <= path.stat().st_size
                want(there, place, f"lies outside of `{path}`")
                array = np.fromfile(path, np.dtype(kind).newbyteorder("<"), count, offset=offset)
                if name not in self.checked:
                    fine = hashlib.sha256(array.data if count else b"").hexdigest() == entry["sha256"]
                    want(fine, place, f"`{path}` has other bytes there than stated")
                    self.checked.add(name)
                if kind != entry["dtype"]:
                    array = (array.astype(np.uint32) << 16).view(np.float32)
        except OSError as error:
            raise CertificateError(f"{place}: {error.strerror} `{entry['file']}`") from error
        except (OverflowError, ValueError) as error:
            raise CertificateError(f"{place}: {error}") from error
        array = array.reshape(entry["shape"])
        if entry["dtype"] in FLOATS and not np.isfinite(array).all():
            self.odd.add(name)
        if count <= MOST_SMALL:
            self.small[name] = array
        return array


# -- prime fields ------------------------------------------------------------------------------------------

_C1, _C2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S14, _S27, _S30, _S31 = np.uint64(14), np.uint64(27), np.uint64(30), np.uint64(31)
_SMALL_PRIMES = (2, 3, 5, 7, 11, 13)


def draw_primes(count: int, rng: np.random.Generator) -> list[int]:
    """Return primes just below 2**21 in which small whole numbers have the roots that they have in the reals.

    Modulo a prime p = 3 (mod 4), x**((p+1)/4) is the root of a square that is a square itself, so that roots
    multiply; with 2 to 13 among the squares, the root of 64 is 8, and that of 32 is 4 times that of 2.
    """
    found: list[int] = []
    while len(found) < count:
        p = int(rng.integers((1 << 21) - (1 << 19), 1 << 21)) | 7
        if all(pow(q, (p - 1) // 2, p) == 1 for q in _SMALL_PRIMES) and p not in found:
            found += [p] if all(p % d for d in range(3, math.isqrt(p) + 1, 2)) else []
    return found


def mix(z: Array) -> Array:
    z ^= z >> _S30
    z *= _C1
    z ^= z >> _S27
    z *= _C2
    z ^= z >> _S31
    return z


class Field:
    """Arithmetic modulo a prime: arrays of float64 that hold whole numbers from -(p-1)/2 to (p-1)/2."""

    def __init__(self, p: int, key: bytes) -> None:
        self.p, self.secret = p, key
        self.keys: dict[str, np.uint64] = {}

    def number(self, name: str) -> int:
        """Return 64 bits that depend on the key, the prime and a name alone."""
        found = hashlib.blake2b(f"{self.p} {name}".encode(), key=self.secret, digest_size=8).digest()
        return int.from_bytes(found, "little")

    def random(self, name: str, shape: Shape) -> Array:
        """Return residues that are drawn for a name."""
        rng = np.random.default_rng(self.number(name))
        return rng.integers(-(self.p // 2), self.p // 2 + 1, shape).astype(np.float64)

    def key(self, name: str) -> np.uint64:
        if name not in self.keys:
            self.keys[name] = np.uint64(self.number(name))
        return self.keys[name]

    def scalar(self, n: Number) -> int:
        """Return the residue of a rational."""
        n = Fraction(n)
        d = n.denominator % self.p
        r = n.numerator % self.p * (pow(d, -1, self.p) if d else 0) % self.p
        return r - self.p if r > self.p // 2 else r

    def reduce(self, x: Array) -> Array:
        """Reduce whole numbers below 2**51 in size, in place."""
        x = np.asarray(x, np.float64)
        q = np.rint(x * (1.0 / self.p))
        q *= self.p
        x -= q
        return x

    def mul(self, a: Array, b: Array | float) -> Array:
        return self.reduce(np.multiply(a, b))

    def power(self, a: Array, n: int) -> Array:
        result, base = np.ones_like(a), a
        while n:
            result = self.mul(result, base) if n & 1 else result
            n >>= 1
            base = self.mul(base, base) if n else base
        return result

    def inverse(self, a: Array) -> Array:
        """Return inverses; that of 0 is 0, on both sides."""
        return self.power(a, self.p - 2)

    def hash(self, name: str, x: Array) -> Array:
        """Return 64 pseudo-random bits for each residue."""
        z = np.array(x, np.int64).view(np.uint64)
        z ^= self.key(name)
        z *= _C1
        z = mix(z)
        z += self.key(f"{name} again")
        return mix(z)

    def residues(self, bits: Array) -> Array:
        """Return the residues of 64-bit numbers' upper 50 bits."""
        return self.reduce((bits >> _S14).astype(np.float64))

    def function(self, name: str, *xs: Array) -> Array:
        """Return an uninterpreted function of the elements at one place."""
        bits = np.zeros(xs[0].shape, np.uint64)
        for i, x in enumerate(xs):
            bits = mix(bits + self.hash(f"{name} {i}", x))
        return self.residues(bits)

    def relu(self, x: Array) -> Array:
        size = np.abs(x)
        return self.mul(x + self.mul(size, self.function("Sign", size)), self.scalar(Fraction(1, 2)))

    def sequence(self, name: str, x: Array) -> Array:
        """Return 64 bits of the elements along the last axis, their order included."""
        places = self.hash(f"{name} place", np.arange(x.shape[-1], dtype=np.float64)) | np.uint64(1)
        found = (mix(self.hash(name, x) + places) * places).sum(-1, keepdims=True, dtype=np.uint64)
        return mix(found + np.uint64(x.shape[-1]))[..., 0]

    def root(self, x: Array, number: bool) -> Array:
        """Return the field's root of numbers, by which roots multiply; else an uninterpreted one, never 0."""
        if number:
            return self.power(x, (self.p + 1) // 4)
        out = self.function("Sqrt", x)
        out[out == 0] = 1
        return out

    def matmul(self, a: Array, b: Array) -> Array:
        k = a.shape[-1]
        if a.ndim > 2 and b.ndim == 2:
            return self.matmul(a.reshape(-1, k), b).reshape(*a.shape[:-1], b.shape[-1])
        if a.ndim > 2 or b.ndim > 2:
            a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        out = self.reduce(np.matmul(a[..., :BLOCK], b[..., :BLOCK, :]))
        for i in range(BLOCK, k, BLOCK):
            part = np.matmul(a[..., i : i + BLOCK], b[..., i : i + BLOCK, :])
            out = self.reduce(out + self.reduce(part))
        return out

    def fingerprint(self, x: Array) -> tuple[Any, ...]:
        """Return shape and elements, or a digest of them."""
        if x.size <= 64:
            return (x.shape, *x.reshape(-1).tolist())
        return x.shape, hashlib.blake2b(x.astype(np.int32, order="C").data).digest()

    def image(self, array: Array) -> Array:
        """Return the residues of an array's exact values."""
        if array.dtype == object:
            return np.array([self.scalar(v) for v in array.flat], np.float64).reshape(array.shape)
        if array.dtype.kind in "iub":
            wide = array.dtype.itemsize > 2
            return self.reduce((array % array.dtype.type(self.p) if wide else array).astype(np.float64))
        odd = ~np.isfinite(array)
        mantissa, e = np.frexp(np.where(odd, 0, array).astype(np.float64))
        high = np.floor(np.ldexp(mantissa, 26))
        low = np.ldexp(mantissa, 53) - high * 2**27
        r = self.mul(self.reduce(high), 2**27 % self.p) + self.reduce(low)
        r = self.mul(r, self.scales[e + 1100])
        if odd.any():
            names = np.where(np.isnan(array), self.number("nan") % 1000003, self.number("inf") % 1000003)
            r = self.reduce(np.where(odd, np.where(array < 0, -1, 1) * names, r))
        return r

    @cached_property
    def scales(self) -> Array:
        """The residues of 2**(e - 53), for e from -1100."""
        return np.array([self.scalar(Fraction(2) ** (e - 53)) for e in range(-1100, 1100)], np.float64)


# -- terms -------------------------------------------------------------------------------------------------


class Val:
    """A tensor as a term: a function, operands that are terms, and parameters. Equal terms have one id.

    Its residues are worked out when they are wanted. What is known before any input, as whole numbers, truth
    values or a few fractions, is `exact` as well.
    """

    __slots__ = "__weakref__ const exact held id key name odd params parts run shape".split()  # noqa: SIM905

    def __init__(
        self, run: Run, key: Any, name: str, shape: Shape, parts: Any, params: Any, exact: Any
    ) -> None:
        self.run, self.key, self.name, self.shape = run, key, name, shape
        self.parts: tuple[Val, ...] = tuple(parts)
        self.params: tuple[Any, ...] = params
        self.exact: Array | None = exact
        self.held: Array | None = None
        self.const = name != "drawn" and all(p.const for p in parts)
        curved = name in ("odd", "even", "zero", "positive") or (name == "any" and params[0] not in ODDLY)
        self.odd = not curved and any(p.odd for p in parts)  # made of NaN or infinity
        self.id: int = run.ids.setdefault(key, len(run.ids))

    @property
    def residues(self) -> Array:
        stack = [self]
        while self.held is None:
            val = stack[-1]
            missing = [p for p in val.parts if p.held is None]
            stack += missing
            if not missing:
                stack.pop()
                val.work()
        return self.held

    def work(self) -> None:
        """Work the residues out of those of the operands, which are let go."""
        if self.held is not None:
            return
        self.run.check.require_time()
        f = self.run.field
        by_zero = self.name == "inverse" and self.const and not np.all(self.parts[0].residues)
        need(not by_zero, "a division by 0")
        with np.errstate(all="ignore"):
            given = (f, *[p.held for p in self.parts], *self.params)
            held = f.image(self.exact) if self.exact is not None else FUNCTIONS[self.name](*given)
        need(held.shape == self.shape, f"a value of shape {list(held.shape)} for {list(self.shape)}")
        self.held, self.parts = held, self.parts if self.name == "pad" else ()  # a pool looks through a pad
        self.run.hold(self)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def is_all(self, n: int) -> bool:
        """Whether every element is known to be a number, or is in this field."""
        there = self.exact if self.exact is not None or self.size > MOST_SMALL else self.held
        return there is not None and self.const and self.size > 0 and bool((there == n).all())

    def is_lowest(self) -> bool:
        """Whether it is the constant -infinity."""
        loaded = self.odd and self.name == "loaded"
        return loaded and bool((self.params[0].load(self.params[1]) == -np.inf).all())

    def made_by(self, *names: str) -> bool:
        """Whether it is the term of a function that is not worked out yet."""
        return self.name in names and len(self.parts) > 0

    def __add__(self, other: Val | Number) -> Val:
        return add(self, self.run.val(other))

    def __mul__(self, other: Val | Number) -> Val:
        return multiply(self, self.run.val(other))

    def __sub__(self, other: Val | Number) -> Val:
        return self + -self.run.val(other)

    def __rsub__(self, other: Number) -> Val:
        return -self + other

    def __neg__(self) -> Val:
        return self * -1

    def __truediv__(self, other: Val | Number) -> Val:
        return self * inverse(self.run.val(other))

    def __rtruediv__(self, other: Number) -> Val:
        return inverse(self) * other

    __radd__, __rmul__ = __add__, __mul__

    def to(self, name: str, shape: Shape, *params: Any) -> Val:
        """Return the term of a function of this one alone; that of an expansion is expanded."""
        if name in POINTWISE and self.made_by("expand"):
            return self.parts[0].to(name, self.parts[0].shape, *params).expand(*shape)
        return self.run.term(name, shape, (self,), *params)

    def reshape(self, *shape: int) -> Val:
        need(math.prod(shape) == self.size, f"{list(self.shape)} cannot have the shape {list(shape)}")
        if shape == self.shape:
            return self
        x = self.parts[0] if self.made_by("reshape") else self
        return x if shape == x.shape else x.to("reshape", shape, shape)

    def transpose(self, *perm: int) -> Val:
        need(sorted(perm) == list(range(self.rank)), f"{list(perm)} orders no {self.rank} axes")
        if self.made_by("transpose"):
            return self.parts[0].transpose(*[self.params[0][i] for i in perm])
        same = perm == tuple(range(self.rank))
        return self if same else self.to("transpose", tuple(self.shape[i] for i in perm), perm)

    def move_axis(self, start: int, end: int) -> Val:
        order = [i for i in range(self.rank) if i != start % self.rank]
        order.insert(end % self.rank, start % self.rank)
        return self.transpose(*order)

    def cut(self, axis: int, start: int | None, stop: int | None, step: int = 1) -> Val:
        """Take a slice along an axis."""
        there, offset = range(self.shape[axis])[start:stop:step], 0
        for part in self.parts if self.made_by("join") and self.params[0] == axis and step > 0 else ():
            if offset <= there.start <= there.stop <= offset + part.shape[axis]:
                return part.cut(axis, there.start - offset, there.stop - offset, step)
            offset += part.shape[axis]
        shape = (*self.shape[:axis], len(there), *self.shape[axis + 1 :])
        same = shape == self.shape and step == 1
        return self if same else self.to("cut", shape, axis, start, stop, step)

    def expand(self, *shape: int) -> Val:
        x, wide = self.parts[0] if self.made_by("expand") else self, broadcast(self.shape, shape)
        return self if wide == self.shape else x.to("expand", wide, wide)

    def take(self, index: Array, axis: int) -> Val:
        shape = (*self.shape[:axis], *index.shape, *self.shape[axis + 1 :])
        if index.size == 1:
            return self.cut(axis, int(index.item()), int(index.item()) + 1).reshape(*shape)
        return self.to("take", shape, Table(index), axis)

    def without(self, axes: Sequence[int]) -> Val:
        """Drop axes of one element."""
        return self.reshape(*[d for i, d in enumerate(self.shape) if i not in axes])


class Table:
    """An array of indices or truth values as the parameter of a term."""

    def __init__(self, array: Array) -> None:
        self.array = array = np.array(array, order="C")
        digest = hashlib.blake2b(array.data if array.size else b"").digest()
        self.digest = (array.shape, array.dtype.str, digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.digest == other.digest


def broadcast(*shapes: Shape) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise Unsupported(f"operands of shapes {shapes} do not broadcast") from error


def room(shape: Sequence[int]) -> None:
    """Refuse what would take more memory than the checker may use, before it is allocated."""
    fine = len(shape) <= MOST_RANK and all(d >= 0 for d in shape) and math.prod(shape) <= MOST_HELD
    need(fine, f"a tensor of shape {[int(d) for d in shape]} is larger than this check may hold")


def axis_of(axis: int, rank: int) -> int:
    need(-rank <= axis < max(rank, 1), f"axis {axis} of a tensor of rank {rank}")
    return axis % rank if rank else 0


def mapped(function: Callable[[Any], Any], array: Array) -> Array:
    """Apply a function to each number of an array."""
    out = np.empty(array.size, object)
    out[:] = [function(v) for v in array.reshape(-1).tolist()]
    return out.reshape(array.shape)


def plain(array: Array) -> Array:
    """Return int64 where the numbers of an object array are whole and small enough."""
    if array.dtype == object and all(Fraction(v).denominator == 1 and abs(v) < 1 << 62 for v in array.flat):
        return mapped(int, array).astype(np.int64)
    return array


def known(val: Val) -> Array | None:
    """Return exact values, where they are few enough for arithmetic."""
    few = val.exact is not None and val.size <= (MOST_FRACTIONS if val.exact.dtype == object else MOST_EXACT)
    return val.exact if few else None


def must_know(val: Val) -> Array:
    found = known(val)
    if found is None:
        raise Unsupported("an operand depends on data")
    return found


def exactly(name: str, shape: Shape, vals: Sequence[Val], params: Sequence[Any]) -> Array | None:
    """Return a function of exact numbers; None where one is not exact, or the numbers get too large."""
    if name in MOVING and math.prod(shape) <= MOST_EXACT:
        given = [v.exact for v in vals]
        return None if any(a is None for a in given) else FUNCTIONS[name](None, *given, *params)
    name, params = (params[0], ()) if name in ("odd", "any") else (name, params)
    arrays = [a for a in map(known, vals) if a is not None] if name in OF_NUMBERS else []
    if len(arrays) < len(vals) or not vals:
        return None
    arrays = [a.astype(np.int64) if a.dtype == bool else a for a in arrays]
    small = all(a.dtype != object and bool((np.abs(a) < 1 << 30).all()) for a in arrays)
    if math.prod(broadcast(*[a.shape for a in arrays])) > (MOST_EXACT if small else MOST_FRACTIONS):
        return None
    try:
        found = OF_NUMBERS[name](*[a if small else mapped(Fraction, a) for a in arrays], *params)
        return None if found is None else np.asarray(found)
    except (ZeroDivisionError, OverflowError, TypeError):
        return None


def divisor(y: Array) -> Array:
    if (y == 0).any():
        raise ZeroDivisionError
    return y


def rounding(function: Callable[[Any], int]) -> Callable[[Array], Array]:
    return lambda x: mapped(function, x) if x.dtype == object else x


OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "inverse": lambda x: mapped(Fraction, x) ** -1 if x.size <= MOST_FRACTIONS else None,
    "power": lambda x, n: x**n if n < 9 and (np.abs(x) <= 64).all() else None,
    "relu": lambda x: np.maximum(x, 0),
    "zero": lambda x: x == 0,
    "positive": lambda x: x > 0,
    "total": lambda x, axes: np.sum(x, axis=axes, keepdims=True),
    "bag": lambda x, axes: np.max(x, axis=axes, keepdims=True),
    "cumulated": np.cumsum,
    "Sign": lambda x: (x > 0) * 1 - (x < 0) * 1,
    "Floor": rounding(math.floor),
    "Ceil": rounding(math.ceil),
    "Round": rounding(round),
    "IntegerDiv": lambda x, y: np.sign(x) * np.sign(y) * (abs(x) // abs(divisor(y))),
    "Mod 0": lambda x, y: np.mod(x, divisor(y)),
    "Mod 1": lambda x, y: np.fmod(x, divisor(y)),
}
"""Functions of terms whose operands are exact numbers: of arrays of small whole numbers or fractions."""
MOVING = {"cut", "expand", "join", "pad", "reshape", "select", "take", "transpose"}
"""Functions that only move elements, of whatever kind they are."""
POINTWISE = {"inverse", "power", "root", "relu", "zero", "positive", "odd", "even", "any"}
SUMS = {"convolved", "cumulated", "matmul", "total"}
ODDLY = ("infinite add", "infinite multiply")
"""Sums and products with NaN or infinity: functions, as infinity less infinity is not 0; so are `SUMS`."""


def broadcasting(vals: Sequence[Val]) -> tuple[Shape, list[Val]]:
    """Return the shape to which terms broadcast, and the terms without expansions that this makes."""
    shape, slim = broadcast(*[v.shape for v in vals]), list(vals)
    for i, v in enumerate(vals):
        rest = [w.shape for w in slim[:i] + slim[i + 1 :]]
        if v.made_by("expand") and broadcast(v.parts[0].shape, *rest) == shape:
            slim[i] = v.parts[0]
    return shape, slim


def add(a: Val, b: Val) -> Val:
    """Add terms; constant ones are gathered: (x + c) + d is x + (c + d)."""
    if a.odd or b.odd:
        return curve(ODDLY[0], *sorted((a, b), key=lambda v: v.id))
    shape, both = broadcasting((a, b))
    a, b = sorted(both, key=lambda v: (v.const, v.id))
    if b.const and shape == a.shape:
        if b.is_all(0):
            return a
        if a.made_by("add") and a.parts[1].const:
            return a.parts[0] + (a.parts[1] + b)
    return a.run.term("add", shape, (a, b))


def multiply(a: Val, b: Val) -> Val:
    """Multiply terms; constant factors are gathered, and one for each channel goes into a constant weight.

    A layer with its normalisation, and the layer that it was folded into, are one term by that.
    """
    if a.odd or b.odd:
        return curve(ODDLY[1], *sorted((a, b), key=lambda v: v.id))
    shape, both = broadcasting((a, b))
    a, b = sorted(both, key=lambda v: (v.const, v.id))
    if b.const and shape == a.shape:
        if b.is_all(1):
            return a
        if a.made_by("mul", "add") and a.parts[1].const:
            x, c = a.parts
            return x * (c * b) if a.name == "mul" else x * b + c * b
        if a.made_by("convolved", "matmul") and a.parts[1].const:
            (x, weight), conv = a.parts, a.name == "convolved"
            along = [i for i, d in enumerate((1,) * (a.rank - b.rank) + b.shape) if d != 1]
            if along in ([], [1 if conv else a.rank - 1]) and (conv or weight.rank == 2):
                factor = b.reshape(b.size, *[1] * (weight.rank - 1 if conv else 0))
                return a.run.term(a.name, shape, (x, weight * factor), *a.params)
    return a.run.term("mul", shape, (a, b))


def inverse(x: Val) -> Val:
    return x.to("inverse", x.shape)


def power(x: Val, n: int) -> Val:
    x = x if n >= 0 else inverse(x)
    return x if abs(n) == 1 else x.to("power", x.shape, abs(n))


def root(x: Val) -> Val:
    """The root; that of a number that is known, or of such a root, is the field's."""
    number = known(x)
    plain = x.params[0] if x.name == "root" else number is not None and bool((number >= 0).all())
    return x.to("root", x.shape, plain)


def curve(name: str, *xs: Val) -> Val:
    """Return an uninterpreted function of the elements at one place."""
    kind, (shape, vals) = "odd" if name in ODD else "even" if name in EVEN else "any", broadcasting(xs)
    return vals[0].to(kind, shape, name) if len(xs) == 1 else xs[0].run.term(kind, shape, vals, name)


exp, log = partial(curve, "Exp"), partial(curve, "Log")


def absolute(x: Val) -> Val:
    return x * curve("Sign", x)


def relu(x: Val) -> Val:
    """(x + |x|) / 2, for an |x| that is x times its sign, an uninterpreted odd function."""
    return x.to("relu", x.shape)


def maximum(a: Val, b: Val | int) -> Val:
    b = a.run.val(b)
    return b + relu(a - b)


def minimum(a: Val, b: Val | int) -> Val:
    return a - relu(a - b)


def clamp(x: Val, low: Val | int | None, high: Val | int | None) -> Val:
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


def leaky(x: Val, slope: Any) -> Val:
    return relu(x) + (x - relu(x)) * slope


def elu(x: Val, alpha: Number = 1, inner: Number = 1) -> Val:
    return relu(x) + (exp(minimum(x, 0) * inner) - exp(x.run.number(0))) * alpha


def sigmoid(x: Val) -> Val:
    """An uninterpreted s with s(x) + s(-x) = 1; by the axiom "sigmoid-exp", 1 / (1 + exp(-x))."""
    if x.run.uses("sigmoid-exp"):
        return 1 / (1 + exp(-x))
    return (1 + curve("Tanh half", x)) * Fraction(1, 2)


def tanh(x: Val) -> Val:
    return 2 * sigmoid(2 * x) - 1


def is_zero(d: Val) -> Val:
    """Whether a number is 0: uninterpreted, of both signs alike, and 1 at 0."""
    return d.to("zero", d.shape)


def less(x: Val, y: Val) -> Val:
    d = y - x
    return d.to("positive", d.shape)


def select(c: Val, x: Val, y: Val) -> Val:
    """Return x where c holds, y elsewhere."""
    mask, shape = known(c), broadcast(c.shape, x.shape, y.shape)
    if mask is None:
        return y + c * (x - y)
    if mask.all() or not mask.any():
        return (x if mask.any() else y).expand(*shape)
    both, table = (x.expand(*shape), y.expand(*shape)), Table(np.broadcast_to(mask != 0, shape))
    return c.run.term("select", shape, both, table)


def kept(x: Val, axes: Sequence[int]) -> Shape:
    """Return a shape in which axes that are reduced are 1."""
    return tuple(1 if i in axes else d for i, d in enumerate(x.shape))


def total(x: Val, axes: Shape) -> Val:
    """Sum along axes, which are kept."""
    return x.to("total", kept(x, axes), axes) if axes else x


def mean(x: Val, axes: Shape) -> Val:
    return total(x, axes) * Fraction(1, max(1, math.prod(x.shape[i] for i in axes)))


def spatial(x: Val) -> Shape:
    return tuple(range(2, x.rank))


def greatest(x: Val, axes: Shape) -> Val:
    """The maximum along axes, as a function of the multiset of the elements; of two, as `maximum`."""
    wide = [i for i in axes if x.shape[i] != 1]
    need(all(x.shape[i] for i in axes), "the maximum of nothing")
    if [x.shape[i] for i in wide] == [2]:
        return maximum(x.cut(wide[0], 0, 1), x.cut(wide[0], 1, 2))
    return x.to("bag", kept(x, axes), axes) if wide else x


def product(x: Val, axes: Shape) -> Val:
    need(all(x.shape[i] <= MOST_STEPS for i in axes), "a product of that many factors")
    for i in axes:
        x = reduce(
            operator.mul,
            [x.cut(i, k, k + 1) for k in range(x.shape[i])] or [x.run.number(np.ones(kept(x, (i,)), int))],
        )
    return x


def shift(x: Val, axes: Shape) -> Val:
    """Return the number that a softmax takes off: the maximum, or by the axiom "softmax-shift" the mean."""
    return mean(x, axes) if x.run.uses("softmax-shift") else greatest(x, axes)


def log_sum_exp(x: Val, axes: Shape) -> Val:
    c = shift(x, axes)
    return log(total(exp(x - c), axes)) + c


def standardise(x: Val, axes: Shape, epsilon: Number, *, centre: bool = True) -> list[Val]:
    """Return (x - mean) / sqrt(var + epsilon), the mean and 1 / sqrt(...)."""
    middle = mean(x, axes)
    x = x - middle if centre else x
    scale = inverse(root(mean(power(x, 2), axes) + epsilon))
    return [x * scale, middle, scale]


def matmul(a: Val, b: Val) -> Val:
    if a.rank == 1:
        return (out := matmul(a.reshape(1, a.size), b)).without([out.rank - 2])
    if b.rank == 1:
        return (out := matmul(a, b.reshape(b.size, 1))).without([out.rank - 1])
    need(min(a.rank, b.rank) and a.shape[-1] == b.shape[-2], f"{list(a.shape)} times {list(b.shape)}")
    shape = (*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    return a.run.term("matmul", shape, (a, b))


def join(vals: Sequence[Val], axis: int) -> Val:
    first, n = vals[0], sum(v.shape[axis] for v in vals)
    shapes = {(*v.shape[:axis], n, *v.shape[axis + 1 :]) for v in vals}
    need(len(shapes) == 1, f"operands of shapes {[v.shape for v in vals]}")
    return first if len(vals) == 1 else first.run.term("join", shapes.pop(), vals, axis)


def pad(x: Val, pads: Sequence[tuple[int, int]], fill: Val | None = None) -> Val:
    """Put a number, or 0, around it; what is negative cuts."""
    for i, (b, e) in enumerate(pads):
        x = x.cut(i, max(-b, 0), x.shape[i] - max(-e, 0))
    pads = tuple((max(b, 0), max(e, 0)) for b, e in pads)
    shape = tuple(d + b + e for d, (b, e) in zip(x.shape, pads, strict=True))
    fill = x.run.number(0) if fill is None else fill.reshape()
    return x if shape == x.shape else x.run.term("pad", shape, (x, fill), pads)


def channels(v: Val, rank: int, axis: int = 1) -> Val:
    """Give a vector the rank of a tensor, along whose axis it counts; a scalar stays."""
    if v.size == 1:
        return v.reshape()
    return v.reshape(*[v.size if i == axis_of(axis, rank) else 1 for i in range(rank)])


class Window(NamedTuple):
    """The windows of a convolution or a pool."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape
    out: Shape


WINDOW = {
    "kernel_shape": Ints, "strides": Ints, "dilations": Ints, "pads": Ints, "auto_pad": str, "ceil_mode": int,
}  # fmt: skip


def windows(
    size: Shape, kernel_shape: Any, strides=None, dilations=None, pads=None, auto_pad="NOTSET", ceil_mode=0
) -> Window:
    kernel, n = kernel_shape, len(kernel_shape)
    strides, dilations, pads = strides or [1] * n, dilations or [1] * n, pads or [0] * 2 * n
    fine = len(size) == len(strides) == len(dilations) == n and len(pads) == 2 * n > 0
    fine = fine and min(*kernel, *strides, *dilations, min(pads) + 1) > 0
    need(fine, "kernel, strides, dilations and pads do not fit")
    before, after, out = pads[:n], pads[n:], [0] * n
    for i in range(n):
        reach = (kernel[i] - 1) * dilations[i] + 1
        if auto_pad.startswith("SAME"):
            more = max(0, (-(-size[i] // strides[i]) - 1) * strides[i] + reach - size[i])
            before[i], after[i] = sorted((more // 2, more - more // 2), reverse=auto_pad != "SAME_UPPER")
        elif auto_pad == "VALID":
            before[i] = after[i] = 0
        left = size[i] + before[i] + after[i] - reach
        need(left > (-strides[i] if ceil_mode else -1), f"a window of {reach} along an axis of {size[i]}")
        count = -(-left // strides[i]) if ceil_mode else left // strides[i]
        out[i] = count + (0 if ceil_mode and count * strides[i] >= size[i] + before[i] else 1)
    return Window(*(tuple(v) for v in (kernel, strides, dilations, before, after, out)))


def convolve(x: Val, weight: Val, w: Window, group: int) -> Val:
    fine = group > 0 and x.shape[1] == weight.shape[1] * group and weight.shape[0] % group == 0
    need(fine, f"{x.shape[1]} channels and weights {list(weight.shape)} in {group} groups")
    shape = (x.shape[0], weight.shape[0], *w.out)
    return x.run.term("convolved", shape, (x, weight), w, group)


# The functions of terms: of the field, of arrays of residues (those that move elements: of any arrays), of
# parameters. Whatever changes a result is an operand or a parameter, as they make the identity of the term.


def scatter_array(f: Field, x: Array, updates: Array, at: Table, add_up: bool) -> Array:
    out = x.copy()
    if add_up:
        np.add.at(out, at.array, updates)
    else:
        out[at.array] = updates
    return f.reduce(out)


def top(f: Field, x: Array, k: int, name: str, ordered: bool) -> Array:
    """Return k functions of a line's elements: of their sequence, or of their multiset."""
    bits = f.sequence("TopK", x) if ordered else f.hash("max", x).sum(-1, dtype=np.uint64)
    rows = [f.residues(mix(bits + f.key(f"{name} {i}"))) for i in range(k)]
    return np.stack(rows, -1) if k else np.zeros((*bits.shape, 0))


def views(x: Array, w: Window) -> Iterator[Array]:
    """Yield for each place in the kernel the strided view of the padded input that it meets."""
    n = len(w.kernel)
    more = [(0, 0)] * (x.ndim - n)
    for i, d in enumerate(x.shape[x.ndim - n :]):
        reach = (w.out[i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1
        more.append((w.before[i], max(0, reach - d - w.before[i])))
    x = np.pad(x, more) if any(map(any, more)) else x
    for place in np.ndindex(*w.kernel):
        first = [p * d for p, d in zip(place, w.dilations, strict=True)]
        ends = [f + (o - 1) * s + 1 for f, o, s in zip(first, w.out, w.strides, strict=True)]
        yield x[(..., *(slice(*i) for i in zip(first, ends, w.strides, strict=True)))]


def window_max(f: Field, x: Array, w: Window) -> Array:
    """The maximum of each window as a function of the multiset of its elements, padding left out."""
    bits = np.zeros((*x.shape[: -len(w.kernel)], *w.out), np.uint64)
    for view in views(f.hash("max", x), w):
        bits += view
    inside = sum(views(np.ones(x.shape[-len(w.kernel) :]), w), np.zeros(w.out))
    need(np.min(inside) > 0, "a window of padding alone")
    return f.residues(mix(bits))


def convolved(f: Field, x: Array, weight: Array, w: Window, group: int) -> Array:
    """Sum products over channels and places, a group of at most 2,048 at a time."""
    n, c = x.shape[:2]
    o, cg = weight.shape[:2]
    places, area, met = math.prod(w.kernel), math.prod(w.out), list(views(x, w))
    out = np.zeros((n, group, o // group, area))
    flat = np.ascontiguousarray(weight.reshape(group, o // group, cg, places).swapaxes(2, 3))
    at_once = max(1, min(places, BLOCK // cg))
    images = max(1, min(n, (1 << 22) // max(1, at_once * c * area)))
    for here in (slice(i, min(n, i + images)) for i in range(0, n, images)):
        for i in range(0, places, at_once):
            columns = np.stack([v[here].reshape(-1, group, cg, area) for v in met[i : i + at_once]], 2)
            kernel = flat[:, :, i : i + at_once].reshape(1, group, o // group, -1)
            part = f.matmul(kernel, columns.reshape(len(columns), group, -1, area))
            out[here] = f.reduce(part + out[here]) if i else part
    return out.reshape(n, o, *w.out)


def bag(f: Field, x: Array, axes: Shape) -> Array:
    return f.residues(mix(f.hash("max", x).sum(axis=axes, keepdims=True, dtype=np.uint64)))


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "drawn": lambda f, *params: f.random(repr(params[:-1]), params[-1]),
    "loaded": lambda f, tensors, name, kind: f.image(tensors.load(name).astype(kind, copy=False)),
    "reshape": lambda _, x, shape: x.reshape(shape),
    "transpose": lambda _, x, perm: np.ascontiguousarray(x.transpose(perm)),
    "cut": lambda _, x, axis, *ends: np.ascontiguousarray(x[(slice(None),) * axis + (slice(*ends),)]),
    "expand": lambda _, x, shape: np.broadcast_to(x, shape).copy(),
    "take": lambda _, x, index, axis: np.take(x, index.array, axis),
    "join": lambda _, *given: np.concatenate(given[:-1], given[-1]),
    "pad": lambda _, x, fill, pads: np.pad(
        x.astype(np.result_type(x, fill), copy=False), pads, constant_values=fill
    ),
    "select": lambda _, x, y, mask: np.where(mask.array, x, y),
    "scatter": scatter_array,
    "add": lambda f, a, b: f.reduce(np.add(a, b)),
    "mul": lambda f, a, b: f.mul(a, b),
    "inverse": lambda f, a: f.inverse(a),
    "relu": lambda f, x: f.relu(x),
    "power": lambda f, a, n: f.power(a, n),
    "root": lambda f, a, number: f.root(a, number),
    "any": lambda f, *given: f.function(given[-1], *np.broadcast_arrays(*given[:-1])),
    "odd": lambda f, x, name: np.sign(x) * f.function(name, np.abs(x)),
    "even": lambda f, x, name: f.function(name, np.abs(x)),
    "zero": lambda f, d: np.where(d == 0, 1.0, f.function("Equal", np.abs(d))),
    "positive": lambda f, d: np.where(d == 0, 0.0, f.function("Positive", d)),
    "total": lambda f, x, axes: f.reduce(np.sum(x, axis=axes, keepdims=True)),
    "cumulated": lambda f, x, axis: f.reduce(np.cumsum(x, axis)),
    "whole": lambda f, *given: f.random(f"{given[-2]} {[f.fingerprint(x) for x in given[:-2]]}", given[-1]),
    "bag": bag,
    "line": lambda f, x, name: f.residues(f.sequence(name, x)),
    "top": top,
    "matmul": lambda f, a, b: f.matmul(a, b),
    "window max": window_max,
    "convolved": convolved,
}
ODD = {"Sin", "Tan", "Asin", "Atan", "Sinh", "Asinh", "Atanh", "Erf", "Sign", "Tanh half"}
EVEN = {"Cos", "Cosh"}


# -- operators ---------------------------------------------------------------------------------------------

# How an operator is added: a method of `Operators` named as it is, or a row of OPS where one line says it.
# Its operands are the parameters before `*`, its attributes those behind it, by their names in ONNX. One with
# a default may be missing; an operand that older versions have as an attribute may come as that. The kind of
# a parameter is that of its name in KINDS, else that of its default, else a term, `Val`. Where numbers of an
# operand (`Ints`) are not known before any input, or an attribute is not in the signature, the operator is
# "tested". The result is a Val, or a list of one for each output, of the first operand's type, or a pair
# (Val, type) of another. Compute with terms alone (+ - * /, and `curve` for a function that is no
# polynomial): sharing, exact numbers and broadcasting follow. A new function of arrays is a row of FUNCTIONS.
# A row in tests/verification/test_certificate_semantics.py compares the operator with ONNX's reference.

_KINDS: dict[Any, str] = {
    Ints: "axes shape perm split repeats starts ends steps pads k sizes depth output_padding output_shape"
    " lengths training",
    int: "output_dtype axis end to dtype blocksize num_groups size",
    list[Fraction]: "first limit delta scales",
    Graph: "then_branch else_branch body",
    object: "value seed saturate round_mode activations activation_alpha activation_beta clip",
}
KINDS = {name: kind for kind, names in _KINDS.items() for name in names.split()}
NARROW = ("int8", "uint8", "int16", "uint16", "uint32", "uint64")
# fmt: off
WRAPPING = {
    "Abs", "Add", "CumSum", "Div", "Einsum", "Gemm", "MatMul", "Mul", "Neg", "Pow", "ReduceL1", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "Sub", "Sum",
}
"""Operators whose results may not fit into a narrow type, or into one without signs."""
FRACTIONS = {
    "AveragePool", "Gemm", "Mean", "Pow", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean",
    "Resize",
}
# fmt: on
"""Operators that may give fractions, which whole numbers cut off."""
Typed = tuple[Val, str]


@cache
def parameters(function: Callable[..., Any]) -> list[tuple[str, inspect.Parameter, Any]]:
    rows = inspect.signature(function).parameters.items()
    return [(n, p, KINDS.get(n, Val if p.default in (None, p.empty) else type(p.default))) for n, p in rows]


def indices(i: Val, n: int) -> Array:
    """Return known indices as they are in 0...n-1."""
    need(i.exact is not None and i.exact.dtype != object, "indices depend on data")
    found = np.asarray(i.exact, np.int64)
    need(not found.size or (found.min() >= -n and found.max() < n), f"an index outside of {n} elements")
    return np.where(found < 0, found + n, found)


def selectors(i: Val, n: int) -> Val:
    """Return for each index and each place whether it is the place, as an uninterpreted truth value.

    An index below 0 counts from the end, so that a place is met by two numbers.
    """
    i, places = i.reshape(*i.shape, 1), np.arange(n)
    return is_zero(i - i.run.number(places)) + is_zero(i - i.run.number(places - n))


def flat_places(shape: Shape, index: Sequence[Array]) -> Array:
    """Return the places of elements in a flat tensor by their indices along the first axes."""
    return np.ravel_multi_index(tuple(np.broadcast_arrays(*index)), shape[: len(index)])


def places_along(i: Val, shape: Shape, axis: int) -> Array:
    """Return the places that indices along one axis name, as GatherElements and ScatterElements have them."""
    grid = list(np.indices(i.shape, sparse=True))
    grid[axis] = indices(i, shape[axis])
    return flat_places(shape, grid)


def places_nd(shape: Shape, i: Val, batch: int = 0) -> tuple[Array, int]:
    """Return the places that the last axis of indices names, and along how many axes."""
    index = list(np.indices(i.shape[:-1], sparse=True)[:batch])
    for k in range(i.shape[-1]):
        index.append(indices(i.cut(i.rank - 1, k, k + 1).without([i.rank - 1]), shape[batch + k]))
    return flat_places(shape, index), len(index)


def recurrent(x: Val, _: Any, state: Val, *__: Any, layout: int = 0, **___: Any) -> list[Shape]:
    need(not layout and x.rank == state.rank == 3, "batches first")
    last = (state.shape[0], x.shape[1], state.shape[2])
    return [(x.shape[0], *last), last, last]


WHOLE: dict[str, Callable[..., list[Shape]]] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    "GridSample": lambda x, grid, **_: [(*x.shape[:2], *grid.shape[1:-1])],
    "RoiAlign": lambda x, rois, _, *, output_height=1, output_width=1, **__: [
        (rois.shape[0], x.shape[1], output_height, output_width)
    ],
}
"""Functions of their whole operands, equal on equal ones; by the shapes of what comes out."""
ZEROS: dict[str, Shape] = dict.fromkeys(("LSTM", "GRU", "RNN"), (3, 5, 6, 7))
"""Operands that are zeros where they are missing."""


def scatter(x: Val, at: Array, updates: Val, depth: int, reduction: str) -> Val:
    """Put updates into places along the first axes, or add them."""
    need(reduction in ("none", "add"), f"the reduction {reduction}")
    if reduction == "add":
        need(not (x.odd or updates.odd), "sums of infinity")
    else:
        need(len(np.unique(at)) == at.size, "two updates of one element")
    flat = x.reshape(math.prod(x.shape[:depth]), *x.shape[depth:])
    rows, table = updates.reshape(at.size, *x.shape[depth:]), Table(at.reshape(-1))
    return x.run.term("scatter", flat.shape, (flat, rows), table, reduction == "add").reshape(*x.shape)


def cast(x: Val, old: str, new: str) -> Typed:
    """Cast: no whole number is taken to overflow 32 bits, and a float of fewer digits is a function."""
    need(new in SIZES, f"a cast to {new}")
    exact = known(x)
    if new in FLOATS:
        small = exact is not None and bool((np.abs(exact * 1) <= 256).all()) and exact.dtype != object
        holds = SIZES[new] > 2 and old != "float64" if SIZES[old] > 1 else True
        if small or old == new or holds or new == "float64":
            return x, new
        if new != "bfloat16" and x.name == "loaded":
            with np.errstate(all="ignore"):
                array = x.params[0].load(x.params[1]).astype(new)
            val = x.run.term("loaded", x.shape, (), *x.params[:2], new)
            val.odd = not np.isfinite(array).all()
            return val, new
        if new == "bfloat16" or exact is None:
            return curve(f"round to {new}", x), new
        return x.run.number(mapped(Fraction, exact.astype(np.float64).astype(new))), new
    if new == "bool":
        return x if old == "bool" else 1 - is_zero(x), new
    whole = plain(mapped(math.trunc, exact)) if exact is not None and exact.dtype == object else exact
    if whole is not None and whole.dtype != object and np.array_equal(whole.astype(new), whole):
        return x.run.number(whole), new
    wide = old == "bool" or (old not in FLOATS and new in ("int32", "int64"))
    return x if wide and whole is None else curve(f"cast to {new}", x), new


def coordinate(mode: str, i: int, n: int, size: int, scale: Fraction) -> Fraction:
    half = Fraction(1, 2)
    if mode == "align_corners":
        return Fraction(i * (n - 1), max(size - 1, 1))
    if mode == "asymmetric":
        return i / scale
    need(mode in ("half_pixel", "pytorch_half_pixel"), f"the coordinates {mode}")
    return (i + half) / scale - half if mode == "half_pixel" or size > 1 else Fraction(0)


def weights_at(c: Fraction, n: int, a: Fraction | None) -> list[Fraction]:
    """Return the weight of each of n elements at a coordinate: linear, or cubic of a coefficient."""
    row = [Fraction(0)] * n
    c = c if a is not None else min(max(c, Fraction(0)), Fraction(n - 1))
    low = math.floor(c)
    for k in range(low - 1, low + 3):
        d = abs(c - k)
        w = max(1 - d, Fraction(0))
        if a is not None:
            w = (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4) * (d < 2)
        row[min(max(k, 0), n - 1)] += w
    return row


@dataclass
class Operators:
    """One application of an operator; ONNX's operators are a method each, named as they are."""

    run: Run
    node: Node
    vals: list[Typed | None]

    def type_of(self, i: int) -> str:
        val = self.vals[i] if i < len(self.vals) else None
        return "" if val is None else val[1]

    def captured(self) -> list[Typed | None]:
        return self.vals[len(self.node.ins) :]

    def results(self) -> list[Typed | None]:
        """Bind operands and attributes to the parameters of the operator's function, and call it."""
        found = OPS.get(self.node.op)
        need(found, "this checker has no semantics of it")
        assert found is not None
        attrs = {k: v for k, v in self.node.attrs.items() if k != "stash_type"}
        if self.node.op in WHOLE:
            shapes = found(*[v and v[0] for v in self.vals], **attrs)[: len(self.node.outs)]
            return [(self.whole(shape, i), self.type_of(0)) for i, shape in enumerate(shapes)]
        operands, args, named = list(self.vals[: len(self.node.ins)]), [], {}
        for name, p, kind in parameters(found):
            if name == "self":
                args.append(self)
            elif p.kind is p.VAR_POSITIONAL:
                args += [v[0] for v in operands if v is not None]
                operands = []
            elif p.kind is p.VAR_KEYWORD:
                there = [(n, k, attrs.pop(n)) for n, k in WINDOW.items() if n in attrs]
                named.update((n, self._attribute(n, v, k)) for n, k, v in there)
            elif p.kind is p.KEYWORD_ONLY:
                need(name in attrs or p.default is not p.empty, f"attribute `{name}` is missing")
                own = name in attrs or kind is float  # a default is a float32 too
                value = attrs.pop(name, p.default)
                named[name] = self._attribute(name, value, kind) if own else value
            else:
                val = operands.pop(0) if operands else None
                need(val or name in attrs or p.default is not p.empty, f"operand `{name}` is missing")
                if val:
                    args.append(self._operand(val[0], kind))
                else:
                    args.append(self._attribute(name, attrs.pop(name), kind) if name in attrs else p.default)
        need(not attrs, f"attribute `{min(attrs, default='')}` is not known")
        need(not any(operands), "more operands than are known")
        out = found(*args, **named)
        out = out if isinstance(out, list) else [out]
        out = [(v, self.type_of(0)) if isinstance(v, Val) else v for v in out]
        cut = self.type_of(0) not in FLOATS and self.node.op in FRACTIONS
        if cut or (self.type_of(0) in NARROW and self.node.op in WRAPPING):
            out = [v if v is None else (curve(f"wrap {v[1]}", v[0]), v[1]) for v in out]
        return out + [None] * (len(self.node.outs) - len(out))

    def whole(self, shape: Shape, place: int = 0) -> Val:
        """Return an uninterpreted function of whole operands, their types and the attributes."""
        zeros, xs = ZEROS.get(self.node.op, ()), list(self.vals)
        xs = [None if x is not None and i in zeros and x[0].is_all(0) else x for i, x in enumerate(xs)]
        while xs and xs[-1] is None:
            xs.pop()
        name = f"{self.node.op} {self.node.key} {[x and x[1] for x in xs]} {place}"
        return self.run.term("whole", shape, [x[0] for x in xs if x is not None], name, shape)

    def _operand(self, val: Val, kind: Any) -> Any:
        if kind not in (Ints, int, list[Fraction]):
            return val
        exact = must_know(val)
        need(val.size <= MOST_LIST, "an operand is too long")
        if kind == list[Fraction]:
            return list(mapped(Fraction, exact).flat)
        need(exact.dtype != object, "an operand is no whole number")
        flat = [int(v) for v in exact.flat]
        return flat if kind == Ints else flat[0]

    def _attribute(self, name: str, value: Any, kind: Any) -> Any:
        rows: list[Any] = value if isinstance(value, list) and kind in (Ints, list[Fraction]) else [value]
        if kind in (Ints, int) and all(isinstance(v, int) and abs(v) < 1 << 40 for v in rows):
            return list(rows) if kind == Ints else value
        finite = all(isinstance(v, (int, float)) and abs(v) < 3e38 for v in rows)
        if kind in (float, Val, list[Fraction]) and finite:  # ONNX holds a float in float32
            numbers = [Fraction(float(np.float32(v))) for v in rows]
            one = self.run.number(numbers[0]) if kind is Val else numbers[0]
            return numbers if kind == list[Fraction] else one
        fine = kind is object or (kind in (str, Graph) and isinstance(value, kind))
        need(fine, f"attribute `{name}` has another type")
        return value

    def Dropout(self, x: Val, ratio=None, training=(0,), *, seed=None) -> list[Any]:
        need(not any(training), "training")
        return [x, (self.run.number(1).expand(*x.shape), "bool")]

    def Reshape(self, x: Val, shape: Any, *, allowzero=0) -> Val:
        dims = [x.shape[i] if d == 0 and not allowzero and i < x.rank else d for i, d in enumerate(shape)]
        rest = math.prod(d for d in dims if d != -1)
        return x.reshape(*[x.size // max(rest, 1) if d == -1 else d for d in dims])

    def Squeeze(self, x: Val, axes=None) -> Val:
        axes = [i for i, d in enumerate(x.shape) if d == 1] if axes is None else axes
        return x.without([axis_of(a, x.rank) for a in axes])

    def Unsqueeze(self, x: Val, axes: Any) -> Val:
        shape = list(x.shape)
        for i in sorted(axis_of(a, x.rank + len(axes)) for a in axes):
            shape.insert(i, 1)
        return x.reshape(*shape)

    def Split(self, x: Val, split=None, *, axis=0, num_outputs=0) -> list[Val]:
        axis, parts = axis_of(axis, x.rank), len(self.node.outs)
        need(num_outputs in (0, parts), f"{num_outputs} parts for {parts} outputs")
        n = x.shape[axis]
        each = -(-n // parts)
        sizes = [min(each, n - i * each) for i in range(parts)] if split is None else split
        need(sum(sizes) == n and min(sizes) >= 0 and len(sizes) == parts, f"{n} does not split into {sizes}")
        return [x.cut(axis, sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(parts)]

    def Slice(self, x: Val, starts: Any, ends: Any, axes=None, steps=None) -> Val:
        axes = axes or range(len(starts))
        for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts), strict=True):
            axis = axis_of(axis, x.rank)
            n, least = x.shape[axis], -1 if step < 0 else 0
            start, end = (min(max(v + n if v < 0 else v, least), n + least) for v in (start, end))
            x = x.cut(axis, start, end if end >= 0 else None, step) if start >= 0 else x.cut(axis, 0, 0)
        return x

    def DepthToSpace(self, x: Val, *, blocksize: Any, mode="DCR") -> Val:
        (n, c, h, w), b = x.shape, blocksize
        need(b > 0 and c % (b * b) == 0, f"{c} channels in blocks of {b}")
        if mode == "DCR":
            x = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            x = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return x.reshape(n, c // b**2, h * b, w * b)

    def Pad(self, x: Val, pads: Any, fill: Val | None = None, axes=None, *, mode: Any = "constant") -> Val:
        axes = [axis_of(a, x.rank) for a in axes or range(x.rank)]
        need(len(pads) == 2 * len(axes), f"{len(pads)} pads for {len(axes)} axes")
        both = [(0, 0)] * x.rank
        for i, axis in enumerate(axes):
            both[axis] = (pads[i], pads[i + len(axes)])
        if mode == "constant":
            return pad(x, both, fill)
        fine = mode in ("reflect", "edge", "wrap") and min(pads, default=0) >= 0
        need(fine, f"Pad of mode {mode} by {pads}")
        for axis, ends in enumerate(both):
            x = x if ends == (0, 0) else x.take(np.pad(np.arange(x.shape[axis]), ends, mode), axis)
        return x

    def Tile(self, x: Val, repeats: Any) -> Val:
        for i, n in enumerate(repeats):
            x = x if n == 1 else join([x] * n, i) if 0 < n <= MOST_STEPS else x.cut(i, 0, 0)
        return x

    def ConstantOfShape(self, shape: Any, *, value: Any = None) -> Typed:
        one = self.run.leaf(value).reshape() if value else self.run.number(0)
        return one.expand(*shape), self.run.tensors.entries[value]["dtype"] if value else "float32"

    def Range(self, first: Any, limit: Any, delta: Any) -> Val:
        (start,), (stop,), (step,) = first, limit, delta
        need(step, "a step of 0")
        n = max(0, math.ceil((stop - start) / step))
        if start.denominator == step.denominator == 1:
            room([n])
            return self.run.number(int(start) + int(step) * np.arange(n))
        need(n <= MOST_LIST, "a range of that many fractions")
        return self.run.number(np.array([start + i * step for i in range(n)], object))

    def Gather(self, x: Val, i: Val, *, axis=0) -> Val:
        axis = axis_of(axis, x.rank)
        n, rank = x.shape[axis], i.rank
        if i.exact is not None:
            return x.take(indices(i, n), axis)
        table = x.move_axis(axis, 0)
        rows = matmul(selectors(i, n), table.reshape(n, x.size // max(n, 1)))
        out = rows.reshape(*i.shape, *table.shape[1:])
        return out.transpose(*range(rank, rank + axis), *range(rank), *range(rank + axis, out.rank))

    def GatherElements(self, x: Val, i: Val, *, axis=0) -> Val:
        axis = axis_of(axis, x.rank)
        if i.exact is not None:
            return x.reshape(x.size).take(places_along(i, x.shape, axis), 0)
        for k, d in enumerate(i.shape):
            x = x if k == axis else x.cut(k, 0, d)
        lines = x.move_axis(axis, -1)
        rows = matmul(selectors(i.move_axis(axis, -1), x.shape[axis]), lines.reshape(*lines.shape, 1))
        return rows.without([x.rank]).move_axis(-1, axis)

    def GatherND(self, x: Val, i: Val, *, batch_dims=0) -> Val:
        if i.exact is None:
            return self.whole((*i.shape[:-1], *x.shape[batch_dims + i.shape[-1] :]))
        at, depth = places_nd(x.shape, i, batch_dims)
        return x.reshape(math.prod(x.shape[:depth]), *x.shape[depth:]).take(at, 0)

    def ScatterND(self, x: Val, i: Val, updates: Val, *, reduction="none") -> Val:
        if i.exact is None:
            return self.whole(x.shape)
        at, depth = places_nd(x.shape, i)
        return scatter(x, at, updates, depth, reduction)

    def ScatterElements(self, x: Val, i: Val, updates: Val, *, axis=0, reduction="none") -> Val:
        if i.exact is None:
            return self.whole(x.shape)
        return scatter(x, places_along(i, x.shape, axis_of(axis, x.rank)), updates, x.rank, reduction)

    def OneHot(self, i: Val, depth: Any, values: Val, *, axis=-1) -> Typed:
        off, on = values.cut(0, 0, 1), values.cut(0, 1, 2)
        out = off + selectors(i, max(depth[0], 0)) * (on - off)
        return out.move_axis(-1, axis_of(axis, i.rank + 1)), self.type_of(2)

    def NonZero(self, x: Val) -> Typed:
        return self.run.number(np.array(np.nonzero(must_know(x)), np.int64)), "int64"

    def Div(self, x: Val, y: Val) -> Val:
        if self.type_of(0) in FLOATS or y.is_all(1) or y.is_all(-1):
            return x / y
        return curve("IntegerDiv", x, y)

    def Pow(self, x: Val, y: Val) -> Val:
        if y.exact is not None and y.size == 1:
            e = Fraction(y.exact.item())
            if e and abs(e) <= 64 and e.denominator in (1, 2):
                return power((x if e.denominator == 1 else root(x)).expand(*y.shape), e.numerator)
        return curve("Pow", x, y)

    def Clip(self, x: Val, min: Val | None = None, max: Val | None = None) -> Val:
        need(all(v is None or v.size == 1 for v in (min, max)), "bounds that are no scalars")
        return clamp(x, *(None if v is None else v.reshape() for v in (min, max)))

    def Gelu(self, x: Val, *, approximate="none") -> Val:
        two = root(self.run.number(2))
        if approximate == "tanh":
            inner = tanh((x + power(x, 3) * Fraction(44715, 1000000)) * (two / root(self.Pi())))
        else:
            inner = curve("Erf", x / two)
        return x * (inner + 1) * Fraction(1, 2)

    def Pi(self) -> Val:
        return curve("Pi", self.run.number(1))

    def Trilu(self, x: Val, k=(0,), *, upper=1) -> Val:
        square = np.ones(x.shape[-2:], int)
        return x * self.run.number(np.triu(square, k[0]) if upper else np.tril(square, k[0]))

    def Cast(self, x: Val, *, to: Any, saturate=1, round_mode="") -> Typed:
        return cast(x, self.type_of(0), DTYPES.get(to, ""))

    def Where(self, c: Val, x: Val, y: Val) -> Typed:
        return select(c, x, y), self.type_of(1)

    def Softmax(self, x: Val, *, axis=-1) -> Val:
        axes = (axis_of(axis, x.rank),)
        x = x - shift(x, axes)
        sums = total(exp(x), axes)
        return x - log(sums) if self.node.op == "LogSoftmax" else exp(x) / sums

    LogSoftmax = Softmax

    def ArgMax(self, x: Val, *, axis=0, keepdims=1, select_last_index=0) -> Typed:
        axis, name = axis_of(axis, x.rank), f"{self.node.op} {select_last_index}"
        place = x.move_axis(axis, -1).to("line", (*x.shape[:axis], *x.shape[axis + 1 :]), name)
        return place.reshape(*kept(x, (axis,))) if keepdims else place, "int64"

    ArgMin = ArgMax

    def TopK(self, x: Val, k: Any, *, axis=-1, largest=1, sorted=1) -> list[Any]:
        axis, last = axis_of(axis, x.rank), x.rank - 1
        need(len(k) == 1 and 0 <= k[0] <= x.shape[axis], f"the {k} largest of {x.shape[axis]}")
        lines = x.move_axis(axis, -1) * (1 if largest else -1)
        shape, name = (*lines.shape[:-1], k[0]), f"{'' if sorted else k}"
        values, places = (self.run.term("top", shape, (lines,), k[0], name, kind) for kind in (False, True))
        if sorted and k[0]:
            values = join([greatest(lines, (last,)), values.cut(last, 1, None)], last)
        values = values if largest else -values
        return [values.move_axis(-1, axis), (places.move_axis(-1, axis), "int64")]

    def CumSum(self, x: Val, axis: Any, *, exclusive=0, reverse=0) -> Val:
        axis = axis_of(axis, x.rank)
        y = x.cut(axis, None, None, -1) if reverse else x
        out = y.to("cumulated", x.shape, axis)
        out = out - y if exclusive else out
        return out.cut(axis, None, None, -1) if reverse else out

    def BatchNormalization(
        self, x: Val, scale: Val, bias: Val, mean: Val, var: Val, *, epsilon=1e-5, training_mode=0,
        momentum=0.9,
    ) -> Val:  # fmt: skip
        need(not training_mode, "training")
        factor = scale / root(var + epsilon)
        return x * channels(factor, x.rank) + channels(bias - mean * factor, x.rank)

    def GroupNormalization(self, x: Val, scale: Val, bias: Val, *, epsilon=1e-5, num_groups: Any) -> Val:
        n, c = x.shape[:2]
        need(num_groups > 0 and c % num_groups == 0, f"{c} channels in {num_groups} groups")
        grouped = x.reshape(n, num_groups, x.size // max(n * num_groups, 1))
        y = standardise(grouped, (2,), epsilon)[0].reshape(*x.shape)
        return y * channels(scale, x.rank) + channels(bias, x.rank)

    def LayerNormalization(self, x: Val, scale: Val, bias=None, *, axis=-1, epsilon=1e-5) -> list[Val]:
        axes = tuple(range(axis_of(axis, x.rank), x.rank))
        y, *rest = standardise(x, axes, epsilon, centre=self.node.op == "LayerNormalization")
        return [y * scale if bias is None else y * scale + bias, *rest]

    RMSNormalization = LayerNormalization

    def LRN(self, x: Val, *, size: Any, alpha=1e-4, beta=0.75, bias=1.0) -> Val:
        squares = pad(power(x, 2), [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.rank - 2)])
        sums = reduce(operator.add, [squares.cut(1, i, i + x.shape[1]) for i in range(size)])
        return x / curve("Pow", sums * (Fraction(alpha) / size) + bias, self.run.number(beta))

    def Gemm(self, x: Val, y: Val, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0) -> Val:
        need(x.rank == y.rank == 2, "operands are no matrices")
        out = matmul(x.transpose(1, 0) if transA else x, y.transpose(1, 0) if transB else y) * alpha
        return out if c is None else out + c * beta

    def Einsum(self, *xs: Val, equation="") -> Val:
        left, arrow, right = equation.replace(" ", "").partition("->")
        terms = left.split(",")
        right = right if arrow else "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
        need(len(terms) == len(xs) and left.replace(",", "").isalpha(), f"the equation {equation}")
        pairs = [pair for t, x in zip(terms, xs, strict=True) for pair in zip(t, x.shape, strict=True)]
        sizes = dict(pairs)
        fine = all(sizes[c] == d for c, d in pairs) and all(len(set(t)) == len(t) for t in (*terms, right))
        need(fine and set(right) <= set(sizes), f"the equation {equation}")
        done, labels = xs[0], terms[0]
        for i, (t, y) in enumerate(zip(terms[1:], xs[1:], strict=True), 1):
            later = set(right).union(*terms[i + 1 :])
            batch = [c for c in labels if c in t and c in later]
            inner = [c for c in labels if c in t and c not in later]
            only, other = [c for c in labels if c not in t], [c for c in t if c not in labels]
            n = [math.prod(sizes[c] for c in group) for group in (batch, only, inner, other)]
            x = done.transpose(*[labels.index(c) for c in (*batch, *only, *inner)]).reshape(n[0], n[1], n[2])
            y = y.transpose(*[t.index(c) for c in (*batch, *inner, *other)]).reshape(n[0], n[2], n[3])
            labels = "".join((*batch, *only, *other))
            done = matmul(x, y).reshape(*[sizes[c] for c in labels])
        gone = tuple(i for i, c in enumerate(labels) if c not in right)
        done, labels = total(done, gone).without(gone), [c for c in labels if c in right]
        return done.transpose(*[labels.index(c) for c in right])

    def Conv(self, x: Val, weight: Val, bias: Val | None = None, *, group=1, **w: Any) -> Val:
        out = convolve(x, weight, windows(x.shape[2:], **{**w, "kernel_shape": weight.shape[2:]}), group)
        return out if bias is None else out + channels(bias, x.rank)

    def ConvTranspose(
        self, x: Val, weight: Val, bias=None, *, group=1, output_padding=None, output_shape=None, **w: Any
    ) -> Val:
        """Convolve the input, spread by the strides, with the weight turned round."""
        n, size, kernel, auto = x.rank - 2, x.shape[2:], weight.shape[2:], w.get("auto_pad", "NOTSET")
        strides, dilations = w.get("strides") or [1] * n, w.get("dilations") or [1] * n
        pads = w.get("pads") or [0] * 2 * n
        more = output_padding or [0] * n
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        full = [s * (i - 1) + m + r for s, i, m, r in zip(strides, size, more, reach, strict=True)]
        if output_shape or auto.startswith("SAME"):
            wanted = (output_shape or [s * i for s, i in zip(strides, size, strict=True)])[-n:]
            small = [(g - s) // 2 for g, s in zip(full, wanted, strict=True)]
            large = [g - s - t for g, s, t in zip(full, wanted, small, strict=True)]
            pads = [*small, *large] if auto == "SAME_UPPER" else [*large, *small]
        o = weight.shape[0] // max(group, 1)
        fine = n > 0 and min(*strides, min(pads) + 1) > 0 and o * group == weight.shape[0] == x.shape[1]
        need(fine, "channels, groups, strides and pads do not fit")
        turned = weight.reshape(group, o, *weight.shape[1:])
        for i, stride in enumerate(strides):  # zeros between the elements
            turned, between = turned.cut(i + 3, None, None, -1), [(0, 0)] * (n + 3)
            between[i + 3], shape = (0, stride - 1), list(x.shape)
            x = pad(x.reshape(*shape[: i + 3], 1, *shape[i + 3 :]), between)
            shape[i + 2] *= stride
            x = x.reshape(*shape).cut(i + 2, 0, shape[i + 2] - stride + 1)
        turned = turned.transpose(0, 2, 1, *range(3, n + 3)).reshape(group * weight.shape[1], o, *kernel)
        ends = [r - 1 for r in reach] + [r - 1 + m for r, m in zip(reach, more, strict=True)]
        out = convolve(x, turned, windows(x.shape[2:], kernel, None, dilations, ends), group)
        for i in range(n):
            out = out.cut(i + 2, pads[i], full[i] - pads[i + n])
        return out if bias is None else out + channels(bias, x.rank)

    def AveragePool(self, x: Val, *, count_include_pad=0, **given: Any) -> Val:
        counted = w = windows(x.shape[2:], **given)
        inside = np.ones(x.shape[2:], np.int64)
        if count_include_pad:  # all that lies within the padding that is stated
            inside = np.pad(inside, list(zip(w.before, w.after, strict=True)), constant_values=1)
            counted = w._replace(before=(0,) * len(w.kernel))
        count = reduce(operator.add, views(inside, counted))
        ones, images = (
            self.run.number(np.ones((1, 1, *w.kernel), int)),
            x.reshape(x.shape[0] * x.shape[1], 1, *x.shape[2:]),
        )
        return convolve(images, ones, w, 1).reshape(*x.shape[:2], *w.out) / self.run.number(count)

    def MaxPool(self, x: Val, *, storage_order=0, **w: Any) -> Val:
        need(not any(self.node.outs[1:]), "places of the largest elements")
        found = windows(x.shape[2:], **w)
        if x.made_by("pad") and x.parts[1].is_lowest() and not any(map(any, x.params[0][:2])):
            ends = zip(*x.params[0][2:], strict=True)  # padding of -infinity is none
            both = zip((found.before, found.after), ends, strict=True)
            before, after = (tuple(map(operator.add, *pair)) for pair in both)
            x, found = x.parts[0], found._replace(before=before, after=after)
        return self.run.term("window max", (*x.shape[:2], *found.out), (x,), found)

    def Resize(
        self, x: Val, roi=None, scales=None, sizes=None, *, axes=None, mode="nearest", cubic_coeff_a=-0.75,
        coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_floor", exclude_outside=0,
        antialias=0, keep_aspect_ratio_policy="stretch", extrapolation_value=0.0,
    ) -> Val:  # fmt: skip
        need(mode in ("nearest", "linear", "cubic"), f"resizing by {mode}")
        axes = [axis_of(a, x.rank) for a in axes or range(x.rank)]
        plain = not antialias and not exclude_outside and keep_aspect_ratio_policy == "stretch"
        need(plain, "antialias, what is outside, or an aspect ratio")
        if sizes:
            scales = [Fraction(s, x.shape[i]) for s, i in zip(sizes, axes, strict=True)]
        sizes = sizes or [math.floor(x.shape[i] * s) for s, i in zip(scales or [], axes, strict=True)]
        half = Fraction(1, 2)
        nearest = {
            "floor": math.floor,
            "ceil": math.ceil,
            "round_prefer_ceil": lambda c: math.floor(c + half),
            "round_prefer_floor": lambda c: math.ceil(c - half),
        }[nearest_mode]
        for axis, size, scale in zip(axes, sizes, scales or [], strict=True):
            n = x.shape[axis]
            if size == n and scale == 1:
                continue
            need(0 < size <= MOST_LIST and size * n <= MOST_MATRIX, f"a size of {size}")
            places = [coordinate(coordinate_transformation_mode, i, n, size, scale) for i in range(size)]
            if mode == "nearest":
                x = x.take(np.array([min(max(nearest(c), 0), n - 1) for c in places]), axis)
            else:
                cubic = Fraction(cubic_coeff_a) if mode == "cubic" else None
                matrix = np.array([weights_at(c, n, cubic) for c in places], object)
                x = matmul(x.move_axis(axis, -1), self.run.number(matrix.T)).move_axis(-1, axis)
        return x

    def DequantizeLinear(
        self, x: Val, scale: Val, zero=None, *, axis=1, block_size=0, output_dtype=0
    ) -> Typed:
        need(not block_size, "scales of blocks")
        x = x if zero is None else x - channels(zero, x.rank, axis)
        return x * channels(scale, x.rank, axis), DTYPES.get(output_dtype, self.type_of(1))

    def QuantizeLinear(
        self, x: Val, scale: Val, zero=None, *, axis=1, block_size=0, saturate=1, output_dtype=0, precision=0
    ) -> Typed:
        need(not block_size, "scales of blocks")
        new = self.type_of(2) or DTYPES.get(output_dtype, "uint8")
        offset = self.run.number(0) if zero is None else channels(zero, x.rank, axis)
        return curve(f"quantise to {new}", x / channels(scale, x.rank, axis), offset), new

    def If(self, c: Val, *, then_branch: Any, else_branch: Any) -> list[Typed]:
        mask = known(c)
        if mask is not None:
            return self.run.nested(then_branch if mask.all() else else_branch, [], self.captured())
        branches = (self.run.nested(g, [], self.captured()) for g in (then_branch, else_branch))
        out = []
        for (x, kind), (y, _) in zip(*branches, strict=True):
            need(x.shape == y.shape, "branches of different shapes, chosen by data")
            out.append((y + c.reshape() * (x - y), kind))
        return out

    def Loop(self, *_: Val, body: Any) -> list[Any]:
        run, (most, going, *carried) = self.run, self.vals[: len(self.node.ins)]
        first, rows = [most, going, *carried], []
        going = going or (run.number(1), "bool")
        if most and known(most[0]) is None:
            return self.repeated(body, first)
        limit = self._operand(most[0], int) if most else MOST_STEPS + 1
        while len(rows) < limit:
            there = known(going[0])
            if there is None:
                return self.repeated(body, first)
            if not there.all():
                break
            need(len(rows) < MOST_STEPS, f"more than {MOST_STEPS} steps")
            going, *rest = run.nested(
                body, [(run.number(len(rows)), "int64"), going, *carried], self.captured()
            )
            carried = rest[: len(carried)]
            rows.append(rest[len(carried) :])
        need(rows or len(self.node.outs) <= len(carried), "no steps")
        columns = list(zip(*rows, strict=True))
        return carried + [(join([v.reshape(1, *v.shape) for v, _ in c], 0), c[0][1]) for c in columns]

    def repeated(self, body: Graph, first: list[Typed | None]) -> list[Typed]:
        """Return what a loop ends with: a function of its beginning, and of its body on drawn values."""
        run, carried = self.run, [v for v in first[2:] if v is not None]
        fine = len(self.node.outs) <= len(carried) == len(first) - 2
        need(fine, "a number of rows that depends on data")
        kinds = [("int64", ()), ("bool", ()), *((kind, v.shape) for v, kind in carried)]
        run.depth += 1  # values of the loops around it are others
        drawn = [run.term("drawn", s, (), "loop", run.depth, i, kind, s) for i, (kind, s) in enumerate(kinds)]
        given = [(v, kind) for v, (kind, _) in zip(drawn, kinds, strict=True)]
        try:
            ends = run.nested(body, given, self.captured())
        finally:
            run.depth -= 1
        need([(kind, v.shape) for v, kind in ends] == kinds[1:], "what it carries changes its shape")
        read, name = [v[0] for v in (*first, *ends) if v is not None], f"Loop {[v is None for v in first]}"
        return [
            (run.term("whole", v.shape, read, f"{name} {i}", v.shape), kind)
            for i, (v, kind) in enumerate(carried)
        ]


def reduction(function: Callable[[Val, Shape], Val]) -> Callable[..., Val]:
    """Return the operator that reduces along axes by a function that keeps them."""

    def run(x: Val, axes=None, *, keepdims=1, noop_with_empty_axes=0) -> Val:
        found = tuple(sorted({axis_of(a, x.rank) for a in axes or ()}))
        found = found if found or noop_with_empty_axes else tuple(range(x.rank))
        out = function(x, found)
        return out if keepdims else out.without(found)

    return run


CURVES = ("Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh")
# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    **{name: method for name, method in vars(Operators).items() if name[0].isupper()},
    **WHOLE,
    **{name: partial(curve, name) for name in (*CURVES, "Atanh", "Sign", "Floor", "Ceil", "Round")},
    "Identity": lambda x: x,
    "Flatten": lambda x, *, axis=1: x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])),
    "Transpose": lambda x, *, perm=None: x.transpose(*(perm or range(x.rank)[::-1])),
    "Concat": lambda *xs, axis: join(xs, axis_of(axis, xs[0].rank)),
    "Expand": lambda x, shape: x.expand(*shape),
    "Shape": lambda x, *, start=0, end=None: (x.run.number(np.array(x.shape[start:end], int)), "int64"),
    "Size": lambda x: (x.run.number(x.size), "int64"),
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Sum": lambda *xs: reduce(operator.add, xs),
    "Mean": lambda *xs: reduce(operator.add, xs) * Fraction(1, len(xs)),
    "Max": lambda *xs: reduce(maximum, xs),
    "Min": lambda *xs: reduce(minimum, xs),
    "Equal": lambda x, y: (is_zero(x - y), "bool"),
    "Less": lambda x, y: (less(x, y), "bool"),
    "Greater": lambda x, y: (less(y, x), "bool"),
    "LessOrEqual": lambda x, y: (1 - less(y, x), "bool"),
    "GreaterOrEqual": lambda x, y: (1 - less(x, y), "bool"),
    "And": lambda x, y: x * y,
    "Or": lambda x, y: x + y - x * y,
    "Xor": lambda x, y: x + y - 2 * (x * y),
    "Not": lambda x: 1 - x,
    "IsNaN": lambda x: (curve("IsNaN", x), "bool"),
    "Neg": lambda x: -x,
    "Abs": absolute,
    "Mod": lambda x, y, *, fmod=0: curve(f"Mod {fmod}", x, y),
    "Sqrt": root,
    "Reciprocal": inverse,
    "Sigmoid": sigmoid,
    "Tanh": tanh,
    "Relu": relu,
    "LeakyRelu": lambda x, *, alpha=0.01: leaky(x, alpha),
    "PRelu": leaky,
    "Elu": lambda x, *, alpha=1.0: elu(x, alpha),
    "Celu": lambda x, *, alpha=1.0: elu(x, alpha, 1 / Fraction(alpha)),
    "Selu": lambda x, *, alpha=1.6732632423543772, gamma=1.0507009873554805: elu(x, alpha) * gamma,
    "HardSigmoid": lambda x, *, alpha=0.2, beta=0.5: clamp(x * alpha + beta, 0, 1),
    "HardSwish": lambda x: x * clamp(x * Fraction(1, 6) + Fraction(1, 2), 0, 1),
    "Softplus": lambda x: log(exp(x) + 1),
    "Mish": lambda x: x * tanh(log(exp(x) + 1)),
    "Softsign": lambda x: x / (absolute(x) + 1),
    "MatMul": matmul,
    "InstanceNormalization": lambda x, scale, bias, *, epsilon=1e-5: (
        standardise(x, spatial(x), epsilon)[0] * channels(scale, x.rank) + channels(bias, x.rank)
    ),
    "GlobalAveragePool": lambda x: mean(x, spatial(x)),
    "GlobalMaxPool": lambda x: greatest(x, spatial(x)),
    "ReduceSum": reduction(total),
    "ReduceMean": reduction(mean),
    "ReduceMax": reduction(greatest),
    "ReduceMin": reduction(lambda x, axes: -greatest(-x, axes)),
    "ReduceProd": reduction(product),
    "ReduceL1": reduction(lambda x, axes: total(absolute(x), axes)),
    "ReduceL2": reduction(lambda x, axes: root(total(power(x, 2), axes))),
    "ReduceSumSquare": reduction(lambda x, axes: total(power(x, 2), axes)),
    "ReduceLogSum": reduction(lambda x, axes: log(total(x, axes))),
    "ReduceLogSumExp": reduction(log_sum_exp),
}
# fmt: on


# -- evaluation --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """The settings of a check: `defined` tensors stand for their expressions, `until` bounds process time."""

    certificate: Certificate
    tensors: Tensors
    primes: list[int]
    key: bytes
    axioms: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    until: float = math.inf

    def require_time(self) -> None:
        if time.process_time() > self.until:
            raise TimeoutError("not decided within its time")


class Run:
    """Both graphs as terms over one prime field.

    At level 0, structure decides which terms are equal, with the values of small constants; at level 1, the
    values of all constants that are not in both graphs; at level 2, every value is evaluated.
    """

    def __init__(self, check: Check, prime: int, sizes: dict[str, int]) -> None:
        self.check, self.tensors, self.field = check, check.tensors, Field(prime, check.key)
        self.sizes, self.level, self.side, self.depth = sizes, 0, 0, 0
        self.ids: dict[Any, int] = {}
        self.live: WeakValueDictionary[int, Val] = WeakValueDictionary()
        self.marks: dict[Any, int] = {}
        self.marked: set[int] = set()
        self.sides: dict[int, int] = defaultdict(int)
        self.shared: set[int] = set()
        self.recent: deque[Val] = deque()
        self.held = 0
        self.tested: dict[int, str] = {}
        self.places = {v: i for i, n in enumerate(check.certificate.definitions.nodes) for v in n.outs}

    def begin(self, level: int) -> None:
        self.level, self.shared = level, {i for i, sides in self.sides.items() if sides == 3}
        self.sides.clear()

    def uses(self, axiom: str) -> bool:
        return axiom in self.check.axioms

    def hold(self, val: Val) -> None:
        """Keep a value that was worked out, as the other graph may want it, and let older ones go."""
        self.recent.append(val)
        self.held += val.size * 8
        while self.held > MOST_KEPT and len(self.recent) > 1:
            self.held -= self.recent.popleft().size * 8

    def term(self, name: str, shape: Shape, parts: Sequence[Val], *params: Any) -> Val:
        """Return the term of a function: the one that is there, where its structure was met before."""
        room(shape)
        if name in SUMS and any(p.odd for p in parts):
            name, params = "whole", (f"infinite {name} {params}", shape)
        found = exactly(name, shape, parts, params)
        if found is not None:
            return self.number(found)
        key = (name, shape, params, tuple(p.id for p in parts))
        val = self.live.get(self.ids.get(key, -1))
        if val is None:
            val = Val(self, key, name, shape, parts, params, None)
            self.live[val.id] = val
        return self._met(val)

    def _met(self, val: Val) -> Val:
        if (
            val.const
            and (val.size <= MOST_SMALL or (self.level and val.id not in self.shared))
            and self.level >= 0
        ):
            self.mark(val)
        self.sides[val.id] |= 1 << self.side
        return val

    def mark(self, val: Val) -> None:
        """Give a value the id of the one that has the same residues."""
        if val.id not in self.marked:
            val.id = self.marks.setdefault(self.field.fingerprint(val.residues), val.id)
            self.ids[val.key] = val.id
            self.marked.add(val.id)

    def val(self, given: Val | Number) -> Val:
        return given if isinstance(given, Val) else self.number(given)

    def number(self, given: Any) -> Val:
        """Return the constant of exact numbers."""
        if isinstance(given, float):
            given = Fraction(given)
        array = plain(np.asarray(given))
        few = array.size <= 64 or array.dtype == object
        content = tuple(array.reshape(-1).tolist()) if few else Table(array.astype(np.int64))
        return self._met(Val(self, ("number", array.shape, content), "number", array.shape, (), (), array))

    def leaf(self, name: str) -> Val:
        """Return the constant of a tensor."""
        entry = self.tensors.entries[name]
        shape = tuple(entry["shape"])
        room(shape)
        if entry["dtype"] not in FLOATS or math.prod(shape) <= MOST_SMALL:
            array = self.tensors.load(name)
            if array.dtype.kind == "f" and array.size > MOST_PLAIN:
                whole = bool((np.rint(array) == array).all() and (np.abs(array) < 1 << 30).all())
                array = array.astype(np.int64) if whole else array
            wide = array.dtype == np.uint64 and bool((array >> np.uint64(62)).any())
            plain = array.dtype.kind != "f" or (array.size <= MOST_PLAIN and np.isfinite(array).all())
            if plain and not wide:
                return self.number(mapped(Fraction, array) if array.dtype.kind == "f" else array)
        kind = entry["dtype"].replace("bfloat16", "float32")
        val = self.term("loaded", shape, (), self.tensors, name, kind)
        val.odd = name in self.tensors.odd
        return val

    def constant(self, name: str) -> Typed:
        """Return a tensor, or the defining expression that stands in its place."""
        kind = self.tensors.entries[name]["dtype"]
        if name not in self.check.defined:
            return self.leaf(name), kind
        row = next(row for row in self.check.certificate.defined if row["tensor"] == name)
        return self.defined(row["value"], {})[0].expand(*self.tensors.entries[name]["shape"]), kind

    def defined(self, value: str, done: dict[str, Typed | None]) -> Typed:
        """Return the value of an expression of the definitions."""
        graph = self.check.certificate.definitions
        if value in graph.constants:
            name = graph.constants[value]
            return self.leaf(name), self.tensors.entries[name]["dtype"]
        if value not in done:
            node = graph.nodes[self.places[value]]
            env: dict[str, Typed | None] = {v: self.defined(v, done) for v in node.reads if v}
            done.update(zip(node.outs, self.apply(node, env, strict=True), strict=False))
        found = done[value]
        assert found is not None
        return found

    def nested(
        self, graph: Graph, args: Sequence[Typed | None], captured: Sequence[Typed | None]
    ) -> list[Typed]:
        """Run a branch or a body."""
        fine = (len(args), len(captured)) == (len(graph.inputs), len(graph.captures))
        need(fine, "another number of values")
        names = [*(row["value"] for row in graph.inputs), *graph.captures]
        env = dict(zip(names, [*args, *captured], strict=True))
        env.update((v, self.constant(t)) for v, t in graph.constants.items())
        for node in graph.nodes:
            env.update(zip(node.outs, self.apply(node, env, strict=True), strict=False))
        found = [env[name] for _, name in graph.outputs]
        need(all(found), "a nested graph gives nothing")
        return [v for v in found if v is not None]

    def apply(self, node: Node, env: dict[str, Typed | None], *, strict: bool = False) -> list[Typed | None]:
        """Return the values of an operator's outputs; None where there are none to compute with."""
        self.check.require_time()
        vals = [env.get(name) if name else None for name in node.reads]
        try:
            if any(name and v is None for name, v in zip(node.reads, vals, strict=True)):
                raise Unsupported("reads a value that is not known")
            return Operators(self, node, vals).results()
        except FAULTS as error:
            if strict:
                raise error if isinstance(error, Unsupported) else Unsupported(str(error)) from error
            self.tested.setdefault(id(node), str(error)[:200])
            return self.opaque(node, vals)

    def opaque(self, node: Node, vals: list[Typed | None]) -> list[Typed | None]:
        """Return values that depend on operator, attributes and all operands; of the stated shapes."""
        marks = tuple(None if v is None else v[0].id for v in vals)
        out: list[Typed | None] = [None] * len(node.outs)
        if None in marks and any(n and v is None for n, v in zip(node.reads, vals, strict=True)):
            return out
        for i, stated in enumerate(node.types[: len(out)]):
            try:
                kind, dims = stated
                shape = tuple(self.sizes[d] if isinstance(d, str) else operator.index(d) for d in dims)
                out[i] = (
                    self.term("drawn", shape, (), "opaque", node.op, node.key, marks, i, shape),
                    str(kind),
                )
            except (Unsupported, TypeError, ValueError, KeyError):
                continue
        return out


# fmt: off
FAULTS = (
    Unsupported, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, MemoryError,
    AssertionError, RecursionError,
)
# fmt: on


class Walk:
    """A graph under evaluation: values that are still read, and the id of each that was met."""

    def __init__(self, run: Run, side: int, graph: Graph, keep: set[str], put: dict[str, Typed]) -> None:
        self.run, self.side, self.graph, self.keep, self.put = run, side, graph, keep, put
        self.env: dict[str, Typed | None] = {}
        self.ids: dict[str, int] = {}
        self.kept: dict[str, Typed] = {}
        self.left = Counter(name for n in graph.nodes for name in set(n.reads))
        self.left.update({name for _, name in graph.outputs})
        self.next = 0

    def hold(self, name: str, val: Typed | None) -> None:
        if val is not None and name:
            if self.run.level == 2:
                self.run.mark(val[0])
            self.ids[name] = val[0].id
            if name in self.keep:
                self.kept[name] = val
        if name and self.left[name]:
            self.env[name] = self.put.get(name, val)

    @property
    def done(self) -> float:
        return self.next / len(self.graph.nodes) if self.next < len(self.graph.nodes) else 2.0

    def fetch(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.graph.constants and name not in self.env:
                self.hold(name, self.run.constant(self.graph.constants[name]))

    def step(self) -> None:
        """Evaluate the next operator, and let go of what nothing reads any more."""
        node, run = self.graph.nodes[self.next], self.run
        self.next, run.side = self.next + 1, self.side
        self.fetch(node.reads)
        vals = run.apply(node, self.env)
        try:
            for name, val in zip(node.outs, vals, strict=False):
                self.hold(name, val)
        except FAULTS as error:  # of a function, when it is worked out
            run.tested.setdefault(id(node), str(error)[:200])
            vals = run.opaque(node, [self.env.get(n) for n in node.reads])
            for name, val in zip(node.outs, vals, strict=False):
                self.hold(name, val)
        for name in set(node.reads):
            self.left[name] -= 1
            if not self.left[name]:
                self.env.pop(name, None)


def draw_inputs(run: Run) -> tuple[list[tuple[Val, str, str]], dict[str, int]]:
    """Return for each input random residues and its type on both sides, and the sizes of symbols."""
    certificate, symbols = run.check.certificate, dict(run.sizes)
    given: list[tuple[Val, str, str]] = []
    for i, (mine, other) in enumerate(zip(certificate.source.inputs, certificate.target.inputs, strict=True)):
        dims = [run.sizes.get(d, -1) if isinstance(d, str) else d for d in mine["shape"]]
        want(min(dims, default=0) >= 0, f"source.inputs[{i}]", "`sizes` has no number for one of its axes")
        want(len(dims) == len(other["shape"]), f"target.inputs[{i}]", f"expected {len(dims)} axes")
        for d, o in zip(dims, other["shape"], strict=True):
            want(isinstance(o, str) or o == d, f"target.inputs[{i}]", f"expected a size of {d}, got {o}")
            if isinstance(o, str):
                symbols.setdefault(o, d)
        want(math.prod(dims) <= MOST_HELD, f"source.inputs[{i}]", "too many elements")
        drawn = run.term("drawn", tuple(dims), (), "input", i, tuple(dims))
        given.append((drawn, mine["dtype"], other["dtype"]))
    return given, symbols


class Outcome(NamedTuple):
    """The result of several evaluations: for both graphs, of each value its ids and its element type."""

    ids: list[dict[str, tuple[int, ...]]]
    types: list[dict[str, str]]
    tested: dict[int, str]


def evaluate(check: Check, swaps: dict[str, str] | None = None) -> Outcome:
    """Compare both graphs for each prime; `swaps` puts values of the source in the place of the target's."""
    certificate = check.certificate
    both = (certificate.source, certificate.target)
    pairs = [(a, b) for (_, a), (_, b) in zip(both[0].outputs, both[1].outputs, strict=True)]
    pairs = [(a, b) for b, a in swaps.items()] if swaps is not None else pairs
    totals: list[dict[str, list[int]]] = [defaultdict(list), defaultdict(list)]
    types: list[dict[str, str]] = [{}, {}]
    tested: dict[int, str] = {}
    for number, prime in enumerate(check.primes):
        run, walks = Run(check, prime, certificate.sizes[number % len(certificate.sizes)]), []
        for level in range(3):
            run.begin(level)
            walks = _walk(run, both, swaps)
            if all(walks[0].ids.get(a, -1) == walks[1].ids.get(b, -2) for a, b in pairs):
                break
        for side, walk in enumerate(walks):
            for name, i in walk.ids.items():
                totals[side][name].append(i)
            types[side].update((name, val[1]) for name, val in walk.env.items() if val is not None)
        tested.update(run.tested)
        run.recent.clear()
    full = len(check.primes)
    return Outcome([{n: tuple(t) for n, t in s.items() if len(t) == full} for s in totals], types, tested)


def _walk(run: Run, both: Sequence[Graph], swaps: dict[str, str] | None) -> list[Walk]:
    given, symbols = draw_inputs(run)
    run.sizes = symbols
    put: dict[str, Typed] = {}
    walks = [Walk(run, 0, both[0], set((swaps or {}).values()), {}), Walk(run, 1, both[1], set(), put)]
    for walk in walks:
        run.side = walk.side
        for row, (val, *kinds) in zip(walk.graph.inputs, given, strict=True):
            walk.hold(row["value"], (val, kinds[walk.side]))
    while min(w.done for w in walks) < 2:
        if swaps is not None and walks[0].done < 2:
            walks[0].step()
            put.update(
                (theirs, walks[0].kept[mine]) for theirs, mine in swaps.items() if mine in walks[0].kept
            )
        else:
            min(walks, key=lambda w: w.done).step()
    for walk in walks:
        run.side = walk.side
        walk.fetch([name for _, name in walk.graph.outputs])
    return walks


# -- definitions of rounded constants ----------------------------------------------------------------------


SMOOTH = {"inverse": np.reciprocal, "root": np.sqrt, "Exp": np.exp, "Log": np.log, "Pow": np.power}
"""Functions that are monotone in each operand: a box of operands has its extremes in its corners."""


class Real(NamedTuple):
    """A constant term in floats, and a bound of how far each is from its value."""

    value: Array
    off: Array


def real(val: Val, wide: Any, done: dict[int, Real]) -> Real:
    """Return a constant term in floats: the one that stands in the constant's place in the fields."""
    if id(val) not in done:
        parts = [real(p, wide, done) for p in val.parts]
        with np.errstate(all="ignore"):
            done[id(val)] = Real(*in_floats(val, [p.value for p in parts], [p.off for p in parts], wide))
    return done[id(val)]


def in_floats(val: Val, xs: list[Array], offs: list[Array], wide: Any) -> tuple[Array, Array]:
    name, eps, none = val.name, float(np.finfo(wide).eps), np.zeros(())
    if val.exact is not None:
        high = val.exact.astype(np.float64)
        rest = np.asarray(mapped(Fraction, val.exact) - mapped(Fraction, high), np.float64)
        value = high.astype(wide) + rest.astype(wide)
        return value, eps * np.abs(value)
    if name == "loaded":
        return val.params[0].load(val.params[1]).astype(val.params[2], copy=False), none
    if name in MOVING:
        far = [np.broadcast_to(o, x.shape) for x, o in zip(xs, offs, strict=True)]
        move = partial(FUNCTIONS[name], None)
        return move(*xs, *val.params), move(*far, *val.params) if any(map(np.any, offs)) else none
    name = val.params[0] if name in ("odd", "even", "any") else name
    xs, sizes = [x.astype(wide, copy=False) for x in xs], [np.abs(x) for x in xs]
    if name in ("mul", "matmul", "power"):
        n, times = (xs[0].shape[-1], np.matmul) if name == "matmul" else (1, np.multiply)
        (value, size, off), *more = zip(xs, sizes, offs, strict=True)
        for other, wide_as, o in more or [(value, size, off)] * (val.params[0] - 1):
            off, o = np.broadcast_to(off, size.shape), np.broadcast_to(o, wide_as.shape)
            off = times(size, o) + times(off, wide_as + o) + 2 * n * eps * times(size, wide_as)
            value = times(value, other)
            size = np.abs(value)
    elif name == "add":
        value = xs[0] + xs[1]
        off = offs[0] + offs[1] + eps * np.abs(value)
    elif name == "total":
        value, off = (
            np.sum(x, axis=val.params[0], keepdims=True)
            for x in (xs[0], offs[0] + sizes[0] * eps * xs[0].size)
        )
    elif name in ("Sin", "Cos", "Pi"):
        value = (
            np.full((), np.longdouble("3.14159265358979323846264338327950288"))
            if name == "Pi"
            else getattr(np, name.lower())(xs[0])
        )
        off = (0 if name == "Pi" else offs[0]) + 4 * eps
    else:
        need(name in SMOOTH, f"no floats for {name}")
        need(name != "inverse" or (sizes[0] > offs[0]).all(), "a division by what may be 0")
        reach = [np.where(o > 0, o + 2 * eps * size, 0) for o, size in zip(offs, sizes, strict=True)]
        value = SMOOTH[name](*xs)
        corners = (
            SMOOTH[name](*(x + sign * d for x, d, sign in zip(xs, reach, signs, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(xs))
        )
        off = reduce(np.maximum, (np.abs(c - value) for c in corners)) + 8 * eps * np.abs(value)
    return value, np.asarray(1.01 * off)


def check_definitions(check: Check, units: float) -> tuple[dict[str, float], dict[str, str]]:
    """Return by how many units each constant differs from its expression, or why it is not its rounding.

    A unit is that of each element's last place; of 1 or more units of a vector, that of its largest element.
    """
    run = Run(check, 2097143, {})
    run.level = -1
    apart: dict[str, float] = {}
    wrong: dict[str, str] = {}
    for row in check.certificate.defined:
        name, kind = row["tensor"], check.tensors.entries[row["tensor"]]["dtype"]
        check.require_time()
        try:
            need(kind in FLOATS, "it holds no floats")
            stated, allowed = check.tensors.load(name), min(row["units"], units)
            wide = np.longdouble if stated.size <= MOST_SMALL or kind == "float64" else np.float64
            value, off = real(run.defined(row["value"], {})[0], wide, {})
            gap = most = np.zeros(())
            if value.dtype != stated.dtype or np.any(off) or not (value == stated).all():
                sizes = np.abs(np.broadcast_to(value * np.float64(1), stated.shape))
                whole = allowed >= 1 and stated.ndim < 2
                near = np.minimum(sizes.astype(stated.dtype), np.abs(stated))  # below a power of 2 it is half
                near = sizes.max(initial=0).astype(stated.dtype) if whole else near
                unit = np.spacing(near).astype(sizes.dtype) * (65536 if kind == "bfloat16" else 1)
                gap, most = np.abs(stated - value) / unit, np.broadcast_to(off, stated.shape) / unit
            need((most <= 2**-4).all(), "its expression cancels, so that its value is not known well enough")
            found = float(np.max(gap, initial=0))
            need(
                found <= allowed * (1 + 2**-8),
                f"differs from its expression by {found:.3g} units in the last place",
            )
            apart[name] = max(found, apart.get(name, 0.0))
        except FAULTS as fault:
            wrong[name] = str(fault)
    return {t: u for t, u in apart.items() if t not in wrong}, wrong


# -- grades ------------------------------------------------------------------------------------------------


class Calls:
    """The operators of each module call, and the values that come out of it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.chains: dict[str, tuple[str, ...]] = {"": ()}
        self.nodes: dict[str, list[Node]] = defaultdict(list)
        self.outs: dict[str, list[str]] = {}
        self.maker = {v: n for n in graph.nodes for v in n.outs if v}
        for node in graph.nodes:
            for call in self.above(node.call):
                self.nodes[call].append(node)
        outs: dict[str, set[str]] = defaultdict(set)
        for reader, names in [(n.call, n.reads) for n in graph.nodes] + [("", [v for _, v in graph.outputs])]:
            for name in names:
                there = self.above(self.maker[name].call) if name in self.maker else ()
                for call in set(there) - set(self.above(reader)):
                    outs[call].add(name)
        self.outs = {c: [v for n in nodes for v in n.outs if v in outs[c]] for c, nodes in self.nodes.items()}

    def tensors(self, nodes: Sequence[Node]) -> set[str]:
        """Return the tensors that operators read."""
        constants = self.graph.constants
        return {constants[v] for n in nodes for v in n.reads if v in constants}

    def above(self, call: str) -> tuple[str, ...]:
        """Return a call and those that it is made in."""
        if call not in self.chains:
            chain, at = [], call
            while at and at not in chain and len(chain) < 1000:
                chain.append(at)
                at = self.graph.calls.get(at, "")
            self.chains[call] = tuple(chain)
        return self.chains[call]

    def nodes_above(self, value: str) -> list[Node]:
        """Return the operators that a value is made of."""
        seen, stack, nodes = {value}, [value], []
        while stack:
            node = self.maker.get(stack.pop())
            if node is not None:
                nodes.append(node)
                stack += (new := set(node.reads) - seen)
                seen |= new
        return nodes


Grade = tuple[str, list[str]]

UNDECIDED = "not equal as algebra: a difference, or equal by what is not in the list of axioms"
EXACT = {
    "Add", "AveragePool", "Concat", "Conv", "ConvTranspose", "Expand", "Flatten", "Gemm", "GlobalAveragePool",
    "Identity", "MatMul", "Mul", "Neg", "Pad", "ReduceMean", "ReduceSum", "Reshape", "Slice", "Split",
    "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Operators that are polynomials, so that values that differ in a field differ over the reals."""


def is_exact(check: Check, calls: Sequence[Calls], parts: Sequence[list[Node]]) -> bool:
    """Whether operators of both graphs are polynomials in the same constants: not equal is different then."""
    kinds = {t: e["dtype"] for t, e in check.tensors.entries.items()}
    held = [
        {t for t in c.tensors(nodes) if kinds[t] in FLOATS} for c, nodes in zip(calls, parts, strict=True)
    ]
    return all(n.op in EXACT for nodes in parts for n in nodes) and all(parts) and held[1] <= held[0]


class Grader:
    """Grades parts of the source by the outcome of an evaluation."""

    def __init__(self, check: Check, calls: Sequence[Calls], outcome: Outcome) -> None:
        self.check, self.calls, self.outcome = check, calls, outcome
        self.pairs = dict(check.certificate.pairs)

    def grade(self, nodes: list[Node], others: list[Node], *, whole: bool = False) -> Grade:
        """Return the grade of operators of the source that equal those of the target, and its grounds."""
        both, tested, defined = [*nodes, *others], self.outcome.tested, self.check.defined
        unknown = sorted({f"{n.op}: {tested[id(n)]}" for n in both if id(n) in tested})
        if unknown:
            return "tested", unknown
        own, other = (
            Counter((n.op, n.key, tuple(ids.get(v) for v in n.ins)) for n in some if n.op != "Identity")
            for some, ids in zip((nodes, others), self.outcome.ids, strict=True)
        )
        read = self.calls[0].tensors(nodes) | self.calls[1].tensors(others)
        if own == other and not (defined if whole else defined & read):
            return "identical", []
        used = sorted(a for a in self.check.axioms if any(n.op in TRIGGERS[a] for n in both))
        return ("axioms", used) if used else ("folded", sorted(defined)) if defined else ("algebraic", [])

    def proves_difference(self) -> bool:
        """Whether two outputs differ by more than rounding or an axiom could explain, and not only here."""
        (mine, other), types = self.outcome.ids, self.outcome.types
        for (_, a), (_, b) in zip(*(c.graph.outputs for c in self.calls), strict=True):
            if a in mine and b in other:
                if types[0].get(a) != types[1].get(b):
                    return True
                parts = [calls.nodes_above(v) for calls, v in zip(self.calls, (a, b), strict=True)]
                if mine[a] != other[b] and is_exact(self.check, self.calls, parts):
                    return True
        return False

    def outputs(self) -> list[dict[str, Any]]:
        """Compare each output of the source with the target's at its place."""
        rows, (mine, other), types = [], self.outcome.ids, self.outcome.types
        for (name, a), (_, b) in zip(*(c.graph.outputs for c in self.calls), strict=True):
            equal = a in mine and mine[a] == other.get(b) and types[0].get(a) == types[1].get(b)
            rows.append({"name": name, "equal": equal, "known": a in mine and b in other})
        return rows

    def values(self, call: str) -> list[tuple[str, str]]:
        """Return the values that come out of a call of the source, with those of its partner."""
        both = self.calls[0].outs[call], self.calls[1].outs.get(self.pairs.get(call, ""), [])
        return list(zip(*both, strict=True)) if len(both[0]) == len(both[1]) else []

    def modules(self, whole: str = "") -> list[dict[str, Any]]:
        """Grade each module call by the values that come out of it and its partner, else by the whole."""
        (source, target), (mine, other), rows = self.calls, self.outcome.ids, dict[str, Grade]()
        for call in (c for c in source.graph.calls if source.outs.get(c)):
            nodes, others = source.nodes[call], target.nodes[self.pairs.get(call, "")]
            values = [(mine.get(a), other.get(b)) for a, b in self.values(call)]
            if values and all(a == b and a is not None for a, b in values):
                rows[call] = self.grade(nodes, others)
            elif whole:
                rows[call] = whole, ["together with what is around it"]
            elif not values or any(None in pair for pair in values):
                rows[call] = "tested", ["a value is not known" if values else "has no partner in the target"]
            else:
                exact = is_exact(self.check, self.calls, [nodes, others])
                rows[call] = "different" if exact else "tested", [UNDECIDED]
        bad = {call: grade for call, (grade, why) in rows.items() if why == [UNDECIDED]}
        for inner, grade in bad.items():
            for call in set(source.above(inner)) - set(bad):
                if call in rows and rows[call][0] != "tested":
                    rows[call] = grade, ["a call inside of it"]
        return [{"call": call, "grade": grade, "why": why[:5]} for call, (grade, why) in rows.items()]

    def localised(self) -> list[dict[str, Any]]:
        """Grade each call on the source's own inputs, so that one difference is blamed on one call."""
        swaps = {b: a for call in self.calls[0].nodes for a, b in self.values(call)}
        return Grader(
            self.check, self.calls, evaluate(replace(self.check, primes=self.check.primes[:1]), swaps)
        ).modules()


def exchanged(graphs: Sequence[Graph]) -> list[str]:
    """Return inputs and outputs that have the same names at other places: those by name would be others."""
    found: list[str] = []
    inputs = [[str(row["name"]) for row in g.inputs] for g in graphs]
    outputs = [[name for name, _ in g.outputs] for g in graphs]
    for kind, (own, other) in (("inputs", inputs), ("outputs", outputs)):
        if own != other and sorted(own) == sorted(other):
            found.append(f"{kind} in another order: {', '.join(own)} against {', '.join(other)}"[:400])
    return found


def check(
    certificate: Certificate,
    *,
    seed: int | None = None,
    primes: int = 3,
    units: float = 0.5,
    until: float = math.inf,
) -> dict[str, Any]:
    """Check a certificate; returns the report, as `--json` prints it.

    Raises:
        TimeoutError: behind `until`, by `time.process_time`.
    """
    seed = secrets.randbits(63) if seed is None else seed
    key = hashlib.sha256(f"regraft {seed}".encode()).digest()
    tensors = Tensors(certificate.folder, certificate.tensors)
    graphs = (certificate.source, certificate.target)
    for name in certificate.tensors:  # all digests are right, and `odd` is whole
        tensors.load(name)
    drawn = draw_primes(primes, np.random.default_rng(seed))
    given = Check(certificate, tensors, drawn, key, until=until)
    fine, wrong = check_definitions(given, units)
    given = replace(given, defined=frozenset(fine))
    calls = [Calls(graph) for graph in graphs]
    grader = Grader(given, calls, evaluate(given))
    rows = grader.outputs()
    if certificate.axioms and not all(r["equal"] for r in rows):
        given = replace(given, axioms=frozenset(certificate.axioms))
        grader = Grader(given, calls, evaluate(given))
        rows = grader.outputs()
    elsewhere = exchanged(graphs)
    whole = all(r["equal"] for r in rows) and bool(rows) and not elsewhere
    grade, why = "different", elsewhere
    if whole:
        grade, why = grader.grade(graphs[0].nodes, graphs[1].nodes, whole=True)
    elif not elsewhere and not grader.proves_difference():
        grade, why = "tested", sorted(set(grader.outcome.tested.values())) or [UNDECIDED]
    modules = grader.modules(grade) if whole else grader.localised()
    counts = Counter(m["grade"] for m in modules)
    return {
        "equal": whole and grade != "tested",
        "grade": grade,
        "why": why[:20],
        "outputs": rows,
        "modules": modules,
        "counts": {g: counts[g] for g in GRADES if counts[g]},
        "axioms": {a: AXIOMS[a] for a in why} if grade == "axioms" else {},
        "constants": len(fine),
        "units": max(fine.values(), default=0.0),
        "refused": dict(list(wrong.items())[:20]),
        "tested": dict(Counter(n.op for g in graphs for n in g.nodes if id(n) in grader.outcome.tested)),
        "primes": drawn,
        "seed": seed,
    }


# -- the command -------------------------------------------------------------------------------------------


def summary(report: dict[str, Any]) -> str:
    """Return the verdict in one line."""
    n, units = report["constants"], report["units"]
    rounded = [f"{n} rounded constants ({units:.2f} units in the last place at most)"] if n else []
    but = " and ".join([*rounded, *report["axioms"]])
    return {
        "identical": "equal exactly: the same operators on the same constants",
        "algebraic": "equal exactly, as algebra",
        "folded": f"equal exactly, but for {but}",
        "axioms": f"equal exactly, but for {but}",
        "tested": "not certified: not equal as algebra, or operators that this check does not know",
        "different": "not certified: the target differs from the source",
    }[report["grade"]]


def lines(report: dict[str, Any], *, verbose: bool) -> list[str]:
    """Return the report for people."""
    found = [summary(report)]
    if report["counts"]:
        found.append("module calls: " + ", ".join(f"{n} {g}" for g, n in report["counts"].items()))
    found += [f"axiom {name}: {meaning}" for name, meaning in report["axioms"].items()]
    for row in report["outputs"]:
        found += (
            [] if row["equal"] else [f"output {row['name']}: {'differs' if row['known'] else 'is not known'}"]
        )
    for row in report["modules"]:
        if verbose or row["grade"] in ("different", "tested"):
            found.append(f"  {row['grade']:<10} {row['call']} {'; '.join(row['why'])}".rstrip())
    found += [f"constant {name}: {why}" for name, why in report["refused"].items()]
    return [*found, f"primes {', '.join(map(str, report['primes']))}; seed {report['seed']}"]


def printable(text: str) -> str:
    """Return a text without what would steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def bound_memory() -> None:
    """Let what asks for more than the machine has fail, where the system can do that."""
    try:
        import resource

        own, most = resource.getrlimit(resource.RLIMIT_AS)
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if own == resource.RLIM_INFINITY or own > there:
            resource.setrlimit(resource.RLIMIT_AS, (there, most))
    except (ImportError, AttributeError, ValueError, OSError):
        return


def main(arguments: list[str] | None = None) -> int:
    """Check one certificate and print what it shows."""
    about = "Re-check a certificate that two models compute the same."
    parser = argparse.ArgumentParser(prog="recheck", description=about)
    add = parser.add_argument
    add("certificate", type=Path)
    add("--seed", type=int, help="seed of primes and keys; drawn afresh by default")
    add("--primes", type=int, default=3, help="number of prime fields (default 3)")
    units = "most units in the last place of a rounded constant (default 0.5)"
    add("--units", type=float, default=0.5, help=units)
    add("--seconds", type=float, default=math.inf, help="most processor time (no bound by default)")
    add("--json", action="store_true", help="the report as JSON")
    add("-v", "--verbose", action="store_true", help="every module call")
    given = parser.parse_args(arguments)
    try:
        want(1 <= given.primes <= 64, "--primes", "expected 1 to 64")
        want((given.seed or 0) >= 0, "--seed", "expected a whole number that is not negative")
        want(0 <= given.units < math.inf, "--units", "expected a finite number that is not negative")
        want(given.seconds > 0, "--seconds", "expected a positive number")
        settings = {name: getattr(given, name) for name in ("seed", "primes", "units")}
        until = time.process_time() + given.seconds
        report = check(read_certificate(given.certificate), **settings, until=until)
    except (CertificateError, Unsupported) as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return 2
    except (RecursionError, MemoryError, TimeoutError) as error:
        print(f"error: {given.certificate}: {str(error) or type(error).__name__}", file=sys.stderr)
        return 2
    text = json.dumps(report, indent=2) if given.json else "\n".join(lines(report, verbose=given.verbose))
    print(printable(text))
    return 0 if report["equal"] else 1


def console() -> None:
    """Run as an installed command."""
    bound_memory()
    sys.exit(main())


if __name__ == "__main__":
    console()
