"""SharedStem for MindSpore, rewritten from PyTorch `SharedStem` by regraft.
Captured in evaluation mode.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,4]
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import HeUniform, Uniform, initializer


def fan_in_uniform(fan_in):
    """Uniform within 1/sqrt(fan_in): the law that the source draws biases from."""
    return Uniform(1 / math.sqrt(fan_in))


class SharedStem(nn.Cell):
    """The source's `SharedStem`."""

    def __init__(self):
        super().__init__()
        self.scale = Parameter(
            initializer("zeros", (4,), ms.float32), name="scale", requires_grad=False
        )
        self.fc = nn.Dense(
            4,
            4,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=fan_in_uniform(4),
            has_bias=True,
        )
        self.constant = Tensor([1.0, 2.0, 3.0, 4.0], ms.float32)

    def construct(self, x):
        x = self.fc(x)
        return x * self.scale + self.constant


FROZEN = {"fc.weight"}


BUFFERS = ["scale"]


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """The net in inference mode, every parameter named by its module path.

    Args:
        checkpoint: file to load strictly; None leaves the initial distributions.

    Raises:
        ValueError: when names, shapes or element types of the file and the net differ.
    """
    net = SharedStem()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
        parameter.requires_grad = parameter.requires_grad and path not in FROZEN
    if checkpoint is not None:
        load(net, checkpoint)
    else:  # tables that are not drawn
        values = ms.load_checkpoint(str(CHECKPOINT), format=CHECKPOINT.suffix[1:])
        ms.load_param_into_net(net, {name: values[name] for name in BUFFERS})
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
