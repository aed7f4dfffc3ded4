"""One line of the text form: its tokens, and readers of literals, types and lists."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..errors import TextFormError
from ..types import Array, TensorType, numpy_dtype, parse_type

_T = TypeVar("_T")
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<value>%[A-Za-z0-9_.]+(?::\d+)?)
    | (?P<digest><[0-9a-f]*>)
    | (?P<type>[a-z][a-z0-9]*\[[^\]\n]*\])
    | (?P<complex>\([^()\s]*j\))
    | (?P<number>-?(?:inf|nan)\b|-?\d(?:[eE][-+]\d|[\w.])*|-?\.\d+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
    | (?P<mark>[{}()\[\],:=@?])
    )""",
    re.VERBOSE,
)


class Line:
    """The tokens of one line, read from left to right; a reader raises `TextFormError` on any other form."""

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number = text, number
        self.tokens: list[tuple[str, str]] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise self.fail(f"cannot read `{stripped[at:].strip()}`")
            self.tokens.append((match.lastgroup or "", match.group(match.lastgroup or 0)))
            at = match.end()
        self.at = 0

    def fail(self, message: str) -> TextFormError:
        """Return the error that names this line, to be raised."""
        return TextFormError("E401", message, place=f"line {self.number}: `{self.text.strip()}`")

    def peek(self, offset: int = 0) -> str:
        """Return the next token, or one that many after it; empty behind the end of the line."""
        return self.tokens[self.at + offset][1] if self.at + offset < len(self.tokens) else ""

    def kind(self) -> str:
        """Return the kind of the next token: the name of its group in the grammar of tokens."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "end of line"

    def take(self, *expected: str) -> str:
        """Read the next token, which must be one of these where any are given."""
        token = self.peek()
        if expected and token not in expected:
            raise self.fail(f"expected {' or '.join(map(repr, expected))}, got `{token or 'end of line'}`")
        self.at += 1
        return token

    def take_kind(self, kind: str) -> str:
        """Read the next token, which must be of this kind."""
        if self.kind() != kind:
            raise self.fail(f"expected a {kind}, got `{self.peek() or 'end of line'}`")
        return self.take()

    def accept(self, token: str) -> bool:
        """Read the next token if it is this one; return whether it was."""
        if self.peek() == token and self.kind() != "string":
            self.at += 1
            return True
        return False

    def string(self) -> str:
        """Read a text in JSON's quotes."""
        token = self.take_kind("string")
        try:
            return json.loads(token)
        except ValueError:
            raise self.fail(f"expected a text as JSON has it, got {token}") from None

    def type(self) -> TensorType:
        """Read a tensor type."""
        try:
            return parse_type(self.take_kind("type"))
        except ValueError as error:
            raise self.fail(str(error)) from None

    def listing(self, close: str, item: Callable[[], _T]) -> list[_T]:
        """Read items between commas until `close`; the opening bracket has been read."""
        out: list[_T] = []
        while not self.accept(close):
            if out:
                self.take(",")
            out.append(item())
        return out

    def literal(self) -> object:
        """Read a number, a truth value, a text, a list of literals or a tensor."""
        kind, token = self.kind(), self.peek()
        if kind == "string":
            return self.string()
        if token == "[":
            self.take()
            return self.listing("]", self.literal)
        if token == "tensor":
            self.take()
            value = self.literal()
            self.take(":")
            return self.array(value, self.type())
        self.take()
        if token in ("inf", "-inf", "nan", "-nan"):
            return float(token)
        if token in ("True", "False"):
            return token == "True"
        try:
            return ast.literal_eval(token)
        except (ValueError, SyntaxError):
            raise self.fail(f"expected a literal, got `{token}`") from None

    def number_or_text(self) -> float | str:
        """Read a literal that is a number or a text."""
        token = self.peek()
        value = self.literal()
        if not isinstance(value, (int, float, str)):
            raise self.fail(f"expected a number or a text, got `{token}`")
        return value

    def array(self, value: object, type_: TensorType) -> Array:
        """Return the array of a type that a literal holds."""
        try:
            return np.asarray(value, numpy_dtype(type_.dtype)).reshape(type_.static_shape())
        except (ValueError, TypeError, OverflowError) as error:
            raise self.fail(f"expected elements of {type_}: {error}") from None

    def static(self, type_: TensorType) -> tuple[int, ...]:
        """Return the shape of a type that has no symbols."""
        if not type_.is_static:
            raise self.fail(f"expected a type without symbols, got {type_}")
        return type_.static_shape()

    def end(self) -> None:
        """Require that every token has been read."""
        if self.at != len(self.tokens):
            raise self.fail(f"expected the end of the line, got `{self.peek()}`")
