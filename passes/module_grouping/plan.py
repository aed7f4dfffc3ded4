"""Plans a module tree for a flat graph: named scopes, repeated units, and containers of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from ...ir import Graph
from .chains import (
    Block,
    Element,
    Group,
    Leaf,
    Reduction,
    Step,
    chains_in,
    find_steps,
    steps_of,
    traits_of_element,
)
from .equal_branches import find_branches
from .known_structures import GENERIC, structural_name
from .name_scopes import Scopes, class_word, shared_prefix
from .repeats import Key, Numbers, Repeats, is_activation, units_in, weigh, whole

_LONG = 10
"""Least number of layers in a class for which convolutions with normalisations become units in it."""
_LARGE = 20
"""Least number of layers in a block for which its ways are grouped first."""
_BLOCK = 6
"""Least number of layers in a block for which even a single one becomes a unit."""
_FEATURES = 6
"""Least number of heavy layers in an unbranched chain for which it becomes one container."""
_BRANCH = "branch"
"""Name of a part that runs several times."""
_LAYERS = frozenset({"Conv", "BatchNormalization", "MaxPool", "AveragePool"})
"""Operators of layers that a container may call, besides activations and Dropout."""


class Plan:
    """The module tree planned for a flat graph.

    Args:
        graph: a graph all of whose modules are leaves of the root.

    Attributes:
        scopes: what the names of its steps tell.
        numbers: hashes of its structure.
        branches: parts that run several times, each one group of the body.
        body: the root's own elements, in dataflow order; of a part that runs several times the first run.
    """

    def __init__(self, graph: Graph) -> None:
        steps = find_steps(graph)
        self.branches = find_branches(graph, steps)
        parts = self._separate_branches(steps)
        self.scopes, self.numbers = Scopes([step for part in parts for step in part]), Numbers()
        self._rows: list[list[Element]] = []
        grown: list[list[list[Element]]] = []
        for part in parts:
            chains = Reduction(graph, part).chains
            depth = 0 if part is parts[-1] else self.scopes.common([s for s in part if s.module is not None])
            grown.append([self._group_by_name(chain.elements, depth) for chain in chains])
            self._rows += grown[-1]
        tops = [row for rows in grown for row in rows]
        self._group_repeats()
        for row in tops:
            row[:] = [self._settle(e) for e in row]
            self._wrap_single_blocks(row)
        self._shorten(tops)
        for row in tops:
            self._make_containers(row)
            _wrap_long_chains(row)
        *inner, rest = [[element for row in rows for element in row] for rows in grown]
        self.body = [*(Group(elements, _BRANCH) for elements in inner), *rest]
        self._name_classes()

    def _separate_branches(self, steps: list[Step]) -> list[list[Step]]:
        """Return the steps of the first run of every repeated part, then the steps of no repeated part."""
        again = {id(step) for branch in self.branches for run in branch.runs for step in run}
        for branch in self.branches:
            for step in branch.runs[0]:
                step.shared = False  # with another run of the same module, not with another module
        return [
            *(branch.runs[0] for branch in self.branches),
            [step for step in steps if id(step) not in again],
        ]

    # -- names -----------------------------------------------------------------------------------

    def _group_by_name(self, row: list[Element], depth: int) -> list[Element]:
        """Group neighbours whose names lie in one scope, and again inside each group."""
        out: list[Element] = []
        for element in row:
            if isinstance(element, Block) and not depth and _is_large(element):
                self._group_ways(element)
        for scope, members in groupby(zip(self._keys(row, depth), row, strict=True), key=lambda m: m[0]):
            elements = [element for _, element in members]
            if not scope or weigh(elements)[0] < 2:
                out += elements
            elif depth and len(elements) == len(row):
                return self._group_by_name(row, depth + 1)
            else:
                inner = self._group_by_name(elements, depth + 1)
                self._rows.append(inner)
                out.append(self._make_group(inner, scope))
        return out

    def _group_ways(self, block: Block) -> None:
        """Group by name inside the ways of a block too large to be one unit; each way is a row of its own."""
        for way in block.ways:
            if way is not None and way.elements:
                way.elements[:] = self._group_by_name(way.elements, 0)
                self._rows.append(way.elements)

    def _keys(self, row: list[Element], depth: int) -> list[str]:
        """Return the scope of every element; one without name and weights gets its neighbours' scope."""
        if depth > max((len(self.scopes.words(s)) for e in row for s in steps_of(e)), default=0):
            return [""] * len(row)
        keys = ["" if _is_large(element) else self.scopes.at(element, depth) for element in row]
        at = 0
        while at < len(row):
            end = at
            while end < len(row) and not keys[end] and _is_bare(row[end]):
                end += 1
            before = keys[at - 1] if at else ""
            if before and end < len(row) and keys[end] == before:
                keys[at:end] = [before] * (end - at)
            elif before and end > at and is_activation(row[at]) and not _source_name(row[at]):
                keys[at] = before
            at = max(end, at) + 1
        return keys

    def _make_group(self, elements: list[Element], name: str = "") -> Group:
        group = Group(elements, name)
        self.numbers.of(group)  # of its structure as found, whatever becomes a group in it later
        return group

    # -- repeated structure ----------------------------------------------------------------------

    def _group_repeats(self) -> None:
        def candidates(row: list[Element]) -> Iterator[Key]:
            yield from units_in(self.numbers, row)
            yield from whole(self.numbers, row)

        Repeats(self.numbers, self._rows, self._make_group).replace(candidates)

    def _settle(self, element: Element) -> Element:
        """Return the unit of a named group of one; make a group that holds only units a container."""
        if isinstance(element, Block) and _is_large(element):
            for way in element.ways:
                if way is not None:
                    way.elements[:] = [self._settle(e) for e in way.elements]
                    self._make_containers(way.elements)
        if not isinstance(element, Group):
            return element
        element.elements[:] = [self._settle(e) for e in element.elements]
        inner = element.elements
        if len(inner) == 1 and isinstance(inner[0], Group) and not inner[0].name:
            inner[0].name = element.name
            return inner[0]
        element.container = len(inner) > 1 and all(isinstance(e, Group) for e in inner)
        if not element.container:
            self._make_containers(inner)
        return element

    def _wrap_single_blocks(self, row: list[Element]) -> None:
        """Make units of single blocks that stand among units."""
        if not any(isinstance(e, Group) for e in row):
            return
        for at in reversed(range(len(row))):
            element = row[at]
            if isinstance(element, Block) and not _is_large(element) and weigh([element])[0] >= _BLOCK:
                end = at + 2 if at + 1 < len(row) and is_activation(row[at + 1]) else at + 1
                row[at:end] = [self._make_group(row[at:end])]

    def _make_containers(self, row: list[Element]) -> None:
        """Make containers of neighbouring units of one kind."""
        out: list[Element] = []
        for kind, found in groupby(row, key=self._kind):
            elements = list(found)
            if kind is None or len(elements) < 2 or len(elements) == len(row):
                out += elements
                continue
            names = [e.name for e in elements if isinstance(e, Group)]
            name = shared_prefix(names)
            plural = name if name.endswith("s") or not name.isalpha() else f"{name}s"
            out.append(Group(elements, plural if len(name) > 2 else "", container=True))
        row[:] = out

    def _kind(self, element: Element) -> object:
        """Return what units of one container share; None for an element that no container takes."""
        if not isinstance(element, Group) or element.container:
            return None
        base = re.sub(r"_?\d+[a-z]?$", "", element.name)
        return base or ("unit", self.numbers.of(element))

    def _shorten(self, tops: list[list[Element]]) -> None:
        """Make units of layers with their normalisation, in classes that would be long otherwise."""
        found = [g for row in tops for g in _groups(row) if not g.container and weigh(g.elements)[0] >= _LONG]
        rows = [row for g in found for row in (g.elements, *(c.elements for c in chains_in(g.elements)))]
        if rows:
            rows += [row for row in tops if any(not isinstance(e, Group) for e in row)]
            numbers = Numbers(coarse=True)
            for length in (3, 2):  # with their activation, where they have one

                def candidates(row: list[Element], length: int = length) -> Iterator[Key]:
                    for at in range(len(row)):
                        if _unit_length(row, at) == length:
                            yield numbers.key(row[at : at + length])

                Repeats(numbers, rows, self._make_group).replace(candidates)

    # -- class names -----------------------------------------------------------------------------

    def _name_classes(self) -> None:
        """Name the classes: by their known structure, else by the source's names."""
        names: dict[int, Counter[str]] = {}
        for group, above in _walk_groups(self.body, ""):
            if not group.container:
                own = _class_name(group, above)
                names.setdefault(self.numbers.of(group), Counter())[own] += 1
        for group, _ in _walk_groups(self.body, ""):
            group.class_name = (
                "Sequential" if group.container else names[self.numbers.of(group)].most_common(1)[0][0]
            )


def _class_name(group: Group, above: str) -> str:
    """Return the usual name of a structure, or the source's name where that is specific."""
    known, word = structural_name(group), class_word(group.name)
    telling = len(word) > 3 and word.isalpha() and word not in _PLACES
    if known and not (known in GENERIC and telling):
        return known
    named = word if telling else f"{class_word(above)}{word}"
    return named if len(named) > 2 else f"Block{named}"


_PLACES = frozenset(
    {"Stage", "Layer", "Layers", "Level", "Block", "Features", "Sequential", "Hybridsequential"}
)
"""Names that say where something is rather than what."""


def _is_bare(element: Element) -> bool:
    """Whether an element is an operator without weights."""
    return isinstance(element, Leaf) and element.step.module is None


def _source_name(element: Element) -> str:
    """Return what the source calls an operator; its kind and a number, as exporters write, are no name."""
    if not isinstance(element, Leaf) or re.fullmatch(rf"{element.step.kind}_?\d*", element.step.name):
        return ""
    return element.step.name


def _is_large(element: Element) -> bool:
    """Whether a block is too large to be one unit among others."""
    return isinstance(element, Block) and weigh([element])[0] >= _LARGE


def _groups(elements: Sequence[Element]) -> Iterator[Group]:
    """Yield every group among elements and inside them."""
    return (group for group, _ in _walk_groups(elements, ""))


def _walk_groups(elements: Sequence[Element], above: str) -> Iterator[tuple[Group, str]]:
    """Yield (group, name of the group around it) for every group among elements and inside them."""
    for element in elements:
        if isinstance(element, Group):
            yield element, above
            yield from _walk_groups(element.elements, element.name or above)
        elif isinstance(element, Block):
            for way in element.ways:
                if way is not None:
                    yield from _walk_groups(way.elements, above)


def _unit_length(row: list[Element], at: int) -> int:
    """Return the length of a convolution with its normalisation and activation at a place, else 0."""
    kinds = [e.step.kind if isinstance(e, Leaf) else "" for e in row[at : at + 3]]
    if kinds[:1] != ["Conv"] or kinds[1:2] != ["BatchNormalization"]:
        return 0
    return 3 if len(kinds) > 2 and traits_of_element(row[at + 2]).activation else 2


def _wrap_long_chains(row: list[Element]) -> None:
    """Make containers named ``features`` of long chains of plain layers."""
    out: list[Element] = []
    number = 0
    for plain, found in groupby(row, key=is_layer):
        elements = list(found)
        if plain and sum(traits_of_element(e).heavy for e in elements) >= _FEATURES:
            number += 1
            elements = [Group(elements, f"features{number if number > 1 else ''}", container=True)]
        out += elements
    row[:] = out


def is_layer(element: Element) -> bool:
    """Whether an element can be a layer that a container calls."""
    step = element.step if isinstance(element, Leaf) else None
    if step is None or len(step.types) != 1 or not step.plain:
        return False
    acts = step.traits.activation and step.kind != "Clip"  # whose bounds make it an expression
    return step.kind in _LAYERS or acts or bool(step.traits.dropout)
