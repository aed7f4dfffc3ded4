"""Expressions of the emitted source: text with holes for literals and uses of values, rendered once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....ir import Value

# How tightly a part of an expression binds; a looser operand gets parentheses.
ANY, COMPARE, ADD, MULTIPLY, UNARY, POWER, ATOM = range(7)
KEPT = -2  # a use that has to stay a variable, as one in a loop


class _Missing:
    """Stands for "no default": such an argument is always written."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A literal; where instances of one class differ in it, a constructor argument named `hint`."""

    value: object
    hint: str = "value"


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a value in a context that binds at `level`."""

    value: Value
    level: int = ANY


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """An argument of a call; `name` is empty for a positional one, `default` what leaving it out means."""

    name: str
    value: Part
    default: object = MISSING


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a constructor or function."""

    callee: Part
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """Parts written one after another.

    Attributes:
        parts: texts, literals, uses, calls and further expressions.
        level: how tightly the whole binds.
        host: "int", "float" or "tuple" for a shape computation that is no tensor, else empty.
        outputs: number of values that it evaluates to, as a tuple when more than one.
    """

    parts: tuple[Part, ...]
    level: int = ATOM
    host: str = ""
    outputs: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A member of a sequence that only some instances of a class have.

    Attributes:
        part: how it is constructed; where it is absent, how others construct theirs, its literals `ABSENT`.
        present: whether this instance has it.
    """

    part: Part
    present: bool


Step = str | int
"""An attribute's name, or the number of a member of a container."""


@dataclass(frozen=True, slots=True)
class Access:
    """What `self` reaches in steps: ``self.layers[0].conv``."""

    steps: tuple[Step, ...]

    @property
    def last(self) -> tuple[Step, ...]:
        """The last attribute, with the members taken of it."""
        at = max((i for i, step in enumerate(self.steps) if isinstance(step, str)), default=0)
        return self.steps[at:]

    def opens(self, name: str) -> bool:
        """Whether a member of the container of that name is taken."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return any(step == name and isinstance(member, int) for step, member in pairs)


Part = str | Literal | Use | Call | Expression | Slot | Access


@dataclass(frozen=True, slots=True)
class Name:
    """A literal that is a name of the file: a layer's class given as an argument, ``nn.ReLU``."""

    text: str


class _Absent:
    """Stands for a literal of what an instance does not have."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


def emptied(part: Part) -> Part:
    """The part with every literal `ABSENT`."""
    if isinstance(part, Literal):
        return Literal(ABSENT, part.hint)
    if isinstance(part, Expression):
        return Expression(tuple(map(emptied, part.parts)), part.level, part.host, part.outputs)
    if isinstance(part, Call):
        arguments = tuple(Argument(a.name, emptied(a.value), a.default) for a in part.arguments)
        return Call(emptied(part.callee), arguments)
    return part


def literal_source(value: object) -> str:
    """Python source of a literal; floats in their shortest float32-exact form."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            return f'float("{float(value)}")'
        exact, single = repr(float(value)), repr(float(str(np.float32(value))))
        return min(exact, single, key=len) if np.float32(value) == np.float32(float(single)) else exact
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, tuple):
        inner = ", ".join(literal_source(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(literal_source(v) for v in value)}]"
    if isinstance(value, Name):
        return value.text
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def as_part(value: object, hint: str = "value") -> Part:
    """A part as it is; any other Python value as a literal."""
    return value if isinstance(value, (Literal, Use, Call, Expression, Access)) else Literal(value, hint)


def call(callee: Part, *positional: object, **keywords: object) -> Expression:
    """A call of a function with arguments that are always written; None leaves a keyword out."""
    arguments = [Argument("", as_part(v)) for v in positional]
    arguments += [Argument(k, as_part(v, k)) for k, v in keywords.items() if v is not None]
    return Expression((Call(callee, tuple(arguments)),))


def method(owner: Part, name: str, *positional: object, **keywords: object) -> Expression:
    """A method call; `owner` must bind as an atom (`Use(value, ATOM)`)."""
    inner = call(Expression((owner, f".{name}")), *positional, **keywords)
    return Expression(inner.parts)


def infix(left: Part, operator: str, right: Part, level: int) -> Expression:
    """A binary operator; the operands must bind at `level` and `level + 1`."""
    return Expression((left, f" {operator} ", right), level)


def literals(part: Part) -> Iterator[tuple[Literal, object]]:
    """Every literal in writing order, with the default of the argument that it is the whole of."""
    if isinstance(part, Literal):
        yield part, MISSING
    elif isinstance(part, Expression):
        for inner in part.parts:
            yield from literals(inner)
    elif isinstance(part, Call):
        yield from literals(part.callee)
        for argument in part.arguments:
            for literal, default in literals(argument.value):
                yield literal, argument.default if literal is argument.value else default
    elif isinstance(part, Slot):
        yield from literals(part.part)


def uses(part: Part) -> Iterator[Use]:
    """Every use in writing order."""
    return (inner for inner in _walk(part) if isinstance(inner, Use))


def accesses(part: Part) -> Iterator[Access]:
    """Everything that is reached from `self`, in writing order."""
    return (inner for inner in _walk(part) if isinstance(inner, Access))


def _walk(part: Part) -> Iterator[Part]:
    """A part and all that it is written of, in writing order."""
    yield part
    if isinstance(part, Expression):
        for inner in part.parts:
            yield from _walk(inner)
    elif isinstance(part, Call):
        yield from _walk(part.callee)
        for argument in part.arguments:
            yield from _walk(argument.value)


def shape_of(part: Part, number: dict[Value, int]) -> object:
    """What two parts must share to be one text with different literals: a nested tuple."""
    if isinstance(part, Literal):
        return ("?", part.hint)
    if isinstance(part, Use):
        return ("use", number.get(part.value, part.value), part.level)
    if isinstance(part, Expression):
        return ("expression", tuple(shape_of(p, number) for p in part.parts))
    if isinstance(part, Call):
        return (
            "call",
            shape_of(part.callee, number),
            tuple((a.name, shape_of(a.value, number)) for a in part.arguments),
        )
    if isinstance(part, Slot):
        return ("slot", shape_of(part.part, number))
    return part


def substituted(part: Expression, old: Value, new: Value) -> Expression:
    """The same text with every use of one value a use of another; literals are kept as they are."""

    def visit(part: Part) -> Part:
        if isinstance(part, Use):
            return Use(new, part.level) if part.value == old else part
        if isinstance(part, Expression):
            return Expression(tuple(visit(p) for p in part.parts), part.level, part.host, part.outputs)
        if isinstance(part, Call):
            arguments = tuple(Argument(a.name, visit(a.value), a.default) for a in part.arguments)
            return Call(visit(part.callee), arguments)
        return part

    found = visit(part)
    assert isinstance(found, Expression)
    return found


_ELEMENT = re.compile(r"\.shape\[(\d*):\d+\]\[0\]")

_OF_ONE = re.compile(r"^\(([^(),]+),\)\[0\]$")
"""``(n + 1,)[0]``, which is ``(n + 1)``."""


def _element(found: re.Match[str]) -> str:
    """``x.shape[1:2][0]`` reads better as ``x.shape[1]``."""
    return f".shape[{found[1] or 0}]"


class Renderer:
    """Turns parts into text; a subclass says what literals and values are called."""

    def literal(self, literal: Literal) -> str:
        """The text of a literal."""
        return literal_source(literal.value)

    def fixed(self, literal: Literal) -> bool:  # noqa: ARG002 - subclasses decide
        """Whether the literal is the same wherever this text is used."""
        return True

    def value(self, use: Use) -> tuple[str, int]:
        """The text of a value and how tightly it binds."""
        raise NotImplementedError

    def text(self, part: Part) -> str:
        """The text of a part."""
        if isinstance(part, str):
            return part
        if isinstance(part, Literal):
            return self.literal(part)
        if isinstance(part, Access):
            return "self" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in part.steps)
        if isinstance(part, Slot):
            return self.text(part.part)
        if isinstance(part, Use):
            text, level = self.value(part)
            return f"({text})" if level < part.level else text
        if isinstance(part, Expression):
            text = "".join(self.text(p) for p in part.parts)
            return _OF_ONE.sub(r"(\1)", _ELEMENT.sub(_element, text)) if text.endswith("[0]") else text
        if part.callee == "[]":
            inner = self.arguments(part)
            return (
                inner[1:]
                if inner.startswith("*[") and inner.count(" for _ in range(") == 1 and inner.endswith(")]")
                else f"[{inner}]"
            )
        return f"{self.text(part.callee)}({self.arguments(part)})"

    def arguments(self, call_: Call) -> str:
        """The arguments written, those that only repeat a default left out."""
        written: list[tuple[str, str]] = []
        for argument in call_.arguments:
            value = argument.value
            if isinstance(value, Literal) and self.fixed(value) and _same(value.value, argument.default):
                continue
            written.append((argument.name, self.text(value)))
        padding = next(
            (a.value for a in call_.arguments if a.name == "padding" and _same(a.default, 0)), None
        )
        if isinstance(padding, Literal) and self.fixed(padding) and _same(padding.value, 0):
            written = [(n, '"valid"' if n == "pad_mode" and t == '"pad"' else t) for n, t in written]
        texts = [f"{name}={text}" if name else text for name, text in written]
        return ", ".join(_folded(texts))


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


def _folded(texts: list[str]) -> list[str]:
    """Runs of three or more equal constructors as one comprehension."""
    out: list[str] = []
    at = 0
    while at < len(texts):
        end = at
        while end < len(texts) and texts[end] == texts[at]:
            end += 1
        if (
            end - at >= 3
            and texts[at].endswith(")")
            and not texts[at].startswith(("(", "*"))
            and "=" not in texts[at].split("(")[0]
        ):
            out.append(f"*[{texts[at]} for _ in range({end - at})]")
        else:
            out += texts[at:end]
        at = end
    return out
