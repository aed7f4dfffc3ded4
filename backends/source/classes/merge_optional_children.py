"""Merges classes that differ in an optional child, such as `downsample`, or in a shortcut addition."""

from __future__ import annotations

from dataclasses import replace

from ....ir import Value
from ..class_definition import Class, ConstructorArgument
from ..definitions import Definition
from ..expressions import ANY, Expression, Literal, Part, Use, first_call
from ..names import is_identifier
from ..traversal import leave_out_absent, literals, shape_of, substitute
from .structure import structure, tag_types


def merge_optional_children(
    groups: list[list[Definition]],
) -> list[tuple[list[Definition], dict[str, dict[int, Part]]]]:
    """Merge groups that differ in one child, such as `downsample`, or a shortcut, which becomes optional.

    Returns:
        (definitions, those with everything first; optional child -> module key -> how that module constructs
        it; a shortcut is True where there is one).
    """
    merged: list[tuple[list[Definition], dict[str, dict[int, Part]]]] = [(group, {}) for group in groups]
    at = 0
    while at < len(merged):
        larger, optional = merged[at]
        partner = next(
            (
                (i, found)
                for i, (other, _) in enumerate(merged)
                if i != at
                and (found := _find_extra_child(larger[0], other[0]) or _find_shortcut(larger[0], other[0]))
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
            for definition in larger:
                _make_optional(definition, child)
        else:
            given: dict[int, Part] = {d.module: Literal(True) for d in larger}
            for definition in larger:
                _make_shortcut_optional(definition, child)
        both = {c: {**more.get(c, {}), **optional.get(c, {})} for c in {**more, **optional}}
        merged[at] = (larger + smaller, {**both, child: given})
        del merged[index]
        at = 0
    return merged


def _find_extra_child(larger: Definition, smaller: Definition) -> str | None:
    """Return the child that only `larger` has, if they differ in nothing else."""
    if larger.source_class != smaller.source_class or len(larger.attributes) != len(smaller.attributes) + 1:
        return None
    if larger.methods:
        return None
    names = [name for name, _ in smaller.attributes]
    child = next((name for name, _ in larger.attributes if name not in names), None)
    found = None if child is None else _find_step_of(larger, child)
    if child is None or found is None:
        return None
    return child if structure(_leave_out(larger, *found, child)) == structure(smaller) else None


def _leave_out(definition: Definition, at: int, value: Value, child: str = "") -> Definition:
    """Return a definition without one step and the child it calls; `value` replaces the step's result."""
    target = definition.statements[at].targets[0]
    return replace(
        definition,
        attributes=[(n, p) for n, p in definition.attributes if n != child],
        statements=[
            replace(s, expression=substitute(s.expression, target, value))
            for i, s in enumerate(definition.statements)
            if i != at
        ],
        outputs=[value if v == target else v for v in definition.outputs],
    )


_SHORTCUTS = ("shortcut", "use_shortcut", "add_input")


def _find_shortcut(larger: Definition, smaller: Definition) -> str | None:
    """Return a name for the input addition that only `larger` has, if they differ in nothing else."""
    found = _find_addition(larger)
    if found is None or larger.source_class != smaller.source_class or larger.methods:
        return None
    if structure(_leave_out(larger, *found)) != structure(smaller):
        return None
    taken = {name for name, _ in larger.attributes}
    return next((name for name in _SHORTCUTS if name not in taken), None)


def _find_addition(definition: Definition) -> tuple[int, Value] | None:
    """Return the last step that adds an input of the definition to a value, and that value."""
    for at, step in reversed(list(enumerate(definition.statements))):
        if len(step.targets) != 1 or step.expression.operator != "+":
            continue
        operands = [p.value for p in step.expression.parts if isinstance(p, Use)]
        others = [v for v in operands if v not in definition.inputs]
        if len(operands) == 2 and len(others) == 1:
            return at, others[0]
    return None


def _make_shortcut_optional(definition: Definition, flag: str) -> None:
    """Write ``x + y if self.shortcut else y``, with the flag as a constructor argument."""
    found = _find_addition(definition)
    assert found is not None
    at, value = found
    step = definition.statements[at]
    step.expression = Expression((step.expression, f" if self.{flag} else ", Use(value)), ANY)


def _find_step_of(definition: Definition, child: str) -> tuple[int, Value] | None:
    """Return the only step that calls a child on one value, and that value."""
    steps = [i for i, s in enumerate(definition.statements) if s.name == child]
    if (
        len(steps) != 1
        or not is_identifier(child)  # which an argument of the constructor is named after
        or len(definition.statements[steps[0]].targets) != 1
        or definition.statements[steps[0]].results
    ):
        return None
    call = first_call(definition.statements[steps[0]].expression)
    if call is None or len(call.arguments) != 1 or not isinstance(call.arguments[0].value, Use):
        return None
    return steps[0], call.arguments[0].value.value


def _make_optional(definition: Definition, child: str) -> None:
    """Write ``x if self.child is None else self.child(x)``, with the child as a constructor argument."""
    found = _find_step_of(definition, child)
    assert found is not None
    at, value = found
    step = definition.statements[at]
    definition.attributes = [(n, child if n == child else p) for n, p in definition.attributes]
    step.expression = Expression((Use(value), f" if self.{child} is None else ", step.expression), ANY)


def add_optional_arguments(class_: Class, optional: dict[str, dict[int, Part]]) -> None:
    """Give a class the arguments of its optional children and shortcuts; see `merge_optional_children`."""
    for child, given in optional.items():
        if all(isinstance(part, Literal) for part in given.values()):
            present = tuple(d.module in given for d in class_.instances)
            class_.arguments.append(ConstructorArgument(child, present, False, in_method=True))
            continue
        given = {module: leave_out_absent(part) for module, part in given.items()}
        holes = _find_arguments(class_, given)
        if holes is None:
            values = tuple(given.get(d.module) for d in class_.instances)
            class_.arguments.append(ConstructorArgument(child, values, None))
            continue
        class_.holes.update(holes)
        class_.branches[child] = next(given[d.module] for d in class_.instances if d.module in given)
        class_.arguments.append(
            ConstructorArgument(child, tuple(d.module in given for d in class_.instances), False)
        )


def _find_arguments(class_: Class, given: dict[int, Part]) -> dict[Literal, ConstructorArgument] | None:
    """Return the arguments that construct an optional child; None where they do not determine it."""
    instances = [at for at, d in enumerate(class_.instances) if d.module in given]
    parts = [given[class_.instances[at].module] for at in instances]
    if len(parts) < 2 or len({shape_of(p, {}) for p in parts}) > 1:
        return None
    holes: dict[Literal, ConstructorArgument] = {}
    for column in zip(*(literals(p) for p in parts), strict=True):
        literal = column[0][0]
        values = tag_types(row[0].value for row in column)
        equal = [f for f in class_.arguments if tag_types(f.values[at] for at in instances) == values]
        named = [f for f in equal if f.name == literal.hint]
        varies = len(set(values)) > 1
        if varies and not equal:
            return None
        if named or varies:
            holes[literal] = (named or equal)[0]
    return holes
