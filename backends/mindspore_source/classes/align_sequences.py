"""Sequences that differ in a few members: the layer that widens, squeeze and excitation, an activation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from ..cells.cell_draft import Draft
from ..cells.constructor_arguments import Class, Condition, Formal, Hole, sequence_of, tagged
from ..naming import free_name, variable_name
from ..text.expressions import (
    MISSING,
    Argument,
    Call,
    Literal,
    Name,
    Part,
    Slot,
    accesses,
    emptied,
    literals,
    shape_of,
)
from .simplify_arguments import DIFFER

_SLOTS = 3
"""How many members of a sequence may be missing in some instance of a class."""

_ACTIVATION = re.compile(
    r"nn\.(ReLU6?|ELU|GELU|FastGelu|SeLU|CELU|SiLU|Mish|HSwish|HSigmoid|Sigmoid|Tanh|Softsign|Identity)"
    r"|(SiLU|Swish|GELU|HSwish|HSigmoid)(Layer)?"
)
"""Constructors of layers that instances of one class may differ in: MindSpore's, and the source's own."""


# -- before classes are made ------------------------------------------------------------------------


def align(drafts: Sequence[Draft]) -> None:
    """Let modules of one source class share it where their sequences differ in a few members.

    A member that some of them do not have becomes a `Slot` of all; activations become literals.
    """
    classes: dict[object, list[Draft]] = {}
    for draft in drafts:
        draft.attributes = [(name, _activations_named(part)) for name, part in draft.attributes]
        names = tuple(name for name, _ in draft.attributes)
        classes.setdefault((draft.source_class, draft.base, names), []).append(draft)
    for members in classes.values():
        for at in range(len(members[0].attributes)):
            _align(members, at)


def _activations_named(part: Part) -> Part:
    """Constructors of activations with the layer's class as a literal: one that instances may differ in."""
    if isinstance(part, Call):
        if isinstance(part.callee, str) and not part.arguments and _ACTIVATION.fullmatch(part.callee):
            return Call(Literal(Name(part.callee), "activation"), ())
        arguments = tuple(Argument(a.name, _activations_named(a.value), a.default) for a in part.arguments)
        return Call(part.callee, arguments)
    return part


def _align(drafts: list[Draft], at: int) -> None:
    """Give one attribute of several drafts the slots that make their sequences one."""
    rows: dict[int, Call] = {}
    for draft in drafts:
        name, part = draft.attributes[at]
        members = sequence_of(draft.base, name, part)
        if members is None or not members.arguments or (name and _is_opened(draft, name)):
            return
        rows[draft.module] = members
    kinds: dict[tuple[object, ...], list[Call]] = {}
    for row in rows.values():
        kinds.setdefault(_shapes(row), []).append(row)
    longest = max(kinds, key=len)
    places: dict[tuple[object, ...], tuple[int, ...]] = {longest: tuple(range(len(longest)))}
    for kind, members in kinds.items():
        if kind != longest and 2 * len(kind) >= len(longest):
            found = _embedding(kind, members, longest, kinds[longest])
            if found is not None:
                places[kind] = found
    optional = {i for i in range(len(longest)) if any(i not in found for found in places.values())}
    if not optional or len(optional) > _SLOTS:
        return
    model = kinds[longest][0]
    for draft in drafts:
        row = rows[draft.module]
        if (found := places.get(_shapes(row))) is not None:
            values = _with_slots(row, found, model, optional)
            draft.attributes[at] = (draft.attributes[at][0], Call(row.callee, values))


def _shapes(row: Call) -> tuple[object, ...]:
    return tuple(shape_of(a.value, {}) for a in row.arguments)


def _with_slots(row: Call, places: Sequence[int], model: Call, optional: set[int]) -> tuple[Argument, ...]:
    own = dict(zip(places, row.arguments, strict=True))
    out: list[Argument] = []
    for at, argument in enumerate(model.arguments):
        if at not in optional:
            out.append(own[at])
        elif at in own:
            out.append(Argument("", Slot(own[at].value, True)))
        else:
            out.append(Argument("", Slot(emptied(argument.value), False)))
    return tuple(out)


def _is_opened(draft: Draft, name: str) -> bool:
    """Whether a draft reaches into a sequence, whose members would have other numbers elsewhere."""
    reached = [access for pair in draft.assignments for access in pair]
    for statement in [step for body in (draft, *draft.methods) for step in body.statements]:
        reached += accesses(statement.expression)
    return any(access.opens(name) for access in reached)


def _embedding(
    kind: Sequence[object], rows: list[Call], longest: Sequence[object], models: list[Call]
) -> tuple[int, ...] | None:
    """Where the members of a shorter sequence are in the longest: those of one structure that fit best."""

    @cache
    def likeness(at: int, place: int) -> float:
        if kind[at] != longest[place]:
            return -1.0
        own = {_pattern(row.arguments[at].value) for row in rows}
        other = {_pattern(row.arguments[place].value) for row in models}
        return max(_alike(a, b) for a in own for b in other)

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
    """How a member is constructed, whatever its sizes: what is default, and which numbers are equal."""
    found = list(literals(part))
    values = tagged(literal.value for literal, _ in found)
    return tuple(
        (value, values.index(tag), literal.value if isinstance(literal.value, (Name, bool)) else value)
        for (literal, default), tag in zip(found, values, strict=True)
        for value in [literal.value == default]
    )


def _alike(a: Sequence[object], b: Sequence[object]) -> float:
    same = sum(x == y for x, y in zip(a, b, strict=True))
    return (same + 1) / (len(a) + 1)


# -- when a class is made ---------------------------------------------------------------------------


def fill_slots(class_: Class, columns: Sequence[tuple[Hole, ...]]) -> None:
    """Say when the optional members of a class's sequences are there, and what they are constructed from."""
    first = class_.drafts[0]
    known: dict[tuple[bool, ...], Condition] = {}
    for at, (name, part) in enumerate(list(first.attributes)):
        members = sequence_of(first.base, name, part)
        if members is None or not any(isinstance(a.value, Slot) for a in members.arguments):
            continue
        kept: list[Argument] = []
        for number, argument in enumerate(members.arguments):
            slot = argument.value
            if not isinstance(slot, Slot):
                kept.append(argument)
                continue
            present = tuple(_member(draft, at, number).present for draft in class_.drafts)
            if all(present):
                kept.append(Argument("", slot.part))
            elif any(present):
                member = _member(class_.drafts[present.index(True)], at, number)
                own = [column for column in columns if column[0].slot is slot]
                condition = _solved(class_, member, own, present, known.get(present))
                known.setdefault(present, condition)
                class_.conditions[id(member)] = condition
                kept.append(Argument("", member))
        first.attributes[at] = (name, Call(members.callee, tuple(kept)))


def _member(draft: Draft, at: int, number: int) -> Slot:
    part = draft.attributes[at][1]
    assert isinstance(part, Call)
    slot = part.arguments[number].value
    assert isinstance(slot, Slot)
    return slot


def _solved(
    class_: Class,
    member: Slot,
    columns: Sequence[tuple[Hole, ...]],
    present: tuple[bool, ...],
    known: Condition | None,
) -> Condition:
    """Give the literals of an optional member their arguments; returns when it is there.

    Args:
        class_: the class.
        member: as the first instance that has it constructs it.
        columns: its literals, by instance.
        present: which instances have it.
        known: the condition of another member that the same instances have.
    """
    instances = [at for at, there in enumerate(present) if there]
    free: list[tuple[Hole, ...]] = []
    by_hint: dict[str, Formal] = {}
    for column in columns:
        hole, values = column[instances[0]], [column[at].literal.value for at in instances]
        formal = _equal(class_, values, instances, hole.literal.hint)
        if formal is not None:
            class_.holes[id(hole.literal)] = formal
            by_hint.setdefault(hole.literal.hint, formal)
        elif len(set(tagged(values))) > 1 or _is_layer_of(member.part, hole.literal):
            free.append(column)
    if known is not None and not free:
        return known
    leaving = by_hint.get("out_channels")
    made: dict[tuple[object, ...], Formal] = {}
    for column in free:
        hole, values = column[instances[0]], tagged(column[at].literal.value for at in instances)
        formal = made.get(values)
        if formal is None:
            entering = hole.literal.hint == "in_channels" and leaving is not None
            formal = _optional(column, present, leaving if entering else None)
            made[values] = formal
            class_.formals.append(formal)
        class_.holes[id(hole.literal)] = formal
        by_hint.setdefault(hole.literal.hint, formal)
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
    flag = Formal(free_name(_flag(member.part), class_.names()), present, False)
    class_.formals.append(flag)
    return Condition("{0}", (flag,))


def _is_layer_of(part: Part, literal: Literal) -> bool:
    """Whether a literal is the class that a member is constructed by: an optional activation."""
    return isinstance(part, Call) and part.callee is literal


def _optional(column: tuple[Hole, ...], present: tuple[bool, ...], otherwise: Formal | None) -> Formal:
    """An argument of an optional member: None, or what makes no difference, where it is not there."""
    values = [hole.literal.value for hole in column]
    if otherwise is not None:
        pairs = zip(values, present, otherwise.values, strict=True)
        given = tuple(value if there else other for value, there, other in pairs)
        return Formal("", given, hint=column[0].literal.hint)
    given = tuple(value if there else None for value, there in zip(values, present, strict=True))
    layers = Counter(value for value in given if isinstance(value, Name))
    usual = layers.most_common(1)[0][0] if layers else None
    return Formal("", given, usual, hint=column[0].literal.hint)


def _equal(class_: Class, values: list[object], instances: list[int], hint: str) -> Formal | None:
    """The argument that has these values in all instances that have the member, by the same name first."""
    wanted = tagged(values)
    equal = [f for f in class_.formals if tagged(f.values[at] for at in instances) == wanted]
    named = [f for f in equal if f.hint == hint]
    return (named or (equal if len(set(wanted)) > 1 else []) or [None])[0]


def _flag(part: Part) -> str:
    callee = part.callee if isinstance(part, Call) else ""
    layer = callee.removeprefix("nn.") if isinstance(callee, str) else "layer"
    return f"use_{variable_name(layer)}"
