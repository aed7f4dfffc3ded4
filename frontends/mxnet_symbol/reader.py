"""Reading symbol JSON of every generation since 0.8 into one checked form, as MXNet 1.9.1 upgrades it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ...ir import ModelError, parse_json, read_bytes, require_name
from .names import canonical
from .signatures import slot_names

HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
"""Keys that old files spell without the underscores that now mark what is no operator attribute."""

ARGMAX_CHANGED = 905
"""Version in which ``axis=-1`` of argmax and argmin stopped meaning "all axes"."""

MOST_NODES, MOST_INPUTS = 1 << 15, 1 << 17
"""Nodes, and inputs of all nodes and the symbol together: ten times what the largest nets have."""

_DEEPEST, _MOST_SUBGRAPHS = 8, 3  # symbols within symbols, and of one node: condition, then, else

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SymbolNode:
    """One node: an operator, or a variable when `op` is "null".

    Attributes:
        index: its number in the list of nodes.
        op: MXNet's operator under its canonical name.
        name: the node's name.
        attributes: the operator's own attributes, all text.
        hidden: attributes such as ``__shape__`` and ``__init__``, all text.
        inputs: (node index, output number) by slot.
        subgraphs: symbols that a node of control flow runs.
    """

    index: int
    op: str
    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[tuple[int, int], ...] = ()
    subgraphs: tuple[Symbol, ...] = ()

    @property
    def is_variable(self) -> bool:
        """Whether it is an input or a parameter."""
        return self.op == "null"

    @property
    def place(self) -> str:
        """The node in messages."""
        return f"node {self.index} `{self.name}`"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol file: nodes in an order in which every input precedes its users, and the outputs."""

    nodes: tuple[SymbolNode, ...]
    heads: tuple[tuple[int, int], ...]
    version: int

    def operators(self) -> list[SymbolNode]:
        """Return the nodes that are no variables, in execution order."""
        return [node for node in self.nodes if not node.is_variable]

    def all_operators(self) -> Iterator[SymbolNode]:
        """Yield the same with those of the symbols that nodes of control flow run."""
        for node in self.operators():
            yield node
            for part in node.subgraphs:
                yield from part.all_operators()


def read_symbol(path: Path) -> Symbol:
    """Read ``x-symbol.json``.

    Raises:
        ModelError: when it is missing, no JSON, or no symbol; with the byte or the node at fault.
    """
    raw = read_bytes(path)
    try:
        return parse_symbol(raw)
    except ModelError as error:
        place = f"{path}, {error.place}" if error.place else str(path)
        raise ModelError(error.code, error.message, place=place, hint=error.hint) from error


def parse_symbol(raw: bytes | str) -> Symbol:
    """Read a symbol from JSON text.

    Raises:
        ModelError: as `read_symbol` does.
    """
    return _symbol(parse_json(raw.encode() if isinstance(raw, str) else raw), 0)


def _symbol(document: object, depth: int, version: int | None = None) -> Symbol:
    if depth > _DEEPEST:
        raise ModelError("E106", f"expected symbols nested at most {_DEEPEST} deep")
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise ModelError("E101", "expected a symbol: an object with a list of `nodes`")
    version = _version(document) if version is None else version
    records = document["nodes"]
    if not records:
        raise ModelError("E101", "expected at least one node, got none")
    if len(records) > MOST_NODES:
        raise ModelError("E106", f"expected at most {MOST_NODES} nodes, got {len(records)}")
    nodes = [_node(record, index, len(records)) for index, record in enumerate(records)]
    for index, record in enumerate(records):
        parts = record.get("subgraphs")
        if parts:
            if not isinstance(parts, list) or len(parts) > _MOST_SUBGRAPHS:
                raise ModelError("E101", "expected a list of `subgraphs`", place=nodes[index].place)
            nested = tuple(_symbol(part, depth + 1, version) for part in parts)
            nodes[index] = replace(nodes[index], subgraphs=nested)
    heads = document.get("heads", document.get("head"))
    if not isinstance(heads, list) or not heads:
        raise ModelError("E101", "expected a list of `heads`, the outputs")
    count = len(heads) + sum(len(node.inputs) for node in nodes)
    if count > MOST_INPUTS:
        raise ModelError("E106", f"expected at most {MOST_INPUTS} inputs of nodes and outputs, got {count}")
    outputs = tuple(_reference(head, len(nodes), f"head {i}") for i, head in enumerate(heads))
    return _upgrade(_ordered(nodes, outputs), version)


def _version(document: dict[str, object]) -> int:
    attributes = document.get("attrs", {})
    entry = attributes.get("mxnet_version") if isinstance(attributes, dict) else None
    if entry is None:
        return 800  # as MXNet's own loader has it
    if isinstance(entry, list) and len(entry) == 2 and type(entry[1]) is int:
        return entry[1]
    raise ModelError("E101", f'expected `mxnet_version` to be ["int", number], got {entry!r}')


def _node(record: object, index: int, count: int) -> SymbolNode:
    place = f"node {index}"
    if not isinstance(record, dict):
        raise ModelError("E101", f"expected an object, got {type(record).__name__}", place=place)
    op, name = record.get("op"), record.get("name")
    if not isinstance(op, str) or not isinstance(name, str):
        raise ModelError("E101", "expected text as `op` and `name`", place=place)
    require_name(op, "an operator", place)
    require_name(name, "a name", place)
    place = f"{place} `{name}`"
    given: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):
        part = record.get(key) or {}
        if not isinstance(part, dict) or not all(isinstance(v, str) for v in part.values()):
            raise ModelError("E101", f"expected `{key}` to map names to text", place=place)
        given |= part
    for key, value in given.items():
        require_name(key, "the name of an attribute", place)
        if not key.startswith("__"):
            require_name(value, f"`{key}`", place)
        elif _SURROGATE.search(value):
            raise ModelError("E101", f"expected text as `{key}`, got half of a surrogate pair", place=place)
    inputs = record.get("inputs", [])
    if not isinstance(inputs, list):
        raise ModelError("E101", "expected a list of `inputs`", place=place)
    if op == "null" and inputs:
        raise ModelError("E101", "expected a variable without inputs", place=place)
    references = tuple(_reference(i, count, place) for i in inputs)
    own = {k: v for k, v in given.items() if not _is_hidden(k)}
    hidden = {k: v for k, v in given.items() if k.startswith("__")}
    hidden |= {f"__{k}__": v for k, v in given.items() if k in HIDDEN_KEYS}
    moved = {
        k: v for k, v in given.items() if _is_hidden(k) and not k.startswith("__") and k not in HIDDEN_KEYS
    }
    return SymbolNode(index, canonical(op), name, {} if op == "null" else own, hidden | moved, references)


@lru_cache(maxsize=1024)
def _is_hidden(key: str) -> bool:
    """Whether an attribute is none of the operator's: ``__x__``, ``lr_mult``, ``weight_lr_mult``."""
    return (key.startswith("__") and key.endswith("__")) or any(
        key == hidden or key.endswith(f"_{hidden}") for hidden in HIDDEN_KEYS
    )


def _reference(entry: object, count: int, place: str) -> tuple[int, int]:
    if (
        not isinstance(entry, list)
        or len(entry) not in (2, 3)
        or not all(isinstance(n, int) and not isinstance(n, bool) for n in entry)
    ):
        raise ModelError(
            "E101", f"expected [node, output] or [node, output, version], got {entry!r}", place=place
        )
    if not 0 <= entry[0] < count:
        raise ModelError("E101", f"expected a node number below {count}, got {entry[0]}", place=place)
    if not 0 <= entry[1] < 1 << 16:
        raise ModelError("E101", f"expected an output number, got {entry[1]}", place=place)
    return entry[0], entry[1]


def _ordered(nodes: list[SymbolNode], heads: tuple[tuple[int, int], ...]) -> Symbol:
    """Return the nodes that the heads need, operands first.

    A file may list its nodes in any order; what no head needs is not part of the symbol, as in MXNet.
    """
    state: dict[int, bool] = {}  # False while open, True when done
    order: list[int] = []
    for root, _ in heads:
        stack = [(root, iter(nodes[root].inputs))] if root not in state else []
        state.setdefault(root, False)
        while stack:
            index, rest = stack[-1]
            for source, _ in rest:
                if source not in state:
                    state[source] = False
                    stack.append((source, iter(nodes[source].inputs)))
                    break
                if not state[source]:
                    raise ModelError(
                        "E101",
                        f"expected an acyclic graph, got a cycle through {nodes[source].place}",
                        place=nodes[index].place,
                    )
            else:
                state[index] = True
                order.append(index)
                stack.pop()
    return Symbol(tuple(nodes[i] for i in order), heads, 0)


def _upgrade(symbol: Symbol, version: int) -> Symbol:
    """Upgrade an old file as MXNet's loader does: missing variables, moved multipliers, argmax's axis."""
    nodes: list[SymbolNode] = []
    extra: dict[int, dict[str, str]] = {}
    following = max(node.index for node in symbol.nodes) + 1
    for node in symbol.nodes:
        if node.is_variable:
            nodes.append(node)
            continue
        attributes = dict(node.attributes)
        if version < ARGMAX_CHANGED and node.op in ("argmax", "argmin") and attributes.get("axis") == "-1":
            del attributes["axis"]
        names = slot_names(node.op, attributes)
        inputs = list(node.inputs)
        hidden = {k: v for k, v in node.hidden.items() if k.startswith("__")}
        for name in names[len(inputs) :]:
            nodes.append(SymbolNode(following, "null", f"{node.name}_{name}", hidden=hidden))
            inputs.append((following, 0))
            following += 1
        for key in [k for k in node.hidden if not k.startswith("__")]:  # weight_lr_mult
            for slot, name in enumerate(names[: len(inputs)]):
                if key.startswith(f"{name}_"):
                    extra.setdefault(inputs[slot][0], {})[f"__{key[len(name) + 1 :]}__"] = node.hidden[key]
        nodes.append(replace(node, attributes=attributes, hidden=hidden, inputs=tuple(inputs)))
    moved = [replace(n, hidden={**n.hidden, **extra[n.index]}) if n.index in extra else n for n in nodes]
    return Symbol(tuple(moved), symbol.heads, version)
