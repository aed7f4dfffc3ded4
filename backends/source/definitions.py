"""Records of what a module becomes: the definition of its class, and the steps of its methods."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import Value
from ...ir.nesting import Nest
from .expressions import Access, Expression, Literal, NnClass, Part, Step


@dataclass
class Statement:
    """One step of a method.

    Attributes:
        targets: the values that it makes.
        expression: what makes them.
        attribute: attribute of the layer or module called, and members taken of it: ``("layers", 0)``.
        results: pattern that unpacks the results, ``{}, ({}, _)``; empty for a flat list.
        hints: usual names for the targets.
        branches: the bodies of an `if`, `while` or `for`, as methods; None for other steps.
        is_aside: whether it gives the first of the two parts of its expression, and does the second.
    """

    targets: list[Value]
    expression: Expression
    attribute: tuple[Step, ...] = ()
    results: str = ""
    hints: tuple[str, ...] = ()
    branches: Branches | Loop | None = None
    is_aside: bool = False

    @property
    def name(self) -> str:
        """The attribute called, where no member of it is; else empty."""
        plain = len(self.attribute) == 1 and isinstance(self.attribute[0], str)
        return str(self.attribute[0]) if plain else ""

    @property
    def is_member(self) -> bool:
        """Whether a member of a container is called."""
        return any(isinstance(step, int) for step in self.attribute)


@dataclass
class Branches:
    """An `if` or a `while`; its step's expression is a tuple of all that it reads.

    Attributes:
        test: the condition; of a `while`, before the first turn.
        bodies: (method, what it is given): both of an `if`, the one of a `while`.
        initial: what a `while` starts from; None for an `if`.
    """

    test: Part
    bodies: tuple[tuple[Method, tuple[Part, ...]], ...]
    initial: tuple[Part, ...] | None = None


@dataclass
class Loop:
    """A `for` over numbered layers; its step's expression is all that it reads.

    Attributes:
        count: the number of turns.
        body: one turn, of what it carries on and what all turns are given.
        initial: what the first turn starts from; of one that `grows`, a tuple.
        given: what all turns are given.
        grows: whether a turn adds what it makes to a tuple, which is what the turns carry on.
    """

    count: Literal
    body: Method
    initial: tuple[Part, ...]
    given: tuple[Part, ...] = ()
    grows: bool = False


@dataclass
class Method:
    """The body of an `if`, `while` or `for`, the first two as a method of its class."""

    name: str
    inputs: list[Value]
    input_names: list[str]
    outputs: list[Value]
    statements: list[Statement] = field(default_factory=list)
    tensors: list[Value] = field(default_factory=list)  # the inputs that are no sizes


@dataclass
class Definition:
    """A module as a class of its own, before unification with others of the same structure."""

    module: int
    source_class: str
    base: NnClass
    path: str
    attributes: list[tuple[str, Part]] = field(default_factory=list)
    assignments: list[tuple[Access, Access]] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    tensors: list[Value] = field(default_factory=list)  # the inputs that are no sizes
    statements: list[Statement] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    has_body: bool = False
    input_names: list[str] = field(default_factory=list)
    gathers: bool = False  # its one input is a tuple of any number: forward(self, *inputs)
    unknown: set[str] = field(default_factory=set)  # own parameters whose initial distribution nobody knows
    methods: list[Method] = field(default_factory=list)
    returns: Nest = None  # how the outputs nest (`Nest`, names in their order); None for one or a tuple
