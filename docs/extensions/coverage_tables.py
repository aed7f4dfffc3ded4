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
TARGETS = {
    "mindspore": ("MindSpore source", "MindSpore 源码"),
    "torch": ("PyTorch source", "PyTorch 源码"),
    "onnx": ("ONNX", "ONNX"),
    "rewritten": ("ONNX, rewritten", "改写后的 ONNX"),
    "fixed": ("MindSpore source, settings as constants", "MindSpore 源码，设置取为常量"),
    "files": ("files read", "读出的文件"),
    "onnx2torch": ("onnx2torch", "onnx2torch"),
}
"""Target of a run -> its column, in English and in Chinese."""
CERTIFICATE_COLUMNS = (
    ["model", "operators", "forward", "a prime", "a prime, all evaluated", "once"],
    ["模型", "运算符", "前向", "每个素数", "每个素数，全部求值", "一次"],
)
"""The columns of the cost of certificates, in English and in Chinese."""
_SHOWN = 10
"""Reasons for failures that are listed, the most frequent first."""


def write_corpora(writer: Writer, folder: Path = RESULTS) -> None:
    """Every stored run: when and of which commit, right of counted by kind and column, and what fails."""
    for name, (english, chinese) in TITLES.items():
        path = folder / f"{name}.json"
        if path.is_file():
            writer.add(f"### {chinese if writer.is_chinese else english}")
            _write_run(writer, json.loads(path.read_text(encoding="utf-8")))


def _write_run(writer: Writer, run: dict[str, Any]) -> None:
    present = {target for row in run["table"].values() for target in row}
    targets = [target for target in TARGETS if target in present]
    writer.add(_when(run["runs"], targets, is_chinese=writer.is_chinese))
    total = {
        t: [sum(row.get(t, [0, 0])[i] for row in run["table"].values()) for i in (0, 1)] for t in targets
    }
    rows = [*run["table"].items(), ("全部" if writer.is_chinese else "all", total)]
    head = ["种类" if writer.is_chinese else "kind", *(TARGETS[t][writer.is_chinese] for t in targets)]
    lines = [head, ["---", *("---:" for _ in targets)]]
    lines += [[kind, *(_share(row.get(target)) for target in targets)] for kind, row in rows]
    writer.add(*("| " + " | ".join(line) + " |" for line in lines))
    if run["failures"]:
        _write_failures(writer, run["failures"])


def _when(runs: dict[str, dict[str, str]], targets: list[str], *, is_chinese: bool) -> str:
    """When the columns were measured, and which commit; those of one run together."""
    measured: dict[tuple[str, str], list[str]] = {}
    for target in targets:
        run = runs[target]
        measured.setdefault((run["measured"], run["commit"]), []).append(TARGETS[target][is_chinese])
    lines: list[str] = []
    for (day, commit), columns in measured.items():
        if is_chinese:
            named = "、".join(columns) + "：" if len(measured) > 1 else ""
            lines.append(f"{named}测于 {day}，提交 `{commit}`")
        else:
            named = ": " + ", ".join(columns) if len(measured) > 1 else ""
            lines.append(f"on {day}, commit `{commit}`{named}")
    if is_chinese:
        return f"{'；'.join(lines)}。每格是正确的个数与所计的个数。"
    return f"Measured {'; '.join(lines)}. A cell is right of counted."


def _share(cell: list[int] | None) -> str:
    return "" if cell is None else f"{cell[0]} / {cell[1]}"


def _write_failures(writer: Writer, failures: list[dict[str, Any]]) -> None:
    """The reasons with the most cases, in the page's language, each with an example."""
    from regraft.commands.language import say_lines

    lang = "zh" if writer.is_chinese else "en"
    writer.add("不正确的原因：" if writer.is_chinese else "What is wrong with the others:")
    reasons: dict[str, list[dict[str, Any]]] = {}
    for each in failures:
        reasons.setdefault(each["why"], []).append(each)
    ordered = sorted(reasons.items(), key=lambda item: -sum(each["count"] for each in item[1]))
    lines = []
    for reason, entries in ordered[:_SHOWN]:
        kind, colon, rest = reason.partition(": ")
        why = kind + colon + say_lines(rest, lang) if colon else say_lines(kind, lang)
        counts = [f"{each['count']} {TARGETS[each['target']][writer.is_chinese]}" for each in entries]
        lines.append(f"- {', '.join(counts)}: {_code(why)} ({_code(entries[0]['cases'][0])})")
    more = len(reasons) - _SHOWN
    if more > 0:
        lines.append(f"- 以及另外 {more} 种原因" if writer.is_chinese else f"- and {more} more reasons")
    writer.add(*lines)


def _code(text: str) -> str:
    """A text as it is, whatever marks are in it."""
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def write_certificates(writer: Writer, folder: Path = RESULTS) -> None:
    """The cost of the check of a certificate, beside a forward of ONNX Runtime."""
    path = folder / "certificates.json"
    if not path.is_file():
        return
    run = json.loads(path.read_text(encoding="utf-8"))
    head = CERTIFICATE_COLUMNS[writer.is_chinese]
    lines = [head, ["---", *("---:" for _ in head[1:])]]
    for row in run["rows"]:
        ratios = [
            f"{row[key]:.2f} s ({row[key] / row['forward']:.1f})" for key in ("prime", "evaluated", "once")
        ]
        lines.append([f"`{row['model']}`", str(row["operators"]), f"{row['forward']:.3f} s", *ratios])
    day, commit = run["measured"], run["commit"]
    when = f"测于 {day}，提交 `{commit}`。" if writer.is_chinese else f"Measured on {day}, commit `{commit}`."
    writer.add(when)
    writer.add(*("| " + " | ".join(line) + " |" for line in lines))


GRADED = ("identical", "algebraic", "folded", "axioms", "tested", "different")
CORPUS_HEAD = (
    ["models", "to", "certified", *GRADED, "module calls certified", "median of a certificate", "commit"],
    ["模型", "目标", "已证明", *GRADED, "已证明的模块调用", "每份证书的中位数", "提交"],
)
TOOLS = ("onnxslim", "onnxsim", "regraft", "export")
TOOL_HEAD = (
    ["model", "onnxslim", "onnxsim", "`regraft rewrite`", "regraft's export of the live model"],
    ["模型", "onnxslim", "onnxsim", "`regraft rewrite`", "regraft 对原模型的导出"],
)
FAULT_HEAD = (
    ["change", "targets", "certified", "of these, nothing changes", "called `different`"],
    ["改动", "目标数", "已证明", "其中什么也没变", "判为 `different`"],
)


def write_certified(writer: Writer, folder: Path = RESULTS) -> None:
    """Corpora by grade and cost, files of other tools, planted faults by kind, as stored runs have them."""
    path, chinese = folder / "certified.json", writer.is_chinese
    document = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if "corpora" in document:
        rows = [_corpus_line(row) for row in document["corpora"]["rows"]]
        writer.add(*_table(CORPUS_HEAD[chinese], rows, left=2))
        reasons = [
            f"- {row['corpus']}, {row['to']}: `{case}`: {_code(why[:120])}"
            for row in document["corpora"]["rows"]
            for case, why in row["open"].items()
        ]
        if reasons:
            writer.add("未证明的：" if chinese else "Not certified:")
            writer.add(*reasons)
    if "tools" in document:
        writer.add("### 其他工具写的文件" if chinese else "### Files of other tools")
        writer.add(_stamp(document["tools"], chinese))
        cells: dict[str, dict[str, str]] = {}
        for row in document["tools"]["rows"]:
            cells.setdefault(row["model"], {})[row["tool"]] = _tool_cell(row)
        lines = [[f"`{model}`", *(by.get(tool, "") for tool in TOOLS)] for model, by in cells.items()]
        writer.add(*_table(TOOL_HEAD[chinese], lines, left=5))
    if "faults" in document:
        part = document["faults"]
        nets = f"{part['nets']} 个网络。" if chinese else f"{part['nets']} nets."
        writer.add("### 植入的错误" if chinese else "### Planted faults")
        writer.add(f"{_stamp(part, chinese)} {nets}")
        keys = ("targets", "certified", "equivalent", "different")
        lines = [[row["kind"], *(str(row[key]) for key in keys)] for row in part["rows"]]
        writer.add(*_table(FAULT_HEAD[chinese], lines, left=1))


def _stamp(part: dict[str, Any], chinese: bool) -> str:
    day, commit = part["measured"], part["commit"]
    return f"测于 {day}，提交 `{commit}`。" if chinese else f"Measured on {day}, commit `{commit}`."


def _corpus_line(row: dict[str, Any]) -> list[str]:
    grades, calls = row["grades"], row["calls"]
    fine = sum(grades.get(grade, 0) for grade in GRADED[:4])
    right, all_ = sum(calls.get(grade, 0) for grade in GRADED[:4]), sum(calls.values())
    share = f"{right} / {all_} ({100 * right / max(all_, 1):.1f} %)"
    counts = [str(grades.get(grade, 0) or "") for grade in GRADED]
    return [
        row["corpus"],
        row["to"],
        f"{fine} / {row['models']}",
        *counts,
        share,
        f"{row['seconds']:.1f} s",
        f"`{row['commit']}`",
    ]


def _tool_cell(row: dict[str, Any]) -> str:
    if "error" in row:
        return _code(row["error"][:40])
    but = ", ".join([f"{row['constants']} × {row['units']:.2g} ulp"] * bool(row["constants"]) + row["axioms"])
    return f"`{row['grade']}`" + (f" ({but})" if but and row["equal"] else "")


def _table(head: list[str], rows: list[list[str]], *, left: int) -> list[str]:
    """Return the lines of a table whose first columns are texts."""
    lines = [head, ["---" if i < left else "---:" for i in range(len(head))], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
