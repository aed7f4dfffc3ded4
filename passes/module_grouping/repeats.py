"""Finds repeated rows of elements in the chains of a graph, by structural hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from .chains import Block, Element, Group, Leaf, steps_of, traits_of_element

_LONGEST = 48
"""Most elements of a unit that is searched for, which keeps the search linear."""
_CLASS_LINES = 9
"""Lines of a class besides its layers and steps."""
_USE_LINES = 1.3
"""Lines that one use of a class takes, some being folded into comprehensions."""
_COVERED = 0.75
"""Least share of an unbranched chain that units must cover for it to be written as units."""

Key = tuple[int, ...]


class Numbers:
    """Bottom-up hashes: elements of equal structure have equal numbers.

    Residual blocks are equal if their main ways are, whether or not the shortcut is a convolution.

    Args:
        coarse: whether kernels and groups make no difference.
    """

    def __init__(self, *, coarse: bool = False) -> None:
        self._coarse = coarse
        self._known: dict[object, int] = {}
        self._of: dict[int, tuple[Element, int]] = {}

    def of(self, element: Element) -> int:
        """Return the number of an element, which stays the same when elements inside are grouped."""
        if id(element) not in self._of:
            self._of[id(element)] = (element, self._known.setdefault(self._form(element), len(self._known)))
        return self._of[id(element)][1]

    def key(self, elements: Iterable[Element]) -> Key:
        """Return the numbers of a row of elements."""
        return tuple(map(self.of, elements))

    def _form(self, element: Element) -> object:
        if isinstance(element, Leaf):
            return ("leaf", element.step.types if self._coarse else element.step.signature())
        if isinstance(element, Group):
            return ("group", self.key(element.elements))
        ways = tuple(None if way is None else self.key(way.elements) for way in element.ways)
        if element.shortcut is None:
            return ("block", element.join.step.signature(), ways)
        return ("residual", element.join.step.types, ways[1 - element.shortcut])


class Repeats:
    """Finds units among chains and replaces them by groups, the greatest saving first.

    Args:
        numbers: the hashes.
        chains: rows of elements, changed in place.
        make: makes the group of one occurrence.
    """

    def __init__(
        self,
        numbers: Numbers,
        chains: Sequence[list[Element]],
        make: Callable[[list[Element]], Group],
    ) -> None:
        self._numbers, self._chains, self._make = numbers, chains, make

    def replace(self, candidates: Callable[[list[Element]], Iterator[Key]], least: float = 0) -> None:
        """Replace units by groups until none saves more than `least` lines.

        Args:
            candidates: the units that a row proposes.
            least: lines.
        """
        while True:
            keys = [self._numbers.key(row) for row in self._chains]
            known = dict.fromkeys(key for row in self._chains for key in candidates(row))
            best, chosen = (least, 0), None
            for unit in known:
                found = [
                    (at, start) for at in range(len(keys)) for start in self._occurrences(keys, at, unit)
                ]
                rank = (self._gain(unit, found), len(unit)) if len(found) > 1 else best
                if rank[0] > least and rank > best:
                    best, chosen = rank, unit
            if chosen is None:
                return
            self._apply(chosen, keys)

    def _occurrences(self, keys: list[Key], at: int, unit: Key) -> list[int]:
        """Return the places of a unit in a row; an activation behind its last layer belongs to the unit."""
        row = self._chains[at]
        starts = _occurrences(keys[at], unit)
        ends = [row[s + len(unit)] if s + len(unit) < len(row) else None for s in starts]
        return [
            s
            for s, after in zip(starts, ends, strict=True)
            if after is None
            or not is_activation(after)
            or is_activation(row[s])
            or not isinstance(row[s + len(unit) - 1], Leaf)
        ]

    def _gain(self, unit: Key, found: list[tuple[int, int]]) -> float:
        """Return the lines that a class for the unit saves; 0 if it would cut a plain chain into pieces."""
        at, start = found[0]
        elements = self._chains[at][start : start + len(unit)]
        layers, lines = weigh(elements)
        if layers < 2:
            return 0
        rows = [self._chains[at] for at in {at for at, _ in found}]
        if all(isinstance(e, Leaf) for row in rows for e in row):
            total = sum(weigh(row)[0] for row in rows)
            if len(found) * layers <= _COVERED * total:
                return 0
        return len(found) * (lines - _USE_LINES) - (_CLASS_LINES + lines)

    def _apply(self, unit: Key, keys: list[Key]) -> None:
        for at, row in enumerate(self._chains):
            for start in reversed(self._occurrences(keys, at, unit)):
                row[start : start + len(unit)] = [self._make(row[start : start + len(unit)])]


def weigh(elements: Sequence[Element]) -> tuple[int, int]:
    """Return an estimate of (layers with parameters, lines of source) for a class of these elements."""
    layers = lines = 0
    for element in elements:
        if isinstance(element, Group):
            layers, lines = layers + 1, lines + 2
            continue
        for step in steps_of(element):
            layers += step.module is not None
            lines += (step.module is not None) + (not step.traits.activation)
            lines -= step.kind == "BatchNormalization"
    return layers, lines


def _occurrences(key: Key, unit: Key) -> list[int]:
    """Return the places of a unit in a row, from left to right without overlap."""
    out: list[int] = []
    at = 0
    while at + len(unit) <= len(key):
        if key[at] == unit[0] and key[at : at + len(unit)] == unit:
            out.append(at)
            at += len(unit)
        else:
            at += 1
    return out


# -- candidates ------------------------------------------------------------------------------------


def units_in(numbers: Numbers, elements: list[Element]) -> Iterator[Key]:
    """Yield candidates for classes in a row: its repeats, its blocks, and what lies between groups."""
    key = numbers.key(elements)
    for start, period, end in _runs(key):
        at = _align(elements, start, period, end)
        if not any(isinstance(e, Group) for e in elements[at : at + period]):
            yield key[at : at + period]
    for at, element in enumerate(elements):
        if isinstance(element, Block):
            yield key[at : at + 1]
            following = elements[at + 1 : at + 2]
            if following and is_activation(following[0]):
                yield key[at : at + 2]
    start = 0
    for at in range(len(elements) + 1):
        if at == len(elements) or isinstance(elements[at], Group):
            if at > start and (start, at) != (0, len(elements)):
                yield key[start:at]
            start = at + 1


def whole(numbers: Numbers, elements: list[Element]) -> Iterator[Key]:
    """Return the whole row as a candidate."""
    if not any(isinstance(e, Group) for e in elements):
        yield numbers.key(elements)


def _runs(key: Key) -> Iterator[tuple[int, int, int]]:
    """Yield (start, period, end) of every maximal stretch that repeats, with its shortest period."""
    for period in range(1, min(len(key) // 2, _LONGEST) + 1):
        start = 0
        for at in range(period, len(key) + 1):
            if at == len(key) or key[at] != key[at - period]:
                if at - start >= 2 * period and not _is_periodic(key[start : start + period]):
                    yield start, period, at
                start = at - period + 1


def _is_periodic(unit: Key) -> bool:
    return any(
        len(unit) % part == 0 and unit == unit[:part] * (len(unit) // part) for part in range(1, len(unit))
    )


def _align(elements: list[Element], start: int, period: int, end: int) -> int:
    """Return where the first unit of a stretch begins, so that units are cut where a person would cut."""

    def quality(at: int) -> float:
        bounds = range(at, end + 1, period)
        return sum(_cut(elements, bound) for bound in bounds)

    return max(range(start, min(start + period, end - period)), key=quality)


def _cut(elements: list[Element], at: int) -> float:
    """Rate a cut before element `at`: good behind an activation, pool or block, or before a layer."""
    before = elements[at - 1] if at else None
    after = elements[at] if at < len(elements) else None
    value = 0.0
    if before is None or is_activation(before) or not isinstance(before, Leaf):
        value += 1
    elif before.step.traits.pool:
        value += 1.5
    if after is None or not isinstance(after, Leaf) or after.step.traits.heavy:
        value += 1
    elif after.step.kind == "BatchNormalization" and not _is_heavy(before):
        value += 0.5
    return value


def is_activation(element: Element) -> bool:
    """Whether an element is one activation function."""
    return traits_of_element(element).activation


def _is_heavy(element: Element | None) -> bool:
    return element is not None and traits_of_element(element).heavy
