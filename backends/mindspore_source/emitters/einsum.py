"""Einsum as a matrix product between transpositions, because ops.einsum has no kernel on CPUs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...source.emitting import EmitterTable, Expression, Literal, Refused, View
from ...source.expressions import ATOM, MULTIPLY, Attribute, Brackets, Element, Part, call, infix, method

TABLE = EmitterTable()


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor and the letters of its axes."""

    part: Part
    axes: list[str]

    def take_diagonals(self) -> _Term:
        """Return the term with the axes of one letter as one axis, their diagonal, which comes last."""
        part, axes = self.part, list(self.axes)
        for axis in dict.fromkeys(self.axes):
            while axes.count(axis) > 1:
                first = axes.index(axis)
                second = axes.index(axis, first + 1)
                part = method(part, "diagonal", 0, first, second)
                axes = [x for i, x in enumerate(axes) if i not in (first, second)] + [axis]
        return _Term(part, axes)

    def sum_others(self, kept: set[str]) -> _Term:
        """Return the term summed over the axes that nothing else mentions."""
        gone = [i for i, x in enumerate(self.axes) if x not in kept]
        if not gone:
            return self
        part = method(self.part, "sum", gone[0] if len(gone) == 1 else tuple(gone))
        return _Term(part, [x for x in self.axes if x in kept])

    def order(self, wanted: list[str]) -> Part:
        """Return the tensor with its axes in another order."""
        if self.axes == wanted:
            return self.part
        loose = isinstance(self.part, Expression) and self.part.level < ATOM
        part = Brackets(self.part) if loose else self.part
        return method(part, "transpose", *(self.axes.index(x) for x in wanted))


@TABLE.call("Einsum")
def einsum(view: View) -> Expression:
    """Emit ``ops.matmul`` of the operands, each summed, transposed and reshaped to batch, rows, columns."""
    terms, result = _letters(view)
    sizes = _sizes(view, terms)
    given = [_Term(view.atom(slot), axes).take_diagonals() for slot, axes in enumerate(terms)]
    total = given[0].sum_others({*result, *(x for t in given[1:] for x in t.axes)})
    for at, other in enumerate(given[1:], 2):
        later = {*result, *(x for t in given[at:] for x in t.axes)}
        other = other.sum_others({*later, *total.axes})
        total = _product(total.sum_others({*later, *other.axes}), other, later, sizes)
    found = total.order(result)
    return found if isinstance(found, Expression) else Expression((found,))


def _letters(view: View) -> tuple[list[list[str]], list[str]]:
    """Return the axes of every operand and of the result; axes of an ellipsis are ``.1``, … from the end.

    Raises:
        Refused: for a rank that is not known.
    """
    inputs, arrow, output = view.operator.str("equation").replace(" ", "").partition("->")
    terms = [_spread(term, view.rank(slot)) for slot, term in enumerate(inputs.split(","))]
    every = [x for term in terms for x in term]
    dots = max((term for term in terms), key=lambda t: sum(x[0] == "." for x in t))
    dots = [x for x in dots if x[0] == "."]
    if arrow:
        head, found, tail = output.partition("...")
        result = [*head, *(dots if found else []), *tail]
    else:
        result = [*dots, *sorted(x for x in set(every) if x[0] != "." and every.count(x) == 1)]
    return terms, result


def _spread(term: str, rank: int) -> list[str]:
    head, found, tail = term.partition("...")
    count = rank - len(head) - len(tail)
    return [*head, *(f".{i}" for i in range(count, 0, -1)), *tail] if found else list(term)


def _sizes(view: View, terms: list[list[str]]) -> dict[str, object]:
    """Return axis -> its size: a number, or ``x.shape[i]``.

    Raises:
        Refused: where an axis of size 1 is broadcast.
    """
    sizes: dict[str, object] = {}
    for slot, axes in enumerate(terms):
        for at, (axis, size) in enumerate(zip(axes, view.shape(slot), strict=True)):
            if isinstance(size, int):
                if isinstance(sizes.get(axis, size), int) and sizes.get(axis, size) != size:
                    raise Refused
                sizes[axis] = size
            elif not isinstance(sizes.get(axis), int):
                sizes[axis] = Element(Attribute(view.atom(slot), "shape"), at)
    return sizes


def _product(left: _Term, right: _Term, kept: set[str], sizes: dict[str, object]) -> _Term:
    """Return the product of two terms, summed over the axes that are in both and not kept."""
    shared = [x for x in left.axes if x in right.axes and x in kept]
    inner = [x for x in left.axes if x in right.axes and x not in kept]
    rows = [x for x in left.axes if x not in right.axes]
    columns = [x for x in right.axes if x not in left.axes]
    if not inner:  # nothing is summed: a product with axes of size 1
        outer = [*shared, *rows, *columns]
        return _Term(infix(_align(left, outer), "*", _align(right, outer), MULTIPLY), outer)
    a, b = [*shared, *rows, *inner], [*shared, *inner, *columns]
    product = call(
        "ops.matmul",
        _group(left.order(a), [[x] for x in shared] + [rows, inner], sizes),
        _group(right.order(b), [[x] for x in shared] + [inner, columns], sizes),
    )
    outer = [*shared, *rows, *columns]
    if len(rows) == len(columns) == 1:
        return _Term(product, outer)
    if len(rows) + len(columns) == 1:
        return _Term(method(product, "squeeze", -2 if columns else -1), outer)
    return _Term(_reshape(product, [[x] for x in outer], sizes), outer)


def _align(term: _Term, outer: list[str]) -> Part:
    """Return the tensor with axes of size 1 where it lacks some."""
    part = term.order([x for x in outer if x in term.axes])
    there = [x in term.axes for x in outer]
    there = there[there.index(True) :] if any(there) else []
    if all(there):
        return part
    holes = ", ".join(":" if t else "None" for t in there)
    return Expression((part, f"[{holes}]"))


def _group(part: Part, groups: list[list[str]], sizes: dict[str, object]) -> Part:
    """Return the tensor with every group of axes as one."""
    if all(len(g) == 1 for g in groups):
        return part
    if [len(g) for g in groups] == [1] * (len(groups) - 1) + [0]:
        return method(part, "expand_dims", -1)
    if [len(g) for g in groups] == [1] * (len(groups) - 2) + [0, 1]:
        return method(part, "expand_dims", -2)
    return _reshape(part, groups, sizes)


def _reshape(part: Part, groups: list[list[str]], sizes: dict[str, object]) -> Part:
    if not groups:
        return method(part, "reshape", ())
    computed = [g for g in groups if not all(isinstance(sizes[x], int) for x in g)]
    dims = [-1 if group in computed[:1] else _size_of(group, sizes) for group in groups]
    return method(part, "reshape", *dims)


def _size_of(group: list[str], sizes: dict[str, object]) -> object:
    """Return how many elements a group of axes has: a number, or sizes that a run knows times one."""
    known = prod(size for axis in group if isinstance(size := sizes[axis], int))
    computed = [size for axis in group if isinstance(size := sizes[axis], Element)]
    if not computed:
        return Literal(known, "size")
    first: Part = computed[0]
    for factor in computed[1:]:
        first = infix(first, "*", factor, MULTIPLY)
    return first if known == 1 else infix(first, "*", str(known), MULTIPLY)
