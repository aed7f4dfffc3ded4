"""Containers that torch.export does not open: dataclasses, own kinds of dict, list or object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any

from ...inputs import parts_of

_Context = tuple[list[str], dict[str, Any]]
"""The names of an object's parts, and its other attributes."""


def open_containers(value: object) -> None:
    """Tell torch's pytrees of every kind of container in a nest that they do not know.

    Torch knows a kind from then on, as after its own `register_dataclass`.
    """
    import torch
    from torch.utils import _pytree as pytree

    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return  # what torch knows of a symbolic number is no part of it
    kind = type(value)
    if not _is_known(kind):
        if is_dataclass(kind):
            pytree.register_dataclass(kind)
        elif isinstance(value, dict):
            _register(kind, dict.items, dict)
        elif isinstance(value, list):
            _register(kind, enumerate, lambda items: [part for _, part in items])
        elif isinstance(value, SimpleNamespace):
            _register(kind, lambda one: vars(one).items(), lambda items: kind(**dict(items)))
        elif not isinstance(value, tuple) and (parts := parts_of(value)):
            _register_object(kind, list(parts))
    if _is_known(kind) or isinstance(value, tuple):
        for part in pytree.tree_leaves(value, is_leaf=lambda part: part is not value):
            open_containers(part)


def children_of(spec: Any) -> list[Any]:
    """Return the parts of a pytree's specification, which torch 2.9 has as an attribute."""
    return spec.children() if hasattr(spec, "children") else spec.children_specs


def _register_object(kind: type, names: list[str]) -> None:
    """Register a class by its attributes: those named are its parts, the others stay as they are."""
    from torch.utils import _pytree as pytree

    def flattened(value: object) -> tuple[list[Any], _Context]:
        held = [name for name in names if name in vars(value)]
        others = {name: part for name, part in vars(value).items() if name not in held}
        return [vars(value)[name] for name in held], (held, others)

    def with_keys(value: object) -> tuple[list[Any], _Context]:
        parts, context = flattened(value)
        return [(pytree.GetAttrKey(n), p) for n, p in zip(context[0], parts, strict=True)], context

    def built(parts: Iterable[Any], context: _Context) -> object:
        made = object.__new__(kind)
        made.__dict__.update(context[1], **dict(zip(context[0], parts, strict=True)))
        return made

    pytree.register_pytree_node(kind, flattened, built, flatten_with_keys_fn=with_keys)


def _is_known(kind: type) -> bool:
    from torch.utils import _pytree as pytree

    return kind in pytree.SUPPORTED_NODES


def _register(
    kind: Any,
    items: Callable[[Any], Iterable[tuple[Any, Any]]],
    plain: Callable[[Iterable[tuple[Any, Any]]], Any],
) -> None:
    """Register a container: `items` gives its keys and parts, `plain` makes what its class may not."""
    from torch.utils import _pytree as pytree

    def flattened(value: Any) -> tuple[list[Any], list[Any]]:
        pairs = list(items(value))
        return [part for _, part in pairs], [key for key, _ in pairs]

    def with_keys(value: Any) -> tuple[list[Any], list[Any]]:
        parts, keys = flattened(value)
        return [(pytree.MappingKey(key), part) for key, part in zip(keys, parts, strict=True)], keys

    def built(parts: Iterable[Any], keys: list[Any]) -> Any:
        made = plain(zip(keys, parts, strict=True))
        try:
            return made if isinstance(made, kind) else kind(made)
        except Exception:  # the class's own constructor may ask for anything
            return made

    pytree.register_pytree_node(kind, flattened, built, flatten_with_keys_fn=with_keys)
