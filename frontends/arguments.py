"""The arguments of one source operator, each of which its lowering reads or ignores by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from ..ir import UnsupportedError, Value

Key = str | int
"""An argument by its name, or an operand by its position."""

REQUIRED: Any = object()
"""The default of an argument that must be there."""


class Arguments:
    """Typed access to the arguments of a source operator; what nobody looked at is an error at the end.

    Args:
        arguments: name or position -> tensor, number, text, None, or a list of these.
        operator: name of the source operator.
        place: where it is used, for messages.
    """

    def __init__(self, arguments: Mapping[Any, object], operator: str, place: str) -> None:
        self.operator, self.place = operator, place
        self._arguments = dict(arguments)
        self._unread = set(arguments)

    def __contains__(self, key: Key) -> bool:
        return key in self._arguments

    def arg(self, key: Key, default: Any = REQUIRED) -> Any:
        """Return an argument as it is.

        Raises:
            UnsupportedError: when it is absent and there is no default.
        """
        self._unread.discard(key)
        if key not in self._arguments:
            if default is REQUIRED:
                raise UnsupportedError(
                    "E203", f"expected `{self.operator}` to have {described(key)}", place=self.place
                )
            return default
        return self._arguments[key]

    def plain(self, key: Key, default: Any = REQUIRED) -> Any:
        """Return an argument as a Python number, flag, None or list; a framework says what of its is one."""
        return self.arg(key, default)

    def items(self, found: Any) -> list[Any]:
        """Return the elements of a list; anything else stands for a list of one."""
        return list(found) if is_list(found) else [found]

    def int(self, key: Key, default: Any = REQUIRED) -> int:
        """Return a static integer."""
        found = self.plain(key, default)
        if not isinstance(found, int):
            raise self.mismatch(key, "a static integer", found)
        return int(found)

    def float(self, key: Key, default: Any = REQUIRED) -> float:
        """Return a number."""
        found = self.plain(key, default)
        if not isinstance(found, (int, float)):
            raise self.mismatch(key, "a static number", found)
        return float(found)

    def flag(self, key: Key, default: Any = REQUIRED) -> bool:
        """Return a truth value."""
        return bool(self.plain(key, default))

    def text(self, key: Key, default: Any = REQUIRED) -> str:
        """Return a word, such as ``max``."""
        return str(self.arg(key, default))

    def ints(self, key: Key, default: Any = REQUIRED) -> list[int]:
        """Return static integers; one alone stands for a list of one."""
        found = self.optional_ints(key, default)
        if found is None or any(n is None for n in found):
            raise self.mismatch(key, "static integers", found)
        return [n for n in found if n is not None]

    def optional_int(self, key: Key, default: Any = None) -> int | None:
        """Return a static integer or None."""
        found = self.plain(key, default)
        if found is not None and not isinstance(found, int):
            raise self.mismatch(key, "a static integer or None", found)
        return found

    def optional_ints(self, key: Key, default: Any = None) -> list[int | None] | None:
        """Return static integers among which may be None, or None altogether."""
        found = self.plain(key, default)
        if found is None:
            return None
        items = self.items(found)
        numbers = [None if n is None else int(n) for n in items if n is None or isinstance(n, int)]
        if len(numbers) != len(items):
            raise self.mismatch(key, "static integers", found)
        return numbers

    def floats(self, key: Key, default: Any = REQUIRED) -> list[float]:
        """Return numbers; one alone stands for a list of one."""
        items = self.items(self.plain(key, default))
        numbers = [float(n) for n in items if isinstance(n, (int, float))]
        if len(numbers) != len(items):
            raise self.mismatch(key, "static numbers", items)
        return numbers

    def ignore(self, *keys: Key) -> None:
        """Say that these arguments do not matter for what is computed."""
        self._unread.difference_update(keys)

    def require(self, key: Key, *expected: object) -> None:
        """Refuse any value of an argument but these."""
        found = self.plain(key)
        if found not in expected:
            raise self.mismatch(key, " or ".join(map(repr, expected)), found)

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """Return the error for a form of the operator that its lowering does not cover."""
        return UnsupportedError("E203", f"`{self.operator}`: {message}", place=self.place, hint=hint)

    def mismatch(self, key: Key, expected: str, found: object) -> Exception:
        """Return the error for an argument that is not of the kind that its lowering reads."""
        shown = f"{[str(i) for i in found]}" if is_list(found) else f"`{found}`"
        message = f"expected {described(key)} to be {expected}, got {shown}"
        return self.unsupported(message, self.hint_for(found))

    def hint_for(self, _found: object, /) -> str:
        """Return what to do about an argument that no lowering reads; empty where nothing is known."""
        return ""

    def require_all_read(self) -> None:
        """Check that every argument was read or ignored.

        Raises:
            UnsupportedError: naming those that were not.
        """
        if self._unread:
            ordered = sorted(self._unread, key=lambda k: (isinstance(k, str), k))
            unread = ", ".join(f"{described(k)}={self._arguments[k]!r}" for k in ordered)
            raise UnsupportedError(
                "E202",
                f"the lowering of `{self.operator}` does not read {unread}",
                place=self.place,
                hint="read the argument in the lowering, or ignore it by name if it changes nothing",
            )


def described(key: Key) -> str:
    """Return what a message calls an argument."""
    return f"`{key}`" if isinstance(key, str) else f"argument {key}"


def is_list(found: object) -> TypeGuard[Sequence[Any]]:
    """Whether an argument is a list; a Value is a tuple only to Python."""
    return isinstance(found, Sequence) and not isinstance(found, (str, bytes, Value))
