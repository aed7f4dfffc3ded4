"""What people of habits expect of a command line: cheap errors first, quiet, colours, CI, completion."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from regraft.cli import main
from regraft.commands.common import EXAMPLES

ROOT = Path(__file__).resolve().parent.parent
SYMBOL = ROOT / "examples" / "shared_weight-symbol.json"
INPUT = ("--input", "data=1x1x3x3")
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a
        self.c = nn.Linear(4, 4)

    def forward(self, x):
        return self.b(self.a(x))
"""


def invoke(*arguments: object, **options: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], **options)


class TestCheapErrorsFirst:
    """Nothing is loaded: the model that is named does not exist, and is not what the error is about."""

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (("-o", "there", "--to", "mindspore"), ["E002", "`there` exists already", "--force"]),
            (("-o", "new", "--to", "tensorflow"), ["'tensorflow' is not one of 'mindspore', 'onnx'"]),
            (("-o", "new"), ["E001", "cannot infer the target", "--to"]),
            (("-o", "new.onnx", "--to", "mindspore"), ["E001", "a directory", "`new.onnx`"]),
            (("-o", "new.onnx", "--pass", "tie-weight"), ["E502", "did you mean `tie-weights`"]),
            (("-o", "new.onnx", "--only-pass", "tie-weights:ti=a+b"), ["E502", "has no option `ti`"]),
            (("-o", "new.onnx", "--print-after", "nothing"), ["E502", "`nothing`"]),
            (("-o", "new.onnx", "--emit-tests"), ["E001", "--emit-tests", "`onnx`"]),
            (("-o", "new.onnx", "--recipe", "train.py:recipe"), ["E001", "--recipe"]),
            (("-o", "new.onnx", "--checkpoint-format", "ckpt"), ["E001", "`checkpoint_format`"]),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_of_rewrite(
        self, more: tuple[str, ...], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "model.py").write_text("mine")
        result = invoke("rewrite", "no_such_model.py:Net", "--input", "2x3", *more)
        assert result.exit_code == 2, result.output
        assert "no_such_model" not in result.output
        for word in words:
            assert word in result.output, result.output
        assert (tmp_path / "there" / "model.py").read_text() == "mine"

    @pytest.mark.parametrize(
        ("more", "word"),
        [
            (("no_target.onnx",), "no_target.onnx"),
            (("no_target.py:Net",), "no_target.py"),
            (("out/no_folder",), "out/no_folder"),
            ((str(SYMBOL), "--map", "no_map.json"), "no_map.json"),
            ((str(SYMBOL), "--recipe", "train.py:recipe"), "--recipe twice"),
        ],
    )
    def test_of_verify(self, more: tuple[str, ...], word: str) -> None:
        result = invoke("verify", "no_such_model.py:Net", *more)
        assert result.exit_code == 2, result.output
        assert word in result.output
        assert "no_such_model" not in result.output


class TestHelp:
    @pytest.mark.parametrize("name", sorted(main.commands))
    def test_every_command_has_examples_that_it_would_take(self, name: str) -> None:
        text = invoke(name, "--help").output
        shown = [line.strip() for line in text.partition("Examples:")[2].splitlines() if line.strip()]
        assert shown == list(EXAMPLES[name])
        command = main.commands[name]
        known = {option for parameter in command.params for option in parameter.opts}
        for line in shown:
            assert {word for word in line.split() if word.startswith("--")} <= known, line


class TestOutput:
    def test_quiet_leaves_the_verdict(self, tmp_path: Path) -> None:
        result = invoke("rewrite", SYMBOL, *INPUT, "-o", tmp_path / "o.onnx", "--quiet")
        assert result.exit_code == 0, result.output
        (line,) = result.stdout.splitlines()
        assert line.startswith("equal to what was read: ")
        again = invoke("rewrite", SYMBOL, *INPUT, "-o", tmp_path / "o.onnx", "-q")
        assert (again.exit_code, again.stdout) == (2, "")
        assert "E002" in again.stderr

    def test_quiet_check_prints_how_many_findings(self) -> None:
        result = invoke("check", SYMBOL, *INPUT, "--quiet")
        assert len(result.stdout.splitlines()) == 1

    def test_colours_are_asked_for_or_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        escape = "\x1b["
        refused = ("rewrite", SYMBOL, "-o", "x")
        assert escape in invoke(*refused, "--color", "always").stderr
        assert escape not in invoke(*refused).stderr
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert escape in invoke(*refused).stderr
        assert escape not in invoke(*refused, "--color", "never").stderr
        monkeypatch.setenv("NO_COLOR", "1")
        assert escape not in invoke(*refused).stderr

    def test_fixed_lines_of_one_cause_are_folded(self) -> None:
        from regraft import Change
        from regraft.commands.printing import print_changes

        changes = [Change("RP101", f"number {n}", severity="error") for n in range(9)]

        @click.command()
        @click.option("--verbose", is_flag=True)
        def show(verbose: bool) -> None:
            print_changes(changes, rewritten=True, verbose=verbose)

        brief = CliRunner().invoke(show).output.splitlines()
        assert brief[2:] == ["fixed RP101 number 2", "fixed RP101 and 6 more (-v lists all)"]
        assert len(CliRunner().invoke(show, ["--verbose"]).output.splitlines()) == 9


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, Result]:
    folder = tmp_path_factory.mktemp("net")
    (folder / "net.py").write_text(NET)
    before = Path.cwd()
    os.chdir(folder)
    try:
        given = ("check", "net.py:Net", "--input", "2x4", "--output-format")
        return folder, invoke(*given, "github"), invoke(*given, "sarif")
    finally:
        os.chdir(before)


class TestForMachines:
    def test_annotations_of_github_name_the_lines_of_a_torch_model(
        self, findings: tuple[Path, Result, Result]
    ) -> None:
        result = findings[1]
        assert result.exit_code == 1, result.output
        lines = result.stdout.splitlines()
        assert any(line.startswith("::warning file=net.py,line=9,title=DM101::") for line in lines), lines
        assert any(line.startswith("::warning file=net.py,line=10,title=DU101::") for line in lines), lines
        assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)

    def test_sarif_has_rules_results_and_regions(self, findings: tuple[Path, Result, Result]) -> None:
        result = findings[2]
        assert result.exit_code == 1, result.output
        log = json.loads(result.stdout)
        assert log["version"] == "2.1.0"
        (run,) = log["runs"]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        by_code = {row["ruleId"]: row for row in run["results"]}
        assert {"DM101", "DU101"} <= set(by_code) <= set(rules)
        for row in run["results"]:
            assert rules[row["ruleIndex"]] == row["ruleId"]
            assert row["level"] in ("error", "warning", "note")
            assert row["message"]["text"]
        place = by_code["DU101"]["locations"][0]["physicalLocation"]
        assert place == {"artifactLocation": {"uri": "net.py"}, "region": {"startLine": 10}}

    def test_text_that_would_end_an_annotation_is_escaped(self) -> None:
        from regraft import Change, Findings
        from regraft.commands.finding_formats import github_lines, rows_of

        found = Findings([Change("RP101", "100%\n::error::mine", severity="error")])
        (line,) = github_lines(rows_of({"": found}, "a,b:c.py"))
        assert line == "::error file=a%2Cb%3Ac.py,title=RP101::100%25%0A::error::mine"

    def test_an_error_is_a_document_with_json_as_the_format(self) -> None:
        result = invoke("check", "no_such.py:Net", "--output-format", "json")
        assert result.exit_code == 2
        assert json.loads(result.stdout)["error"]["code"] == "E101"

    def test_selected_codes_alone(self, findings: tuple[Path, Result, Result]) -> None:
        model = f"{findings[0] / 'net.py'}:Net"
        result = invoke("check", model, "--input", "2x4", "--select", "DU", "--output-format", "json")
        assert {row["code"] for row in json.loads(result.stdout)["findings"]} == {"DU101"}

    def test_a_list_of_files_of_which_some_define_no_model(
        self, findings: tuple[Path, Result, Result]
    ) -> None:
        folder = findings[0]
        (folder / "tool.py").write_text("raise SystemExit('was run')")
        result = invoke("check", folder / "tool.py", folder / "net.py", "--if-any", "--quiet")
        assert result.exit_code == 1, result.output
        assert result.stdout == f"{folder / 'net.py'}: Net: 1 finding\n"
        document = json.loads(invoke("check", folder / "net.py", folder / "net.py", "--json").stdout)
        assert list(document["checked"]) == [str(folder / "net.py")]
        assert invoke("check", folder / "tool.py", "--if-any").exit_code == 0


class TestCompletion:
    @pytest.mark.parametrize(
        ("words", "wanted"),
        [
            ("regraft explain RP", "RP101"),
            ("regraft rewrite m --pass tie", "tie-weights"),
            ("regraft rew", "rewrite"),
            ("regraft rewrite m --to on", "onnx"),
        ],
    )
    def test_of_commands_passes_codes_and_targets(self, words: str, wanted: str) -> None:
        environment = {**os.environ, "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        environment["_REGRAFT_COMPLETE"] = "bash_complete"
        done = subprocess.run(
            [sys.executable, "-m", "regraft"], env=environment, capture_output=True, text=True, check=False
        )
        assert f"plain,{wanted}" in done.stdout.splitlines(), done.stdout + done.stderr

    def test_of_the_names_in_a_file_that_is_not_run(self, tmp_path: Path) -> None:
        from regraft.commands.completion import ModelName

        path = tmp_path / "net.py"
        path.write_text("raise SystemExit\nclass Net: pass\ndef build(): pass\nnet = Net()\n")
        found = [item.value for item in ModelName().items(f"{path}:n")]
        assert found == [f"{path}:net"]
        assert ModelName().items("ne")[0].type == "file"

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_of_a_shell_says_the_line_that_installs_it(self, shell: str) -> None:
        result = invoke("completion", shell)
        assert result.exit_code == 0, result.output
        assert f"regraft completion {shell}" in result.output.splitlines()[0]
        assert "_REGRAFT_COMPLETE" in result.output


class TestConfiguration:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_of_the_nearest_pyproject(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "pyproject.toml").write_text(
            '[tool.regraft]\ninput = "data=1x1x3x3"\n[tool.regraft.show]\nir = true'
        )
        (folder / "below").mkdir()
        monkeypatch.chdir(folder / "below")
        result = invoke("show", SYMBOL)
        assert result.exit_code == 0, result.output
        assert "graph main {" in result.output

    def test_the_command_line_wins(self, folder: Path) -> None:
        (folder / "regraft.toml").write_text('input = ["data=1x1x3x3"]\n')
        result = invoke("--config", "regraft.toml", "show", SYMBOL, "--input", "data=1x1x5x5", "--ir")
        assert "f32[N,1,5,5]" in result.output, result.output

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("inputs = ['2x3']", ["no option or command is called `inputs`", "`input`"]),
            ("[chek]\njson = true", ["`chek`", "did you mean `check`"]),
            ("[check]\nselekt = 'PT'", ["`check.selekt`", "`check.select`"]),
            ("json = 'yes'", ["true or false", "'yes'"]),
            ("to = ['onnx', 'mxnet']", ["one value", "`to`"]),
            ("to = ", ["E101", "TOML"]),
        ],
    )
    def test_what_is_not_right_is_an_error_with_the_near_name(
        self, text: str, words: list[str], folder: Path
    ) -> None:
        (folder / "regraft.toml").write_text(text)
        result = invoke("--config", "regraft.toml", "check", SYMBOL)
        assert result.exit_code == 2
        for word in [*words, "regraft.toml"]:
            assert word in result.output, result.output

    def test_a_file_that_is_not_there(self, folder: Path) -> None:
        assert "E101" in invoke("--config", "none.toml", "check", SYMBOL).output

    @pytest.mark.parametrize(
        "key", ["trust = true", "extension = 'x.py'", "force = true", "oracle = 'python'"]
    )
    def test_a_folder_runs_no_code_and_replaces_no_file_unasked(self, key: str, folder: Path) -> None:
        (folder / "pyproject.toml").write_text(f"[tool.regraft]\n{key}\n")
        result = invoke("show", SYMBOL, *INPUT)
        assert result.exit_code == 2
        assert "--config" in result.output

    def test_another_tools_table_is_none_of_ours(self, folder: Path) -> None:
        (folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 'whatever'\n")
        assert invoke("show", SYMBOL, *INPUT).exit_code == 0

    def test_codes_as_a_list(self, folder: Path) -> None:
        (folder / "regraft.toml").write_text('[check]\nignore = ["DM", "RP101"]\n')
        assert invoke("--config", "regraft.toml", "check", SYMBOL, *INPUT).exit_code in (0, 1)


class TestExplain:
    def codes(self) -> list[str]:
        from regraft.api.explanations.lookup import known_codes

        return [code for codes in known_codes().values() for code in codes]

    def test_every_code_has_a_cause_an_example_and_what_to_do(self) -> None:
        from regraft.api.explanations.lookup import explain

        for code in self.codes():
            found = explain(code)
            assert found is not None, code
            assert all(len(part) > 3 for part in found.page), code
            assert all(title in str(found) for title in ("Cause:", "Example:", "What to do:"))

    def test_no_code_has_two_meanings(self) -> None:
        codes = self.codes()
        assert sorted(codes) == sorted(set(codes))

    def test_no_page_is_of_a_code_that_is_gone(self) -> None:
        from regraft.api.explanations.lookup import PAGES

        assert set(PAGES) <= set(self.codes())

    @pytest.mark.parametrize("code", ["RP101", "E701", "PT101", "MS101", "rp101"])
    def test_all_kinds_are_explained_alike(self, code: str) -> None:
        lines = invoke("explain", code).stdout.splitlines()
        assert lines[0].startswith(f"{code.upper()}: ")
        assert [line for line in lines if line.endswith(":") and line[0].isupper()] == [
            "Cause:",
            "Example:",
            "What to do:",
        ]
        assert max(map(len, lines)) < 115
