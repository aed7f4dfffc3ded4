"""Pairs the modules, operators and parameters of two graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from ..graph import Graph
from ..nodes import Input, Node, Operator, Parameter, Value
from .alignment import align, gaps
from .sides import Side, Step, operand_key, operator_key


class Pairs:
    """The parts of two graphs that are paired.

    Attributes:
        sides: both graphs.
        modules: module of the first -> of the second.
        parameters: likewise.
        operators: (id of the part, key) of an operator of the first -> the operator of the second.
        steps: modules of both -> pairs of their own operators, and those of either alone.
    """

    def __init__(self, first: Graph, second: Graph, *, flat: bool = False) -> None:
        self.sides = Side(first, flat=flat), Side(second, flat=flat)
        self.modules: dict[int, int] = {}
        self.parameters: dict[int, int] = {}
        self.operators: dict[tuple[int, int], Step] = {}
        self.steps: dict[tuple[int, int], list[tuple[Step | None, Step | None]]] = {}
        self._partners: set[tuple[int, int]] = set()
        self._pair_modules(0, 0)
        self._pair_moved()
        self._pair_parameters()
        self._pair_steps()
        self._pair_parameters_by_use()

    # -- modules -------------------------------------------------------------------------------

    def _pair_modules(self, first: int, second: int) -> None:
        """Pair two modules, and what is below them under the same names or in the same order."""
        stack = [(first, second)]
        while stack:
            one, two = stack.pop()
            self.modules[one] = two
            mine, other = self.sides[0].children[one], self.sides[1].children[two]
            numbered = all(name.isdecimal() for name in (*mine, *other))
            pairs = self._in_order(mine, other) if numbered else self._by_name(mine, other)
            stack += reversed(pairs)

    def _in_order(self, mine: dict[str, int], other: dict[str, int]) -> list[tuple[int, int]]:
        """Pair the modules of two lists: one that is put in between moves the others on."""
        first, second = self.sides
        a, b = list(mine.values()), list(other.values())
        keys = self._keys(a, b)
        pairs = align(*keys)
        for xs, ys in gaps(pairs, len(a), len(b)):
            if len(xs) == len(ys):
                pairs += zip(xs, ys, strict=True)
                continue
            classes = [first.class_of(a[x]) for x in xs], [second.class_of(b[y]) for y in ys]
            pairs += [(xs[x], ys[y]) for x, y in align(*classes)]
        return [(a[x], b[y]) for x, y in sorted(pairs)]

    def _keys(self, a: list[int], b: list[int]) -> tuple[list[Hashable], list[Hashable]]:
        """Return digests of the modules of two lists: with values where structure leaves open who is who."""
        first, second = self.sides
        keys = [first.structure(m) for m in a], [second.structure(m) for m in b]
        if len(a) != len(b) and max(Counter(keys[0] + keys[1]).values(), default=0) > 2:
            contents = [first.content(m) for m in a], [second.content(m) for m in b]
            if set(contents[0]) & set(contents[1]):
                return list(contents[0]), list(contents[1])
        return list(keys[0]), list(keys[1])

    def _by_name(self, mine: dict[str, int], other: dict[str, int]) -> list[tuple[int, int]]:
        """Pair the modules that have one name; of the rest those that are alike, or the last of one class."""
        first, second = self.sides
        pairs = [(mine[name], other[name]) for name in mine if name in other]
        a = [m for name, m in mine.items() if name not in other]
        b = [m for name, m in other.items() if name not in mine]
        for digests in ((first.structure, second.structure), (first.class_of, second.class_of)):
            found = _unique(a, b, *digests)
            pairs += found
            a = [m for m in a if m not in dict(found)]
            b = [m for m in b if m not in {y for _, y in found}]
        return pairs

    def _pair_moved(self) -> None:
        """Pair what is left where both sides have it once, whatever its place."""
        first, second = self.sides
        for one, two in ((first.content, second.content), (first.structure, second.structure)):
            taken = set(self.modules.values())
            a = [m for m in first.modules if m not in self.modules and _says_something(first, m)]
            b = [m for m in second.modules if m not in taken and _says_something(second, m)]
            for x, y in _unique(a, b, one, two):
                if x not in self.modules and y not in self.modules.values():
                    self._pair_modules(x, y)

    # -- parameters ----------------------------------------------------------------------------

    def _pair_parameters(self) -> None:
        first, second = self.sides
        for one, two in self.modules.items():
            other = second.held[two]
            self.parameters.update({p: other[name] for name, p in first.held[one].items() if name in other})
        a, b = self._left()
        self.parameters.update(_unique(a, b, first.data_digest, second.data_digest))

    def _left(self) -> tuple[list[int], list[int]]:
        """Return the parameters of either side that have no partner."""
        taken = set(self.parameters.values())
        first, second = (
            [p.key for p in side.graph.parameters() if p.data.load is not None] for side in self.sides
        )
        return [p for p in first if p not in self.parameters], [p for p in second if p not in taken]

    def _pair_parameters_by_use(self) -> None:
        """Pair parameters that paired operators read in the same place."""
        left = [set(keys) for keys in self._left()]
        if not all(left):
            return
        for pairs in self.steps.values():
            for one, two in pairs:
                if one is None or two is None:
                    continue
                for x, y in zip(self.sides[0].operands(one), self.sides[1].operands(two), strict=False):
                    if x is None or y is None:
                        continue
                    mine, other = x[2], y[2]
                    if (
                        isinstance(mine, Parameter)
                        and isinstance(other, Parameter)
                        and mine.key in left[0]
                        and other.key in left[1]
                    ):
                        self.parameters[mine.key] = other.key
                        left[0].discard(mine.key)
                        left[1].discard(other.key)

    # -- operators -----------------------------------------------------------------------------

    def _pair_steps(self) -> None:
        for one, two in self.modules.items():
            a, b = self.sides[0].steps[one], self.sides[1].steps[two]
            pairs: list[tuple[int, int]] = []
            for key in (self._exact_key, self._held_key, _alike_key, _name_key):
                for xs, ys in gaps(pairs, len(a), len(b)):
                    found = align([key(0, a[x]) for x in xs], [key(1, b[y]) for y in ys])
                    pairs += [(xs[x], ys[y]) for x, y in found]
                pairs.sort()
            rows: list[tuple[Step | None, Step | None]] = []
            at = iter(pairs)
            x = y = 0
            for i, j in [*at, (len(a), len(b))]:
                rows += [(s, None) for s in a[x:i]] + [(None, s) for s in b[y:j]]
                if i < len(a) and j < len(b):
                    rows.append((a[i], b[j]))
                    self.operators[a[i].key] = b[j]
                    self._partners.add(b[j].key)
                x, y = i + 1, j + 1
            self.steps[one, two] = rows

    def _exact_key(self, side: int, step: Step) -> Hashable:
        """Return the operator, its attributes, and what it reads."""
        read = [self._operand_key(side, each) for each in self.sides[side].operands(step)]
        return operator_key(step.node), tuple(read)

    def _held_key(self, side: int, step: Step) -> Hashable:
        """Return the operator and the parameters that it reads; without any it is like no other."""
        read = [each[2] for each in self.sides[side].operands(step) if each is not None]
        held = [self._parameter_key(side, node) for node in read if isinstance(node, Parameter)]
        return (step.node.qualified_name, *held) if held else id(step)

    def _operand_key(self, side: int, operand: tuple[Graph, Value, Node] | None) -> Hashable:
        node = None if operand is None else operand[2]
        return self._parameter_key(side, node) if isinstance(node, Parameter) else operand_key(operand)

    def _parameter_key(self, side: int, node: Parameter) -> Hashable:
        """Return one key for two parameters that are paired."""
        return "parameter", self.parameters.get(node.key, (node.key,)) if side == 0 else node.key

    # -- operands ------------------------------------------------------------------------------

    def are_one(self, mine: tuple[Graph, Value, Node], other: tuple[Graph, Value, Node]) -> bool | None:
        """Whether two operands are one value; None where only one side has what gives it."""
        (part, value, node), (theirs, twin, made) = mine, other
        if isinstance(node, Operator):
            partner = self.operators.get((id(part), node.key))
            if partner is None:
                return None
            if isinstance(made, Operator):
                if partner.key == (id(theirs), made.key):
                    return value.output == twin.output
                return None if not self._has_partner(theirs, made) else False
            return False
        if isinstance(made, Operator):
            return None if not self._has_partner(theirs, made) else False
        if isinstance(node, Parameter) and isinstance(made, Parameter):
            return self.parameters.get(node.key) == made.key
        if isinstance(node, Input) and isinstance(made, Input):
            if part is self.sides[0].graph and theirs is self.sides[1].graph:
                return part.inputs.index(node.key) == theirs.inputs.index(made.key)
            return (part is not self.sides[0].graph) == (theirs is not self.sides[1].graph)
        return type(node) is type(made)

    def _has_partner(self, part: Graph, node: Operator) -> bool:
        """Whether an operator of the second graph has a partner."""
        return (id(part), node.key) in self._partners


def _alike_key(_: int, step: Step) -> Hashable:
    return operator_key(step.node)


def _name_key(_: int, step: Step) -> Hashable:
    return step.node.qualified_name


def _says_something(side: Side, module: int) -> bool:
    """Whether a module has parameters, or operators with some, so that its like is no chance."""
    below = [module]
    while below:
        at = below.pop()
        if side.held[at]:
            return True
        below += side.children[at].values()
    return False


def _unique(
    a: Iterable[int],
    b: Iterable[int],
    key_a: Callable[[int], Hashable],
    key_b: Callable[[int], Hashable],
) -> list[tuple[int, int]]:
    """Return pairs whose keys each side has once."""
    first, second = {m: key_a(m) for m in a}, {m: key_b(m) for m in b}
    counts = Counter(first.values()), Counter(second.values())
    by_key = {key: m for m, key in second.items() if counts[1][key] == 1}
    return [(m, by_key[key]) for m, key in first.items() if counts[0][key] == 1 and key in by_key]
