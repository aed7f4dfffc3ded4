"""Modules given as many values as came before them, as in DenseNet: ``construct(self, *inputs)``."""

from __future__ import annotations

import re

from ....ir import Value
from ..cells.cell_draft import Draft, Statement
from ..text.expressions import Argument, Call, Expression, Use, substituted, uses


def gather(drafts: list[Draft]) -> None:
    """Let modules of one source class that first join all they are given take any number of inputs.

    A layer of a dense block joins what every layer before it returned, so each has another number of inputs.
    One that is given a single value and joins nothing joins that one, if that makes it like the others.
    """
    classes: dict[str, list[Draft]] = {}
    for draft in drafts:
        if draft.has_body and draft.inputs and not any(draft.input_names) and not draft.methods:
            classes.setdefault(draft.source_class, []).append(draft)
    for members in classes.values():
        if len({len(d.inputs) for d in members}) < 2:
            continue
        joining = [d for d in members if _joins(d)]
        for draft in joining:
            cat = _call(draft.statements[0])
            assert cat is not None
            _gather(draft, cat)
        if joining:
            cat = _call(joining[0].statements[0])
            assert cat is not None
            for draft in members:
                if len(draft.inputs) == 1 and not draft.gathers:
                    _join_one(draft, cat)


def _call(statement: Statement) -> Call | None:
    parts = statement.expression.parts
    return parts[0] if len(parts) == 1 and isinstance(parts[0], Call) else None


def _joins(draft: Draft) -> bool:
    """Whether the first step joins all inputs, in order, and nothing else reads them."""
    cat = _call(draft.statements[0]) if draft.statements else None
    if len(draft.inputs) < 2 or cat is None or cat.callee != "ops.cat":
        return False
    read = [u.value for s in draft.statements for u in uses(s.expression)]
    own = [u.value for u in uses(cat)]
    return (
        own == draft.inputs
        and not any(v in draft.outputs for v in own)
        and not any(v in own for v in read[len(own) :])
    )


def _gather(draft: Draft, cat: Call) -> None:
    """One value stands for the tuple of all inputs from here on: the first's."""
    first = draft.inputs[0]
    draft.inputs, draft.input_names, draft.gathers = [first], [""], True
    arguments = (Argument("", Use(first)), *cat.arguments[1:])
    draft.statements[0].expression = Expression((Call(cat.callee, arguments),))


def _join_one(draft: Draft, cat: Call) -> None:
    """A first step that joins the only input."""
    (first,) = draft.inputs
    joined = Value(~draft.module)  # no node of the graph: the keys of those are not negative
    for statement in draft.statements:
        statement.expression = substituted(statement.expression, first, joined)
    draft.outputs = [joined if v == first else v for v in draft.outputs]
    arguments = (Argument("", Use(first)), *cat.arguments[1:])
    draft.statements.insert(0, Statement([joined], Expression((Call(cat.callee, arguments),))))
    draft.gathers = True


_STEP = re.compile(r"^(?P<left>\w+) = (?P<callee>self\.[\w.]+)\((?P<given>\w+(?:, \w+)*)\)$")
_SHORTEST = 3


def accumulated(lines: list[str]) -> list[str]:
    """Runs in which every step is given all that the steps before it gave, as a tuple that grows.

    Example:
        >>> lines = ["a = self.a(x)", "b = self.b(x, a)", "c = self.c(x, a, b)"]
        >>> for line in accumulated([*lines, "return ops.cat((x, a, b, c), axis=1)"]):
        ...     print(line)
        features = (x,)
        features += (self.a(*features),)
        features += (self.b(*features),)
        features += (self.c(*features),)
        return ops.cat(features, axis=1)
    """
    for at in range(len(lines)):
        steps, names = _run(lines[at:])
        if len(steps) < _SHORTEST:
            continue
        rest = _with_tuple(lines[at + len(steps) :], names, len(steps))
        if rest is not None:
            start = ", ".join(names[: -len(steps)])
            head = f"features = ({start},)" if len(names) == len(steps) + 1 else f"features = ({start})"
            grown = [f"features += ({callee}(*features),)" for callee in steps]
            return [*lines[:at], head, *grown, *rest]
    return lines


def _run(lines: list[str]) -> tuple[list[str], list[str]]:
    """(what is called, one a line; all names at the end) of the run that the first line begins."""
    callees: list[str] = []
    names: list[str] = []
    for line in lines:
        step = _STEP.match(line)
        given = step["given"].split(", ") if step else []
        if step is None or (callees and given != names) or step["left"] in given:
            break
        callees.append(step["callee"])
        names = [*given, step["left"]]
    return callees, names


def _with_tuple(rest: list[str], names: list[str], made: int) -> list[str] | None:
    """The lines after a run, reading the tuple; None where they read a part of it alone, or none of it."""
    everything = re.escape(", ".join(names))
    found = [re.sub(rf"(?<=\w)\({everything}\)", "(*features)", line) for line in rest]
    found = [re.sub(rf"\({everything}\)", "features", line) for line in found]
    alone = re.compile(rf"(?<![.\w])({'|'.join(names[-made:])})\b")
    taken = any(re.search(r"(?<![.\w])features\b", line) for line in rest)
    return None if taken or found == rest or any(map(alone.search, found)) else found
