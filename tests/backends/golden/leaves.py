"""Leaves for MindSpore, rewritten from PyTorch `Leaves` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,8]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


class Leaves(nn.Cell):
    """The source's `Leaves`."""

    def __init__(self):
        super().__init__()
        self.conv1d = nn.Conv1d(
            3,
            6,
            3,
            pad_mode="pad",
            padding=1,
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(3 * 3)),
        )
        self.bn1d = nn.BatchNorm1d(6, eps=1e-05, momentum=0.9)
        self.prelu = nn.PReLU(channel=6)
        self.up = nn.Conv2dTranspose(
            6,
            4,
            3,
            stride=2,
            pad_mode="pad",
            padding=(1, 0, 1, 0),
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(4 * 9)),
        )
        self.group = nn.GroupNorm(2, 4, eps=1e-05)
        self.instance = nn.GroupNorm(4, 4, eps=1e-05, affine=False)
        self.leaky = nn.LeakyReLU(alpha=0.1)
        self.conv3d = nn.Conv3d(
            4,
            2,
            (1, 3, 3),
            pad_mode="pad",
            padding=(0, 0, 1, 1, 1, 1),
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(4 * 9)),
        )
        self.bn3d = nn.BatchNorm3d(2, eps=1e-05, momentum=0.9)
        self.norm = nn.LayerNorm(
            [4, 16], begin_norm_axis=1, begin_params_axis=1, epsilon=1e-05
        )

    def construct(self, x):
        x = self.prelu(self.bn1d(self.conv1d(x)))
        x = x.expand_dims(2)
        x = self.leaky(self.instance(self.group(self.up(x))))
        x = x.expand_dims(2)
        x = self.bn3d(self.conv3d(x))
        x = x.reshape(-1, 2, 2, 16)
        x = ops.tile(x, (1, 2, 1, 1)).reshape(-1, 8, 16)[:, :4]
        return self.norm(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")
FROZEN = {"instance.beta", "instance.gamma"}


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Leaves()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
        parameter.requires_grad = parameter.requires_grad and path not in FROZEN
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
