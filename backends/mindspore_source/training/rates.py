"""Learning rates in train.py: a number, or stretches of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

_RUNS = 12
"""Stretches of one learning rate up to which a schedule is written as stretches."""

RATES = '''
class Rates(nn.learning_rate_schedule.LearningRateSchedule):
    """Give each step its learning rate: (rate, steps) is constant, (first, last, steps) is linear."""

    def __init__(self, *stretches):
        super().__init__()
        rates = []
        for *ends, steps in stretches:
            first, last = ends[0], ends[-1]
            rates += [first + (last - first) * at / max(steps - 1, 1) for at in range(steps)]
        self.rates = Tensor(rates, ms.float32)
        self.last = len(rates) - 1

    def construct(self, step):
        return ops.gather(self.rates, ops.minimum(step, self.last), 0)
'''
"""The class that such a schedule is written with."""


def rates_text(rates: Sequence[float]) -> str:
    """Return a learning rate, or a schedule in stretches; the last one stays."""
    if len(set(rates)) == 1:
        return repr(rates[0])
    stretches = list(_stretches(rates))
    if len(stretches) > _RUNS:
        return f"Rates(*[(rate, 1) for rate in {[*rates]!r}])"
    return f"Rates({', '.join(map(repr, stretches))})"


def _stretches(rates: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Yield runs of one rate, and of rates on a line."""
    runs = [(rate, len(list(same))) for rate, same in groupby(rates)]
    at = 0
    while at < len(runs):
        end = at
        while end < len(runs) and runs[end][1] == 1 and _on_a_line([r for r, _ in runs[at : end + 1]]):
            end += 1
        if end - at > 2:
            yield (runs[at][0], runs[end - 1][0], end - at)
            at = end
        else:
            yield runs[at]
            at += 1


def _on_a_line(rates: Sequence[float]) -> bool:
    if len(rates) < 3:
        return True
    slope = (rates[-1] - rates[0]) / (len(rates) - 1)
    scale = max(map(abs, rates)) * 1e-6
    return all(abs(rates[0] + slope * at - rate) <= scale for at, rate in enumerate(rates))
