"""Cases of losses that are one operator."""

import torch
from torch.nn import functional

from .case import Case, Group, floats

_SCORES = floats(6, 2, 5).through(lambda x: x.log_softmax(2))
_LABELS = torch.tensor([[1, 2, 2], [3, 1, 0]])
_JOINED = torch.tensor([1, 2, 2, 3, 1])


def _ctc(*arguments, **options):
    return Case("regraft.ctc_losses.default", *arguments, call=functional.ctc_loss, **options)


ALIGNMENTS = Group(
    [
        _ctc(_SCORES, _LABELS, torch.tensor([6, 5]), torch.tensor([3, 2])),
        _ctc(_SCORES, _LABELS, [6, 1], [3, 2], 4, reduction="none", zero_infinity=True),
        _ctc(_SCORES, _JOINED, [6, 1], [3, 2], reduction="none"),
        _ctc(_SCORES, _JOINED, torch.tensor([6, 5]), torch.tensor([3, 2]), reduction="sum"),
        _ctc(_SCORES.through(lambda x: x[:, 0]), _LABELS[0], torch.tensor(6), torch.tensor(3)),
    ],
    dynamic=False,
)

GROUPS = [ALIGNMENTS]
