"""Sphinx extension: a line `% generated: NAME` becomes what the code says, which a page then cannot deny."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from checker_table import write_checker
from coverage_tables import write_certificates, write_certified, write_corpora
from difference_tables import write_differences, write_releases
from mint_table import write_mint
from sphinx.application import Sphinx
from versions_table import write_versions

from regraft.commands.helping import say_option
from regraft.commands.language import say, say_lines

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"^% generated: ([\w-]+)$", re.MULTILINE)
WORDS = {
    "part": "部分",
    "lines": "行数",
    "purpose": "用途",
    "measured": "测量",
    "equal to torch": "与 torch 相同",
    "different": "不同",
    "raises": "报错",
    "of": "总数",
    "layers, PyNative": "层，PyNative",
    "layers, graph": "层，图模式",
    "layers, gradient": "层，梯度",
    "functions, PyNative": "函数，PyNative",
    "functions, gradient": "函数，梯度",
    "Layers that raise in PyNative mode on CPU": "在 CPU 的 PyNative 模式下报错的层",
    "environment": "环境",
    "below the bound": "低于下限",
    "commit": "提交",
    "both frameworks": "两个框架",
    "A cell is passed of run, without skipped tests.": "单元格为通过数 / 运行数，不含跳过的测试。",
    "use": "用法",
    "since": "始于",
    "write": "应写",
    "source": "来源",
    "module": "模块",
    "names": "名称",
    "argument or option": "参数或选项",
    "meaning": "含义",
    "code": "代码",
    "Raised as an error": "作为错误给出",
    "Found by `regraft check`": "由 `regraft check` 报告",
    "Found by the pass": "由该 pass 报告：",
    "In the default pipeline, in order": "默认流水线，按顺序",
    "On request, by `--pass`": "按需使用（`--pass`）",
    "for this target alone, in order": "仅用于该目标，按顺序",
    "Read from": "读取自",
    "Written for": "写出到",
    "operators": "个算子",
    "Functions": "函数",
    "Classes": "类",
    "What it does": "作用",
    "Why": "原因",
    "Leaves alone": "不改动的内容",
    "Refuses": "拒绝的情形",
    "Example": "示例",
    "Attributes": "选项",
    "in PyTorch": "PyTorch 写法",
    "carried over": "照搬的写法",
    "what differs": "差别",
    "what computes PyTorch's": "与 PyTorch 相同的写法",
    "what regraft says": "regraft 的报告",
    "the module, and by how much": "模块及其差值",
    "the value": "该值",
    "No longer so": "已不再存在的差别",
    "gives the same": "结果相同的写法",
    "what a document states": "文档的说法",
}
WORDS |= {
    name: name
    for name in (
        *("Python", "torch", "onnx", "ONNX Runtime", "NumPy", "protobuf"),
        *("ONNX", "MXNet", "PyTorch", "MindSpore"),
    )
}
"""Headings and labels of generated parts -> Chinese; the parts themselves are the code's own words."""


class Writer:
    """Markdown of one language."""

    def __init__(self, *, is_chinese: bool) -> None:
        self.is_chinese = is_chinese
        self.lang = "zh" if is_chinese else "en"
        self.lines: list[str] = []

    def word(self, text: str) -> str:
        """A label in the language of the page."""
        return WORDS[text] if self.is_chinese else text

    def add(self, *lines: str) -> None:
        """Add lines and an empty one."""
        self.lines += [*lines, ""]

    def table(self, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
        """Add a table."""
        cells = [
            [self.word(h) for h in head],
            ["---"] * len(head),
            *([c.replace("|", "\\|") for c in r] for r in rows),
        ]
        self.add(*("| " + " | ".join(" ".join(c.split()) for c in row) + " |" for row in cells))


def escape(text: str) -> str:
    """Words of the code as Markdown: what it would take for marks is shown as it is."""
    return re.sub(r"([*_<\[\]])", r"\\\1", text)


def prose(text: str) -> str:
    """A paragraph of plain text or of a docstring, whose code stands between backticks."""
    parts = re.split(r"(``[^`]+``|`[^`]+`)", text)
    return "".join(f"`{p.strip('`')}`" if at % 2 else escape(p) for at, p in enumerate(parts))


def write_commands(writer: Writer) -> None:
    """Every command with its usage, text and options, as `--help` prints them."""
    from regraft.cli import main

    assert isinstance(main, click.Group)
    for name, command in main.commands.items():
        context = click.Context(command, info_name=f"regraft {name}")
        writer.add(f"## `regraft {name}`")
        writer.add("```text", context.get_usage().removeprefix("Usage: "), "```")
        _write_paragraphs(writer, command.help)
        rows = [r for p in command.params if (r := p.get_help_record(context)) is not None]
        rows = [(f"`{option}`", prose(say_option(meaning, writer.lang))) for option, meaning in rows]
        writer.table(("argument or option", "meaning"), rows)
        _write_paragraphs(writer, command.epilog)


def _write_paragraphs(writer: Writer, text: str | None) -> None:
    """Paragraphs of a help text; one that click is told to leave as it is, by a backspace, is code."""
    for paragraph in filter(None, inspect.cleandoc(text or "").split("\n\n")):
        if paragraph.startswith("\b"):
            text = textwrap.dedent(paragraph.removeprefix("\b\n"))
            writer.add("```text", say_lines(text, writer.lang), "```")
        else:
            writer.add(prose(say(" ".join(paragraph.split()), writer.lang)))


def write_codes(writer: Writer) -> None:
    """Every code with its meaning, by where it comes from."""
    from regraft.api.explanations.lookup import known_codes

    titles = {"errors": "Raised as an error", "regraft check": "Found by `regraft check`"}
    for source, codes in known_codes().items():
        if source in titles:
            writer.add(f"## {writer.word(titles[source])}")
        else:
            writer.add(f"## {writer.word('Found by the pass')} `{source}`")
        writer.table(
            ("code", "meaning"), [(f"`{c}`", prose(say(codes[c], writer.lang))) for c in sorted(codes)]
        )


def write_passes(writer: Writer) -> None:
    """Every pass with its docstring: the default pipeline, those on request, then each target's own."""
    import regraft
    from regraft.api.targets import target_names, target_passes

    known = {p.name: p for p in regraft.available_passes()}
    default = [known[p.name] for p in regraft.default_pipeline()]
    written = {p.name for p in default}
    writer.add(f"## {writer.word('In the default pipeline, in order')}")
    for made in default:
        _write_pass(writer, made)
    writer.add(f"## {writer.word('On request, by `--pass`')}")
    for made in sorted(regraft.available_passes(), key=lambda p: p.name):
        if made.name not in written:
            _write_pass(writer, made)
            written.add(made.name)
    for target in target_names():
        further = [type(p) for p in target_passes(target)]
        if further:
            writer.add(f"## `--to {target}`: {writer.word('for this target alone, in order')}")
        for made in further:
            if made.name in written:
                writer.add(f"- `{made.name}`")
            else:
                _write_pass(writer, made)
                written.add(made.name)


def _write_pass(writer: Writer, made: type) -> None:
    """One pass: the sections of its docstring as paragraphs, its example as code."""
    writer.add(f"### `{made.name}`")
    sections = re.split(r"^([A-Z][\w ]+):\n", inspect.cleandoc(made.__doc__ or ""), flags=re.MULTILINE)
    writer.add(prose(" ".join(sections[0].split())))
    for title, body in zip(sections[1::2], sections[2::2], strict=True):
        body = textwrap.dedent(body).strip("\n")
        label = writer.word(title) if title in WORDS else title
        if title == "Example":
            writer.add(f"**{label}**", "", "```python", body, "```")
        elif title == "Attributes":
            options = re.findall(r"^(\w+): ((?:.*\n?)(?:^ +.*\n?)*)", body, re.MULTILINE)
            writer.add(f"**{label}**")
            writer.add(*(f"- `{name}`: {prose(' '.join(text.split()))}" for name, text in options))
        else:
            paragraphs = [prose(" ".join(p.split())) for p in body.split("\n\n")]
            writer.add(f"**{label}**: {paragraphs[0]}")
            for paragraph in paragraphs[1:]:
                writer.add(paragraph)


def write_api(writer: Writer) -> None:
    """Every public name, from its docstring."""
    import regraft

    names = sorted(regraft.__all__)
    for title, is_wanted in (("Functions", inspect.isroutine), ("Classes", inspect.isclass)):
        writer.add(f"## {writer.word(title)}")
        for name in names:
            value = getattr(regraft, name)
            if is_wanted(value):
                _write_name(writer, name, value)


def _write_name(writer: Writer, name: str, value: object) -> None:
    writer.add(f"### `regraft.{name}`")
    kind = "autoclass" if inspect.isclass(value) else "autofunction"
    options = ["   :members:"] if inspect.isclass(value) else []
    writer.add("```{eval-rst}", f".. {kind}:: regraft.{name}", *options, "```")


def write_operators(writer: Writer) -> None:
    """How many operators each frontend reads and each backend writes, and which."""
    places = {
        "Read from": {
            "PyTorch": "frontends.torch_module.operators",
            "MindSpore": "frontends.mindspore_cell.operators",
            "MXNet": "frontends.mxnet_symbol.operators",
        },
        "Written for": {
            "MindSpore": "backends.mindspore_source.emitters",
            "MXNet": "backends.mxnet_symbol.emitters",
        },
    }
    for way, packages in places.items():
        for framework, package in packages.items():
            table = import_module(f"regraft.{package}").TABLE
            names = sorted(_names_of(table))
            count = f"{len(names)} {writer.word('operators')}"
            writer.add(f"## {writer.word(way)} {framework}: {count}")
            writer.add(", ".join(f"`{name}`" for name in names))


def _names_of(table: Any) -> set[str]:
    """Operators of a frontend's lowering table, or of a backend's table of emitters."""
    if hasattr(table, "names"):
        return set(table.names())
    return {*table.layers, *table.calls} if hasattr(table, "layers") else set(table)


def write_measured(name: str) -> Callable[[Writer], None]:
    """The tables of a page that a benchmark wrote, without its title and without rows for single nets."""

    def write(writer: Writer) -> None:
        text = (ROOT / "benchmarks" / f"{name}.md").read_text(encoding="utf-8").split("\n", 1)[1]
        writer.add(re.split(r"^\| net and target ", text, flags=re.MULTILINE)[0].strip())

    return write


GENERATED: dict[str, Callable[[Writer], None]] = {
    "commands": write_commands,
    "codes": write_codes,
    "passes": write_passes,
    "api": write_api,
    "operators": write_operators,
    "corpora": write_corpora,
    "certificates": write_certificates,
    "certified": write_certified,
    "checker": write_checker,
    "differences": write_differences,
    "releases": write_releases,
    "mint": write_mint,
    "versions": write_versions,
    **{name: write_measured(name) for name in ("mutants", "right", "kills")},
}


def generate(name: str, *, is_chinese: bool = False) -> str:
    """Return a generated part as Markdown.

    Raises:
        KeyError: for a part that nothing generates.
    """
    writer = Writer(is_chinese=is_chinese)
    GENERATED[name](writer)
    return "\n".join(writer.lines)


def fill(app: Sphinx, _page: str, source: list[str]) -> None:
    """Put generated parts into a page as it is read."""
    is_chinese = app.config.language == "zh_CN"
    source[0] = LINE.sub(lambda found: generate(found[1], is_chinese=is_chinese), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
