"""The sizes that a saved program writes as text: read by a grammar, built as sympy's objects, not evaluated.

torch hands these texts to ``sympy.sympify``, which is `eval`. What is built here is an object already, which
`sympify` gives back as it is. Both spellings are read: ``2*s0 + 1``, and since torch 2.7
``Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))``.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable
from typing import Any

from ....formats.refusals import quote
from .refusing import untrusted

SYMBOL = re.compile(r"(?:s|u|zf|zuf|i|ps|tmp)\d{1,5}\Z")
"""Names of torch's symbols; torch counts up to the number of a `u`, so that it has few digits."""

_LONGEST = 20_000
_MOST_PARTS = 250
_DEEPEST = 60
_MOST_BITS = 512
_MOST_POWER = 64
_MOST_ARGUMENTS = 32


class Expressions:
    """The expressions of one program.

    Args:
        place: what messages call the record.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._known: dict[str, tuple[Any, int]] = {}
        self._budget = 400_000  # parts in all, counted as often as a text occurs: torch reads each anew
        self._seconds = 5.0  # sympy orders nested Max and Mod in times that no count of parts bounds
        self._parts = 0

    def read(self, text: str) -> Any:
        """Return the expression that a text states.

        Raises:
            ModelError: for anything but arithmetic on symbols and numbers.
        """
        if text not in self._known:
            begun = time.thread_time()
            self._known[text] = self._built(text)
            self._seconds -= time.thread_time() - begun
        found, parts = self._known[text]
        self._budget -= parts
        if self._budget < 0 or self._seconds < 0:
            raise untrusted("expected fewer or simpler symbolic sizes", self._place)
        return found

    def _built(self, text: str) -> tuple[Any, int]:
        if len(text) > _LONGEST:
            raise self._refused(text)
        self._parts = 0
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            return self._value(tree, text, 0), self._parts
        except (
            SyntaxError,
            ValueError,
            TypeError,
            ArithmeticError,
            AssertionError,
            RecursionError,
            MemoryError,
        ) as e:
            # Python's parser, and sympy on arguments of a kind that an operator does not take
            raise self._refused(text) from e

    def _refused(self, text: str) -> Exception:
        return untrusted(f"expected arithmetic on symbols such as 2*s0 + 1, got {quote(text)}", self._place)

    def _value(self, node: ast.expr, text: str, depth: int) -> Any:
        self._parts += 1
        if self._parts > _MOST_PARTS or depth > _DEEPEST:
            raise self._refused(text)
        inner = [self._value(part, text, depth + 1) for part in _operands(node)]
        made = _made(node, inner)
        if made is None or not _is_plain(made):
            raise self._refused(text)
        return made


def _operands(node: ast.expr) -> list[ast.expr]:
    """Return the parts of a node that are expressions themselves."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in _LEAVES:
        return node.args
    return []


def _made(node: ast.expr, inner: list[Any]) -> Any:
    """Evaluate a node from its parts; None for a node outside the grammar."""
    if isinstance(node, ast.Constant):
        return _number(node.value)
    if isinstance(node, ast.Name):
        return _named(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _applied(_BINARY[type(node.op)], inner)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _applied(_UNARY[type(node.op)], inner)
    if isinstance(node, ast.Compare) and len(inner) == 2 and type(node.ops[0]) in _COMPARED:
        return _applied(_COMPARED[type(node.ops[0])], inner)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in _LEAVES:
            return _LEAVES[node.func.id](node)
        if not node.keywords:
            return _applied(node.func.id, inner)
    return None


def _applied(name: str, arguments: list[Any]) -> Any:
    import sympy

    if name not in _functions() or len(arguments) > _MOST_ARGUMENTS:
        return None
    function, least, most = _functions()[name]
    if not least <= len(arguments) <= most or not all(
        _fits(name, at, value) for at, value in enumerate(arguments)
    ):
        return None
    if name in _POWERS:
        power = arguments[1]
        if not isinstance(power, sympy.Number) or not abs(power) <= _MOST_POWER:
            return None
        if any(_bits(number) * abs(power) > _MOST_BITS for number in _numbers(arguments[0])):
            return None
    return function(*arguments)


def _fits(name: str, at: int, value: Any) -> bool:
    """Whether an argument is of the kind that a function takes there; sympy mixes truth and numbers."""
    from sympy.logic.boolalg import Boolean

    is_truth = isinstance(value, Boolean) and not value.is_Symbol  # a symbol is both to sympy
    return is_truth or value.is_Symbol if name in _LOGICAL or (name == "Where" and at == 0) else not is_truth


def _number(value: object) -> Any:
    import sympy

    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, int) and value.bit_length() <= 64:
        return sympy.Integer(value)
    return sympy.Float(value) if isinstance(value, float) and value - value == 0 else None


def _named(name: str) -> Any:
    import sympy
    from torch.utils._sympy.numbers import int_oo

    words = {"true": sympy.true, "false": sympy.false, "oo": sympy.oo, "int_oo": int_oo}
    return sympy.Symbol(name) if SYMBOL.match(name) else words.get(name)


def _symbol(call: ast.Call) -> Any:
    """Evaluate ``Symbol('s0', positive=True, integer=True)``."""
    import sympy

    given = {
        k.arg: k.value.value
        for k in call.keywords
        if k.arg in _ASSUMPTIONS and isinstance(k.value, ast.Constant)
    }
    name = call.args[0].value if len(call.args) == 1 and isinstance(call.args[0], ast.Constant) else None
    if len(given) != len(call.keywords) or not isinstance(name, str) or not SYMBOL.match(name):
        return None
    if not all(value is None or isinstance(value, bool) for value in given.values()):
        return None
    return sympy.Symbol(name, **given)


def _integer(call: ast.Call) -> Any:
    import sympy

    numbers = [_literal(part) for part in call.args]
    if call.keywords or len(numbers) != 1 or type(numbers[0]) is not int or numbers[0].bit_length() > 64:
        return None
    return sympy.Integer(numbers[0])


def _rational(call: ast.Call) -> Any:
    import sympy

    numbers = [_literal(part) for part in call.args]
    if call.keywords or len(numbers) != 2 or any(type(n) is not int or n.bit_length() > 64 for n in numbers):
        return None
    return sympy.Rational(*numbers) if numbers[1] else None


def _float(call: ast.Call) -> Any:
    """Evaluate ``Float('1.5', precision=53)``."""
    import sympy

    text = call.args[0].value if len(call.args) == 1 and isinstance(call.args[0], ast.Constant) else None
    exact = {k.arg: _literal(k.value) for k in call.keywords}
    if not isinstance(text, str) or not _DECIMAL.match(text) or exact not in ({}, {"precision": 53}):
        return None
    return sympy.Float(text, precision=53)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = _literal(node.operand)
        return -found if type(found) is int else None
    return node.value if isinstance(node, ast.Constant) else None


def _numbers(value: Any) -> list[Any]:
    """Return the numbers at the top of an expression: sympy has computed with no others."""
    return [part for part in (value, *getattr(value, "args", ())) if getattr(part, "is_Number", False)]


def _bits(number: Any) -> int:
    if not number.is_Rational:
        return 1
    return max(int(number.p).bit_length(), int(number.q).bit_length())


def _is_plain(value: Any) -> bool:
    """Whether sympy has not divided by zero, nor computed a number of hundreds of digits."""
    import sympy

    if any(part in (sympy.zoo, sympy.nan) for part in (value, *value.args)):
        return False
    return all(_bits(number) <= _MOST_BITS for number in _numbers(value))


def _functions() -> dict[str, tuple[Callable[..., Any], int, int]]:
    """Return the constructor of a name and its number of arguments; torch's own classes where it has them.

    An older torch lacks some, and writes none of them into its programs.
    """
    if not _BUILT:
        import sympy
        from torch.utils._sympy import functions

        for name, (least, most) in _FUNCTIONS.items():
            known = _WRITTEN.get(name) or getattr(functions, name, None) or getattr(sympy, name, None)
            if known is not None:
                _BUILT[name] = known, least, most
    return _BUILT


_BUILT: dict[str, tuple[Callable[..., Any], int, int]] = {}
_ASSUMPTIONS = frozenset(
    {
        "integer",
        "positive",
        "negative",
        "nonnegative",
        "nonpositive",
        "nonzero",
        "real",
        "finite",
        "even",
        "odd",
    }
)
_DECIMAL = re.compile(r"-?\d{1,40}(?:\.\d{0,40})?(?:e[+-]?\d{1,3})?\Z")
_LEAVES = {"Symbol": _symbol, "Integer": _integer, "Rational": _rational, "Float": _float}
_BINARY: dict[type, str] = {
    ast.Add: "Add",
    ast.Sub: "_Sub",
    ast.Mult: "Mul",
    ast.Div: "_Div",
    ast.FloorDiv: "FloorDiv",
    ast.Mod: "Mod",
    ast.Pow: "Pow",
    ast.BitAnd: "And",
    ast.BitOr: "Or",
}
_UNARY: dict[type, str] = {ast.USub: "_Neg", ast.UAdd: "Add", ast.Invert: "Not"}
_COMPARED: dict[type, str] = {
    ast.Eq: "Equality",
    ast.NotEq: "Unequality",
    ast.Lt: "StrictLessThan",
    ast.LtE: "LessThan",
    ast.Gt: "StrictGreaterThan",
    ast.GtE: "GreaterThan",
}
_LOGICAL = frozenset({"And", "Or", "Not"})
_POWERS = frozenset({"Pow", "PowByNatural", "FloatPow", "LShift", "RShift"})
_UNARY_NAMES = """
Not Abs floor ceiling sqrt CeilToInt FloorToInt TruncToFloat TruncToInt RoundToInt ToFloat Identity _Neg
OpaqueUnaryFn_sqrt OpaqueUnaryFn_exp OpaqueUnaryFn_log OpaqueUnaryFn_log2 OpaqueUnaryFn_sin OpaqueUnaryFn_cos
OpaqueUnaryFn_tan OpaqueUnaryFn_sinh OpaqueUnaryFn_cosh OpaqueUnaryFn_tanh OpaqueUnaryFn_asin
OpaqueUnaryFn_acos OpaqueUnaryFn_atan OpaqueUnaryFn_asinh
"""
_BINARY_NAMES = """
Pow PowByNatural FloatPow LShift RShift Mod PythonMod FloorDiv CleanDiv CeilDiv IntTrueDiv FloatTrueDiv
RoundDecimal Equality Unequality StrictLessThan LessThan StrictGreaterThan GreaterThan Eq Ne Lt Le Gt Ge
BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor _Sub _Div
"""
_FUNCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("Add", "Mul", "And", "Or", "Max", "Min"), (1, _MOST_ARGUMENTS)),
    **dict.fromkeys(_UNARY_NAMES.split(), (1, 1)),
    **dict.fromkeys(_BINARY_NAMES.split(), (2, 2)),
    **dict.fromkeys(("ModularIndexing", "Where"), (3, 3)),
}
"""Name -> the least and the most arguments it takes; those with an underscore are written as operators."""
_WRITTEN: dict[str, Callable[..., Any]] = {
    "_Sub": lambda left, right: left - right,
    "_Div": lambda left, right: left / right,
    "_Neg": lambda value: -value,
}
