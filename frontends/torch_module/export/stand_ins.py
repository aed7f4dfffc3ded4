"""Nodes that stand for repeated calls while torch's passes run over a traced graph.

A trace of forty-eight equal blocks has as many nodes as blocks times operators, over each of which torch goes
a dozen times after the trace. Of a block that repeats another, the graph has one node for each tensor that
what follows may read, until torch has done.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..nodes import graph_modules
from .module_likeness import Unlike
from .patches import patched
from .recorded_calls import Copying, Op, Record, Stack
from .tracer_state import is_size, name_asked

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Graph, Node

_SCHEMA = "equal_call(Tensor[] given, SymInt[] sizes, int number, int place) -> Tensor"
_FEWEST = 4
"""Nodes that are worth a node in their place."""
_MAY_GO = frozenset({"aten::detach", "export::access_subclass_inner_tensor"})
"""Operators that torch leaves out where nothing reads them."""


@dataclass(slots=True)
class StandIns:
    """The nodes that stand for calls in one trace."""

    _calls: list[tuple[Copying, list[str]]] = field(default_factory=list)
    """The copying of the nodes of each, and their names."""

    def add(self, graph: Graph, copying: Copying, around: Stack) -> dict[int, Node]:
        """Add the stand-ins of a call; return each by the place of the node that it stands for.

        Args:
            graph: the graph.
            copying: copies what the call repeats.
            around: the modules of the call, and around it.
        """
        record, given = copying.record, [*copying.call.nodes]
        names: list[str] = []
        made: dict[int, Node] = {}
        for at, op in enumerate(record.ops):
            if at in record.results:
                args = given, [*record.sizes], len(self._calls), at
                made[at] = node = graph.create_node("call_function", _stand_in(), args, {}, op.name)
                node.meta = copying.notes(at, around)
                names.append(node.name)
            else:  # what follows is called as if all were there
                names.append(graph._graph_namespace.create_name(op.name, None))
        self._calls.append((copying, names))
        return made

    def ops(self, graph: Graph, nodes: Iterable[Node]) -> list[Op]:
        """Return the operators of nodes, and in the place of a stand-in those of its call."""
        from torch.fx import Node

        found: list[Op] = []
        groups = _groups(nodes)
        for node in nodes:
            if node.target is not _stand_in():
                found.append(Op.of(node, name_asked(graph, node)))
            elif (group := groups.pop(_number(node), None)) is not None:

                def make(
                    at: int, op: Op, args: Any, kwargs: Any, notes: dict[str, Any], group: Any = group
                ) -> Node:
                    node = group.get(at) or Node(graph, op.name, "call_function", op.target, (), {})
                    found.append(op.moved(node, args, kwargs, notes))
                    return node

                self._copy(group, make)
        return found

    def spell_out(self, program: ExportedProgram) -> None:
        """Replace the stand-ins of all calls by the nodes of these calls.

        Raises:
            Unlike: when torch has parted the nodes that stand for one call.
        """
        for module in graph_modules(program.graph_module):
            groups = _groups(module.graph.nodes)
            read: list[Node] = []
            for group in groups.values():
                read += [*next(iter(group.values())).all_input_nodes, *group.values()]
                self._spell_out(module.graph, group)
            if groups:
                _sort_users(module.graph, dict.fromkeys(read))
                module.recompile()

    def _spell_out(self, graph: Graph, group: dict[int, Node]) -> None:
        copying, names = self._calls[_number(next(iter(group.values())))]
        if list(group) != copying.record.results:
            raise Unlike
        anchors = [*group.values()]
        anchors.append(anchors[-1].next)

        def make(at: int, op: Op, args: Any, kwargs: Any, notes: dict[str, Any]) -> Node:
            node = group.get(at)
            if node is None:
                graph._graph_namespace._used_names.discard(names[at])
                node = graph.create_node("call_function", op.target, args, kwargs, names[at], op.type)
            else:
                node.target, node.args, node.kwargs, node.type = op.target, args, kwargs, op.type
                node.meta.clear()
                anchors.pop(0)
                graph.inserting_before(anchors[0])
            node.meta.update(notes)
            return node

        unasked = SimpleNamespace(tree_iter=lambda _: ())
        with graph.inserting_before(anchors[0]), patched("torch.fx.graph", pytree=unasked):
            self._copy(group, make)

    def _copy(self, group: dict[int, Node], make: Any) -> None:
        """Copy the nodes of a call that a group stands for."""
        at, node = next(iter(group.items()))
        copying, _ = self._calls[_number(node)]
        record, given = copying.record, node.args
        stack = list(node.meta["nn_module_stack"].items())
        inside = len(record.ops[at].meta["nn_module_stack"]) - len(record.call.keys)
        around = dict(stack[: len(stack) - inside])  # torch joins the keys of the root and of what wraps it
        copying.copy([*given[0], *given[1]], around, make)  # type: ignore[misc]


def can_stand(record: Record) -> bool:
    """Whether one node for each tensor of the result may stand for all that a call recorded.

    What torch leaves out or takes apart stays in the graph, and what writes into a tensor that was given.
    """
    ops, given = record.ops, set(record.call.memories)
    memories = dict(zip(record.call.nodes, record.call.memories, strict=True))
    memories |= {op.node: op.memory for op in ops}
    read = {node for op in ops for node in op.inputs()}
    results = {ops[at].node for at in record.results}
    return len(ops) >= _FEWEST * len(record.results) > 0 and all(
        _is_plain(op)
        and not (_writes(op) and given & {memories.get(node) for node in op.inputs()})
        and not (_name(op) in _MAY_GO and (op.node in results or op.node not in read))
        for op in ops
    )


def _is_plain(op: Op) -> bool:
    import torch

    return (op.target is operator.getitem or isinstance(op.target, torch._ops.OpOverload)) and not is_size(
        op.meta.get("val")
    )


def _writes(op: Op) -> bool:
    schema = getattr(op.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _name(op: Op) -> str:
    schema = getattr(op.target, "_schema", None)
    return "" if schema is None else schema.name


@cache
def _library() -> Any:
    """Define the operator, once in a process; the library lives as long as it is held."""
    import torch

    library = torch.library.Library("regraft", "FRAGMENT")
    library.define(_SCHEMA)
    return library


@cache
def _stand_in() -> Any:
    import torch

    _library()
    return torch.ops.regraft.equal_call.default


def _number(node: Node) -> int:
    """Return the number of the call that a node stands for."""
    number: Any = node.args[2]
    return number


def _groups(nodes: Iterable[Node]) -> dict[int, dict[int, Node]]:
    """Return number of a call -> place -> node that stands for it."""
    found: dict[int, dict[int, Any]] = defaultdict(dict)
    for node in nodes:
        if node.target is _stand_in():
            found[_number(node)][node.args[3]] = node  # type: ignore[index]
    return dict(found)


def _sort_users(graph: Graph, nodes: Iterable[Node]) -> None:
    """Name the users of nodes in the order of the graph, as if they had come one after another."""
    places = {node: at for at, node in enumerate(graph.nodes)}
    for node in nodes:
        if len(node.users) > 1:
            users = sorted(node.users, key=places.__getitem__)
            node.users.clear()
            node.users.update(dict.fromkeys(users))
