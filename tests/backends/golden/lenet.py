"""LeNet for MindSpore, rewritten from PyTorch `LeNet` by regraft.
Captured in evaluation mode.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,1,28,28]
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


def fan_in_uniform(fan_in):
    """Uniform within 1/sqrt(fan_in): the law that the source draws biases from."""
    return Uniform(1 / math.sqrt(fan_in))


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
            bias_init=fan_in_uniform(1 * 25),
        )
        self.conv2 = nn.Conv2d(
            6,
            16,
            5,
            pad_mode="valid",
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=fan_in_uniform(6 * 25),
        )
        self.fc1 = nn.Dense(
            400,
            120,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=fan_in_uniform(400),
            has_bias=True,
        )
        self.fc2 = nn.Dense(
            120,
            10,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=fan_in_uniform(120),
            has_bias=True,
        )

    def construct(self, x):
        x = self.conv1(x)
        x = ops.relu(x)
        x = ops.max_pool2d(x, 2, stride=2)
        x = self.conv2(x)
        x = ops.relu(x)
        x = ops.max_pool2d(x, 2, stride=2).reshape(-1, 400)
        x = self.fc1(x)
        x = ops.relu(x)
        return self.fc2(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """The net in inference mode, every parameter named by its module path.

    Args:
        checkpoint: file to load strictly; None leaves the initial distributions.

    Raises:
        ValueError: when names, shapes or element types of the file and the net differ.
    """
    net = LeNet()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    if checkpoint is not None:
        load(net, checkpoint)
    return net.set_train(False)


def load(net, checkpoint):
    """Load a .ckpt or .safetensors file into the net; nothing may be left over on either side."""
    suffix = Path(checkpoint).suffix.removeprefix(".")
    size = Path(checkpoint).stat().st_size
    values = ms.load_checkpoint(str(checkpoint), format=suffix) if size else {}
    parameters = net.parameters_dict()
    problems = [
        f"only in the checkpoint: {name}" for name in values if name not in parameters
    ]
    problems += [
        f"only in the net: {name}" for name in parameters if name not in values
    ]
    for name in parameters.keys() & values.keys():
        expected, found = parameters[name], values[name]
        if (expected.shape, expected.dtype) != (found.shape, found.dtype):
            wanted, given = (
                f"{expected.dtype} {expected.shape}",
                f"{found.dtype} {found.shape}",
            )
            problems.append(f"{name}: expected {wanted}, got {given}")
    if problems:
        raise ValueError(
            f"{checkpoint} does not fit the net:\n" + "\n".join(sorted(problems))
        )
    ms.load_param_into_net(net, values, strict_load=True)
