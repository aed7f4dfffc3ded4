"""Explains a code: its cause, an example and the fix; `regraft explain CODE` prints it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import NamedTuple

from ...diagnosis import CODES
from ...ir import CODES as ERRORS
from ...passes.base import Pass
from ..targets import describe as describe_pass
from ..targets import pass_codes, passes_with_codes
from .errors import PAGES as OF_ERRORS
from .findings import PAGES as OF_FINDINGS
from .page import Page
from .passes import PAGES as OF_PASSES
from .ports import PAGES as OF_PORTS
from .versions import PAGES as OF_VERSIONS

PAGES: dict[str, Page] = {**OF_ERRORS, **OF_FINDINGS, **OF_PORTS, **OF_VERSIONS, **OF_PASSES}
"""Code -> its page; a code of a pass without one has that of its pass."""


class Explained(NamedTuple):
    """The explanation of a code.

    Attributes:
        code: the code.
        meaning: what it means, in one line.
        page: its cause, an example, and what to do.
        found_by: what reports it.
    """

    code: str
    meaning: str
    page: Page
    found_by: str

    def __str__(self) -> str:
        return self.render()

    def render(self, say: Callable[[str], str] = str) -> str:
        """Return it as text; `say` gives each part in the reader's language."""
        page = self.page
        parts = [("Cause", page.cause), ("Example", page.example), ("What to do", page.fix)]
        body = "\n\n".join(f"{say(title)}:\n{_indented(say(text))}" for title, text in parts)
        by = say(f"reported by {self.found_by}")
        return f"{self.code}: {say(self.meaning)}\n\n{body}\n\n{by}\n"


def _indented(text: str) -> str:
    lines = [line for each in text.splitlines() for line in _wrapped(each)]
    return "\n".join(f"    {line}".rstrip() for line in lines)


def _wrapped(line: str) -> list[str]:
    """Return a line of prose in lines that fit a terminal; what is indented is code and stays."""
    fits = len(line) <= _WIDTH or line.startswith((" ", ">", "."))
    return [line] if fits else textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False)


_WIDTH = 90


def describe(name: str) -> str:
    """Return the explanation of a pass or a code as text.

    Raises:
        PassError: when there is nothing of that name.
    """
    found = explain(name)
    return describe_pass(name) if found is None else str(found)


def explain(code: str) -> Explained | None:
    """Return a code's meaning, cause, example and fix; None for an unknown code."""
    code = code.strip().upper()
    if code in ERRORS:
        return _explained(code, ERRORS[code], "any command, as an error")
    if code in CODES:
        return _explained(code, CODES[code], "`regraft check`")
    for cls in passes_with_codes():
        if code in cls.codes:
            return _explained(code, cls.codes[code], f"the pass `{cls.name}`", cls)
    return None


def known_codes() -> dict[str, dict[str, str]]:
    """Return origin of codes (errors, `check`, a pass) -> code -> its meaning."""
    return {"errors": dict(ERRORS), "regraft check": dict(CODES), **pass_codes()}


def _explained(code: str, meaning: str, found_by: str, cls: type[Pass] | None = None) -> Explained:
    page = PAGES.get(code)
    if page is None:
        assert cls is not None, code
        page = _of_pass(cls)
    return Explained(code, meaning, page, found_by)


def _of_pass(cls: type[Pass]) -> Page:
    """Return the page of what a pass does to any net: no fault of its author's."""
    text = sections(cls)
    return Page(
        cause=" ".join(text.get("Why", text[""]).split()),
        example=text["Example"],
        fix="Nothing: this says what a rewrite does. `regraft explain "
        f"{cls.name}` says what else it does, what it leaves alone and what it refuses.",
    )


def sections(cls: type[Pass]) -> Mapping[str, str]:
    """Return heading -> text of a pass's documentation; text above the first heading has an empty one."""
    found: dict[str, list[str]] = {"": []}
    at = ""
    for line in cleandoc(cls.__doc__ or "").splitlines():
        if line.endswith(":") and not line.startswith(" ") and line[:1].isupper() and len(line) < 20:
            at = line[:-1]
            found[at] = []
        else:
            found[at].append(line)
    return {heading: cleandoc("\n".join(lines)).strip() for heading, lines in found.items()}
