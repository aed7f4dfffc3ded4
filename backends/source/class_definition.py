"""Records of emitted classes: their instances, their constructor arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .definitions import Definition
from .expressions import LIST, MISSING, Call, Literal, NnClass, OptionalMember, Part, container_of


@dataclass(slots=True, eq=False)
class ConstructorArgument:
    """A constructor argument of an emitted class.

    Attributes:
        name: its name; empty until all of a class are known.
        hint: what it is called where it is first used.
        values: its value for each instance, a part for a module given.
        default: what leaving it out means.
        in_method: whether the method reads it.
        template: expression over other arguments that replaces it, ``6 * {0}``; empty for none.
        of: the arguments that the template uses.
        aliased: whether the constructor computes it once, as a local variable of its name.
    """

    name: str
    values: tuple[object, ...]
    default: object = MISSING
    in_method: bool = False
    template: str = ""
    of: tuple[ConstructorArgument, ...] = ()
    aliased: bool = False
    hint: str = ""

    def text(self, prefix: str = "") -> str:
        """Return how the class writes the argument; `prefix` is ``self.`` outside the constructor."""
        computed = self.template and not self.aliased
        return self.fill_template(prefix) if computed else f"{prefix}{self.name}"

    def fill_template(self, prefix: str = "") -> str:
        """Return the template filled in."""
        return self.template.format(*(f.text(prefix) for f in self.of))


@dataclass(slots=True)
class Class:
    """One emitted class.

    Attributes:
        name: its name.
        instances: the modules that are instances of it; the first one's text is the class's.
        arguments: the constructor's arguments, those without default first.
        holes: literal of the text -> the argument that stands for it.
        branches: child that some instances have -> how it is constructed where the argument of its name asks.
        conditions: member of a sequence that some instances have -> when, as source.
        aliases: arguments that are computed, and have a name of their own in the constructor.
    """

    name: str
    instances: list[Definition]
    arguments: list[ConstructorArgument] = field(default_factory=list)
    holes: dict[Literal, ConstructorArgument] = field(default_factory=dict)
    branches: dict[str, Part] = field(default_factory=dict)
    conditions: dict[OptionalMember, Condition] = field(default_factory=dict)
    aliases: list[ConstructorArgument] = field(default_factory=list)

    def parts(self) -> Iterator[Part]:
        """Yield every part that the class is written of."""
        yield from (part for _, part in self.instances[0].attributes)
        yield from self.branches.values()
        for body in (self.instances[0], *self.instances[0].methods):
            yield from (statement.expression for statement in body.statements)

    def names(self, besides: ConstructorArgument | None = None) -> set[str]:
        """Return the names that the constructor has already."""
        named = {f.name for f in [*self.arguments, *self.aliases] if f is not besides}
        return named | {name for name, _ in self.instances[0].attributes}


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of an optional member: a template over arguments, ``{0} != {1}``."""

    template: str
    of: tuple[ConstructorArgument, ...]

    def text(self) -> str:
        """Return the condition as source, for the constructor."""
        return self.template.format(*(f.text() for f in self.of))


def sequence_of(base: NnClass | None, name: str, part: Part) -> Call | None:
    """Return the members of a sequence that an attribute is, or the class itself is, as a call's arguments.

    Args:
        base: the class's base; None for any class.
        name: name of the attribute; empty for the members of the class itself.
        part: how the attribute is constructed.
    """
    if not isinstance(part, Call) or any(a.name for a in part.arguments):
        return None
    is_chain = base is not None and base.container == "sequential"
    own = not name and is_chain and part.callee == LIST
    return part if own or (name and container_of(part) == "sequential") else None
