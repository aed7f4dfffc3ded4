"""Lines of a method, and the runs of them that become a for loop."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....ir import Value
from ..definitions import Definition
from ..dialect import Dialect
from ..expressions import Access, Argument, Call, Part, Step, container_of
from ..rendering import member_text

_LONGEST = 12
"""Maximum number of lines in one iteration of a loop."""

Place = tuple[Step, ...]
"""A member of a list, ``("layers", 0)``, or of a list in one."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """Replacements in the text of a line.

    Attributes:
        members: a member of a list -> the variable that stands for it.
        renamed: a variable -> another.
        unfolded: a value whose expression is written in place of a variable -> that variable.
    """

    members: Mapping[Place, str] = field(default_factory=dict[Place, str])
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    unfolded: Mapping[Value, str] = field(default_factory=dict[Value, str])


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a line.

    Attributes:
        write: returns the text.
        reads: returns the variables that it reads, in order.
        members: the members of lists that it reaches.
        folded: the values whose expressions are written in place of a variable, each with what writes that.
    """

    write: Callable[[Substitution], tuple[str, ...]]
    reads: Callable[[Substitution], list[str]]
    members: frozenset[Place]
    folded: tuple[tuple[Value, Callable[[Substitution], str]], ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a method.

    Attributes:
        texts: the line, or the lines of a loop.
        returned: what it returns.
        targets: the variables that it assigns.
        begins: whether it is a statement, or the first line of one.
        source: what it was written from; None where that reaches no list and may read any variable.
    """

    texts: tuple[str, ...]
    returned: str = ""
    targets: tuple[str, ...] = ()
    begins: bool = True
    source: Source | None = None

    def written(self, substitution: Substitution) -> tuple[str, ...]:
        """Return the line under a substitution."""
        if self.source is None or not (substitution.members or substitution.renamed or substitution.unfolded):
            return self.texts
        return self.source.write(substitution)

    def reaches(self, place: Place) -> bool:
        """Whether the line reaches a member of a list."""
        return self.source is not None and place in self.source.members


def written_access(access: Access, substitution: Substitution) -> str:
    """Return ``self.layers[0].conv``, or ``layer.conv`` where a variable stands for the member."""
    known = [n for n in range(len(access.steps), 0, -1) if access.steps[:n] in substitution.members]
    start = substitution.members[access.steps[: known[0]]] if known else "self"
    rest = access.steps[known[0] :] if known else access.steps
    return member_text(start, rest)


def with_loops(
    lines: list[Line],
    definition: Definition,
    taken: Collection[str],
    inputs: Collection[str],
    dialect: Dialect,
) -> list[str]:
    """Return the texts of lines, runs that differ in the member of whole lists alone as for loops.

    A loop equals its iterations one after the other: each iteration has the same text except for the members.

    Args:
        lines: the lines.
        definition: the definition whose attributes they call.
        taken: names of variables.
        inputs: those that are arguments.
        dialect: what they are written in.
    """
    number = next(n for n in ("i", *(f"i{i}" for i in range(2, 1000))) if n not in taken)
    nested = _lengths_within(definition)
    lengths: dict[Place, int] = {(name,): size for name, size in _lengths(definition).items()}
    items: dict[Place, str] = {(name,): _item_name(name, taken, dialect) for name in _lengths(definition)}
    single = [(name, at) for name, sizes in nested.items() for at, size in enumerate(sizes) if size == 1]
    found, traced = lines, dialect.is_traced
    for least in (1, 2) if single else (2,):  # a list of one is a loop where those beside it are
        found = lines
        for name, sizes in nested.items():
            item = _item_name("layers" if items[name,] != "layer" else "blocks", taken, dialect)
            for at, size in enumerate(sizes):
                place = name, at
                found = _Rolling(found, {place: size}, {place: item}, number, inputs, traced).run(least)
        found = _Rolling(found, lengths, items, number, inputs, traced).run()
        if not any(line.reaches((*place, 0)) for line in found for place in single):
            break
    return [text for line in found for text in line.texts]


@dataclass(frozen=True, slots=True)
class _Loop:
    """A run of lines that is a loop.

    Attributes:
        start: where its first line is.
        stop: where what comes after it is.
        iteration: the lines of one iteration, and the place of the members in it.
        lists: the lists whose members it reaches.
        before: a line that comes before it.
        after: a line that comes after it.
    """

    start: int
    stop: int
    iteration: tuple[Sequence[Line], int]
    lists: tuple[Place, ...]
    before: Sequence[Line] = ()
    after: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class _Rolling:
    """Makes loops over whole lists.

    Attributes:
        lines: the lines.
        lengths: list -> its length.
        items: list -> what a member is called.
        number: what the place of one is called.
        inputs: the variables that the method is given.
        is_traced: whether a variable of a loop alone ends with it.
    """

    lines: list[Line]
    lengths: Mapping[Place, int]
    items: Mapping[Place, str]
    number: str
    inputs: Collection[str]
    is_traced: bool

    def run(self, least: int = 2) -> list[Line]:
        """Return the lines with each run of enough iterations as one line, the loop."""
        out: list[Line] = []
        done = 0
        for at, line in enumerate(self.lines):
            lists = [p for p, n in self.lengths.items() if n >= least and line.reaches((*p, 0))]
            loop = self._loop_at(at, done, self.lengths[lists[0]]) if lists and at >= done else None
            if loop is not None:
                out += [*self.lines[done : loop.start], *loop.before, self._line(loop), *loop.after]
                done = loop.stop
        return [*out, *self.lines[done:]]

    def _loop_at(self, at: int, done: int, iterations: int) -> _Loop | None:
        """Return the loop whose first iteration reaches a list's first member in the line at `at`, if any.

        The first iteration begins with that line, or as few lines before it as possible.
        """
        for start in range(at, max(done, at - _LONGEST) - 1, -1):
            for size in range(at - start + 1, _LONGEST + 1):
                last = start + size * (iterations - 1)
                if last + size > len(self.lines):
                    break
                if self._begins(start) and self._begins(last):
                    loop = self._loop(start, size, iterations)
                    if loop is not None:
                        return loop
        return None

    def _loop(self, start: int, size: int, iterations: int) -> _Loop | None:
        """Return the loop of so many iterations of so many lines each, if these are alike."""
        parts = [self.lines[start + n * size :][:size] for n in range(iterations)]
        lists = tuple(
            p
            for p, n in self.lengths.items()
            if n == iterations and any(x.reaches((*p, 0)) for x in parts[0])
        )
        model = min(1, iterations - 1) if iterations > 2 else 0
        texts = [_texts(part, self._substitution(lists, n)) for n, part in enumerate(parts)]
        if any(text != texts[model] for text in texts[model:-1]):
            return None
        before: list[Line] | None = []
        if model and texts[0] != texts[model]:
            before = self._initial(parts[0], parts[model], lists)
        stop = start + size * iterations
        after: list[Line] | None = []
        if texts[-1] != texts[model] or not self._begins(stop):
            after = self._after(
                stop, parts[-1], texts[model], parts[model][-1], self._substitution(lists, iterations - 1)
            )
        if before is None or after is None:
            return None
        made = {name for line in parts[model] for name in line.targets}
        known = {*self.inputs, *(n for line in (*self.lines[:start], *before) for n in line.targets)}
        rest = [*after, *self.lines[stop:]]
        if self.is_traced and any(_is_read(name, (), rest) for name in made - known):
            return None
        return _Loop(start, stop, (parts[model], model), lists, before, after)

    def _initial(
        self, first: Sequence[Line], second: Sequence[Line], lists: Sequence[Place]
    ) -> list[Line] | None:
        """Return ``h = x`` if the first iteration reads `x` where the others read `h` of the one before."""
        if any(line.source is None for line in (*first, *second)):
            return None
        reads = [[name for line in part for name in _reads(line)] for part in (first, second)]
        given, carried = next((p for p in zip(*reads, strict=False) if p[0] != p[1]), ("", ""))
        renamed = {carried: given}
        for one, other in zip(first, second, strict=True):
            substitution = replace(self._substitution(lists, 1), renamed=renamed)
            if len(one.texts) > 1 or one.written(self._substitution(lists, 0)) != other.written(substitution):
                return None
            if carried in other.targets:
                renamed = {}
        return None if renamed or not given else [Line((f"{carried} = {given}",), targets=(carried,))]

    def _after(
        self,
        stop: int,
        part: Sequence[Line],
        iteration: Sequence[str],
        made: Line,
        substitution: Substitution,
    ) -> list[Line] | None:
        """Return the line after the last iteration, with its last value in place of a variable."""
        line = part[-1]
        if line.source is None or len(made.targets) != 1 or not self._begins(stop):
            return None
        (target,) = made.targets
        for value, write in line.source.folded:
            if [*_texts(part[:-1], substitution), f"{target} = {write(substitution)}"] != list(iteration):
                continue
            unfolded = Substitution(unfolded={value: target})
            reads = line.source.reads(unfolded)
            if reads.count(target) != 1 or _is_read(target, line.targets, self.lines[stop:]):
                return None
            (text,) = line.written(unfolded)
            return [replace(line, texts=(text,), source=_unfolded(line.source, value, target))]
        return None

    def _begins(self, at: int) -> bool:
        """Whether a statement begins there, or the method is at its end."""
        return at >= len(self.lines) or self.lines[at].begins

    def _substitution(self, lists: Sequence[Place], at: int) -> Substitution:
        """Return the substitution that writes an iteration as one of a loop."""
        if len(lists) == 1:
            return Substitution({(*lists[0], at): self.items[lists[0]]})
        names = [written_access(Access(place), Substitution()) for place in lists]
        return Substitution({(*p, at): f"{n}[{self.number}]" for p, n in zip(lists, names, strict=True)})

    def _line(self, loop: _Loop) -> Line:
        """Return a loop: over the members of a list, or over the places of several.

        There is no `zip`, which a compiler may not have over a sequence of layers.
        """
        part, at = loop.iteration
        own = self._substitution(loop.lists, at)

        def write(substitution: Substitution) -> tuple[str, ...]:
            over = written_access(Access(loop.lists[0]), substitution)
            several = len(loop.lists) > 1
            head = (
                f"for {self.number} in range(len({over})):"
                if several
                else f"for {self.items[loop.lists[0]]} in {over}:"
            )
            both = replace(substitution, members={**substitution.members, **own.members})
            return (head, *(f"    {text}" for text in _texts(part, both)))

        members = {
            m[: len(p)] for line in part if line.source for m in line.source.members for p in loop.lists
        }
        reads = [name for line in part for name in _reads(line)]
        source = Source(write, lambda _: reads, frozenset(members))
        targets = tuple(name for line in part for name in line.targets)
        return Line(write(Substitution()), targets=targets, source=source)


def _unfolded(source: Source, value: Value, target: str) -> Source:
    """Return what a line was written from, with a variable in place of the expression of a value."""
    reads = source.reads(Substitution(unfolded={value: target}))

    def write(substitution: Substitution) -> tuple[str, ...]:
        return source.write(replace(substitution, unfolded={**substitution.unfolded, value: target}))

    return Source(write, lambda _: reads, source.members)


def _texts(lines: Sequence[Line], substitution: Substitution) -> list[str]:
    return [text for line in lines for text in line.written(substitution)]


def _reads(line: Line) -> list[str]:
    return [] if line.source is None else line.source.reads(Substitution())


def _is_read(variable: str, assigned: Collection[str], lines: Sequence[Line]) -> bool:
    """Whether lines after one that assigns may read a variable before it is assigned anew."""
    if variable in assigned:
        return False
    for line in lines:
        if line.source is None or variable in _reads(line):
            return True
        if variable in line.targets and len(line.texts) == 1:
            return False
    return False


def _lengths(definition: Definition) -> dict[str, int]:
    """Return the length of each list attribute by name."""
    found: dict[str, int] = {}
    for name, part in definition.attributes:
        if container_of(part):
            found[name] = len(_members(part))
    return found


def _members(part: Part) -> tuple[Argument, ...]:
    """Return what a list or a sequence of layers is constructed of."""
    assert isinstance(part, Call)
    inner = part.arguments
    if container_of(part) == "list" and isinstance(inner[0].value, Call):
        return inner[0].value.arguments
    return inner


def _lengths_within(definition: Definition) -> dict[str, list[int]]:
    """Return the lengths of the lists in each list attribute of nothing but lists, by name."""
    found: dict[str, list[int]] = {}
    for name, part in definition.attributes:
        if container_of(part) == "list":
            inner = [argument.value for argument in _members(part)]
            lists = [_members(each) for each in inner if container_of(each) == "list"]
            if len(lists) == len(inner):
                found[name] = [len(each) for each in lists]
    return found


def _item_name(name: str, taken: Collection[str], dialect: Dialect) -> str:
    item = name[:-1] if name[-1:] == "s" and len(name) > 3 else "layer"
    if keyword.iskeyword(item) or item in dialect.names.top or hasattr(builtins, item):
        item = "layer"
    return f"{item}_" if item in taken else item
