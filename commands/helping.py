"""Help texts in the user's language: translated as they are written, and folded as Chinese is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import click

from ..process.messages import width_of
from .language import LANGUAGE, language, language_of, say, say_lines


class Help(click.HelpFormatter):
    """Writes a command's help; in English as click does."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """See click."""
        super().write_usage(prog, args, f"{say('Usage:')} " if prefix is None else prefix)

    def write_heading(self, heading: str) -> None:
        """See click."""
        super().write_heading(say(heading))

    def write_text(self, text: str) -> None:
        """See click."""
        if language() == "en":
            super().write_text(text)
            return
        parts = [
            say_lines(part.removeprefix("\b\n")).split("\n")
            if part.startswith("\b")
            else list(_wrapped(say(" ".join(part.split())), self.width - self.current_indent))
            for part in text.split("\n\n")
        ]
        indent = " " * self.current_indent
        self.write("\n\n".join("\n".join(indent + line for line in lines) for lines in parts))
        self.write("\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """See click."""
        if language() == "en":
            super().write_dl(rows, col_max, col_spacing)
            return
        rows = list(rows)
        column = min(max(len(first) for first, _ in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        gap = " " * (self.current_indent + column)
        for first, second in rows:
            lines = list(_wrapped(say_option(second), max(self.width - len(gap), 10)))
            fits = len(first) <= column - col_spacing
            head = f"{indent}{first.ljust(column)}" if fits else f"{indent}{first}\n{gap}"
            self.write(head + f"\n{gap}".join(lines) + "\n")


def say_option(text: str, lang: str | None = None) -> str:
    """Return an option's help and its default."""
    meaning, bracket, rest = text.partition("  [")
    found = [say(each, lang) for each in rest.removesuffix("]").split("; ")]
    return say(meaning, lang) + (f"  [{'; '.join(found)}]" if bracket else "")


# compiled only where Chinese is folded: its ranges take 5 ms
_PIECES = r"[ \t]+|[\u2e80-\uffee][，。；：、）？！”]*|[^\s\u2e80-\uffee]+[，。；：、）？！”]*"


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield lines of at most so many columns; a line begins with no closing mark, as Chinese is set."""
    line = ""
    for piece in re.findall(_PIECES, text):
        if line and not piece.isspace() and width_of(line) + width_of(piece) > width:
            yield line.rstrip()
            line = ""
        line += piece if line or not piece.isspace() else ""
    yield line.rstrip()


class Context(click.Context):
    """The context of every command."""

    formatter_class = Help


class Commands(click.Group):
    """The group of all commands, which knows the language before it parses anything."""

    context_class = Context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        ctx.meta[LANGUAGE] = language_of(args)
        return super().parse_args(ctx, args)


def set_language(ctx: click.Context, _: click.Parameter, value: Any) -> None:
    """Keep the language that an option or a configuration names."""
    if value:
        ctx.meta[LANGUAGE] = value
