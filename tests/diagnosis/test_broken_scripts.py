"""`check` on scripts that raise below their net: the cause, its line, what to write, and the symptom."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import regraft
from regraft import check_file
from regraft.cli import main
from tests.diagnosis.scripts import APPENDED, INSERTED, LISTED, POSTED, parent, script

INPUT = ["2x1x16x16"]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "grown.py"
    path.write_text(text)
    return path


def line_of(path: Path, start: str) -> int:
    return next(
        n for n, line in enumerate(path.read_text().splitlines(), 1) if line.strip().startswith(start)
    )


def codes(findings: regraft.Findings) -> list[str]:
    return [f.code for f in findings if f.severity != "note"]


def test_the_script_as_posted_gets_cause_line_edit_and_symptom(tmp_path: Path) -> None:
    path = written(tmp_path, POSTED)
    findings = regraft.check(f"{path}:net", INPUT)
    assert codes(findings) == ["RP101", "FC101", "SI101", "TL101"]
    names, symptom, forward, idle, stray = list(findings)[:5]
    first, second = (
        line_of(path, 'net.insert_child_to_cell("group1"'),
        line_of(path, 'net.insert_child_to_cell("group2"'),
    )
    assert names.message.startswith(
        f"`group1` and `group2`, inserted at lines {first} and {second}, give the same 20 names"
    )
    assert names.place == f"grown.py:{first}"
    assert len(names.members) == 20
    assert "net.append(cell)" in names.advice
    assert symptom.code == "RF101"
    assert symptom.message.startswith("symptom of RP101: the file raises ValueError")
    assert symptom.place.endswith(f"grown.py:{line_of(path, 'optimizer')}")
    assert forward.place == f"grown.py:{line_of(path, 'def forward')}"
    assert "def construct(" in forward.advice
    assert f"inserted at lines {first} and {second}, never run" in idle.message
    assert stray.place == f"grown.py:{line_of(path, 'nn.Conv2d(before, width, 1)')}"


def test_the_verdict_stands_first_and_members_are_folded(tmp_path: Path) -> None:
    path = written(tmp_path, POSTED)
    brief = CliRunner().invoke(main, ["check", f"{path}:net"])
    assert brief.exit_code == 1
    lines = brief.stdout.splitlines()
    assert lines[0] == "4 findings"
    assert lines[1].startswith("error RP101")
    assert lines[2].startswith("  write: `net.append(cell)`")
    assert lines[3].startswith("note RF101 symptom of RP101")
    assert "parameters are called" not in brief.stdout
    full = CliRunner().invoke(main, ["check", f"{path}:net", "-v"])
    assert full.stdout.count("2 parameters are called") == 20


def test_a_file_without_a_name_is_examined_whole(tmp_path: Path) -> None:
    found = check_file(written(tmp_path, POSTED))
    assert list(found.models) == ["net"]
    assert not found.clean
    assert found.left_out == {"Residual": "examined in `net`"}


def test_classes_that_need_arguments_are_left_out_with_the_reason(tmp_path: Path) -> None:
    text = script("", forward="construct").replace(
        "net = nn.SequentialCell", "net = object or nn.SequentialCell"
    )
    found = check_file(
        written(tmp_path, text + "\n\nclass Free(nn.Cell):\n    def construct(self, x):\n        return x\n")
    )
    assert set(found.models) <= {"Free"}
    assert "its constructor needs `before`, `width`" in found.left_out["Residual"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (script(INSERTED), ["DU104", "SI101"]),
        (script(LISTED), ["SI101"]),
        (script(APPENDED), []),
        (parent(inserted=True), ["RP101"]),
        (parent(inserted=False), []),
    ],
    ids=["inserted", "CellList", "append", "parent inserts", "parent assigns"],
)
def test_repairs_of_the_script_are_told_apart(text: str, expected: list[str], tmp_path: Path) -> None:
    assert codes(regraft.check(f"{written(tmp_path, text)}:net", INPUT)) == expected


def test_an_exception_that_nothing_explains_is_said_to_be_one(tmp_path: Path) -> None:
    path = written(tmp_path, script(APPENDED) + 'open("no such file")\n')
    findings = regraft.check(f"{path}:net", INPUT)
    assert codes(findings) == ["RF101"]
    assert "no finding explains it: FileNotFoundError" in findings.findings[0].message


def test_a_name_below_the_exception_is_the_exception(tmp_path: Path) -> None:
    path = written(tmp_path, POSTED + "later = net\n")
    with pytest.raises(regraft.RegraftError, match="E102 the model's code raised ValueError"):
        regraft.check(f"{path}:later")


def test_a_net_whose_groups_never_run_is_not_rewritten_unasked(tmp_path: Path) -> None:
    path, out = written(tmp_path, script(INSERTED)), tmp_path / "out"
    arguments = ["rewrite", f"{path}:net", "--input", *INPUT, "--to", "mindspore", "-o", str(out)]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 2
    assert "E003 the output would lack 2,7" in refused.stderr
    assert not out.exists()
    allowed = CliRunner().invoke(main, [*arguments, "--allow-removal"])
    assert allowed.exit_code == 0, allowed.output
    verdict = next(line for line in allowed.stdout.splitlines() if line.startswith("REMOVED"))
    assert "`group1`, `group2`; the rest is equal" in verdict


def test_names_that_a_call_has_changed_are_told(tmp_path: Path) -> None:
    text = parent(inserted=True).replace(
        "optimizer", "import mindspore\n\nnet(mindspore.ops.ones((1, 1, 16, 16)))\noptimizer"
    )
    findings = regraft.check(f"{written(tmp_path, text)}:net", INPUT)
    assert codes(findings) == ["NC101"]
    assert "gave the same names until a call" in findings.findings[0].message
