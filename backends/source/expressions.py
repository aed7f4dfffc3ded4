"""Expressions of the emitted source: a tree of literals and uses of values, printed once.

All decisions about an expression are made on this tree, none on printed text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...ir import Value

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
    """An argument of a call.

    Attributes:
        name: empty for a positional one.
        value: what it is given.
        default: what leaving it out means.
        instead: (another argument, what is given in place of the value where that one is its default).
    """

    name: str
    value: Part
    default: object = MISSING
    instead: tuple[str, Part] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a constructor or function.

    Attributes:
        callee: what is called.
        arguments: what it is given.
        is_light: whether it is read best around the layer before it: ``self.relu(self.bn1(self.conv1(x)))``.
        is_exchangeable: whether it constructs an activation that instances of one class may differ in.
        source_class: the source's class, where the call constructs one of the file's own.
    """

    callee: Part
    arguments: tuple[Argument, ...]
    is_light: bool = False
    is_exchangeable: bool = False
    source_class: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """Parts written one after another.

    Attributes:
        parts: texts, literals, uses, calls and further expressions.
        level: how tightly the whole binds.
        host: "int", "float" or "tuple" for a shape computation that is no tensor, else empty.
        outputs: number of values that it evaluates to, as a tuple when more than one.
        operator: the infix operator between its two operands, ``+``; empty for anything else.
    """

    parts: tuple[Part, ...]
    level: int = ATOM
    host: str = ""
    outputs: int = 1
    operator: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Brackets:
    """A part in parentheses: ``(x + y)``."""

    inner: Part


@dataclass(frozen=True, slots=True, eq=False)
class Tuple:
    """A tuple: ``(n, 3)``, ``(n,)``."""

    items: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FanIn:
    """The fan-in of a layer's weight, on which a bound depends: a product of literals."""

    product: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """An attribute of what `owner` is, which must bind as an atom: ``x.shape``."""

    owner: Part
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """One member of a sequence, by a number that is the same everywhere or by a literal: ``x.shape[1]``."""

    owner: Part
    index: int | Literal


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Consecutive members of a sequence, ``x.shape[1:3]``; None for a bound that is left out."""

    owner: Part
    start: Part | int | None
    stop: Part | int | None


@dataclass(frozen=True, slots=True)
class Quoted:
    """A string that no constructor argument stands for: ``"pad"``."""

    text: str


@dataclass(frozen=True, slots=True)
class NnClass:
    """A class of the framework's module `nn`: ``nn.Conv2d``.

    Attributes:
        name: its name there.
        container: "sequential" for one that chains layers, "list" for one that holds them; else empty.
    """

    name: str
    container: str = ""


LIST = "[]"
"""The callee of a `Call` that is a list: ``[a, b]``."""


@dataclass(frozen=True, slots=True)
class Device:
    """The device of what a method is given, for a tensor that it makes of sizes: ``x.device``."""


@dataclass(frozen=True, slots=True)
class Member:
    """A module as its owner constructs it, which is known once its class is."""

    module: int


@dataclass(frozen=True, slots=True)
class Helper:
    """A function or class of the emitted file's own, which a file that holds its name is written with."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class OptionalMember:
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
    """An access through `self` in steps: ``self.layers[0].conv``."""

    steps: tuple[Step, ...]

    @property
    def last(self) -> tuple[Step, ...]:
        """The last attribute, with the members taken of it."""
        at = max((i for i, step in enumerate(self.steps) if isinstance(step, str)), default=0)
        return self.steps[at:]

    @property
    def has_member(self) -> bool:
        """Whether a member of a container is taken on the way."""
        return any(isinstance(step, int) for step in self.steps)

    def opens(self, name: str) -> bool:
        """Whether a member of the container of that name is taken."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return any(step == name and isinstance(member, int) for step, member in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Progression:
    """An integer that grows by equal steps from one turn of a loop to the next: ``64 + 32 * i``.

    Attributes:
        first: the integer of the first turn.
        step: by how much it grows.
        doubles: whether it is doubled in place of that: ``64 * 2**i``; False where the step tells.
        halves: whether it is halved: ``64 // 2**i``.
    """

    first: Literal
    step: Literal
    doubles: bool = False
    halves: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NumberedLayers:
    """Layers of numbered names, as a loop constructs them: ``setattr(self, f"layer{i + 1}", Layer(8))``.

    Attributes:
        prefix: the names before their numbers.
        start: the first number.
        count: how many there are.
        members: how all are constructed, in a turn; of layers that differ by no rule, how each is.
    """

    prefix: str
    start: int
    count: Literal
    members: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class NumberedAccess:
    """The access to one of numbered layers in a turn of a loop: ``getattr(self, f"layer{i + 1}")``."""

    prefix: str
    start: int


Part = (
    str
    | Literal
    | Use
    | Call
    | Expression
    | Brackets
    | Tuple
    | FanIn
    | Attribute
    | Element
    | Slice
    | Quoted
    | NnClass
    | Helper
    | Device
    | Member
    | OptionalMember
    | Access
    | Progression
    | NumberedLayers
    | NumberedAccess
)


@dataclass(frozen=True, slots=True)
class Name:
    """A literal that is a name of the file: a layer's class given as an argument, ``nn.ReLU``."""

    text: str


class _Absent:
    """Stands for a literal of what an instance does not have."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
_LARGEST = float(np.finfo(np.float32).max)
"""The short form of this number itself is a little larger, which torch refuses."""


def literal_source(value: object) -> str:
    """Return the Python source of a literal; floats with float32's digits, NumPy's float64 exactly."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            return f'float("{float(value)}")'
        if getattr(value, "dtype", None) == np.float64:  # an element of a tensor of that type
            return repr(float(value))
        exact, single = repr(float(value)), repr(float(str(np.float32(value))))
        is_same = np.float32(value) == np.float32(float(single)) and abs(float(single)) <= _LARGEST
        return min(exact, single, key=len) if is_same else exact
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


IDENTITY = Call(NnClass("Identity"), (), is_exchangeable=True)


def as_part(value: object, hint: str = "value") -> Part:
    """Return a part unchanged; any other Python value, also a string, as a literal."""
    return value if isinstance(value, _NODES) else Literal(value, hint)


_NODES = (
    *(Literal, Use, Call, Expression, Brackets, Tuple, FanIn),
    *(Attribute, Element, Slice, Quoted, NnClass, Helper, Device, Access),
)


def call(callee: Part, *positional: object, **keywords: object) -> Expression:
    """Return a call of a function with arguments that are always written; None leaves a keyword out."""
    arguments = [Argument("", as_part(v)) for v in positional]
    arguments += [Argument(k, as_part(v, k)) for k, v in keywords.items() if v is not None]
    return Expression((Call(callee, tuple(arguments)),))


def method(owner: Part, name: str, *positional: object, **keywords: object) -> Expression:
    """Return a method call; `owner` must bind as an atom (`Use(value, ATOM)`)."""
    return call(Attribute(owner, name), *positional, **keywords)


def infix(left: Part, operator: str, right: Part, level: int) -> Expression:
    """Return a binary operator; the operands must bind at `level` and `level + 1`."""
    return Expression((left, f" {operator} ", right), level, operator=operator)


def mark_light(expression: Expression) -> Expression:
    """Return the same call, marked as best read around the layer before it."""
    (found,) = expression.parts
    assert isinstance(found, Call)
    return replace(expression, parts=(replace(found, is_light=True),))


def container_of(part: Part) -> str:
    """Return "sequential" or "list" for the constructor of such a container; empty for any other part."""
    callee = part.callee if isinstance(part, Call) else None
    return callee.container if isinstance(callee, NnClass) else ""


def only_call(expression: Expression) -> Call | None:
    """Return the call that an expression consists of; None if it is anything else."""
    (first, *others) = expression.parts
    return first if isinstance(first, Call) and not others else None


def first_call(expression: Expression) -> Call | None:
    """Return the call that an expression begins with; a member of its result may be taken."""
    found = expression.parts[0]
    found = found.owner if isinstance(found, Element) else found
    return found if isinstance(found, Call) else None
