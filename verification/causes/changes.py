"""Ways to write one call otherwise: another argument, operands exchanged, another operator, none at all."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import Any

import numpy as np

from ...frontends.function_arguments import AXES, CHOICES, KIN, STEERING
from .calls import EMPTY, Given, given_to, has_tensor, rooms
from .instrumenting import OPERATORS
from .likeness import Likeness, is_same
from .tape import Derived, Record, Ref, Tape, leaves

_SIGNS = (("+", "-", "*", "/", "//", "%", "**"), ("<", "<=", ">", ">=", "==", "!="), ("&", "|", "^"))
_MOST_TURNED = 4


@dataclass(frozen=True, slots=True)
class Change:
    """A call written otherwise.

    Attributes:
        args: its arguments.
        kwargs: likewise.
        function: what is called.
        name: the argument that changes; words for anything else.
        source: its value in the source, as far as that is known: what is to be written.
        target: its value in the target.
        write: what to write.
        rank: the smaller, the likelier that a person wrote it so.
        layer: whether it is an argument of a layer's constructor.
        elsewhere: what else changes with it: other calls, each with its arguments and function.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    function: Any
    name: str
    source: object
    target: object
    write: str
    rank: int = 0
    layer: bool = False
    elsewhere: tuple[tuple[int, tuple[Any, ...], dict[str, Any], Any], ...] = ()


@dataclass(slots=True)
class Hints:
    """The differing arguments of the source's calls.

    Attributes:
        values: name of an argument -> its values in the source.
        numbers: numbers in the source's calls, and what people make of them.
        literals: those that are written there.
        signs: operators in the source.
        names: functions in the source.
        indices: what is taken out of tensors in the source.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    numbers: list[float] = field(default_factory=list)
    literals: set[float] = field(default_factory=set)
    signs: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    indices: list[Any] = field(default_factory=list)

    def of(self, name: str) -> list[Any]:
        """The values that an argument has in the source, under any of its names."""
        return [v for kin in dict.fromkeys((name, *KIN.get(name, ()))) for v in self.values.get(kin, ())]


def hints_of(tape: Tape, records: Sequence[int]) -> Hints:
    """Return the arguments of some of the source's calls."""
    hints = Hints()
    for at in records:
        record = tape.records[at]
        given = given_to(record, tape.host)
        if given is not None:
            for name, value in given.values.items():
                if not has_tensor(value, tape.host):
                    known = hints.values.setdefault(name, [])
                    if not any(type(v) is type(value) and is_same(v, value) for v in known):
                        known.append(value)
        if record.kind in ("call", "method") and record.name.isidentifier():
            hints.names.append(record.name)
        if record.kind == "operator":
            hints.signs.append(record.name)
            if record.name == "[]" and not has_tensor(record.args[1], tape.host):
                hints.indices.append(record.args[1])
        scalars = [
            *leaves((record.args, record.kwargs)),
            *leaves(list(given.values.values()) if given else ()),
        ]
        for leaf in scalars:
            if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
                hints.numbers.append(leaf)
                hints.literals.add(leaf)
        for ref in record.refs():
            hints.numbers += [n for n in tape.value(ref).shape[-3:] if n > 1]
    made: dict[float, None] = dict.fromkeys(hints.numbers)
    for n in list(made):
        if isinstance(n, (int, float)) and math.isfinite(n) and n:
            for other in (1 / n, abs(n) ** 0.5, abs(n) ** -0.5, -n, 1 - n):
                made.setdefault(other)
    hints.numbers = list(made)
    return hints


def changes_of(tape: Tape, record: Record, hints: Hints, likenesses: Sequence[Likeness]) -> Iterator[Change]:
    """The ways to write one of the target's calls otherwise, the likelier first.

    Args:
        tape: the target's calls.
        record: one of them.
        hints: what the source's calls were given.
        likenesses: what the source's call that stands for it has.
    """
    yield from _other_functions(tape, record, hints)
    given = given_to(record, tape.host)
    if given is not None:
        yield from _arguments(tape, record, given, hints)
        for likeness in likenesses:
            yield from _together(given, likeness)
    if record.kind == "operator":
        yield from _operators(record, hints)
    yield from _orders(tape, record)
    yield from _scaled(record, hints)


def _arguments(tape: Tape, record: Record, given: Given, hints: Hints) -> Iterator[Change]:
    shapes = [*(tape.value(ref).shape for ref in record.refs()), *(a.shape for a in record.arrays)]
    rank = max((len(shape) for shape in shapes), default=0)
    for name, value in given.values.items():
        if value is EMPTY or has_tensor(value, tape.host) or name in ("name", "out", "dtype"):
            continue
        tried: list[Any] = [value]
        for order, (other, likely) in enumerate(_candidates(name, value, rank, hints)):
            if any(type(other) is type(t) and is_same(other, t) for t in tried):
                continue
            tried.append(other)
            args, kwargs, function = given.changed({name: other})
            shown = f"{name}={literal(other)}"
            likeliness = (0 if likely else 2) + (order > 8 or (isinstance(other, str) and not likely))
            yield Change(args, kwargs, function, name, other, value, shown, likeliness, given.layer)


def _together(given: Given, likeness: Likeness) -> Iterator[Change]:
    """Several arguments at once as the source's call has them."""
    wanted, fewest = likeness
    for count in range(fewest, min(len(wanted), _MOST_TURNED) + 1):
        for names in combinations(wanted, count):
            made = given.changed({name: wanted[name] for name in names})
            shown = ", ".join(f"{name}={literal(wanted[name])}" for name in names)
            yield Change(
                *made,
                ", ".join(names),
                tuple(literal(wanted[n]) for n in names),
                tuple(literal(given.values[n]) for n in names),
                shown,
                0,
                given.layer,
            )


def _candidates(name: str, value: Any, rank: int, hints: Hints) -> Iterator[tuple[Any, bool]]:
    """(another value of an argument, whether the source has it)."""
    known = hints.of(name)
    if name in CHOICES and (isinstance(value, str) or value is None):
        words = [v for v in known if isinstance(v, str)]
        yield from ((word, True) for word in words)
        yield from ((word, False) for word in CHOICES[name] if word not in words)
        if name == "rounding_mode":
            yield None, None in known
        if value is not None and name not in ("ord",):
            return
    if isinstance(value, bool) or (value is None and name in STEERING):
        flags = [True, False] if value is None else [not value]
        yield from ((flag, flag in [v for v in known if isinstance(v, bool)]) for flag in flags)
        return
    if name in AXES:
        for v in known:
            if v is None or isinstance(v, int):
                yield v, True
            elif isinstance(v, (tuple, list)):
                yield tuple(v), True
        yield from ((axis, False) for axis in range(rank) if axis != value and axis - rank != value)
        yield None, False
        for count in range(2, min(rank, _MOST_TURNED) + 1):
            if isinstance(value, (tuple, list)) and sorted(value) == list(range(rank)):
                break
            yield from ((axes, False) for axes in combinations(range(rank), count))
        if isinstance(value, (tuple, list)) and sorted(a % max(rank, 1) for a in value) == list(range(rank)):
            orders = permutations(range(rank)) if rank <= _MOST_TURNED else iter(())
            yield from ((order, False) for order in orders if order != tuple(range(rank)))
        return
    for v in known:
        if isinstance(value, int) and not isinstance(value, bool) and isinstance(v, bool):
            yield int(v), True  # unbiased=True is a correction of 1
        elif isinstance(v, (int, float, str)) or v is None:
            yield v, True
        elif isinstance(v, (tuple, list)):
            yield tuple(v), True
    if isinstance(value, (tuple, list)) and value and all(isinstance(v, int) for v in value):
        yield tuple(reversed(value)), False
        if len(value) <= _MOST_TURNED:
            yield from ((order, False) for order in permutations(value))
        return
    if isinstance(value, int):
        yield from ((n, False) for n in (value + 1, value - 1, 0, 1))
        yield from ((n, False) for n in hints.numbers if isinstance(n, int))
    if isinstance(value, (int, float)):
        yield from ((n, False) for n in hints.numbers if isinstance(n, float) or isinstance(value, float))


def _operators(record: Record, hints: Hints) -> Iterator[Change]:
    sign = record.name
    for at, operand in enumerate(record.args):
        if sign != "[]" and isinstance(operand, (int, float)) and not isinstance(operand, bool):
            for number in hints.numbers:
                if number != operand:
                    args = (*record.args[:at], number, *record.args[at + 1 :])
                    shown = f"{literal(number)} in place of {literal(operand)}"
                    yield Change(
                        args,
                        {},
                        record.function,
                        f"operand of `{sign}`",
                        number,
                        operand,
                        shown,
                        1 if number in hints.literals else 3,
                    )
    if sign == "[]":
        for index in hints.indices:
            if not is_same(index, record.args[1]):
                mine, theirs = f"[{subscript(index)}]", f"[{subscript(record.args[1])}]"
                yield Change((record.args[0], index), {}, record.function, "index", mine, theirs, mine)
        several = record.args[0]
        for index in range(len(several)) if isinstance(several, (list, tuple)) else ():
            if isinstance(record.args[1], int) and index != record.args[1]:
                mine, theirs = f"[{index}]", f"[{record.args[1]}]"
                yield Change((several, index), {}, record.function, "index", mine, theirs, mine, 2)
    own = sign in hints.signs
    for signs in _SIGNS:
        if sign in signs:
            for other in sorted(signs, key=lambda s: s not in hints.signs):
                if other != sign:
                    yield Change(
                        record.args,
                        {},
                        OPERATORS[other],
                        "operator",
                        f"`{other}`",
                        f"`{sign}`",
                        f"`{other}` in place of `{sign}`",
                        int(own) if other in hints.signs else 3,
                    )


def subscript(index: Any) -> str:
    """An index as it is written between brackets."""
    if isinstance(index, tuple):
        return ", ".join(map(subscript, index))
    if isinstance(index, slice):
        start, stop, step = ("" if n is None else str(n) for n in (index.start, index.stop, index.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")
    return "..." if index is ... else str(index)


def _orders(tape: Tape, record: Record) -> Iterator[Change]:
    """Two operands exchanged, a list of tensors or axes in another order."""
    flat = list(record.args)
    pairs = [
        (a, b)
        for a, b in combinations(range(len(flat)), 2)
        if _is_operand(flat[a], tape) and _is_operand(flat[b], tape)
    ]
    for a, b in pairs:
        args = list(flat)
        args[a], args[b] = flat[b], flat[a]
        which = "the operands exchanged" if len(pairs) == 1 else f"operands {a + 1} and {b + 1} exchanged"
        yield Change(
            tuple(args),
            record.kwargs,
            record.function,
            "operands",
            "in another order",
            "as they are",
            which,
            1,
        )
    for at, item in enumerate(flat):
        if not _is_operand(item, tape):
            continue
        array, text = tape.array_of(item), record.site.operand(at)
        if array.dtype == np.bool_ and record.name != "~":
            inverse = Derived(item, np.invert) if isinstance(item, Ref) else tape.host.tensor(~array)
            other = ast.unparse(_inverted(text))
            shown = f"`{other}` in place of `{text}`"
            args = (*flat[:at], inverse, *flat[at + 1 :])
            yield Change(
                args, record.kwargs, record.function, f"`{text}`", f"`{other}`", f"`{text}`", shown, 2
            )
        if isinstance(item, Ref):
            for order in permutations(range(array.ndim)) if 1 < array.ndim <= _MOST_TURNED else ():
                if order != tuple(range(array.ndim)):
                    turned = Derived(item, lambda a, o=order: np.ascontiguousarray(a.transpose(o)))
                    args = (*flat[:at], turned, *flat[at + 1 :])
                    head = text if text.replace(".", "").isidentifier() else f"({text})"
                    shown = f"{head}.permute({', '.join(map(str, order))})"
                    yield Change(
                        args,
                        record.kwargs,
                        record.function,
                        f"axes of `{text}`",
                        literal(order),
                        "as they are",
                        f"{shown} in place of {text}",
                        4,
                    )
    for at, item in enumerate(flat):
        several = isinstance(item, (list, tuple)) and 1 < len(item) <= _MOST_TURNED and record.name != "[]"
        if several and has_tensor(item, tape.host):
            for order in permutations(range(len(item))):
                if order != tuple(range(len(item))):
                    args = list(flat)
                    args[at] = type(item)(item[i] for i in order)
                    words = ", ".join(_ordinal(i) for i in order)
                    yield Change(
                        tuple(args),
                        record.kwargs,
                        record.function,
                        "order of the tensors",
                        words,
                        ", ".join(_ordinal(i) for i in range(len(item))),
                        f"the tensors in the order {words}",
                        1,
                    )
    numbers = [at for at, item in enumerate(flat) if isinstance(item, int) and not isinstance(item, bool)]
    if record.kind == "method" and 1 < len(numbers) <= _MOST_TURNED and record.name in _SPREAD:
        for order in permutations(numbers):
            args = list(flat)
            for at, other in zip(numbers, order, strict=True):
                args[at] = flat[other]
            is_none = record.name == "permute" and [args[at] for at in numbers] == list(range(len(numbers)))
            if args != flat and not is_none:
                shown = ", ".join(str(args[at]) for at in numbers)
                now = ", ".join(str(flat[at]) for at in numbers)
                yield Change(
                    tuple(args),
                    record.kwargs,
                    record.function,
                    record.name,
                    shown,
                    now,
                    f"{record.name}({shown})",
                    1,
                )


def _other_functions(tape: Tape, record: Record, hints: Hints) -> Iterator[Change]:
    """A function of the source's name with the arguments as they are."""
    for name in dict.fromkeys(hints.names):
        function: Any = None
        room = ""
        if record.kind == "method" and name != record.name:

            def method(x: Any, *args: Any, _name: str = name, **kwargs: Any) -> Any:
                return getattr(x, _name)(*args, **kwargs)

            function = method
        elif record.kind == "call" and name != record.name:
            held = rooms(tape.host.name)
            room = next((title for title, each in held.items() if hasattr(each, name)), "")
            function = getattr(held.get(room), name, None)
        if function is not None:
            text = record.site.text
            head = text.rpartition(".")[0] if record.kind == "method" else room
            fresh = f"{head}.{name}" if head else name
            shown = f"`{fresh}` in place of `{text}`"
            yield Change(
                record.args, record.kwargs, function, "function", f"`{name}`", f"`{record.name}`", shown, 1
            )


def _inverted(text: str) -> ast.expr:
    """A mask as it is written with the opposite meaning."""
    mask = ast.parse(text, mode="eval").body
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return mask.operand
    return ast.UnaryOp(ast.Invert(), mask)


def _scaled(record: Record, hints: Hints) -> Iterator[Change]:
    """The result times a number."""
    if record.kind == "input" or len(record.arrays) != 1 or record.arrays[0].dtype.kind != "f":
        return
    function: Callable[..., Any] = record.function
    for number in [n for n in hints.numbers if n not in (0, 1)][:_MOST_SCALES]:

        def scaled(*args: Any, _number: float = number, **kwargs: Any) -> Any:
            return function(*args, **kwargs) * _number

        shown = f"`{record.site.whole}` * {literal(number)}"
        yield Change(record.args, record.kwargs, scaled, "factor", number, "none", shown, 5)


_MOST_SCALES = 48
"""Factors that are tried behind one call."""

_SPREAD = ("permute", "transpose", "view", "reshape", "swapaxes", "movedim", "repeat", "expand", "tile")
"""Methods that take numbers one by one."""


def _ordinal(at: int) -> str:
    return ("first", "second", "third", "fourth")[at]


def _is_operand(value: Any, tape: Tape) -> bool:
    return isinstance(value, Ref) or tape.host.is_tensor(value)


def literal(value: object) -> str:
    """A value as source code."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        short = float(f"{value:.6g}")
        return repr(short)
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(literal, value))
        return f"({inside}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"[{inside}]"
    return str(value)
