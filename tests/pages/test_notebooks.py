"""What notebooks show of a graph, a report and findings: tables without scripts, whatever names say."""

from __future__ import annotations

import ast
import json
from html.parser import HTMLParser
from pathlib import Path
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


NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


def _shown(source: str, space: dict[str, Any]) -> object:
    """Run a cell, and return the value of its last expression as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), space)


def test_the_notebook_runs_and_shows_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    document = json.loads(NOTEBOOK.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    cells = document["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
    space: dict[str, Any] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            value = _shown("".join(cell["source"]), space)
            if hasattr(value, "_repr_html_"):
                shown.append(Tags(value._repr_html_()).text)
    checked, graph, verified, difference, data = shown
    assert "RP101" in checked
    assert "LeNet" in graph
    assert verified.startswith("equal")
    assert "head" in difference
    assert "labels" in data or "1" in data


def test_texts_of_files_are_escaped_everywhere(tmp_path: Path) -> None:
    from regraft.api.findings import FileFindings, Findings
    from regraft.api.fixes import Fixed
    from regraft.ir.difference.result import Facet, GraphDifference, ModuleRow
    from regraft.verification.pipelines.result import DataReport, FieldRow, Finding

    change = regraft.Change("RP101", HOSTILE, HOSTILE, "error", advice=HOSTILE)
    found = Findings([change], {HOSTILE: HOSTILE}, [HOSTILE])
    row = FieldRow((HOSTILE, "b"), ((2,), None), (HOSTILE, "f4"), ((), ()))
    for value in (
        FileFindings({HOSTILE: found}, {HOSTILE: HOSTILE}),
        Fixed(tmp_path, HOSTILE, [change], [change], [HOSTILE]),
        DataReport((HOSTILE, ""), [Finding(HOSTILE, HOSTILE, (3, 0), HOSTILE, HOSTILE)], [row], 1, [HOSTILE]),
        GraphDifference(
            ("", ""), ModuleRow("=", "", "", "", ""), [], [Facet(HOSTILE, HOSTILE, HOSTILE)], [HOSTILE]
        ),
    ):
        shown = Tags(value._repr_html_())
        assert "script" not in shown.tags
        assert "alert(1)" in shown.text
