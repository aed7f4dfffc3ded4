"""Typed access to MXNet's attributes, which are all text: ``(3, 3)``, ``True``, ``None``, ``1e-05``."""

from __future__ import annotations

import ast
import re
from copy import deepcopy
from functools import lru_cache
from typing import Any

from ...ir import ModelError, RegraftError
from ..arguments import REQUIRED, Arguments, Key, described

_LITERAL = re.compile(r"[\[\](),\s\d.eE+\-LNoneTtrueFalsinf]*")
_LONG = re.compile(r"(?<=\d)L\b")  # Python 2 wrote long integers so
_LIMIT = 10_000
_LARGEST = 1 << 62


def literal(text: str) -> object:
    """Return the value of a number, tuple, list, True, False or None written as text.

    Raises:
        ValueError: for anything else.
    """
    found = _literal(text)
    is_flat = not isinstance(found, list) and (
        not isinstance(found, tuple) or not any(isinstance(part, (list, tuple)) for part in found)
    )
    return found if is_flat else deepcopy(found)


@lru_cache(maxsize=1024)  # a symbol is read at several sizes, and its layers are alike
def _literal(text: str) -> object:
    if len(text) > _LIMIT or not _LITERAL.fullmatch(text):
        raise ValueError(text)
    plain = text.strip()
    if plain.lstrip("+-") in ("inf", "nan"):
        return float(plain)
    if plain.lower() in ("true", "false"):
        return plain.lower() == "true"
    try:
        return ast.literal_eval(_LONG.sub("", plain))
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(text) from error


def text_bool(text: str) -> bool:
    """Return ``True`` or ``1`` as a flag.

    Raises:
        ValueError: for what MXNet would not read as a flag.
    """
    if text.lower() in ("true", "1"):
        return True
    if text.lower() in ("false", "0"):
        return False
    raise ValueError(text)


class TextAttributes(Arguments):
    """The attributes of one MXNet operator, read with the type that the operator gives them."""

    def plain(self, key: Key, default: Any = REQUIRED) -> Any:
        """Return the number, flag, None or tuple that an attribute's text stands for."""
        found = self.arg(key, default)
        if not isinstance(found, str):
            return found
        try:
            return literal(found)
        except ValueError:
            raise self.mismatch(key, "a number, a tuple or None", found) from None

    def flag(self, key: Key, default: Any = False) -> bool:
        """Return a flag; ``None`` stands for the default."""
        found = self.arg(key, None)
        if found is None or found == "None":
            return default
        try:
            return text_bool(str(found))
        except ValueError:
            raise self.mismatch(key, "True or False", found) from None

    def int(self, key: Key, default: Any = REQUIRED) -> int:
        """Return an integer, which a file may write as ``2.0``."""
        found = self.plain(key, default)
        return int(found) if isinstance(found, float) and found.is_integer() else super().int(key, default)

    def optional_ints(self, key: Key, default: Any = None) -> list[int | None] | None:
        """Return integers among which may be None, or None altogether."""
        found = super().optional_ints(key, default)
        if any(number is not None and abs(number) >= _LARGEST for number in found or ()):
            raise self.mismatch(key, "integers of 62 bits", found)
        return found

    def mismatch(self, key: Key, expected: str, found: object) -> RegraftError:
        """Return the error for an attribute that is not what the operator has: the file's fault."""
        return ModelError(
            "E101",
            f"expected {described(key)} of `{self.operator}` to be {expected}, got {found!r}",
            place=self.place,
        )
