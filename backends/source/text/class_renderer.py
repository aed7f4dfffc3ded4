"""Prints the inside of a class, with constructor arguments for literals in which its instances differ."""

from __future__ import annotations

from ..class_definition import Class
from ..expressions import Literal, Use, literal_source
from ..rendering import Renderer


class ClassRenderer(Renderer):
    """Prints parts of a class.

    Args:
        class_: the class.
        prefix: ``self.`` outside the constructor.
    """

    def __init__(self, class_: Class, prefix: str = "") -> None:
        self.class_, self.prefix = class_, prefix

    @property
    def taken(self) -> set[str]:
        """Names that no variable of a loop gets."""
        return {*super().taken, *(f.name for f in (*self.class_.arguments, *self.class_.aliases))}

    def literal(self, literal: Literal) -> str:
        """Return the constructor argument that stands for a literal, or its source."""
        argument = self.class_.holes.get(literal)
        return literal_source(literal.value) if argument is None else argument.text(self.prefix)

    def is_fixed(self, literal: Literal) -> bool:
        """Whether no constructor argument stands for it."""
        return literal not in self.class_.holes

    def value(self, use: Use) -> tuple[str, int]:
        """Raise an error, because a constructor reads no values."""
        raise AssertionError(use)
