"""The structure that definitions of one class share, and the places of their literals in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ....ir import Value
from ..class_definition import sequence_of
from ..definitions import Definition, Method
from ..expressions import Call, Literal, OptionalMember, Part
from ..names import first_word
from ..traversal import literals, shape_of


@dataclass(frozen=True, slots=True)
class LiteralSite:
    """A literal of a definition, with its place.

    Attributes:
        literal: the literal.
        default: default of the argument, if the literal is a whole argument.
        attribute: the attribute or the layer called.
        in_method: whether it is in the method.
        optional_member: the optional member of a sequence that it is in.
        member: the first word of the own class of the member of a sequence that it is in.
    """

    literal: Literal
    default: object
    attribute: str
    in_method: bool
    optional_member: OptionalMember | None = None
    member: str = ""


def literal_sites(definition: Definition) -> Iterator[LiteralSite]:
    """Yield every literal of a definition in writing order."""
    for name, part in definition.attributes:
        members = sequence_of(definition.base, name, part)
        for member in [part] if members is None else [a.value for a in members.arguments]:
            optional_member = member if isinstance(member, OptionalMember) else None
            word = "" if members is None else _own_word(member)
            for literal, default in literals(member):
                yield LiteralSite(literal, default, name, False, optional_member, word)
    for statement in [step for body in (definition, *definition.methods) for step in body.statements]:
        for literal, default in literals(statement.expression):
            yield LiteralSite(literal, default, statement.name, True)


def _own_word(member: Part) -> str:
    """Return ``squeeze`` for a member ``SqueezeExcitation(…)``; empty for a layer of the framework."""
    part = member.part if isinstance(member, OptionalMember) else member
    return first_word(part.source_class) if isinstance(part, Call) else ""


def structure(definition: Definition) -> object:
    """Return what instances of one class share: everything but the literals."""
    return (
        definition.source_class,
        definition.base,
        definition.has_body,
        tuple((name, shape_of(part, {})) for name, part in definition.attributes),
        tuple(definition.assignments),
        definition.gathers,
        repr(definition.returns),
        *(_steps(body) for body in (definition, *definition.methods)),
    )


def _steps(body: Definition | Method) -> object:
    """Return what instances of one class share in a method: its steps, with values numbered."""
    number: dict[Value, int] = {}
    for value in body.inputs:
        number[value] = len(number)
    steps = []
    for statement in body.statements:
        targets = len(statement.targets)  # a split into two is none into three
        steps.append((shape_of(statement.expression, number), statement.results, targets))
        for value in statement.targets:
            number[value] = len(number)
    return len(body.inputs), tuple(steps), tuple(number.get(v, -1) for v in body.outputs)


def tag_types(values: Iterable[object]) -> tuple[object, ...]:
    """Return values that are equal only when their types are too: 1 and True are not."""
    return tuple((type(v).__name__, repr(v)) for v in values)
