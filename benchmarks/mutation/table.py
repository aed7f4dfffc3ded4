"""The tables of a run: by net and target, by kind of fault, and the survivors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

Row = Mapping[str, object]

VERDICTS = ("caught", "survived", "equivalent", "faint", "invalid")


def render(rows: Sequence[Row]) -> str:
    """All tables as Markdown."""
    nets = _table(rows, "net and target", lambda r: f"{r['net']}, {r['target']}")
    kinds = _table(rows, "kind of fault", lambda r: str(r["kind"]))
    targets = _table(rows, "target", lambda r: str(r["target"]))
    return "\n\n".join([targets, kinds, nets])


def share(counts: Mapping[str, int]) -> float:
    """Of the faults that make another function and run, how many are caught."""
    judged = counts.get("caught", 0) + counts.get("survived", 0) + counts.get("crashed", 0)
    return counts.get("caught", 0) / judged if judged else 1.0


def share_of(rows: Sequence[Row]) -> float:
    """The share of all rows together."""
    return share(Counter(str(row["verdict"]) for row in rows))


def _table(rows: Sequence[Row], head: str, group: Callable[[Row], str]) -> str:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(group(row), Counter())[str(row["verdict"])] += 1
        counts.setdefault("all", Counter())[str(row["verdict"])] += 1
    lines = [f"| {head} | {' | '.join(VERDICTS)} | share caught |", "|---|" + "---:|" * (len(VERDICTS) + 1)]
    for name in [*sorted(n for n in counts if n != "all"), "all"]:
        cells = " | ".join(str(counts[name].get(v, 0)) for v in VERDICTS)
        lines.append(f"| {name} | {cells} | {share(counts[name]):.1%} |")
    return "\n".join(lines)


def render_right(rows: Sequence[Row]) -> str:
    """The table of right conversions by what was done to them, and every one that is not called equal."""
    groups: dict[str, Counter[str]] = {}
    for row in rows:
        for name in (f"{row['target']}: {row['what']}", "all"):
            groups.setdefault(name, Counter())[str(row["verdict"])] += 1
    lines = ["| right conversion | equal | not equal |", "|---|---:|---:|"]
    for name in [*sorted(n for n in groups if n != "all"), *(["all"] if rows else [])]:
        equal = groups[name]["equal"]
        lines.append(f"| {name} | {equal} | {groups[name].total() - equal} |")
    wrong = [r for r in rows if r["verdict"] != "equal"]
    lines += ["", *(f"- {r['net']}, {r['target']}, {r['what']}: {r['verdict']} {r['why']}" for r in wrong)]
    return "\n".join(lines)
