"""Messages in the user's language: a gettext catalogue, English where it has nothing.

Codes, names, options and keys of JSON are the same in every language. A message that holds names or numbers
is looked up by its pattern: its entry has ``{name}`` in their places.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from gettext import NullTranslations
from pathlib import Path

import click

LANGUAGE = "regraft.language"
"""Key of the context's `meta` under which the language stands that --lang names."""
LANGUAGES = ("en", "zh")
_LONGEST = 4000
"""Characters of a line up to which it is compared with patterns."""


def language() -> str:
    """The language asked for: by --lang, else by the environment, as gettext reads it."""
    ctx = click.get_current_context(silent=True)
    chosen = None if ctx is None else ctx.meta.get(LANGUAGE)
    if chosen:
        return chosen
    for variable in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


class Catalogue(NullTranslations):
    """The messages of a .po file, and those of its patterns.

    Args:
        text: the file's.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.messages = read_po(text)
        patterns = [source for source in self.messages if _SLOT.search(source)]
        patterns.sort(key=lambda source: -len(_SLOT.sub("", source)))  # the one that says most comes first
        self._patterns = [(_pattern(source), self.messages[source]) for source in patterns]

    def gettext(self, message: str) -> str:
        """Return the translation of a message; the message itself where there is none."""
        if message in self.messages:
            return self.messages[message]
        if not message or len(message) > _LONGEST or message.isspace():
            return message
        for pattern, target in self._patterns:
            found = pattern.fullmatch(message)
            if found is not None:
                parts = found.groupdict()
                return _SLOT.sub(lambda slot, parts=parts: self._filled(slot[1], parts[slot[1]]), target)
        return message

    def _filled(self, slot: str, part: str) -> str:
        """What stands in a slot: a message of its own, or a name, which has no language."""
        return self.gettext(part) if slot in _SPOKEN else part


_SPOKEN = ("advice", "rest", "what", "why")
_SLOT = re.compile(r"\{(\w+)\}")


def _pattern(source: str) -> re.Pattern[str]:
    pieces = _SLOT.split(source)
    return re.compile(
        "".join(f"(?P<{piece}>[^\\n]+?)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces))
    )


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
            source += ast.literal_eval(quoted)
        else:
            target += ast.literal_eval(quoted)
    return found


@cache
def catalogue(name: str) -> NullTranslations:
    """The catalogue of a language; one that gives back what it is given for English."""
    if name == "en":
        return NullTranslations()
    path = Path(__file__).with_name("messages") / f"{name}.po"
    return Catalogue(path.read_text(encoding="utf-8"))


def say(message: str) -> str:
    """Return a message in the language asked for."""
    return catalogue(language()).gettext(message)


def say_lines(text: str) -> str:
    """Return each line of a text in the language asked for; what stands before a line stays there."""
    if language() == "en":
        return text
    return "\n".join(_say_line(line) for line in text.split("\n"))


def _say_line(line: str) -> str:
    body = line.lstrip(" ")
    said = say(body)
    if said == body:
        label, colon, rest = body.partition(": ")
        if colon and label in ("note", "hint"):
            said = f"{say(label)}: {say(rest)}"
    return line[: len(line) - len(body)] + said
