"""Runs statements of source text that go on by the value of a tensor, both ways."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ....ir import UnsupportedError
from .archive import Function
from .builtin_operators import RaisedError, call_operator, to_number
from .numbers import DataNumber, DataRange


@dataclass(frozen=True, slots=True)
class Returned:
    """The value that a statement returns from its function."""

    value: Any


@dataclass(slots=True)
class Scope:
    """A function that is being run, and the values of its names."""

    function: Function
    names: dict[str, Any] = field(default_factory=dict)


class RunsBothWays(Protocol):
    """An interpreter of source text that runs branches and loops on data.

    Attributes:
        bodies: bodies on data that are being run, one within the other.
    """

    bodies: int

    def run_statements(self, body: list[ast.stmt], scope: Scope) -> Returned | None:
        """Run statements; returns what they return."""
        ...

    def evaluate(self, node: ast.expr, scope: Scope) -> Any:
        """Return the value of an expression."""
        ...

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Assign a value."""
        ...

    def below(self, node: ast.stmt, scope: Scope, step: Callable[[], Any]) -> Any:
        """Return what `step` gives, called by a frame that has the place of a statement."""
        ...

    def place(self, scope: Scope, node: ast.AST | None = None) -> str:
        """Return the place of a node in the archive."""
        ...

    def unknown(self, node: ast.AST, scope: Scope) -> UnsupportedError:
        """Return the error of syntax without a meaning here."""
        ...

    def branch(self, node: ast.If, condition: DataNumber, scope: Scope) -> Returned | None:
        """Run an `if` on the value of a tensor, both ways."""
        from .branches import Body, ImpureError, branch, refusal

        def body(statements: list[ast.stmt]) -> Callable[[], Body]:
            def run() -> Body:
                inner = self.copied(scope)
                done = self.run_statements(statements, inner)
                assigned = _assigned(statements)
                names = {n: v for n, v in inner.names.items() if n in assigned or n in wanted}
                return Body(names, [] if done is None else [done.value])

            return run

        wanted = (_assigned(node.body) | _assigned(node.orelse)) & set(scope.names)
        self.bodies += 1
        try:
            found = self.below(node, scope, lambda: branch(condition, body(node.body), body(node.orelse)))
        except RaisedError:  # a check of the program: the branch that the examples take
            found = None
        except ImpureError as error:
            if condition.asked is None:
                raise refusal(str(error), self.place(scope, node)) from error
            found = None  # whether a selection by data has elements: torch may know, or assume it
        finally:
            self.bodies -= 1
        if found is None:
            taken = self.below(node, scope, lambda: bool(condition))
            return self.run_statements(node.body if taken else node.orelse, scope)
        scope.names.update(found.names)
        return Returned(found.returned[0]) if found.returned else None

    def choose(
        self, node: ast.expr, condition: DataNumber, ways: Sequence[Callable[[], Any]], scope: Scope
    ) -> Any:
        """Return the value of an expression that the value of a tensor chooses."""
        from .branches import Body, ImpureError, branch, refusal

        self.bodies += 1
        try:
            yes, no = (lambda way=way: Body({}, [way()]) for way in ways)
            return branch(condition, yes, no).returned[0]
        except (ImpureError, RaisedError) as error:
            raise refusal(str(error), self.place(scope, node)) from error
        finally:
            self.bodies -= 1

    def loop(self, node: ast.While, scope: Scope, before: Collection[str]) -> None:
        """Run a `while` on the value of a tensor.

        Args:
            node: the loop.
            scope: gets the values after the last turn.
            before: the names from before the loop, of which some turns may have been run.
        """
        for name in scope.names.keys() - before:
            del scope.names[name]

        def test(names: Mapping[str, Any]) -> Any:
            inner = self.copied(scope)
            inner.names.update(names)
            return to_number(self.evaluate(node.test, inner), bool)

        self._turns(node, scope, {}, test, lambda _: {})

    def count(self, node: ast.For, items: DataRange, scope: Scope) -> None:
        """Run a `for` over a range of which a tensor holds a bound."""
        if not isinstance(items.step, int) or items.step < 1:
            raise self.unknown(node, scope)
        number = "(number)"

        def test(names: Mapping[str, Any]) -> Any:
            return call_operator("aten", "lt", [names[number], items.stop], {})

        def after(inner: Scope) -> dict[str, Any]:
            return {number: call_operator("aten", "add", [inner.names[number], items.step], {})}

        self._turns(node, scope, {number: items.start}, test, after)
        scope.names.pop(number)

    def _turns(
        self,
        node: ast.While | ast.For,
        scope: Scope,
        further: dict[str, Any],
        test: Callable[[Mapping[str, Any]], Any],
        after: Callable[[Scope], dict[str, Any]],
    ) -> None:
        """Run the turns of a loop on data.

        Args:
            node: the loop.
            scope: gets the values after the last turn.
            further: values that the loop carries beside those of its names: a number that counts.
            test: whether there is another turn.
            after: returns `further` after a turn, of the scope in which it ran.
        """
        from .branches import ImpureError, loop, refusal

        assigned = _assigned(node.body)
        carried = {name: value for name, value in scope.names.items() if name in assigned} | further

        def turn(names: Mapping[str, Any]) -> Mapping[str, Any]:
            inner = self.copied(scope)
            inner.names.update(names)
            if isinstance(node, ast.For):
                self.assign(node.target, next(names[name] for name in further), inner)
            if self.run_statements(node.body, inner) is not None:
                raise ImpureError("it returns")
            new = after(inner)
            return {name: new[name] if name in new else inner.names[name] for name in carried}

        self.bodies += 1
        try:
            found = self.below(node, scope, lambda: loop(carried, test, turn))
        except (ImpureError, RaisedError) as error:
            raise refusal(str(error), self.place(scope, node)) from error
        finally:
            self.bodies -= 1
        scope.names.update(found)

    def copied(self, scope: Scope) -> Scope:
        """Return a scope of the same names, in which a body may assign; it may not change their values."""
        known: dict[int, Any] = {}
        return Scope(scope.function, {name: frozen(value, known) for name, value in scope.names.items()})


def _assigned(statements: list[ast.stmt]) -> set[str]:
    """Return the names that statements assign."""
    return {
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def frozen(value: Any, known: dict[int, Any]) -> Any:
    """Return a value of which a body may not change the lists and dictionaries."""
    if type(value) is list:
        return known.setdefault(id(value), _FrozenList(frozen(item, known) for item in value))
    if type(value) is dict:
        return known.setdefault(id(value), _FrozenDict({k: frozen(v, known) for k, v in value.items()}))
    return value


def _refuse(*_: Any) -> Any:
    from .branches import ImpureError

    raise ImpureError("it changes a list or dictionary from outside")


class _FrozenList(list[Any]):
    append = extend = insert = pop = reverse = sort = clear = __setitem__ = __iadd__ = _refuse  # type: ignore[assignment]


class _FrozenDict(dict[Any, Any]):
    __setitem__ = pop = clear = update = setdefault = _refuse  # type: ignore[assignment]
