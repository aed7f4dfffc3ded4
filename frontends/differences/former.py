"""Differences that MindSpore's documents state and that are none any more in the release tested here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Former:
    """A difference that a document states, of calls that give the same.

    Attributes:
        torch: the call in PyTorch, as `Difference` has it.
        mindspore: MindSpore's, which gives the same.
        stated: what the document says.
        inputs: the shapes of `x`, `y` and `z`.
    """

    torch: str
    mindspore: str
    stated: str
    inputs: tuple[str, ...] = ("2x3x4",)


FORMER: tuple[Former, ...] = (
    Former("x.sum(1, True)", "x.sum(1, True)", "Tensor.sum has dtype second"),
    Former("x.flatten(1)", "x.flatten(1)", "Tensor.flatten has order first"),
    Former(
        "torch.floor_divide(x, y)", "ops.floor_divide(x, y)", "torch's rounds towards 0", ("2x3x4", "2x3x4")
    ),
    Former('F.pad(x, (1, 2), "circular")', 'ops.pad(x, (1, 2), "circular")', "ops.pad has no circular mode"),
    Former(
        'nn.Conv2d(4, 5, 4, padding="same", bias=False)',
        'nn.Conv2d(4, 5, 4, pad_mode="same")',
        "an odd padding lies in front in torch and at the end in MindSpore",
        ("1x4x8x8",),
    ),
    Former("x * torch.linspace(0, 1, 4)", "x * ops.linspace(0, 1, 4)", "linspace has the type of its start"),
    Former(
        "F.binary_cross_entropy_with_logits(x, y.sigmoid())",
        "ops.binary_cross_entropy_with_logits(x, y.sigmoid())",
        "weight and pos_weight have no default",
        ("3x5", "3x5"),
    ),
    Former(
        "F.softmax(x, 1, dtype=torch.float32)", "ops.softmax(x, 1, dtype=ms.float32)", "softmax has no dtype"
    ),
    Former("torch.prod(x, 1, dtype=torch.float32)", "ops.prod(x, 1, dtype=ms.float32)", "prod has no dtype"),
    Former("torch.std(x, 1, False)", "ops.std(x, 1, False)", "ddof is a number"),
)
"""Measured equal: none of these is reported."""
