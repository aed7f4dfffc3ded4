"""Runs a model with its user's methods rewritten so that a tape sees every call and operator in them."""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from ...frontends.constructions import constructions_noted
from ...frontends.whose_code import is_users_file
from .hosts import Host
from .tape import Site, Tape, leaves

_HOOK = "__regraft__"
"""Name of the recorder in rewritten methods, a free variable of theirs."""

_BINARY: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "add"),
    ast.Sub: ("-", "sub"),
    ast.Mult: ("*", "mul"),
    ast.Div: ("/", "truediv"),
    ast.FloorDiv: ("//", "floordiv"),
    ast.Mod: ("%", "mod"),
    ast.Pow: ("**", "pow"),
    ast.MatMult: ("@", "matmul"),
    ast.BitAnd: ("&", "and_"),
    ast.BitOr: ("|", "or_"),
    ast.BitXor: ("^", "xor"),
}
_COMPARED: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_UNARY: dict[type[ast.AST], str] = {ast.USub: "-x", ast.Invert: "~"}

OPERATORS: dict[str, Callable[..., Any]] = {
    **{sign: getattr(operator, name) for sign, name in _BINARY.values()},
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "-x": operator.neg,
    "~": operator.invert,
    "[]": operator.getitem,
}
"""Sign -> the function."""

_VIEWS = ("T", "mT", "H", "real", "imag")
"""Attributes of tensors that are tensors."""

_RAW = ("super", "locals", "vars", "globals", "eval", "exec", "isinstance", "len", "range", "print", "int")
"""Functions that a frame must call itself, or that take no part."""


class Recorder:
    """The recorder that rewritten methods call in place of functions and operators.

    Args:
        tape: what receives the calls.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape, self.host = tape, tape.host
        self.sites: list[Site] = []
        self._bare: dict[int, int] = {}
        self._functions: dict[Any, Any] = {}
        self._stack: list[Any] = []
        self._off = 0

    def call(self, site: int, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function or a layer."""
        inner = self._inside(function)
        if inner is not None:
            return inner(*args, **kwargs)
        if isinstance(function, self.host.base()):
            if self._is_open(function):
                return function(*args, **kwargs)
            return self._recorded(site, "layer", function, type(function).__name__, args, kwargs)
        return self._recorded(site, "call", function, getattr(function, "__name__", ""), args, kwargs)

    def method(self, site: int, receiver: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of a tensor, or anything else that an attribute is."""
        if not self.host.is_tensor(receiver):
            return self.call(self._without_receiver(site), getattr(receiver, name), *args, **kwargs)

        def method(x: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(x, name)(*args, **kwargs)

        return self._recorded(site, "method", method, name, (receiver, *args), kwargs)

    def _without_receiver(self, site: int) -> int:
        """The site of a call of what a module holds, whose name is no operand."""
        if site not in self._bare:
            known = self.sites[site]
            self._bare[site] = len(self.sites)
            self.sites.append(replace(known, operands=known.operands[1:]))
        return self._bare[site]

    def view(self, site: int, value: Any, name: str) -> Any:
        """Read an attribute that is a tensor where its owner is one."""
        if not self.host.is_tensor(value):
            return getattr(value, name)
        return self._recorded(site, "method", lambda x: getattr(x, name), name, (value,), {})

    def operator(self, site: int, sign: str, *operands: Any) -> Any:
        """Apply an operator."""
        return self._recorded(site, "operator", OPERATORS[sign], sign, operands, {})

    def in_place(self, site: int, sign: str, left: Any, right: Any) -> Any:
        """Apply an operator of an assignment."""
        function = getattr(operator, "i" + OPERATORS[sign].__name__.lstrip("_"))
        known = self.tape.known(((left, right), {}))
        result = function(left, right)
        self._put(site, "operator", OPERATORS[sign], sign, known, result, (left, right))
        return result

    def assign(self, site: int, target: Any, index: Any, value: Any) -> Any:
        """Assign to a part of a tensor; return the tensor."""
        known = self.tape.known(((target, index, value), {}))
        target[index] = value

        def assigned(x: Any, index: Any, value: Any) -> Any:
            x[index] = value
            return x

        if self.host.is_tensor(target):
            self._put(site, "operator", assigned, "[]=", known, target, (target,))
        return target

    def bound(self, value: Any, one: bool, *names: str) -> Any:
        """Note the name that a value gets, or those that its items get; return the value."""
        items = (value,) if one else value if isinstance(value, (list, tuple)) else ()
        for name, item in zip(names, items, strict=False) if not self._off else ():
            self.tape.name(name, item, self._stack[-1] if self._stack else None)
        return value

    def returned(self, site: int, value: Any) -> Any:
        """Note where a method ends; return what it returns."""
        if not self._off:
            self.tape.end = self.sites[site]
        return value

    @staticmethod
    def slice(*bounds: Any) -> slice:
        """Return a slice."""
        return slice(*bounds)

    def _recorded(
        self, site: int, kind: str, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        known = self.tape.known((args, kwargs))  # before it, as it may change them
        self._off += 1
        try:
            result = function(*args, **kwargs)
        finally:
            self._off -= 1
        self._put(site, kind, function, name, known, result, (args, kwargs))
        return result

    def _put(
        self, site: int, kind: str, function: Any, name: str, known: Any, result: Any, args: tuple[Any, ...]
    ) -> None:
        if self._off or not self._stack:
            return
        if not any(map(self.host.is_tensor, leaves((args, result)))):
            return
        module = self._stack[-1]
        self.tape.put(self.sites[site], kind, function, name, known, result, module)

    def _is_open(self, module: Any) -> bool:
        return getattr(getattr(type(module), self.host.method, None), "_regraft_open", False)

    def _inside(self, function: Any) -> Any:
        """The rewritten form of a user's own function or method; None for anything else."""
        bound = function.__self__ if isinstance(function, MethodType) else None
        plain = function.__func__ if isinstance(function, MethodType) else function
        if not isinstance(plain, FunctionType) or getattr(plain, "_regraft_open", False):
            return None
        if not is_users_file(plain.__code__.co_filename):
            return None
        if plain not in self._functions:
            self._functions[plain] = self.rewritten(plain)
        made = self._functions[plain]
        return made if bound is None or made is None else MethodType(made, bound)

    def rewritten(self, function: Any, owner: str = "") -> Any:
        """A function with every call and operator in it given to this recorder; None where that cannot be."""
        if hasattr(function, "__wrapped__") or inspect.isgeneratorfunction(function):
            return None
        found = _definition(function)
        if found is None:
            return None
        definition, margin = found
        code = function.__code__
        rewriting = _Rewriting(self.sites, code.co_filename, owner, margin)
        definition.decorator_list, definition.returns = [], None
        definition.args.defaults = [ast.Constant(None) for _ in definition.args.defaults]
        definition.args.kw_defaults = [d and ast.Constant(None) for d in definition.args.kw_defaults]
        for argument in ast.walk(definition.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        definition.body = [rewriting.visit(statement) for statement in definition.body]
        inner: ast.stmt = definition
        if owner:  # names with two underscores are those of a class
            inner = ast.parse(f"class {owner}: pass").body[0]
            assert isinstance(inner, ast.ClassDef)
            inner.body = [definition]
        outer = ast.parse(f"def outer({', '.join([_HOOK, *code.co_freevars])}): pass")
        assert isinstance(outer.body[0], ast.FunctionDef)
        outer.body[0].body = [inner]
        try:
            compiled = compile(ast.fix_missing_locations(outer), code.co_filename, "exec")
        except (SyntaxError, ValueError):
            return None
        inside = _code_named(compiled, definition.name)
        if inside is None:
            return None
        cells: dict[str, Any] = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        cells[_HOOK] = CellType(self)
        if any(name not in cells for name in inside.co_freevars):
            return None
        closure = tuple(cells[name] for name in inside.co_freevars)
        made = FunctionType(inside, function.__globals__, function.__name__, function.__defaults__, closure)
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    @contextmanager
    def entered(self, module: Any) -> Iterator[None]:
        """A with block in which a module's method runs."""
        self._stack.append(module)
        try:
            yield
        finally:
            self._stack.pop()

    @property
    def is_outermost(self) -> bool:
        """Whether no method is running."""
        return not self._stack

    @property
    def is_off(self) -> bool:
        """Whether a library's code is running."""
        return bool(self._off)


class _Rewriting(ast.NodeTransformer):
    """Gives calls and operators to the recorder.

    Args:
        sites: receives where they stand.
        file: the file.
        owner: the class.
        margin: bytes before each of its lines in the file that what is rewritten lacks.
    """

    def __init__(self, sites: list[Site], file: str, owner: str, margin: int) -> None:
        self._sites, self._file, self._owner, self._margin = sites, file, owner, margin

    def _site(
        self,
        node: Any,
        text: str,
        *operands: ast.expr,
        source: str = "",
        keywords: Iterable[ast.keyword] = (),
    ) -> ast.expr:
        known = takewhile(lambda operand: not isinstance(operand, ast.Starred), operands)
        texts = tuple(map(ast.unparse, known))  # nobody knows how many arguments a starred one is
        named = {k.arg: ast.unparse(k.value) for k in keywords if k.arg is not None}
        begin, end = (column + self._margin for column in (node.col_offset, node.end_col_offset))
        span = (node.lineno, begin, node.end_lineno, end)
        whole = source or ast.unparse(node)
        self._sites.append(Site(self._file, node.lineno, text, self._owner, texts, span, whole, named))
        return ast.Constant(len(self._sites) - 1)

    def _hook(self, name: str, node: ast.AST, *args: ast.expr, keywords: Any = ()) -> ast.expr:
        function = ast.Attribute(ast.Name(_HOOK, ast.Load()), name, ast.Load())
        return ast.copy_location(ast.Call(function, list(args), list(keywords)), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in _RAW:
            self.generic_visit(node)
            return node
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        site = self._site(node, ast.unparse(node.func), *receiver, *node.args, keywords=node.keywords)
        if isinstance(node.func, ast.Attribute):
            head: tuple[ast.expr, ...] = (self.visit(node.func.value), ast.Constant(node.func.attr))
            name = "method"
        else:
            head, name = (self.visit(node.func),), "call"
        args = [self.visit(arg) for arg in node.args]
        return self._hook(name, node, site, *head, *args, keywords=[self.visit(k) for k in node.keywords])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        sign = _BINARY.get(type(node.op))
        if sign is None:
            self.generic_visit(node)
            return node
        site = self._site(node, sign[0], node.left, node.right)
        return self._hook(
            "operator", node, site, ast.Constant(sign[0]), self.visit(node.left), self.visit(node.right)
        )

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sign = _COMPARED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if sign is None:
            self.generic_visit(node)
            return node
        sides = self.visit(node.left), self.visit(node.comparators[0])
        return self._hook("operator", node, self._site(node, sign), ast.Constant(sign), *sides)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if node.attr not in _VIEWS or not isinstance(node.ctx, ast.Load):
            self.generic_visit(node)
            return node
        site = self._site(node, ast.unparse(node), node.value)
        return self._hook("view", node, site, self.visit(node.value), ast.Constant(node.attr))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        sign = _UNARY.get(type(node.op))
        if sign is None or isinstance(node.operand, ast.Constant):
            self.generic_visit(node)
            return node
        return self._hook(
            "operator",
            node,
            self._site(node, sign, node.operand),
            ast.Constant(sign),
            self.visit(node.operand),
        )

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            self.generic_visit(node)
            return node
        site = self._site(node, "[]", node.value)
        index = self._index(node.slice)
        return self._hook("operator", node, site, ast.Constant("[]"), self.visit(node.value), index)

    def _index(self, index: ast.expr) -> ast.expr:
        if isinstance(index, ast.Slice):
            bounds = [
                self.visit(b) if b else ast.Constant(None) for b in (index.lower, index.upper, index.step)
            ]
            return self._hook("slice", index, *bounds)
        if isinstance(index, ast.Tuple):
            return ast.copy_location(ast.Tuple([self._index(i) for i in index.elts], ast.Load()), index)
        return self.visit(index)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        sign = _BINARY.get(type(node.op))
        if sign is None or not isinstance(node.target, ast.Name):
            node.value = self.visit(node.value)
            return node
        site = self._site(node, sign[0])
        left = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = self._hook("in_place", node, site, ast.Constant(sign[0]), left, self.visit(node.value))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        if (
            len(node.targets) == 1
            and isinstance(target, ast.Subscript)
            and isinstance(target.value, ast.Name)
        ):
            name = ast.Name(target.value.id, ast.Load())
            site = self._site(node, "[]=")
            index = self._index(target.slice)
            value = self._hook("assign", node, site, name, index, self.visit(node.value))
            return ast.copy_location(ast.Assign([ast.Name(target.value.id, ast.Store())], value), node)
        self.generic_visit(node)
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if len(node.targets) == 1 and all(isinstance(name, ast.Name) for name in names):
            given = [ast.Constant(name.id) for name in names if isinstance(name, ast.Name)]
            one = ast.Constant(names == [target])
            node.value = self._hook("bound", node, node.value, one, *given)
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is not None:
            site = self._site(node, "return", source=ast.unparse(node.value))
            node.value = self._hook("returned", node, site, self.visit(node.value))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.body = [self.visit(statement) for statement in node.body]
        return node


def _definition(function: FunctionType) -> tuple[ast.FunctionDef, int] | None:
    """A function's syntax with the lines of its file, and the bytes before each line that it lacks.

    A lambda is a function that returns its expression.
    """
    code = function.__code__
    try:
        if code.co_name == "<lambda>":
            return _of_lambda(code, inspect.findsource(function)[0])
        lines, first = inspect.getsourcelines(function)
        source = textwrap.dedent("".join(lines))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    margin = len(lines[0].encode()) - len(source.splitlines(keepends=True)[0].encode())
    return tree.body[0], margin


def _of_lambda(code: CodeType, lines: list[str]) -> tuple[ast.FunctionDef, int] | None:
    """The lambda of a file that has a code object; None where several on its line may be it."""
    found = [
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and _code_named(compile(ast.Expression(node), "", "eval"), "<lambda>", like=code) is not None
    ]
    if len(found) != 1:
        return None
    returned = ast.copy_location(ast.Return(found[0].body), found[0].body)
    made = ast.parse("def _lambda(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args, made.body = found[0].args, [returned]
    return made, 0


def _code_named(code: CodeType, name: str, like: CodeType | None = None) -> CodeType | None:
    """The code of a function in the constants of another; one that names and holds what another does."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == name and (like is None or _is_alike(constant, like)):
                return constant
            found = _code_named(constant, name, like)
            if found is not None:
                return found
    return None


def _is_alike(a: CodeType, b: CodeType) -> bool:
    """Whether two functions have the same arguments, and name the same things (free there, global here)."""
    names = [{*code.co_names, *code.co_freevars, *code.co_cellvars} for code in (a, b)]
    constants = [[c for c in code.co_consts if not isinstance(c, CodeType)] for code in (a, b)]
    return a.co_varnames == b.co_varnames and names[0] == names[1] and constants[0] == constants[1]


def recorded_call(
    host: Host,
    function: Any,
    args: tuple[Any, ...],
    place: tuple[str, int],
    arrange: Callable[[Any], Any] = lambda result: result,
) -> Tape:
    """Call a function or a module of the user's or of a library's, and return the calls that it makes.

    Args:
        host: the framework.
        function: what is called.
        args: tensors.
        place: file and line that construct it, for a library's own.
        arrange: returns what counts of the result, in an order that others have too.
    """
    name = f"nn.{type(function).__name__}" if isinstance(function, host.base()) else ""
    model = function if isinstance(function, host.base()) else host.base()()
    with _opening(host, model) as recorder:
        tape = recorder.tape
        recorder.sites.append(Site(*place, name or getattr(function, "__name__", "loss")))
        tape.put(Site("", 0, "input"), "input", None, "input", ((), {}), args, None)
        with recorder.entered(function):
            result = recorder.call(len(recorder.sites) - 1, function, *args)
        tape.finish(arrange(result))
    return tape


@contextmanager
def recording(host: Host, model: Any) -> Iterator[Tape]:
    """A with block in which a run of a model is recorded; the model's classes are as before afterwards."""
    with _opening(host, model) as recorder:
        yield recorder.tape


@contextmanager
def _opening(host: Host, model: Any) -> Iterator[Recorder]:
    """A with block in which the methods of a model's classes are the recorder's."""
    recorder = Recorder(Tape(host))
    replaced: list[tuple[Any, Any]] = []
    classes = dict.fromkeys(type(module) for _, module in host.modules(model))
    holders = dict.fromkeys(
        holder
        for cls in classes
        if (holder := next((c for c in cls.__mro__ if host.method in vars(c)), None)) is not None
    )
    try:
        for holder in holders:
            original = vars(holder)[host.method]
            made = _opened(recorder, holder, original)
            if made is not None:
                replaced.append((holder, original))
                setattr(holder, host.method, made)
        with constructions_noted(host.base()):  # also of layers that a method constructs
            yield recorder
    finally:
        for holder, original in replaced:
            setattr(holder, host.method, original)


def _opened(recorder: Recorder, holder: Any, original: Any) -> Any:
    """The method of a class that records what it calls; None where it stays closed."""
    host = recorder.host
    if holder in host.containers():
        site = len(recorder.sites)
        recorder.sites.append(Site("", 0, holder.__name__))

        def body(self: Any, *args: Any) -> Any:
            for part in host.parts(self):
                args = (recorder.call(site, part, *args),)
            return args[0] if len(args) == 1 else args

    elif isinstance(original, FunctionType) and is_users_file(original.__code__.co_filename):
        body = recorder.rewritten(original, holder.__name__)
        if body is None:
            return None
    else:
        return None

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.is_off:
            return original(self, *args, **kwargs)
        outermost = recorder.is_outermost
        if outermost:
            tape = recorder.tape
            tape.put(Site("", 0, "input"), "input", None, "input", ((), {}), (args, kwargs), None)
        with recorder.entered(self):
            result = body(self, *args, **kwargs)
        if outermost:
            recorder.tape.finish(result)
        return result

    opened: Any = method
    opened._regraft_open = True
    opened.__signature__ = inspect.signature(original)
    return opened
