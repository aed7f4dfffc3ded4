"""Finds calls of modules that compute the same: one body, with other values and parameters entering."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import onnx
from onnx import numpy_helper

from ....ir.outside.onnx_functions import (
    NODE_CALL,
    NODE_CALLS,
    NODE_CLASS,
    UniqueNames,
    copy_node,
    metadata,
    scope,
    within,
)
from .regions import Calls, Leaf, Region

_SMALL = 1024
"""Bytes up to which a constant may be part of a body."""

_DECIDING = frozenset(
    {onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL, onnx.TensorProto.STRING}
)
"""Element types of constants that decide shapes and axes: calls with other ones are of other functions."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Something that enters a body.

    Attributes:
        name: of the value in the model.
        is_constant: whether it is a constant, which has a slot for each node that reads it: how often calls
            share a tensor is chance.
    """

    name: str
    is_constant: bool


@dataclass(eq=False, slots=True)
class Body:
    """The computation of a region, apart from names.

    Attributes:
        region: the region.
        key: equal for calls that can be calls of one function.
        slots: what enters, by first use.
        labels: call in the region -> its name relative to the region's call.
        own: those of the calls that are in no region inside.
        names: region inside -> the names of its calls here that are not what its own name and theirs give.
    """

    region: Region
    key: str
    slots: list[Slot]
    labels: dict[str, str]
    own: list[str]
    names: dict[Region, dict[str, str]]


class Bodies:
    """The bodies of all regions of a model.

    Args:
        model: the model.
        calls: its module calls.
        weights: names of initializers that are parameters; the others are constants.
    """

    def __init__(self, model: onnx.ModelProto, calls: Calls, weights: Collection[str]) -> None:
        self._calls = calls
        self._weights = {t.name: t for t in model.graph.initializer if t.name in weights}
        self.constants = {t.name: t for t in model.graph.initializer if t.name not in weights}
        self._values = {name: _value(tensor) for name, tensor in self.constants.items()}
        self._bodies: dict[Region, Body] = {}

    def __getitem__(self, region: Region) -> Body:
        return self._bodies[region]

    def are_one(self, names: Collection[str]) -> bool:
        """Whether constants are one small value, which can be part of a body."""
        first, *others = {self._values[name] for name in names}
        return not others and len(first) <= _SMALL

    def value(self, name: str) -> bytes:
        """Return the value of a constant, with its type."""
        return self._values[name]

    def describe(self, root: Region) -> list[Body]:
        """Describe every region within the root, those inside first."""
        order: list[Region] = []
        stack = [root]
        while stack:
            region = stack.pop()
            order.append(region)
            stack += [item for item in region.items if isinstance(item, Region)]
        for region in reversed(order):
            self._bodies[region] = self._describe(region, is_root=region is root)
        return [self._bodies[region] for region in reversed(order) if region is not root]

    def _describe(self, region: Region, *, is_root: bool) -> Body:
        inside = {
            call
            for item in region.items
            if isinstance(item, Region)
            for call in self._bodies[item].labels
            if call != item.call
        }
        found = list(self._within(region, is_root))
        labels = {c: c for c in found} if is_root else _relative(region.call, found, self._calls.parents)
        own = [call for call in found if call not in inside and (is_root or call != region.call)]
        names = {item: self._exceptions(labels, item) for item in region.items if isinstance(item, Region)}
        body = Body(region, "", [], labels, own, names)
        _Key(body, self, self._calls, self._weights).write()
        return body

    def _within(self, region: Region, is_root: bool) -> Iterator[str]:
        """Yield the calls in a region, by first use, each after those around it."""
        seen: set[str] = set()
        for leaf in region.leaves:
            for call in (leaf.call, *_nested_calls(leaf.node)):
                chain: list[str] = []
                at: str | None = call
                while at and at not in seen:
                    seen.add(at)
                    chain.append(at)
                    at = None if at == region.call and not is_root else self._calls.parents.get(at)
                for each in reversed(chain):
                    yield each
                    name, _ = self._calls.records.get(each, (each, None))
                    if name not in seen:  # of a layer that went into this one
                        seen.add(name)
                        yield name

    def _exceptions(self, labels: Mapping[str, str], item: Region) -> dict[str, str]:
        """Return name in a region inside -> name here, for calls of which the names do not say it."""
        own = labels[item.call]
        return {
            inner: labels[call]
            for call, inner in self._bodies[item].labels.items()
            if within(own, inner) != labels[call]
        }


def _relative(around: str, calls: Collection[str], parents: Mapping[str, str | None]) -> dict[str, str]:
    """Return call -> its name relative to the call around it."""
    base = _path(around)
    names = UniqueNames()
    paths: dict[str, str] = {}  # of a module -> relative
    times: Counter[str] = Counter()
    found: dict[str, str] = {around: "#1"}
    for call in calls:
        path, above = _path(call), _path(parents.get(call) or "")
        if call == around:
            continue
        if path not in paths:
            inner = _below(path, above)
            if inner and above in paths:
                wanted = f"{paths[above]}.{inner}"
            else:  # at last, a module of elsewhere
                wanted = _below(path, base) or path.rpartition(".")[2] or "module"
            paths[path] = names.unique(wanted)
        times[path] += 1
        found[call] = f"{paths[path]}#{times[path]}"
    return found


def _path(call: str) -> str:
    return call.rpartition("#")[0]


def _below(path: str, above: str) -> str:
    """Return the path of a module relative to one above it; empty where that is none."""
    return path[len(above) + 1 :] if above and path.startswith(f"{above}.") else ""


def _value(tensor: onnx.TensorProto) -> bytes:
    """Return the type and the value of a tensor, whatever field holds it."""
    plain = onnx.TensorProto()
    if tensor.data_type == onnx.TensorProto.STRING:
        plain.CopyFrom(tensor)
    else:
        plain.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)))
    plain.name = ""
    return plain.SerializeToString(deterministic=True)


def _nested_calls(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the calls of the nodes in nested graphs."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for each in attribute.g.node:
                call = metadata(each.metadata_props, NODE_CALL)
                if call is not None:
                    yield call
                yield from _nested_calls(each)


class _Key:
    """Writes down a body without the names of values.

    Args:
        body: gets its key and its slots.
        bodies: those of the regions inside, and the constants.
        calls: the module calls.
        weights: parameters by name.
    """

    def __init__(
        self, body: Body, bodies: Bodies, calls: Calls, weights: Mapping[str, onnx.TensorProto]
    ) -> None:
        self._body, self._bodies, self._calls, self._weights = body, bodies, calls, weights
        self._numbers = {name: number for number, name in enumerate(body.region.gives)}
        self._entered: dict[str, int] = {}
        self._digest = hashlib.sha256()

    def write(self) -> None:
        """Set the key and the slots."""
        body = self._body
        self._put(self._calls.classes.get(body.region.call, ""))
        for item in body.region.items:
            if isinstance(item, Leaf):
                self._digest.update(self._leaf(item))
            else:
                inner = self._bodies[item]
                tokens = [self._token(slot.name) for slot in inner.slots]
                self._put(inner.key, body.labels[item.call], body.names[item], tokens)
        for call in body.own:
            self._put(self._record(call))
        body.key = self._digest.hexdigest()

    def _put(self, *parts: object) -> None:
        self._digest.update(json.dumps(parts).encode())

    def _leaf(self, leaf: Leaf) -> bytes:
        """Return a node as it is apart from the names of values."""
        names = {name: self._token(name) for name in leaf.reads}
        names |= {name: f"v{self._numbers[name]}" for name in leaf.gives}
        inner: dict[str, str] = {}
        node = copy_node(
            leaf.node,
            names,
            lambda name: inner.setdefault(name, f"n{len(inner)}"),
            lambda call: self._body.labels.get(call, call),
        )
        node.ClearField("name")
        node.ClearField("doc_string")
        return node.SerializeToString(deterministic=True)

    def _token(self, name: str) -> str:
        """Return what a value is to the body; its slot is added where it enters for the first time."""
        if name in self._numbers:
            return f"v{self._numbers[name]}"
        if name in self._bodies.constants:
            self._body.slots.append(Slot(name, is_constant=True))
            tensor, value = self._bodies.constants[name], self._bodies.value(name)
            decides = tensor.data_type in _DECIDING and len(value) <= _SMALL
            kind = f"{list(tensor.dims)}{value.hex()}" if decides else len(tensor.dims)
            return f"c{tensor.data_type}:{kind}"
        if name not in self._entered:
            self._entered[name] = len(self._entered)
            self._body.slots.append(Slot(name, is_constant=False))
        weight = self._weights.get(name)
        kind = "" if weight is None else f":{weight.data_type}:{len(weight.dims)}"
        return f"x{self._entered[name]}{kind}"

    def _record(self, call: str) -> list[object]:
        """Return what the metadata state of a call, which must hold of every call of the function."""
        name, record = self._calls.records.get(call, (call, {}))
        edges = [[self._edge(v) for v in record.get(key, ())] for key in ("inputs", "outputs")]
        others = {key: value for key, value in record.items() if key not in ("inputs", "outputs")}
        around = self._body.labels.get(self._calls.parents.get(call) or "", "#1")
        return [self._body.labels[call], self._body.labels.get(name, name), around, others, edges]

    def _edge(self, name: str) -> str:
        if name in self._numbers:
            return f"v{self._numbers[name]}"
        return f"x{self._entered[name]}" if name in self._entered else name


def call_metadata(key: str, call: str, class_name: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a function's call."""
    found = {key: call, NODE_CLASS: class_name}
    if names:
        found[NODE_CALLS] = json.dumps(names, ensure_ascii=False)
    return found


def leaf_name(leaf: Leaf, name: str, label: str) -> str:
    """Return a name of a node's within a body."""
    return scope(label) + name.removeprefix(scope(leaf.call))
