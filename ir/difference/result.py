"""The difference of two graphs, as a review of code shows one: a tree of modules, equal ones folded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ..outside.markup import text_markup
from .lines import lines_of, verdict

Mark = Literal["=", "~", "+", "-"]
"""Equal, changed, only in the second, only in the first."""


@dataclass(frozen=True, slots=True)
class Facet:
    """One thing that two items have differently.

    Attributes:
        name: of what differs: an attribute, an operand, "type".
        before: of the first.
        after: of the second.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator that is not the same on both sides.

    Attributes:
        mark: "~", "+" or "-".
        op: its name, in the second graph where both have it.
        facets: what differs.
        places: its line or node in the first and in the second graph; empty where not known.
    """

    mark: Mark
    op: str
    facets: tuple[Facet, ...] = ()
    places: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A parameter that is not the same on both sides.

    Attributes:
        mark: "~", "+" or "-".
        name: its full name in the first graph, or in the second where the first has none.
        other: its name in the second.
        facets: what differs beside the values.
        values: (largest difference, that relative to the values) where the values alone can differ and do.
        elements: number of elements.
    """

    mark: Mark
    name: str
    other: str
    facets: tuple[Facet, ...] = ()
    values: tuple[float, float] | None = None
    elements: int = 0


@dataclass(slots=True)
class ModuleRow:
    """A module of either graph.

    Attributes:
        mark: "=" where nothing of it and below it differs but its place.
        path: canonical path in the first graph, or in the second where the first has none.
        other: path in the second.
        class_name: class in the first, or the second.
        other_class: class in the second.
        operators: its own operators that differ.
        tensors: what it holds that differs.
        children: the modules below it.
        counts: operators, parameters and their elements, of it and all below it.
    """

    mark: Mark
    path: str
    other: str
    class_name: str
    other_class: str
    operators: list[OperatorRow] = field(default_factory=list[OperatorRow])
    tensors: list[TensorRow] = field(default_factory=list[TensorRow])
    children: list[ModuleRow] = field(default_factory=list["ModuleRow"])
    counts: tuple[int, int, int] = (0, 0, 0)

    @property
    def moved(self) -> bool:
        """Whether both graphs have it, each under another path."""
        return self.mark in "=~" and self.path != self.other

    def followers(self) -> list[ModuleRow]:
        """Return the modules directly below it that have another path only because it has."""
        return [row for row in self.children if self.moved and row.moved and self.leads(row)]

    def leads(self, row: ModuleRow) -> bool:
        """Whether both graphs have a module under it by the same name."""
        return row.path[len(self.path) :] == row.other[len(self.other) :] and row.path.startswith(self.path)

    def walk(self) -> Iterator[ModuleRow]:
        """Yield it and every module below it."""
        yield self
        for row in self.children:
            yield from row.walk()


@dataclass(frozen=True, slots=True)
class PortRow:
    """An input or output that is not the same on both sides: see `TensorRow`.

    Attributes:
        kind: "input" or "output".
        mark: "~", "+" or "-".
        name: in the first graph, or in the second where the first has none.
        facets: what differs.
    """

    kind: Literal["input", "output"]
    mark: Mark
    name: str
    facets: tuple[Facet, ...] = ()


@dataclass(slots=True)
class GraphDifference:
    """The difference of two graphs.

    Attributes:
        references: what a person calls each.
        root: the tree of modules.
        ports: inputs and outputs that differ.
        facts: what else differs of the whole: opset, sizes.
        notes: what a reader has to know.
        compared: number of modules, operators and parameters that both have.
    """

    references: tuple[str, str]
    root: ModuleRow
    ports: list[PortRow] = field(default_factory=list[PortRow])
    facts: list[Facet] = field(default_factory=list[Facet])
    notes: list[str] = field(default_factory=list[str])
    compared: tuple[int, int, int] = (0, 0, 0)

    @property
    def equal(self) -> bool:
        """Whether nothing differs: structure, values, names."""
        rows = self.root.walk()
        return not self.ports and all(row.mark == "=" and not row.moved for row in rows)

    def _repr_html_(self) -> str:
        """Return the verdict and what differs, line by line, as notebooks show it."""
        lines = "\n".join(f"{line.mark} {'  ' * line.depth}{line.text}" for line in lines_of(self))
        notes = "".join(text_markup(f"note: {note}", "p") for note in self.notes)
        return text_markup(verdict(self), "strong") + (text_markup(lines, "pre") if lines else "") + notes

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it: equal modules are left out."""
        return {
            "equal": self.equal,
            "first": self.references[0],
            "second": self.references[1],
            "facts": [_facet(f) for f in self.facts],
            "ports": [
                {"kind": p.kind, "mark": p.mark, "name": p.name, "facets": [_facet(f) for f in p.facets]}
                for p in self.ports
            ],
            "modules": [_module(row) for row in self.root.walk() if row.mark != "=" or row.moved],
            "compared": dict(zip(("modules", "operators", "tensors"), self.compared, strict=True)),
            "notes": self.notes,
        }


def _facet(facet: Facet) -> dict[str, str]:
    return {"name": facet.name, "before": facet.before, "after": facet.after}


def _module(row: ModuleRow) -> dict[str, Any]:
    return {
        "mark": row.mark,
        "path": row.path,
        "other": row.other,
        "class": row.class_name,
        "other_class": row.other_class,
        "counts": dict(zip(("operators", "tensors", "elements"), row.counts, strict=True)),
        "operators": [
            {
                "mark": o.mark,
                "op": o.op,
                "facets": [_facet(f) for f in o.facets],
                "places": list(o.places),
            }
            for o in row.operators
        ],
        "tensors": [
            {
                "mark": t.mark,
                "name": t.name,
                "other": t.other,
                "facets": [_facet(f) for f in t.facets],
                "values": None if t.values is None else [_number(v) for v in t.values],
                "elements": t.elements,
            }
            for t in row.tensors
        ],
    }


def _number(value: float) -> float | str:
    return value if abs(value) != float("inf") and value == value else str(value)
