"""Cases that a function gives and another judges: many in a process, each with its limits and its row."""

import os
import time
from pathlib import Path

import pytest

from regraft.commands.sweeping import Case, Sweep, read_suite, sweep
from regraft.commands.sweeping.choosing import chosen
from regraft.commands.sweeping.store import Store
from regraft.ir import UsageError

from .test_sweep import invoke, is_running, spell

JUDGE = """
import os, signal, subprocess, sys, time
from pathlib import Path
from regraft.ir import UsageError
from helping import WIDTH

judged = 0

def cases():
    for name in NAMES.split():
        yield {"name": name, "step": "onnx", "group": "odd" if len(name) % 2 else "even"}

def judge(case):
    global judged
    judged += 1
    name = case["name"]
    if name == "hangs":
        time.sleep(60)
    if name == "aborts" or (name == "aborts_later" and judged > 1):
        os.abort()
    if name == "exits":
        sys.exit(0)
    if name == "eats":
        bytearray(2**40)
    if name == "leaves":
        subprocess.Popen(["setsid", "sleep", "621"])
    if name == "refuses":
        raise UsageError("E001", "expected less")
    if name == "differs":
        return {"verdict": "different", "detail": "by 1", "data": {"by": 1}}
    if name == "reads":
        try:
            Path(case["folder"], "..", "data.txt").read_text()
        except FileNotFoundError:
            return "different"
    if name == "writes":
        Path("out.txt").write_text("1")
    if name == "odd":
        return 3
    return {"verdict": "equal", "data": {"judged": judged, "process": os.getpid()}}
"""


def suite(folder: Path, names: str, further: str = "batch = 20") -> Path:
    own = folder / "suite"
    own.mkdir(exist_ok=True)
    (own / "helping.py").write_text("WIDTH = 1")
    (own / "judging.py").write_text(JUDGE.replace("NAMES", repr(names)))
    path = own / "suite.toml"
    path.write_text(f'[[models]]\ncases = "judging.py:cases"\njudge = "judging.py:judge"\n{further}\n')
    return path


def cases_of(path: Path) -> list[Case]:
    return read_suite(path, ["onnx"], spell)


def test_each_case_is_one_row_whatever_it_does_to_the_process_of_others(tmp_path: Path) -> None:
    names = "first differs hangs aborts exits eats leaves refuses aborts_later odd writes last"
    path = suite(tmp_path, names, 'batch = 20\nseconds = 2\nmemory = "1 GiB"')
    found = list(sweep(cases_of(path), Sweep(str(tmp_path / "store"), 1, keep=True)))
    rows = {row.name: row for row in found}
    assert len(found) == len(rows) == len(names.split())
    assert {name: row.verdict for name, row in rows.items()} == {
        "first": "equal",
        "differs": "different",
        "hangs": "over time",
        "aborts": "died",
        "exits": "fault",
        "eats": "over memory",
        "leaves": "equal",
        "refuses": "refused",
        "aborts_later": "equal",  # alone: what died was not it
        "odd": "fault",
        "writes": "equal",
        "last": "equal",
    }
    assert rows["differs"].data == {"by": 1}
    assert rows["refuses"].code == "E001"
    assert (Path(rows["writes"].output) / "out.txt").read_text() == "1"
    assert not is_running("sleep", "621")


def test_cases_share_processes_as_the_suite_says(tmp_path: Path) -> None:
    found = list(sweep(cases_of(suite(tmp_path, "a b c", "batch = 2")), Sweep(str(tmp_path / "store"), 1)))
    processes = {row.name: row.data["process"] for row in found}
    assert processes["a"] == processes["b"] != processes["c"]


def test_a_row_holds_until_a_file_changes_that_the_case_opened(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1")
    time.sleep(0.05)
    cases = cases_of(suite(tmp_path, "reads"))
    how = Sweep(str(tmp_path / "store"), 1)

    def is_run() -> bool:
        return [row.cached for row in sweep(cases, how)] == [False]

    assert is_run()
    assert not is_run()
    os.utime(data, (1, 1))  # another time, the same content
    assert not is_run()
    data.write_text("2")
    assert is_run()
    assert not is_run()
    data.unlink()
    assert is_run()  # it cannot be read
    data.write_text("2")
    assert is_run()
    (tmp_path / "suite" / "helping.py").write_text("WIDTH = 2")
    assert is_run()


def test_another_sweep_of_the_store_is_not_repeated(tmp_path: Path) -> None:
    cases, how = cases_of(suite(tmp_path, "a b")), Sweep(str(tmp_path / "store"), 1)
    both = [sweep(cases, how), sweep(cases, how)]
    first = [next(each) for each in both]  # both have found nothing in the store before either ran
    assert [row.cached for row in first] == [False, True]
    assert [len([*each]) for each in both] == [1, 1]


def test_a_store_that_cannot_be_written_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write to the store"):
        next(sweep(cases_of(suite(tmp_path, "a")), Sweep(str(tmp_path / "file" / "store"), 1)))


def test_a_row_that_cannot_be_kept_keeps_its_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = suite(tmp_path, "a")
    monkeypatch.setattr(Store, "require_writable", lambda _: None)
    (tmp_path / "file").write_text("")
    result = invoke("sweep", path, "-o", tmp_path / "out", "--store", tmp_path / "file" / "store")
    assert result.exit_code == 0
    assert "1 rows are not in the store" in result.output


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('cases = "judging.py:cases"\njudge = "no.py:judge"', "judge"),
        ('cases = "judging.py:nothing"\njudge = "judging.py:judge"', "cannot be imported or called"),
        ('cases = "judging.py:judge"\njudge = "judging.py:judge"', "cannot be imported or called"),
        ('cases = "judging.py:cases"\njudge = "judging.py:judge"\nbatch = 0', "batch"),
        ('cases = "judging.py:cases"\njudge = "judging.py:judge"\ncolour = 3', "colour"),
        ('judge = "judging.py:judge"', "cases"),
    ],
)
def test_what_is_not_right_is_one_error(tmp_path: Path, text: str, word: str) -> None:
    path = suite(tmp_path, "a")
    path.write_text(f"[[models]]\n{text}")
    with pytest.raises(UsageError, match=word):
        cases_of(path)


def test_no_case_is_an_error_and_a_model_may_have_a_judge(tmp_path: Path) -> None:
    path = suite(tmp_path, "")
    with pytest.raises(UsageError, match="expected a case"):
        cases_of(path)
    path.write_text('[[models]]\nmodel = "*.py"\njudge = "judging.py:judge"\nto = "speed"')
    assert [(c.name, c.step) for c in cases_of(path)] == [("helping.py", "speed"), ("judging.py", "speed")]


def test_a_part_of_a_suite_is_chosen_by_name_or_spread_over_groups(tmp_path: Path) -> None:
    cases = cases_of(suite(tmp_path, "a b c d ee ff"))
    assert [c.name for c in chosen(cases, "^[ab] -> onnx$")] == ["a", "b"]
    assert [c.name for c in chosen(cases, sample=2)] == ["a", "c", "ee", "ff"]
    for wrong in ("(", "nothing"):
        with pytest.raises(UsageError, match="--only"):
            chosen(cases, wrong)
