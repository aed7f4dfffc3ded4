"""The last sweeps beside this one: in a file, in a few characters, on a page that sorts."""

from dataclasses import replace
from pathlib import Path

import pytest

from regraft.commands.sweeping import Row
from regraft.commands.sweeping.comparing import compare_rows
from regraft.commands.sweeping.history import KEPT, Past, added, read_history
from regraft.commands.sweeping.tables import write_tables
from regraft.commands.sweeping.totals import totals
from regraft.commands.sweeping.trends import trend_in_svg, trend_in_text
from regraft.ir import UsageError

ROWS = [
    Row("a", "onnx", "equal", cpu=4, group="nets"),
    Row("b", "onnx", "refused", cpu=1, group="ops"),
    Row("c", "onnx", "not judged", group="ops"),
    Row("a", "mindspore", "equal", cpu=2, group="nets"),
]
HISTORY = [
    Past("2026-01-01 04:00", "1.0", {("a", "onnx"): ("equal", 2.0)}),
    Past("2026-01-02 04:00", "1.1", {("a", "onnx"): ("different", 1.0), ("b", "onnx"): ("not judged", 0.0)}),
    Past("2026-01-03 04:00", "1.2", {("a", "onnx"): ("equal", 4.0), ("b", "onnx"): ("refused", 1.0)}),
]


def test_totals_leave_out_what_was_not_judged() -> None:
    assert totals(ROWS) == (
        ["group", "onnx", "mindspore"],
        [["nets", "1 of 1", "1 of 1"], ["ops", "0 of 1", ""], ["all", "1 of 2", "1 of 1"]],
    )


def test_a_case_that_is_no_longer_judged_is_a_regression_where_it_was_right() -> None:
    before = [Row("c", "onnx", "equal")]
    assert compare_rows([ROWS[2]], before)[0].change == "regression"
    assert compare_rows(before, [ROWS[2]])[0].change == "new"
    assert compare_rows([ROWS[2]], [Row("c", "onnx", "refused")])[0].change == ""


def test_a_trend_shows_verdicts_and_seconds() -> None:
    assert trend_in_text(("a", "onnx"), HISTORY) == "▅✗█"
    assert trend_in_text(("b", "onnx"), HISTORY) == "·-✗"
    assert trend_in_svg(("b", "onnx"), HISTORY).count("<path") == 2


def test_a_history_is_read_as_it_was_written_and_has_a_sweep_a_day_and_label(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert read_history(path) == []
    path.write_text("".join(past.to_line() for past in HISTORY), encoding="utf-8")
    assert read_history(path) == HISTORY
    once = added(HISTORY, ROWS, "2.0")
    assert once[:3] == HISTORY
    assert once[3].results["a", "onnx"] == ("equal", 4)
    assert len(added(once, ROWS, "2.0")) == 4
    assert len(added(once, ROWS, "2.1")) == 5
    many = HISTORY * 20
    assert len(added(many, ROWS, "3")) == KEPT


@pytest.mark.parametrize("text", ["{", "[]", '{"at": "x", "label": "y", "rows": [["a", "b", "fine", 1]]}'])
def test_what_is_no_history_is_an_error_with_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"history\.jsonl:1"):
        read_history(path)


def test_totals_stand_in_the_order_of_the_suite_whatever_got_worse(tmp_path: Path) -> None:
    worse = [replace(row, verdict="equal") if row.step == "mindspore" else row for row in ROWS]
    now = [*ROWS[:3], replace(ROWS[3], verdict="refused")]
    write_tables(tmp_path, now, worse)
    assert "| group | onnx | mindspore |" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "<th>onnx</th><th>mindspore</th>" in (tmp_path / "table.html").read_text(encoding="utf-8")


def test_tables_have_totals_and_trends_and_reach_for_nothing(tmp_path: Path) -> None:
    write_tables(tmp_path, ROWS, title="zoo", history=HISTORY)
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| nets | 1 of 1 | 1 of 1 |" in text
    assert "| 2026-01-03 04:00 | 1.2 | 1 of 2 | 0.00 |" in text
    assert "| ▅✗█ |" in text
    page = (tmp_path / "table.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
    assert page.count("<script>") == 1
