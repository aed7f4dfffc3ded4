"""Names for the emitted source: no attribute of `nn.Cell`, no keyword, a valid identifier."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Container
from functools import lru_cache

from .recorded_names import ATTRIBUTES_OF_CELL, INITIALIZER_CLASSES

OWN_NAMES = frozenset(
    {
        "int",
        "affine",
        "numbers",
        "by_axis",
        "sizes_of",
        "of_none",
        "sliced",
        "padded",
        "expanded",
        "reshaped",
        "unsqueezed",
        "resize_places",
        "resize_weights",
        "resized",
    }
)
"""Functions that an emitted file calls by words that a variable could be named with."""

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
        "json",
        "load",
        "read",
        "initializer",
        "redrawn",
        "PaddedEmbedding",
        "Sigmoid",
        "sigmoid",
        "Tanh",
        "tanh",
        "Softmax",
        "softmax",
        "log_softmax",
        "ON_CPU",
        "log1p",
        "expm1",
        "modulo",
        "fmod",
        "nearest_pixels",
        "non_max_suppression",
        "recurrence",
        "onnx_rnn",
        "onnx_gru",
        "onnx_lstm",
        *OWN_NAMES,
    }
)
"""Module-level names of an emitted file that no class may take."""


@lru_cache(maxsize=1)
def reserved_attributes() -> frozenset[str]:
    """Return the attribute names that `nn.Cell` itself uses, of the installed MindSpore or as recorded."""
    try:
        from mindspore import nn
    except ModuleNotFoundError:
        return ATTRIBUTES_OF_CELL

    return frozenset(dir(nn.Cell())) | frozenset(vars(nn.Cell()))


@lru_cache(maxsize=1)
def initializer_classes() -> frozenset[str]:
    """Return the public names of `mindspore.common.initializer`, which emitted files import one by one."""
    try:
        from mindspore.common import initializer
    except ModuleNotFoundError:
        return INITIALIZER_CLASSES

    return frozenset(n for n in dir(initializer) if n[:1].isalpha())


def identifier(name: str) -> str:
    """Return `name` as a Python identifier that is not a keyword."""
    found = re.sub(r"\W", "_", name) or "_"
    if found[0].isdigit():
        found = f"_{found}"
    return f"{found}_" if keyword.iskeyword(found) else found


def attribute_name(name: str, taken: Container[str] = ()) -> str:
    """Return an attribute name for a Cell: `name`, with a trailing ``_`` where that is reserved or taken.

    MindSpore refuses parameters whose names are not ASCII; such characters become their numbers.
    """
    found = identifier("".join(c if c.isascii() else f"u{ord(c):04x}" for c in name))
    while found in reserved_attributes() or found in taken:
        found += "_"
    return found


def class_name(name: str, taken: Container[str]) -> str:
    """Return a class name that shadows no import of the file and no other class of it.

    A source's `TransformerEncoder` keeps its name, because MindSpore's is written ``nn.TransformerEncoder``.
    """
    found = identifier(name)
    if found in initializer_classes() or found in MODULE_NAMES or hasattr(builtins, found):
        found += "Layer"
    return free_name(found, taken)


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


def variable_name(name: str) -> str:
    """Return a local variable's name, in snake case."""
    snake = snake_case(identifier(name))
    return (
        f"{snake}_"
        if keyword.iskeyword(snake) or snake in {"self", "ms", "np", "nn", "ops", "math", *OWN_NAMES}
        else snake
    )
