"""The language that the user asks for, and what is printed in it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from ..process import messages

LANGUAGE = "regraft.language"
"""Key of the context's `meta` under which the language stands that --lang names."""
LANGUAGES = ("en", "zh")


def language() -> str:
    """Return the language asked for: by --lang, else by the environment, as gettext reads it."""
    ctx = click.get_current_context(silent=True)
    return (None if ctx is None else ctx.meta.get(LANGUAGE)) or language_of_environment()


def language_of_environment() -> str:
    """Return the language of the first variable that is set, of those that gettext reads."""
    for variable in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def language_of(arguments: Sequence[str]) -> str:
    """Return the language that a command line asks for, wherever --lang stands in it, else the environment's.

    Help and usage errors are printed before the options behind them are parsed.
    """
    for option, value in zip(arguments, [*arguments[1:], ""], strict=False):
        if option == "--":
            break
        if option.startswith("--lang="):
            option, _, value = option.partition("=")
        if option == "--lang" and value in LANGUAGES:
            return value
    return language_of_environment()


def say(message: str, lang: str | None = None) -> str:
    """Return a message in the language asked for."""
    return messages.say(message, lang or language())


def say_lines(text: str, lang: str | None = None) -> str:
    """Return each line of a text in the language asked for; what stands before a line stays there."""
    return messages.say_lines(text, lang or language())
