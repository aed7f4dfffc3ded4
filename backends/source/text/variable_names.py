"""Names the variables of a method: `x` reused along a chain, `shortcut` for what is added later."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set

from ....ir import Value
from ..definitions import Loop, Statement
from ..expressions import Expression, Use
from ..names import Names, is_generic

IDENTITY_NAMES = {
    "downsample": "identity",
    "shortcut": "shortcut",
    "skip": "shortcut",
    "residual": "residual",
}
"""Attribute -> the variable for its result, if that is added to something later."""

_CHAIN = ("x", "out", "y", "z")
_ATTENTION = ("q", "k", "v")
_LONGEST = 15
"""Most characters of an attribute's name that a variable is named after."""
_NOTHING: Set[Value] = frozenset()
_NONE: Mapping[Value, str] = {}

Reads = Callable[[Expression], list[Value]]
"""A function that returns the variables an expression reads, also through inlined expressions."""


class VariableNames:
    """Names the values of one method's steps.

    Args:
        inputs: value -> the name of the method's argument.
        reads: the variables that an expression reads.
        taken: names that no variable takes.
        wanted: names that values take where these are free.
    """

    def __init__(
        self, inputs: dict[Value, str], reads: Reads, taken: Names, wanted: Mapping[Value, str] = _NONE
    ) -> None:
        self._names, self._reads, self._taken, self._wanted = dict(inputs), reads, taken, wanted
        self._of_inputs = set(inputs.values())

    def of(self, steps: Sequence[Statement], outputs: Sequence[Value]) -> dict[Value, str]:
        """Return the name of every value; ``_`` for one that nothing reads.

        Args:
            steps: steps of the method, in order.
            outputs: what it returns.
        """
        names, last = self._names, self._last_reads(steps, outputs)
        live = {name: value for value, name in names.items() if value in last}
        for at, step in enumerate(steps):
            reads, kept = self._reads(step.expression), self._find_kept_values(step)
            dying = [names[v] for v in reads if last.get(v) == at and v in names and v not in kept]
            live = {n: v for n, v in live.items() if last[v] > at or v in kept}
            if kept is not _NOTHING:
                last |= {target: at for target in step.targets if target not in last}  # its state
            for number, target in enumerate(step.targets):
                names[target] = self._name(step, number, dying, live) if target in last else "_"
                if target in last:
                    live[names[target]] = target
        return names

    def _last_reads(self, steps: Sequence[Statement], outputs: Sequence[Value]) -> dict[Value, int]:
        """Return value -> the number of the last step that reads it; results come after the last."""
        last = {value: at for at, step in enumerate(steps) for value in self._reads(step.expression)}
        for value in outputs:
            last |= dict.fromkeys(self._reads(Expression((Use(value),))), len(steps))
        return last

    def _find_kept_values(self, step: Statement) -> Set[Value]:
        """Return what a loop reads in every turn, which its targets must not overwrite."""
        if step.branches is None or step.branches.initial is None:
            return _NOTHING
        if isinstance(step.branches, Loop):
            return set(self._reads(Expression(step.branches.given)))
        return {v for _, given in step.branches.bodies for v in self._reads(Expression(given))}

    def _name(self, step: Statement, number: int, dying: list[str], live: Container[str]) -> str:
        """Choose a name for a result: a usual one, a dying variable's, or one after the attribute."""
        attribute = next((s for s in step.attribute if isinstance(s, str)), "").strip("._")
        wanted = self._wanted.get(step.targets[number], "")
        if wanted and wanted not in live:
            return wanted
        special = IDENTITY_NAMES.get(attribute)
        if special and special not in live:
            return special
        hint = step.hints[number] if step.hints else ""
        if hint:
            return hint if hint not in live else _add_number(hint, live)
        if len(step.targets) == 1:
            named = bool(attribute) and len(attribute) <= _LONGEST and not is_generic(attribute)
            for name in dying:
                if (name in _CHAIN or name not in self._of_inputs) and name not in live:
                    return name
            if "x" not in live:
                return "x"
            if named:
                name = self._taken.variable(attribute)
                return _add_number(name, live) if name in live else name
        elif (
            len(step.targets) == len(_ATTENTION)
            and not step.hints
            and all(n not in live for n in _ATTENTION[number:])
        ):
            return _ATTENTION[number]
        return next((name for name in _CHAIN if name not in live), "") or _add_number("x", live)


def _add_number(name: str, live: Container[str]) -> str:
    n = 2
    while f"{name}{n}" in live:
        n += 1
    return f"{name}{n}"
