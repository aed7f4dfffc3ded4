"""Pages of the traps of porting: what the same call means in MindSpore and in PyTorch."""

from __future__ import annotations

from .page import Page

_SAME = "The call looks the same as in PyTorch but means something else in MindSpore, without a warning. "

PAGES: dict[str, Page] = {
    "PT101": Page(
        _SAME + 'MindSpore pads to keep the size, pad_mode="same"; torch does not pad.',
        "nn.Conv2d(3, 8, 3)",
        'nn.Conv2d(3, 8, 3, pad_mode="pad", padding=0).',
    ),
    "PT102": Page(
        _SAME + "MindSpore's convolutions have no bias by default.",
        "nn.Conv2d(3, 8, 3)",
        "nn.Conv2d(3, 8, 3, has_bias=True).",
    ),
    "PT103": Page(
        _SAME + "MindSpore's GELU is the tanh approximation.",
        "nn.GELU()",
        "nn.GELU(approximate=False).",
    ),
    "PT104": Page(_SAME + "The slopes are 0.2 and 0.01.", "nn.LeakyReLU()", "nn.LeakyReLU(alpha=0.01)."),
    "PT105": Page(
        _SAME + "The epsilons are 1e-7 and 1e-5.",
        "nn.LayerNorm((64,))",
        "nn.LayerNorm((64,), epsilon=1e-5).",
    ),
    "PT106": Page(
        _SAME + "begin_norm_axis is -1: only the last axis is normalised.",
        "nn.LayerNorm((8, 16))",
        "nn.LayerNorm((8, 16), begin_norm_axis=-2, begin_params_axis=-2).",
    ),
    "PT107": Page(
        _SAME + "MindSpore's momentum is the share of the old value, torch's of the new one.",
        "nn.BatchNorm2d(8, momentum=0.1)",
        "nn.BatchNorm2d(8, momentum=0.9).",
    ),
    "PT108": Page(
        _SAME + "The first argument is keep_prob, the ratio that is kept.",
        "nn.Dropout(0.1)",
        "nn.Dropout(p=0.1).",
    ),
    "PT109": Page(
        _SAME + "The tables start with a standard deviation of 0.01 in MindSpore and of 1 in torch.",
        "nn.Embedding(1000, 64)",
        "nn.Embedding(1000, 64, embedding_table=Normal(1.0)).",
    ),
    "PT110": Page(
        _SAME + "MindSpore's pools have a stride of 1 by default, torch's the size of their window.",
        "nn.MaxPool2d(2)",
        "nn.MaxPool2d(2, stride=2).",
    ),
    "PT111": Page(
        _SAME + "MindSpore's InstanceNorm has a trained weight and bias.",
        "nn.InstanceNorm2d(8)",
        "nn.InstanceNorm2d(8, affine=False).",
    ),
    "PT112": Page(
        _SAME + "MindSpore returns the loss of every element, torch the mean.",
        "nn.SmoothL1Loss()",
        'nn.SmoothL1Loss(reduction="mean").',
    ),
    "PT113": Page(
        _SAME + "MindSpore divides by n, torch by n - 1.", "ops.std(x)", "ops.std(x, ddof=1), or mint.std(x)."
    ),
    "PT114": Page(
        _SAME + "The finding names the default that differs.",
        "ops.interpolate(x, size=(8, 8))",
        "Write the argument out, as the finding says.",
    ),
    "PT121": Page(
        _SAME + "The finding names the default, of a layer or an initializer, that differs.",
        "nn.LRN(2)",
        "Write the argument out, as the finding says.",
    ),
    "PT115": Page(
        "In MindSpore, requires_grad of a computed tensor has no effect; torch ends the gradient there.",
        "y = self.body(x); y.requires_grad = False",
        "y = ops.stop_gradient(self.body(x)).",
    ),
    "PT116": Page(
        "Cells begin in evaluation mode, Modules in training mode: BatchNorm and Dropout behave accordingly.",
        "for batch in data: step(batch)  # and no net.set_train()",
        "net.set_train() before the loop.",
    ),
    "PT117": Page(
        "nn.AdamWeightDecay is not AdamW: it does not correct the bias of its moments, so its first steps "
        "are larger.",
        "nn.AdamWeightDecay(net.trainable_params(), 1e-3)",
        "mindspore.mint.optim.AdamW, or the optimizer that `regraft rewrite --recipe` writes.",
    ),
    "PT118": Page(
        "Exported and rewritten models do not keep a Cell's own bprop: the gradient becomes the derivative "
        "of the operators.",
        "def bprop(self, x, out, dout): return (dout * 2,)",
        "Write the gradient with operators: x * 2 - ops.stop_gradient(x).",
    ),
    "PT119": Page(
        "amp_level O2 or O3 casts every Cell, those with to_float too.",
        'head.to_float(ms.float32); Model(net, amp_level="O2")',
        'amp_level="O1", or auto_mixed_precision with a list of the Cells to leave.',
    ),
    "PT120": Page(
        "Parameters of a Cell with auto_prefix=False have names without the Cell's own, and such names soon "
        "collide.",
        "nn.SequentialCell(…, auto_prefix=False)",
        "Leave auto_prefix out.",
    ),
}
