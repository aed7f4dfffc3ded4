"""Simplifies constructor arguments that follow from others: multiples, halves, nearly constant shapes."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from ..class_definition import Class, Condition, ConstructorArgument
from ..expressions import MISSING, OptionalMember
from ..names import free_name, is_kind_of
from .numbered_layers import COUNT
from .structure import tag_types

_ALIASED = 3
"""Least number of uses for which a computed argument gets a variable in the constructor."""

_RATIOS = 3
"""Most distinct ratios of two arguments for which the ratio becomes the argument."""


def simplify_arguments(class_: Class) -> None:
    """Express arguments that follow from others through them: ``4 * width``, ``kernel_size // 2``."""
    _replace_by_ratio(class_)
    _replace_multiples(class_)
    _replace_fractions(class_)
    _replace_shapes(class_)


def _replace(class_: Class, argument: ConstructorArgument, template: str, *of: ConstructorArgument) -> None:
    """Remove an argument; from here on it is written as a template over others."""
    class_.arguments.remove(argument)
    argument.template, argument.of = template, of
    uses = sum(f is argument for f in class_.holes.values())
    if uses >= _ALIASED and is_kind_of(argument.name, "channels"):
        argument.aliased = True
        readers = (at for at, alias in enumerate(class_.aliases) if _reads(alias, argument))
        class_.aliases.insert(next(readers, len(class_.aliases)), argument)


def _reads(argument: ConstructorArgument, other: ConstructorArgument) -> bool:
    """Whether an argument is written through another, at any depth."""
    return any(of is other or _reads(of, other) for of in argument.of)


def _is_free(argument: ConstructorArgument) -> bool:
    """Whether an argument may be expressed through others: a number that only the constructor reads."""
    return not argument.in_method and argument.default is MISSING and _is_positive(argument)


def _is_positive(argument: ConstructorArgument) -> bool:
    return all(type(v) is int and v > 0 for v in argument.values)


def _numbers(argument: ConstructorArgument) -> list[int]:
    """Return the integer values of an argument: all its values if it is positive."""
    return [v for v in argument.values if isinstance(v, int)]


def _replace_by_ratio(class_: Class) -> None:
    """Replace the channels that optional first layers widen by an expansion ratio.

    Example: ``if hidden_channels != in_channels`` becomes ``if expand_ratio != 1``.
    """
    members: dict[tuple[ConstructorArgument, ...], list[OptionalMember]] = {}  # that share one condition
    for member, condition in class_.conditions.items():
        if condition.template == DIFFER:
            members.setdefault(condition.of, []).append(member)
    for (base, widened), optional in members.items():
        if widened.of or not (_is_free(base) and _is_free(widened)):
            continue
        ratios = [Fraction(w, b) for w, b in zip(_numbers(widened), _numbers(base), strict=True)]
        counts = Counter(ratios)
        if len(counts) > _RATIOS or any(r.denominator > 1 for r in counts):
            continue
        usual = int(counts.most_common(1)[0][0])
        name = free_name("expand_ratio", class_.names())
        times = ConstructorArgument(name, tuple(int(r) for r in ratios), usual)
        class_.arguments.append(times)
        _replace(class_, widened, "{0} * {1}", times, base)
        class_.conditions.update(dict.fromkeys(optional, Condition("{0} != 1", (times,))))


DIFFER = "{0} != {1}"
"""The condition of a layer that exists where it changes the number of channels."""


def _replace_multiples(class_: Class) -> None:
    """Write arguments that are a fixed multiple of another as such: ``4 * width``."""
    multiples = [(f, *found) for f in class_.arguments if (found := _find_multiple(class_, f)) is not None]
    for argument, base, scale in multiples:
        if base.name == "hidden_channels" and "width" not in class_.names():
            base.name = "width"  # what comes out is a multiple of it
        _replace(class_, argument, f"{scale} * {{0}}", base)
    long = [f for f in class_.arguments if is_kind_of(f.name, "out_channels")]
    if multiples and len(long) == 1 and "out_channels" not in class_.names():
        long[0].name = "out_channels"  # the name that the multiple had


def _find_multiple(class_: Class, argument: ConstructorArgument) -> tuple[ConstructorArgument, int] | None:
    """Return the argument that this one is a multiple of, and the factor; needs three distinct cases.

    The base is `in_channels` if possible, else the smallest argument.
    """
    if not _is_free(argument) or argument.name == "in_channels":
        return None
    found: list[tuple[bool, int, int]] = []
    for at, base in enumerate(class_.arguments):
        if not _is_positive(base) or base.hint == COUNT:
            continue
        pairs = set(zip(_numbers(argument), _numbers(base), strict=True))
        if len(pairs) < 3:
            continue
        scales = {Fraction(v, w) for v, w in pairs}
        scale = scales.pop()
        if not scales and scale.denominator == 1 and scale > 1:
            found.append((base.name == "in_channels", int(scale), at))
    if not found:
        return None
    _, scale, at = max(found)
    return class_.arguments[at], scale


def _replace_fractions(class_: Class) -> None:
    """Write padding as half the kernel, and channels as a fraction of the input channels."""
    named = {f.name: f for f in class_.arguments}
    for argument in list(class_.arguments):
        kernel, entering = named.get("kernel_size"), named.get("in_channels")
        if argument.name == "padding" and kernel is not None and _is_positive(kernel):
            halves = tuple(k // 2 for k in _numbers(kernel))
            if tag_types(argument.values) == tag_types(halves) and not argument.in_method:
                _replace(class_, argument, "{0} // 2", kernel)
        elif (
            _is_free(argument)
            and is_kind_of(argument.name, "channels")
            and entering not in (None, argument)
            and _is_positive(entering)
        ):
            pairs = set(zip(_numbers(entering), _numbers(argument), strict=True))
            scales = {Fraction(v, w) for v, w in pairs}
            scale = scales.pop()
            if not scales and len(pairs) >= 3 and scale.denominator == 1 and scale > 1:
                _replace(class_, argument, f"{{0}} // {scale}", entering)


def _replace_shapes(class_: Class) -> None:
    """Replace tuples in which one number varies by that number: ``(channels, 1, 1)``."""
    for argument in list(class_.arguments):
        if argument.default is not MISSING or not all(_is_shape(v) for v in argument.values):
            continue
        shapes: list[tuple[int, ...]] = list(argument.values)  # type: ignore[arg-type]
        columns = list(zip(*shapes, strict=False))
        varying = {column for column in columns if len(set(column)) > 1}
        if len({len(shape) for shape in shapes}) > 1 or len(varying) != 1:
            continue
        (column,) = varying
        number = next((f for f in class_.arguments if f.values == column), None)
        if number is None:
            others = [c[0] for c in columns if c != column]
            name = free_name("size" if any(n != 1 for n in others) else "channels", class_.names(argument))
            number = ConstructorArgument(name, column)
            class_.arguments.insert(class_.arguments.index(argument), number)
        number.in_method |= argument.in_method
        texts = ["{0}" if c == column else str(c[0]) for c in columns]
        _replace(class_, argument, f"({', '.join(texts)}{',' * (len(texts) == 1)})", number)


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and all(type(n) is int for n in value)
