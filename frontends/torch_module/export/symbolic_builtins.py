"""Classes that pass for one of Python's own types, but make something else of symbolic sizes."""

from __future__ import annotations


class StandIn(type):
    """The type of a class that `isinstance`, `issubclass` and comparisons take for `standard`; to be derived.

    Attributes:
        standard: Python's own type.
    """

    standard: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, type(cls).standard)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, type(cls).standard)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is type(cls).standard

    def __hash__(cls) -> int:
        return hash(type(cls).standard)
