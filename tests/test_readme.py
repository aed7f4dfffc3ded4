"""README and documentation tell the truth: every command on them runs and prints what they show."""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from regraft.cli import main
from regraft.process.messages import say_lines
from regraft.verification.certificate.verdict import certify_by_default

ROOT = Path(__file__).resolve().parent.parent
ENGLISH = ROOT / "docs" / "en"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
CAPTION = re.compile(r"```\{code-block\} python\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)
MEASURED = re.compile(r"\d(?:\.\d+)?e[-+]\d+|\b0\.0\b|\b0\b")  # rounding differs between processors
ELLIPSIS = "…"
PAGES = [ROOT / "README.md", *sorted(ENGLISH.rglob("*.md"))]
SHOWING = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]


class Shown(NamedTuple):
    """A command of a page, and the lines that the page shows below it."""

    command: str
    lines: list[str]


class Outcome(NamedTuple):
    """What a command printed, on standard output and in all, and its exit code."""

    stdout: str
    printed: str
    code: int


def commands(page: Path) -> list[Shown]:
    """Every `$` line in the console blocks of a page, in order."""
    found: list[Shown] = []
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(line[2:], []))
            elif found:
                found[-1].lines.append(line)
    return found


def plain(line: str) -> str:
    return " ".join(MEASURED.sub("~", line).split())


def left_in_english(printed: str) -> list[str]:
    """The printed lines, none of code, in which Chinese output leaves several words in a row as they are."""
    prose = re.sub(r'^( *module ".*|@@ (.|\n)*)$', "", printed, flags=re.MULTILINE)
    return [
        said
        for said in say_lines(prose, "zh").splitlines()
        if re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", re.sub("`[^`]*`", "", said))
    ]


class Tour:
    """A folder in which every command runs once; pages that show one command share its run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        self.apart = {shown.command.partition("; echo ")[0] for shown in commands(ROOT / "README.md")}
        self.done: dict[str, Outcome] = {}
        self.files: dict[str, str] = {}

    def write_files(self, page: Path) -> None:
        """Write the files that a page shows; one of a name is the same on all pages."""
        for name, text in CAPTION.findall(page.read_text(encoding="utf-8")):
            assert self.files.setdefault(name, text) == text, name
            (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, command: str) -> Outcome:
        """Run a command, or take the result of its run: those of the README in a process of their own."""
        if command not in self.done:
            words = shlex.split(command)
            if words[0] == "cp":
                shutil.copy(self.folder / words[1], self.folder / words[2])
                self.done[command] = Outcome("", "", 0)
            elif words[0] == "python" or command in self.apart:
                self.done[command] = self._run_apart(words)
            else:
                assert words[0] == "regraft", command
                self.done[command] = self._run_here(words[1:])
        return self.done[command]

    def _run_apart(self, words: list[str]) -> Outcome:
        module = ["-m", "regraft"] if words[0] == "regraft" else []
        done = subprocess.run(
            [sys.executable, *module, *words[1:]],
            cwd=self.folder,
            env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "4"},
            capture_output=True,
            text=True,
            check=False,
        )
        return Outcome(done.stdout, done.stdout + done.stderr, done.returncode)

    def _run_here(self, arguments: list[str]) -> Outcome:
        by_default = certify_by_default(on=True)
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()):
            result = CliRunner().invoke(main, arguments)
        by_default.var.reset(by_default)
        return Outcome(result.stdout, result.output, result.exit_code)


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    return Tour(tmp_path_factory.mktemp("tour"))


@pytest.mark.slow
@pytest.mark.xdist_group("pages")
@pytest.mark.parametrize("page", SHOWING, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_print_what_the_page_shows(page: Path, tour: Tour) -> None:
    """The Chinese pages' too, whose commands and lines are the same."""
    tour.write_files(page)
    for shown in commands(page):
        command, _, status = shown.command.partition("; echo ")
        outcome = tour.run(command)
        assert outcome.code in ((0, 1, 2) if status else (0, 1)), outcome.printed
        printed = [plain(line) for line in outcome.stdout.splitlines()] + (
            [plain(str(outcome.code))] if status else []
        )
        if command.split()[1] not in ("explain", "show") and command.startswith("regraft"):
            assert left_in_english(outcome.printed) == []
        at = 0
        for line in shown.lines:
            if plain(line) in ("", ELLIPSIS):
                continue
            assert plain(line) in printed[at:], f"{command}\nshows `{line}`, but printed\n{outcome.printed}"
            at = printed.index(plain(line), at) + 1


def test_the_pages_show_commands() -> None:
    assert len(commands(ROOT / "README.md")) >= 3
    assert len(SHOWING) >= 10
    assert len({shown.command for page in SHOWING for shown in commands(page)}) >= 35


def test_what_the_readme_shows_is_on_a_page_too() -> None:
    """So that the README can stay short, and nothing that it proved is lost."""
    elsewhere = {shown.command for page in SHOWING[1:] for shown in commands(page)}
    assert {shown.command for shown in commands(ROOT / "README.md")} <= elsewhere


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_links_of_the_readme_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_translation_has_the_same_commands_and_lines() -> None:
    assert commands(ROOT / "README.md") == commands(ROOT / "README.zh-CN.md")


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_picture_is_there_and_small(page: str) -> None:
    names = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert len(names) == 1
    picture = (ROOT / names[0]).read_bytes()
    assert picture[:4] + picture[8:12] == b"RIFFWEBP"
    assert len(picture) <= 150_000


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md", "docs/en/start.md", "docs/zh/start.md"])
def test_the_oldest_versions_are_those_that_are_required(page: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    names = {"mindspore": "MindSpore", "torch": "torch", "onnx": "onnx", "onnxruntime": "ONNX Runtime"}
    for name, called in names.items():
        (least,) = [r.split(">=")[1] for r in required if r.startswith(f"{name}>=")]
        assert re.search(rf"\b{called} {re.escape(least)}(?![.\d])", text), called
