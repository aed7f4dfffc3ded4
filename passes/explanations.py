"""Explains a pass, a finding or an error code, by the text of the code that raises it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from inspect import cleandoc

from ..ir import CODES, PassError
from .base import Pass


def explain(passes: Mapping[str, type[Pass]], name: str) -> str:
    """Return the explanation of a pass's name, a finding's code or an error's code.

    Raises:
        PassError: when there is nothing of that name.
    """
    wanted = name.strip()
    if wanted.lower() in passes:
        return _pass_text(passes[wanted.lower()])
    code = wanted.upper()
    if code in CODES:
        return f"{code}: {CODES[code]}\n"
    for cls in passes.values():
        if code in cls.codes:
            return f"{code}: {cls.codes[code]}\n\nfound by the pass `{cls.name}`:\n\n{_pass_text(cls)}"
    known = [*passes, *CODES, *(code for cls in passes.values() for code in cls.codes)]
    close = get_close_matches(wanted, known, n=3, cutoff=0.5) or get_close_matches(
        code, known, n=3, cutoff=0.5
    )
    raise PassError(
        "E502",
        f"no pass or code is called `{wanted}`",
        hint=f"did you mean {' or '.join(f'`{c}`' for c in close)}?"
        if close
        else "`regraft explain` lists all codes, and `regraft passes` all passes",
    )


def _pass_text(cls: type[Pass]) -> str:
    lines = [cls.name, "=" * len(cls.name), "", cleandoc(cls.__doc__ or "")]
    given = fields(cls)  # type: ignore[arg-type] - every pass is a dataclass
    options = [f.name.replace("_", "-") for f in given if f.default is not MISSING]
    if options:
        lines += ["", f"Options: {', '.join(options)}"]
    if cls.codes:
        lines += ["", "Codes:", *(f"    {code}: {meaning}" for code, meaning in cls.codes.items())]
    return "\n".join(lines) + "\n"
