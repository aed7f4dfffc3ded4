"""Siamese for MindSpore, rewritten from PyTorch `Siamese` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: left: f32[N,1,8,8], right: f32[N,1,8,8]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


class Siamese(nn.Cell):
    """The source's `Siamese`."""

    def __init__(self):
        super().__init__()
        self.branch = nn.SequentialCell(
            nn.Conv2d(
                1,
                4,
                3,
                pad_mode="valid",
                has_bias=True,
                weight_init=HeUniform(math.sqrt(5)),
                bias_init=Uniform(1 / math.sqrt(1 * 9)),
            ),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dense(
                144,
                8,
                weight_init=HeUniform(math.sqrt(5)),
                bias_init=Uniform(1 / math.sqrt(144)),
                has_bias=True,
            ),
        )
        self.head = nn.Dense(
            1,
            1,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(1)),
            has_bias=True,
        )

    def construct(self, left, right):
        x = self.branch(left)
        branch = self.branch(right)
        x = ops.abs(x - branch).sum(1, keepdims=True)
        return self.head(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Siamese()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    if checkpoint is not None:
        load(net, checkpoint)
    return net.set_train(False)


def load(net, checkpoint):
    """Load a .ckpt or .safetensors file; raise ValueError unless it fits the net."""
    path = Path(checkpoint)
    values = ms.load_checkpoint(str(path), format=path.suffix[1:])
    wanted = {f"{n} {p.dtype}{p.shape}" for n, p in net.parameters_dict().items()}
    found = {f"{n} {v.dtype}{v.shape}" for n, v in values.items()}
    problems = [f"only in the net: {each}" for each in sorted(wanted - found)]
    problems += [f"only in the checkpoint: {each}" for each in sorted(found - wanted)]
    if problems:
        raise ValueError(f"{path} does not fit the net:\n" + "\n".join(problems))
    ms.load_param_into_net(net, values, strict_load=True)
