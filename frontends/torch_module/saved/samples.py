"""The example inputs that a saved program carries in a pickle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....formats.pickled import Strided, Unknown
from ....formats.refusals import quote
from .payloads import Pickled
from .records import Records
from .refusing import untrusted

if TYPE_CHECKING:
    import torch

_MOST_INSTRUCTIONS = 300_000
_BUILT_IN = frozenset({"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
_WITHOUT_VALUES = frozenset(
    {
        "torch._utils._rebuild_meta_tensor_no_storage",
        "torch._export.serde.serialize._reconstruct_fake_tensor",
    }
)


def sample_tensors(records: Records, in_spec: str) -> list[torch.Tensor] | None:
    """Return the tensors among a program's example inputs, in the order of its inputs.

    An object of a class of its own stays what it is in the pickle, a list of its fields: nothing is imported.

    Args:
        records: the archive that the example inputs are.
        in_spec: how the program's inputs nest, as the file states it.

    Returns:
        The tensors; None where they have no values, or their order cannot be told without unpickling.

    Raises:
        ModelError: E101 when the archive is damaged, E107 when it would call something else than what an
            input's own class is made by.
    """
    saved = Pickled(records, _MOST_INSTRUCTIONS)
    leaves = _flat(saved.value, json.loads(in_spec)[1], records.place)
    if leaves is None:
        return None
    return [saved.tensor(leaf) for leaf in leaves if isinstance(leaf, Strided)]


def _flat(value: Any, spec: dict[str, Any], place: str) -> list[Any] | None:
    """Flatten a value in the order of `spec`; None if its nesting differs."""
    if spec["type"] is None:
        if isinstance(value, Unknown) and value.name in _WITHOUT_VALUES:
            return None
        _require_plain(value, place)
        return [value]
    inner = spec["children_spec"]
    if spec["type"] in _BUILT_IN:
        _require_plain(value, place)
    parts = _parts(value, spec, len(inner))
    if parts is None or len(parts) != len(inner):
        return None
    found: list[Any] = []
    whole = True
    for part, level in zip(parts, inner, strict=True):
        leaves = _flat(part, level, place)
        whole = whole and leaves is not None
        found += leaves or ()
    return found if whole else None


def _require_plain(value: object, place: str) -> None:
    """Refuse an example input that only a call of foreign code could make."""
    made = isinstance(value, Unknown) and (value.arguments is not None or value.state is not None)
    if isinstance(value, Unknown) and (made or not value.name.startswith("torch.")):
        raise untrusted(f"an example input would be unpickled by calling {quote(value.name)}", place)


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
    """Return the fields of an object by name, or by number where the pickle has no names."""
    if not isinstance(value, Unknown):
        return None
    if isinstance(value.state, dict):
        return value.state
    held = value.state if isinstance(value.state, (tuple, list)) else value.arguments
    return dict(enumerate(held)) if isinstance(held, (tuple, list)) else None
