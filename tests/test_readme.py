"""Both READMEs tell the truth: every command of their tours runs and prints what they show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
MEASURED = re.compile(r"\d(?:\.\d+)?e[-+]\d+|\b0\.0\b|\b0\b")  # rounding differs between processors
ELLIPSIS = "…"


def commands(readme: str) -> list[tuple[str, list[str]]]:
    """(command, lines it shows) of every ``$ regraft`` line in a README's console blocks, in order."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall((ROOT / readme).read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
    return [(command, shown) for command, shown in found if command.startswith("regraft ")]


def plain(line: str) -> str:
    return " ".join(MEASURED.sub("~", line).split())


@pytest.mark.slow
def test_tour_is_real(tmp_path: Path) -> None:
    """The Chinese README's too, whose commands and lines are the same."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    tour = commands("README.md")
    assert len(tour) >= 6
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "4"}
    for command, shown in tour:
        command, _, status = command.partition("; echo ")
        done = subprocess.run(
            [sys.executable, "-m", *command.split()],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        printed = [plain(line) for line in done.stdout.splitlines()] + (["1"] if status else [])
        at = 0
        for line in shown:
            if plain(line) in ("", ELLIPSIS):
                continue
            assert plain(line) in printed[at:], (
                f"{command}\nshows `{line}`, but printed\n{done.stdout}{done.stderr}"
            )
            at = printed.index(plain(line), at) + 1


def test_the_translation_has_the_same_commands_and_lines() -> None:
    assert commands("README.md") == commands("README.zh-CN.md")
