"""Lowering tables: source operator name -> what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from ..ir import Missing, UnsupportedError
from .call import Call

C = TypeVar("C", bound=Call)
Result = TypeVar("Result")
Lowering = Callable[[C], Any]
"""A lowering: the function that builds what a call of an operator computes, and returns its results."""


class LoweringTable(Generic[C]):
    """Source operator name -> how to lower it; one per family file, merged by name in one visible place.

    Args:
        framework: its name, for messages.
    """

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.renamed: dict[str, str] = {}
        self.functions: dict[str, Lowering[C]] = {}

    def direct(self, rows: Mapping[str, str]) -> None:
        """Add operators that only change their names: source name -> ONNX name."""
        for name, target in rows.items():
            self._claim(name)
            self.renamed[name] = target

    def op(self, *names: str) -> Callable[[Callable[[C], Result]], Callable[[C], Result]]:
        """Register the decorated function as the lowering of `names`."""

        def register(function: Callable[[C], Result]) -> Callable[[C], Result]:
            for name in names:
                self._claim(name)
                self.functions[name] = function
            return function

        return register

    def include(self, *tables: LoweringTable[C]) -> LoweringTable[C]:
        """Add the rows of other tables.

        Raises:
            ValueError: when a name is claimed twice.
        """
        for table in tables:
            for name, target in table.renamed.items():
                self._claim(name)
                self.renamed[name] = target
            for name, function in table.functions.items():
                self._claim(name)
                self.functions[name] = function
        return self

    def lower(self, call: C) -> Any:
        """Build what a call computes; returns a value, or a list of them, as the operator has results."""
        if call.operator in self.renamed:
            return call.op(self.renamed[call.operator], *call.operands())
        return self.functions[call.operator](call)

    def __contains__(self, name: str) -> bool:
        return name in self.renamed or name in self.functions

    def names(self) -> list[str]:
        """Return every source operator with a lowering, sorted."""
        return sorted([*self.renamed, *self.functions])

    def require(
        self,
        uses: Iterable[tuple[str, str]],
        hint: str = "",
        explain: Callable[[str, list[str]], Missing] | None = None,
    ) -> None:
        """Check that every (operator, place) of a model has a lowering.

        Args:
            uses: the operators of the model and where they are.
            hint: what to do, for the message.
            explain: what to say of an operator and its places.

        Raises:
            UnsupportedError: listing all that have none, the most used first.
        """
        self.refuse(((name, place) for name, place in uses if name not in self), hint, explain)

    def refuse(
        self,
        uses: Iterable[tuple[str, str]],
        hint: str = "",
        explain: Callable[[str, list[str]], Missing] | None = None,
    ) -> None:
        """Refuse uses of operators, if there are any, as `require` refuses those without a lowering.

        Raises:
            UnsupportedError: listing all of them, the most used first.
        """
        places: dict[str, list[str]] = {}
        for name, place in uses:
            places.setdefault(name, []).append(place)
        if places:
            ordered = sorted(places.items(), key=lambda i: (-len(i[1]), i[0]))
            missing = [explain(n, p) if explain else Missing(n, tuple(p)) for n, p in ordered]
            raise UnsupportedError(
                "E201",
                f"no lowering for {len(missing)} {self.framework} operator{'s' if len(missing) > 1 else ''}",
                missing=missing,
                hint=hint or "write it in operators that have one, or add one (docs/en/guides/extending.md)",
            )

    def _claim(self, name: str) -> None:
        if name in self:
            raise ValueError(f"two lowerings claim the {self.framework} operator `{name}`")
