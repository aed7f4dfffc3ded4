"""Siamese for MindSpore, rewritten from PyTorch `Siamese` by regraft.
Captured in evaluation mode.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: left: f32[N,1,8,8], right: f32[N,1,8,8]
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


def fan_in_uniform(fan_in):
    """Uniform within 1/sqrt(fan_in): the law that the source draws biases from."""
    return Uniform(1 / math.sqrt(fan_in))


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
                bias_init=fan_in_uniform(1 * 9),
            ),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dense(
                144,
                8,
                weight_init=HeUniform(math.sqrt(5)),
                bias_init=fan_in_uniform(144),
                has_bias=True,
            ),
        )
        self.head = nn.Dense(
            1,
            1,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=fan_in_uniform(1),
            has_bias=True,
        )

    def construct(self, left, right):
        x = self.branch(left)
        branch = self.branch(right)
        x = ops.abs(x - branch).sum(1, keepdims=True)
        return self.head(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """The net in inference mode, every parameter named by its module path.

    Args:
        checkpoint: file to load strictly; None leaves the initial distributions.

    Raises:
        ValueError: when names, shapes or element types of the file and the net differ.
    """
    net = Siamese()
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
