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
        for pattern in self._patterns:
            parts = pattern.match(message)
            if parts is not None:
                return SLOT.sub(
                    lambda slot, parts=parts: self._filled(slot[1], parts[slot[1]]), pattern.target
                )
        return message

    def _filled(self, slot: str, part: str) -> str:
        """What stands in a slot: a message of its own or several, or a name, which has no language."""
        if not is_spoken(slot):
            return part
        said = self.gettext(part)
        return self._listed(part) if said == part else said

    def _listed(self, part: str) -> str:
        """Messages with a comma or a semicolon between them."""
        pieces = _SEPARATORS.split(part)
        if len(pieces) == 1:
            return part
        told = pieces[0] = self.gettext(pieces[0])
        for separator, piece in zip(pieces[1::2], pieces[2::2], strict=True):
            said = self.gettext(piece)
            told += (separator if said == piece else _CHINESE[separator]) + said
        return told


_SEPARATORS = re.compile("(, |; )")
_CHINESE = {", ": "，", "; ": "；"}


def read_po(text: str) -> dict[str, str]:
    """The messages of a .po file that are translated."""
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
    """The catalogue of a language; one that gives back what it is given for English."""
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


_LABELLED = re.compile(r"(note|hint|write|because|instead): (.*)")
_CODED = re.compile(r"((?:error|warning|note|fixed) )?([A-Z]{1,2}\d{3}) (.*)")
_CELLS = re.compile("( {2,})")


def _say_line(line: str, known: NullTranslations) -> str:
    """One line: itself, or what it is made of: a label, a code, a place, the cells of a table."""
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
    said = known.gettext(body)
    return _say_cells(body, known) if said == body and "  " in body else said


def _say_place(place: str, known: NullTranslations) -> str:
    """Places are names, but for how many more there are."""
    head, _, more = place.rpartition(" and ")
    said = known.gettext(f"and {more}")
    return f"{head} {said}" if head and said != f"and {more}" else place


def _say_cells(row: str, known: NullTranslations) -> str:
    """A row of a table: its head is translated whole, in place; of the others the last cell, a verdict."""
    cells = _CELLS.split(row)
    said = [known.gettext(cell) for cell in cells[::2]]
    if all(new != old for new, old in zip(said, cells[::2], strict=True)):
        for at, cell in enumerate(said[:-1]):
            cells[2 * at + 1] = " " * max(1, len(cells[2 * at]) + len(cells[2 * at + 1]) - width_of(cell))
        cells[::2] = said
    else:
        cells[-1] = said[-1]
    return "".join(cells)


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes: a Chinese character has two."""
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
