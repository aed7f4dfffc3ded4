"""The example inputs that a saved program carries in a pickle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .payloads import Pickled
from .pickles import Strided, Unknown
from .records import Records

if TYPE_CHECKING:
    import torch

_MOST_INSTRUCTIONS = 300_000


def sample_tensors(records: Records, in_spec: str) -> list[torch.Tensor] | None:
    """The tensors among a program's example inputs, in the order of its inputs.

    An object of a class of its own stays what it is in the pickle, a list of its fields: nothing is imported.

    Args:
        records: the archive that the example inputs are.
        in_spec: how the program's inputs nest, as the file states it.

    Returns:
        The tensors; None where they cannot be told without unpickling.

    Raises:
        ModelError: when the archive is damaged.
    """
    saved = Pickled(records, _MOST_INSTRUCTIONS)
    leaves = _flat(saved.value, json.loads(in_spec)[1])
    if leaves is None:
        return None
    return [saved.tensor(leaf) for leaf in leaves if isinstance(leaf, Strided)]


def _flat(value: Any, spec: dict[str, Any]) -> list[Any] | None:
    """What a value holds, in the order of `spec`; None where it is not nested so."""
    if spec["type"] is None:
        return None if isinstance(value, Unknown) and value.arguments is not None else [value]
    inner = spec["children_spec"]
    parts = _parts(value, spec, len(inner))
    if parts is None or len(parts) != len(inner):
        return None
    found: list[Any] = []
    for part, level in zip(parts, inner, strict=True):
        leaves = _flat(part, level)
        if leaves is None:
            return None
        found += leaves
    return found


def _parts(value: Any, spec: dict[str, Any], count: int) -> list[Any] | None:
    if isinstance(value, (tuple, list)):
        return list(value)
    context = _context(spec)
    fields = value if isinstance(value, dict) else _fields(value)
    if fields is None:
        return None
    names = next((names for names in (context, *_lists(context)) if _are_keys(names, fields, count)), None)
    if names is not None:
        return [fields[name] for name in names]
    held = [field for field in fields.values() if field is not None]
    return held if len(held) == count else None


def _context(spec: dict[str, Any]) -> Any:
    context = spec["context"]
    try:
        found = json.loads(context) if isinstance(context, str) else context
    except ValueError:
        return None
    return found.get("dict_context") if isinstance(found, dict) else found


def _lists(context: Any) -> list[Any]:
    """A dataclass states its fields as two lists: those that are given, and those that are None."""
    return context if isinstance(context, list) else []


def _are_keys(names: Any, fields: dict[Any, Any], count: int) -> bool:
    return (
        isinstance(names, list)
        and len(names) == count
        and all(isinstance(name, (str, int)) and name in fields for name in names)
    )


def _fields(value: Any) -> dict[Any, Any] | None:
    """The fields of an object by name, or by number where the pickle has no names."""
    if not isinstance(value, Unknown):
        return None
    if isinstance(value.state, dict):
        return value.state
    held = value.state if isinstance(value.state, (tuple, list)) else value.arguments
    return dict(enumerate(held)) if isinstance(held, (tuple, list)) else None
