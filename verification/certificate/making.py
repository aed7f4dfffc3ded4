"""Makes the certificate of two graphs, and checks it with the checker that everybody has."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...ir import Graph, ModelError
from . import recheck
from .definitions import (
    Definitions,
    computed_candidates,
    define_constants,
    define_numbers,
    folded_candidates,
    unit_variance_candidates,
)
from .small_form import input_shapes, reduce_to_known, write_graph
from .tensor_table import TensorTable

_COMPARISONS = {"Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "If"}
_MANY = 5
"""The batch that is tried where a model could compute otherwise from some size on, as it compares numbers."""

_AXIOMS = list(recheck.AXIOMS)


@dataclass(frozen=True)
class Certified:
    """The result of the check of a certificate.

    Attributes:
        path: the certificate.
        report: what the checker says of it, as its `--json` prints it.
        tensors: the file of its tensors; None where it holds them itself.
    """

    path: Path
    report: dict[str, Any]
    tensors: Path | None = None

    @property
    def passed(self) -> bool:
        """Whether every output is certified, up to what the grade names."""
        return bool(self.report["equal"])

    @property
    def grade(self) -> str:
        """The grade of the whole."""
        return str(self.report["grade"])

    @property
    def files(self) -> list[Path]:
        """The files that were written."""
        return [self.path, *([] if self.tensors is None else [self.tensors])]

    def __str__(self) -> str:
        return recheck.summary(self.report)

    def to_json(self) -> dict[str, Any]:
        """Return the report with the place of the certificate."""
        return {"certificate": str(self.path), "summary": str(self), **self.report}


def certify_graphs(
    source: Graph,
    target: Graph,
    path: Path,
    *,
    folded: Graph | None = None,
    seed: int | None = None,
    units: float = 0.5,
    deadline: float = math.inf,
) -> Certified:
    """Write the certificate that two graphs compute the same, and check it.

    Args:
        source: the source as read.
        target: the target as read back.
        path: the file of the certificate; tensors go into a file of safetensors beside it.
        folded: the source after passes that fold normalisations, whose provenance says what they folded.
        seed: the seed of the check; None draws one.
        units: most units in the last place by which a rounded constant may differ from its expression.
        deadline: the time of `time.process_time` at which it is given up.

    Raises:
        ModelError: when there is nothing to compare (E103), or the graphs have different inputs.
        TimeoutError: behind the deadline.
    """
    if not source.outputs or not target.outputs:
        raise ModelError("E103", "expected two models with outputs, got one without: give inputs")
    tensors = TensorTable()
    both = [reduce_to_known(graph) for graph in (source, target)]
    document: dict[str, Any] = {"format": "regraft-certificate", "version": 1}
    forms = [write_graph(graph, tensors) for graph in both]
    if "mxnet" in (
        source.origin.framework,
        target.origin.framework,
    ):  # whose symbols order inputs as they are met
        forms[1]["inputs"] = _in_order(forms[0]["inputs"], forms[1]["inputs"])
    if source.origin.keyed and target.origin.keyed:
        forms[1]["outputs"] = _in_order(forms[0]["outputs"], forms[1]["outputs"])
    document["sizes"] = _sizes(both[0], both[1], forms)
    document["pairs"] = _pairs(forms)
    document["source"], document["target"] = forms
    definitions = Definitions(tensors)
    own = set(forms[0]["constants"].values())
    define_constants(
        definitions,
        [name for name in dict.fromkeys(forms[1]["constants"].values()) if name not in own],
        [
            *([] if folded is None else folded_candidates(folded)),
            *computed_candidates(both[0]),
            *unit_variance_candidates(both[1]),
        ],
    )
    document["definitions"] = definitions.document()
    _require_time(deadline)
    beside = path.with_suffix(".safetensors")
    is_written = tensors.write(beside)
    document["tensors"] = tensors.entries
    report = _check(document, path, seed, units, deadline)
    if not report["equal"]:
        define_numbers(definitions, _of_one_side(forms, tensors))
        report = _check({**document, "axioms": _AXIOMS}, path, seed, units, deadline)
    return Certified(path, report, beside if is_written else None)


def _check(
    document: dict[str, Any], path: Path, seed: int | None, units: float, deadline: float
) -> dict[str, Any]:
    path.write_text(json.dumps(document, separators=(",", ":")), "utf-8")
    try:
        return recheck.check(recheck.read_certificate(path), seed=seed, units=units, until=deadline)
    except recheck.CertificateError as error:
        raise ModelError("E103", f"expected two models that a certificate can compare: {error}") from error


def _require_time(deadline: float) -> None:
    if time.process_time() > deadline:
        raise TimeoutError


def _of_one_side(forms: Sequence[dict[str, Any]], tensors: TensorTable) -> list[str]:
    """Return the tensors that one graph has and the other has neither as a constant nor as an attribute."""
    both = [dict.fromkeys(form["constants"].values()) for form in forms]
    attributes = {
        number
        for form in forms
        for row in form["nodes"]
        for number in row.get("attributes", {}).values()
        if isinstance(number, float)
    }
    return [
        name
        for mine, other in (both, both[::-1])
        for name in mine
        if name not in other and not attributes.intersection(tensors.entries[name].get("values", []))
    ]


def _in_order(own: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the target's inputs or outputs in the source's order, where both have the same names."""
    names = [row["name"] for row in own]
    if len(set(names)) == len(names) and sorted(names) == sorted(row["name"] for row in other):
        return [next(row for row in other if row["name"] == name) for name in names]
    return other


def _sizes(source: Graph, target: Graph, forms: Sequence[dict[str, Any]]) -> list[dict[str, int]]:
    """Return the sizes of symbols that are tried: the example's, and others where the target takes them."""
    examples = source.origin.inputs or target.origin.inputs
    first: dict[str, int] = {}
    free: dict[str, bool] = {}
    batch: set[str] = set()
    by_name = {row["name"]: row for row in forms[0]["inputs"]}
    for (name, row), shape, other in zip(
        by_name.items(), input_shapes(source), forms[1]["inputs"], strict=False
    ):
        example = np.shape(examples[name]) if name in examples else None
        for axis, dim in enumerate(shape):
            if isinstance(dim, int):
                continue
            fixed = other["shape"][axis] if axis < len(other["shape"]) else None
            number = fixed if isinstance(fixed, int) else example[axis] if example is not None else 2
            first.setdefault(dim, int(number))
            free[dim] = free.get(dim, True) and not isinstance(fixed, int)
            if axis == 0:
                batch.add(dim)
        row["shape"] = shape
    open_ = [d for d in batch if free[d]]
    if not open_:
        return [first]
    branches = any(row["op"] in _COMPARISONS for form in forms for row in form["nodes"])
    tried = [{d: max(first[d] + 1, _MANY if branches else 0) for d in open_}]
    tried += [dict.fromkeys(open_, 1)] if any(first[d] != 1 for d in open_) else []
    return [first, *({**first, **row} for row in tried)]


def _pairs(forms: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the calls that have one name in both, but for what a format makes of its dots."""
    others = {re.sub(r"\W", "_", name): name for name in forms[1]["calls"]}
    return [
        [name, others[plain]] for name in forms[0]["calls"] if (plain := re.sub(r"\W", "_", name)) in others
    ]
