"""Prints expressions: the one place where parts become text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from .expressions import (
    LIST,
    Access,
    Argument,
    Attribute,
    Brackets,
    Call,
    Device,
    Element,
    Expression,
    FanIn,
    Helper,
    Literal,
    Member,
    NnClass,
    NumberedAccess,
    NumberedLayers,
    OptionalMember,
    Part,
    Progression,
    Quoted,
    Slice,
    Step,
    Tuple,
    Use,
    literal_source,
)
from .names import is_identifier
from .progressions import REPEATED, common_form, longest_progression
from .tables import (
    LEAST,
    FindTable,
    Table,
    count_alike,
    count_stages,
    find_stages,
    find_table,
    is_shorter,
)
from .traversal import children


class Renderer:
    """Prints parts; a subclass names literals and values.

    Attributes:
        counter: the variable of a loop around what is printed.
    """

    counter = "i"

    @property
    def taken(self) -> Collection[str]:
        """Names that no other variable of a loop gets."""
        return (self.counter, "self")

    def literal(self, literal: Literal) -> str:
        """Return the text of a literal."""
        return literal_source(literal.value)

    def is_fixed(self, literal: Literal) -> bool:  # noqa: ARG002 - subclasses decide
        """Whether the literal is the same wherever this text is used."""
        return True

    def value(self, use: Use) -> tuple[str, int]:
        """Return the text of a value and how tightly it binds."""
        raise NotImplementedError

    def device(self) -> str:
        """Return where tensors are made; empty where nothing says so."""
        return ""

    def expression_of(self, use: Use) -> Expression | None:  # noqa: ARG002 - subclasses decide
        """Return the expression written in place of a value; None if it is a variable."""
        return None

    # -- text ------------------------------------------------------------------------------------

    def text(self, part: Part) -> str:
        """Return the text of a part."""
        if isinstance(part, str):
            return part
        if isinstance(part, Use):
            text, level = self.value(part)
            return f"({text})" if level < part.level else text
        if isinstance(part, Expression):
            return "".join(map(self.text, part.parts))
        if isinstance(part, FanIn):
            return self.text(part.product)
        if isinstance(part, Literal):
            return self.literal(part)
        if isinstance(part, Call):
            if part.callee == LIST:
                return self._list(part)
            if part.callee == "OrderedDict" and not all(is_identifier(a.name) for a in part.arguments):
                pairs = [f"{literal_source(a.name)}: {self.text(a.value)}" for a in part.arguments]
                return f"OrderedDict({{{', '.join(pairs)}}})"
            return f"{self.text(part.callee)}({self.arguments(part)})"
        if isinstance(part, Access):
            return member_text("self", part.steps)
        if isinstance(part, NnClass):
            return f"nn.{part.name}"
        if isinstance(part, Helper):
            return part.name
        if isinstance(part, Attribute):
            return member_text(self.text(part.owner), (part.name,))
        if isinstance(part, Device):
            return self.device()
        if isinstance(part, Quoted):
            return literal_source(part.text)
        if isinstance(part, Tuple):
            members = self._members(part)
            return f"({members[0]},)" if len(members) == 1 else f"({', '.join(members)})"
        if isinstance(part, Element):
            return self._element(part)
        if isinstance(part, Slice):
            return f"{self.text(part.owner)}[{self._bound(part.start)}:{self._bound(part.stop)}]"
        if isinstance(part, Brackets):
            return f"({self.text(part.inner)})"
        if isinstance(part, Progression):
            return self._progression(part)
        if isinstance(part, NumberedAccess):
            return f"getattr(self, {self.numbered_name(part)})"
        assert not isinstance(part, (Member, NumberedLayers))  # others write these
        return self.text(part.part)

    def numbered_layers(self, part: NumberedLayers) -> list[str]:
        """Return the loop that constructs numbered layers, by a table where they differ by no rule."""
        each, turns = self.counter, f"range({self.text(part.count)})"
        member = part.members[0]
        if len(part.members) > 1:
            table = find_table(part.members, self.text, self.taken)
            assert table is not None
            targets = ", ".join(table.names)
            targets = f"({targets})" if len(table.names) > 1 else targets
            each, turns, member = f"{each}, {targets}", f"enumerate({table.text})", table.form
        made = f"setattr(self, {self.numbered_name(part)}, {self.text(member)})"
        return [f"for {each} in {turns}:", f"    {made}"]

    def numbered_name(self, part: NumberedLayers | NumberedAccess) -> str:
        """Return the name of a numbered layer in a turn of a loop: ``f"layer{i + 1}"``."""
        return f'f"{part.prefix}{{{self.counter}{f" + {part.start}" if part.start else ""}}}"'

    def _progression(self, part: Progression) -> str:
        """Return ``64 + 32 * i``, ``64 * 2**i`` or ``64 // 2**i``."""
        if part.doubles or part.halves:
            power, start = f"2**{self.counter}", self.text(part.first)
            if part.doubles and self.is_fixed(part.first) and part.first.value == 1:
                return power
            return f"{start} {'*' if part.doubles else '//'} {power}"
        step = part.step.value if self.is_fixed(part.step) else None
        falls = isinstance(step, int) and step < 0
        size = abs(step) if isinstance(step, int) else self.text(part.step)
        product = self.counter if size == 1 else f"{size} * {self.counter}"
        if not falls and self.is_fixed(part.first) and part.first.value == 0:
            return product
        return f"{self.text(part.first)} {'-' if falls else '+'} {product}"

    def _members(self, part: Tuple) -> list[str]:
        """Return the members of a tuple: ``x.shape[1]`` for ``*x.shape[1:2]``, ``n, 3`` for ``*(n, 3)``."""
        members: list[str] = []
        for item in part.items:
            starred = isinstance(item, Expression) and len(item.parts) == 2 and item.parts[0] == "*"
            inner = self.resolve(item.parts[1]) if isinstance(item, Expression) and starred else None
            if isinstance(inner, Tuple):
                members += self._members(inner)
                continue
            if isinstance(inner, Slice) and self._is_shape(inner.owner):
                start = 0 if inner.start is None else self._number(inner.start)
                stop = self._number(inner.stop)
                if start is not None and stop == start + 1:
                    members.append(f"{self.text(inner.owner)}[{start}]")
                    continue
            members.append(self.text(item))
        return members

    def _bound(self, bound: Part | int | None) -> str:
        return "" if bound is None else str(bound) if isinstance(bound, int) else self.text(bound)

    def _element(self, part: Element) -> str:
        """Return ``x.shape[1]`` for ``x.shape[1:2][0]``, ``(n + 1)`` for ``(n + 1,)[0]``."""
        if self._number(part.index) == 0:
            owner = self.resolve(part.owner)
            if isinstance(owner, Slice) and self._is_shape(owner.owner):
                start = 0 if owner.start is None else self._number(owner.start)
                if start is not None and self._number(owner.stop) is not None:
                    return f"{self.text(owner.owner)}[{start}]"
            if isinstance(owner, Tuple) and len(owner.items) == 1 and not self.has_brackets(owner.items[0]):
                return f"({self.text(owner.items[0])})"
        return f"{self.text(part.owner)}[{self._bound(part.index)}]"

    def _is_shape(self, part: Part) -> bool:
        found = self.resolve(part)
        return isinstance(found, Attribute) and found.name == "shape"

    def _number(self, bound: Part | int | None) -> int | None:
        """Return a bound's number, if it is the same wherever the text is used and not negative."""
        found = bound.value if isinstance(bound, Literal) and self.is_fixed(bound) else bound
        return found if type(found) is int and found >= 0 else None

    # -- structure -------------------------------------------------------------------------------

    def resolve(self, part: Part) -> Part:
        """Return a part behind expressions of one part and inlined values."""
        while True:
            if isinstance(part, Expression) and len(part.parts) == 1:
                part = part.parts[0]
            elif isinstance(part, Use) and (inner := self.expression_of(part)) is not None:
                part = inner
            else:
                return part

    def has_brackets(self, part: Part) -> bool:
        """Whether the text of a part has parentheses: those of a call, a tuple, a looser operand."""
        if isinstance(part, (Call, Tuple, Brackets)):
            return True
        if isinstance(part, Literal):
            value = part.value
            return self.is_fixed(part) and (
                isinstance(value, tuple) or (isinstance(value, float) and not math.isfinite(value))
            )
        if isinstance(part, Use):
            inner = self.expression_of(part)
            return inner is not None and (inner.level < part.level or self.has_brackets(inner))
        return any(map(self.has_brackets, children(part)))

    # -- arguments -------------------------------------------------------------------------------

    def arguments(self, call_: Call) -> str:
        """Return the arguments written, those that only repeat a default left out."""
        return _joined(self._runs(call_))

    def _list(self, call_: Call) -> str:
        """Return ``[a, b]``, or ``[Block(8) for _ in range(4)]`` for members that are alike."""
        runs = self._runs(call_)
        if len(runs) == 1 and runs[0][1]:
            return f"[{' '.join(runs[0])}]"
        return f"[{self.arguments(call_)}]"

    def _runs(self, call_: Call) -> list[tuple[str, str]]:
        """Return the arguments written; constructors in a row that are alike as one, with a `for` clause."""
        written = [a for a in call_.arguments if not self.is_default(a)]
        usual = {a.name for a in call_.arguments if self.is_default(a)}
        texts: list[str] = []
        for argument in written:
            value = argument.value
            if argument.instead is not None and argument.instead[0] in usual:
                value = argument.instead[1]
            text = self.text(value)
            texts.append(f"{argument.name}={text}" if argument.name else text)
        out: list[tuple[str, str]] = []
        at = 0
        for start, table in self._tables(written, texts):
            out += self._plain_runs(written[at:start], texts[at:start])
            out.append((self.text(table.form), table.clause))
            at = start + len(table.rows)
        return out + self._plain_runs(written[at:], texts[at:])

    def _tables(self, written: Sequence[Argument], texts: Sequence[str]) -> Iterator[tuple[int, Table]]:
        """Yield the tables that read better than constructors in a row, each with the number of the first."""
        at = 0
        while at < len(written):
            members = [argument.value for argument in takewhile(_is_construction, written[at:])]
            finds, count = find_table, count_alike(members)
            if count < LEAST:
                finds, count = find_stages, count_stages(members, self.text)
            stop = at + count
            if count >= LEAST and len({*texts[at:stop]}) > 1:
                found = self._shortest(finds, written[at:stop], texts[at:stop])
                if found is not None:
                    yield at + found[0], found[1]
            at += max(count, 1)

    def _shortest(
        self, finds: FindTable, written: Sequence[Argument], texts: Sequence[str]
    ) -> tuple[int, Table] | None:
        """Return the table that saves most, and how many of the first are not in it.

        The first and the last often have a setting that the others have not.
        """
        best, saved = None, 0
        for start, stop in ((0, len(texts)), (1, len(texts)), (0, len(texts) - 1), (1, len(texts) - 1)):
            table = finds([argument.value for argument in written[start:stop]], self.text, self.taken)
            if table is None:
                continue
            plain = len(_joined(self._plain_runs(written[start:stop], texts[start:stop])))
            length = len(_joined([(self.text(table.form), table.clause)]))
            if is_shorter(length, plain) and plain - length > saved:
                best, saved = (start, table), plain - length
        return best

    def _plain_runs(self, written: Sequence[Argument], texts: Sequence[str]) -> list[tuple[str, str]]:
        """Return arguments, those in a row that are equal or grow by one rule as one with a `for` clause."""
        out: list[tuple[str, str]] = []
        at = 0
        while at < len(written):
            end = at + 1
            while end < len(texts) and texts[end] == texts[at]:
                end += 1
            if not _is_construction(written[at]):
                out += [(text, "") for text in texts[at:end]]
            elif end - at >= REPEATED:
                out.append((texts[at], f"for _ in range({end - at})"))
            elif (found := self._find_progression(written[at:], texts[at:])) is not None:
                text, count = found
                out.append((text, f"for {self.counter} in range({count})"))
                end = at + count
            else:
                out.append((texts[at], ""))
                end = at + 1
            at = end
        return out

    def _find_progression(self, written: Sequence[Argument], texts: Sequence[str]) -> tuple[str, int] | None:
        """Return the form and the number of the first constructors whose integers grow by equal steps.

        Returns:
            None where that is not shorter than one after the other.
        """
        stop = next((n for n, a in enumerate(written) if not _is_construction(a)), len(written))
        members = [argument.value for argument in written[:stop]]
        count = longest_progression(members, self.text, self.is_fixed)
        if not count:
            return None
        text = self.text(common_form(members[:count], self.text, self.is_fixed) or "")
        loop = f"*[{text} for {self.counter} in range({count})]"
        return (text, count) if len(loop) < len(", ".join(texts[:count])) else None

    def is_default(self, argument: Argument) -> bool:
        """Whether an argument only repeats what leaving it out means."""
        value = argument.value
        if isinstance(value, Device):
            return not self.device()
        return isinstance(value, Literal) and self.is_fixed(value) and _same(value.value, argument.default)


def _joined(runs: Sequence[tuple[str, str]]) -> str:
    """Return arguments of a call, with those of a loop unpacked."""
    return ", ".join(f"*[{text} {loop}]" if loop else text for text, loop in runs)


def member_text(owner: str, steps: Sequence[Step]) -> str:
    """Return ``self.layers[0].conv``, or ``getattr(self, "conv-1")`` for a name that is no identifier."""
    for step in steps:
        if isinstance(step, int):
            owner = f"{owner}[{step}]"
        else:
            owner = f"{owner}.{step}" if is_identifier(step) else f'getattr({owner}, "{step}")'
    return owner


def assignment_text(owner: str, steps: Sequence[Step], value: str) -> str:
    """Return ``self.conv = …``, or ``setattr(self, "conv-1", …)`` for a name that is no identifier."""
    *above, last = steps
    if isinstance(last, int) or is_identifier(last):
        return f"{member_text(owner, steps)} = {value}"
    return f'setattr({member_text(owner, above)}, "{last}", {value})'


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


def _is_construction(argument: Argument) -> bool:
    """Whether a positional argument is a call of a constructor."""
    value = argument.value
    value = value.part if isinstance(value, OptionalMember) else value
    while isinstance(value, Expression) and len(value.parts) == 1:
        value = value.parts[0]
    return not argument.name and isinstance(value, Call) and value.callee != LIST
