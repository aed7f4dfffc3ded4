"""The tables of what differs between PyTorch and MindSpore, and between releases of MindSpore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regraft.commands.language import say
from regraft.diagnosis.versions import CODES as RELEASES
from regraft.diagnosis.versions import SOURCES, facts
from regraft.frontends.differences import COMPUTED, FAMILIES, FORMER, Difference

if TYPE_CHECKING:
    from generated_reference import Writer

_HEAD = ("in PyTorch", "carried over", "what differs", "what computes PyTorch's", "what regraft says")
TITLES = {
    "Convolutions and pools": "卷积与池化",
    "Layers": "层",
    "Reductions": "归约",
    "Shapes, indices and linear algebra": "形状、索引与线性代数",
    "Resizing, sampling and padding": "缩放、采样与填充",
    "Arithmetic": "算术",
    "Losses": "损失",
    "Optimizers": "优化器",
    "Learning rates": "学习率",
    "Initial values": "初始值",
    "Training state": "训练状态",
    "Random numbers": "随机数",
}
"""Title of a family -> Chinese."""


def write_differences(writer: Writer) -> None:
    """Every row by family, then what MindSpore's documents state and is so no more."""
    for title, rows in FAMILIES.items():
        writer.add(f"## {TITLES[title] if writer.is_chinese else title}")
        writer.table(_HEAD, [_row(writer, row, computed=title in COMPUTED) for row in rows])
    writer.add(f"## {writer.word('No longer so')}")
    rows = [(_code(f.torch), _code(f.mindspore), say(f.stated, writer.lang)) for f in FORMER]
    writer.table(("in PyTorch", "gives the same", "what a document states"), rows)


def _row(writer: Writer, row: Difference, *, computed: bool) -> tuple[str, ...]:
    here, there = say(row.here, writer.lang), say(row.there, writer.lang)
    differs = (
        f"MindSpore：{here}；torch：{there}" if writer.is_chinese else f"MindSpore's {here}; torch's {there}"
    )
    says = [f"`check`: {row.code}"] if row.code else []
    if computed and row.said:
        says.append(f"`verify`: {_code(row.said)}")
    elif computed:
        says.append(f"`verify`: {writer.word('the module, and by how much')}")
    elif not says:
        says.append(f"`verify --train`: {writer.word('the value')}")
    return _code(row.torch), _code(row.naive), differs, _code(row.right), "; ".join(says)


def _code(text: str) -> str:
    return f"`{text}`"


def write_releases(writer: Writer) -> None:
    """Every use that a release of MindSpore removes, changes or marks for removal, by code."""
    rows = [fact for fact in facts() if fact.code != "MV105"]
    for code in dict.fromkeys(fact.code for fact in rows):
        writer.add(f"## {code}: {say(RELEASES[code], writer.lang)}")
        table = [
            (
                _code(f"{fact.name}({fact.argument}=…)" if fact.argument else fact.name),
                fact.since,
                say(fact.write, writer.lang),
                _source(writer, SOURCES[fact.source]),
            )
            for fact in rows
            if fact.code == code
        ]
        writer.table(("use", "since", "write", "source"), table)
    writer.add(f"## MV105: {say(RELEASES['MV105'], writer.lang)}")
    marked: dict[tuple[str, str], list[str]] = {}
    for fact in facts():
        if fact.code == "MV105":
            module, _, name = fact.name.rpartition(".")
            marked.setdefault((fact.since, module), []).append(_code(name))
    writer.table(
        ("module", "since", "names"),
        [(_code(module), since, ", ".join(names)) for (since, module), names in marked.items()],
    )


def _source(writer: Writer, source: str) -> str:
    return f"<{source}>" if source.startswith("https:") else say(source, writer.lang)
