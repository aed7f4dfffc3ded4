"""Runs statements of source text that go on by the value of a tensor, both ways."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ....ir import UnsupportedError
from .archive import Function
from .builtin_operators import RaisedError, call_operator, to_number
from .grown_lists import ADVICE, Growing, Rows, Watched
from .impure import ImpureError
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
        from .branches import Body, branch, refusal

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
                raise refusal(error, self.place(scope, node)) from error
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
        from .branches import Body, branch, refusal

        self.bodies += 1
        try:
            yes, no = (lambda way=way: Body({}, [way()]) for way in ways)
            return branch(condition, yes, no).returned[0]
        except (ImpureError, RaisedError) as error:
            raise refusal(error, self.place(scope, node)) from error
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
        number = f"(number {self.bodies})"  # no name of Python's, and none of a loop around this one

        def test(names: Mapping[str, Any]) -> Any:
            return call_operator("aten", "lt", [names[number], items.stop], {})

        def after(inner: Scope) -> dict[str, Any]:
            return {number: call_operator("aten", "add", [inner.names[number], items.step], {})}

        self._turns(node, scope, {number: items.start}, test, after, items)
        scope.names.pop(number)

    def _turns(
        self,
        node: ast.While | ast.For,
        scope: Scope,
        further: dict[str, Any],
        test: Callable[[Mapping[str, Any]], Any],
        after: Callable[[Scope], dict[str, Any]],
        items: DataRange | None = None,
    ) -> None:
        """Run the turns of a loop on data.

        Args:
            node: the loop.
            scope: gets the values after the last turn.
            further: values that the loop carries beside those of its names: a number that counts.
            test: whether there is another turn.
            after: returns `further` after a turn, of the scope in which it ran.
            items: the numbers of a `for`.
        """
        from .branches import loop, refusal

        assigned = _assigned(node.body)
        before = {name: value for name, value in scope.names.items() if name in assigned}
        lists = {name: value for name, value in before.items() if type(value) is list}
        carried = {name: value for name, value in before.items() if name not in lists} | further
        grown: list[tuple[list[Any], Rows]] = []

        def run(names: Mapping[str, Any], known: dict[int, Any]) -> Scope:
            inner = self.copied(scope, known, in_loop=True)
            inner.names.update(names)
            if isinstance(node, ast.For):
                self.assign(node.target, next(names[name] for name in further), inner)
            if self.run_statements(node.body, inner) is not None:
                raise ImpureError("it returns")
            for name, value in lists.items():
                if inner.names[name] is not known[id(value)]:
                    raise ImpureError(f"the list `{name}` grows in it", ADVICE)
            return inner

        def turn(names: Mapping[str, Any]) -> Mapping[str, Any]:
            known: dict[int, Any] = {id(each): Growing() for each, _ in grown}
            inner = run(names, known)
            for each, rows in grown:
                _write_row(rows, next(names[name] for name in further), known[id(each)].items)
            new = after(inner)
            return {name: new[name] if name in new else inner.names[name] for name in carried}

        self.bodies += 1
        try:
            if items is not None:
                grown += self._grown_lists(lambda known: run(further, known), items, scope)
            found = self.below(node, scope, lambda: loop(carried, test, turn))
        except (ImpureError, RaisedError) as error:
            raise refusal(error, self.place(scope, node)) from error
        finally:
            self.bodies -= 1
        scope.names.update(found)
        for each, rows in grown:
            each.append(rows)

    def _grown_lists(
        self, run: Callable[[dict[int, Any]], Scope], items: DataRange, scope: Scope
    ) -> list[tuple[list[Any], Rows]]:
        """Return the lists that each turn makes longer by one tensor, each with rows of zeros for all turns.

        Args:
            run: runs the first turn, with what stands for lists by their identity.
            items: the numbers of the turns.
            scope: around the loop.
        """
        from .branches import Body, try_turn

        lists = {id(value): value for value in scope.names.values() if type(value) is list}
        if not lists:
            return []
        tried: dict[int, Any] = {}

        def once() -> Body:
            tried.clear()
            tried.update({key: Watched(value) for key, value in lists.items()})
            run(tried)
            return Body({}, [])

        try_turn(once)
        found: list[tuple[list[Any], Rows]] = []
        for key, each in lists.items():
            new = tried[key][len(each) :]
            if not new:
                continue
            if self.bodies > 1:
                raise ImpureError("a list grows in it, within another branch or loop on data", ADVICE)
            if len(new) > 1 or not hasattr(new[0], "new_zeros") or (items.start, items.step) != (0, 1):
                raise ImpureError("a list grows in it by other than one tensor a turn", ADVICE)
            sizes = [items.stop, *new[0].shape]
            rows = call_operator("aten", "zeros", [sizes], {"dtype": new[0].dtype})
            found.append((each, Rows(rows, items.stop)))
        return found

    def copied(self, scope: Scope, known: dict[int, Any] | None = None, *, in_loop: bool = False) -> Scope:
        """Return a scope of the same names, in which a body may assign; it may not change their values.

        Args:
            scope: the scope.
            known: identity of a list or dictionary -> what stands for it; gets more.
            in_loop: whether the body is of a loop.
        """
        known = {} if known is None else known
        names = {name: frozen(value, known, in_loop=in_loop) for name, value in scope.names.items()}
        return Scope(scope.function, names)


def _assigned(statements: list[ast.stmt]) -> set[str]:
    """Return the names that statements assign."""
    return {
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _write_row(rows: Rows, number: Any, items: Sequence[Any]) -> None:
    """Write what a turn appended to a list into its row."""
    if len(items) != 1 or (items[0].dtype, items[0].shape) != (rows.tensor.dtype, rows.tensor.shape[1:]):
        raise ImpureError("a list grows in it by other than one tensor of one shape a turn", ADVICE)
    call_operator(
        "aten", "copy_", [call_operator("aten", "select", [rows.tensor, 0, number], {}), items[0]], {}
    )


def frozen(value: Any, known: dict[int, Any], *, in_loop: bool = False) -> Any:
    """Return a value whose lists and dictionaries refuse the changes of a body; see `copied`."""
    if type(value) in (list, Watched):
        kind = _ListOfLoop if in_loop else _FrozenList
        return known.setdefault(id(value), kind(frozen(item, known, in_loop=in_loop) for item in value))
    if type(value) is dict:
        items = {k: frozen(v, known, in_loop=in_loop) for k, v in value.items()}
        return known.setdefault(id(value), _FrozenDict(items))
    return value


_ADVICE_OF_BRANCHES = (
    "let each branch assign a tensor to one name, and append it behind the `if`; or export the Python module"
)


def _refuse(held: Any, *_: Any) -> Any:
    hint = ADVICE if isinstance(held, _ListOfLoop) else _ADVICE_OF_BRANCHES
    raise ImpureError("it changes a list or dictionary from outside", hint)


class _FrozenList(list[Any]):
    append = extend = insert = pop = reverse = sort = clear = __setitem__ = __iadd__ = _refuse  # type: ignore[assignment]


class _ListOfLoop(_FrozenList):
    """A list around a loop on data."""


class _FrozenDict(dict[Any, Any]):
    __setitem__ = pop = clear = update = setdefault = _refuse  # type: ignore[assignment]
