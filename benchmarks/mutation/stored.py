"""What the last whole run found, as it lies in the tree: the survivors, the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from .samples import labels
from .table import Row, render, render_right, share_of

FOLDER = Path(__file__).parent.parent
FOUND, TABLES, RIGHT = (FOLDER / name for name in ("mutants.json", "mutants.md", "right.md"))


def key_of(row: Row) -> str:
    """What tells a mutant from all others."""
    return " | ".join(str(row[name]) for name in ("net", "target", "kind", "place"))


def known_survivors() -> set[str]:
    """Keys of the mutants that survived the last whole run."""
    return set(json.loads(FOUND.read_text(encoding="utf-8"))["survivors"])


def store(rows: Sequence[Row], each: int, remark: str = "") -> None:
    """Put the result of a whole run into the tree, with how it came about where that was in parts."""
    nets = {str(r["net"]) for r in rows}
    extent = f"{len(nets)} of {len(labels())} nets, {each or 'all'} of each kind of fault and target"
    survivors = sorted(key_of(r) for r in rows if r["verdict"] in ("survived", "crashed"))
    document = {
        "extent": extent,
        "judged": len(rows),
        "share": round(share_of(rows), 4),
        "survivors": survivors,
    }
    FOUND.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    TABLES.write_text(
        "# Planted faults that the verification catches\n\n"
        "Made by `make mutants`. *Caught*: a row of the report fails. *Invalid*: the target does not load\n"
        "or run any more, which is an error of its own. *Equivalent*: the same function, listed by hand\n"
        "in `mutation/equivalent.json` with the reason. *Faint*: it moves no value, on any inputs tried, by\n"
        "more than the rounding between the two runtimes does. The share is of caught and survivors.\n\n"
        f"{' '.join(filter(None, [f'This run: {extent}.', remark]))}\n\n"
        + render(rows)
        + "\n\n## Survivors\n\n"
        + _listed(survivors),
        encoding="utf-8",
    )


def store_right(rows: Sequence[Row]) -> None:
    """Put the result of a whole run over right conversions into the tree."""
    text = (
        "# Right conversions that are called equal\n\nMade by `make mutants`.\n\n" + render_right(rows) + "\n"
    )
    RIGHT.write_text(text, encoding="utf-8")


def _listed(keys: Iterable[str]) -> str:
    return "".join(f"- `{key.replace('`', chr(39))}`\n" for key in keys) or "None.\n"
