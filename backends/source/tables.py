"""Writes constructors in a row that differ in some literals as one form and a table of settings."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import takewhile

from .expressions import (
    Access,
    Argument,
    Brackets,
    Call,
    Expression,
    FanIn,
    Helper,
    Literal,
    NnClass,
    Part,
    Quoted,
    Tuple,
    container_of,
)
from .names import identifier
from .traversal import literals, rebuild, shape_of, walk

Text = Callable[[Part], str]

LEAST = 4
"""Rows from which a table reads better than the constructors."""

_MOST = 8
"""Columns that a reader can tell apart."""

_PLAIN = (str, Literal, Call, Expression, Tuple, Brackets, FanIn, NnClass, Helper, Quoted, Access)
"""Parts that a constructor in a table may consist of."""

_WIDE = 60
"""Characters of variables that a line does not hold beside the rest."""

_SHARE = 0.85
"""Length of a table's text as a share of what it replaces, up to which it is written."""


@dataclass(frozen=True, slots=True)
class Table:
    """Constructors as one form and the settings of each.

    Attributes:
        form: the constructor, with names of columns where the constructors differ.
        names: the columns.
        rows: texts of the settings, a row a constructor.
    """

    form: Part
    names: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def targets(self) -> str:
        """The variables that a loop over the rows sets; many in parentheses, which a formatter divides."""
        names = ", ".join(self.names)
        return f"({names})" if len(names) > _WIDE else names

    @property
    def text(self) -> str:
        """The rows: ``((16, 24, 2), (24, 24, 1))``."""
        rows = (f"({', '.join(row)})" if len(row) > 1 else row[0] for row in self.rows)
        return f"({', '.join(rows)})"

    @property
    def clause(self) -> str:
        """The `for` clause behind the form."""
        return f"for {self.targets} in {self.text}"


FindTable = Callable[[Sequence[Part], Text, Container[str]], Table | None]


def is_shorter(table: int, others: int) -> bool:
    """Whether a table of some characters reads better than what it replaces."""
    return table <= _SHARE * others


def count_alike(members: Sequence[Part]) -> int:
    """Return how many of the first members differ in nothing but literals."""
    first = shape_of(members[0], {}) if members else None
    return next((at for at, member in enumerate(members) if shape_of(member, {}) != first), len(members))


def find_table(members: Sequence[Part], text: Text, taken: Container[str]) -> Table | None:
    """Return members that differ in nothing but literals as a table; None where they have no readable one.

    Args:
        members: constructors, each of the shape of the first.
        text: prints a part.
        taken: names that no column gets.
    """
    places = zip(*([literal for literal, _ in literals(member)] for member in members), strict=True)
    return _tabulate(members[0], [(place[0], place) for place in places], text, taken)


def count_stages(members: Sequence[Part], text: Text) -> int:
    """Return how many of the first members are sequences of one layer and equal ones after it, all alike."""
    stages = takewhile(lambda stage: stage is not None, (_stage(member, text) for member in members))
    shapes: set[object] = set()
    found = 0
    for stage in stages:
        assert stage is not None
        shapes |= {(at, shape_of(layer, {})) for at, layer in enumerate(stage[:2])}
        if len(shapes) > 2:
            break
        found += 1
    return found


def find_stages(members: Sequence[Part], text: Text, taken: Container[str]) -> Table | None:
    """Return sequences of one layer and equal ones after it as a table with their depths.

    Args:
        members: stages, as `count_stages` counts them.
        text: prints a part.
        taken: names that no column gets.
    """
    stages = [stage for stage in (_stage(member, text) for member in members) if stage is not None]
    deep = next((stage for stage in stages if len(stage) > 1), None)
    if deep is None or not isinstance(members[0], Call):
        return None
    first = [[literal for literal, _ in literals(stage[0])] for stage in stages]
    others = [[literal for literal, _ in literals(stage[1])] if len(stage) > 1 else None for stage in stages]
    depth = Literal(len(deep), "depth")
    heads = [literal for literal, _ in literals(deep[0])]
    places: list[tuple[Literal, Sequence[Literal | None]]] = list(
        zip(heads, zip(*first, strict=True), strict=True)
    )
    for at, (literal, _) in enumerate(literals(deep[1])):
        places.append((literal, [None if found is None else found[at] for found in others]))
    places.append((depth, [Literal(len(stage)) for stage in stages]))
    rest = Expression(("*[", deep[1], " for _ in range(", depth, " - 1)]"))
    form = Call(members[0].callee, (Argument("", deep[0]), Argument("", rest)))
    return _tabulate(form, places, text, taken)


def _stage(member: Part, text: Text) -> list[Part] | None:
    """Return the layers of a sequence whose layers after the first are equal; None for anything else."""
    if container_of(member) != "sequential" or not isinstance(member, Call):
        return None
    layers = [argument.value for argument in member.arguments]
    is_one = len({text(layer) for layer in layers[1:]}) <= 1 and all(isinstance(x, Call) for x in layers)
    return layers if layers and is_one and not any(a.name for a in member.arguments) else None


def _tabulate(
    form: Part, places: Sequence[tuple[Literal, Sequence[Literal | None]]], text: Text, taken: Container[str]
) -> Table | None:
    """Return the table of a form.

    Args:
        form: of all.
        places: each literal of the form, with the one in its place in every row; None where a row has none,
            and any other setting will do.
        text: prints a part.
        taken: names that no column gets.
    """
    if not places or len(places[0][1]) < LEAST or not all(isinstance(part, _PLAIN) for part in walk(form)):
        return None
    columns: dict[tuple[str, ...], list[Literal]] = {}
    for literal, place in sorted(places, key=lambda found: None in found[1]):
        column = tuple("" if found is None else text(found) for found in place)
        if len({*column} - {""}) == 1:
            continue
        whole = next(
            (c for c in columns if all(a in ("", b) for a, b in zip(column, c, strict=True))), column
        )
        if "" in whole:
            return None
        columns.setdefault(whole, []).append(literal)
    varying = {literal for found in columns.values() for literal in found}
    if not 0 < len(columns) <= _MOST or any(_decides(part, varying) for part in walk(form)):
        return None
    names: list[str] = []
    name_of: dict[Part, str] = {}
    for found in columns.values():
        name = wanted = _name([_hint(form, literal) for literal in found])
        n = 2
        while name in taken or name in names:
            name, n = f"{wanted}_{n}", n + 1
        names.append(name)
        name_of |= dict.fromkeys(found, name)

    def visit(part: Part) -> Part:
        return name_of[part] if isinstance(part, Literal) and part in name_of else rebuild(part, visit)

    return Table(visit(form), names, list(zip(*columns, strict=True)))


def _hint(form: Part, literal: Literal) -> str:
    """Return what a literal is called: the keyword that it is given to, else its own hint."""
    calls = (part for part in walk(form) if isinstance(part, Call))
    given = (a.name for call in calls for a in call.arguments if a.value is literal and a.name)
    return identifier(next(given, literal.hint))


def _name(hints: Sequence[str]) -> str:
    """Return one name for literals that are always equal: ``channels`` for those in and out."""
    words = {hint.split("_", 1)[-1] for hint in hints}
    return words.pop() if len(words) == 1 and len(set(hints)) > 1 else hints[0]


def _decides(part: Part, varying: Container[Literal]) -> bool:
    """Whether a call has an argument that is another one where one that varies has its default."""
    if not isinstance(part, Call):
        return False
    deciding = {argument.instead[0] for argument in part.arguments if argument.instead is not None}
    return any(
        a.name in deciding and isinstance(a.value, Literal) and a.value in varying for a in part.arguments
    )
