"""The folders that a server may read, run and write: nothing outside them, by whatever way it is named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ...ir import UsageError

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_PYTHON = re.compile(r"(?P<file>.+\.py)(?::(?P<name>.*))?", re.DOTALL)


class Folders:
    """The folders that a server was started with.

    Args:
        roots: the folders.

    Raises:
        UsageError: when one is none (E001).
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise UsageError("E001", f"expected a folder, got `{root}`")
        self.roots = tuple(root.resolve() for root in roots)

    def path(self, text: str) -> str:
        """Return a path inside a folder, absolute and without links; relative ones are the first folder's.

        Raises:
            UsageError: when it leads elsewhere (E001).
        """
        if not text or "\0" in text:
            raise UsageError("E001", "expected a path, got none")
        found = (self.roots[0] / text).resolve()
        if not any(found.is_relative_to(root) for root in self.roots):
            listed = ", ".join(f"`{root}`" for root in self.roots)
            raise UsageError(
                "E001",
                f"expected a path inside {listed}, got `{text}`",
                hint="the server touches nothing elsewhere; start it with --allow for that folder",
            )
        return str(found)

    def existing(self, text: str) -> str:
        """Return a path of something that is there.

        Raises:
            UsageError: when it is not, or a Python file in it is a link that leads elsewhere (E001).
        """
        found = self.path(text)
        if not Path(found).exists():
            raise UsageError("E001", f"expected a file or a folder, got `{text}`, which does not exist")
        if Path(found).is_dir():
            for file in sorted(Path(found).glob("*.py")):  # which a verification runs
                self.path(str(file))
        return found

    def model(self, text: str) -> str:
        """Return a model's reference, ``file.py:Name`` or a file, with its path resolved.

        Raises:
            UsageError: for a name of an installed module, whose code no folder holds, and a path that is
                not inside (E001).
        """
        written = _PYTHON.fullmatch(text)
        if written is None:
            return self.existing(text)
        name = written["name"]
        if name is not None and not _NAME.fullmatch(name):
            raise UsageError("E001", f"expected file.py:Name, got `{text}`")
        return self.existing(written["file"]) + ("" if name is None else f":{name}")

    def value(self, text: str) -> str:
        """Return the value of an example input, of which ``NAME=@FILE`` names a file."""
        name, at, path = text.rpartition("@")
        return f"{name}@{self.existing(path)}" if at and (not name or name.endswith("=")) else text
