"""Walks expressions: their parts, common structure, and modified copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...ir import Value
from .expressions import (
    ABSENT,
    MISSING,
    Access,
    Attribute,
    Brackets,
    Call,
    Element,
    Expression,
    FanIn,
    Helper,
    Literal,
    NnClass,
    NumberedAccess,
    NumberedLayers,
    OptionalMember,
    Part,
    Progression,
    Quoted,
    Slice,
    Tuple,
    Use,
)


def children(part: Part) -> tuple[Part, ...]:
    """Return the parts that a part is written of, in order."""
    if isinstance(part, Expression):
        return part.parts
    if isinstance(part, Call):
        return (part.callee, *(a.value for a in part.arguments))
    if isinstance(part, Tuple):
        return part.items
    if isinstance(part, Brackets):
        return (part.inner,)
    if isinstance(part, FanIn):
        return (part.product,)
    if isinstance(part, Attribute):
        return (part.owner,)
    if isinstance(part, Element):
        return (part.owner,) if isinstance(part.index, int) else (part.owner, part.index)
    if isinstance(part, Slice):
        bounds = (part.start, part.stop)
        return (part.owner, *(b for b in bounds if b is not None and not isinstance(b, int)))
    if isinstance(part, Progression):
        return (part.first,) if part.doubles or part.halves else (part.first, part.step)
    if isinstance(part, NumberedLayers):
        return (part.count, *part.members)
    return (part.part,) if isinstance(part, OptionalMember) else ()


def rebuild(part: Part, visit: Callable[[Part], Part]) -> Part:
    """Return the part with each of its `children` replaced by what `visit` returns for it."""
    if isinstance(part, Expression):
        return replace(part, parts=tuple(map(visit, part.parts)))
    if isinstance(part, Call):
        arguments = tuple(replace(a, value=visit(a.value)) for a in part.arguments)
        return replace(part, callee=visit(part.callee), arguments=arguments)
    if isinstance(part, Tuple):
        return Tuple(tuple(map(visit, part.items)))
    if isinstance(part, Brackets):
        return Brackets(visit(part.inner))
    if isinstance(part, FanIn):
        product = visit(part.product)
        return FanIn(product) if isinstance(product, Expression) else product
    if isinstance(part, Attribute):
        return Attribute(visit(part.owner), part.name)
    if isinstance(part, Element):
        index = part.index if isinstance(part.index, int) else visit(part.index)
        assert isinstance(index, (int, Literal))
        return Element(visit(part.owner), index)
    if isinstance(part, Slice):
        start, stop = (b if b is None or isinstance(b, int) else visit(b) for b in (part.start, part.stop))
        return Slice(visit(part.owner), start, stop)
    if isinstance(part, Progression):
        first = visit(part.first)
        step = part.step if part.doubles or part.halves else visit(part.step)
        assert isinstance(first, Literal)
        assert isinstance(step, Literal)
        return replace(part, first=first, step=step)
    if isinstance(part, NumberedLayers):
        count = visit(part.count)
        assert isinstance(count, Literal)
        return replace(part, count=count, members=tuple(map(visit, part.members)))
    return OptionalMember(visit(part.part), part.present) if isinstance(part, OptionalMember) else part


def literals(part: Part) -> Iterator[tuple[Literal, object]]:
    """Yield every literal in writing order, with its default if it is a whole argument."""
    if isinstance(part, Literal):
        yield part, MISSING
    elif isinstance(part, Call):
        yield from literals(part.callee)
        for argument in part.arguments:
            for literal, default in literals(argument.value):
                yield literal, argument.default if literal is argument.value else default
    else:
        for inner in children(part):
            yield from literals(inner)


def uses(part: Part) -> Iterator[Use]:
    """Yield every use in writing order."""
    return (inner for inner in walk(part) if isinstance(inner, Use))


def accesses(part: Part) -> Iterator[Access]:
    """Yield everything that is reached from `self`, in writing order."""
    return (inner for inner in walk(part) if isinstance(inner, Access))


def walk(part: Part) -> Iterator[Part]:
    """Yield a part and all its parts, in writing order."""
    yield part
    for inner in children(part):
        yield from walk(inner)


def shape_of(part: Part, number: dict[Value, int]) -> object:
    """Return what two parts must share to be one text with different literals: a nested tuple."""
    if isinstance(part, Literal):
        return ("?", part.hint)
    if isinstance(part, Use):
        return ("use", number.get(part.value, part.value), part.level)
    if isinstance(part, (str, Access, NumberedAccess, Quoted, NnClass, Helper)):
        return part
    inner = tuple(shape_of(p, number) for p in children(part))
    if isinstance(part, Call):
        return ("call", tuple(a.name for a in part.arguments), inner)
    if isinstance(part, Attribute):
        return ("attribute", part.name, inner)
    if isinstance(part, Element):
        return ("element", part.index if isinstance(part.index, int) else None, inner)
    if isinstance(part, Slice):
        bounds = (part.start, part.stop)
        return ("slice", tuple(b if b is None or isinstance(b, int) else "?" for b in bounds), inner)
    if isinstance(part, Progression):
        return ("progression", part.doubles, part.halves, inner)
    if isinstance(part, NumberedLayers):
        return ("numbered", part.prefix, part.start, inner)
    return (type(part).__name__, inner)


def substitute(part: Expression, old: Value, new: Value) -> Expression:
    """Return the same text with every use of one value a use of another; literals are kept as they are."""

    def visit(part: Part) -> Part:
        if isinstance(part, Use):
            return Use(new, part.level) if part.value == old else part
        return rebuild(part, visit)

    found = visit(part)
    assert isinstance(found, Expression)
    return found


def empty(part: Part) -> Part:
    """Return the part with every literal `ABSENT`."""
    return Literal(ABSENT, part.hint) if isinstance(part, Literal) else rebuild(part, empty)


def leave_out_absent(part: Part) -> Part:
    """Return the part as one instance alone constructs it: without what only others have."""
    if isinstance(part, OptionalMember):
        return leave_out_absent(part.part)
    if isinstance(part, Call):
        given = [a for a in part.arguments if not isinstance(a.value, OptionalMember) or a.value.present]
        part = replace(part, arguments=tuple(given))
    return rebuild(part, leave_out_absent)
