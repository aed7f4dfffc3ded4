"""Every pass's golden page, and what must hold for all passes."""

import doctest
import importlib
import os
from pathlib import Path

import pytest

from regraft import passes
from regraft.backends import TARGETS

from .golden import read_page, run_case, write_page

PAGES = Path(__file__).parent / "pages"
CASES = [
    pytest.param(page.stem, number, id=f"{page.stem}/{case.title}")
    for page in sorted(PAGES.glob("*.md"))
    for number, case in enumerate(read_page(page.read_text(encoding="utf-8"))[1])
]
HEADINGS = ("What it does:", "Why:", "Leaves alone:", "Refuses:", "Example:")


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_golden_case(name, number, update_goldens):
    page = PAGES / f"{name}.md"
    head, cases = read_page(page.read_text(encoding="utf-8"))
    if update_goldens:  # the whole page at once, so that parallel tests write the same
        new = page.with_suffix(f".{os.getpid()}")
        new.write_text(write_page(head, [run_case(name, case) for case in cases]), encoding="utf-8")
        new.replace(page)
        return
    assert run_case(name, cases[number]).text() == cases[number].text()


@pytest.mark.parametrize("name", passes.PASSES)
def test_a_pass_is_one_file_one_page_and_an_example_that_runs(name):
    cls = passes.PASSES[name]
    module = importlib.import_module(cls.__module__)
    assert Path(module.__file__).stem.replace("_", "-") == name == cls.name
    assert (PAGES / f"{name}.md").read_text(encoding="utf-8").startswith(f"# {name}\n")
    positions = [cls.__doc__.index(heading) for heading in HEADINGS]
    assert positions == sorted(positions)
    assert ">>>" in cls.__doc__
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_every_code_of_a_finding_is_described_and_belongs_to_one_pass():
    owners = [code for cls in passes.PASSES.values() for code in cls.codes]
    assert len(owners) == len(set(owners))
    for code in owners:
        assert passes.describe(code).startswith(f"{code}: ")


def test_pages_show_every_code():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    shown_in_python = {"TW102", "TW103", "TW104", "TW106", "TW109"}  # of data, which a parsed graph has not
    missing = {
        c for cls in passes.PASSES.values() for c in cls.codes if f": {c} " not in text
    } - shown_in_python
    assert not missing


def test_pipelines_name_passes_that_exist_and_rename_comes_last():
    prepared = [each.passes for row in TARGETS.values() for each in row.preparations]
    assert len(prepared) >= 2
    for pipeline in (passes.DEFAULT, *prepared):
        names = [passes.parse_pass(text).name for text in pipeline]
        assert "rename-parameters" not in names[:-1]
