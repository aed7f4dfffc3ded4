"""The result of a comparison of two input pipelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir import folded_markup, table_markup, text_markup


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that two pipelines do differently.

    Attributes:
        stage: where: "batches", "order", a field, or the transform that differs.
        message: what differs.
        places: (line in the first file, line in the second); 0 for unknown.
        advice: what to write in the second.
        effect: how far it moves the values; empty where it moves none.
        of_law: whether it is about a random transform, which values do not show.
    """

    stage: str
    message: str
    places: tuple[int, int] = (0, 0)
    advice: str = ""
    effect: str = ""
    of_law: bool = False


def told(message: str, say: Callable[[str], str]) -> str:
    """Return a finding's message in a language; a name may stand before a colon, and stays."""
    said = say(message)
    if said != message:
        return said
    name, colon, text = message.partition(": ")
    return f"{name}: {'; '.join(map(say, text.split('; ')))}" if colon else message


@dataclass(slots=True)
class FieldRow:
    """One field of both.

    Attributes:
        names: in the first and in the second.
        shapes: of a sample; None where samples differ in it.
        dtypes: element types.
        ranges: (least, largest, mean, deviation) of what was read.
        apart: largest difference of the samples; None where shapes differ.
    """

    names: tuple[str, str]
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    dtypes: tuple[str, str]
    ranges: tuple[tuple[float, ...], tuple[float, ...]]
    apart: float | None = None


def _lines(places: tuple[int, int]) -> str:
    return " / ".join(str(place) if place else "-" for place in places)


@dataclass(slots=True)
class DataReport:
    """Two pipelines, compared.

    Attributes:
        references: what a person calls each.
        findings: what differs, the first cause first.
        fields: one row a field.
        samples: number of samples that were compared.
        notes: what was changed or left out for the comparison.
        first_batches: the first samples of the field that a model would be given, of both sides.
        images: images of both sides and what they are, for a page.
    """

    references: tuple[str, str]
    findings: list[Finding] = field(default_factory=list[Finding])
    fields: list[FieldRow] = field(default_factory=list[FieldRow])
    samples: int = 0
    notes: list[str] = field(default_factory=list[str])
    first_batches: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    images: list[tuple[str, np.ndarray, np.ndarray]] = field(
        default_factory=list[tuple[str, np.ndarray, np.ndarray]]
    )

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """The first line of the report."""
        return self.verdict_in(str)

    def verdict_in(self, say: Callable[[str], str]) -> str:
        """Return the first line of the report in a language."""
        if self.equal:
            return say(f"equal: {self.samples} samples in {len(self.fields)} fields compared")
        return f"{say('different:')} {told(self.findings[0].message, say)}"

    def _repr_html_(self) -> str:
        """Return the verdict, the findings and the fields as tables, as notebooks show them."""
        rows = [(f.stage, f.message, _lines(f.places), f.advice, f.effect) for f in self.findings]
        found = table_markup(("stage", "finding", "lines", "write", "effect"), rows) if rows else ""
        fields = [
            (" / ".join(dict.fromkeys(row.names)), *map(str, row.shapes), *row.dtypes, row.apart or "")
            for row in self.fields
        ]
        table = table_markup(("field", "shape", "its port's", "type", "its port's", "apart"), fields)
        notes = "".join(text_markup(f"note: {note}", "p") for note in self.notes)
        return text_markup(self.verdict, "strong") + found + folded_markup("fields", table) + notes

    def to_json(self) -> dict[str, Any]:
        """Return the report as `--json` prints it."""
        return {
            "equal": self.equal,
            "verdict": self.verdict,
            "first": self.references[0],
            "second": self.references[1],
            "samples": self.samples,
            "findings": [
                {
                    "stage": f.stage,
                    "message": f.message,
                    "lines": list(f.places),
                    "advice": f.advice,
                    "effect": f.effect,
                }
                for f in self.findings
            ],
            "fields": [
                {
                    "names": list(row.names),
                    "shapes": [None if s is None else list(s) for s in row.shapes],
                    "dtypes": list(row.dtypes),
                    "ranges": [[float(v) for v in r] for r in row.ranges],
                    "apart": row.apart,
                }
                for row in self.fields
            ],
            "notes": self.notes,
        }
