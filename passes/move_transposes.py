"""move-transposes: transposes meet behind the operators between them, and go away in pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..ir import Graph, Operator, Value
from .base import Change, Pass
from .eliminate_identities import moves_nothing
from .layouts.groups import Group, can_return, perm_of
from .layouts.turning import Perm, compose, invert
from .places import Places


@dataclass(frozen=True)
class MoveTransposes(Pass):
    """Remove transposes that undo each other across the operators between them.

    What it does:
        Finds operators that compute the same whatever the order of axes: elementwise ones, Concat, Split,
        Pad, Slice, Resize, Softmax, Tile, reductions and quantisation. Where a Transpose stands before such a
        group and its inverse behind, the group computes with the axes as they were before: attributes and
        constants that name axes change. A group changes as a whole and only if it saves operators. A
        Transpose behind another becomes one. Groups reach across modules, whose values then have other axes.

    Why:
        Nets with channels last (Keras, by way of tf2onnx) have a Transpose before and behind every
        convolution. They cost time in every run, and the rewritten source says nothing else.

    Leaves alone:
        Values and names of parameters: a bias of one axis that has to spread over others is unsqueezed.
        Groups where as many operators would come as go.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,3,8,8]
        ...   %0 = Transpose(%x) {perm=[0, 2, 3, 1]} : f32[N,8,8,3]
        ...   %1 = Relu(%0) : f32[N,8,8,3]
        ...   %2 = Transpose(%1) {perm=[0, 3, 1, 2]} : f32[N,3,8,8]
        ...   %y = GlobalAveragePool(%2) : f32[N,3,1,1]
        ...   return "y" = %y
        ... }''')
        >>> for change in MoveTransposes().run(graph):
        ...     print(change)
        MT101 computes as before its transposes; operators in its group: 1, saved: 2 - at `Relu`
    """

    name: ClassVar[str] = "move-transposes"
    codes: ClassVar[dict[str, str]] = {
        "MT101": "transposes undo each other across operators",
        "MT102": "a transpose follows another",
    }
    rewordings: ClassVar[frozenset[str]] = frozenset({"MT101", "MT102"})
    needs_dataflow: ClassVar[bool] = True

    def run(self, graph: Graph) -> list[Change]:
        """Move; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            merged = _merge_all(part, places)
            changes += merged
            changes += _turn_groups(part, places)
            if len(changes) > len(merged):
                changes += _merge_all(part, places)
                part.remove_dead()
        return changes


def _merge_all(part: Graph, places: Places) -> list[Change]:
    """Make one Transpose of two that follow each other, and none of two that undo each other."""
    changes: list[Change] = []
    for node in part.operators():
        perm = perm_of(node)
        source = part.operands(node.key)[0] if perm is not None else None
        first = None if source is None else part.producer(source)
        before = perm_of(first)
        if perm is None or not isinstance(first, Operator) or before is None:
            continue
        both, inner = compose(before, perm), part.operands(first.key)[0]
        assert inner is not None
        if moves_nothing(both):
            if not can_return(part, Value(node.key), inner):
                continue
            part.replace_uses(Value(node.key), inner)
        else:
            part.set_operand(node.key, 0, inner)
            node.attributes["perm"] = list(both)
        changes.append(
            Change("MT102", "is one with the transpose before it", place=places.of(part, node.key))
        )
    if changes:
        part.remove_dead()
    return changes


def _turn_groups(part: Graph, places: Places) -> list[Change]:
    changes: list[Change] = []
    done: set[int] = set()
    tried: set[tuple[int, Perm]] = set()
    for node in part.operators():
        perm = perm_of(node)
        if perm is None or node.key in done or node.key not in part:
            continue
        source = part.operands(node.key)[0]
        ways = [(key, perm) for key, slot in part.users(Value(node.key)) if slot >= 0]
        ways += [(source.node, invert(perm))] if source is not None else []
        for start, order in ways:
            if start in done or start not in part or (start, order) in tried:
                continue
            group = Group.around(part, start, order)
            if group is None:
                continue
            tried |= {(key, order) for key in group.members}
            saved = group.saved()
            if saved <= 0:
                continue
            place = places.of(part, next(iter(group.members)))
            group.turn()
            done |= set(group.members)
            count = len(group.members)
            message = f"computes as before its transposes; operators in its group: {count}, saved: {saved}"
            changes.append(Change("MT101", message, place=place))
    return changes
