"""Finds constructors in a row that are alike but for integers that grow by equal steps, or are doubled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

from .expressions import Brackets, Call, Expression, Literal, OptionalMember, Part, Progression
from .traversal import literals, rebuild, shape_of, walk

REPEATED = 3
"""Least number of constructors in a row that are written as a loop."""

DOUBLED = 4
"""The same of sizes that double or halve: three stages read better in numbers."""

Text = Callable[[Part], str]
Fixed = Callable[[Literal], bool]


def longest_progression(members: Sequence[Part], text: Text, is_fixed: Fixed) -> int:
    """Return how many of the first members have a common form; 0 for fewer than `REPEATED`.

    Args:
        members: constructors.
        text: prints a part.
        is_fixed: whether a literal is the same wherever the text is used.
    """

    def are_alike(count: int) -> bool:
        return count <= len(members) and common_form(members[:count], text, is_fixed) is not None

    least = (count for count in (REPEATED, DOUBLED) if are_alike(count))
    alike, other = next(least, 0), len(members) + 1  # what fits some fits fewer: thousands take a few looks
    if not alike:
        return 0
    while alike + 1 < other:
        count = min(2 * alike, (alike + other) // 2)
        if are_alike(count):
            alike = count
        else:
            other = count
    return alike


def common_form(members: Sequence[Part], text: Text, is_fixed: Fixed) -> Part | None:
    """Return the form of members that differ in integers which all grow by one rule; None for others.

    They grow by one step, or all are doubled from one member to the next, or all are halved.

    Example:
        >>> layers = [Call("Layer", (Argument("", Literal(n)),)) for n in (8, 12, 16)]
        >>> Renderer().text(common_form(layers, Renderer().text, lambda _: True))
        'Layer(8 + 4 * i)'
    """
    first = members[0]
    if any(shape_of(m, {}) != shape_of(first, {}) for m in members[1:]) or isinstance(first, OptionalMember):
        return None
    growing: dict[Literal, Progression] = {}
    for column in zip(*(list(literals(member)) for member in members), strict=True):
        own = [literal for literal, _ in column]
        if len({text(literal) for literal in own}) == 1:
            continue
        numbers = [n for literal in own if _is_integer(n := literal.value) and is_fixed(literal)]
        if len(numbers) < len(own):
            return None
        found = _progression(own[0], numbers)
        if found is None:
            return None
        growing[own[0]] = found
    if len(members) < DOUBLED and any(p.doubles or p.halves for p in growing.values()):
        return None
    rules = {(p.doubles, p.halves, p.doubles or p.halves or p.step.value) for p in growing.values()}
    if len(rules) > 1:
        return None  # several rules at once are a coincidence, or read worse than the numbers
    if growing and any(_depends_on_another(part) for part in walk(first)):
        return None

    def visit(part: Part) -> Part:
        if isinstance(part, Literal):
            return growing.get(part, part)
        if isinstance(part, Expression) and len(part.parts) > 1:
            parts = tuple(Brackets(growing[p]) if p in growing else visit(p) for p in part.parts)
            return Expression(parts, part.level, part.host, part.outputs, part.operator)
        return rebuild(part, visit)

    return visit(first)


def _progression(first: Literal, numbers: Sequence[int]) -> Progression | None:
    """Return the rule by which integers grow; None without one."""
    start, step = numbers[0], numbers[1] - numbers[0]
    literal = Literal(step, f"{first.hint}_step")
    if all(number == start + step * at for at, number in enumerate(numbers)):
        return Progression(first, literal)
    if all(number == start << at for at, number in enumerate(numbers)):
        return Progression(first, literal, doubles=True)
    if all(number << at == start for at, number in enumerate(numbers)):
        return Progression(first, literal, halves=True)
    return None


def _is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int


def _depends_on_another(part: Part) -> bool:
    """Whether an argument of a call is another one where a further argument has its default."""
    return isinstance(part, Call) and any(argument.instead is not None for argument in part.arguments)
