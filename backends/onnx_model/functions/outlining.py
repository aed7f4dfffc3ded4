"""Writes the functions of a model, and its graph with their calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from ....ir.outside.onnx_functions import (
    CALLS,
    FUNCTIONS,
    INNER_CALL,
    NODE_CALL,
    UniqueNames,
    caller,
    copy_node,
    scope,
    within,
)
from .bodies import Bodies, Body, Slot, call_metadata, leaf_name
from .regions import Calls, Leaf, Region, find_regions, values_read

_LEAST = 2
"""Nodes of a body, and calls of it: one operator needs no function, and neither does what is called once."""

_DEEPEST = 60
"""Functions within one another: readers and the ONNX checker refuse many more."""

_LISTED = 4  # paths that a function's text names


def outline(model: onnx.ModelProto, calls: Calls, weights: Collection[str]) -> None:
    """Write a function for every class of modules in place of the nodes of its calls, within the model.

    Calls of one function have equal bodies: the same operators, attributes, classes and names of the modules
    inside. What differs enters: values, parameters of any size, and constants that are no sizes.

    Args:
        model: the model of one graph, each node with the name of its module call; it is changed.
        calls: the module calls.
        weights: names of its parameters.
    """
    _Outlining(model, calls, weights).run()


@dataclass(eq=False, slots=True)
class _Function:
    """A function to be written.

    Attributes:
        name: its name.
        bodies: those of its calls.
        formals: slot -> what it is called; None for a constant that is part of the body.
        outputs: numbers of the values that leave the body of some call.
    """

    name: str
    bodies: list[Body]
    formals: list[str | None] = field(default_factory=list["str | None"])
    outputs: list[int] = field(default_factory=list[int])

    def entering(self, slots: Sequence[Slot]) -> Iterator[tuple[str, int]]:
        """Yield the name of each input and the first slot of a call that gives it."""
        seen: set[str] = set()
        for at, formal in enumerate(self.formals):
            if formal is not None and formal not in seen:
                seen.add(formal)
                yield formal, at
        assert len(slots) == len(self.formals)


class _Outlining:
    """A model while it is divided."""

    def __init__(self, model: onnx.ModelProto, calls: Calls, weights: Collection[str]) -> None:
        self.model, self.calls, self.weights = model, calls, weights
        graph = model.graph
        self.root = find_regions(graph.node, calls)
        self.bodies = Bodies(model, calls, weights)
        self.described = self.bodies.describe(self.root)
        self.returned = {value.name for value in graph.output}
        self.readers: dict[str, list[int]] = {}
        for leaf in self.root.leaves:
            for name in leaf.reads:
                self.readers.setdefault(name, []).append(leaf.number)
        self.types = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
        self.functions: dict[str, _Function] = {}
        self.stated = {name for name, _ in calls.records.values()}

    def run(self) -> None:
        """Change the model."""
        self._choose()
        if not self.functions:
            return
        protos = [self._write(function) for function in self.functions.values()]
        graph = self.model.graph
        frame = _Frame(self, None, self.bodies[self.root])
        frame.write()
        nodes, kept = frame.nodes, {name for node in frame.nodes for name in (*node.input, *node.output)}
        kept |= {name for node in nodes for name in values_read(node)} | self.returned
        infos = [info for info in graph.value_info if info.name in kept]
        initializers = [t for t in graph.initializer if t.name in kept]
        new = onnx.GraphProto(name=graph.name, input=graph.input, output=graph.output)
        new.node.extend(nodes)
        new.value_info.extend(infos)
        new.initializer.extend(initializers)
        graph.CopyFrom(new)
        self.model.functions.extend(protos)
        self.model.opset_import.add(domain=FUNCTIONS, version=1)
        for entry in self.model.metadata_props:
            if entry.key == CALLS:
                entry.value = json.dumps(dict(frame.records()), ensure_ascii=False)

    def function(self, region: Region) -> _Function | None:
        """Return the function that a region is a call of."""
        return self.functions.get(self.bodies[region].key)

    # -- functions -----------------------------------------------------------------------------

    def _choose(self) -> None:
        groups: dict[str, list[Body]] = {}
        for body in self.described:
            groups.setdefault(body.key, []).append(body)
        chosen = {
            key: bodies
            for key, bodies in groups.items()
            if len(bodies) >= _LEAST and _has_nodes(bodies[0].region)
        }
        self._leave_out_deep(chosen)
        classes = {key: self._class(bodies[0]) for key, bodies in chosen.items()}
        number, times = Counter[str](), Counter(classes.values())
        first = {key: bodies[0].region.number for key, bodies in chosen.items()}
        names: dict[str, str] = {}
        unique = UniqueNames()  # as a class may be called as another one is with its number
        for key in sorted(chosen, key=lambda key: first[key]):
            name = classes[key]
            number[name] += 1
            names[key] = unique.unique(name if times[name] == 1 else f"{name}_{number[name]}")
        for key, bodies in chosen.items():  # those inside first
            bodies.sort(key=lambda body: body.region.number)
            function = self.functions[key] = _Function(names[key], bodies)
            function.outputs = self._leaving(bodies)
        for function in self.functions.values():
            function.formals = self._formals(function)

    def _leave_out_deep(self, chosen: dict[str, list[Body]]) -> None:
        """Leave out functions that have too many within one another; those inside come first."""
        height: dict[str, int] = {}
        for body in self.described:
            inner = (height[self.bodies[i].key] for i in body.region.items if isinstance(i, Region))
            height[body.key] = max(inner, default=0) + (body.key in chosen)
            if height[body.key] > _DEEPEST:
                del chosen[body.key]
                height[body.key] = _DEEPEST

    def _class(self, body: Body) -> str:
        name = "".join(c if c.isalnum() else "_" for c in self.calls.classes.get(body.region.call, ""))
        return name if name.isidentifier() else f"Module{name}"

    def _leaving(self, bodies: Sequence[Body]) -> list[int]:
        """Return the numbers of the values that something outside reads, of any call."""
        found: set[int] = set()
        for body in bodies:
            inside = {leaf.number for leaf in body.region.leaves}
            for number, name in enumerate(body.region.gives):
                if name in self.returned or not inside.issuperset(self.readers.get(name, ())):
                    found.add(number)
        return sorted(found)

    def _formals(self, function: _Function) -> list[str | None]:
        """Name what enters a function; one name for constants that are one tensor in every call."""
        names = UniqueNames()
        known: dict[tuple[str, ...], str] = {}
        formals: list[str | None] = []
        first = function.bodies[0]
        for at, slot in enumerate(first.slots):
            given = tuple(body.slots[at].name for body in function.bodies)
            if slot.is_constant and self.bodies.are_one(set(given)):
                formals.append(None)
                continue
            if given not in known or not slot.is_constant:
                known[given] = names.unique(self._formal(first, slot))
            formals.append(known[given])
        return formals

    def _formal(self, body: Body, slot: Slot) -> str:
        if slot.name in self.weights:
            path = body.region.call.rpartition("#")[0]
            inner = slot.name.removeprefix(f"{path}.")
            return inner if inner != slot.name else slot.name.rpartition(".")[2] or slot.name
        return "constant" if slot.is_constant else "input"

    def _write(self, function: _Function) -> onnx.FunctionProto:
        """Return a function, with the body of its first call."""
        body = function.bodies[0]
        frame = _Frame(self, function, body)
        frame.write()
        proto = onnx.FunctionProto(name=function.name, domain=FUNCTIONS, node=frame.nodes)
        activations = [
            name for name, at in function.entering(body.slots) if not self._is_given(body.slots[at])
        ]
        held = [name for name, at in function.entering(body.slots) if self._is_given(body.slots[at])]
        proto.input.extend([*activations, *held])
        proto.output.extend(frame.names[body.region.gives[number]] for number in function.outputs)
        proto.opset_import.extend(self.model.opset_import)
        if any(node.domain == FUNCTIONS for node in frame.nodes):
            proto.opset_import.add(domain=FUNCTIONS, version=1)
        shown = {name for node in frame.nodes for name in node.output if name}
        for number, name in enumerate(body.region.gives):
            if frame.names.get(name) in shown:
                info = self._type([each.region.gives[number] for each in function.bodies])
                if info is not None:
                    proto.value_info.add(name=frame.names[name], type=info)
        records = dict(frame.records())
        if records:
            proto.metadata_props.add(key=CALLS, value=json.dumps(records, ensure_ascii=False))
        paths = [each.region.call for each in function.bodies]
        more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
        proto.doc_string = f"{', '.join(paths[:_LISTED])}{more}"
        return proto

    def _is_given(self, slot: Slot) -> bool:
        return slot.is_constant or slot.name in self.weights

    def arguments(self, function: _Function, slots: Sequence[Slot]) -> list[int]:
        """Return the slots of a call whose values are its operands, in order."""
        entering = [at for _, at in function.entering(slots)]
        first = function.bodies[0].slots
        return [at for at in entering if not self._is_given(first[at])] + [
            at for at in entering if self._is_given(first[at])
        ]

    def _type(self, names: Sequence[str]) -> onnx.TypeProto | None:
        """Return what the types of values have in common; None where that is nothing."""
        types = [self.types.get(name) for name in names]
        first = types[0]
        if first is None or first.WhichOneof("value") != "tensor_type":
            return None
        found = onnx.TypeProto()
        found.CopyFrom(first)
        tensor = found.tensor_type
        for other in types[1:]:
            if other is None or other.tensor_type.elem_type != tensor.elem_type:
                return None
            if tensor.HasField("shape"):
                same = other.tensor_type.HasField("shape")
                if not same or len(other.tensor_type.shape.dim) != len(tensor.shape.dim):
                    tensor.ClearField("shape")
                    continue
                for mine, its in zip(tensor.shape.dim, other.tensor_type.shape.dim, strict=True):
                    if mine != its:
                        mine.Clear()
        return found


class _Frame:
    """The graph, or the body of a function, while it is written.

    Args:
        outlining: the model.
        function: the function; None for the graph.
        body: of the region that is written.

    Attributes:
        names: value in the model -> here.
        nodes: what is written.
    """

    def __init__(self, outlining: _Outlining, function: _Function | None, body: Body) -> None:
        self._all, self._function, self._body = outlining, function, body
        self.nodes: list[onnx.NodeProto] = []
        self.names: dict[str, str] = {}
        self._written: list[Body] = []
        self._node_names = UniqueNames()
        self._value_names = UniqueNames()
        self._numbers: set[int] | None = None
        self._leaving: set[str] = outlining.returned
        self._next = 0
        self._constants: dict[bytes, str] = {}
        if function is not None:
            self._numbers = {leaf.number for leaf in body.region.leaves}
            self._leaving = {body.region.gives[number] for number in function.outputs}
            self._value_names.take(formal for formal in function.formals if formal)
            for slot, formal in zip(body.slots, function.formals, strict=True):
                if not slot.is_constant and formal is not None:
                    self.names[slot.name] = formal

    def write(self) -> None:
        """Write the nodes of the region."""
        self._enter(self._body)

    def _enter(self, body: Body) -> None:
        self._written.append(body)
        for item in body.region.items:
            if isinstance(item, Leaf):
                self._leaf(item)
            elif (function := self._all.function(item)) is not None:
                self._call(item, function)
            else:
                self._enter(self._all.bodies[item])

    def _label(self, call: str) -> str:
        return self._body.labels.get(call, call)

    def _name(self, leaf: Leaf, name: str) -> str:
        return leaf_name(leaf, name, self._label(leaf.call)) if self._function is not None else name

    def _leaf(self, leaf: Leaf) -> None:
        names = {name: self._read(name, leaf) for name in leaf.reads}
        for at, name in enumerate(leaf.node.output):
            if name:
                self._give(leaf, at, name)
                names[name] = self.names[name]
        if self._function is None:
            self.nodes.append(leaf.node)
            return

        def made(name: str) -> str:
            return self._value_names.unique(self._name(leaf, name))

        node = copy_node(leaf.node, names, made, self._label, INNER_CALL)
        node.name = self._node_names.unique(self._name(leaf, node.name))
        self.nodes.append(node)

    def _give(self, leaf: Leaf, at: int, name: str) -> None:
        """Name a value that is computed here."""
        if self._function is None:
            self.names[name] = name
        elif name not in self.names:
            wanted = self._name(leaf, leaf.node.name)
            self.names[name] = self._value_names.unique(f"{wanted}.{at}" if at else wanted)

    def _read(self, name: str, leaf: Leaf | None = None) -> str:
        """Return the name of a value here; a constant's slot is used up."""
        if self._function is None:
            return name
        if name in self._all.bodies.constants and name not in self.names:
            return self._constant(name, leaf)
        return self.names[name]

    def _constant(self, name: str, leaf: Leaf | None) -> str:
        assert self._function is not None
        slots, formals = self._body.slots, self._function.formals
        while not slots[self._next].is_constant:
            self._next += 1
        assert slots[self._next].name == name
        formal = formals[self._next]
        self._next += 1
        if formal is not None:
            return formal
        value = self._all.bodies.value(name)
        if value not in self._constants:
            wanted = "constant" if leaf is None else self._name(leaf, f"{scope(leaf.call)}constant")
            given = self._constants[value] = self._value_names.unique(wanted)
            tensor = onnx.TensorProto()
            tensor.CopyFrom(self._all.bodies.constants[name])
            tensor.name = ""
            node = onnx.helper.make_node("Constant", [], [given], name=given, value=tensor)
            self._node_names.take([given])
            self.nodes.append(node)
        return self._constants[value]

    def _call(self, region: Region, function: _Function) -> None:
        """Write a call of a function."""
        body, label = self._all.bodies[region], self._label(region.call)
        own = {leaf.number for leaf in region.leaves}
        for leaf in region.leaves:  # values that leave are named by what computes them
            for at, name in enumerate(leaf.node.output):
                if name and self._is_needed(name, own):
                    self._give(leaf, at, name)
        read = [
            self._read(slot.name)
            if not slot.is_constant or function.formals[at] is not None
            else self._skip(slot.name)
            for at, slot in enumerate(body.slots)
        ]
        inputs = [read[at] for at in self._all.arguments(function, body.slots)]
        needed = [body.region.gives[number] for number in function.outputs]
        outputs = [self.names[name] if self._is_needed(name, own) else "" for name in needed]
        path = label.rpartition("#")[0]
        node = onnx.helper.make_node(
            function.name, inputs, outputs, name=self._node_names.unique(path), domain=FUNCTIONS
        )
        names = self._exceptions(body)
        key = NODE_CALL if self._function is None else INNER_CALL
        stated = call_metadata(key, label, self._all.calls.classes.get(region.call, ""), names)
        for key, value in stated.items():
            node.metadata_props.add(key=key, value=value)
        self.nodes.append(node)

    def _skip(self, name: str) -> str:
        """Pass the slot over of a constant that is part of the body of a function called here."""
        if self._function is not None:
            while not self._body.slots[self._next].is_constant:
                self._next += 1
            assert self._body.slots[self._next].name == name
            self._next += 1
        return ""

    def _exceptions(self, body: Body) -> dict[str, str]:
        own = self._label(body.region.call)
        return {
            inner: self._label(call)
            for call, inner in body.labels.items()
            if within(own, inner) != self._label(call)
        }

    def _is_needed(self, name: str, inside: Collection[int]) -> bool:
        """Whether something here reads a value of some nodes that is not among them."""
        if name in self._leaving:
            return True
        readers, mine = self._all.readers.get(name, ()), self._numbers
        return any(at not in inside and (mine is None or at in mine) for at in readers)

    def records(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield what the metadata of the graph or the function state of the calls in it."""
        for body in self._written:
            for call in body.own:
                if call in self._all.calls.records:
                    name, record = self._all.calls.records[call]
                    renamed = {
                        key: [self.names.get(v, v) for v in value] if isinstance(value, list) else value
                        for key, value in record.items()
                    }
                    around = self._all.calls.parents.get(name)
                    if around is not None and self._is_stated(name, around):
                        renamed["in"] = self._label(around)
                    yield self._label(name), renamed

    def _is_stated(self, name: str, around: str) -> bool:
        """Whether the metadata state by which call another is made."""
        if self._function is not None:
            return around != self._body.region.call
        return around != caller(name, self._all.stated)


def _has_nodes(region: Region) -> bool:
    leaves = region.leaves
    return all(next(leaves, None) is not None for _ in range(_LEAST))
