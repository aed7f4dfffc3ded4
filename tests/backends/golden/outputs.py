"""Outputs for MindSpore, rewritten from PyTorch `Outputs` by regraft.
Captured in evaluation mode.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: tokens: i64[N,8], unused: f32[N,3]
"""

from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer


class Outputs(nn.Cell):
    """The source's `Outputs`."""

    def __init__(self):
        super().__init__()
        self.mask = Parameter(
            initializer("zeros", (8, 8), ms.bool_), name="mask", requires_grad=False
        )
        self.embed = nn.Embedding(20, 16, embedding_table=Normal(1.0))
        self.constant = Tensor(np.tril(np.ones((8, 8), bool)))

    def construct(self, tokens, unused):
        x = self.embed(tokens)
        out = x.swapaxes(-2, -1)
        out = ops.matmul(x, out)
        y = ops.logical_not(self.mask)
        y = ops.where(y, -1000000000.0, out)
        y = ops.softmax(y, axis=-1)
        out = x.swapaxes(-2, -1)
        out = ops.matmul(x * 0.25, out)
        out = ops.where(self.constant, out, float("-inf"))
        out = ops.softmax(out, axis=-1)
        out = ops.matmul(out, x) + ops.matmul(y, x)
        return out, y, tokens


BUFFERS = ["mask"]


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """The net in inference mode, every parameter named by its module path.

    Args:
        checkpoint: file to load strictly; None leaves the initial distributions.

    Raises:
        ValueError: when names, shapes or element types of the file and the net differ.
    """
    net = Outputs()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
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
