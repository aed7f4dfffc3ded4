"""The tables of coverage: what stored runs of the corpora found, `benchmarks/results/*.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from generated_reference import Writer

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
TITLES = {
    "torch": ("PyTorch modules", "PyTorch 模块"),
    "mindspore": ("MindSpore Cells", "MindSpore 的 Cell"),
    "mxnet": ("MXNet symbols", "MXNet 的符号"),
    "conformance": ("ONNX's conformance suite", "ONNX 的一致性测试集"),
}
"""Name of a stored run -> what it ran on, in English and in Chinese."""
_SHOWN = 10
"""Reasons for failures that are listed, the most frequent first."""


def write_corpora(writer: Writer, folder: Path = RESULTS) -> None:
    """Every stored run: when and of which commit, right of counted by kind and target, and what fails."""
    for name, (english, chinese) in TITLES.items():
        path = folder / f"{name}.json"
        if path.is_file():
            writer.add(f"### {chinese if writer.is_chinese else english}")
            _write_run(writer, json.loads(path.read_text(encoding="utf-8")))


def _write_run(writer: Writer, run: dict[str, Any]) -> None:
    targets = list(dict.fromkeys(target for row in run["table"].values() for target in row))
    if writer.is_chinese:
        writer.add(f"测于 {run['measured']}，提交 `{run['commit']}`。每格是正确的个数与所计的个数。")
    else:
        writer.add(f"Measured on {run['measured']}, commit `{run['commit']}`. A cell is right of counted.")
    total = {
        t: [sum(row.get(t, [0, 0])[i] for row in run["table"].values()) for i in (0, 1)] for t in targets
    }
    rows = [*run["table"].items(), ("全部" if writer.is_chinese else "all", total)]
    head = ["种类" if writer.is_chinese else "kind", *(f"`{target}`" for target in targets)]
    lines = [head, ["---", *("---:" for _ in targets)]]
    lines += [[kind, *(_share(row.get(target)) for target in targets)] for kind, row in rows]
    writer.add(*("| " + " | ".join(line) + " |" for line in lines))
    if run["failures"]:
        _write_failures(writer, run["failures"])


def _share(cell: list[int] | None) -> str:
    return "" if cell is None else f"{cell[0]} / {cell[1]}"


def _write_failures(writer: Writer, failures: list[dict[str, Any]]) -> None:
    """The reasons with the most cases, in the page's language, each with an example."""
    from regraft.commands.language import say_lines

    lang = "zh" if writer.is_chinese else "en"
    writer.add("不正确的原因：" if writer.is_chinese else "What is wrong with the others:")
    lines = []
    for each in failures[:_SHOWN]:
        kind, colon, rest = each["why"].partition(": ")
        why = kind + colon + say_lines(rest, lang) if colon else say_lines(kind, lang)
        count = f"{each['count']} 个" if writer.is_chinese else str(each["count"])
        lines.append(f"- {count}: {_code(why)} ({_code(each['cases'][0])})")
    more = len(failures) - _SHOWN
    if more > 0:
        lines.append(f"- 以及另外 {more} 种原因" if writer.is_chinese else f"- and {more} more reasons")
    writer.add(*lines)


def _code(text: str) -> str:
    """A text as it is, whatever marks are in it."""
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"
