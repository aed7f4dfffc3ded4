"""Lowering tables, and the rule that every attribute of a source operator is read or ignored by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from ..ir import Missing, UnsupportedError

Lowering = TypeVar("Lowering", bound=Callable[..., object])

_REQUIRED = object()


class LoweringTable(Generic[Lowering]):
    """Source operator name -> how to lower it; one per family file, merged by name in one visible place.

    Args:
        framework: its name, for messages.
    """

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.renamed: dict[str, str] = {}
        self.functions: dict[str, Lowering] = {}

    def direct(self, rows: Mapping[str, str]) -> None:
        """Operators for which nothing but the name changes: source name -> ONNX name."""
        for name, target in rows.items():
            self._claim(name)
            self.renamed[name] = target

    def op(self, *names: str) -> Callable[[Lowering], Lowering]:
        """Register the decorated function as the lowering of `names`."""

        def register(function: Lowering) -> Lowering:
            for name in names:
                self._claim(name)
                self.functions[name] = function
            return function

        return register

    def include(self, *tables: LoweringTable[Lowering]) -> LoweringTable[Lowering]:
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

    def __contains__(self, name: str) -> bool:
        return name in self.renamed or name in self.functions

    def names(self) -> list[str]:
        """Every source operator with a lowering, sorted."""
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
        """Complain about uses of operators, if there are any, as `require` does of those without a lowering.

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
                hint=hint or "add a lowering in the frontend's family file (README, `Adding an operator`)",
            )

    def _claim(self, name: str) -> None:
        if name in self:
            raise ValueError(f"two lowerings claim the {self.framework} operator `{name}`")


class Attributes:
    """The attributes of one source operator. `finish` complains about those that nobody looked at.

    Args:
        values: name -> value.
        operator: the source operator, for messages.
        place: where it is used, for messages.
    """

    def __init__(self, values: Mapping[str, object], operator: str, place: str) -> None:
        self._values = dict(values)
        self._unread = set(values)
        self.operator, self.place = operator, place

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: object = _REQUIRED) -> object:
        """Read one attribute.

        Raises:
            UnsupportedError: when it is absent and there is no default.
        """
        self._unread.discard(name)
        if name not in self._values:
            if default is _REQUIRED:
                raise UnsupportedError(
                    "E203", f"expected `{self.operator}` to have `{name}`", place=self.place
                )
            return default
        return self._values[name]

    def ignore(self, *names: str) -> None:
        """Say that these attributes do not matter for what is computed."""
        self._unread.difference_update(names)

    def finish(self) -> None:
        """Check that every attribute was read or ignored.

        Raises:
            UnsupportedError: naming those that were not.
        """
        if self._unread:
            unread = ", ".join(f"`{n}`={self._values[n]!r}" for n in sorted(self._unread))
            raise UnsupportedError(
                "E202",
                f"the lowering of `{self.operator}` does not read {unread}",
                place=self.place,
                hint="read the attribute in the lowering, or ignore it by name if it changes nothing",
            )
