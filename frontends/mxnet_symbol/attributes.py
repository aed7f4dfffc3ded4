"""Typed access to MXNet's attributes, which are all text: ``(3, 3)``, ``True``, ``None``, ``1e-05``."""

from __future__ import annotations

import ast
import re

from ...ir import ModelError
from ..lowering_table import Attributes

_LITERAL = re.compile(r"[\[\](),\s\d.eE+\-LNoneTtrueFalsinf]*")
_LONG = re.compile(r"(?<=\d)L\b")  # Python 2 wrote long integers so
_LIMIT = 10_000

_REQUIRED = object()


def literal(text: str) -> object:
    """The value of a number, tuple, list, True, False or None written as text.

    Raises:
        ValueError: for anything else.
    """
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
    """``True`` or ``1`` as a flag.

    Raises:
        ValueError: for what MXNet would not read as a flag.
    """
    if text.lower() in ("true", "1"):
        return True
    if text.lower() in ("false", "0"):
        return False
    raise ValueError(text)


class TextAttributes(Attributes):
    """The attributes of one MXNet operator, read with the type that the operator gives them."""

    def text(self, name: str, default: object = _REQUIRED) -> str:
        """A word, such as ``max``."""
        value = self.get(name) if default is _REQUIRED else self.get(name, default)
        return str(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A flag."""
        value = self.get(name, None)
        if value is None or value == "None":
            return default
        try:
            return text_bool(str(value))
        except ValueError:
            raise self._bad(name, "True or False") from None

    def int(self, name: str, default: object = _REQUIRED) -> int:
        """An integer."""
        value = self._literal(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise self._bad(name, "an integer")
        return int(value)

    def optional_int(self, name: str, default: int | None = None) -> int | None:
        """An integer or None."""
        value = self._literal(name, default)
        if value is not None and not isinstance(value, int):
            raise self._bad(name, "an integer or None")
        return value

    def float(self, name: str, default: object = _REQUIRED) -> float:
        """A number."""
        value = self._literal(name, default)
        if not isinstance(value, (int, float)):
            raise self._bad(name, "a number")
        return float(value)

    def ints(self, name: str, default: object = _REQUIRED) -> list[int]:
        """Integers; one alone stands for a list of one."""
        value = self.optional_ints(name, default)
        if value is None or any(v is None for v in value):
            raise self._bad(name, "a list of integers")
        return [v for v in value if v is not None]

    def optional_ints(self, name: str, default: object = None) -> list[int | None] | None:
        """Integers among which may be None, or None altogether."""
        value = self._literal(name, default)
        if value is None:
            return None
        items = list(value) if isinstance(value, (tuple, list)) else [value]
        numbers = [v for v in items if v is None or (isinstance(v, int) and abs(v) < 1 << 62)]
        if len(numbers) != len(items):
            raise self._bad(name, "a list of integers")
        return numbers

    def floats(self, name: str, default: object = _REQUIRED) -> list[float]:
        """Numbers; one alone stands for a list of one."""
        value = self._literal(name, default)
        items = list(value) if isinstance(value, (tuple, list)) else [value]
        numbers = [float(v) for v in items if isinstance(v, (int, float))]
        if len(numbers) != len(items):
            raise self._bad(name, "a list of numbers")
        return numbers

    def _literal(self, name: str, default: object) -> object:
        value = self.get(name) if default is _REQUIRED else self.get(name, default)
        if not isinstance(value, str):
            return value
        try:
            return literal(value)
        except ValueError:
            raise self._bad(name, "a number, a tuple or None") from None

    def _bad(self, name: str, expected: str) -> ModelError:
        return ModelError(
            "E101",
            f"expected `{name}` of `{self.operator}` to be {expected}, got {self.get(name)!r}",
            place=self.place,
        )
