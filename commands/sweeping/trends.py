"""A case over the last sweeps, in a few characters or a picture of a few pixels."""

from __future__ import annotations

import html
from collections.abc import Sequence

from ...ir.outside.display import printable
from .case import GOOD, NOT_JUDGED
from .history import Key, Past

SHOWN = 12
"""Sweeps that a trend shows."""

_BLOCKS = "▁▂▃▄▅▆▇█"
_WRONG, _OUT, _ABSENT = "✗", "-", "·"
_WIDTH, _HEIGHT, _LEAST = 6, 18, 3


def trend_in_text(key: Key, history: Sequence[Past]) -> str:
    """Return a character a sweep: a block as high as its CPU seconds, or a mark where it is not right."""
    return "".join(
        _ABSENT
        if result is None
        else _BLOCKS[round(share * (len(_BLOCKS) - 1))]
        if result[0] in GOOD
        else _OUT
        if result[0] == NOT_JUDGED
        else _WRONG
        for result, share in _shares(key, history)
    )


def trend_in_svg(key: Key, history: Sequence[Past]) -> str:
    """Return a bar a sweep, as high as its CPU seconds, coloured by its verdict; the words are its title."""
    bars: dict[str, list[str]] = {}
    said: list[str] = []
    for at, ((result, share), past) in enumerate(zip(_shares(key, history), history[-SHOWN:], strict=True)):
        if result is None:
            continue
        verdict, cpu = result
        kind = "good" if verdict in GOOD else "none" if verdict == NOT_JUDGED else "bad"
        high = max(_LEAST, round(share * _HEIGHT))
        bars.setdefault(kind, []).append(f"M{at * _WIDTH} {_HEIGHT - high}h{_WIDTH - 1}v{high}h{1 - _WIDTH}z")
        said.append(f"{past.at} {past.label}: {verdict}, {cpu:.1f} s")
    paths = "".join(f'<path class="{kind}" d="{"".join(drawn)}"/>' for kind, drawn in bars.items())
    title = html.escape("\n".join(printable(each) for each in said))
    size = f'width="{SHOWN * _WIDTH}" height="{_HEIGHT}"'
    return f'<svg {size} role="img"><title>{title}</title>{paths}</svg>'


def _shares(key: Key, history: Sequence[Past]) -> list[tuple[tuple[str, float] | None, float]]:
    """Return a case's result in each of the last sweeps, with its share of the most CPU seconds."""
    results = [past.results.get(key) for past in history[-SHOWN:]]
    most = max((result[1] for result in results if result is not None), default=0.0)
    return [(result, result[1] / most if result is not None and most else 0.0) for result in results]
