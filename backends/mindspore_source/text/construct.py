"""Writing a `construct`: one statement a layer, arithmetic inline, `x` reused along a chain."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from ....ir import Value
from ..cells.cell_draft import Branches, Draft, Method, Statement
from ..cells.constructor_arguments import Class
from ..classes.variadic_inputs import accumulated
from ..naming import variable_name
from .expressions import (
    ADD,
    ANY,
    ATOM,
    MULTIPLY,
    Access,
    Call,
    Expression,
    Literal,
    Name,
    Part,
    Renderer,
    Step,
    Use,
    literal_source,
    uses,
)

_GENERIC = re.compile(
    r"^_*(conv|bn|batch_?norm|norm|relu|act|activation|fc|linear|dense|pool|max_?pool|avg_?pool|layers?|blocks?|drop|"
    r"dropout|ln|gn|features|classifier|stem|proj|out_proj|mlp|head|encoder|decoder|body|net|model|backbone|"
    r"embed|embedding|c|f|l|lin|down|up|base|attn|attention|self_attn|avgpool|maxpool|global_pool|flatten|ffn)?_*[\d_]*[a-z]?$"
)
_IDENTITY = {"downsample": "identity", "shortcut": "shortcut", "skip": "shortcut", "residual": "residual"}
_CHAIN = ("x", "out", "y", "z")
_MAX_INLINE = 60
_LIGHT = re.compile(
    r"^(nn\.(BatchNorm\dd|GroupNorm|LayerNorm|Dropout(\dd)?|ReLU6?|LeakyReLU|PReLU|ELU|GELU|SeLU|CELU|SiLU|Mish|HSwish|HSigmoid|"
    r"Hardtanh|Softsign)|(nn\.)?(Sigmoid|Tanh)|(ops\.)?(sigmoid|tanh)|ops\.(relu6?|gelu|silu|hardswish|elu|leaky_relu|dropout(\dd)?|mish))$"
)
"""What is written around the layer before it, ``self.relu(self.bn1(self.conv1(x)))``."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a method.

    Attributes:
        text: the line.
        targets: what it assigns to, where a call of what `self` reaches is all that it does.
        access: the steps from `self` to what it calls, likewise.
        arguments: what it gives to that.
        reads: the variables among those.
        returned: what it returns.
    """

    text: str
    targets: str = ""
    access: tuple[Step, ...] = ()
    arguments: str = ""
    reads: frozenset[str] = frozenset()
    returned: str = ""


class ClassRenderer(Renderer):
    """Literals of a class: constructor arguments where its instances differ."""

    def __init__(self, class_: Class, prefix: str = "") -> None:
        self.class_, self.prefix = class_, prefix

    def literal(self, literal: Literal) -> str:
        """The constructor argument that stands for a literal, or its source."""
        formal = self.class_.holes.get(id(literal))
        return literal_source(literal.value) if formal is None else formal.text(self.prefix)

    def fixed(self, literal: Literal) -> bool:
        """Whether no constructor argument stands for it."""
        return id(literal) not in self.class_.holes

    def value(self, use: Use) -> tuple[str, int]:
        """A constructor reads no values: it is an error of ours if one gets here."""
        raise AssertionError(use)


def methods(class_: Class) -> list[list[str]]:
    """The lines of `construct` and of every method that it needs, not indented."""
    main = Construct(class_)
    written, waiting = [main.write()], main.needed
    while waiting:
        further = Construct(class_, waiting.pop(0))
        written.append(further.write())
        waiting = [*further.needed, *waiting]
    return written


class Construct(ClassRenderer):
    """The body of one class's `construct`, or of another of its methods.

    Args:
        class_: the class.
        method: what to write instead of `construct`.

    Attributes:
        needed: the methods that what was written calls.
    """

    def __init__(self, class_: Class, method: Method | None = None) -> None:
        super().__init__(class_, "self.")
        self.draft: Draft = class_.drafts[0]
        self.method = method
        self.body: Draft | Method = method or self.draft
        self.needed: list[Method] = []
        self.inlined: dict[Value, Expression] = {}
        self.names: dict[Value, str] = {}
        self.names_in: set[str] = set()
        self.steps = self._inline(self.body.statements)

    def value(self, use: Use) -> tuple[str, int]:
        """A variable, or the expression folded into this use."""
        found = self.inlined.get(use.value)
        if found is not None:
            return self.text(found), found.level
        return self.names.get(use.value, "x"), ATOM

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
            target = statement.targets[0] if len(statement.targets) == 1 else None
            alone = target is not None and where.get(target) in ([ANY], [ADD], [MULTIPLY])
            if target is not None and alone and self._nests(target, statements[at : at + 2]):
                self.inlined[target] = expression
                continue
            plain = not statement.attribute and not statement.results and statement.branches is None
            if len(statement.targets) == 1 and plain and expression.outputs == 1:
                (target,) = statement.targets
                levels = where.get(target, [])
                short = len(self.text(expression)) <= _MAX_INLINE
                host = bool(expression.host) and len(self.text(expression)) <= 24
                alias = len(expression.parts) == 1 and isinstance(expression.parts[0], Use)
                fits = (
                    len(levels) == 1
                    and levels[0] >= ANY
                    and short
                    and (expression.level < ATOM or levels[0] > ANY)
                )
                if (fits or host or alias) and (-1 not in levels or alias):
                    self.inlined[target] = expression
                    continue
            kept.append(statement)
        return kept

    def _nests(self, target: Value, pair: list[Statement]) -> bool:
        """Whether a layer's call is best read inside the next step: normalised, activated, or added."""
        if (
            len(pair) < 2
            or not pair[0].attribute
            or pair[0].name in _IDENTITY
            or pair[0].results
            or pair[0].is_member
        ):
            return False
        inner, outer = self.text(pair[0].expression), pair[1].expression
        if len(inner) > _MAX_INLINE - 20:
            return False
        if outer.level == ADD and " + " in outer.parts:
            return any(use.value == target for use in uses(outer))
        call = outer.parts[0]
        if not isinstance(call, Call) or len(outer.parts) > 1 or not call.arguments:
            return False
        given = call.arguments[0].value
        if not isinstance(given, Use) or given.value != target:
            return False
        if pair[1].results and self._callee(pair[0]) == "nn.Embedding":
            return len(call.arguments) == 1
        light = _LIGHT.match(self._callee(pair[1])) is not None
        first = _LIGHT.match(self._callee(pair[0])) is not None and inner.count("(") == 1
        return light or (first and bool(pair[1].attribute) and len(call.arguments) == 1)

    def _callee(self, statement: Statement) -> str:
        """The layer or function that a step calls: ``nn.ReLU``, ``ops.relu``."""
        found = statement.expression.parts[0]
        if statement.attribute:
            found = dict(self.draft.attributes).get(statement.name, "") if statement.name else ""
        callee = found.callee if isinstance(found, Call) else ""
        if isinstance(callee, Literal) and isinstance(callee.value, Name):
            return callee.value.text
        return callee if isinstance(callee, str) else ""

    def _values(self, expression: Expression) -> list[Value]:
        """The variables that an expression reads, those of inlined expressions included."""
        out: list[Value] = []
        for use in uses(expression):
            inner = self.inlined.get(use.value)
            out += [use.value] if inner is None else self._values(inner)
        return out

    # -- names -----------------------------------------------------------------------------------

    def write(self) -> list[str]:
        """The lines of the method, not indented."""
        inputs = self._input_names()
        self.names.update(zip(self.body.inputs, inputs, strict=True))
        self.names_in = set(inputs)
        self._name_results()
        stars = "*" * (self.method is None and self.draft.gathers)
        name = "construct" if self.method is None else self.method.name
        lines = [f"def {name}({', '.join(['self', *(f'{stars}{given}' for given in inputs)])}):"]
        written = self._statements()
        found = {line.text: line for line in written}
        body = [found.get(text, Line(text)) for text in accumulated([line.text for line in written])]
        return lines + [
            f"    {line}" for line in _with_loops(body, self._lengths(), set(self.names.values()))
        ]

    def as_expression(self, arguments: list[str]) -> str:
        """What the method returns, given these variables, where that is all it does; else empty."""
        if len(self.steps) > 1 or not all(map(_PLAIN.match, arguments)):
            return ""
        self.names.update(zip(self.body.inputs, arguments, strict=True))
        self._name_results()
        lines = self._statements()
        return lines[0].returned if len(lines) == 1 else ""

    def _input_names(self) -> list[str]:
        if self.method is None and self.draft.gathers:
            return ["inputs"]
        names: list[str] = []
        spare = iter(["x", "y", "z", *(f"x{n}" for n in range(2, 1000))])
        for at, known in enumerate(self.body.input_names):
            agreed = self.method or all(d.input_names[at] == known for d in self.class_.drafts)
            named = bool(known) and agreed and not hasattr(builtins, known)
            name = variable_name(known) if named else next(n for n in spare if n not in names)
            while name in names:
                name += "_"
            names.append(name)
        return names

    def _name_results(self) -> None:
        last: dict[Value, int] = {}
        for at, step in enumerate(self.steps):
            for value in self._values(step.expression):
                last[value] = at
        for value in self.body.outputs:
            for inner in self._values(Expression((Use(value),))):
                last[inner] = len(self.steps)
        live = {name: value for value, name in self.names.items() if value in last}
        for at, step in enumerate(self.steps):
            reads, kept = self._values(step.expression), self._kept(step)
            dying = [self.names[v] for v in reads if last.get(v) == at and v in self.names and v not in kept]
            live = {n: v for n, v in live.items() if last[v] > at or v in kept}
            if kept is not _NOTHING:
                last |= {target: at for target in step.targets if target not in last}  # its state
            for number, target in enumerate(step.targets):
                if target not in last:
                    self.names[target] = "_"
                    continue
                name = self._result_name(step, number, dying, live)
                self.names[target] = name
                live[name] = target

    def _kept(self, step: Statement) -> Set[Value]:
        """What a `while` reads in every turn, and its targets must not overwrite."""
        if step.branches is None or step.branches.initial is None:
            return _NOTHING
        return {v for _, given in step.branches.bodies for v in self._values(Expression(given))}

    def _result_name(self, step: Statement, number: int, dying: list[str], live: dict[str, Value]) -> str:
        attribute = next((s for s in step.attribute if isinstance(s, str)), "").strip("._")
        special = _IDENTITY.get(attribute)
        if special and special not in live:
            return special
        hint = step.hints[number] if step.hints else ""
        if hint:
            return hint if hint not in live else _numbered(hint, live)
        if len(step.targets) == 1:
            named = bool(attribute) and len(attribute) <= 15 and not _GENERIC.match(attribute)
            for name in dying:
                if (name in _CHAIN or name not in self.names_in) and name not in live:
                    return name
            if "x" not in live:
                return "x"
            if named and variable_name(attribute) not in live:
                return variable_name(attribute)
            if named:
                return _numbered(variable_name(attribute), live)
        elif (
            len(step.targets) == 3 and not step.hints and all(n not in live for n in ("q", "k", "v")[number:])
        ):
            return ("q", "k", "v")[number]
        for name in _CHAIN:
            if name not in live:
                return name
        return _numbered("x", live)

    # -- statements ------------------------------------------------------------------------------

    def _statements(self) -> list[Line]:
        lines: list[Line] = []
        outputs = [self._values(Expression((Use(v),))) for v in self.body.outputs]
        steps = list(self.steps)
        returned = ", ".join(self.text(Use(v)) for v in self.body.outputs)
        last = steps[-1] if steps else None
        if (
            last
            and not last.results
            and not last.branches
            and last.targets == self.body.outputs
            and len(outputs) == 1
            and not _calls_member(last.expression)
        ):
            steps.pop()
            returned = self.text(last.expression)
        for step in steps:
            names = [self.names[t] for t in step.targets]
            if step.branches is not None:
                lines += map(Line, self._branching(step.branches, names))
                continue
            targets = step.results.format(*names) if step.results else ", ".join(names)
            lines.append(self._line(targets, step.expression))
        returned = returned or "None"
        return [*lines, Line(f"return {returned}", returned=returned)]

    def _line(self, targets: str, expression: Expression) -> Line:
        """An assignment, with what it calls where that is all it does."""
        text = f"{targets} = {self.text(expression)}"
        call = expression.parts[0]
        if len(expression.parts) > 1 or not isinstance(call, Call) or not isinstance(call.callee, Access):
            return Line(text)
        reads = frozenset(self.names.get(v, "") for v in self._values(expression))
        return Line(text, targets, call.callee.steps, self.arguments(call), reads)

    def _branching(self, branches: Branches, names: list[str]) -> list[str]:
        """An `if`, or a `while` whose condition is one of its variables."""
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

    def _call(self, method: Method, given: Sequence[Part], state: list[str]) -> str:
        """A call of a method, or what it returns where that is all it does."""
        arguments = [*state, *map(self.text, given)]
        found = Construct(self.class_, method).as_expression(arguments)
        if not found:
            self.needed.append(method)
        return found or f"self.{method.name}({', '.join(arguments)})"

    def _lengths(self) -> dict[str, int]:
        """Path of a list attribute -> its length, for loops over the whole of it."""
        found: dict[str, int] = {}
        for name, part in self.draft.attributes:
            if isinstance(part, Call) and part.callee in ("nn.CellList", "nn.SequentialCell"):
                inner = part.arguments
                if part.callee == "nn.CellList" and isinstance(inner[0].value, Call):
                    inner = inner[0].value.arguments
                found[name] = len(inner)
        return found


_NOTHING: Set[Value] = frozenset()
_PLAIN = re.compile(r"^[\w.]+$")


def _calls_member(expression: Expression) -> bool:
    """Whether a step begins with a call of a member of a list, ``self.layers[0](…)``."""
    call = expression.parts[0]
    callee = call.callee if isinstance(call, Call) else None
    return isinstance(callee, Access) and len(callee.steps) == 2 and isinstance(callee.steps[1], int)


def _with_loops(lines: list[Line], lengths: dict[str, int], taken: set[str]) -> list[str]:
    """Texts of lines, runs of ``x = self.layers[i](x)`` over a whole list as a for loop.

    Args:
        lines: the lines.
        lengths: name of a list -> its length.
        taken: names of variables.
    """
    out: list[str] = []
    at = 0
    while at < len(lines):
        first = lines[at]
        name, count = _loop_over(lines[at:], lengths)
        if count > 1:
            item = _singular(name, taken)
            out += [f"for {item} in self.{name}:", f"    {first.targets} = {item}({first.arguments})"]
            at += count
        else:
            out.append(first.text)
            at += 1
    return out


def _loop_over(lines: list[Line], lengths: dict[str, int]) -> tuple[str, int]:
    """The list whose members the first lines call one after the other, and how many; 0 for none."""
    first = lines[0]
    if len(first.access) != 2 or first.access[1] != 0 or not isinstance(first.access[0], str):
        return "", 0
    name = first.access[0]
    count = lengths.get(name, 0)
    run = [(line.targets, line.access, line.arguments) for line in lines[:count]]
    variable = first.targets.removesuffix(", _")
    if run != [(first.targets, (name, i), first.arguments) for i in range(count)]:
        return "", 0
    return (name, count) if variable in first.reads else ("", 0)


def _singular(name: str, taken: set[str]) -> str:
    item = name[:-1] if name.endswith("s") and len(name) > 3 else "layer"
    return f"{item}_" if item in taken else item


def _numbered(name: str, live: dict[str, Value]) -> str:
    n = 2
    while f"{name}{n}" in live:
        n += 1
    return f"{name}{n}"
