"""What notebooks show of a graph, a report and findings: tables without scripts, whatever names say."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

import regraft

HOSTILE = "</td><script>alert(1)</script>"


class Tags(HTMLParser):
    """The tags and texts of markup, which must be balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert all(name == "open" for name, _ in attrs)
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def test_a_graph_is_its_layer_table(compared: dict[str, Any]) -> None:
    shown = Tags(compared["source"]._repr_html_())
    assert "blocks.2.norm BatchNorm2d f32[N,4,6,6] 8" in shown.text
    assert "never called; with 2 modules in it" in shown.text


def test_a_report_is_its_verdict_and_causes(compared: dict[str, Any]) -> None:
    shown = Tags(compared["report"]._repr_html_())
    assert shown.text.startswith(compared["report"].summary())
    assert "epsilon 1e-05 against 0.5" in shown.text
    assert "details" in shown.tags


def test_findings_are_a_table(compared: dict[str, Any]) -> None:
    findings = regraft.check(compared["source"])
    shown = Tags(findings._repr_html_())
    assert f"{len(findings)} finding" in shown.text
    assert all(finding.code in shown.text for finding in findings)


def test_names_are_texts(compared: dict[str, Any]) -> None:
    graph = compared["source"].copy()
    for module in graph.modules:
        module.class_name = HOSTILE
    graph.origin.notes.append(HOSTILE)
    graph.origin.reference = HOSTILE
    shown = Tags(graph._repr_html_())
    assert "script" not in shown.tags
    assert shown.text.count("alert(1)") > 10


@pytest.mark.parametrize("rows", [3, 1000])
def test_a_large_table_is_cut_and_says_so(rows: int) -> None:
    from regraft.ir import table_markup

    text = table_markup(["a"], [[at] for at in range(rows)])
    assert text.count("<tr>") == min(rows, 200) + 1
    assert ("and 800 more" in text) == (rows == 1000)
