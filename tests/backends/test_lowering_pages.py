"""The passes of every backend: a golden page each, and what must hold for all of them."""

import doctest
import importlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from regraft.backends import TARGETS, passes_of
from regraft.passes import PASSES

from ..passes.golden import read_page, run_case, write_page
from ..passes.test_pages import HEADINGS

PAGES = Path(__file__).parent / "pages"
CASES = [
    pytest.param(page, number, id=f"{page.parent.name}/{page.stem}/{case.title}")
    for page in sorted(PAGES.glob("*/*.md"))
    for number, case in enumerate(read_page(page.read_text(encoding="utf-8"))[1])
]
ALL = [pytest.param(target, p, id=f"{target}/{p.name}") for target in TARGETS for p in passes_of(target)]


def pass_of(target, name, options):
    """The backend's own instance of a pass, with the options of a case: ``partial``, ``most=1``."""
    found = next(p for p in passes_of(target) if p.name == name)
    pairs = (option.partition("=") for option in options.split(",") if option)
    return replace(found, **{key: int(value) if value else True for key, _, value in pairs})


def page_of(target, pass_):
    """The page of a pass for a target; a pass that several targets share has one, with the first of them."""
    sharing = [
        t for t in TARGETS if any(type(p) is type(pass_) and p.name == pass_.name for p in passes_of(t))
    ]
    pages = [PAGES / each / f"{pass_.name}.md" for each in (target, *sharing)]
    return next(page for page in pages if page.exists())


@pytest.mark.parametrize(("page", "number"), CASES)
def test_a_golden_case(page, number, update_goldens):
    head, cases = read_page(page.read_text(encoding="utf-8"))

    def run(case):
        return run_case(pass_of(page.parent.name, page.stem, case.options), case)

    if update_goldens:  # the whole page at once, so that parallel tests write the same
        new = page.with_suffix(f".{os.getpid()}")
        new.write_text(write_page(head, list(map(run, cases))), encoding="utf-8")
        new.replace(page)
    else:
        assert run(cases[number]).text() == cases[number].text()


@pytest.mark.parametrize(("target", "pass_"), ALL)
def test_a_pass_is_one_file_one_page_and_an_example_that_runs(target, pass_):
    module = importlib.import_module(type(pass_).__module__)
    assert Path(module.__file__).stem.replace("_", "-") == pass_.name
    page = page_of(target, pass_).read_text(encoding="utf-8")
    assert page.startswith(f"# {pass_.name}\n")
    positions = [type(pass_).__doc__.index(heading) for heading in HEADINGS]
    assert positions == sorted(positions)
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("target", TARGETS)
def test_every_page_is_a_pass_and_shows_the_codes_of_it(target):
    names = [pass_.name for pass_ in passes_of(target)]
    assert len(names) == len(set(names))
    assert {page.stem for page in (PAGES / target).glob("*.md")} <= set(names)
    for pass_ in passes_of(target):
        text = page_of(target, pass_).read_text(encoding="utf-8")
        assert any(f": {code} " in text for code in pass_.codes), pass_.name


def test_every_code_belongs_to_one_pass():
    passes = {type(p) for target in TARGETS for p in passes_of(target)} | set(PASSES.values())
    codes = [code for cls in passes for code in cls.codes]
    assert len(codes) == len(set(codes))
