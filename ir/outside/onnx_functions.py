"""Functions of an ONNX file that are classes of modules, and the file with the bodies in place of calls.

A body names calls of modules relative to its own call, which is ``#1`` there, as the graph names them
relative to the root. A node that calls a function states the name of its call, and where the names of the
calls inside are not that name and theirs, it states them one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from ..errors import ModelError
from .documents import parse_json

FUNCTIONS = "regraft.modules"
"""Domain of functions that are classes of modules."""

CALLS = "regraft.calls"
"""Key of the metadata of a model and of a function, JSON: call name -> what is known of the call.

"class" is the class of the module, "inputs" and "outputs" are the values at its edges, "alone" is false for a
layer that computes more than it did in the source, and "in" is the call that makes it, where that is not what
`caller` gives; in a function, where that is not the function's own.
"""

NODE_CALL = "regraft.call"
"""Key of a node's metadata: the module call that it belongs to, ``path#n``, or that it is."""

INNER_CALL = "regraft.inner_call"
"""The same key in a function, where names are relative: another tool that puts bodies in place keeps them."""

NODE_CLASS = "regraft.class"
"""Key of a node's metadata: the class of that module."""

NODE_CALLS = "regraft.names"
"""Key of the metadata of a function's call, JSON: call name in the body -> call name around the function."""

_DEEPEST = 64  # functions within one another
_FEW, _REPEATED = 250_000, 50  # nodes that any file may give, and those for each that it states


class UniqueNames:
    """Hands out unique names.

    Args:
        taken: names that are not handed out.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def take(self, names: Iterable[str]) -> None:
        """Note names that are not handed out any more."""
        self._taken.update(names)

    def unique(self, wanted: str) -> str:
        """Return `wanted`, or `wanted` with the first free number where it is taken."""
        name = wanted
        while name in self._taken:
            self._next[wanted] = self._next.get(wanted, 1) + 1
            name = f"{wanted}_{self._next[wanted]}"
        self._taken.add(name)
        return name


def scope(call_name: str) -> str:
    """Return the prefix for values of a module call: ``layer1.0#1`` -> ``layer1.0/``; empty for the root."""
    path, _, number = call_name.rpartition("#")
    if number != "1" and path:
        return f"{path}#{number}/"
    return f"{path}/" if path else ""


def within(outer: str, inner: str) -> str:
    """Return the name of a call of a body where the body is that of a call: usually, ``path.path#n``."""
    around, _, times = outer.rpartition("#")
    path, _, number = inner.rpartition("#")
    if not path:
        return outer
    return f"{around}.{path}#{times if number == '1' else number}" if around else inner


def caller(call: str, known: Container[str]) -> str | None:
    """Return the call that usually makes a call: of a path above it, with its number, else the first."""
    path, _, number = call.rpartition("#")
    while path:
        path = path.rpartition(".")[0]
        for each in (f"{path}#{number}", f"{path}#1"):
            if each in known:
                return each
    return None


def metadata(entries: Any, key: str) -> str | None:
    """Return an entry of metadata; None where it is absent or no UTF-8."""
    found = next((entry.value for entry in entries if entry.key == key), None)
    return found if isinstance(found, str) else None


def copy_node(
    node: onnx.NodeProto,
    names: Mapping[str, str],
    made: Callable[[str], str],
    call: Callable[[str], str],
    key: str = NODE_CALL,
) -> onnx.NodeProto:
    """Return a node with other names of values and calls; nested graphs get names of their own.

    Args:
        node: the node.
        names: value -> its other name, for those that it reads and gives; others stay.
        made: gives a name for a value or a node within nested graphs.
        call: gives a name for the call that it states, or a nested node.
        key: of the metadata in which they state it.
    """
    new = onnx.NodeProto()
    new.CopyFrom(node)
    for values in (new.input, new.output):
        for at, name in enumerate(values):
            values[at] = names.get(name, name)
    for attribute in new.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            _rename(attribute.g, names, made, call, key)
    for entry in new.metadata_props:
        if entry.key in (NODE_CALL, INNER_CALL):
            entry.value, entry.key = call(metadata([entry], entry.key) or "#1"), key
    return new


def _rename(
    graph: onnx.GraphProto,
    names: Mapping[str, str],
    made: Callable[[str], str],
    call: Callable[[str], str],
    key: str,
) -> None:
    own, graph.name = dict(names), made(graph.name)
    values = [i.name for i in graph.input] + [t.name for t in graph.initializer]
    values += [name for node in graph.node for name in node.output]
    own.update((name, made(name)) for name in dict.fromkeys(values) if name)
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = own.get(value.name, value.name)
    for at, node in enumerate(graph.node):
        new = copy_node(node, own, made, call, key)
        new.name = made(node.name) if node.name else ""
        graph.node[at].CopyFrom(new)


def has_functions(model: onnx.ModelProto) -> bool:
    """Whether some functions of a model are classes of modules."""
    return any(function.domain == FUNCTIONS for function in model.functions)


def inline_functions(model: onnx.ModelProto, *, in_place: bool = False) -> onnx.ModelProto:
    """Return a model with the bodies of its classes of modules in place of their calls; itself without any.

    Functions of other domains stay, and so does a call within a nested graph.

    Args:
        model: the model.
        in_place: whether it may be changed, so that no weight is copied.

    Raises:
        ModelError: E101 for metadata that are none or for recursion, E106 for bodies out of proportion.
    """
    if not has_functions(model):
        return model
    if not in_place:
        model, given = onnx.ModelProto(), model
        model.CopyFrom(given)
    _Inlining(model).run()
    return model


@dataclass(slots=True)
class _Frame:
    """A graph or a body while it is copied.

    Attributes:
        values: value in it -> in the whole.
        call: gives the name of a call in the whole.
        depth: how many bodies it lies within.
    """

    values: dict[str, str]
    call: Callable[[str], str]
    depth: int = 0


class _Inlining:
    """A model whose calls give way to bodies."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model, self.graph = model, model.graph
        self.functions: dict[str, onnx.FunctionProto] = {}
        for function in model.functions:
            if function.domain == FUNCTIONS:
                self.functions[function.name] = onnx.FunctionProto()
                self.functions[function.name].CopyFrom(function)
        self.stated = {
            name: _records(metadata(f.metadata_props, CALLS) or "{}", name)
            for name, f in self.functions.items()
        }
        main = self.graph
        self.values = UniqueNames(v.name for v in (*main.input, *main.initializer, *main.output))
        self.values.take(name for node in main.node for name in node.output)
        self.names = UniqueNames(node.name for node in main.node)
        self.inner: dict[str, list[tuple[str, Any]]] = {}
        stated = len(main.node) + sum(len(f.node) for f in self.functions.values())
        self.left = _FEW + _REPEATED * stated

    def run(self) -> None:
        """Change the model."""
        nodes = [(node, self._is_call(node)) for node in self.graph.node]
        kept = onnx.GraphProto(node=[node for node, _ in nodes])
        del self.graph.node[:]
        frame = _Frame({}, lambda name: name)
        for node, (_, is_call) in zip(kept.node, nodes, strict=True):
            if is_call:
                self._enter(node, frame)
            else:
                self.graph.node.append(node)
        others = [f for f in self.model.functions if f.domain != FUNCTIONS]
        del self.model.functions[:]
        self.model.functions.extend(others)
        opsets = [o for o in self.model.opset_import if o.domain != FUNCTIONS]
        del self.model.opset_import[:]
        self.model.opset_import.extend(opsets)
        entry = next((e for e in self.model.metadata_props if e.key == CALLS), None)
        if entry is not None:
            entry.value = json.dumps(self._all_calls(entry.value), ensure_ascii=False)

    def _all_calls(self, text: str) -> dict[str, Any]:
        """Return the calls that a model states, each followed by those inside it."""
        found: dict[str, Any] = {}
        stack = list(reversed(_records(text, "the model").items()))
        while stack:
            name, record = stack.pop()
            found[name] = record
            stack += reversed(self.inner.pop(name, []))
        for rest in self.inner.values():  # of a call that has no record itself
            found.update(rest)
        return found

    def _is_call(self, node: onnx.NodeProto) -> bool:
        return node.domain == FUNCTIONS and node.op_type in self.functions

    def _enter(self, node: onnx.NodeProto, around: _Frame) -> None:
        """Add the nodes of a body in place of its call."""
        function = self.functions[node.op_type]
        if around.depth >= _DEEPEST:
            raise ModelError(
                "E101", "expected functions without recursion, got one that calls itself", place=node.name
            )
        stated = _call_of(node) or f"{node.name}#1"
        text = metadata(node.metadata_props, NODE_CALLS)
        exceptions = {} if text is None else _records(text, node.name)

        def call(name: str) -> str:
            other = exceptions.get(name)
            return around.call(other if isinstance(other, str) else within(stated, name))

        values = {n: around.values.get(v, v) for n, v in zip(function.input, node.input, strict=False)}
        values |= dict.fromkeys(function.input[len(node.input) :], "")
        outputs = zip(function.output, node.output, strict=False)
        values |= {n: around.values.get(v, v) for n, v in outputs if v}
        frame = _Frame(values, call, around.depth + 1)
        for each in function.node:
            self.left -= 1
            if self.left < 0:
                raise ModelError(
                    "E106", "expected nodes in proportion to the file once functions are written out"
                )
            own = _call_of(each) or "#1"
            before, after = scope(own), scope(call(own))
            for name in each.output:
                if name and name not in values:
                    values[name] = self.values.unique(_renamed(name, own, call))
            if self._is_call(each):
                self._enter(each, frame)
            else:
                self._add(each, frame, before, after)
        given = {*function.input, *(n for n, v in zip(function.output, node.output, strict=False) if v)}
        self._state(function, frame, call("#1"), given)

    def _add(self, node: onnx.NodeProto, frame: _Frame, before: str, after: str) -> None:
        if node.op_type == "Constant" and not node.domain and len(node.attribute) == 1:
            value = node.attribute[0]
            if value.type == onnx.AttributeProto.TENSOR:
                tensor = self.graph.initializer.add()
                tensor.CopyFrom(value.t)
                tensor.name = frame.values[node.output[0]]
                return

        def made(name: str) -> str:
            return self.values.unique(after + name.removeprefix(before))

        new = copy_node(node, frame.values, made, frame.call)
        new.name = self.names.unique(after + node.name.removeprefix(before))
        self.graph.node.append(new)

    def _state(self, function: onnx.FunctionProto, frame: _Frame, own: str, given: set[str]) -> None:
        """Add the types and the calls that a function states of its body, but for values around it."""
        for info in function.value_info:
            if info.name in frame.values and info.name not in given:
                new = self.graph.value_info.add()
                new.CopyFrom(info)
                new.name = frame.values[info.name]
        for name, record in self.stated[function.name].items():
            self.inner.setdefault(own, []).append((frame.call(name), _placed(record, frame)))


def _call_of(node: onnx.NodeProto) -> str | None:
    return metadata(node.metadata_props, INNER_CALL) or metadata(node.metadata_props, NODE_CALL)


def _placed(record: Any, frame: _Frame) -> Any:
    """Return what a function states of a call in it, by the names of the whole."""
    if not isinstance(record, dict):
        return record
    entries: dict[str, Any] = dict(record)  # pyright: ignore[reportUnknownArgumentType]
    for key in ("inputs", "outputs"):
        if isinstance(entries.get(key), list):
            entries[key] = [frame.values.get(v, v) if isinstance(v, str) else v for v in entries[key]]
    around = entries.get("in")
    return {**entries, "in": frame.call(around if isinstance(around, str) else "#1")}


def _renamed(name: str, own: str, call: Callable[[str], str]) -> str:
    """Return the name in the whole of a value that a node of a body gives: a call gives what is inside it."""
    at, rest = own, name.removeprefix(scope(own))
    if rest == name and "/" in name:
        path, _, rest = name.rpartition("/")
        at = path if "#" in path else f"{path}#1"
    return scope(call(at)) + rest


def _records(text: Any, place: str) -> dict[str, Any]:
    """Return a JSON object in metadata, whose text are bytes where it is no UTF-8."""
    found: Any = parse_json(text.encode() if isinstance(text, str) else text, place)
    if not isinstance(found, dict):
        raise ModelError("E101", "expected an object of module calls", place=place)
    return dict(found)  # pyright: ignore[reportUnknownArgumentType]


def function_counts(model: onnx.ModelProto) -> Iterator[tuple[onnx.FunctionProto, int]]:
    """Yield each class of modules among a model's functions, with how often its body is computed."""
    functions = {f.name: f for f in model.functions if f.domain == FUNCTIONS}
    times = dict.fromkeys(functions, 0)
    calls = {
        name: [n.op_type for n in f.node if n.domain == FUNCTIONS and n.op_type in functions]
        for name, f in functions.items()
    }
    for node in model.graph.node:
        if node.domain == FUNCTIONS and node.op_type in functions:
            times[node.op_type] += 1
    for name in _callers_first(calls):
        for inner in calls[name]:
            times[inner] += times[name]
    for name, function in functions.items():
        yield function, times[name]


def _callers_first(calls: Mapping[str, list[str]]) -> list[str]:
    """Return functions in an order in which each precedes those that it calls; without recursion."""
    order: list[str] = []
    seen: set[str] = set()
    for start in calls:
        stack = [(start, False)]
        while stack:
            name, done = stack.pop()
            if done:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(inner, False) for inner in calls[name]]
    return order[::-1]
