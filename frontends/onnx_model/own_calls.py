"""Module calls of ONNX files that this project wrote, which state them in their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from ...ir import parse_json
from ...ir.outside.onnx_functions import CALLS, INNER_CALL, NODE_CALL, NODE_CLASS, caller, metadata
from .scopes import Scope, clean_name, with_holders

_CONSTANT = "constant"
"""Name of a constant of the arithmetic within its module call; weights have the names of parameters."""


@dataclass(frozen=True, slots=True)
class OwnCalls:
    """The module calls that a file states.

    Attributes:
        nodes: the call of each node of the main graph, stated or settled by its neighbours.
        classes: path of a module -> its class.
        callers: call -> the call that makes it; None for one that the root makes.
    """

    nodes: list[str]
    classes: Mapping[str, str]
    callers: Mapping[str, str | None]

    def scopes(self) -> list[Scope]:
        """Return the scope of every node."""
        return [self.scope(call) for call in self.nodes]

    def scope(self, call: str) -> Scope:
        """Return the modules around a call, and its own."""
        parts = [part for part in call.rpartition("#")[0].split(".") if part]
        scope: list[tuple[str, str]] = []
        held: list[str] = []
        for number, part in enumerate(parts, 1):
            held.append(clean_name(part))
            kind = self.classes.get(".".join(parts[:number]))
            if kind is not None or number == len(parts):
                scope += with_holders(held, kind or "")
                held = []
        return tuple(scope)


def own_calls(model: onnx.ModelProto) -> OwnCalls | None:
    """Return the module calls of a file, None for one that states none.

    Raises:
        ModelError: E101 for metadata that are no JSON.
    """
    text = metadata(model.metadata_props, CALLS)
    nodes = [call_of(node) or "#1" for node in model.graph.node]
    if text is None or all(call == "#1" for call in nodes):
        return None
    if any(metadata(node.metadata_props, INNER_CALL) for node in model.graph.node):
        return None  # another tool put the bodies of functions in place, under names that say nothing
    stated = parse_json(text.encode() if isinstance(text, str) else text, CALLS)
    records: dict[str, dict[str, Any]] = {
        call: record
        for call, record in (stated.items() if isinstance(stated, dict) else ())
        if isinstance(record, dict)
    }
    classes: dict[str, str] = {}
    known = {*records, "#1"}
    for node in _all_nodes(model.graph):
        call = call_of(node)
        if call is not None:
            known.add(call)
            _state(classes, call, metadata(node.metadata_props, NODE_CLASS))
    for call, record in records.items():
        _state(classes, call, record.get("class"))
    callers: dict[str, str | None] = {}
    for call in known:
        around = records.get(call, {}).get("in")
        callers[call] = around if isinstance(around, str) and around in known else caller(call, known)
    return OwnCalls(_settled(model.graph, callers), classes, callers)


def _settled(graph: onnx.GraphProto, callers: Mapping[str, str | None]) -> list[str]:
    """Return the call of each node: of one that a tool has added, the innermost around its neighbours.

    A quantiser puts nodes between those of a module, which would else leave the module and come back.
    """
    stated = [call_of(node) for node in graph.node]
    returned = dict.fromkeys((output.name for output in graph.output), "#1")
    given = {name: at for at, node in enumerate(graph.node) for name in node.output}
    before, after = list(stated), list(stated)
    for at, node in enumerate(graph.node):
        if stated[at] is None:
            calls = (before[given[name]] for name in node.input if name in given and given[name] < at)
            before[at] = _innermost(calls, callers)
    reading: dict[str, list[str | None]] = {name: [call] for name, call in returned.items()}
    for at in range(len(stated) - 1, -1, -1):
        node = graph.node[at]
        if stated[at] is None:
            calls = (call for name in node.output for call in reading.get(name, ()))
            after[at] = _innermost(calls, callers)
        for name in set(node.input):
            reading.setdefault(name, []).append(after[at])
    pairs = zip(before, after, strict=True)
    return [_innermost(pair, callers) or "#1" for pair in pairs]


def _innermost(calls: Iterable[str | None], callers: Mapping[str, str | None]) -> str | None:
    """Return the innermost call around some, None left out; None for none."""
    found: list[str] | None = None
    for call in dict.fromkeys(calls):
        if call is None or (found is not None and call == found[-1]):
            continue
        chain = _chain(call, callers)
        common = chain if found is None else [a for a, b in zip(found, chain, strict=False) if a == b]
        found = common or ["#1"]
    return None if found is None else found[-1]


def _chain(call: str, callers: Mapping[str, str | None]) -> list[str]:
    """Return a call and those around it, the outermost first."""
    chain: dict[str, None] = {}
    at: str | None = call
    while at is not None and at not in chain:
        chain[at] = None
        at = callers.get(at)
    return list(chain)[::-1]


def call_of(node: onnx.NodeProto) -> str | None:
    """Return the call that a node states."""
    return metadata(node.metadata_props, NODE_CALL)


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    stack = [graph]
    while stack:
        for node in stack.pop().node:
            yield node
            stack += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def _state(classes: dict[str, str], call: str, kind: object) -> None:
    if isinstance(kind, str) and kind.isidentifier():
        classes.setdefault(call.rpartition("#")[0], kind)


def is_constant(name: str) -> bool:
    """Whether an initializer of a file with such calls is a constant of the arithmetic."""
    last = name.rpartition("/")[2]
    return last == _CONSTANT or (last.startswith(f"{_CONSTANT}_") and last[len(_CONSTANT) + 1 :].isdigit())
