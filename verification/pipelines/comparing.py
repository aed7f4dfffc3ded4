"""Compares what two pipelines give: number and order of samples, fields, values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .chains import compare_chains, compare_fillings, compare_pixels, difference, pixels
from .explaining import explain_values
from .explanation import AFFINE
from .reading import Recorded, record_pipeline
from .result import DataReport, FieldRow, Finding

_BATCH = 8
"""Samples that models are run on."""

_STEPS = 3
"""Steps of 8 bits that decoders and resizes of two libraries lie apart."""

_SLIGHT = 0.5
"""Steps of 8 bits from which on one shift of all values is no rounding."""

_SHOWN = 4

_ALIKE = 0.98
"""Product of two small pictures of unit length from which on they show one sample."""

"""Images of a page."""


def compare_pipelines(first: str, second: str, samples: int = 64) -> DataReport:
    """Compare two input pipelines, each run in a process of its own.

    Args:
        first: ``FILE.py:FUNCTION`` of the pipeline that is right; the function gives batches.
        second: that of its port.
        samples: number of samples to compare.

    Returns:
        The report; its findings name the first transform that differs.

    Raises:
        ModelError: when a file or its pipeline raises.
    """
    one, two = record_pipeline(first, samples), record_pipeline(second, samples)
    report = DataReport(
        (first, second),
        notes=[f"{side}: {note}" for side, r in (("first", one), ("second", two)) for note in r.notes],
    )
    exchanged = _exchanged_axes(one, two)
    if exchanged is not None:  # nothing else is comparable: what is a sample differs
        report.findings.append(exchanged)
        return report
    report.samples = min(_read(one), _read(two))
    report.findings += _compare_counts(one, two)
    for side in (one, two):
        side.fields = {name: values[: report.samples] for name, values in side.fields.items()}
    pairs = _pair_fields(one, two, report)
    order = _order(one, two, pairs)
    if order is not None:
        report.findings.append(order[0])
        two.fields = {name: [values[i] for i in order[1]] for name, values in two.fields.items()}
    random = [s.name for r in (one, two) for s in r.images if s.random]
    if random:
        names = ", ".join(dict.fromkeys(random))
        report.notes.append(f"{names}: compared by settings, and by their middle in place of a draw")
    for names in pairs:
        row = _row(one, two, names)
        report.fields.append(row)
        report.findings += _compare_field(one, two, row)
    mine, other = next(
        ((one.fields[a], two.fields[b]) for a, b in pairs if _is_image(one.fields[a])), ([], [])
    )
    shown = [(f"sample {i}", pixels(a), pixels(b)) for i, (a, b) in enumerate(zip(mine, other, strict=False))]
    report.images = shown[:_SHOWN]
    if pairs:
        report.first_batches = (_batch(one.fields[pairs[0][0]]), _batch(two.fields[pairs[0][1]]))
    return report


def _batch(values: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the first samples as one array; None where their shapes differ."""
    kept = list(values[:_BATCH])
    return np.stack(kept) if kept and len({v.shape for v in kept}) == 1 else None


def _read(recorded: Recorded) -> int:
    return max((len(values) for values in recorded.fields.values()), default=0)


def _compare_counts(one: Recorded, two: Recorded) -> list[Finding]:
    found: list[Finding] = []
    sizes = [
        r.settings.get("batch size") or (r.batch_sizes[0] if r.batch_sizes else None) for r in (one, two)
    ]
    if sizes[0] != sizes[1] and all(sizes):
        found.append(
            Finding(
                "batches",
                f"batches have {sizes[1]} samples instead of {sizes[0]}",
                advice=f"a batch size of {sizes[0]}",
            )
        )
    drops = [r.settings.get("drops the last batch") for r in (one, two)]
    if drops[0] != drops[1] and None not in drops and not _divides(one, sizes[0]):
        name = "drop_remainder" if "MindSpore" in two.kind else "drop_last"
        text = (
            "the last, smaller batch is left out" if drops[1] else "the last, smaller batch is not left out"
        )
        found.append(Finding("batches", text, advice=f"{name}={bool(drops[0])}"))
    elif one.samples is not None and two.samples is not None and one.samples != two.samples:
        found.append(_of_numbers(one.samples, two.samples))
    elif not found and one.batches is not None and two.batches is not None and one.batches != two.batches:
        found.append(Finding("batches", f"there are {two.batches} batches instead of {one.batches}"))
    shuffles = [r.settings.get("shuffles") for r in (one, two)]
    if shuffles[0] != shuffles[1] and None not in shuffles:
        text = (
            "samples are shuffled, those of the first are not"
            if shuffles[1]
            else "samples are not shuffled, those of the first are"
        )
        found.append(Finding("order", text, advice=f"shuffle={bool(shuffles[0])}"))
    return found


def _divides(one: Recorded, size: int | None) -> bool:
    """Whether no batch of the first is smaller than the others, so that none is left out."""
    return bool(size) and one.samples is not None and one.samples % size == 0


def _of_numbers(mine: int, other: int) -> Finding:
    """Return the finding of another number of samples, each of which may be given several times."""
    text = f"there are {other} samples instead of {mine}"
    if mine and other % mine == 0:
        times = other // mine
        return Finding("samples", f"{text}: {times} times as many", advice=f"leave out repeat({times})")
    if other and mine % other == 0:
        return Finding("samples", text, advice=f"repeat({mine // other}), if the first repeats its samples")
    return Finding("samples", text)


def _exchanged_axes(one: Recorded, two: Recorded) -> Finding | None:
    """Return the finding of a batch whose first two axes are exchanged, as recurrent nets take it."""
    for mine, other in zip(one.fields, two.fields, strict=False):
        sizes = [r.batch_sizes[0] if r.batch_sizes else 0 for r in (one, two)]
        kept = [one.fields[mine][: sizes[0]], two.fields[other][: sizes[1]]]
        if any(len({v.shape for v in side}) != 1 or not side[0].ndim for side in kept):
            continue
        a, b = (np.stack(side) for side in kept)
        if a.shape[0] != a.shape[1] and np.array_equal(a.swapaxes(0, 1), b):
            text = f"`{other}` has the batch as its second axis, not as its first"
            return Finding(other, text, advice="batch_first=True, or exchange the first two axes")
        if a.shape[0] != a.shape[1] and np.array_equal(a, b.swapaxes(0, 1)):
            text = f"`{other}` has the batch as its first axis, not as its second"
            return Finding(other, text, advice="batch_first=False, or exchange the first two axes")
    return None


def _pair_fields(one: Recorded, two: Recorded, report: DataReport) -> list[tuple[str, str]]:
    """Return pairs of fields: by their names, else by place and kind."""
    mine, other = list(one.fields), list(two.fields)
    shared = [(name, name) for name in mine if name in other]
    if shared and len(shared) == len(mine) == len(other) and not _are_exchanged(one, two, mine):
        return shared
    if shared and all(name.isdecimal() for name in mine):
        shared = []  # places, which say nothing of what is there
    pairs = list(shared)
    left = [n for n in mine if n not in dict(shared)], [n for n in other if n not in dict(shared)]
    ranks = [
        [max((v.ndim for v in r.fields[n]), default=0) for n in names]
        for r, names in zip((one, two), left, strict=True)
    ]
    numbered = any(name.isdecimal() for name in (*left[0], *left[1]))
    if len(left[0]) == len(left[1]) and ranks[0] == ranks[1]:
        pairs += zip(*left, strict=True)
        if not numbered:
            named = ", ".join(f"`{b}` instead of `{a}`" for a, b in zip(*left, strict=True))
            report.findings.append(Finding("fields", f"fields have other names: {named}"))
    elif len(left[0]) == len(left[1]) and sorted(ranks[0]) == sorted(ranks[1]):
        order = [sorted(range(len(r)), key=lambda i, r=r: r[i]) for r in ranks]
        found = [(left[0][i], left[1][j]) for i, j in zip(*order, strict=True)]
        named = f"{', '.join(other)} against {', '.join(mine)}"
        if numbered:
            named = ", ".join(f"`{b}` is `{a}`" for a, b in found) + " of the first"
        report.findings.append(Finding("fields", f"fields are in another order: {named}"))
        pairs += found
    elif len(mine) != len(other):
        report.findings.append(
            Finding(
                "fields",
                f"a batch has the fields {', '.join(other)} instead of {', '.join(mine)}",
            )
        )
        pairs += zip(*left, strict=False)
    else:
        pairs += zip(*left, strict=True)
    return pairs


def _are_exchanged(one: Recorded, two: Recorded, names: Sequence[str]) -> bool:
    """Whether numbered fields have the ranks of the other side's in another order."""
    ranks = [[max((v.ndim for v in r.fields[n]), default=0) for n in names] for r in (one, two)]
    numbered = all(name.isdecimal() for name in names)
    return numbered and ranks[0] != ranks[1] and sorted(ranks[0]) == sorted(ranks[1])


def _order(
    one: Recorded, two: Recorded, pairs: Sequence[tuple[str, str]]
) -> tuple[Finding, list[int]] | None:
    """Return the finding of another order, and the place of each sample of the first in the second."""
    for mine, other in pairs:
        a, b = one.fields[mine], two.fields[other]
        if len(a) != len(b) or len(a) < 2 or not _is_rich(a) or not _is_rich(b):
            continue
        prints = [[_print(v) for v in side] for side in (a, b)]
        if any(p.shape != prints[0][0].shape for side in prints for p in side):
            continue
        x, y = (np.stack(side) for side in prints)
        alike = x @ y.T
        places = alike.argmax(1)
        for step in range(1, len(a) - 1):
            for begin, ahead in ((alike[step:, :-step], "second"), (alike[:-step, step:], "first")):
                if np.diagonal(begin).min() > _ALIKE and np.diagonal(alike).min() < _ALIKE:
                    text = f"the {ahead} leaves out the first {step} samples"
                    return Finding("order", text, advice="read the same samples"), list(range(len(b)))
        own = np.diagonal(alike)
        certain = alike.max(1) - own > 0.05
        if certain.sum() >= max(2, len(a) // 3) and sorted(places.tolist()) == list(range(len(a))):
            return Finding(
                "order", "samples come in another order", advice="read the files in one order"
            ), places.tolist()
        return None
    return None


def _is_rich(values: Sequence[np.ndarray]) -> bool:
    return all(v.size >= 16 and v.dtype.kind in "iuf" for v in values)


def _print(values: np.ndarray) -> np.ndarray:
    """Return a small picture of a sample, by which samples are told apart whatever their scale and layout."""
    image = pixels(values) if values.ndim >= 2 else values.astype(np.float64)[:, None, None]
    grey = image.mean(-1) if image.ndim == 3 else image
    n = 8
    rows = np.array_split(np.arange(grey.shape[0]), min(n, grey.shape[0]))
    columns = np.array_split(np.arange(grey.shape[1]), min(n, grey.shape[1]))
    small = np.array([[grey[np.ix_(r, c)].mean() for c in columns] for r in rows])
    small = small - small.mean()
    flat = np.zeros(n * n)
    flat[: small.size] = small.reshape(-1)
    return flat / (np.linalg.norm(flat) or 1.0)


def _row(one: Recorded, two: Recorded, names: tuple[str, str]) -> FieldRow:
    a, b = one.fields[names[0]], two.fields[names[1]]
    shapes = tuple(v[0].shape if len({x.shape for x in v}) == 1 else None for v in (a, b))
    dtypes = tuple(str(v[0].dtype) if v else "" for v in (a, b))
    row = FieldRow(names, (shapes[0], shapes[1]), (dtypes[0], dtypes[1]), (_statistics(a), _statistics(b)))
    if (
        a
        and b
        and all(x.shape == y.shape for x, y in zip(a, b, strict=False))
        and _is_numeric(a)
        and _is_numeric(b)
    ):
        row.apart = max(
            float(np.abs(x.astype(np.float64) - y).max(initial=0.0)) for x, y in zip(a, b, strict=False)
        )
    return row


def _statistics(values: Sequence[np.ndarray]) -> tuple[float, ...]:
    if not values or not _is_numeric(values):
        return ()
    flat = np.concatenate([v.reshape(-1).astype(np.float64) for v in values])
    return (float(flat.min()), float(flat.max()), float(flat.mean()), float(flat.std())) if flat.size else ()


def _is_numeric(values: Sequence[np.ndarray]) -> bool:
    return all(v.dtype.kind in "biuf" for v in values)


def _is_image(values: Sequence[np.ndarray]) -> bool:
    return bool(values) and values[0].ndim in (2, 3) and _is_numeric(values)


def _compare_field(one: Recorded, two: Recorded, row: FieldRow) -> list[Finding]:
    a, b = one.fields[row.names[0]], two.fields[row.names[1]]
    found: list[Finding] = []
    name = row.names[1]
    if not _is_numeric(a) or not _is_numeric(b):
        if any(not np.array_equal(x, y) for x, y in zip(a, b, strict=False)):
            found.append(Finding(name, f"`{name}` has other texts"))
        return found
    laws = _random_laws(one, two) if _is_image(a) else []
    found += laws
    if row.apart is not None and row.apart <= _tolerance(row):
        return [*found, *_slight(a, b, row), *_types(row)]
    if _is_image(a) and one.images and two.images:
        found += [f for f in compare_chains(one.images, two.images) if f not in found]
    explained = [f for f in found if f not in laws]
    reasons = explain_values(a, b)
    layout = [r for r in reasons if r.message.startswith("the layout")]
    kept = layout if explained else reasons
    found += [
        Finding(
            name,
            f"`{name}`: {r.message}",
            advice=r.advice,
            effect="" if explained else _moved(row),
        )
        for r in kept
    ]
    if not found or found == laws:
        if row.apart is None:
            text = f"`{name}` has the shape {_shape(row.shapes[1])} instead of {_shape(row.shapes[0])}"
        else:
            text = f"`{name}` has other values: {row.apart:.3g} apart at most"
            if _is_image(a) and _is_rounding(a, b, row):
                return [*found, *_types(row)]
        found.append(Finding(name, text, effect=_moved(row)))
    return [*found, *_types(row)]


def _slight(a: Sequence[np.ndarray], b: Sequence[np.ndarray], row: FieldRow) -> list[Finding]:
    """Return the finding of a scale or shift below the tolerance that all values have, unlike rounding."""
    low, high = (*row.ranges[0], 0.0, 0.0)[:2]
    if not _is_image(a) or row.apart is None or row.apart < (high - low) * _SLIGHT / 255:
        return []
    reasons = explain_values(a, b)
    if len(reasons) != 1 or not reasons[0].message.startswith(AFFINE):
        return []
    name = row.names[1]
    text = f"`{name}`: {reasons[0].message}"
    return [Finding(name, text, advice=reasons[0].advice, effect=_moved(row))]


def _is_rounding(a: Sequence[np.ndarray], b: Sequence[np.ndarray], row: FieldRow) -> bool:
    """Whether images differ by a few steps of 8 bits, in the units of their values too."""
    gap = difference(a, b)
    low, high = (*row.ranges[0], 0.0, 0.0)[:2]
    steps = np.inf if row.apart is None else row.apart * 255 / (high - low or 1.0)
    return gap is not None and gap[1] <= _STEPS and steps <= 2 * _STEPS


def _moved(row: FieldRow) -> str:
    """Describe how far values lie apart; empty where shapes differ."""
    return "" if row.apart is None else f"values are {row.apart:.3g} apart at most"


def _random_laws(one: Recorded, two: Recorded) -> list[Finding]:
    """Compare random transforms by their settings and places, whatever the values are."""
    random = [[s for s in r.images if s.random] for r in (one, two)]
    found = [*compare_fillings(one.images, two.images), *compare_pixels(*random)]
    return [f for f in found if f.of_law]


def _tolerance(row: FieldRow) -> float:
    """Return the difference that rounding explains: a step of 8 bits in the units of the first."""
    if row.dtypes[0].startswith(("int", "uint", "bool")) and row.dtypes[1].startswith(
        ("int", "uint", "bool")
    ):
        return 1.0 if row.dtypes[0] == row.dtypes[1] == "uint8" else 0.0
    low, high = (*row.ranges[0], 0.0, 0.0)[:2]
    return (
        max((high - low) / 128, 1e-6)
        if row.shapes[0] is not None and len(row.shapes[0]) >= 2
        else 1e-5 * max(abs(low), abs(high), 1.0)
    )


def _types(row: FieldRow) -> list[Finding]:
    one, two = row.dtypes
    if one == two or {one, two} <= {"int32", "int64"}:
        return []
    return [
        Finding(
            row.names[1],
            f"`{row.names[1]}` has the element type {two} instead of {one}",
            advice=f"cast it to {one}",
        )
    ]


def _shape(shape: tuple[int, ...] | None) -> str:
    return "varying shapes" if shape is None else str(list(shape))
