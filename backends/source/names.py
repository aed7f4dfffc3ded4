"""Names for emitted source: identifiers that take no name of the framework, of Python or of the file."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Callable, Container
from dataclasses import dataclass

_HELD = re.compile(r"[\w +:@#-]+")
"""Names that a text in quotes has as they are."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a framework's source that nothing else in it may take.

    Attributes:
        reserved: returns the attributes that the framework's base class uses itself.
        imported: returns the names that files import one by one.
        top: names at the top of a file: its imports, its functions, its helpers.
        called: those of them that a variable could be named with.
        ascii_only: whether the framework refuses names of parameters that are not ASCII.
        holds_any: whether an attribute may have a name that is no identifier: ``setattr(self, "conv-1", …)``.
    """

    reserved: Callable[[], frozenset[str]] = frozenset
    imported: Callable[[], frozenset[str]] = frozenset
    top: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    ascii_only: bool = False
    holds_any: bool = False

    def attribute(self, name: str, taken: Container[str] = ()) -> str:
        """Return an attribute name: `name`, with a trailing ``_`` where that is reserved or taken.

        Where attributes need not be identifiers, `name` stays what it is.
        """
        plain = [f"u{ord(c):04x}" if self.ascii_only and not c.isascii() else c for c in name]
        is_held = self.holds_any and _HELD.fullmatch(name)
        found = name if is_held else _unmangled(identifier("".join(plain)))
        reserved = self.reserved()
        while found in reserved or found in taken:
            found += "_"
        return found

    def class_(self, name: str, taken: Container[str]) -> str:
        """Return a class name that shadows no import of the file and no other class of it.

        A source's `TransformerEncoder` keeps its name, because the framework's is ``nn.TransformerEncoder``.
        """
        found = re.sub("^__+", "_", identifier(name))
        if found in self.imported() or found in {"self", *self.top} or hasattr(builtins, found):
            found += "Layer"
        return free_name(found, taken)

    def variable(self, name: str) -> str:
        """Return a local variable's name, in snake case."""
        snake = snake_case(identifier(name))
        return f"{snake}_" if keyword.iskeyword(snake) or snake in {"self", *self.called} else snake


def is_identifier(name: str) -> bool:
    """Whether source can write a name, or several joined by dots, behind a dot."""
    parts = name.split(".")
    return all(p == identifier(p) == _unmangled(p) for p in parts)


def identifier(name: str) -> str:
    """Return `name` as a Python identifier that is not a keyword, in the form that Python gives it."""
    found = re.sub(r"\W", "_", unicodedata.normalize("NFKC", name)) or "_"
    if found[0].isdigit():
        found = f"_{found}"
    return f"{found}_" if keyword.iskeyword(found) else found


def _unmangled(name: str) -> str:
    """Return a name that Python does not change within a class, as it does ``__name``."""
    return name if name.endswith("__") else re.sub("^__+", "_", name)


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name, with a number appended where it is taken."""
    found, n = name, 2
    while found in taken:
        found, n = f"{name}{n}", n + 1
    return found


def snake_case(name: str) -> str:
    """Return ``conv2d_transpose`` for ``Conv2dTranspose``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def test_name(class_name: str) -> str:
    """Return ``se_block`` for ``SEBlock``: a class name as part of a function name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name).lower()


def first_word(name: str) -> str:
    """Return ``squeeze`` for ``SqueezeExcitation``; empty for a name that starts with no such word."""
    found = re.match(r"[A-Z][a-z]+", name)
    return found[0].lower() if found else ""


def split_number(name: str) -> tuple[str, int] | None:
    """Return ``("layer", 12)`` for ``layer12``; None for a name without a number that counting gives."""
    found = re.fullmatch(r"(.*?)(0|[1-9]\d*)", name)
    return None if found is None else (found[1], int(found[2]))


def is_kind_of(name: str, kind: str) -> bool:
    """Whether a name is a specific form of `kind`: ``in_channels`` is one of ``channels``."""
    return name.endswith(f"_{kind}")


_GENERIC_ROWS = (
    "act activation attention attn avg_pool avgpool backbone base batch_norm batchnorm block blocks bn body",
    "c classifier conv decoder dense down drop dropout embed embedding encoder f fc features ffn flatten",
    "global_pool gn head l layer layers lin linear ln max_pool maxpool mlp model net norm out_proj pool proj",
    "relu self_attn stem up",
)
_GENERIC = frozenset(word for row in _GENERIC_ROWS for word in row.split())
"""Attribute names that say nothing about a layer's result."""


def is_generic(attribute: str) -> bool:
    """Whether an attribute's name, without its number and last letter, is one that most layers have."""
    has_letter = attribute[-1:].isascii() and attribute[-1:].islower()
    words = (attribute, attribute[:-1]) if has_letter else (attribute,)
    return any(not (word := name.lstrip("_").rstrip("_0123456789")) or word in _GENERIC for name in words)
