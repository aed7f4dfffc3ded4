"""Mutated certificates and ONNX files: the checker refuses or judges them, and calls no wrong one equal.

python -m regraft.benchmarks.mutation.hostile [--count N] [--seed N] [--out FILE.jsonl]

Each case runs in a process of its own with bounds of memory and time. What is called equal is computed again
in float64 by ONNX's reference implementation, which shows whether the two are.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from ...api.certificates import certify
from ...api.targets import save
from ...ir import RegraftError, parse
from ...ir.tensors import TensorData
from ...verification.certificate import recheck
from .reference import difference, read_side

MEMORY, SECONDS = 6 << 30, 60
Row = dict[str, Any]

# A convolution with its normalisation, a softmax of products, comparisons and indices, a branch.
GRAPHS = (
    """graph conv {
  %x = input "x" : f32[N,2,5,5]
  %w = param "w" : f32[3,2,3,3]
  %g = param "g" : f32[3]
  %b = param "b" : f32[3]
  %m = param "m" : f32[3]
  %v = param "v" : f32[3]
  %0 = Conv(%x, %w) {pads=[1, 1, 1, 1]} : f32[N,3,5,5]
  %1 = BatchNormalization(%0, %g, %b, %m, %v) : f32[N,3,5,5]
  %2 = Relu(%1) : f32[N,3,5,5]
  %3 = MaxPool(%2) {kernel_shape=[2, 2], strides=[2, 2]} : f32[N,3,2,2]
  %y = Flatten(%3) : f32[N,12]
  return "y" = %y
  return "z" = %2
}""",
    """graph attention {
  %x = input "x" : f32[2,4,6]
  %p = param "p" : f32[6,6]
  %q = param "q" : f32[6,6]
  %s = const 0.40824830532073975 : f32[]
  %t = const 0.3 : f32[]
  %0 = MatMul(%x, %p) : f32[2,4,6]
  %1 = MatMul(%x, %q) : f32[2,4,6]
  %2 = Transpose(%1) {perm=[0, 2, 1]} : f32[2,6,4]
  %3 = MatMul(%0, %2) : f32[2,4,4]
  %4 = Mul(%3, %s) : f32[2,4,4]
  %5 = Softmax(%4) {axis=-1} : f32[2,4,4]
  %6 = MatMul(%5, %x) : f32[2,4,6]
  %7 = Greater(%6, %t) : bool[2,4,6]
  %8 = Where(%7, %6, %x) : f32[2,4,6]
  %i = const [2, 0] : i64[2]
  %y = Gather(%8, %i) {axis=1} : f32[2,2,6]
  return "y" = %y
}""",
)


def bases(folder: Path) -> list[Path]:
    """Write the certificates that are mutated: each of a graph against the file that is written of it."""
    found: list[Path] = []
    for i, text in enumerate(GRAPHS):
        graph = parse(text)
        rng = np.random.default_rng(i)
        for node in graph.parameters():
            drawn = np.abs(rng.standard_normal(node.data.shape)).astype(np.float32) + np.float32(0.1)
            node.data = TensorData.of(drawn)
        file, path = folder / f"{i}.onnx", folder / f"{i}.json"
        save(graph, file, force=True)
        assert certify(graph, file, output=path, seed=1).passed
        found.append(path)
    return found


# -- mutations of the document -----------------------------------------------------------------------------

# fmt: off
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 1 << 40, 1 << 70, -(1 << 63), 0.5, 1e308, "", "x" * 5000, "\ud800", "../a",
    "/etc/passwd", "nan", [], {}, [[]], [0] * 70000, {"graph": {}}, {"tensor": "t0"}, [1 << 31] * 4, [-1],
    "float16", "int64",
)
# fmt: on


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a document."""
    if at:
        yield at
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*at, key))


def held(document: Any, place: tuple[Any, ...]) -> Any:
    """Return the value at a place."""
    for key in place:
        document = document[key]
    return document


def put(document: Any, place: tuple[Any, ...], value: Any) -> None:
    """Put a value into a place."""
    held(document, place[:-1])[place[-1]] = value


def any_place(rng: random.Random, document: Any, *beginnings: str) -> tuple[Any, ...]:
    """Draw a place, of those in some parts of the document."""
    return rng.choice([p for p in places(document) if not beginnings or p[0] in beginnings])


def nasty(rng: random.Random, document: Any, _: Path) -> None:
    """Put what nobody expects anywhere."""
    put(document, any_place(rng, document), rng.choice(NASTY))


def exchanged(rng: random.Random, document: Any, _: Path) -> None:
    """Exchange two values of one type in the target."""
    first = any_place(rng, document, "target")
    own = held(document, first)
    others = [p for p in places(document["target"], ("target",)) if type(held(document, p)) is type(own)]
    second = rng.choice([p for p in others if held(document, p) != own] or [first])
    if first[: len(second)] != second and second[: len(first)] != first:
        other = held(document, second)
        put(document, first, other)
        put(document, second, own)


def dropped(rng: random.Random, document: Any, _: Path) -> None:
    """Leave out a value."""
    place = any_place(rng, document)
    del held(document, place[:-1])[place[-1]]


def repeated(rng: random.Random, document: Any, _: Path) -> None:
    """Repeat an element of a list somewhere in it."""
    place = rng.choice([p for p in places(document) if isinstance(p[-1], int)])
    rows = held(document, place[:-1])
    rows.insert(rng.randrange(len(rows) + 1), copy.deepcopy(rows[place[-1]]))


def renumbered(rng: random.Random, document: Any, _: Path) -> None:
    """Change a number of the target or of the definitions by 1, or by its last place."""
    numbers = [p for p in places(document) if type(held(document, p)) in (int, float) and p[0] != "source"]
    place = rng.choice(numbers)
    value = held(document, place)
    after = np.nextafter(np.float32(value), np.float32(rng.choice((-9e9, 9e9)))).item()
    put(document, place, after if isinstance(value, float) else value + rng.choice((-1, 1)))


def another_operator(rng: random.Random, document: Any, _: Path) -> None:
    """Take another operator in the target."""
    rng.choice(document["target"]["nodes"])["op"] = rng.choice(sorted(recheck.OPS))


def last_place(rng: random.Random, document: Any, path: Path) -> None:
    """Give the target a tensor with one element changed by its last place, with the right digest."""
    constants = document["target"]["constants"]
    there = {v: document["tensors"][t] for v, t in constants.items() if "sha256" in document["tensors"][t]}
    if not there:
        renumbered(rng, document, path)
        return
    value, entry = rng.choice(sorted(there.items(), key=lambda row: row[0]))
    count = int(np.prod(entry["shape"]))
    array = np.fromfile(path.parent / entry["file"], "<f4", count, offset=entry["offset"])
    at = rng.randrange(array.size)
    array[at] = np.nextafter(array[at], np.float32(rng.choice((-np.inf, np.inf))))
    (path.parent / "changed.bin").write_bytes(array.tobytes())
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    document["tensors"]["changed"] = {**entry, "file": "changed.bin", "offset": 0, "sha256": digest}
    for row in document["definitions"]["of"]:  # with the old one's definition, or one that states the old one
        if row["tensor"] == constants[value] and rng.random() < 0.5:
            row["tensor"] = "changed"
    if rng.random() < 0.5:
        document["definitions"]["constants"]["old"] = constants[value]
        units = rng.choice((0.5, 0.501, 64))
        document["definitions"]["of"].append({"tensor": "changed", "value": "old", "units": units})
    constants[value] = "changed"


def huge(rng: random.Random, document: Any, _: Path) -> None:
    """Put an operator before the target's output that asks for much."""
    target = document["target"]
    row = target["outputs"][0]
    numbers = [
        rng.choice((1 << 10, 1 << 16, 1 << 20, 1 << 28, 1 << 40, -5, 0)) for _ in range(rng.randrange(1, 6))
    ]
    document["tensors"]["huge"] = {"dtype": "int64", "shape": [len(numbers)], "values": numbers}
    document["tensors"]["one"] = {"dtype": "int64", "shape": [], "values": [numbers[0]]}
    target["constants"].update(huge="huge", one="one")
    ways = {
        "Expand": [row["value"], "huge"], "Tile": [row["value"], "huge"], "ConstantOfShape": ["huge"],
        "Reshape": [row["value"], "huge"], "Pad": [row["value"], "huge"], "Range": ["one", "one", "one"],
        "OneHot": ["huge", "one", "huge"], "Resize": [row["value"], "", "", "huge"],
        "TopK": [row["value"], "huge"], "Pow": ["huge", "one"], "CumSum": ["huge", "one"],
    }  # fmt: skip
    op = rng.choice(sorted(ways))
    target["nodes"].append({"op": op, "in": ways[op], "out": ["much"]})
    if rng.random() < 0.5:
        target["nodes"].append({"op": "ReduceSum", "in": ["much"], "out": ["sum"]})
        target["nodes"].append({"op": "Add", "in": [row["value"], "sum"], "out": ["more"]})
        row["value"] = "more"
    else:
        row["value"] = "much"


def long(rng: random.Random, document: Any, _: Path) -> None:
    """Make the target long, deep, wide, or doubling in size."""
    target, way = document["target"], rng.choice(("chain", "wide", "nested", "doubling", "loop", "power"))
    at = target["outputs"][0]["value"]
    if way == "nested":
        body: Row = {"outputs": []}
        for _depth in range(rng.choice((5, 50))):
            inner = {"op": "If", "in": ["c"], "out": ["o"], "attributes": {"then_branch": {"graph": body}}}
            body = {"nodes": [inner]}
        target["nodes"].append(
            {"op": "If", "in": [at], "out": ["o"], "attributes": {"then_branch": {"graph": body}}}
        )
        return
    if way == "loop":
        document["tensors"]["many"] = {"dtype": "int64", "shape": [], "values": [1 << 40]}
        target["constants"]["many"] = "many"
        rows = [{"name": n, "value": n, "dtype": "float32", "shape": []} for n in ("i", "c", "s")]
        add: Row = {"op": "Add", "in": ["s", "s"], "out": ["t"]}
        body = {"inputs": rows, "nodes": [add], "outputs": [{"value": "c"}, {"value": "t"}]}
        node = {"op": "Loop", "in": ["many", "", at], "out": ["o"], "attributes": {"body": {"graph": body}}}
        target["nodes"].append(node)
        target["outputs"][0]["value"] = "o"
        return
    names = [at, at]
    for k in range({"chain": 20000, "wide": 1, "doubling": 40, "power": 40}[way]):
        last = names[-1:]
        op, ins = {
            "chain": ("Add", names[-2:]),
            "wide": ("Concat", [at] * 60000),
            "doubling": ("Concat", last * 2),
            "power": ("Mul", last * 2),
        }[way]
        attributes = {"axis": 0} if op == "Concat" else {}
        target["nodes"].append({"op": op, "in": ins, "out": [f"n{k}"], "attributes": attributes})
        names.append(f"n{k}")
    target["outputs"][0]["value"] = names[-1]


# fmt: off
DOCUMENT: tuple[Callable[[random.Random, Any, Path], None], ...] = (
    nasty, nasty, exchanged, exchanged, exchanged, dropped, repeated, renumbered, renumbered,
    another_operator, last_place, last_place, huge, long,
)
# fmt: on


def broken_text(rng: random.Random, text: str) -> bytes:
    """Break the text of a certificate."""
    data = bytearray(text.encode())
    at = rng.randrange(len(data))
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: bytes(data[:at]),
        lambda: bytes(data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]),
        lambda: text.replace(":1", ":NaN", 1).encode(),
        lambda: text.replace(":1", ":1e999", rng.randrange(1, 9)).encode(),
        lambda: text.replace('"target":', '"target":{"nodes":[]},"target":', 1).encode(),
        lambda: text.replace('"op":"Conv"', '"op":"Relu","op":"Conv"').encode(),
        lambda: b"[" * rng.choice((900, 100000)),
        lambda: (text[:-1] + ',"more":' + '{"a":' * 3000 + "1" + "}" * 3000 + "}").encode(),
        lambda: b"\xef\xbb\xbf" + text.encode(),
        lambda: text.replace('"op":"', '"op":"\\ud800', 1).encode(),
        lambda: ("[" + "9" * 6000 + "]").encode(),
    )
    return rng.choice(ways)()


# -- cases -------------------------------------------------------------------------------------------------


def case(base: Path, seed: int, folder: Path) -> Row:
    """Mutate one certificate, check it, and judge what is called equal."""
    rng, path = random.Random(seed), folder / "mutated.json"  # noqa: S311
    for file in base.parent.glob("*.safetensors"):
        (folder / file.name).write_bytes(file.read_bytes())
    text = base.read_text("utf-8")
    if rng.random() < 0.15:
        kind = "text"
        path.write_bytes(broken_text(rng, text))
    else:
        mutation = rng.choice(DOCUMENT)
        kind, document = mutation.__name__, json.loads(text)
        mutation(rng, document, folder / base.name)
        path.write_text(json.dumps(document), "utf-8")
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = recheck.main([str(path), "--json", "--seed", str(seed), "--primes", "2"])
    said = err.getvalue().strip()[:200]
    out.getvalue().encode()  # as a terminal has it
    row: Row = {"kind": kind, "code": code, "said": said}
    if code == 0:
        row["right"] = is_right(path, json.loads(out.getvalue()))
    elif code == 2 and not said.startswith("error: "):
        row["right"] = "no error"
    return row


def onnx_case(base: Path, seed: int, folder: Path) -> Row:
    """Mutate the bytes of an ONNX file, and certify it against its original."""
    rng, path = random.Random(seed), folder / "mutated.onnx"  # noqa: S311
    own = base.with_suffix(".onnx")
    data = bytearray(own.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 3, 20))):
        at = rng.randrange(len(data))
        data[at] = rng.choice((data[at] ^ (1 << rng.randrange(8)), rng.randrange(256)))
    path.write_bytes(bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data))
    row: Row = {"kind": "onnx bytes", "code": 1}
    try:
        found = certify(str(own), str(path), output=folder / "c.json", seed=seed)
    except RegraftError as error:
        return {**row, "code": 2, "said": f"{error.code} {error.message}"[:200]}
    if found.passed:
        row.update(code=0, right=is_right(found.path, found.report))
    return row


def is_right(path: Path, report: Row) -> bool | str:
    """Whether the graphs of a certificate compute the same numbers, as far as rounded constants let them."""
    near = 1e-6 if report["constants"] else 1e-11
    try:
        return bool(difference(read_side(path, "source"), read_side(path, "target")) < near)
    except Exception as error:  # what the reference does not run is shown
        return f"{type(error).__name__}: {error}"[:300]


def apart(what: Callable[[Path, int, Path], Row], base: Path, seed: int) -> Row:
    """Run one case in a process of its own, with bounds of memory and time."""
    ours, theirs = multiprocessing.Pipe()

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with tempfile.TemporaryDirectory() as folder:
            try:
                theirs.send(what(base, seed, Path(folder)))
            except BaseException as error:
                theirs.send({"kind": what.__name__, "crash": f"{type(error).__name__}: {error}"[:300]})

    process, begin = multiprocessing.get_context("fork").Process(target=run), time.monotonic()
    process.start()
    row = ours.recv() if ours.poll(SECONDS) else {"kind": what.__name__, "crash": "no answer in time"}
    process.kill()
    process.join()
    return {**row, "base": base.stem, "seed": seed, "seconds": round(time.monotonic() - begin, 2)}


def main() -> None:
    """Print the number of cases by their ends, and each case that is a fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep every row in this file, one JSON object a line")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        found = bases(Path(folder))
        for seed in range(options.seed, options.seed + options.count):
            what = onnx_case if seed % 5 == 4 else case
            rows.append(apart(what, found[seed % len(found)], seed))
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    print(render(rows))


def render(rows: list[Row]) -> str:
    """Return a table of rows, and the rows that must not be."""
    lines = ["| kind | cases | refused | not certified | equal | crashes |", "|---|---:|---:|---:|---:|---:|"]
    for kind in sorted({row["kind"] for row in rows}):
        those = [row for row in rows if row["kind"] == kind]
        n = Counter(row.get("code") for row in those if "crash" not in row)
        crashes = sum("crash" in row for row in those)
        lines.append(f"| {kind} | {len(those)} | {n[2]} | {n[1]} | {n[0]} | {crashes} |")
    wrong = [row for row in rows if "crash" in row or row.get("right", True) is not True]
    return "\n".join([*lines, f"slowest: {max(row['seconds'] for row in rows)} s", *map(json.dumps, wrong)])


if __name__ == "__main__":
    main()
