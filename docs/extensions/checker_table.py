"""The table of the parts of the checker of certificates: how long each is, and what it is for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generated_reference import Writer

CHECKER = Path(__file__).resolve().parents[2] / "verification" / "certificate" / "recheck.py"
PARTS = {
    "reading": (
        "JSON and tensors as hostile data: forms, bounds, digests",
        "把 JSON 与张量当作恶意数据读取：形式、界限、摘要",
    ),
    "prime fields": (
        "arithmetic modulo a prime, keyed hashes, exact images of floats",
        "模素数的算术、带密钥的哈希、浮点数的精确像",
    ),
    "terms": (
        "functions of terms: their normal form, and what each computes; most certificates end here",
        "项的函数：规范形式与各自的计算；多数证书到此即有结论",
    ),
    "operators": (
        "ONNX's operators as terms, with their attributes and types",
        "以项表示的 ONNX 运算符，连同属性与类型",
    ),
    "evaluation": (
        "both graphs side by side, values that are let go when nothing reads them, nested graphs",
        "并行求值两个图，不再读取的值即释放，嵌套图",
    ),
    "definitions of rounded constants": (
        "expressions in floats with a bound of their error",
        "以浮点数计算表达式，并给出误差上界",
    ),
    "grades": ("grades of module calls and of the whole", "模块调用与整体的等级"),
    "the command": ("options, the report for people, bounds of memory", "选项、供人阅读的报告、内存界限"),
}
"""Part, as its heading in the file names it -> its purpose, in English and in Chinese."""


def write_checker(writer: Writer) -> None:
    """Count the lines of each part of the file."""
    pieces = re.split(r"^# -- (.+?) -+$", CHECKER.read_text(encoding="utf-8"), flags=re.MULTILINE)
    counts = dict(zip(pieces[1::2], (part.count("\n") for part in pieces[2::2]), strict=True))
    rows = [(f"`{name}`", str(n), PARTS[name][writer.is_chinese]) for name, n in counts.items()]
    writer.table(("part", "lines", "purpose"), rows)
