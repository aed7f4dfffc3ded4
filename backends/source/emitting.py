"""The interface of emitters: the view of an operator, the records that they return, and their table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...frameworks.drawing import root
from ...frameworks.record import Framework, same
from ...ir import Constant, Graph, Initializer, Operator, Parameter, TensorType, Value
from ...ir.table import Table
from ..view import OperatorView
from .expressions import (
    ATOM,
    Access,
    Argument,
    Call,
    Element,
    Expression,
    Literal,
    NnClass,
    Part,
    Quoted,
    Tuple,
    as_part,
)

if TYPE_CHECKING:
    from .dialect import Dialect


class Refused(Exception):  # noqa: N818 - a signal between emitters and the table, never shown to a user
    """An emitter does not cover this use of the operator."""


class Scope(Protocol):
    """The class that an operator is emitted into.

    Attributes:
        explicit: whether layers state the initial distributions that are the framework's defaults too.
        dialect: what is written.
    """

    explicit: bool
    dialect: Dialect

    def part(self, value: Value, level: int) -> Part:
        """Return how the class's method writes a value."""
        ...

    def tensor(self, value: Value, level: int) -> Part:
        """Return how the class's method writes a value as a tensor, even if it is a constant number."""
        ...

    def attribute(self, name: str, constructor: Part) -> Access:
        """Declare an auxiliary attribute, ``self.name``, and return how to write it."""
        ...

    def function(self, name: str, constructor: Part) -> Access:
        """Declare a primitive without state as an attribute, once for all uses of its name."""
        ...

    def host(self, value: Value) -> str:
        """Return "int" or "tuple" for a shape computation in Python, empty for a tensor."""
        ...

    def is_returned(self, value: Value) -> bool:
        """Whether the method returns an operator's output, because some call of the class needs it."""
        ...


@dataclass(frozen=True, slots=True)
class State:
    """The form of a parameter in a layer: operand slot, attribute, transform and shape of the values."""

    slot: int
    name: str
    transform: str = "identity"
    shape: tuple[int, ...] | None = None


Nested = int | tuple[int, ...]
"""A number, or several as one tuple: slots of operands, or numbers of results."""

Extra = tuple[str, float, int | tuple[int, ...], str]
"""(name, fill, size, element type) of a vector that the framework's layer holds and the source does not."""


@dataclass(frozen=True, slots=True)
class NnLayer:
    """An operator as a layer of the framework's.

    Attributes:
        constructor: the constructor call.
        state: the parameters it holds.
        inputs: operand slots that its call is given.
        extra: vectors that the framework's layer holds and the source does not.
        named: keyword of its call -> operand slot.
        results: the operator's outputs as its call returns them; empty for one that returns its only output.
        hints: names for variables of the outputs, where they have usual ones.
        unassignable: advice where assigning to an attribute does not replace that parameter; else empty.
        options: keyword of its call -> text.
        pick: which member of its result is the only output; None for the result itself.
    """

    constructor: Part
    state: tuple[State, ...] = ()
    inputs: tuple[Nested, ...] = (0,)
    extra: tuple[Extra, ...] = ()
    named: dict[str, int] = field(default_factory=dict)
    results: tuple[Nested, ...] = ()
    hints: tuple[str, ...] = ()
    unassignable: str = ""
    options: dict[str, Part] = field(default_factory=dict)
    pick: int | None = None

    @property
    def slots(self) -> list[int]:
        """Every operand slot that its call is given."""
        nested = [(s,) if isinstance(s, int) else s for s in self.inputs]
        return [slot for group in nested for slot in group] + list(self.named.values())

    def call(self, path: Part, operand: Callable[[int], Part]) -> Expression:
        """Return the layer's call: ``self.lstm(x, (h, c))``.

        Args:
            path: how to write the layer.
            operand: how to write the operand in a slot.
        """
        given = [Argument("", _nest(slots, operand)) for slots in self.inputs]
        given += [Argument(name, operand(slot)) for name, slot in self.named.items()]
        given += [Argument(name, part) for name, part in self.options.items()]
        found = Call(path, tuple(given))
        return Expression((found if self.pick is None else Element(found, self.pick),))

    def targets(self, used: Sequence[int]) -> str:
        """Return how results are unpacked, ``{}`` for each output used: ``{}, ({}, _)``; empty if plain."""
        if not self.results:
            return ""

        def mark(result: int) -> str:
            return "{}" if result in used else "_"

        parts = [
            mark(group)
            if isinstance(group, int)
            else "_"
            if not set(group) & set(used)
            else f"({', '.join(map(mark, group))})"
            for group in self.results
        ]
        return ", ".join(parts)


def _nest(slots: Nested, operand: Callable[[int], Part]) -> Part:
    if isinstance(slots, int):
        return operand(slots)
    return Tuple(tuple(map(operand, slots)))


class View(OperatorView):
    """An operator as emitters of source read it."""

    def __init__(self, graph: Graph, operator: Operator, scope: Scope) -> None:
        super().__init__(graph, operator)
        self.scope = scope

    def refused(self, message: str) -> Exception:
        """Return the exception that makes the table try another emitter."""
        return Refused(message)

    def use(self, slot: int, level: int = 0) -> Part:
        """Return the operand in a slot as text that binds at `level`."""
        if slot == 0 and self.operator.traits.elementwise and self._only_constants():
            return self.tensor(slot, level)
        return self.scope.part(self.value(slot), level)

    def _only_constants(self) -> bool:
        """Whether numbers alone would be computed with, which give no tensor."""
        return all(v is None or isinstance(self.graph.producer(v), Constant) for v in self.operands)

    def atom(self, slot: int = 0) -> Part:
        """Return the operand as the owner of a method or attribute."""
        return self.tensor(slot, ATOM)

    def tensor(self, slot: int, level: int = 0) -> Part:
        """Return the operand as a tensor, even if it is a constant of one element."""
        return self.scope.tensor(self.value(slot), level)

    def host(self, slot: int) -> str:
        """Return "int" or "tuple" for an operand that is a shape computation, empty for a tensor."""
        return self.scope.host(self.value(slot)) if self.has(slot) else ""

    def scalar(self, slot: int, default: float | None = None) -> float:
        """Return a constant one-element operand as a number; `default` where it is absent.

        Raises:
            Refused: when it is computed or has several elements.
        """
        if not self.has(slot) and default is not None:
            return default
        found = self.constant(slot)
        if found is None or found.size != 1:
            raise Refused
        return first_element(found)

    def parameter(self, slot: int) -> Parameter:
        """Return the parameter in a slot.

        Raises:
            Refused: when it is something else.
        """
        node = self.graph.node(self.value(slot).node) if self.has(slot) else None
        if not isinstance(node, Parameter):
            raise Refused
        return node

    def output_type(self, index: int = 0) -> TensorType | None:
        """Return the type of an output, or None."""
        return self.operator.types[index]

    def used_outputs(self) -> int:
        """Return the number of outputs up to the last that anything uses."""
        return max((i + 1 for i in range(len(self.operator.types)) if self._is_used(i)), default=1)

    def _is_used(self, index: int) -> bool:
        value = Value(self.operator.key, index)
        used = self.graph.is_read(value)
        return used or self.scope.is_returned(value)


LayerEmitter = Callable[[View], NnLayer]
CallEmitter = Callable[[View], Expression]


@dataclass
class EmitterTable:
    """The emitters of one family file."""

    layers: Table[LayerEmitter] = field(default_factory=Table[LayerEmitter])
    calls: Table[CallEmitter] = field(default_factory=Table[CallEmitter])

    def layer(self, *names: str) -> Callable[[LayerEmitter], LayerEmitter]:
        """Register how an operator is written as a layer."""
        return self.layers.op(*names)

    def call(self, *names: str) -> Callable[[CallEmitter], CallEmitter]:
        """Register how an operator is written inside the method."""
        return self.calls.op(*names)

    @staticmethod
    def merge(*tables: EmitterTable) -> EmitterTable:
        """Return one table of several."""
        return EmitterTable(Table(*(t.layers for t in tables)), Table(*(t.calls for t in tables)))


def first_element(array: np.ndarray) -> float:
    """Return the first element; one of float64 stays NumPy's, so that it is written exactly."""
    element: Any = array.reshape(-1)[0]
    return element if array.dtype == np.float64 else element.item()


def arguments(*positional: tuple[str, object], **keywords: object) -> tuple[Argument, ...]:
    """Return constructor arguments: positional ones as (hint, value), and keywords, always written."""
    first = [Argument("", as_part(v, hint)) for hint, v in positional]
    return (*first, *(Argument(k, as_part(v, k)) for k, v in keywords.items()))


def optional(name: str, value: object, default: object) -> Argument:
    """Return a keyword argument that is left out where it equals the framework's default."""
    return Argument(name, as_part(value, name), default)


@dataclass(frozen=True, slots=True)
class Always:
    """A setting of a layer that is written where it has its default, too."""

    value: object


def construct(records: Framework, class_name: str, **settings: object) -> Call:
    """Return the constructor call of a framework's layer, with its settings in their order.

    What has no default is positional. Arguments, one or a tuple of them, are written as they are.
    """
    found: list[Argument] = []
    for setting, value in settings.items():
        if isinstance(value, Argument):
            found.append(value)
        elif isinstance(value, tuple) and all(isinstance(each, Argument) for each in value):
            found += value
        else:
            keyword = records.keyword(class_name, setting)
            default = records.layers[class_name].defaults[keyword]
            if isinstance(value, Always):
                found.append(Argument(keyword, as_part(value.value, keyword)))
            elif default is ...:
                found.append(Argument("", as_part(value, keyword)))
            else:
                found.append(optional(keyword, value, default))
    return Call(NnClass(class_name), tuple(found))


def draw(records: Framework, law: Initializer) -> Call | None:
    """Return the call of a framework's initializer for a law; None where it has none."""
    found = records.drawn(law)
    if found is None:
        return None
    arguments: list[Argument] = []
    for keyword, name, value in found[1]:
        part = Quoted(value) if isinstance(value, str) else root(name, value)
        arguments.append(Argument(keyword, part or Literal(value, _HINTS.get(name, name))))
    return Call(found[0], tuple(arguments))


_HINTS = {"value": "fill", "high": "bound", "a": "slope"}
"""Argument of a law -> what an emitted class calls it that takes it as an argument of its own."""


def product_of(factors: Sequence[int]) -> Expression:
    """Return the fan-in of a layer's weight, ``in_channels * kernel_area``, for a `FanIn`."""
    parts: list[Part] = [Literal(factors[0], "fan_in")]
    rest = math.prod(factors[1:])
    if rest != 1:
        parts += [" * ", Literal(rest, "kernel_area")]
    return Expression(tuple(parts))


__all__ = [
    "Always",
    "Argument",
    "Call",
    "EmitterTable",
    "Expression",
    "Initializer",
    "Literal",
    "NnClass",
    "NnLayer",
    "Refused",
    "Scope",
    "State",
    "View",
    "arguments",
    "construct",
    "draw",
    "optional",
    "product_of",
    "same",
]
