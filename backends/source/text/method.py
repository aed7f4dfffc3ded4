"""Writes the method that a class computes in: a statement per layer, arithmetic inline, `x` along a chain."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ....ir import Value
from ....ir.nesting import write_nest
from ..class_definition import Class
from ..definitions import Branches, Definition, Loop, Method, Statement
from ..dialect import Dialect
from ..expressions import (
    ADD,
    ANY,
    ATOM,
    MULTIPLY,
    Access,
    Attribute,
    Call,
    Device,
    Expression,
    Literal,
    NnClass,
    Part,
    Use,
    first_call,
    only_call,
)
from ..traversal import accesses, uses, walk
from .class_renderer import ClassRenderer
from .lines import Line, Place, Source, Substitution, with_loops, written_access
from .variable_names import IDENTITY_NAMES, VariableNames

_MAX_INLINE = 60
"""Most characters of an expression that is written in place of its only use."""
_MAX_SIZE = 24
"""Most characters of a size that is computed anew wherever it is used."""


def write_methods(class_: Class, dialect: Dialect) -> list[list[str]]:
    """Return the lines of the class's method and of every other that it needs, not indented."""
    main = Construct(class_, dialect)
    written, waiting = [main.write()], main.needed
    while waiting:
        further = Construct(class_, dialect, waiting.pop(0))
        written.append(further.write())
        waiting = [*further.needed, *waiting]
    return written


class Construct(ClassRenderer):
    """The body of the method that a class computes in, or of another of its methods.

    Args:
        class_: the class.
        dialect: what it is written in.
        method: what to write instead of the main one.

    Attributes:
        needed: the methods that what was written calls.
    """

    def __init__(self, class_: Class, dialect: Dialect, method: Method | None = None) -> None:
        super().__init__(class_, "self.")
        self.dialect = dialect
        self.definition: Definition = class_.instances[0]
        self.method = method
        self.body: Definition | Method = method or self.definition
        self._gathers = method is None and self.definition.gathers
        self.needed: list[Method] = []
        self.inlined: dict[Value, Expression] = {}
        self.names: dict[Value, str] = {}
        self._substitution = Substitution()
        self._constructors = {n: p for n, p in self.definition.attributes if isinstance(p, Call)}
        self.steps = self._inline(self.body.statements)

    # -- text of values --------------------------------------------------------------------------

    def value(self, use: Use) -> tuple[str, int]:
        """Return a variable, or the expression folded into this use."""
        if use.value in self._substitution.unfolded:
            return self._substitution.unfolded[use.value], ATOM
        found = self.inlined.get(use.value)
        if found is not None:
            return self.text(found), found.level
        name = self.names.get(use.value, "x")
        return self._substitution.renamed.get(name, name), ATOM

    def expression_of(self, use: Use) -> Expression | None:
        """Return the expression written in place of a value; None if it is a variable."""
        return None if use.value in self._substitution.unfolded else self.inlined.get(use.value)

    def device(self) -> str:
        """Return the device of the first tensor that the method is given; empty where it is given none."""
        given = self._home()
        return "" if given is None else f"{self.value(Use(given, ATOM))[0]}{'[0]' * self._gathers}.device"

    def _home(self) -> Value | None:
        """Return the first input that is a tensor; None without one."""
        return next((v for v in self.body.inputs if v in self.body.tensors), None)

    def text(self, part: Part) -> str:
        """Return the text of a part; that of a list's member may be a loop's variable."""
        return written_access(part, self._substitution) if isinstance(part, Access) else super().text(part)

    # -- inlining --------------------------------------------------------------------------------

    def _inline(self, statements: list[Statement]) -> list[Statement]:
        """Fold arithmetic, method chains and shape computations into their only use."""
        where: dict[Value, list[int]] = {}
        for statement in statements:
            indexed = statement.is_member  # such calls become a loop where they can
            for use in uses(statement.expression):
                where.setdefault(use.value, []).append(-2 if indexed else use.level)
        for value in self.body.outputs:
            where.setdefault(value, []).append(-1)
        kept: list[Statement] = []
        for at, statement in enumerate(statements):
            expression = statement.expression
            if statement.is_aside:
                given, done = expression.parts
                self.inlined[statement.targets[0]] = Expression((given,))
                kept.append(replace(statement, targets=[], expression=Expression((done,))))
                continue
            target = statement.targets[0] if len(statement.targets) == 1 else None
            alone = target is not None and where.get(target) in ([ANY], [ADD], [MULTIPLY])
            if target is not None and alone and self._nests(target, statements[at : at + 2]):
                self.inlined[target] = expression
                continue
            plain = not statement.attribute and not statement.results and statement.branches is None
            if target is not None and plain and expression.outputs == 1:
                levels = where.get(target, [])
                alias = len(expression.parts) == 1 and isinstance(expression.parts[0], Use)
                length = len(self.text(expression))
                fits = (
                    len(levels) == 1
                    and levels[0] >= ANY
                    and length <= _MAX_INLINE
                    and (expression.level < ATOM or levels[0] > ANY)
                )
                host = bool(expression.host) and length <= _MAX_SIZE
                if (fits or host or alias) and (-1 not in levels or alias):
                    self.inlined[target] = expression
                    continue
            kept.append(statement)
        return kept

    def _nests(self, target: Value, pair: list[Statement]) -> bool:
        """Whether a layer's call reads best inside the next step: normalised, activated, or added."""
        if len(pair) < 2:
            return False
        first, second = pair
        if not first.attribute or first.name in IDENTITY_NAMES or first.results or first.is_member:
            return False
        if len(self.text(first.expression)) > _MAX_INLINE - 20:
            return False
        outer = second.expression
        if outer.operator == "+":
            return any(use.value == target for use in uses(outer))
        call = only_call(outer)
        if call is None or not call.arguments:
            return False
        given = call.arguments[0].value
        if not isinstance(given, Use) or given.value != target:
            return False
        made, around = self._constructor(first), self._constructor(second)
        if second.results and made is not None and made.callee == NnClass("Embedding"):
            return len(call.arguments) == 1
        if around is not None and around.is_light:
            return True
        inner = first_call(first.expression)
        plain = inner is not None and not any(self.has_brackets(a.value) for a in inner.arguments)
        is_light = made is not None and made.is_light
        return is_light and plain and bool(second.attribute) and len(call.arguments) == 1

    def _constructor(self, statement: Statement) -> Call | None:
        """Return the call that constructs the layer a step calls, or the call of a function."""
        if statement.attribute:
            return self._constructors.get(statement.name)
        return first_call(statement.expression)

    def _values(self, expression: Expression) -> list[Value]:
        """Return the variables that an expression reads, also through inlined expressions."""
        out: list[Value] = []
        for part in walk(expression):
            if isinstance(part, Use):
                inner = self.inlined.get(part.value)
                out += [part.value] if inner is None else self._values(inner)
            elif isinstance(part, Device) and (home := self._home()) is not None:
                out.append(home)
        return out

    # -- the method ------------------------------------------------------------------------------

    def write(self) -> list[str]:
        """Return the lines of the method, not indented."""
        inputs = self._input_names()
        self._name_results(inputs)
        stars = "*" * self._gathers
        name = self.dialect.method if self.method is None else self.method.name
        lines = [f"def {name}({', '.join(['self', *(f'{stars}{given}' for given in inputs)])}):"]
        taken = set(self.names.values())
        body = with_loops(self._statements(self.steps), self.definition, taken, inputs, self.dialect)
        return lines + [f"    {line}" for line in body]

    def as_expression(self, given: Sequence[Part], state: Sequence[str], caller: Construct) -> str:
        """Return the method as one expression of its arguments, if it is one; else empty.

        Args:
            given: what the caller gives it.
            state: variables of the caller that come before that.
            caller: who writes the arguments.
        """
        if len(self.steps) > 1 or not all(map(caller.is_plain, given)):
            return ""
        self._name_results([*state, *map(caller.text, given)])
        lines = self._statements(self.steps)
        return lines[0].returned if len(lines) == 1 else ""

    def is_plain(self, part: Part) -> bool:
        """Whether a part is a variable, something `self` reaches, a number, or an attribute of such."""
        found = self.resolve(part)
        if isinstance(found, Literal):
            value = found.value
            is_short = isinstance(value, float) and (value == 0 or 1e-4 <= value < 1e16)
            return self.is_fixed(found) and (is_short or (isinstance(value, int) and value >= 0))
        if isinstance(found, Attribute):
            return self.is_plain(found.owner)
        return isinstance(found, Use) or (isinstance(found, Access) and not found.has_member)

    def _name_results(self, inputs: Sequence[str]) -> None:
        names = VariableNames(
            dict(zip(self.body.inputs, inputs, strict=True)), self._values, self.dialect.names
        )
        self.names = names.of(self.steps, self.body.outputs)

    def _input_names(self) -> list[str]:
        """Return names for the method's arguments: the source's where all instances agree, else x, y, z."""
        if self._gathers:
            return ["inputs"]
        names: list[str] = []
        spare = iter(["x", "y", "z", *(f"x{n}" for n in range(2, 1000))])
        for at, known in enumerate(self.body.input_names):
            agreed = self.method or all(d.input_names[at] == known for d in self.class_.instances)
            named = bool(known) and agreed and not hasattr(builtins, known)
            name = self.dialect.names.variable(known) if named else next(n for n in spare if n not in names)
            while name in names:
                name += "_"
            names.append(name)
        return names

    # -- statements ------------------------------------------------------------------------------

    def _statements(self, steps: Sequence[Statement]) -> list[Line]:
        """Return the lines of steps; the last one is the `return` if it makes all results."""
        outputs = [self._values(Expression((Use(v),))) for v in self.body.outputs]
        last = steps[-1] if steps else None
        value = None
        if (
            last
            and not last.results
            and not last.branches
            and last.targets == self.body.outputs
            and len(outputs) == 1
            and not _calls_member(last.expression)
        ):
            steps, value = steps[:-1], last.expression
        lines = [line for step in steps for line in self._line(step)]
        found = [Use(v) for v in self.body.outputs] if value is None else [value]
        texts = list(map(self.text, found))
        nest = self.definition.returns if self.method is None else None
        returned = ", ".join(texts) or "None"
        if nest is not None:
            written = iter(texts)
            returned = write_nest(nest, lambda _: next(written))
        source = None
        if len(found) == 1 and nest is None:
            source = self._source(found[0], "return {}", None if value is None else self.body.outputs[0])
        return [*lines, Line((f"return {returned}",), returned=returned, source=source)]

    def _line(self, step: Statement) -> list[Line]:
        """Return the lines of a step: an `if`, a `while` or a `for`, or an assignment."""
        names = [self.names[t] for t in step.targets]
        if step.branches is not None:
            branches = step.branches
            texts = (
                self._loop(step, branches) if isinstance(branches, Loop) else self._branching(branches, names)
            )
            return [Line((text,), begins=not at) for at, text in enumerate(texts)]
        if step.is_aside:
            return [Line((self.text(step.expression),))]
        targets = step.results.format(*names) if step.results else ", ".join(names)
        source = self._source(step.expression, f"{targets} = {{}}")
        return [Line((f"{targets} = {self.text(step.expression)}",), targets=tuple(names), source=source)]

    def _source(self, part: Part, form: str, whole: Value | None = None) -> Source:
        """Return the origin of a line.

        Args:
            part: its value.
            form: what is written around that.
            whole: the value that it is, where no variable is.
        """

        def text(of: Part, substitution: Substitution) -> str:
            self._substitution = substitution
            try:
                return self.text(of)
            finally:
                self._substitution = Substitution()

        def variable(substitution: Substitution) -> str:
            return "" if whole is None else substitution.unfolded.get(whole, "")

        def write(substitution: Substitution) -> tuple[str, ...]:
            return (form.format(variable(substitution) or text(part, substitution)),)

        def reads(substitution: Substitution) -> list[str]:
            return [variable(substitution)] if variable(substitution) else self._reads(part, substitution)

        folded = {} if whole is None else {whole: part}
        folded |= {use.value: self.inlined[use.value] for use in uses(part) if use.value in self.inlined}
        writers = tuple((value, partial(text, inner)) for value, inner in folded.items())
        return Source(write, reads, frozenset(self._places(part)), writers)

    def _reads(self, part: Part, substitution: Substitution) -> list[str]:
        """Return the variables that a part reads, in writing order."""
        found: list[str] = []
        for use in uses(part):
            inner = self.inlined.get(use.value)
            if use.value in substitution.unfolded:
                found.append(substitution.unfolded[use.value])
            elif inner is not None:
                found += self._reads(inner, substitution)
            else:
                found.append(self.names.get(use.value, "x"))
        return found

    def _places(self, part: Part) -> Iterator[Place]:
        """Yield the members of lists that a part reaches."""
        for access in accesses(part):
            for stop in range(2, len(access.steps) + 1):
                yield access.steps[:stop]
        for use in uses(part):
            if use.value in self.inlined:
                yield from self._places(self.inlined[use.value])

    def _branching(self, branches: Branches, names: list[str]) -> list[str]:
        """Return an `if`, or a `while` whose condition is one of its variables."""
        targets, test = ", ".join(names), self.text(branches.test)
        if branches.initial is None:
            first, second = (self._call(method, given, []) for method, given in branches.bodies)
            return [f"if {test}:", f"    {targets} = {first}", "else:", f"    {targets} = {second}"]
        ((method, given),) = branches.bodies
        taken = set(self.names.values())
        running = next(n for n in ("running", *(f"running{i}" for i in range(2, 1000))) if n not in taken)
        initial = ", ".join([test, *map(self.text, branches.initial)])
        again = self._call(method, given, names)
        return [
            f"{running}, {targets} = {initial}",
            f"while {running}:",
            f"    {running}, {targets} = {again}",
        ]

    def _loop(self, step: Statement, loop: Loop) -> list[str]:
        """Return a `for` over numbered layers, and what comes before it."""
        names = [self.names[t] for t in step.targets]
        inner = Construct(self.class_, self.dialect, loop.body)
        taken = {*self.names.values()}
        inner.counter = next(n for n in ("i", *(f"i{i}" for i in range(2, 1000))) if n not in taken)
        head = f"for {inner.counter} in range({self.text(loop.count)}):"
        initial = list(map(self.text, loop.initial))
        if loop.grows:
            inner.names = dict(zip(loop.body.inputs, names, strict=True))
            (made,) = (inner.text(each.expression) for each in inner.steps)
            return [f"{names[0]} = {initial[0]}", head, f"    {names[0]} += ({made},)"]
        after = self.steps[next(at for at, each in enumerate(self.steps) if each is step) + 1 :]
        later = {value for each in after for value in self._values(each.expression)}
        later |= {value for output in self.body.outputs for value in self._values(Expression((Use(output),)))}
        kept = {value: self.names[value] for value in later if self.names.get(value) not in (None, *names)}
        given = dict(zip(loop.body.inputs, [*names, *map(self.text, loop.given)], strict=True))
        wanted = dict(zip(loop.body.outputs, names, strict=True))
        variables = VariableNames({**kept, **given}, inner._values, self.dialect.names, wanted)
        alive = list(given)[len(names) :]
        inner.names = variables.of(inner.steps, [*loop.body.outputs, *kept, *alive])
        made = [inner.names[output] for output in loop.body.outputs]
        turn = [text for each in inner.steps for line in inner._line(each) for text in line.texts]
        body = [*turn, *_assignment(names, made)]
        return [*_assignment(names, initial), head, *(f"    {text}" for text in body)]

    def _call(self, method: Method, given: Sequence[Part], state: list[str]) -> str:
        """Return a call of a method, or the method's expression if that is all it does."""
        found = Construct(self.class_, self.dialect, method).as_expression(given, state, self)
        if not found:
            self.needed.append(method)
        return found or f"self.{method.name}({', '.join([*state, *map(self.text, given)])})"


def _assignment(names: list[str], values: list[str]) -> list[str]:
    """Return the assignment of values to variables; none where they have them."""
    pairs = [(name, value) for name, value in zip(names, values, strict=True) if name != value]
    return [" = ".join(", ".join(column) for column in zip(*pairs, strict=True))] if pairs else []


def _calls_member(expression: Expression) -> bool:
    """Whether a step begins with a call of a member of a list, ``self.layers[0](…)``."""
    call = first_call(expression)
    callee = call.callee if call is not None else None
    return (
        isinstance(callee, Access)
        and len(callee.steps) in (2, 3)
        and all(isinstance(step, int) for step in callee.steps[1:])
    )
