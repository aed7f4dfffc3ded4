"""Certificates of real models, by grade, cost, tool and fault, stored with their commit for the page on them.

    CORPORA=path/to/corpora python benchmarks/certified.py sweep A|B|C|mxnet|mindcv ROWS [--every N] [--to F]
    python benchmarks/certified.py tools ROWS        # PYTHONPATH with onnxslim and onnxsim: `make optimisers`
    python benchmarks/certified.py store ROWS… [--faults ROWS…] [--commit HASH]

A sweep rewrites models of the corpora (checkouts of their own: torchvision, timm, transformers, MXNet's zoo,
mindcv; images of 64x64, at most 30 million parameters), writes them, reads them back, certifies them, each in
a process of its own. `tools` certifies what onnxslim, onnxsim and regraft make of files that torch exported,
and regraft's own export. `--faults` are rows of `python -m regraft.benchmarks.mutation.certified --out`.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import math
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("results") / "certified.json"
NAMES = {
    "A": "torchvision", "B": "timm", "C": "transformers", "mxnet": "MXNet zoo", "mindcv": "mindcv",
}  # fmt: skip
CERTIFIED = ("identical", "algebraic", "folded", "axioms")
LARGEST = 30e6
SIDE = 64
UNITS = (0.5, 64.0)
Row = dict[str, Any]
Case = tuple[str, Callable[[Path], Any]]


# -- cases: a name, and what loads the graph ---------------------------------------------------------------


def torch_cases(corpus: str) -> Iterator[Case]:
    """Models of torchvision, timm and transformers, on small images where they take them."""
    sys.path.insert(0, str(Path(os.environ["CORPORA"], "torch")))
    import cases  # type: ignore[import-not-found]
    import split  # type: ignore[import-not-found]
    import torch

    torch.set_num_threads(1)
    whole = cases.rnd

    def small(*shape: int, seed: int = 7) -> Any:
        square = len(shape) == 4 and shape[-1] == shape[-2] and shape[-1] in (96, 128)
        return whole(*((*shape[:2], SIDE, SIDE) if square else shape), seed=seed)

    def load(case: Any) -> Any:
        import regraft

        cases.rnd = small
        try:
            model, inputs, named = case.make()
            with torch.no_grad():
                model(*inputs, **named)
        except Exception:  # it takes images of one size
            cases.rnd = whole
            model, inputs, named = case.make()
        if named or sum(p.numel() for p in model.parameters()) > LARGEST:
            raise LookupError("too large")
        return regraft.load(model, inputs)

    cases.preload(corpus)
    for case in cases.iter_cases(corpus):
        if split.is_public(case.id):
            yield case.id, lambda _, case=case: load(case)


def windows_fit(graph: Any) -> bool:
    """Whether no pool's window is larger than its padded image, which runtimes may still accept."""
    for node in graph.operators():
        pools = node.traits.pool and "kernel_shape" in node.signature.attributes
        kernel = node.ints("kernel_shape") if pools else None
        if kernel:
            n, pads = len(kernel), node.spatial("pads", len(kernel))
            sizes = (graph.type_of(graph.operands(node.key)[0]).shape or ())[2:]
            room = zip(kernel, sizes, pads[:n], pads[n:], strict=False)
            if any(isinstance(d, int) and k > d + before + after for k, d, before, after in room):
                return False
    return True


def mxnet_cases() -> Iterator[Case]:
    """Symbols of MXNet's zoos."""
    folder = str(Path(os.environ["CORPORA"], "mxnet"))
    sys.path.insert(0, folder)
    import corpus  # type: ignore[import-not-found]
    import onnxruntime

    there = corpus.Corpus(folder)

    def load(name: str, room: Path) -> Any:
        import regraft

        case, prefix = there.case(name), str(room / "case")
        case.write(prefix)
        given = {k: v[:1] if v.ndim > 1 else v for k, v in case.inputs().items()}
        small = {k: v[:, :, :SIDE, :SIDE] if v.ndim == 4 else v for k, v in given.items()}
        try:
            graph = regraft.load(f"{prefix}-symbol.json", small)
            regraft.save(regraft.rewrite(graph).graph, room / "small.onnx")
            session = onnxruntime.InferenceSession(room / "small.onnx")
            session.run(None, {i.name: small[i.name] for i in session.get_inputs()})
        except Exception:  # it takes images of one size
            return regraft.load(f"{prefix}-symbol.json", case.inputs())
        return graph if windows_fit(graph) else regraft.load(f"{prefix}-symbol.json", case.inputs())

    for row in json.loads(Path(folder, "index.json").read_text("utf-8"))["cases"]:
        if row["kind"] == "zoo":
            yield row["id"], lambda room, name=row["id"]: load(name, room)


def mindspore_cases() -> Iterator[Case]:
    """Cells of mindcv."""
    folder = str(Path(os.environ["CORPORA"], "mindspore"))
    sys.path.insert(0, folder)

    def load(name: str) -> Any:
        import cases  # type: ignore[import-not-found]
        import numpy as np

        import regraft

        net, inputs = cases.make(name)
        arrays = [None if x is None else x.asnumpy() for x in inputs]
        try:
            small = [
                x if x is None or x.ndim != 4 else np.ascontiguousarray(x[:1, :, :SIDE, :SIDE])
                for x in arrays
            ]
            return regraft.load(net, small)
        except Exception:  # it takes images of one size
            return regraft.load(net, arrays)

    for name, _, corpus in json.loads(Path(folder, "index.json").read_text("utf-8")):
        if corpus == "mindcv":
            yield name, lambda _, name=name: load(name)


def cases_of(corpus: str) -> Iterator[Case]:
    """Cases of one corpus."""
    others = {"mxnet": mxnet_cases, "mindcv": mindspore_cases}
    return others[corpus]() if corpus in others else torch_cases(corpus)


# -- rows --------------------------------------------------------------------------------------------------


def certified(load: Callable[[Path], Any], to: str, put: Callable[[Row], None]) -> None:
    """Rewrite, write and certify one model; what is known is put step by step."""
    import regraft

    with tempfile.TemporaryDirectory() as room:
        graph = load(Path(room))
        put({"loaded": True})
        written = Path(room, "written.onnx" if to == "onnx" else "written")
        regraft.save(regraft.rewrite(graph).graph, written, to=None if to == "onnx" else to)
        begin = time.process_time()
        put({"written": True})
        report = regraft.certify(graph, written, output=Path(room, "c.json"), seed=5).report
        keys = ("grade", "equal", "counts", "why", "tested", "constants", "units")
        axioms = list(report["axioms"])
        seconds = time.process_time() - begin
        put({k: report[k] for k in keys} | {"axioms": axioms, "seconds": seconds})


def sweep(corpus: str, to: str, every: int, first: int, seconds: float, out: Path) -> None:
    """Certify every n-th model of a corpus, each in a process that has some seconds of processor time."""
    for name, load in list(cases_of(corpus))[first::every]:
        ours, theirs = multiprocessing.Pipe()

        def run(load: Callable[[Path], Any] = load, theirs: Any = theirs) -> None:
            used = time.process_time()
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds), resource.RLIM_INFINITY))
            try:
                certified(load, to, theirs.send)
            except BaseException as error:
                theirs.send({"error": f"{type(error).__name__}: {error}"[:300]})

        process = multiprocessing.get_context("fork").Process(target=run)
        process.start()
        theirs.close()
        row: Row = {"corpus": corpus, "case": name, "to": to}
        with contextlib.suppress(EOFError):
            while True:
                row |= ours.recv()
        process.join()
        if process.exitcode:
            row["error"] = "over time"
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(name, row.get("grade") or row.get("error"), row.get("why", [])[:3], flush=True)


def _write(model: Any, example: Any, _: Path, file: Path) -> None:
    """Write regraft's own export of a live model."""
    import regraft

    regraft.save(regraft.rewrite(regraft.load(model, (example,))).graph, file)


def tools(out: Path) -> None:
    """Certify what each tool makes of each file that torch exported, and regraft's export of the live model.

    Units are half of one, else 64.
    """
    import onnx_files
    import optimisers

    import regraft

    export, live = onnx_files._export, list[Any]()

    def noted(model: Any, example: Any, file: Path) -> None:
        export(model, example, file)
        live.append((model, example))

    onnx_files._export = noted
    with tempfile.TemporaryDirectory() as folder:
        for name, make in optimisers.FILES.items():
            source = Path(folder, f"{name}.onnx")
            live.clear()
            make(source)
            ways: dict[str, Callable[[Path, Path], object]] = dict(optimisers.TOOLS)
            if live:
                ways["export"] = partial(_write, *live[0])
            for tool, way in ways.items():
                target, row = Path(folder, f"{name}.{tool}.onnx"), {"model": name, "tool": tool}
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        way(source, target)
                    for units in UNITS:
                        output = Path(folder, "c.json")
                        found = regraft.certify(source, target, output=output, seed=3, units=units)
                        keys = ("grade", "equal", "constants", "units")
                        row |= {k: found.report[k] for k in keys} | {"axioms": list(found.report["axioms"])}
                        if found.passed:
                            break
                except Exception as error:
                    row["error"] = f"{type(error).__name__}: {error}"[:300]
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


# -- what is stored ----------------------------------------------------------------------------------------


def corpora(rows: list[Row]) -> list[Row]:
    """One row a corpus and format: models and module calls by grade, reasons, seconds of a certificate."""
    found: list[Row] = []
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("written"):
            groups[NAMES[row["corpus"]], row["to"]].append(row)
    for (name, to), those in groups.items():
        calls: Counter[str] = Counter()
        for row in those:
            calls.update(row.get("counts", {}))
        grades = Counter(row.get("grade", "none") for row in those)
        open_ = [row for row in those if not row.get("equal")]
        reasons = {r["case"]: "; ".join(r.get("why", [])) or r.get("error", "") for r in open_}
        seconds = sorted(row["seconds"] for row in those if "seconds" in row)
        median = round(seconds[len(seconds) // 2], 2) if seconds else 0.0
        found.append(
            {"corpus": name, "to": to, "models": len(those), "grades": dict(grades), "calls": dict(calls)}
            | {"seconds": median, "open": reasons}
        )
    return found


def faults(rows: list[Row]) -> list[Row]:
    """One row a kind of fault: how many, certified, of these changing nothing, called different."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["grade"] not in ("invalid", "refused") and row["kind"]:
            groups[row["kind"]].append(row)
    return [
        {
            "kind": kind,
            "targets": len(those),
            "certified": sum(bool(r.get("certified")) for r in those),
            "equivalent": sum(bool(r.get("equivalent")) for r in those),
            "different": sum(r["grade"] == "different" for r in those),
        }
        for kind, those in sorted(groups.items(), key=lambda row: (row[0] != "right", row[0]))
    ]


def read(paths: list[Path]) -> list[Row]:
    """Read rows, one JSON object a line."""
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def store(paths: list[Path], fault_paths: list[Path], commit: str) -> None:
    """Write the document that the page shows; a part without rows stays."""
    document = json.loads(STORED.read_text("utf-8")) if STORED.is_file() else {}
    rows, planted = read(paths), read(fault_paths)
    if not commit:
        head = ["git", "rev-parse", "--short=8", "HEAD"]
        commit = subprocess.run(head, cwd=STORED.parent, capture_output=True, text=True, check=True).stdout
    day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    stamp = {"measured": day, "commit": commit.strip()}
    parts = {
        "corpora": [{**stamp, **row} for row in corpora([row for row in rows if "corpus" in row])],
        "tools": [row for row in rows if "tool" in row],
        "faults": faults(planted),
    }
    measured = {(row["corpus"], row["to"]) for row in parts["corpora"]}
    before = document.get("corpora", {"rows": []})["rows"]  # of a corpus that was not measured now
    parts["corpora"] += [row for row in before if (row["corpus"], row["to"]) not in measured]
    order = list(NAMES.values())
    parts["corpora"].sort(key=lambda row: (row["to"] != "onnx", order.index(row["corpus"])))
    for name, those in parts.items():
        if those:
            document[name] = {"rows": those} if name == "corpora" else {**stamp, "rows": those}
    if planted:
        document["faults"]["nets"] = len({row["net"] for row in planted})
    STORED.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run a part, or store what parts have found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("sweep")
    part.add_argument("corpus", choices=NAMES)
    part.add_argument("out", type=Path)
    part.add_argument("--every", type=int, default=1)
    part.add_argument("--first", type=int, default=0)
    part.add_argument("--to", default="onnx")
    part.add_argument("--seconds", type=float, default=150)
    parts.add_parser("tools").add_argument("out", type=Path)
    part = parts.add_parser("store")
    part.add_argument("rows", nargs="*", type=Path)
    part.add_argument("--faults", nargs="*", type=Path, default=[])
    part.add_argument("--commit", default="")
    given = parser.parse_args()
    if given.part == "sweep":
        sweep(given.corpus, given.to, given.every, given.first, given.seconds, given.out)
    elif given.part == "tools":
        tools(given.out)
    else:
        store(given.rows, given.faults, given.commit)


if __name__ == "__main__":
    main()
