"""widen-unsigned: unsigned integers of 16 bits and more are computed with as those of 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ....ir import Builder, Graph, Operator, TensorType, Value
from ....ir.composites.terms import Term, where
from ....passes.pattern import PatternPass

_UNSIGNED = ("uint16", "uint32", "uint64")

_ORDERED = {
    *("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Min", "Max", "Clip", "ReduceMax", "ReduceMin"),
    *("ArgMax", "ArgMin", "TopK"),
}
"""Operators that ask which number is larger."""

_WIDENED = _ORDERED | {
    *("Add", "Sub", "Sum", "Neg", "Abs", "Sign", "BitwiseNot", "BitShift", "Div", "Mod", "Pow", "MatMul"),
    *("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare", "CumSum", "Range", "NonZero", "Relu"),
    *("GatherElements", "ScatterElements", "ScatterND", "Trilu", "Slice", "Gather", "Compress"),
}
"""Operators that torch's CPU has no kernel for, of such integers."""

_SMALLEST = -(2**63)
"""The signed number whose bits turn unsigned order into signed order."""


@dataclass(frozen=True)
class WidenUnsigned(PatternPass):
    """Compute with unsigned integers of 16, 32 and 64 bits as with signed ones of 64.

    What it does:
        Casts operands of the types uint16, uint32 and uint64 to int64, and results back. Numbers of 64 bits
        keep their bits: comparisons flip the first of them before, and quotients, remainders and shifts to
        the right are written in steps.

    Why:
        torch has these types, and on CPU no kernel that adds, compares or shifts them.

    Leaves alone:
        Operators that torch has for them: products, equality, bits of two, and those that move elements.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : u16[4]
        ...   %y = Add(%x, %x) : u16[4]
        ...   return "y" = %y
        ... }''')
        >>> for change in WidenUnsigned().run(graph):
        ...     print(change)
        TS101 is computed in int64 - at `Add`
    """

    name: ClassVar[str] = "widen-unsigned"
    codes: ClassVar[dict[str, str]] = {"TS101": "unsigned integers are computed with as those of 64 bits"}
    operators: ClassVar[tuple[str, ...]] = tuple(sorted(_WIDENED))

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Widen; see the class."""
        if not _dtypes(graph, node) & set(_UNSIGNED):
            return ""
        _widen(graph, node)
        return "is computed in int64"


def _dtypes(graph: Graph, node: Operator) -> set[str]:
    """Return the element types of operands and results, as far as they are known."""
    types = [None if v is None else graph.type_of(v) for v in graph.operands(node.key)]
    return {t.dtype for t in (*types, *node.types) if t is not None}


def _widen(graph: Graph, node: Operator) -> None:
    """Replace an operator by one on int64."""
    b, is_long = Builder(graph), "uint64" in _dtypes(graph, node)
    is_turned = is_long and node.qualified_name in _ORDERED
    with b.inside(node.call, node.location):
        operands: list[Term | None] = []
        for value in graph.operands(node.key):
            term = None if value is None else Term(b, value)
            if term is not None and term.dtype in _UNSIGNED:
                is_own = is_turned and term.dtype == "uint64"
                term = _turned(term.cast("int64")) if is_own else term.cast("int64")
            operands.append(term)
        step = _STEPS.get(node.op_type) if is_long else None
        if step is not None and (found := step(node, operands)) is not None:
            results = [found.value]
        else:
            results = _same(b, node, operands)
        for index, type_ in enumerate(node.types):
            result = Term(b, results[index])
            if type_ is not None and type_.dtype in _UNSIGNED:
                result = (_turned(result) if is_turned else result).cast(type_.dtype)
            graph.replace_uses(Value(node.key, index), result.value)


def _same(b: Builder, node: Operator, operands: list[Term | None]) -> list[Value]:
    """Return the results of the same operator on wide operands."""
    types = [
        TensorType("int64", t.shape) if t is not None and t.dtype in _UNSIGNED else t for t in node.types
    ]
    given = [None if term is None else term.value for term in operands]
    attributes: dict[str, Any] = dict(node.attributes)
    return list(b.ops(node.op_type, *given, outputs=len(types), types=types, **attributes))


def _turned(x: Term) -> Term:
    """Return numbers with their first bit flipped: signed order is then the unsigned one."""
    return x.op("BitwiseXor", _SMALLEST)


def _shifted_right(x: Term, count: Term) -> Term:
    """Return the bits moved to the right, with zeros before them."""
    before = Term(x.b, x.b.constant(-2, "int64")).op("BitShift", 63 - count, direction="LEFT")
    return x.op("BitShift", count, direction="RIGHT").op("BitwiseAnd", before.op("BitwiseNot"))


def _quotient(x: Term, y: Term) -> Term:
    """Return the quotient of unsigned numbers: of half the dividend, doubled, and one more if that fits."""
    twice = _shifted_right(x, x * 0 + 1) / y * 2
    rest = x - twice * y
    found = twice + (_turned(rest) >= _turned(y)).cast("int64")
    return where(y < 0, (_turned(x) >= _turned(y)).cast("int64"), found)


def _shift(node: Operator, operands: list[Term | None]) -> Term | None:
    x, count = operands
    return None if node.str("direction") == "LEFT" or x is None or count is None else _shifted_right(x, count)


def _divide(node: Operator, operands: list[Term | None]) -> Term | None:  # noqa: ARG001 - as the others
    x, y = operands
    return None if x is None or y is None else _quotient(x, y)


def _remainder(node: Operator, operands: list[Term | None]) -> Term | None:  # noqa: ARG001 - as the others
    x, y = operands
    return None if x is None or y is None else x - _quotient(x, y) * y


_STEPS: dict[str, Callable[[Operator, list[Term | None]], Term | None]] = {
    "BitShift": _shift,
    "Div": _divide,
    "Mod": _remainder,
}
"""Operator -> how unsigned numbers of 64 bits are computed with in signed ones, where that differs."""
