"""write-upcasts: what a half-precision copy of the source computes in float32, one of the target does too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx

from ....ir import Builder, Constant, Graph, Operator, Parameter, Value, onnx_dtype
from ....passes.base import Change, Pass
from ....passes.places import Places

_FLOAT32 = "float32"
_CASTING = ("Softmax", "LogSoftmax")
"""Operators that cast what they are given themselves: ``F.softmax(x, dim=1, dtype=torch.float32)``."""


@dataclass(frozen=True)
class WriteUpcasts(Pass):
    """Write ``x.float()`` and ``y.type_as(x)`` around operators that the source's code computes in float32.

    What it does:
        Casts what such operators read to float32, and their results back to the type of what was cast, or of
        what they are computed with; likewise what is made of integers, such as a mask of a padding mask.
        Nothing changes as long as all is float32.

    Why:
        Code of transformers casts scores and squares to float32: a net in half precision (`net.half()`) would
        otherwise compute softmax and mean squares in it, and squares above 65504 are infinite there. A mask
        of float32 makes scores float32, which a layer in half precision refuses.

    Leaves alone:
        Layers, which compute in the type of their parameters, and graphs of other frameworks, whose code
        has no casts that change nothing. Operators of which no result could be cast back.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   %x = input "x" : f32[N,4]
        ...   %0 = Softmax(%x) : f32[N,4] @ "#1" upcast
        ...   %y = Mul(%x, %0) : f32[N,4] @ "#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in WriteUpcasts().run(graph):
        ...     print(change)
        TS105 is computed in float32 - at `Softmax`
    """

    name: ClassVar[str] = "write-upcasts"
    codes: ClassVar[dict[str, str]] = {"TS105": "casts to float32 that the source's code writes are written"}

    def run(self, graph: Graph) -> list[Change]:
        """Write the casts; see the class."""
        if graph.origin.framework != "torch" and not any(n.upcast for n in graph.operators()):
            return []
        wide = _wide(graph)
        places, changes = Places(graph), list[Change]()
        casting: set[int] = set()
        joined = nx.Graph()
        joined.add_nodes_from(wide)
        for key in wide:
            joined.add_edges_from((v.node, key) for v in graph.operands(key) if v and v.node in wide)
        for keys in nx.connected_components(joined):
            region = _Region(graph, [graph.operator(key) for key in sorted(keys)], wide)
            first = places.of(graph, min(keys))
            if region.write():
                changes.append(Change("TS105", "is computed in float32", first))
            casting |= region.casting
        _cast_outputs(graph, wide)
        graph.remove_dead()
        graph.origin.upcast = frozenset()  # from here on the casts say it
        for node in graph.operators():
            node.upcast = node.key in casting
        return changes


def _wide(graph: Graph) -> dict[int, bool]:
    """Return the operators that compute in float32 in a copy of any type -> whether code casts to it.

    The others of them compute with numbers and integers alone.
    """
    wide: dict[int, bool] = {}
    for node in graph.operators():
        if node.attributes and node.subgraphs():
            continue
        read = [v for v in graph.operands(node.key) if v is not None]
        floats = [v for v in read if _is_float(graph, v) and not _is_constant(graph, v)]
        if node.upcast and floats and (node.traits.broadcasting or not _reads_parameter(graph, read)):
            wide[node.key] = True
        elif _is_float(graph, Value(node.key)) and all(v.node in wide for v in floats):
            of_casts = any(wide[v.node] for v in floats)
            if not of_casts or _is_between(graph, node):
                wide[node.key] = of_casts
    return wide


def _is_between(graph: Graph, node: Operator) -> bool:
    """Whether all that reads an operator is computed in float32: a pass has put it there."""
    users = [graph.operator(user) for user, _ in graph.users(Value(node.key))]
    return bool(users) and all(user.upcast for user in users)


def _reads_parameter(graph: Graph, read: list[Value]) -> bool:
    return any(isinstance(graph.producer(v), Parameter) for v in read)


def _is_constant(graph: Graph, value: Value) -> bool:
    return isinstance(graph.producer(value), Constant)


def _is_float(graph: Graph, value: Value) -> bool:
    found = graph.type_of(value)
    return found is not None and found.dtype == _FLOAT32


def _cast_outputs(graph: Graph, wide: dict[int, bool]) -> None:
    """Cast the results that the source's code casts to float32 last."""
    b, root = Builder(graph), _root_call(graph)
    for place, (name, value) in enumerate(graph.outputs):
        if name in graph.origin.upcast and value.node not in wide and _is_float(graph, value):
            with b.inside(root, ""):
                graph.outputs[place] = name, b.op("Cast", value, to=onnx_dtype(_FLOAT32))


def _root_call(graph: Graph) -> int | None:
    return next((c.key for c in graph.modules.calls() if c.parent is None), None)


class _Region:
    """Operators that are joined and compute in float32.

    Attributes:
        casting: operators that cast their operands themselves.
    """

    def __init__(self, graph: Graph, nodes: list[Operator], wide: dict[int, bool]) -> None:
        self.graph, self.nodes, self.wide = graph, nodes, wide
        self.b = Builder(graph)
        self.casting: set[int] = set()
        self.is_cast = any(wide[node.key] for node in nodes)
        self.entries = [(node, slot, value) for node in nodes for slot, value in self._entering(node)]

    def _entering(self, node: Operator) -> Iterator[tuple[int, Value]]:
        """Yield the operands to cast: all, or where they promote each other one, unless one is cast."""
        given = [
            (slot, value)
            for slot, value in enumerate(self.graph.operands(node.key))
            if value is not None and _is_float(self.graph, value) and not _is_constant(self.graph, value)
        ]
        outside = [(slot, value) for slot, value in given if value.node not in self.wide]
        if node.traits.broadcasting:
            outside = [] if any(self.wide.get(value.node) for _, value in given) else outside[:1]
        yield from outside

    def write(self) -> bool:
        """Write the casts; whether there are any, and a type to cast each result back to."""
        leaving = [
            (user, slot, value, like)
            for node in self.nodes
            for value in (Value(node.key, i) for i in range(len(node.types)))
            if _is_float(self.graph, value)
            for user, slot in self._narrow(value)
            for like in [self._like(value, user)]
        ]
        if any(like is None for *_, like in leaving):
            return False
        back: dict[tuple[Value, int | None], Value] = {}
        for user, slot, value, like in leaving:
            assert like is not None
            other, call = like
            if (value, call) not in back:
                with self.b.inside(call, ""):
                    back[value, call] = self.b.op("CastLike", self._uncast(value, call), other)
            if user is None:
                self.graph.outputs[slot] = self.graph.outputs[slot][0], back[value, call]
            else:
                self.graph.set_operand(user, slot, back[value, call])
        cast: dict[tuple[Value, int | None], Value] = {}
        for node, slot, value in self.entries:
            if node.op_type in _CASTING:
                self.casting.add(node.key)
                continue
            if (value, node.call) not in cast:
                with self.b.inside(node.call, node.location):
                    cast[value, node.call] = self.b.op("Cast", value, to=onnx_dtype(_FLOAT32))
            self.graph.set_operand(node.key, slot, cast[value, node.call])
        return bool(back or cast)

    def _uncast(self, value: Value, call: int | None) -> Value:
        """Return the integers that a value is a cast of, in the call that casts it; else the value."""
        node = self.graph.operator(value.node)
        operand = self.graph.operands(node.key)[0] if node.op_type == "Cast" and node.call == call else None
        return value if operand is None else operand

    def _narrow(self, value: Value) -> Iterator[tuple[int | None, int]]:
        """Yield the uses of a result that are of the net's type; None for the net's own results."""
        is_number = self.graph.known_type(value).rank == 0  # which takes the type of what it is computed with
        for user, slot in [] if is_number else self.graph.users(value):
            operator = self.graph.operator(user)
            if (
                user in self.wide
                or operator.op_type in ("Cast", "CastLike")
                or not _is_float(self.graph, Value(user))
            ):
                continue
            if self.wide[value.node] or self._joins(operator):
                yield user, slot
        for place, (name, result) in enumerate(self.graph.outputs):
            if result == value and self.is_cast and name not in self.graph.origin.upcast:
                yield None, place

    def _joins(self, operator: Operator) -> bool:
        """Whether an operator computes with a value of the net's type, and needs all of one type."""
        t = operator.traits
        is_of_one_type = t.broadcasting or t.heavy or t.normalisation or t.recurrent or t.moving
        given = [v for v in self.graph.operands(operator.key) if v is not None]
        return is_of_one_type and any(self._is_typed(v) for v in given)

    def _like(self, value: Value, user: int | None) -> tuple[Value, int | None] | None:
        """Return a value whose type a result is cast back to, and the call that does it."""
        graph = self.graph
        call = graph.operator(value.node).call
        later = graph.flow.descendants(value.node)
        near = [v for node, _, v in self.entries if node.call == call and v.node not in later]
        if near:
            return near[-1], call
        calls = {graph.operator(u).call for u, _ in self._narrow(value) if u is not None}
        if len(calls) > 1 and (shown := self._shown(call, later)) is not None:
            return shown, call
        for other in () if user is None else graph.operands(user):
            if (
                other is not None
                and self._is_typed(other)
                and not isinstance(graph.producer(other), Parameter)
            ):
                return other, graph.operator(user).call  # type: ignore[arg-type]
        rest = [v for _, _, v in self.entries if v.node not in later]
        shown = rest[0] if rest else self._shown(call, later)
        return None if shown is None else (shown, call)

    def _is_typed(self, value: Value) -> bool:
        """Whether a value is of the net's type."""
        known = _is_float(self.graph, value) and not _is_constant(self.graph, value)
        return known and value.node not in self.wide

    def _shown(self, call: int | None, later: set[int]) -> Value | None:
        """Return the first value of the net's type that the code of a call has at hand."""
        tree, graph = self.graph.modules, self.graph
        for node in graph.operators():
            around = tree.ancestors(node.call)
            for value in graph.operands(node.key):
                if value is None or value.node in later or not self._is_typed(value):
                    continue
                producer = graph.producer(value)
                if isinstance(producer, Parameter):
                    continue
                made = tree.ancestors(producer.call) if isinstance(producer, Operator) else around[-1:]
                if next((c for c in around if c in made), None) == call:
                    return value
        return None
