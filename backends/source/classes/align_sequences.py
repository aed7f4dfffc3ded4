"""Aligns sequences that differ in a few members, such as an optional squeeze-and-excitation block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from ..class_definition import Class, Condition, ConstructorArgument, sequence_of
from ..definitions import Definition
from ..expressions import MISSING, Argument, Call, Literal, Name, NnClass, OptionalMember, Part
from ..names import Names, free_name
from ..rendering import Renderer
from ..traversal import accesses, empty, literals, shape_of
from .simplify_arguments import DIFFER
from .structure import LiteralSite, tag_types

_MOST_OPTIONAL = 3
"""Most members of a sequence that instances of a class may lack."""


# -- before classes are made ------------------------------------------------------------------------


def align_sequences(definitions: Sequence[Definition]) -> None:
    """Let modules of one source class share an emitted class if their sequences differ in few members.

    A member that some of them lack becomes an `OptionalMember` in all; activations become literals.
    """
    classes: dict[object, list[Definition]] = {}
    for definition in definitions:
        definition.attributes = [(name, _name_activations(part)) for name, part in definition.attributes]
        names = tuple(name for name, _ in definition.attributes)
        classes.setdefault((definition.source_class, definition.base, names), []).append(definition)
    for members in classes.values():
        for at in range(len(members[0].attributes)):
            _align(members, at)


def _name_activations(part: Part) -> Part:
    """Replace activation constructors by ones whose class is a literal, so that instances may differ."""
    if isinstance(part, Call):
        if part.is_exchangeable and all(argument.name == "inplace" for argument in part.arguments):
            named = Literal(Name(Renderer().text(part.callee)), "activation")
            return replace(part, callee=named, is_exchangeable=False)
        arguments = tuple(replace(a, value=_name_activations(a.value)) for a in part.arguments)
        return replace(part, arguments=arguments)
    return part


def _align(definitions: list[Definition], at: int) -> None:
    """Make one attribute's sequences equal by adding optional members where a definition lacks them."""
    rows: dict[int, Call] = {}
    for definition in definitions:
        name, part = definition.attributes[at]
        members = sequence_of(definition.base, name, part)
        if members is None or not members.arguments or (name and _is_opened(definition, name)):
            return
        rows[definition.module] = members
    kinds: dict[tuple[object, ...], list[Call]] = {}
    for row in rows.values():
        kinds.setdefault(_shapes(row), []).append(row)
    longest = max(kinds, key=len)
    places: dict[tuple[object, ...], tuple[int, ...]] = {longest: tuple(range(len(longest)))}
    for kind, members in kinds.items():
        if kind != longest and 2 * len(kind) >= len(longest):
            found = _embed(kind, members, longest, kinds[longest])
            if found is not None:
                places[kind] = found
    optional = {i for i in range(len(longest)) if any(i not in found for found in places.values())}
    if not optional or len(optional) > _MOST_OPTIONAL:
        return
    model = kinds[longest][0]
    for definition in definitions:
        row = rows[definition.module]
        if (found := places.get(_shapes(row))) is not None:
            values = _with_optional_members(row, found, model, optional)
            definition.attributes[at] = (definition.attributes[at][0], replace(row, arguments=values))


def _shapes(row: Call) -> tuple[object, ...]:
    return tuple(shape_of(a.value, {}) for a in row.arguments)


def _with_optional_members(
    row: Call, places: Sequence[int], model: Call, optional: set[int]
) -> tuple[Argument, ...]:
    own = dict(zip(places, row.arguments, strict=True))
    out: list[Argument] = []
    for at, argument in enumerate(model.arguments):
        if at not in optional:
            out.append(own[at])
        elif at in own:
            out.append(Argument("", OptionalMember(own[at].value, True)))
        else:
            out.append(Argument("", OptionalMember(empty(argument.value), False)))
    return tuple(out)


def _is_opened(definition: Definition, name: str) -> bool:
    """Whether a definition refers to members of the sequence by number, which optional members shift."""
    reached = [access for pair in definition.assignments for access in pair]
    for statement in [step for body in (definition, *definition.methods) for step in body.statements]:
        reached += accesses(statement.expression)
    return any(access.opens(name) for access in reached)


def _embed(
    kind: Sequence[object], rows: list[Call], longest: Sequence[object], models: list[Call]
) -> tuple[int, ...] | None:
    """Return the places of a shorter sequence's members in the longest: equal structure, best fit."""

    @cache
    def likeness(at: int, place: int) -> float:
        if kind[at] != longest[place]:
            return -1.0
        own = {_pattern(row.arguments[at].value) for row in rows}
        other = {_pattern(row.arguments[place].value) for row in models}
        return max(_measure_likeness(a, b) for a in own for b in other)

    best: dict[tuple[int, int], tuple[float, tuple[int, ...]] | None] = {}
    for at in reversed(range(len(kind) + 1)):
        for place in reversed(range(len(longest) + 1)):
            if at == len(kind):
                best[at, place] = (0.0, ())
                continue
            found = best.get((at, place + 1))
            rest = best.get((at + 1, place + 1)) if place < len(longest) else None
            if rest is not None and (like := likeness(at, place)) >= 0:
                taken = (like + rest[0], (place, *rest[1]))
                found = taken if found is None or taken[0] > found[0] else found
            best[at, place] = found
    return None if (chosen := best[0, 0]) is None else chosen[1]


def _pattern(part: Part) -> tuple[object, ...]:
    """Return how a member is constructed regardless of sizes: what is default, which numbers are equal."""
    found = list(literals(part))
    values = tag_types(literal.value for literal, _ in found)
    return tuple(
        (value, values.index(tag), literal.value if isinstance(literal.value, (Name, bool)) else value)
        for (literal, default), tag in zip(found, values, strict=True)
        for value in [literal.value == default]
    )


def _measure_likeness(a: Sequence[object], b: Sequence[object]) -> float:
    same = sum(x == y for x, y in zip(a, b, strict=True))
    return (same + 1) / (len(a) + 1)


# -- when a class is made ---------------------------------------------------------------------------


def define_optional_members(class_: Class, columns: Sequence[tuple[LiteralSite, ...]], names: Names) -> None:
    """Set when the optional members of a class's sequences are present, and their arguments."""
    first = class_.instances[0]
    known: dict[tuple[bool, ...], Condition] = {}
    for at, (name, part) in enumerate(list(first.attributes)):
        members = sequence_of(first.base, name, part)
        if members is None or not any(isinstance(a.value, OptionalMember) for a in members.arguments):
            continue
        kept: list[Argument] = []
        for number, argument in enumerate(members.arguments):
            optional_member = argument.value
            if not isinstance(optional_member, OptionalMember):
                kept.append(argument)
                continue
            present = tuple(_member_of(definition, at, number).present for definition in class_.instances)
            if all(present):
                kept.append(Argument("", optional_member.part))
            elif any(present):
                member = _member_of(class_.instances[present.index(True)], at, number)
                own = [column for column in columns if column[0].optional_member is optional_member]
                condition = _solve(class_, member, own, present, known.get(present), names)
                known.setdefault(present, condition)
                class_.conditions[member] = condition
                kept.append(Argument("", member))
        first.attributes[at] = (name, replace(members, arguments=tuple(kept)))


def _member_of(definition: Definition, at: int, number: int) -> OptionalMember:
    part = definition.attributes[at][1]
    assert isinstance(part, Call)
    optional_member = part.arguments[number].value
    assert isinstance(optional_member, OptionalMember)
    return optional_member


def _solve(
    class_: Class,
    member: OptionalMember,
    columns: Sequence[tuple[LiteralSite, ...]],
    present: tuple[bool, ...],
    known: Condition | None,
    names: Names,
) -> Condition:
    """Assign arguments to the literals of an optional member; returns the condition of its presence.

    Args:
        class_: the class.
        member: the member, as constructed by the first instance that has it.
        columns: its literals, by instance.
        present: which instances have it.
        known: the condition of another member that the same instances have.
        names: those that are taken.
    """
    instances = [at for at, there in enumerate(present) if there]
    free: list[tuple[LiteralSite, ...]] = []
    by_hint: dict[str, ConstructorArgument] = {}
    for column in columns:
        site, values = column[instances[0]], [column[at].literal.value for at in instances]
        argument = _find_equal(class_, values, instances, site.literal.hint)
        if argument is not None:
            class_.holes[site.literal] = argument
            by_hint.setdefault(site.literal.hint, argument)
        elif len(set(tag_types(values))) > 1 or (known is None and _is_layer_of(member.part, site.literal)):
            free.append(column)
    if known is not None and not free:
        return known
    leaving = by_hint.get("out_channels")
    made: dict[tuple[object, ...], ConstructorArgument] = {}
    for column in free:
        site, values = column[instances[0]], tag_types(column[at].literal.value for at in instances)
        argument = made.get(values)
        if argument is None:
            entering = site.literal.hint == "in_channels" and leaving is not None
            argument = _make_optional_argument(column, present, leaving if entering else None)
            made[values] = argument
            class_.arguments.append(argument)
        class_.holes[site.literal] = argument
        by_hint.setdefault(site.literal.hint, argument)
    entering = by_hint.get("in_channels")
    if entering is not None and leaving is not None:
        differ = tuple(a != b for a, b in zip(entering.values, leaving.values, strict=True))
        if differ == present:
            return Condition(DIFFER, (entering, leaving))
    tested = next((f for f in made.values() if f.default is not MISSING), None)
    if tested is not None:
        return Condition("{0} is not None", (tested,))
    if known is not None:
        return known
    flag = ConstructorArgument(free_name(_flag_name(member.part, names), class_.names()), present, False)
    class_.arguments.append(flag)
    return Condition("{0}", (flag,))


def _is_layer_of(part: Part, literal: Literal) -> bool:
    """Whether a literal is the class that constructs a member: an optional activation."""
    return isinstance(part, Call) and part.callee is literal


def _make_optional_argument(
    column: tuple[LiteralSite, ...], present: tuple[bool, ...], otherwise: ConstructorArgument | None
) -> ConstructorArgument:
    """Return an argument for an optional member; None, or a neutral value, where it is absent."""
    values = [site.literal.value for site in column]
    if otherwise is not None:
        pairs = zip(values, present, otherwise.values, strict=True)
        given = tuple(value if there else other for value, there, other in pairs)
        return ConstructorArgument("", given, hint=column[0].literal.hint)
    given = tuple(value if there else None for value, there in zip(values, present, strict=True))
    layers = Counter(value for value in given if isinstance(value, Name))
    usual = layers.most_common(1)[0][0] if layers else None
    return ConstructorArgument("", given, usual, hint=column[0].literal.hint)


def _find_equal(
    class_: Class, values: list[object], instances: list[int], hint: str
) -> ConstructorArgument | None:
    """Return the argument with these values in all instances that have the member, one of this name first."""
    wanted = tag_types(values)
    equal = [f for f in class_.arguments if tag_types(f.values[at] for at in instances) == wanted]
    named = [f for f in equal if f.hint == hint]
    return (named or (equal if len(set(wanted)) > 1 else []) or [None])[0]


def _flag_name(part: Part, names: Names) -> str:
    callee = part.callee if isinstance(part, Call) else ""
    layer = callee.name if isinstance(callee, NnClass) else callee if isinstance(callee, str) else "layer"
    return f"use_{names.variable(layer)}"
