"""Selects findings: by selected or ignored codes, and by comments that silence a line."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..frontends.class_source import is_library_class
from ..ir import UsageError
from ..passes import Change
from .subject import Subject, parse_file

_COMMENT = re.compile(r"#\s*regraft:\s*ignore(?:\[([A-Za-z0-9,\s]*)\])?")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The findings that a user selects.

    Attributes:
        ported_from: "torch" for the traps of a port from it too; empty for none.
        select: codes, or how some begin; empty for all.
        ignore: those that are left out of them.
        release: the release of MindSpore whose removals and changes are reported too; empty for none.
    """

    ported_from: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    release: str = ""

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse what no finding can be.

        Raises:
            UsageError: for a framework whose ports have no known traps, and a code that none begins with
                (E001).
        """
        if self.ported_from not in ("", "torch"):
            raise UsageError("E001", f"expected `torch` as the framework of origin, got `{self.ported_from}`")
        every = sorted(known)
        for code in (*self.select, *self.ignore):
            if not code or not any(each.startswith(code) for each in every):
                kinds = ", ".join(dict.fromkeys(each.rstrip("0123456789") for each in every))
                raise UsageError(
                    "E001",
                    f"expected the code of a finding, or the start of several codes, got `{code}`",
                    hint=f"they begin with {kinds}",
                )

    def __contains__(self, change: Change) -> bool:
        chosen = not self.select or change.code.startswith(self.select)
        return chosen and not change.code.startswith(self.ignore or ("-",))


def find_silenced(files: Mapping[str, Path], changes: Sequence[Change]) -> list[Change]:
    """Return findings at statements with a comment ``# regraft: ignore``, or one with their code.

    A finding that names several lines is silenced where all of them have it.

    Args:
        files: the user's files by the names that findings have for them.
        changes: the findings.
    """
    comments: dict[str, dict[int, set[str] | None]] = {}
    found: list[Change] = []
    for change in changes:
        places = lines_of(change)
        if not places or any(name not in files for name, _ in places):
            continue
        for name, _ in places:
            if name not in comments:
                comments[name] = _silent_lines(files[name])
        if all(_is_silent(comments[name].get(int(line), set()), change.code) for name, line in places):
            found.append(change)
    return found


def lines_of(change: Change) -> list[tuple[str, str]]:
    """Return (name of the file, number) of the lines that a finding names as its place, else in its words."""
    return _LINE.findall(change.place) or _LINE.findall(change.message)


_LINE = re.compile(r"([^\s,`(]+\.py):(\d+)")


def files_of(subject: Subject) -> dict[str, Path]:
    """Return the user's files by the names that findings have for them."""
    return {path.name: path for path in _files(subject)}


def _is_silent(codes: set[str] | None, code: str) -> bool:
    return codes is None or code in codes


def _files(subject: Subject) -> Iterable[Path]:
    """Yield the user's files: that of the model, and those of the classes of its parts."""
    if subject.file is not None:
        yield subject.file
    if subject.model is None or not hasattr(subject.model, "__dict__"):
        return
    for cls in dict.fromkeys(type(part) for _, part in subject.parts()):
        if not is_library_class(cls):
            try:
                yield Path(inspect.getsourcefile(cls) or "")
            except TypeError:  # made at run time
                continue


def _silent_lines(path: Path) -> dict[int, set[str] | None]:
    """Return line -> codes that a comment silences there (None for all), on every line of a statement."""
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(path.read_bytes()).readline))
    except (OSError, SyntaxError, tokenize.TokenError):
        return {}
    written: dict[int, set[str] | None] = {}
    for token in tokens:
        match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match is not None:
            codes = match[1]
            written[token.start[0]] = None if codes is None else {c.strip().upper() for c in codes.split(",")}
    if not written:
        return {}
    found = dict(written)
    for node in ast.walk(parse_file(path) or ast.Module([], [])):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            inside = [written[line] for line in lines if line in written]
            if inside:
                joined = None if None in inside else {c for each in inside if each for c in each}
                found.update(dict.fromkeys(lines, joined))
    return found
