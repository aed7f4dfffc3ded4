"""A gettext catalogue whose entries may be patterns; English where it has nothing.

Codes, names, options and keys of JSON are the same in every language. Messages are f-strings where they
arise, many layers below what prints, and are looked up as they are printed: the entry of one that holds names
or numbers has ``{name}`` in their places. A test reads such templates off the code and counts those without
an entry.
"""

from __future__ import annotations

import json
import re
from functools import cache
from gettext import NullTranslations
from pathlib import Path

from .pattern import SLOT, Pattern, is_spoken

_LONGEST = 4000
"""Characters of a line up to which it is compared with patterns."""


class Catalogue(NullTranslations):
    """The messages of a .po file, and those of its patterns.

    Args:
        text: the file's.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.messages = read_po(text)
        patterns = [Pattern(source, target) for source, target in self.messages.items() if "{" in source]
        self._patterns = sorted(
            (pattern for pattern in patterns if pattern.slots), key=lambda each: each.rank
        )

    def gettext(self, message: str) -> str:
        """Return the translation of a message; the message itself where there is none."""
        if message in self.messages:
            return self.messages[message]
        if not message or len(message) > _LONGEST or message.isspace():
            return message
        found = self._match(message)
        named = _OF_MODULE.fullmatch(message)
        if named is not None:  # the message of a finding, with the module that it is about
            if named[1] in self.messages:
                return self.messages[named[1]] + named[2]
            bare = self._match(named[1])
            if bare is not None and (found is None or bare[0].rank < found[0].rank):
                return self._fill(*bare) + named[2]
        return message if found is None else self._fill(*found)

    def _match(self, message: str) -> tuple[Pattern, dict[str, str]] | None:
        """Return the first pattern of a message, and what stands in its slots."""
        for pattern in self._patterns:
            parts = pattern.match(message)
            if parts is not None:
                return pattern, parts
        return None

    def _fill(self, pattern: Pattern, parts: dict[str, str]) -> str:
        return SLOT.sub(lambda slot: self._filled(slot[1], parts[slot[1]]), pattern.target)

    def _filled(self, slot: str, part: str) -> str:
        """Translate the content of a slot: a message, several, or a list of names; a single name stays."""
        if part.startswith(_ROOT):
            return self.gettext(_ROOT) + part.removeprefix(_ROOT)
        if not is_spoken(slot) and not _SENTENCE.search(part):
            return part
        several = part.split("; ")
        if len(several) > 1:  # a slot of one message would hold the others
            told = [self.gettext(one) for one in several]
            if all(new != old for new, old in zip(told, several, strict=True)):
                return _CHINESE["; "].join(told)
        said = self.gettext(part)
        return self._listed(part) if said == part else said

    def _listed(self, part: str) -> str:
        """Messages with a comma or a semicolon between them."""
        names = _NAMES.fullmatch(part)
        if names is not None:
            more = names[2].removesuffix(" more")
            return f"{names[1]} 和 {more}" if more == names[2] else f"{names[1]} 等另外 {more} 个"
        pieces = _SEPARATORS.split(part)
        if len(pieces) == 1:
            return part
        told = pieces[0] = self.gettext(pieces[0])
        for separator, piece in zip(pieces[1::2], pieces[2::2], strict=True):
            said = self.gettext(piece)
            told += (separator if said == piece else _CHINESE[separator]) + said
        return told


_ROOT = "the root module"
_OF_MODULE = re.compile(r"(.+)( \(`[^`]*`\))")
_SENTENCE = re.compile(r"[a-z]{2} [`a-z\d(]|[`\d)] [a-z]{2}")
"""Text of several words, which no name of a model is."""
_NAMES = re.compile(r"((?:`[^`]*`|\d+)(?:, (?:`[^`]*`|\d+))*) and (`[^`]*`|\d+(?: more)?)")
_SEPARATORS = re.compile("(, |; )")
_CHINESE = {", ": "，", "; ": "；"}


def read_po(text: str) -> dict[str, str]:
    """Return the messages of a .po file that are translated."""
    found: dict[str, str] = {}
    source, target, into = "", "", ""
    for line in [*text.splitlines(), 'msgid ""']:
        keyword, _, quoted = line.partition(" ")
        if line.startswith('"'):
            keyword, quoted = into, line
        elif keyword not in ("msgid", "msgstr"):
            continue
        if keyword == "msgid" and into == "msgstr":
            if source and target:
                found[source] = target
            source, target = "", ""
        into = keyword
        if keyword == "msgid":
            source += json.loads(quoted)  # whose escapes are those of .po files
        else:
            target += json.loads(quoted)
    return found


@cache
def catalogue(name: str) -> NullTranslations:
    """Return the catalogue of a language; one that gives back what it is given for English."""
    if name == "en":
        return NullTranslations()
    path = Path(__file__).with_name(f"{name}.po")
    return Catalogue(path.read_text(encoding="utf-8"))


def say(message: str, lang: str) -> str:
    """Return a message in a language."""
    return catalogue(lang).gettext(message)


def say_lines(text: str, lang: str) -> str:
    """Return each line of a text in a language; what stands before a line stays there."""
    if lang == "en":
        return text
    return "\n".join(_say_line(line, catalogue(lang)) for line in text.split("\n"))


_LABELLED = re.compile(r"(note|hint|write|because|instead|FAILED): (.*)")
_CODED = re.compile(r"((?:error|warning|note|fixed) )?([A-Z]{1,2}\d{3}) (.*)")
_CELLS = re.compile("( {2,})")


def _say_line(line: str, known: NullTranslations) -> str:
    """Return one line: itself, or what it is made of: a label, a code, a place, the cells of a table."""
    body = line.lstrip(" ")
    return line[: len(line) - len(body)] + _say_body(body, known)


def _say_body(body: str, known: NullTranslations) -> str:
    labelled = _LABELLED.fullmatch(body)
    if labelled is not None:
        label = known.gettext(f"{labelled[1]}:")
        said = _say_body(labelled[2], known)
        return f"{label} {said if said != labelled[2] else labelled[2].replace(' - at ', ' - 位于 ')}"
    coded = _CODED.fullmatch(body)
    if coded is not None:
        label = f"{known.gettext(coded[1].strip())} " if coded[1] else ""
        return f"{label}{coded[2]} {_say_body(coded[3], known)}"
    head, at, place = body.rpartition(" - at ")
    if at:
        said = known.gettext(head)
        if said != head:
            return f"{said} - 位于 {_say_place(place, known)}"
    if "  " in body:  # a row of a table, whose last cell is a message and no part of one
        said = _say_cells(body, known)
        if said != body:
            return said
    return known.gettext(body)


_OPERATOR = re.compile(r"(`[^`]+`) in (`[^`]+`)(.*)")


def _say_place(place: str, known: NullTranslations) -> str:
    """Translate a place: names stay, but not the root's, an operator's module and counts of others."""
    if place.startswith(_ROOT):
        place = known.gettext(_ROOT) + place.removeprefix(_ROOT)
    head, _, more = place.rpartition(" and ")
    said = known.gettext(f"and {more}")
    place = f"{head} {said}" if head and said != f"and {more}" else place
    inside = _OPERATOR.fullmatch(place)
    return f"{inside[2]} 中的 {inside[1]}{inside[3]}" if inside else place


def _say_cells(row: str, known: NullTranslations) -> str:
    """A row of a table: its head is translated whole, in place; of the others the verdict and sentences."""
    cells = _CELLS.split(row)
    said = [known.gettext(cell) for cell in cells[::2]]
    if any(new == old for new, old in zip(said, cells[::2], strict=True)):
        said = [new if _SENTENCE.search(old) else old for new, old in zip(said, cells[::2], strict=True)]
        said[-1] = _say_body(cells[-1], known)
    for at, cell in enumerate(said[:-1]):
        cells[2 * at + 1] = " " * max(1, len(cells[2 * at]) + len(cells[2 * at + 1]) - width_of(cell))
    cells[::2] = said
    return "".join(cells)


def width_of(text: str) -> int:
    """Return the width of a text in columns of a terminal: a Chinese character has two."""
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
