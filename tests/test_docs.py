"""The documents for who carries on tell the truth: files, code, names, graphs and commands."""

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from regraft.cli import main
from regraft.ir import parse, render, validate

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs" / "en").rglob("*.md"))
WRITTEN = [path for path in PAGES if path.name in ("architecture.md", "ir.md", "adding.md", "glossary.md")]
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(kind: str) -> list[pytest.param]:
    return [
        pytest.param(info, body, id=f"{path.name}-{number}")
        for path in WRITTEN
        for number, (info, body) in enumerate(FENCE.findall(path.read_text()))
        if info.split(" ")[0] == kind
    ]


def quoted(path: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", path.read_text()))


def test_the_four_documents_are_there() -> None:
    assert len(WRITTEN) == 4
    assert len(blocks("diff")) > 8
    assert blocks("ir")


@pytest.mark.parametrize(("_info", "body"), blocks("diff"))
def test_what_a_diff_adds_is_in_its_file(_info: str, body: str) -> None:
    head, *added = body.splitlines()
    assert head.startswith("+++ ")
    assert all(line.startswith("+") for line in added)
    text = (ROOT / head.removeprefix("+++ ")).read_text()
    assert "".join(line[1:] + "\n" for line in added) in text


@pytest.mark.parametrize(("_info", "body"), blocks("ir"))
def test_graphs_are_valid_and_in_their_own_form(_info: str, body: str) -> None:
    graph = parse(body)
    validate(graph)
    assert render(graph) == body


@pytest.mark.parametrize("path", WRITTEN, ids=lambda p: p.name)
def test_paths_are_there(path: Path) -> None:
    base = [
        ROOT,
        *(ROOT / f for f in ("frontends/torch_module", "backends/mindspore_source", "backends/mxnet_symbol")),
    ]
    named = [q for q in quoted(path) if re.fullmatch(r"[\w.]+(/[\w.-]+)*(/|\.(py|md))", q)]
    for name in named:
        assert any((folder / name).exists() for folder in base), name
    for link in re.findall(r"\]\(([\w.]+)\)", path.read_text()):
        assert (path.parent / link).exists(), link


def test_words_of_the_glossary_are_in_the_code() -> None:
    found = 0
    for line in (ROOT / "docs/en/explanation/glossary.md").read_text().splitlines():
        for name in re.findall(r"`((?:ir|passes|frontends|backends|checkpoints|verification)[\w.]*)`", line):
            module, attributes = name, []
            while True:
                try:
                    place = importlib.import_module(f"regraft.{module}")
                    break
                except ModuleNotFoundError:
                    module, _, attribute = module.rpartition(".")
                    attributes.insert(0, attribute)
            for attribute in attributes:
                place = getattr(place, attribute)
            found += 1
    assert found > 20


@pytest.mark.parametrize("path", [ROOT / "README.md", *PAGES], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_and_their_options_are_there(path: Path) -> None:
    text = path.read_text()
    code = "\n".join(body for info, body in FENCE.findall(text) if info in ("console", "sh"))
    lines = re.findall(r"^(?:\$ )?((?:regraft|make) [^;\n]*)", code, re.MULTILINE)
    lines += [found for found in quoted(path) if found.startswith(("regraft ", "make "))]
    for words in (shlex.split(line, comments=True) for line in lines):
        if words[0] == "make":
            assert words[1] in TARGETS, words
            continue
        assert isinstance(main, click.Group)
        command = main.commands[words[1]]
        options = {
            name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {word for word in words[2:] if word.startswith("-")} <= options, words


@pytest.mark.parametrize("path", [ROOT / "README.md", *PAGES], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_options_that_are_quoted_alone_are_there(path: Path) -> None:
    assert isinstance(main, click.Group)
    known = {name for c in main.commands.values() for p in c.params for name in (*p.opts, *p.secondary_opts)}
    known |= {"--help"} | {name for p in main.params for name in p.opts}
    quoted_alone = {found.split()[0] for found in quoted(path) if found.startswith("--")}
    assert quoted_alone - known == set()
