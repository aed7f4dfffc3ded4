"""Every command of the documentation prints Chinese with --lang zh: no English sentence is left in it."""

import re
from pathlib import Path

import pytest

from .test_cli_language import CHINESE, NAMES, TERMS
from .test_readme import ROOT, SHOWING, Tour, commands

PROGRAMS = ("--ir", "python ", "cp ")
"""Commands that print a graph, or the words of a user's own pass."""
NETS = (
    "examples/duplicate_names.py:DuplicateNames",
    "examples/duplicate_names.py:NeverRun",
    "examples/cifar_resnet_mindspore.py:small",
    *(f"seeds/guide_mindspore.py:{name}" for name in ("Extractor", "Classifier", "Half", "Sampler", "Wrong")),
    *(f"seeds/unet_torch.py:{name}" for name in ("Backbone", "UNet")),
)
RAISED = re.compile(r"\w+Error: .*?(?= - 位于|$)")
"""The words of an exception of the framework's or the model's own."""
WORDS = re.compile(r"(?<![\w.`])[a-z]{2,} (?:[a-z]+ )*[a-z]{2,}(?![\w.`])")


def english_of(printed: str) -> list[str]:
    """The lines of what was printed that have two English words in a row, outside code, names and terms."""
    found = []
    for line in printed.splitlines():
        if not line.startswith(("+", "-", "@", " ")) or ": " in line:  # else a line of a patch
            words = [word for word in NAMES.sub(" | ", RAISED.sub("", line)).split() if word not in TERMS]
            found += [line] * bool(WORDS.search(" ".join(words)))
    return found


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    made = Tour(tmp_path_factory.mktemp("chinese"))
    made.apart = set()  # all in this process
    (made.folder / "seeds").symlink_to(ROOT / "tests" / "end_to_end" / "seeds")
    return made


@pytest.mark.slow
@pytest.mark.xdist_group("pages-in-chinese")
@pytest.mark.parametrize("page", SHOWING, ids=lambda p: p.stem)
def test_commands_print_no_english_sentence(page: Path, tour: Tour) -> None:
    tour.write_files(page)
    for shown in commands(page):
        command = shown.command.partition("; echo ")[0]
        in_chinese = command.startswith("regraft") and "--lang" not in command
        outcome = tour.run(command + " --lang zh" if in_chinese else command)
        assert outcome.code in (0, 1, 2), outcome.printed
        if not any(program in command for program in PROGRAMS):
            assert CHINESE.search(outcome.printed), command
            assert english_of(outcome.printed) == [], command


@pytest.mark.slow
@pytest.mark.xdist_group("pages-in-chinese")
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("size", ["", "--input 2x3x32x32", "--input 2x7"])
def test_findings_and_refusals_have_no_english_sentence(net: str, size: str, tour: Tour) -> None:
    printed = tour.run(f"regraft check {net} {size} --lang zh").printed
    assert CHINESE.search(printed)
    assert english_of(printed) == []


def test_an_english_sentence_is_found() -> None:
    assert english_of("说明 RP103 `a` is now called `b`")
    assert english_of("跳过 fold-constants：the model cannot run（E102）")
    assert english_of("  应写: nothing to do here")
    assert not english_of("警告: `nn.GELU()` 是 tanh 近似 (approximate=False)")
