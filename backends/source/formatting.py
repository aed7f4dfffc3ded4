"""Formats emitted source by ruff."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from ...ir import BackendError


def format_source(text: str) -> str:
    """Return the text as `ruff format` leaves it.

    Raises:
        BackendError: when it is no Python, which is a defect of the backend.
    """
    # no shell: the command is ours, the text goes to its standard input
    command = [_ruff(), "format", "--isolated", "--stdin-filename", "model.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)  # noqa: S603
    if done.returncode:
        raise BackendError(
            "E602", f"the emitted source does not parse: {done.stderr.strip()}", place="model.py"
        )
    return done.stdout


def _ruff() -> str:
    """Return the path of the installed ruff; `python -m ruff` could run a `ruff.py` in the working directory.

    Raises:
        BackendError: when it is not installed.
    """
    name = "ruff" + (sysconfig.get_config_var("EXE") or "")
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    folders += [sysconfig.get_path("scripts", scheme) for scheme in (sysconfig.get_preferred_scheme("user"),)]
    for folder in folders:
        if (found := Path(folder) / name).is_file():
            return str(found)
    raise BackendError("E602", f"expected ruff to be installed, got no program in {folders[0]}")


_LINE_ENDS = frozenset("\n")


def docstring_text(text: str) -> str:
    """Return a text, which may hold names of any kind, as it stands between the quotes of a docstring."""
    plain = text.replace("\\", "\\\\").replace('"""', "'''")
    return "".join(c if c in _LINE_ENDS or c.isprintable() else repr(c)[1:-1] for c in plain)
