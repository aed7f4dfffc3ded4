"""Names in the emitted source: what `nn.Cell` keeps for itself, keywords, identifiers, class names."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Container
from functools import lru_cache

MODULE_NAMES = frozenset(
    {
        "ms",
        "np",
        "nn",
        "ops",
        "math",
        "mindspore",
        "Tensor",
        "Parameter",
        "Path",
        "build",
        "initializer",
        "redrawn",
        "PaddedEmbedding",
        "Sigmoid",
        "sigmoid",
        "Tanh",
        "tanh",
        "ON_CPU",
    }
)
"""Module-level names of an emitted file that no class may take."""


@lru_cache(maxsize=1)
def reserved_attributes() -> frozenset[str]:
    """Attribute names that `nn.Cell` uses itself, by introspection of the MindSpore installed."""
    from mindspore import nn

    return frozenset(dir(nn.Cell())) | frozenset(vars(nn.Cell()))


@lru_cache(maxsize=1)
def initializer_classes() -> frozenset[str]:
    """Public names of `mindspore.common.initializer`, which an emitted file imports one by one."""
    from mindspore.common import initializer

    return frozenset(n for n in dir(initializer) if n[:1].isalpha())


def identifier(name: str) -> str:
    """`name` as a Python identifier that is no keyword."""
    found = re.sub(r"\W", "_", name) or "_"
    if found[0].isdigit():
        found = f"_{found}"
    return f"{found}_" if keyword.iskeyword(found) else found


def attribute_name(name: str, taken: Container[str] = ()) -> str:
    """An attribute name that a Cell can bear: a trailing ``_`` where it cannot bear `name` itself."""
    found = identifier(name)
    while found in reserved_attributes() or found in taken:
        found += "_"
    return found


def class_name(name: str, taken: Container[str]) -> str:
    """A class name that shadows nothing that the file imports, and no other class of the file.

    A source's `TransformerEncoder` stays that: MindSpore's of that name would be written ``nn.…``.
    """
    found = identifier(name)
    if found in initializer_classes() or found in MODULE_NAMES or hasattr(builtins, found):
        found += "Layer"
    return free_name(found, taken)


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with a number where another has it."""
    found, n = name, 2
    while found in taken:
        found, n = f"{name}{n}", n + 1
    return found


def variable_name(name: str) -> str:
    """A local variable's name, in snake case."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", identifier(name)).lower()
    return (
        f"{snake}_"
        if keyword.iskeyword(snake) or snake in {"self", "ms", "np", "nn", "ops", "math"}
        else snake
    )
