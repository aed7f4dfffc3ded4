"""Evaluates source text of TorchScript: a small part of Python's syntax, whose calls are operators of torch.

Nothing of the text is compiled or executed as Python. Names resolve to values of the program, to the
archive's own functions and classes, and to operators (`builtin_operators`).
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....formats.refusals import malformed, quote
from ....ir import ModelError, UnsupportedError
from .archive import Archive, EnumMember, Function, ScriptClass
from .both_ways import Returned, RunsBothWays, Scope, frozen
from .builtin_operators import call_operator, holds_number, to_number
from .grown_lists import Rows, refused
from .impure import ImpureError
from .memory import MEMORY
from .numbers import DataNumber, DataRange, Uninitialized
from .old_versions import TYPES_OF_FILLS, as_written

if TYPE_CHECKING:
    from types import CodeType

_DEEPEST = 40
"""Calls within calls; each takes some twenty of Python, which allows a thousand."""
_LONGEST_TEXT = 1 << 16
_MOST_STEPS = 1_000_000
"""Statements that one run of a program may take."""
_MOST_OPERATORS = 30_000
"""Operators on tensors in one run; each of a trace takes up to a millisecond."""


class ScriptObject:
    """An object of a class of the archive that is no module."""

    def __init__(self, script_class: ScriptClass, attributes: dict[str, Any]) -> None:
        self.script_class, self.attributes = script_class, attributes


@dataclass(frozen=True, slots=True)
class _Operator:
    namespace: str
    name: str


class Interpreter(RunsBothWays):
    """Runs functions of an archive.

    Args:
        archive: what they come from.
        call_module: calls a method of a module of the archive: (module, method, arguments, keywords).
    """

    def __init__(self, archive: Archive, call_module: Callable[..., Any]) -> None:
        self.archive, self._call_module = archive, call_module
        self._folder = Path(archive.place).absolute()
        self._depth = self._steps = self._operators = self.bodies = 0
        self._endless = ""

    def call(self, function: Function, arguments: Iterable[Any], keywords: dict[str, Any]) -> Any:
        """Return what a function gives for arguments; a method's first is its object.

        Raises:
            ModelError: where the text breaks the language.
            UnsupportedError: for an operator that is not torch's, or syntax without a meaning here.
        """
        scope = Scope(function)
        scope.names = self._bound(scope, list(arguments), keywords)
        if self._depth == 0:
            if self._endless:  # other ways to trace it take as long
                raise malformed("expected a program that ends", self._endless)
            self._steps = self._operators = 0
            MEMORY.clear()
        if self._depth >= _DEEPEST:
            raise malformed("expected calls that end", self.place(scope))
        self._depth += 1
        try:
            found = self.run_statements(function.node.body, scope)
        except RecursionError:
            raise malformed("expected calls that end", self.place(scope)) from None
        finally:
            self._depth -= 1
        return found.value if isinstance(found, Returned) else None

    def _bound(self, scope: Scope, given: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
        stated = scope.function.node.args
        names = [parameter.arg for parameter in stated.args]
        if len(given) > len(names) or not keywords.keys() <= set(names[len(given) :]):
            raise malformed(f"expected the arguments {', '.join(names)}, got others", self.place(scope))
        bound = dict(zip(names, given, strict=False)) | keywords
        for name, default in zip(names[len(names) - len(stated.defaults) :], stated.defaults, strict=True):
            if name not in bound:
                bound[name] = self.evaluate(default, scope)
        for name in names:
            if name not in bound:
                raise malformed(f"expected the argument {quote(name)}", self.place(scope))
        return bound

    @property
    def is_done(self) -> bool:
        """Whether no function of the archive is being run."""
        return self._depth == 0

    # -- statements ------------------------------------------------------------------------------------

    def run_statements(self, body: list[ast.stmt], scope: Scope) -> Returned | None:
        """Run statements until one returns."""
        for statement in body:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise self._without_end(statement, scope)
            done = self._statement(statement, scope)
            if done is not None:
                return done
        return None

    def _without_end(self, node: ast.AST, scope: Scope) -> ModelError:
        self._endless = self.place(scope, node)
        return malformed("expected a program that ends", self._endless)

    def _statement(self, node: ast.stmt, scope: Scope) -> Returned | None:
        if isinstance(node, ast.Assign):
            value = self._at(node, node.value, scope)
            for target in node.targets:
                self.assign(target, value, scope)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self._at(node, node.value, scope), scope)
        elif isinstance(node, ast.Expr):
            self._at(node, node.value, scope)
        elif isinstance(node, ast.Return):
            value = None if node.value is None else self._at(node, node.value, scope)
            if self._depth == 1:
                self._read(value, node, scope)
            return Returned(value)
        elif isinstance(node, ast.If):
            holds = self._truth(node, node.test, scope)
            if isinstance(holds, DataNumber):
                return self.branch(node, holds, scope)
            return self.run_statements(node.body if holds else node.orelse, scope)
        elif isinstance(node, ast.For):
            items = self._at(node, node.iter, scope)
            if isinstance(items, DataRange):
                return self.count(node, items, scope)
            for item in self._items(items, node, scope):
                self.assign(node.target, item, scope)
                done = self.run_statements(node.body, scope)
                if done is not None:
                    return done
        elif isinstance(node, ast.While):
            before = set(scope.names)
            while True:
                holds = self._truth(node, node.test, scope)
                if isinstance(holds, DataNumber):
                    return self.loop(node, scope, before)
                if not holds:
                    break
                done = self.run_statements(node.body, scope)
                if done is not None:
                    return done
        elif isinstance(node, ast.With):
            return self._with(node, scope)
        elif not isinstance(node, ast.Pass):
            raise self.unknown(node, scope)
        return None

    def _read(self, value: Any, node: ast.stmt, scope: Scope) -> None:
        """Make sure that tensors which the program gives away hold what it wrote into them."""
        import torch
        from torch.utils import _pytree as pytree

        try:
            leaves = pytree.tree_leaves(value)
            if any(isinstance(item, Rows) for item in leaves):
                raise refused("its caller")
            MEMORY.read([item for item in leaves if isinstance(item, torch.Tensor)])
        except UnsupportedError as error:
            error.place = self.place(scope, node)
            raise

    def _with(self, node: ast.With, scope: Scope) -> Returned | None:
        import torch

        contexts: Any = [self._at(node, item.context_expr, scope) for item in node.items]
        for context in contexts:
            name = context.script_class.name if isinstance(context, ScriptObject) else "?"
            if name not in ("no_grad", "inference_mode"):
                raise self.unknown(node, scope)
        with torch.no_grad() if contexts else nullcontext():
            return self.run_statements(node.body, scope)

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Assign a value to a name, an attribute, an item, or its parts to several."""
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = list(self._items(value, target, scope))
            if len(items) != len(target.elts):
                raise malformed(f"expected {len(target.elts)} values", self.place(scope, target))
            for part, item in zip(target.elts, items, strict=True):
                self.assign(part, item, scope)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(self.evaluate(target.value, scope), target.attr, value, target, scope)
        elif isinstance(target, ast.Subscript):
            self.evaluate(target.value, scope)[self.evaluate(target.slice, scope)] = value
        else:
            raise self.unknown(target, scope)

    def _set_attribute(self, held: Any, name: str, value: Any, node: ast.AST, scope: Scope) -> None:
        if self.bodies:
            raise ImpureError(f"it assigns the attribute `{name}`")
        if isinstance(held, ScriptObject):
            held.attributes[name] = value
        elif hasattr(type(held), "set_script_attribute"):
            held.set_script_attribute(name, value)
        else:
            raise self.unknown(node, scope)

    def _at(self, node: ast.stmt, expression: ast.expr, scope: Scope) -> Any:
        """Return the value of an expression, computed below a frame that has the place of its line."""
        return self.below(node, scope, lambda: self.evaluate(expression, scope))

    def _truth(self, node: ast.stmt, test: ast.expr, scope: Scope) -> bool | DataNumber:
        return self.below(node, scope, lambda: to_number(self.evaluate(test, scope), bool))

    def below(self, node: ast.stmt, scope: Scope, step: Callable[[], Any]) -> Any:
        """Return what `step` gives, called by a frame that has the place of a statement."""
        calling = _calling(f"{self._folder}/{scope.function.file}", node.lineno)
        return eval(calling, {"step": step})  # noqa: S307 - our own `step()`

    # -- expressions -----------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr, scope: Scope) -> Any:
        """Return the value of an expression."""
        evaluate = _EXPRESSIONS.get(type(node))
        if evaluate is None:
            raise self.unknown(node, scope)
        return evaluate(self, node, scope)

    def _constant(self, node: ast.Constant, scope: Scope) -> Any:
        if node.value is ... or isinstance(node.value, (bytes, complex)):
            raise self.unknown(node, scope)
        return node.value

    def _name(self, node: ast.Name, scope: Scope) -> Any:
        if node.id in scope.names:
            return scope.names[node.id]
        if node.id in _NUMBERS:
            return _NUMBERS[node.id]
        raise malformed(f"expected a name of the program, got {quote(node.id)}", self.place(scope, node))

    def _list(self, node: ast.List, scope: Scope) -> list[Any]:
        return [self.evaluate(item, scope) for item in node.elts]

    def _tuple(self, node: ast.Tuple, scope: Scope) -> tuple[Any, ...]:
        return tuple(self.evaluate(item, scope) for item in node.elts)

    def _dict(self, node: ast.Dict, scope: Scope) -> dict[Any, Any]:
        if any(key is None for key in node.keys):
            raise self.unknown(node, scope)
        return {
            self.evaluate(key, scope): self.evaluate(value, scope)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        held, key = self.evaluate(node.value, scope), self.evaluate(node.slice, scope)
        if isinstance(held, list) and any(isinstance(item, Rows) for item in held):
            error = refused(f"`{ast.unparse(node)[:80]}`")
            error.place = self.place(scope, node)
            raise error
        if isinstance(key, DataNumber):
            return call_operator("aten", "__getitem__", [held, key], {})
        try:
            return held[key]
        except (LookupError, TypeError) as error:
            raise malformed("expected an item that is there", self.place(scope, node)) from error

    def _slice(self, node: ast.Slice, scope: Scope) -> slice:
        parts = [node.lower, node.upper, node.step]
        return slice(*(None if part is None else self.evaluate(part, scope) for part in parts))

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> Any:
        if isinstance(node.op, ast.USub):
            return -self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return call_operator("aten", "__not__", [self.evaluate(node.operand, scope)], {})
        raise self.unknown(node, scope)

    def _choice(self, node: ast.IfExp, scope: Scope) -> Any:
        holds = to_number(self.evaluate(node.test, scope), bool)
        if not isinstance(holds, DataNumber):
            return self.evaluate(node.body if holds else node.orelse, scope)
        ways = [
            lambda part=part: self.evaluate(part, self.copied(scope)) for part in (node.body, node.orelse)
        ]
        return self.choose(node, holds, ways, scope)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        dotted = _dotted(node)
        first = dotted.partition(".")[0]
        if first not in scope.names and first in _ROOTS:
            return self._global(dotted, node, scope)
        found = self._attribute_of(self.evaluate(node.value, scope), node.attr, node, scope)
        return frozen(found, {}) if self.bodies else found

    def _global(self, dotted: str, node: ast.AST, scope: Scope) -> Any:
        first, _, rest = dotted.partition(".")
        if first == "CONSTANTS":
            number = rest.removeprefix("c")
            if not (number.isascii() and number.isdigit()) or int(number) >= len(self.archive.constants):
                raise malformed(f"expected a constant, got {quote(dotted)}", self.place(scope, node))
            return self.archive.constants[int(number)]
        if first == "torch":
            return _Operator("aten", rest)
        if first == "ops":
            return _Operator(*rest.split(".", 1)) if "." in rest else _Operator(rest, "")
        found = self.archive.find(dotted)
        if found is None:
            held, _, name = dotted.rpartition(".")
            of_class = self.archive.find(held)
            if isinstance(of_class, ScriptClass) and name == "__new__":
                return of_class
            if isinstance(of_class, ScriptClass) and (name in of_class.members or name in of_class.methods):
                return of_class.members.get(name) or of_class.methods[name]
            raise malformed(f"expected a function or class, got {quote(dotted)}", self.place(scope, node))
        return found

    def _attribute_of(self, held: Any, name: str, node: ast.AST, scope: Scope) -> Any:
        fields: tuple[str, ...] = tuple(getattr(held, "_fields", ()))
        if isinstance(held, ScriptObject):
            if name in held.attributes:
                return held.attributes[name]
        elif isinstance(held, EnumMember):
            if name in ("name", "value"):
                return held.name if name == "name" else held.value
        elif name in fields:
            return held[fields.index(name)]
        elif hasattr(type(held), "script_attribute"):
            try:
                return held.script_attribute(name)
            except KeyError:
                pass
        raise malformed(f"expected an attribute {quote(name)}, got none", self.place(scope, node))

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id not in scope.names:
            special = _SPECIAL.get(node.func.id)
            if special is None:
                raise self.unknown(node, scope)
            return special(self, node, scope)
        if any(keyword.arg is None for keyword in node.keywords):
            raise self.unknown(node, scope)
        method = self._method(node.func, scope)
        arguments = [self.evaluate(item, scope) for item in node.args]
        keywords = {str(k.arg): self.evaluate(k.value, scope) for k in node.keywords}
        if method is not None:
            return self._call_method(*method, arguments, keywords, node, scope)
        called = self.evaluate(node.func, scope)
        if isinstance(called, _Operator):
            return self._operator(called, arguments, keywords, node, scope)
        if isinstance(called, Function):
            return self.call(called, arguments, keywords)
        if isinstance(called, ScriptClass):
            return self._made(called, arguments, keywords, node, scope)
        raise malformed("expected a function", self.place(scope, node))

    def _method(self, function: ast.expr, scope: Scope) -> tuple[Any, str] | None:
        """Return (object, name) where a method of a value is called."""
        if not isinstance(function, ast.Attribute):
            return None
        first = _dotted(function).partition(".")[0]
        if first in _ROOTS and first not in scope.names:
            return None
        return self.evaluate(function.value, scope), function.attr

    def _call_method(
        self, held: Any, name: str, given: list[Any], keywords: dict[str, Any], node: ast.AST, scope: Scope
    ) -> Any:
        if isinstance(held, ScriptObject):
            method = held.script_class.methods.get(name)
            if method is not None:
                return self.call(method, [held, *given], keywords)
        elif hasattr(type(held), "script_attribute"):
            return self._call_module(held, name, given, keywords)
        raise malformed(f"expected a method {quote(name)}, got none", self.place(scope, node))

    def _operator(
        self, called: _Operator, given: list[Any], keywords: dict[str, Any], node: ast.AST, scope: Scope
    ) -> Any:
        if called == _Operator("aten", "device"):
            import torch

            return torch.device("cpu")  # whatever device the archive was made on
        if keywords.get("device") is not None:
            keywords = keywords | {"device": None}
        self._operators += any(map(holds_number, given))
        if self._operators > _MOST_OPERATORS:
            raise self._without_end(node, scope)
        try:
            if called.namespace == "aten" and self.archive.version < TYPES_OF_FILLS:
                given, keywords = as_written(self.archive.version, called.name, given, keywords)
            return call_operator(called.namespace, called.name, given, keywords)
        except UnsupportedError as error:
            error.place = error.place or self.place(scope, node)
            raise

    def _made(
        self, kind: ScriptClass, given: list[Any], keywords: dict[str, Any], node: ast.AST, scope: Scope
    ) -> Any:
        if kind.base == "NamedTuple":
            if not all(
                name.isidentifier() and not name.startswith("_") for name in (kind.name, *kind.fields)
            ):
                raise self.unknown(node, scope)
            return collections.namedtuple(kind.name, kind.fields)(*given, **keywords)
        if kind.base == "":
            return ScriptObject(kind, {})  # `__init__` follows as a call of its own
        raise self.unknown(node, scope)

    # -- calls that are no functions ---------------------------------------------------------------------

    def _annotate(self, node: ast.Call, scope: Scope) -> Any:
        stated, value = node.args[0], self.evaluate(node.args[1], scope)
        if isinstance(stated, ast.Name) and stated.id in _IMPLICIT and holds_number(value):
            return call_operator("aten", _IMPLICIT[stated.id], [value], {})  # of a tensor, by itself
        return value

    def _print(self, node: ast.Call, scope: Scope) -> None:
        for item in node.args:  # nothing is printed, as by the graph that is traced
            self.evaluate(item, scope)

    def _uninitialized(self, node: ast.Call, scope: Scope) -> Uninitialized:
        del node, scope
        return Uninitialized()

    def _getattr(self, node: ast.Call, scope: Scope) -> Any:
        name = node.args[1]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            raise self.unknown(node, scope)
        return self._attribute_of(self.evaluate(node.args[0], scope), name.value, node, scope)

    def _range(self, node: ast.Call, scope: Scope) -> Any:
        bounds = [to_number(self.evaluate(item, scope), int) for item in node.args]
        of_data = DataRange.of(bounds)
        if of_data is not None:
            return of_data
        return range(*(int(bound) for bound in bounds))

    def _isinstance(self, node: ast.Call, scope: Scope) -> bool:
        import torch

        kinds: dict[str, Any] = {"Tensor": torch.Tensor, "int": int, "float": float, "bool": bool, "str": str}
        named = node.args[1]
        kind = kinds.get(named.id) if isinstance(named, ast.Name) else None
        outer = (
            named.value.id if isinstance(named, ast.Subscript) and isinstance(named.value, ast.Name) else ""
        )
        kind = kind or {"List": list, "Tuple": tuple, "Dict": dict}.get(outer)
        if kind is None:
            raise self.unknown(node, scope)
        return isinstance(self.evaluate(node.args[0], scope), kind)

    def _number(self, node: ast.Call, scope: Scope) -> Any:
        assert isinstance(node.func, ast.Name)
        kind = {"int": int, "float": float, "bool": bool}[node.func.id]
        return to_number(self.evaluate(node.args[0], scope), kind)

    def _text(self, node: ast.Call, scope: Scope) -> str:
        return str(self.evaluate(node.args[0], scope))[:_LONGEST_TEXT]

    # -- places and refusals -------------------------------------------------------------------------------

    def _items(self, value: Any, node: ast.AST, scope: Scope) -> Iterable[Any]:
        import torch

        if isinstance(value, torch.Tensor):
            return value.unbind(0)
        if isinstance(value, (list, tuple, range, str, dict)):
            return value
        raise malformed("expected several values", self.place(scope, node))

    def place(self, scope: Scope, node: ast.AST | None = None) -> str:
        """Return the file and line of a node, or of the function."""
        line = getattr(node, "lineno", scope.function.node.lineno)
        return f"{self.archive.place}/{scope.function.file}:{line}"

    def unknown(self, node: ast.AST, scope: Scope) -> UnsupportedError:
        """Return the error of syntax that has no meaning here."""
        return UnsupportedError(
            "E203",
            f"the program has `{ast.unparse(node).splitlines()[0][:80]}`, which is not read",
            place=self.place(scope, node),
            hint="export the module that was scripted: name it as file.py:Net",
        )


_ROOTS = frozenset({"torch", "ops", "__torch__", "CONSTANTS"})
_IMPLICIT = {"int": "IntImplicit", "float": "FloatImplicit", "number": "ScalarImplicit"}
"""Type of an annotation -> the conversion of a tensor that TorchScript prints as such."""
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}

_EXPRESSIONS: dict[type[ast.expr], Callable[[Interpreter, Any, Scope], Any]] = {
    ast.Constant: Interpreter._constant,
    ast.Name: Interpreter._name,
    ast.List: Interpreter._list,
    ast.Tuple: Interpreter._tuple,
    ast.Dict: Interpreter._dict,
    ast.Subscript: Interpreter._subscript,
    ast.Slice: Interpreter._slice,
    ast.UnaryOp: Interpreter._unary,
    ast.IfExp: Interpreter._choice,
    ast.Attribute: Interpreter._attribute,
    ast.Call: Interpreter._call,
}

_SPECIAL: dict[str, Callable[[Interpreter, ast.Call, Scope], Any]] = {
    "annotate": Interpreter._annotate,
    "unchecked_cast": Interpreter._annotate,
    "print": Interpreter._print,
    "uninitialized": Interpreter._uninitialized,
    "getattr": Interpreter._getattr,
    "range": Interpreter._range,
    "isinstance": Interpreter._isinstance,
    "int": Interpreter._number,
    "float": Interpreter._number,
    "bool": Interpreter._number,
    "str": Interpreter._text,
}
"""Calls whose arguments are types or names, or that TorchScript prints as Python's."""


def _dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` of a chain of attributes of a name; empty for another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


@lru_cache(maxsize=65536)
def _calling(file: str, line: int) -> CodeType:
    return compile("\n" * min(line - 1, 1_000_000) + "step()", file, "eval")
