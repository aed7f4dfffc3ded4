"""Anti-unification: modules with one structure share a class; where they differ, it takes an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ...ir import Value
from .drafts import Draft, Method
from .expressions import (
    ANY,
    MISSING,
    Argument,
    Call,
    Expression,
    Literal,
    Part,
    Use,
    literals,
    shape_of,
    substituted,
)
from .gathering import gather
from .naming import class_name, identifier
from .units import Units


@dataclass(slots=True)
class Formal:
    """A constructor argument of an emitted class: its value for each instance, a part for a module given.

    A `scale` other than 1 marks a use of it: so many times the argument; `elements` a tuple of numbers and of
    other arguments.
    """

    name: str
    values: tuple[object, ...]
    default: object = MISSING
    in_construct: bool = False
    scale: int = 1
    elements: tuple[int | Formal, ...] = ()


@dataclass(slots=True)
class Class:
    """One emitted class.

    Attributes:
        name: its name.
        drafts: the modules that are instances of it; the first one's text is the class's.
        formals: constructor arguments, those without default first.
        holes: id of a literal of the first draft -> the argument that stands for it.
        branches: child that some instances have -> how it is constructed where the argument of its name asks.
    """

    name: str
    drafts: list[Draft]
    formals: list[Formal] = field(default_factory=list)
    holes: dict[int, Formal] = field(default_factory=dict)
    branches: dict[str, Part] = field(default_factory=dict)


def define_classes(units: Units) -> list[Class]:
    """Build every unit, callees first, and unify the classes of each level; returns them in writing order."""
    classes: list[Class] = []
    taken: set[str] = set()
    reserved = units.factories.names()
    for level in units.levels():
        groups: dict[object, list[Draft]] = {}
        drafts = [draft for key in level if (draft := units.build(key).draft) is not None]
        gather(drafts)
        for draft in drafts:
            groups.setdefault(_structure(draft), []).append(draft)
        merged = _with_optional_children(list(groups.values()))
        names: dict[int, str] = {}
        for drafts, _ in sorted(
            merged, key=lambda group: -len(group[0])
        ):  # the most usual has the plain name
            names[drafts[0].module] = class_name(drafts[0].source_class, taken)
            taken.add(names[drafts[0].module])
        for drafts, optional in merged:
            found = _unify(drafts, names[drafts[0].module], reserved)
            _add_optional(found, optional)
            _derive(found)
            _take_shapes_apart(found)
            classes.append(found)
            for at, draft in enumerate(drafts):
                units.units[draft.module].constructor = _construction(found, at)
    return classes


def _with_optional_children(
    groups: list[list[Draft]],
) -> list[tuple[list[Draft], dict[str, dict[int, Part]]]]:
    """Groups that differ in one child, such as `downsample`, or in a shortcut become one with it optional.

    Returns:
        (drafts, those with everything first; optional child -> module key -> how that module constructs it;
        a shortcut is True where there is one).
    """
    merged: list[tuple[list[Draft], dict[str, dict[int, Part]]]] = [(group, {}) for group in groups]
    at = 0
    while at < len(merged):
        larger, optional = merged[at]
        partner = next(
            (
                (i, found)
                for i, (other, _) in enumerate(merged)
                if i != at and (found := _extra_child(larger[0], other[0]) or _shortcut(larger[0], other[0]))
            ),
            None,
        )
        if partner is None:
            at += 1
            continue
        index, child = partner
        smaller, more = merged[index]
        if child in dict(larger[0].attributes):
            given = {d.module: dict(d.attributes)[child] for d in larger}
            for draft in larger:
                _make_optional(draft, child)
        else:
            given: dict[int, Part] = {d.module: Literal(True) for d in larger}
            for draft in larger:
                _make_shortcut_optional(draft, child)
        merged[at] = (larger + smaller, {**more, **optional, child: given})
        del merged[index]
        at = 0
    return merged


def _extra_child(larger: Draft, smaller: Draft) -> str | None:
    """The child that `larger` has and `smaller` has not, where that is all they differ in."""
    if larger.source_class != smaller.source_class or len(larger.attributes) != len(smaller.attributes) + 1:
        return None
    if larger.methods:
        return None
    names = [name for name, _ in smaller.attributes]
    child = next((name for name, _ in larger.attributes if name not in names), None)
    found = None if child is None else _step_of(larger, child)
    if child is None or found is None:
        return None
    return child if _structure(_without(larger, *found, child)) == _structure(smaller) else None


def _without(draft: Draft, at: int, value: Value, child: str = "") -> Draft:
    """A draft without one step, whose result is `value` instead, and without the child that it calls."""
    target = draft.statements[at].targets[0]
    return replace(
        draft,
        attributes=[(n, p) for n, p in draft.attributes if n != child],
        statements=[
            replace(s, expression=substituted(s.expression, target, value))
            for i, s in enumerate(draft.statements)
            if i != at
        ],
        outputs=[value if v == target else v for v in draft.outputs],
    )


_SHORTCUTS = ("shortcut", "use_shortcut", "add_input")


def _shortcut(larger: Draft, smaller: Draft) -> str | None:
    """What to call the addition of the input that `larger` has and `smaller` has not, where that is all."""
    found = _addition(larger)
    if found is None or larger.source_class != smaller.source_class or larger.methods:
        return None
    if _structure(_without(larger, *found)) != _structure(smaller):
        return None
    taken = {name for name, _ in larger.attributes}
    return next((name for name in _SHORTCUTS if name not in taken), None)


def _addition(draft: Draft) -> tuple[int, Value] | None:
    """The last step that adds an input of the draft to a value, and that value."""
    for at, step in reversed(list(enumerate(draft.statements))):
        if len(step.targets) != 1 or len(step.expression.parts) != 3 or step.expression.parts[1] != " + ":
            continue
        operands = [p.value for p in step.expression.parts if isinstance(p, Use)]
        others = [v for v in operands if v not in draft.inputs]
        if len(operands) == 2 and len(others) == 1:
            return at, others[0]
    return None


def _make_shortcut_optional(draft: Draft, flag: str) -> None:
    """``x + y if self.shortcut else y``, the flag being a constructor argument."""
    found = _addition(draft)
    assert found is not None
    at, value = found
    step = draft.statements[at]
    step.expression = Expression((step.expression, f" if self.{flag} else ", Use(value)), ANY)


def _step_of(draft: Draft, child: str) -> tuple[int, Value] | None:
    """The one step that calls a child on one value, and that value."""
    steps = [i for i, s in enumerate(draft.statements) if s.attribute == child]
    if len(steps) != 1 or len(draft.statements[steps[0]].targets) != 1 or draft.statements[steps[0]].results:
        return None
    (call, *_) = draft.statements[steps[0]].expression.parts
    if not isinstance(call, Call) or len(call.arguments) != 1 or not isinstance(call.arguments[0].value, Use):
        return None
    return steps[0], call.arguments[0].value.value


def _make_optional(draft: Draft, child: str) -> None:
    """``x if self.child is None else self.child(x)``, the child being a constructor argument."""
    found = _step_of(draft, child)
    assert found is not None
    at, value = found
    step = draft.statements[at]
    draft.attributes = [(n, child if n == child else p) for n, p in draft.attributes]
    step.expression = Expression((Use(value), f" if self.{child} is None else ", step.expression), ANY)


def _add_optional(class_: Class, optional: dict[str, dict[int, Part]]) -> None:
    for child, given in optional.items():
        if all(isinstance(part, Literal) for part in given.values()):
            present = tuple(d.module in given for d in class_.drafts)
            class_.formals.append(Formal(child, present, False, in_construct=True))
            continue
        holes = _follows(class_, given)
        if holes is None:
            values = tuple(given.get(d.module) for d in class_.drafts)
            class_.formals.append(Formal(child, values, None))
            continue
        class_.holes.update(holes)
        class_.branches[child] = next(given[d.module] for d in class_.drafts if d.module in given)
        class_.formals.append(Formal(child, tuple(d.module in given for d in class_.drafts), False))


def _follows(class_: Class, given: dict[int, Part]) -> dict[int, Formal] | None:
    """The arguments that an optional child is constructed from; None where they do not determine it."""
    instances = [at for at, d in enumerate(class_.drafts) if d.module in given]
    parts = [given[class_.drafts[at].module] for at in instances]
    if len(parts) < 2 or len({shape_of(p, {}) for p in parts}) > 1:
        return None
    holes: dict[int, Formal] = {}
    for column in zip(*(literals(p) for p in parts), strict=True):
        literal = column[0][0]
        values = _tagged(row[0].value for row in column)
        equal = [f for f in class_.formals if _tagged(f.values[at] for at in instances) == values]
        named = [f for f in equal if f.name == literal.hint]
        varies = len(set(values)) > 1
        if varies and not equal:
            return None
        if named or varies:
            holes[id(literal)] = (named or equal)[0]
    return holes


def _derive(class_: Class) -> None:
    """An argument that is always so many times another is written so: ``4 * width``."""
    names = {f.name for f in class_.formals} | {name for name, _ in class_.drafts[0].attributes}
    multiples = [(f, *found) for f in class_.formals if (found := _multiple(class_, f)) is not None]
    written: list[tuple[Formal, Formal]] = []
    for formal, base, scale in multiples:
        if base.name == "out_channels" and "width" not in names:
            base.name = "width"  # what comes out is a multiple of it
        class_.formals.remove(formal)
        written.append((base, Formal(base.name, formal.values, scale=scale)))
        class_.holes = {k: written[-1][1] if f is formal else f for k, f in class_.holes.items()}
    long = [f for f in class_.formals if f.name.endswith("_out_channels")]
    now = {f.name for f in class_.formals} | {name for name, _ in class_.drafts[0].attributes}
    if multiples and len(long) == 1 and "out_channels" not in now:
        long[0].name = "out_channels"  # the name that the multiple had
    for base, multiple in written:
        multiple.name = base.name


def _multiple(class_: Class, formal: Formal) -> tuple[Formal, int] | None:
    """The smallest argument that another one is a multiple of, in three cases or more that differ."""
    found: list[tuple[int, int]] = []
    for at, base in enumerate(class_.formals):
        if formal.in_construct or formal.default is not MISSING:
            continue
        if not all(type(v) is int and v > 0 for v in (*formal.values, *base.values)):
            continue
        pairs = set(zip(formal.values, base.values, strict=True))
        if len(pairs) < 3:
            continue
        scales = {Fraction(v, w) for v, w in pairs}  # type: ignore[arg-type]
        scale = scales.pop()
        if not scales and scale.denominator == 1 and scale > 1:
            found.append((int(scale), at))
    if not found:
        return None
    scale, at = max(found)
    return class_.formals[at], scale


def _take_shapes_apart(class_: Class) -> None:
    """An argument that is a tuple in which one number differs becomes that number: ``(channels, 1, 1)``."""
    for formal in list(class_.formals):
        if formal.default is not MISSING or not all(_is_shape(v) for v in formal.values):
            continue
        shapes: list[tuple[int, ...]] = list(formal.values)  # type: ignore[arg-type]
        columns = list(zip(*shapes, strict=False))
        varying = {column for column in columns if len(set(column)) > 1}
        if len({len(shape) for shape in shapes}) > 1 or len(varying) != 1:
            continue
        (column,) = varying
        number = next((f for f in class_.formals if f.values == column), None)
        if number is None:
            taken = {f.name for f in class_.formals} | {name for name, _ in class_.drafts[0].attributes}
            others = [c[0] for c in columns if c != column]
            name = _formal_name("size" if any(n != 1 for n in others) else "channels", "", taken)
            number = Formal(name, column)
            class_.formals.insert(class_.formals.index(formal), number)
        number.in_construct |= formal.in_construct
        class_.formals.remove(formal)
        shape = Formal(
            formal.name, formal.values, elements=tuple(number if c == column else c[0] for c in columns)
        )
        class_.holes = {k: shape if f is formal else f for k, f in class_.holes.items()}


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and all(type(n) is int for n in value)


def _structure(draft: Draft) -> object:
    """What instances of one class share: everything but the literals."""
    return (
        draft.source_class,
        draft.base,
        draft.has_body,
        tuple((name, shape_of(part, {})) for name, part in draft.attributes),
        tuple(draft.assignments),
        draft.gathers,
        *(_steps(body) for body in (draft, *draft.methods)),
    )


def _steps(body: Draft | Method) -> object:
    """What instances of one class share in a method: its steps, with values by number."""
    number: dict[Value, int] = {}
    for value in body.inputs:
        number[value] = len(number)
    steps = []
    for statement in body.statements:
        steps.append((shape_of(statement.expression, number), statement.results))
        for value in statement.targets:
            number[value] = len(number)
    return len(body.inputs), tuple(steps), tuple(number.get(v, -1) for v in body.outputs)


def _literals(draft: Draft) -> Iterator[tuple[Literal, object, str, bool]]:
    """(literal, default, attribute it is in, whether it is in construct), in writing order."""
    for name, part in draft.attributes:
        for literal, default in literals(part):
            yield literal, default, name, False
    for statement in [step for body in (draft, *draft.methods) for step in body.statements]:
        for literal, default in literals(statement.expression):
            yield literal, default, statement.attribute, True


def _unify(drafts: list[Draft], name: str, reserved: set[str]) -> Class:
    found = Class(name, drafts)
    by_values: dict[tuple[object, ...], Formal] = {}
    names = {name for name, _ in drafts[0].attributes} | {"self"} | reserved
    for column in zip(*(_literals(d) for d in drafts), strict=True):
        literal, default, attribute, in_construct = column[0]
        values = tuple(row[0].value for row in column)
        tagged = _tagged(values)
        if len(set(tagged)) == 1:
            continue
        formal = by_values.get(tagged)
        if formal is None:
            formal = by_values[tagged] = Formal(_formal_name(literal.hint, attribute, names), values, default)
            names.add(formal.name)
            if not any(v == default and type(v) is type(default) for v in values):
                formal.default = MISSING
        formal.in_construct |= in_construct
        found.holes[id(literal)] = formal
    found.formals = sorted(by_values.values(), key=lambda f: f.default is not MISSING)
    return found


def _tagged(values: Iterable[object]) -> tuple[object, ...]:
    """Values that are equal only when their types are too: 1 and True are not."""
    return tuple((type(v).__name__, repr(v)) for v in values)


def _formal_name(hint: str, attribute: str, taken: set[str]) -> str:
    name = identifier(hint)
    if name in taken and attribute.isidentifier():
        name = f"{attribute}_{name}"
    base, n = name, 2
    while name in taken:
        name, n = f"{base}{n}", n + 1
    return name


def _construction(class_: Class, at: int) -> Part:
    """How an owner constructs instance number `at`."""
    required = [f for f in class_.formals if f.default is MISSING]
    arguments = [
        Argument("" if len(required) <= 3 else f.name, Literal(f.values[at], f.name)) for f in required
    ]
    for formal in class_.formals:
        value = formal.values[at]
        if isinstance(value, (str, Call, Expression)):
            arguments.append(Argument(formal.name, value))
        elif formal.default is not MISSING and (formal.default is not None or value is not None):
            arguments.append(Argument(formal.name, Literal(value, formal.name), formal.default))
    return Call(class_.name, tuple(arguments))
