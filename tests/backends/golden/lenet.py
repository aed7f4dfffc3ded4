"""LeNet for MindSpore, rewritten from PyTorch `LeNet` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,1,28,28]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


class LeNet(nn.Cell):
    """The source's `LeNet`."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(
            1,
            6,
            5,
            pad_mode="pad",
            padding=2,
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(1 * 25)),
        )
        self.conv2 = nn.Conv2d(
            6,
            16,
            5,
            pad_mode="valid",
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(6 * 25)),
        )
        self.fc1 = nn.Dense(
            400,
            120,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(400)),
            has_bias=True,
        )
        self.fc2 = nn.Dense(
            120,
            10,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(120)),
            has_bias=True,
        )

    def construct(self, x):
        x = ops.relu(self.conv1(x))
        x = ops.max_pool2d(x, 2, stride=2)
        x = ops.relu(self.conv2(x))
        x = ops.max_pool2d(x, 2, stride=2).reshape(-1, 400)
        x = ops.relu(self.fc1(x))
        return self.fc2(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = LeNet()
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
