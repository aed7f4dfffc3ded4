"""What only some instances of a class have: a child such as `downsample`, or the addition of the input."""

from __future__ import annotations

from dataclasses import replace

from ....ir import Value
from ..cells.cell_draft import Draft
from ..cells.constructor_arguments import Class, Formal, structure, tagged
from ..text.expressions import ANY, Call, Expression, Literal, Part, Use, literals, shape_of, substituted


def with_optional_children(
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
        both = {c: {**more.get(c, {}), **optional.get(c, {})} for c in {**more, **optional}}
        merged[at] = (larger + smaller, {**both, child: given})
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
    return child if structure(_without(larger, *found, child)) == structure(smaller) else None


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
    if structure(_without(larger, *found)) != structure(smaller):
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
    steps = [i for i, s in enumerate(draft.statements) if s.name == child]
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


def add_optional(class_: Class, optional: dict[str, dict[int, Part]]) -> None:
    """Give a class the arguments of its optional children and shortcuts; see `with_optional_children`."""
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
        values = tagged(row[0].value for row in column)
        equal = [f for f in class_.formals if tagged(f.values[at] for at in instances) == values]
        named = [f for f in equal if f.name == literal.hint]
        varies = len(set(values)) > 1
        if varies and not equal:
            return None
        if named or varies:
            holes[id(literal)] = (named or equal)[0]
    return holes
