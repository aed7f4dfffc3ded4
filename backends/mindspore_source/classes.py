"""Anti-unification: modules with the same structure share a class; where they differ, it takes an argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...ir import Value
from .expressions import MISSING, Argument, Call, Literal, Part, literals, shape_of
from .naming import class_name, identifier
from .units import Draft, Units


@dataclass(slots=True)
class Formal:
    """A constructor argument of an emitted class: its value for each instance."""

    name: str
    values: tuple[object, ...]
    default: object = MISSING
    in_construct: bool = False


@dataclass(slots=True)
class Class:
    """One emitted class.

    Attributes:
        name: its name.
        drafts: the modules that are instances of it; the first one's text is the class's.
        formals: constructor arguments, those without default first.
        holes: id of a literal of the first draft -> the argument that stands for it.
    """

    name: str
    drafts: list[Draft]
    formals: list[Formal] = field(default_factory=list)
    holes: dict[int, Formal] = field(default_factory=dict)


def define_classes(units: Units) -> list[Class]:
    """Build every unit, callees first, and unify the classes of each level; returns them in writing order."""
    classes: list[Class] = []
    taken: set[str] = set()
    for level in units.levels():
        groups: dict[object, list[Draft]] = {}
        for key in level:
            draft = units.build(key).draft
            if draft is not None:
                groups.setdefault(_structure(draft), []).append(draft)
        for drafts in groups.values():
            found = _unify(drafts, taken)
            taken.add(found.name)
            classes.append(found)
            for at, draft in enumerate(drafts):
                units.units[draft.module].constructor = _construction(found, at)
    return classes


def _structure(draft: Draft) -> object:
    """What instances of one class share: everything but the literals."""
    number: dict[Value, int] = {}
    for value in draft.inputs:
        number[value] = len(number)
    steps = []
    for statement in draft.statements:
        steps.append(shape_of(statement.expression, number))
        for value in statement.targets:
            number[value] = len(number)
    return (
        draft.source_class,
        draft.base,
        draft.has_body,
        tuple((name, shape_of(part, {})) for name, part in draft.attributes),
        tuple(draft.assignments),
        len(draft.inputs),
        tuple(steps),
        tuple(number.get(v, -1) for v in draft.outputs),
    )


def _literals(draft: Draft) -> Iterator[tuple[Literal, object, str, bool]]:
    """(literal, default, attribute it is in, whether it is in construct), in writing order."""
    for name, part in draft.attributes:
        for literal, default in literals(part):
            yield literal, default, name, False
    for statement in draft.statements:
        for literal, default in literals(statement.expression):
            yield literal, default, statement.attribute, True


def _unify(drafts: list[Draft], taken: set[str]) -> Class:
    found = Class(class_name(drafts[0].source_class, taken), drafts)
    by_values: dict[tuple[object, ...], Formal] = {}
    names = {name for name, _ in drafts[0].attributes} | {"self"}
    for column in zip(*(_literals(d) for d in drafts), strict=True):
        literal, default, attribute, in_construct = column[0]
        values = tuple(row[0].value for row in column)
        tagged = tuple((type(v).__name__, repr(v)) for v in values)
        if len(set(tagged)) == 1:
            continue
        formal = by_values.get(tagged)
        if formal is None:
            formal = by_values[tagged] = Formal(_formal_name(literal.hint, attribute, names), values, default)
            names.add(formal.name)
            if not any(v == default and type(v) is type(default) for v in values):
                formal.default = MISSING
        formal.in_construct |= in_construct
        found.holes[id(literal)] = formal
    found.formals = sorted(by_values.values(), key=lambda f: f.default is not MISSING)
    return found


def _formal_name(hint: str, attribute: str, taken: set[str]) -> str:
    name = identifier(hint)
    if name in taken and attribute.isidentifier():
        name = f"{attribute}_{name}"
    base, n = name, 2
    while name in taken:
        name, n = f"{base}{n}", n + 1
    return name


def _construction(class_: Class, at: int) -> Part:
    """How an owner constructs instance number `at`."""
    required = [f for f in class_.formals if f.default is MISSING]
    arguments = [
        Argument("" if len(required) <= 3 else f.name, Literal(f.values[at], f.name)) for f in required
    ]
    arguments += [
        Argument(f.name, Literal(f.values[at], f.name), f.default)
        for f in class_.formals
        if f.default is not MISSING
    ]
    return Call(class_.name, tuple(arguments))
