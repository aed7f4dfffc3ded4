"""Groups of operators that hold together by values of one order of axes, and give them another together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ...ir import Array, Builder, Constant, Graph, Operator, Value
from ..eliminate_identities import moves_nothing
from .turning import Perm, Turned, compose, invert, turn_operator


def perm_of(node: object) -> Perm | None:
    """Return the permutation of a Transpose; None for any other node."""
    if not isinstance(node, Operator) or node.qualified_name != "Transpose" or node.types[0] is None:
        return None
    given = node.ints("perm")
    rank = node.types[0].rank
    return tuple(given) if given else None if rank is None else tuple(reversed(range(rank)))


def can_return(part: Graph, value: Value, instead: Value) -> bool:
    """Whether what returns a value may return another: an operator's, which nothing returns yet."""
    if not part.is_output(value):
        return True
    return isinstance(part.producer(instead), Operator) and not part.is_output(instead)


@dataclass(slots=True)
class Group:
    """Operators that hold together by values of one order of axes.

    Attributes:
        part: the graph that has them.
        perm: what a Transpose does to the values that they are to have, to give those that they have.
        members: key -> what the operator becomes.
    """

    part: Graph
    perm: Perm
    members: dict[int, Turned] = field(default_factory=dict[int, Turned])

    @classmethod
    def around(cls, part: Graph, start: int, perm: Perm) -> Group | None:
        """Return the group that an operator belongs to; None if it needs its axes as they are."""
        group, waiting = cls(part, perm), [start]
        while waiting:
            key = waiting.pop()
            node = part.node(key)
            if key in group.members or not isinstance(node, Operator):
                continue
            turned = turn_operator(part, node, perm)
            if turned is None or not all(group._fits(v) for v in group._data(key, turned)):
                continue
            group.members[key] = turned
            waiting += [v.node for v in group._data(key, turned)]
            if not turned.settled:
                waiting += [user for value in _results(node) for user, slot in part.users(value) if slot >= 0]
        return group if group.members else None

    def _data(self, key: int, turned: Turned) -> list[Value]:
        operands = self.part.operands(key)
        return [v for slot in turned.slots if slot < len(operands) and (v := operands[slot]) is not None]

    def _fits(self, value: Value) -> bool:
        """Whether an operand has all axes, or few enough to be given the others."""
        type_, node = self.part.type_of(value), self.part.producer(value)
        if type_ is None or type_.shape is None or type_.rank is None:
            return False
        if type_.rank == len(self.perm):
            return True
        if type_.rank > len(self.perm):
            return False
        lone = all(d == 1 for d in type_.shape)
        return lone or type_.rank == 1 or (isinstance(node, Constant) and node.data.load is not None)

    def _is_inside(self, value: Value) -> bool:
        turned = self.members.get(value.node)
        return turned is not None and not turned.settled

    def _entering(self) -> Iterable[tuple[int, int, Value]]:
        """Yield (key, slot, value) of the operands that come from outside."""
        for key, turned in self.members.items():
            operands = self.part.operands(key)
            for slot in turned.slots:
                value = operands[slot] if slot < len(operands) else None
                if value is not None and not self._is_inside(value):
                    yield key, slot, value

    def _leaving(self) -> Iterable[tuple[Value, int, int]]:
        """Yield (value, key, slot) of the uses outside; slot and key are -1 for what the graph returns."""
        for key, turned in self.members.items():
            if turned.settled:
                continue
            for value in _results(self.part.operator(key)):
                for user, slot in self.part.users(value):
                    if user not in self.members or slot not in self.members[user].slots:
                        yield value, user, slot
                if self.part.is_output(value):
                    yield value, -1, -1

    def saved(self) -> int:
        """Return how many operators go, less those that come."""
        part = self.part
        gone: dict[int, int] = {}  # Transpose -> how many of its uses are the group's
        added: set[Value] = set()
        for _, _, value in self._entering():
            node = part.producer(value)
            before = perm_of(node)
            if before is not None:
                gone[value.node] = gone.get(value.node, 0) + 1
                if compose(before, invert(self.perm)) == tuple(range(len(before))):
                    continue
            added |= {value} if self._costs(value) else set()
        saved = sum(part.flow.out_degree(k) == n and not part.is_output(Value(k)) for k, n in gone.items())
        for value, user, _ in self._leaving():
            after = perm_of(part.node(user)) if user >= 0 else None
            if after is None:
                added.add(value)
            elif moves_nothing(compose(self.perm, after)) and can_return(part, Value(user), value):
                saved += 1
        return saved - len(added)

    def _costs(self, value: Value) -> bool:
        """Whether an operand from outside needs an operator to fit."""
        type_, node = self.part.known_type(value), self.part.producer(value)
        lone = type_.shape is not None and all(d == 1 for d in type_.shape)
        return not lone and not (isinstance(node, Constant) and node.data.load is not None)

    def turn(self) -> None:
        """Give the group its other axes."""
        part = self.part
        entering, leaving = list(self._entering()), list(self._leaving())
        made: dict[tuple[Value, int | None], Value] = {}
        for key, slot, value in entering:
            node = part.operator(key)
            at = value, node.call
            if at not in made:
                made[at] = self._brought(value, node)
            part.set_operand(key, slot, made[at])
        for key, turned in self.members.items():
            node = part.operator(key)
            node.attributes.update(turned.attributes)
            for slot, array in turned.constants.items():
                part.set_operand(key, slot, part.add_constant(np.ascontiguousarray(array)))
            if not turned.settled:
                for index, type_ in enumerate(node.types):
                    if type_ is not None and type_.shape is not None:
                        shape = type_.shape
                        node.types[index] = type_.with_shape(tuple(shape[a] for a in invert(self.perm)))
        back: dict[Value, Value] = {}
        for value, user, slot in leaving:
            after = perm_of(part.node(user)) if user >= 0 else None
            if after is not None:
                both = compose(self.perm, after)
                if not moves_nothing(both):
                    part.operator(user).attributes["perm"] = list(both)
                elif can_return(part, Value(user), value):
                    part.replace_uses(Value(user), value)
                else:
                    after = None
            if after is not None:
                continue
            if value not in back:
                node = part.operator(value.node)
                b = Builder(part, call=node.call, location=node.location)
                back[value] = b.op("Transpose", value, perm=list(self.perm))
            if user >= 0:
                part.set_operand(user, slot, back[value])
            else:
                part.outputs = [(n, back[value] if v == value else v) for n, v in part.outputs]
                part.updates = {p: back[value] if v == value else v for p, v in part.updates.items()}
        part.remove_dead()

    def _brought(self, value: Value, user: Operator) -> Value:
        """Return a value from outside with the axes that the group is to have."""
        part, rank, back = self.part, len(self.perm), invert(self.perm)
        type_, node = part.known_type(value), part.producer(value)
        assert type_.shape is not None
        lacking = rank - len(type_.shape)
        before = perm_of(node)
        if before is not None and not lacking:
            both, source = compose(before, back), part.operands(node.key)[0]
            assert source is not None
            b = Builder(part, call=user.call, location=user.location)
            return source if moves_nothing(both) else b.op("Transpose", source, perm=list(both))
        if all(d == 1 for d in type_.shape):
            return value
        if isinstance(node, Constant) and node.data.load is not None:
            array: Array = node.data.numpy()
            wide = array.reshape((1,) * lacking + array.shape).transpose(back)
            return part.add_constant(np.ascontiguousarray(_without_leading_ones(wide, array.ndim)))
        b = Builder(part, call=user.call, location=user.location)
        if not lacking:
            return b.op("Transpose", value, perm=list(back))
        behind = rank - 1 - back.index(rank - 1)  # of its only axis, which is the last one here
        return b.op("Unsqueeze", value, b.constant(list(range(1, behind + 1)))) if behind else value


def _without_leading_ones(array: Array, least: int) -> Array:
    while array.ndim > least and array.shape[0] == 1:
        array = array[0]
    return array


def _results(node: Operator) -> list[Value]:
    return [Value(node.key, index) for index in range(len(node.types))]
