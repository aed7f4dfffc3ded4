"""Learning rates in train.py: a number, or a schedule."""

from __future__ import annotations

from collections.abc import Sequence

from ...source.training.rates import schedule_text

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
    """Return a learning rate, or a schedule."""
    return repr(rates[0]) if len(set(rates)) == 1 else schedule_text(rates, "Rates")
