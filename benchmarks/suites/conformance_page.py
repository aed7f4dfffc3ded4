"""The page of ONNX's own test suite: what is right in each mode, and every refusal with its reason.

    python benchmarks/suites/conformance_page.py ROWS.jsonl [ROWS.jsonl ...] [--page FILE]

Rows are the rows.jsonl of a sweep of conformance.toml; those of one case in several files are joined.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance import FIXED, KINDS, MODES, PEER
from verdicts import read_rows, wrong

PAGE = Path(__file__).resolve().parents[2] / "docs" / "en" / "reference" / "conformance.md"
TITLES = {
    "node": "node tests",
    "simple": "small models",
    "pytorch-operator": "operators exported by torch",
    "pytorch-converted": "modules exported by torch",
    "light": "light models of the zoo",
}
HEADS = {
    "onnx": "read and written to ONNX",
    "rewritten": "rewritten by the default passes, then written",
    "mindspore": "emitted as MindSpore source and run",
    "torch": "emitted as PyTorch source and run",
    PEER: "made a module by onnx2torch 1.5.15 and run",
}
TARGETS = {"onnx": "ONNX", "rewritten": "ONNX, rewritten", "mindspore": "MindSpore", "torch": "PyTorch"}
SOURCES = {"mindspore": "MindSpore", "torch": "PyTorch"}
Row = dict[str, Any]

INTRODUCTION = """\
# ONNX's own test suite

The `onnx` package brings node tests, cases exported by torch and light models, with the outputs that are
expected. Each is read, written and run; it is right when every output has the expected shape, element type
and values, within the case's own tolerance. `make conformance` runs it and writes this page.

Cases are judged whose operators are of the domain `ai.onnx`: for ONNX where ONNX Runtime itself is right on
the original file; for MindSpore and PyTorch where all types are those that both have (no strings, sequences,
complex numbers, bfloat16, or numbers of fewer than 8 bits) and nothing is drawn at random.

Many node tests give axes, shapes and counts as inputs of the model. They are inputs of the emitted net too,
and may differ from call to call. A case that MindSpore source refuses as it stands is run again with
**settings given as inputs taken as constants**; cases that are right only so stand in a column of their own.
In most models they are constants already; where they are not and are refused, make initializers of them.
"""

BESIDE = """\
The column beside PyTorch source has the modules that onnx2torch makes of the same cases in the same run. Its
forms of `RoiAlign` and `NonMaxSuppression` need operators of torchvision, which the run did not have.
"""


def joined(files: Iterable[Path]) -> list[Row]:
    """What is wrong with each case in each mode that counts it: one row a case."""
    found: dict[str, Row] = {}
    for file in files:
        for row in read_rows(file):
            found.setdefault(row["name"], {"id": row["name"]})[row["step"]] = wrong(row)
    return list(found.values())


def page(rows: list[Row]) -> str:
    """The page of these rows."""
    modes = [m for m in MODES if any(m in row for row in rows)]
    judged = {m: [r for r in rows if m in r] for m in modes}
    failing = {m: [r for r in judged[m] if not _is_right(r, m)] for m in modes if m != PEER}
    parts = [
        INTRODUCTION,
        *([BESIDE] if PEER in modes else []),
        "## How many are right\n",
        _table(judged),
        "## What is not right\n",
        _reasons(failing),
    ]
    return "\n".join(parts)


def _is_right(row: Row, mode: str) -> bool:
    """Whether a case is right in a mode, with settings as constants where it was refused without."""
    return not row[mode] or (mode == "mindspore" and FIXED in row and not row[FIXED])


def _table(judged: dict[str, list[Row]]) -> str:
    heads = [HEADS[mode] for mode in judged]
    if "mindspore" in judged:
        heads.insert(list(judged).index("mindspore") + 1, "more, with settings as constants")
    lines = ["| cases | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for kind in (*KINDS, ""):
        cells = [TITLES[kind] if kind else "**all**"]
        for mode, rows in judged.items():
            own = [r for r in rows if not kind or r["id"].startswith(f"{kind}/")]
            right = sum(not r[mode] for r in own)
            cells.append(f"{right} of {len(own)}" + (f" ({right / len(own):.1%})" if own else ""))
            if mode == "mindspore":
                fixed = sum(FIXED in r and not r[FIXED] for r in own)
                both = right + fixed
                cells.append(
                    f"{fixed}" + (f": {both} of {len(own)} ({both / len(own):.1%})" if fixed else "")
                )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _reasons(failing: dict[str, list[Row]]) -> str:
    """What is refused, grouped by operator and reason, and what ends otherwise."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for mode, rows in failing.items():
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for row in rows:
            found[reason(_last(row, mode), mode)].append(row["id"].split("/")[1].removeprefix("test_"))
        for (what, why), names in found.items():
            groups[what, why, tuple(names)].append(TARGETS[mode])
    lines = ["| what | why | to | cases |", "|---|---|---|---|"]
    for (what, why, names), targets in sorted(groups.items(), key=lambda item: (-len(item[0][2]), item[0])):
        most = len(names) if "other values" in what else 3  # every one of those is named
        shown = ", ".join(f"`{name}`" for name in names[:most]) + (", …" if len(names) > most else "")
        lines.append(f"| {what} | {_cell(why)} | {', '.join(targets)} | {len(names)}: {shown} |")
    return "\n".join([*lines, ""])


def _last(row: Row, mode: str) -> list[str]:
    """What a case ended with: where settings were constants too, if any are inputs."""
    fixed = row.get(FIXED, []) if mode == "mindspore" else []
    return fixed if fixed and "no setting" not in fixed[0] else row[mode]


def reason(found: list[str], mode: str) -> tuple[str, str]:
    """(what is refused or goes wrong, why) of what a case ended with."""
    text = "; ".join(found)
    if found[0].startswith("output "):
        return "**other values**", re.sub(r"\d+ values apart.*", "values apart", found[0].partition(": ")[2])
    if not found[0].startswith("UnsupportedError"):
        kind, _, rest = found[0].partition(":")
        return f"an error at run time: {kind}", rest.strip().splitlines()[0] if rest.strip() else kind
    operators = re.findall(r"^\s*([\w.]+): \d+ use", text, re.MULTILINE)
    because = re.search(r"^\s*because (.*)", text, re.MULTILINE)
    if operators:
        own = f"neither a form in {SOURCES.get(mode)} source nor a definition that leads to one"
        why = because[1] if because else own if "E601" in text else "the IR does not carry it"
        return ", ".join(f"`{name}`" for name in operators), why
    first = re.sub(r"^UnsupportedError: E\d+ ", "", found[0].splitlines()[0]).partition(" - at ")[0]
    named = re.match(r"`(\w+)`: (.*)", first)
    return (f"`{named[1]}`", named[2]) if named else ("the model", first)


def _cell(text: str) -> str:
    return re.sub(r"([*_<\[\]])", r"\\\1", re.sub(r"`[^`]*`", lambda m: m[0], text)[:160]).replace("|", "\\|")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="+", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    options.page.write_text(page(joined(options.rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
