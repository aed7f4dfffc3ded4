"""Writes the difference of two graphs as lines of text, equal modules folded."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import Facet, GraphDifference, Mark, ModuleRow, OperatorRow, TensorRow

_SHIFTED = "shifted"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference.

    Attributes:
        depth: how far it is indented.
        mark: "~", "+" or "-".
        text: the line, without a mark.
        place: the source line or node that it is about; empty where not known.
    """

    depth: int
    mark: Mark
    text: str
    place: str = ""


Say = Callable[[str], str]
"""Returns a text in the reader's language."""


def verdict(difference: GraphDifference, say: Say = str) -> str:
    """Return the one line that says what differs."""
    modules, operators, tensors = difference.compared
    if difference.equal:
        return say(f"equal: {modules} modules, {operators} operators, {tensors} tensors compared")
    rows = list(difference.root.walk())
    counts = {
        "inputs and outputs": len(difference.ports),
        "modules added": sum(r.mark == "+" for r in rows),
        "modules removed": sum(r.mark == "-" for r in rows),
        "modules moved": sum(r.moved for r in rows) - sum(len(r.followers()) for r in rows),
        "operators": sum(len(r.operators) for r in rows),
        "tensors": sum(len(r.tensors) for r in rows),
    }
    found = [f"{say(name)} {n}" for name, n in counts.items() if n]
    head, listed = say("different:"), ", ".join(found or [say(f.name) for f in difference.facts])
    return f"{head} {listed}" if head.isascii() else f"{head}{listed}"


def lines_of(difference: GraphDifference, say: Say = str) -> list[Line]:
    """Return what differs, line by line: the whole, inputs and outputs, then the tree of modules."""
    return list(_Lines(say).of(difference))


class _Lines:
    """Writes the lines in one language."""

    def __init__(self, say: Say) -> None:
        self.say = say

    def of(self, difference: GraphDifference) -> Iterator[Line]:
        for facet in difference.facts:
            yield Line(0, "~", self._facet(facet))
        for port in difference.ports:
            yield Line(0, port.mark, self._with(f"{self.say(port.kind)} `{port.name}`", port.facets))
        yield from self._module(difference.root, 0, None)

    def _module(self, row: ModuleRow, depth: int, above: ModuleRow | None, alike: int = 1) -> Iterator[Line]:
        if row.mark in "+-":
            yield Line(depth, row.mark, self._alone(row, above))
        shown = [child for child in row.children if child.mark != "=" or _is_moved(child, row)]
        own = bool(row.operators or row.tensors) or row.class_name != row.other_class or _is_moved(row, above)
        if row.mark in "~=" and (own or alike > 1 or (above is not None and len(shown) > 1)):
            yield Line(depth, "~", self._name(row, above, alike))
            depth += 1
            above = row
        elif not row.path:
            above = row
        for operator in row.operators:
            yield Line(depth, operator.mark, self._with(operator.op, operator.facets), _place(operator))
        for tensor in row.tensors:
            yield Line(depth, tensor.mark, self._tensor(tensor))
        for key, group in groupby(shown, key=_signature):
            rows = list(group)
            if isinstance(key, tuple) and key[0] == _SHIFTED and len(rows) > 1:
                yield Line(depth, "~", _shift(rows, above))
            else:
                yield from self._module(rows[0], depth, above, len(rows))

    def _name(self, row: ModuleRow, above: ModuleRow | None, alike: int) -> str:
        mine = _relative(row.path, above.path if above else "") or self.say("(root)")
        other = _relative(row.other, above.other if above else "") or self.say("(root)")
        kind = _arrow(row.class_name, row.other_class)
        more = self.say(f", and {alike - 1} more beside it") if alike > 1 else ""
        return f"{_arrow(mine, other)}  {kind}{more}"

    def _alone(self, row: ModuleRow, above: ModuleRow | None) -> str:
        path = _relative(row.path, (above.other if row.mark == "+" else above.path) if above else "")
        operators, tensors, elements = row.counts
        counts = self.say(f"{operators} operators, {tensors} tensors, {elements:,} elements")
        return f"{path}  {row.class_name}: {counts}"

    def _tensor(self, row: TensorRow) -> str:
        name = _last(row.name) if row.name == row.other else _arrow(row.name, row.other)
        if row.mark in "+-":
            return f"{name}: {self.say(f'{row.elements:,} elements')}"
        more = ""
        if row.values is not None:
            largest, relative = row.values
            more = self.say(f"values, largest difference {largest:.2g}, relative {relative:.2g}")
        return self._with(name, row.facets, more)

    def _with(self, name: str, facets: Sequence[Facet], more: str = "") -> str:
        texts = [*map(self._facet, facets), *filter(None, [more])]
        return f"{name}: {'; '.join(texts)}" if texts else name

    def _facet(self, facet: Facet) -> str:
        before, after = (self.say(text) if " " in text else text for text in (facet.before, facet.after))
        return f"{self.say(facet.name)} {before} -> {after}"


def _shift(rows: Sequence[ModuleRow], above: ModuleRow | None) -> str:
    """Return the line of modules of a list of which each has moved by one place or more."""
    first, last = rows[0], rows[-1]
    mine, other = (above.path, above.other) if above else ("", "")
    before = f"{_relative(first.path, mine)} … {_relative(last.path, mine)}"
    after = f"{_relative(first.other, other)} … {_relative(last.other, other)}"
    return f"{before} -> {after}  {first.class_name}"


def _is_moved(row: ModuleRow, above: ModuleRow | None) -> bool:
    """Whether a module has another path, and not only because the one above it has."""
    if above is None:
        return row.moved
    return row.moved and _relative(row.path, above.path) != _relative(row.other, above.other)


def _relative(path: str, above: str) -> str:
    return path[len(above) + 1 :] if above and path.startswith(f"{above}.") else path


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _place(row: OperatorRow) -> str:
    before, after = row.places
    return after if row.mark == "+" or not before else before


def _signature(row: ModuleRow) -> Hashable:
    """Return what two modules side by side have in common if they differ in the same way."""
    if row.mark == "=" and all(_last(path).isdecimal() for path in (row.path, row.other)):
        return _SHIFTED, row.class_name, int(_last(row.other)) - int(_last(row.path))
    if row.mark in "+-" or row.moved:
        return id(row)
    operators = tuple((o.mark, o.op, o.facets) for o in row.operators)
    tensors = tuple((t.mark, _last(t.name), t.facets) if t.values is None else id(t) for t in row.tensors)
    below = tuple(
        (child.path[len(row.path) :], _signature(child)) for child in row.children if child.mark != "="
    )
    return row.class_name, row.other_class, operators, tensors, below


def _last(path: str) -> str:
    return path.rpartition(".")[2]
