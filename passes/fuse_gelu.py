"""fuse-gelu: a GELU that is written out becomes one operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose, pi, sqrt
from typing import ClassVar

from ..ir import Builder, Graph, Operator, Value
from .base import Change, Pass
from .places import Places

Polynomial = dict[int, float]
"""Power of the variable -> its coefficient."""

_ARGUMENTS: dict[str, tuple[str, Polynomial]] = {
    "Tanh": ("tanh", {1: sqrt(2 / pi), 3: sqrt(2 / pi) * 0.044715}),
    "Erf": ("none", {1: 1 / sqrt(2)}),
}
"""The argument of tanh or erf in a GELU, and ONNX's `approximate` for it."""

_CLOSE = 1e-6


@dataclass(frozen=True)
class FuseGelu(Pass):
    """Write ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))`` as Gelu, and likewise with erf.

    What it does:
        Finds products of 0.5, a value and one plus its tanh or erf, in whatever order and form the factors
        are written, within one call of a module, and puts Gelu in their place.

    Why:
        Half of the published language models write their activation out: eight operators where every target
        has one, which is faster and, where a target's tanh is coarse, more accurate.

    Leaves alone:
        Other coefficients (to one part in a million), other integer powers, and parts that lie in different
        calls of modules.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = const 1.4142135 : f32[]
        ...   %1 = Div(%x, %0) : f32[N,4]
        ...   %2 = Erf(%1) : f32[N,4]
        ...   %3 = const 1.0 : f32[]
        ...   %4 = Add(%2, %3) : f32[N,4]
        ...   %5 = Mul(%x, %4) : f32[N,4]
        ...   %6 = const 0.5 : f32[]
        ...   %y = Mul(%5, %6) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in FuseGelu().run(graph):
        ...     print(change)
        FG101 is Gelu with approximate="none", written out - at `Mul`
    """

    name: ClassVar[str] = "fuse-gelu"
    codes: ClassVar[dict[str, str]] = {"FG101": "an activation is written out that is one operator"}
    rewordings: ClassVar[frozenset[str]] = frozenset({"FG101"})
    needs_dataflow: ClassVar[bool] = True

    def run(self, graph: Graph) -> list[Change]:
        """Fuse; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            for node in part.operators():
                if node.op_type not in _ARGUMENTS:
                    continue
                root, variable = _find_gelu(part, node) or (None, None)
                if root is None or variable is None:
                    continue
                approximate = _ARGUMENTS[node.op_type][0]
                message = f'is Gelu with approximate="{approximate}", written out'
                changes.append(Change("FG101", message, place=places.of(part, root.key)))
                b = Builder(part)
                with b.inside(root.call, root.location):
                    fused = b.op("Gelu", variable, types=root.types[:1], approximate=approximate)
                part.replace_uses(Value(root.key), fused)
            if changes:
                part.remove_dead()

        return changes


def _find_gelu(part: Graph, node: Operator) -> tuple[Operator, Value] | None:
    """Return (root Mul, x) if the pattern around a tanh or erf is the GELU of x; None if it is not."""
    argument = part.operands(node.key)[0]
    for one_plus in _users(part, node, "Add"):
        if _polynomial(part, Value(one_plus.key), Value(node.key)) != {0: 1.0, 1: 1.0}:
            continue
        for root in _products(part, one_plus):
            for variable in _variables(part, root, one_plus):
                wanted = _ARGUMENTS[node.op_type][1]
                if _is_close(_polynomial(part, argument, variable), wanted) and _is_half(
                    part, root, variable, one_plus
                ):
                    return root, variable
    return None


def _users(part: Graph, node: Operator, op_type: str) -> Iterator[Operator]:
    """Yield the operators of one kind that use a value in its own module call."""
    for key, _ in part.users(Value(node.key)):
        user = part.node(key)
        if isinstance(user, Operator) and user.qualified_name == op_type and user.call == node.call:
            yield user


def _products(part: Graph, factor: Operator, depth: int = 3) -> Iterator[Operator]:
    """Yield the products that have a value as a factor, the products of those, and so on."""
    for product in _users(part, factor, "Mul"):
        yield product
        if depth > 1:
            yield from _products(part, product, depth - 1)


def _variables(part: Graph, root: Operator, factor: Operator) -> Iterator[Value]:
    """Yield the values whose GELU a product may be: its factors, and products of its factors."""
    stack = [v for v in part.operands(root.key) if v is not None]
    while stack:
        value = stack.pop()
        if value.node == factor.key or part.constant_value(value) is not None:
            continue
        yield value
        node = part.node(value.node)
        if isinstance(node, Operator) and node.op_type in ("Mul", "Div") and node.call == root.call:
            stack += [v for v in part.operands(node.key) if v is not None]


def _is_half(part: Graph, root: Operator, variable: Value, one_plus: Operator) -> bool:
    """Whether a product is ``0.5 * variable * (1 + ...)``; evaluated with either of the two set to 1."""
    wanted = {1: 0.5}
    bound = {variable: {0: 1.0}, Value(one_plus.key): {1: 1.0}}
    swapped = {variable: {1: 1.0}, Value(one_plus.key): {0: 1.0}}
    return all(_is_close(_evaluate(part, Value(root.key), b), wanted) for b in (bound, swapped))


def _polynomial(part: Graph, value: Value | None, variable: Value) -> Polynomial | None:
    """Return a value as a polynomial in another value; None where it is not one."""
    return None if value is None else _evaluate(part, value, {variable: {1: 1.0}})


def _evaluate(part: Graph, value: Value, bound: dict[Value, Polynomial], depth: int = 8) -> Polynomial | None:
    """Return a value as a polynomial, given the polynomials of some values; None where it is not one."""
    if value in bound:
        return bound[value]
    constant = part.constant_value(value)
    if constant is not None:
        return {0: float(constant.reshape(-1)[0])} if constant.size == 1 else None
    node = part.node(value.node)
    if not isinstance(node, Operator) or not depth:
        return None
    operands = [None if v is None else _evaluate(part, v, bound, depth - 1) for v in part.operands(node.key)]
    if not operands or any(o is None for o in operands) or node.op_type not in _ARITHMETIC:
        return None
    a, b = operands[0] or {}, operands[-1] or {}
    if node.op_type in ("Add", "Sub"):
        sign = 1 if node.op_type == "Add" else -1
        return {p: a.get(p, 0.0) + sign * b.get(p, 0.0) for p in {*a, *b}}
    if node.op_type == "Mul":
        return _multiply(a, b)
    number = b[0] if set(b) == {0} else 0.0
    if node.op_type == "Div":
        return {p: c / number for p, c in a.items()} if number else None
    if number not in (1, 2, 3):
        return None
    power: Polynomial = {0: 1.0}
    for _ in range(int(number)):
        power = _multiply(power, a)
    return power


_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow")


def _multiply(a: Polynomial, b: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for p, c in a.items():
        for q, d in b.items():
            out[p + q] = out.get(p + q, 0.0) + c * d
    return out


def _is_close(found: Polynomial | None, wanted: Polynomial) -> bool:
    if found is None or {p for p, c in found.items() if abs(c) > _CLOSE} != set(wanted):
        return False
    return all(isclose(found[p], c, rel_tol=_CLOSE) for p, c in wanted.items())
