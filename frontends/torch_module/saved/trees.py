"""Reads and checks the nesting of a saved program's inputs and outputs, and rewrites it for torch.

torch's own reader imports what such a text names: the class of a key that is an Enum, the factory of a
defaultdict.
"""

from __future__ import annotations

import json
from typing import Any

from ....formats.refusals import malformed, quote
from .operators import is_identifier
from .refusing import untrusted

_DEEPEST = 60
_LARGEST = 1 << 60  # whole numbers below have few hashes in common
_MOST_NODES = 100_000
_PLAIN = frozenset({"builtins.tuple", "builtins.list", "collections.deque"})
_KEYED = frozenset(
    {"builtins.dict", "collections.OrderedDict", "torch.fx.immutable_collections.immutable_dict"}
)
_FACTORIES = frozenset({"dict", "list", "tuple", "set", "int", "float", "str", "bool"})
_MARKS = ("__enum__",)


class Trees:
    """The texts of one program that state how values nest.

    Args:
        place: what messages call the record.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._nodes = 0
        self._known: dict[tuple[str, bool], str] = {}

    def read(self, text: str, *, of_inputs: bool) -> str:
        """Return the same nesting as torch's reader takes it, with nothing in it that would be imported.

        A class that nobody has registered in this process becomes a tuple of what it holds.

        Args:
            text: what the file states.
            of_inputs: whether the outermost levels are a call's arguments and keywords.

        Raises:
            ModelError: when the text is damaged, or asks for an import.
        """
        known = self._known.get((text, of_inputs))
        if known is None:
            protocol, root = self._loaded(text)
            if protocol != 1:
                raise malformed(f"expected nesting in version 1, got {quote(protocol)}", self._place)
            known = json.dumps([1, self._node(root, 0)])
            if of_inputs:
                self._require_call(root)
            self._known[text, of_inputs] = known
        return known

    def _loaded(self, text: object) -> tuple[Any, Any]:
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or len(found) != 2:
            raise malformed(f"expected how values nest, got {quote(text)}", self._place)
        return found[0], found[1]

    def _node(self, node: Any, depth: int) -> dict[str, Any]:
        self._nodes += 1
        fields = isinstance(node, dict) and set(node) >= {"type", "context", "children_spec"}
        if not fields or not isinstance(node["children_spec"], list):
            raise malformed(f"expected how values nest, got {quote(node)}", self._place)
        if depth > _DEEPEST or self._nodes > _MOST_NODES:
            raise malformed("expected values that nest less deeply", self._place)
        kind, context, inner = node["type"], node["context"], node["children_spec"]
        if kind is None:
            if context is not None or inner:
                raise malformed(f"expected how values nest, got {quote(node)}", self._place)
            return {"type": None, "context": None, "children_spec": []}
        kind, context = self._kind(kind, context, len(inner))
        return {"type": kind, "context": context, "children_spec": [self._node(i, depth + 1) for i in inner]}

    def _kind(self, kind: object, context: Any, count: int) -> tuple[str, Any]:
        """Return the type and context of a level, as they may be handed on."""
        if not isinstance(kind, str):
            raise malformed(f"expected the name of a class, got {quote(kind)}", self._place)
        if kind in _PLAIN:
            length = self._json(context)
            if length is not None and not (
                kind == "collections.deque" and type(length) is int and length >= 0
            ):
                raise malformed(
                    f"expected no further context of {quote(kind)}, got {quote(context)}",
                    self._place,
                )
            return kind, json.dumps(length)
        if kind in _KEYED:
            return kind, json.dumps(self._keys(self._json(context), count))
        if kind == "collections.defaultdict":
            return kind, self._factory(context, count)
        if kind == "collections.namedtuple":
            return (
                ("collections.namedtuple", context) if _is_registered(context) else ("builtins.tuple", "null")
            )
        if not _is_registered(kind):
            return "builtins.tuple", "null"
        return kind, self._own(kind, context)

    def _own(self, kind: str, context: Any) -> Any:
        """Return the context of a class that somebody registered in this process."""
        from torch.utils import _pytree as pytree

        known = pytree.SUPPORTED_SERIALIZED_TYPES[pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[kind]]
        if known.from_dumpable_context is not None:
            raise untrusted(f"what {quote(kind)} registered reads its context, which is code", self._place)
        found = self._json(context)
        if _mentions(found, _MARKS):
            raise untrusted(f"the keys of {quote(kind)} are of a class that would be imported", self._place)
        return json.dumps(found)

    def _json(self, context: Any) -> Any:
        try:
            return json.loads(context) if isinstance(context, str) else context
        except (ValueError, RecursionError) as error:
            raise malformed(f"expected how values nest, got {quote(context)}", self._place) from error

    def _keys(self, keys: Any, count: int) -> list[Any]:
        if not isinstance(keys, list) or len(keys) != count:
            raise malformed(f"expected {count} keys, got {quote(keys)}", self._place)
        for key in keys:
            if isinstance(key, dict) and _mentions(key, _MARKS):
                raise untrusted(f"a key is of a class that would be imported: {quote(key)}", self._place)
            if not isinstance(key, str) and (not isinstance(key, int) or abs(key) >= _LARGEST):
                raise malformed(f"expected a key, got {quote(key)}", self._place)
        if len(set(keys)) != len(keys):
            raise malformed("expected different keys, got two of one", self._place)
        return keys

    def _factory(self, context: Any, count: int) -> dict[str, Any]:
        wanted = {"default_factory_module", "default_factory_name", "dict_context"}
        if not isinstance(context, dict) or set(context) != wanted:
            raise malformed(f"expected the factory of a defaultdict, got {quote(context)}", self._place)
        module, name = context["default_factory_module"], context["default_factory_name"]
        if module != "builtins" or name not in _FACTORIES:
            raise untrusted(f"a defaultdict would import {quote(f'{module}.{name}')}", self._place)
        return {
            "default_factory_module": "builtins",
            "default_factory_name": name,
            "dict_context": self._keys(context["dict_context"], count),
        }

    def _require_call(self, root: dict[str, Any]) -> None:
        """Require identifiers as the keywords of a call: torch writes them into source that it executes."""
        levels = root["children_spec"]
        kinds = [root["type"], *(level["type"] for level in levels)]
        if kinds != ["builtins.tuple", "builtins.tuple", "builtins.dict"]:
            raise malformed("expected the arguments and keywords of a call", self._place)
        for key in self._json(levels[1]["context"]):
            if not isinstance(key, str) or not is_identifier(key):
                raise malformed(f"expected the name of a keyword, got {quote(key)}", self._place)


def _is_registered(name: object) -> bool:
    """Whether somebody registered a class of that name in this process, outside of torch."""
    from torch.utils import _pytree as pytree

    kind = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name) if isinstance(name, str) else None
    if kind is None or not isinstance(kind, type):
        return False
    return name == "torch.Size" or name in _LISTS or not kind.__module__.startswith("torch.")


_LISTS = frozenset({"torch.fx.immutable_collections.immutable_list"})


def _mentions(value: Any, names: tuple[str, ...]) -> bool:
    if isinstance(value, dict):
        return any(name in value for name in names) or any(_mentions(v, names) for v in value.values())
    return isinstance(value, list) and any(_mentions(v, names) for v in value)
