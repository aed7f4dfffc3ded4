"""Whether a file is the user's: neither a module of this package's nor a library's."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_OURS = (
    *(f"{init.parent}{os.sep}" for init in _ROOT.glob("*/__init__.py")),  # not `examples` of a checkout
    *map(str, _ROOT.glob("*.py")),
)
_LIBRARIES = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib"))
_NOT_USERS = ("<", *_OURS, *_LIBRARIES)


def is_users_file(name: str) -> bool:
    """Whether a name of a code object's file is that of code which the user wrote."""
    return not name.startswith(_NOT_USERS) and "site-packages" not in name
