"""Outputs for MindSpore, rewritten from PyTorch `Outputs` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: tokens: i64[N,8], unused: f32[unused_0,3]
Outputs: output_0: f32[N,8,16], output_1: f32[N,8,8], output_2: i64[N,8]
Captured in evaluation mode.
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
            initializer("zeros", (8, 8), ms.bool_), requires_grad=False
        )
        self.embed = nn.Embedding(20, 16, embedding_table=Normal(1.0))
        self.matmul_nt = ops.BatchMatMul(transpose_b=True)
        self.constant = Tensor(np.tril(np.ones((8, 8), bool)))

    def construct(self, tokens, unused):
        x = self.embed(tokens)
        out = self.matmul_nt(x, x)
        y = ops.logical_not(self.mask)
        y = ops.where(y, -1000000000.0, out)
        y = ops.softmax(y, axis=-1)
        out = self.matmul_nt(x * 0.25, x)
        out = ops.where(self.constant, out, float("-inf"))
        out = ops.softmax(out, axis=-1)
        out = ops.bmm(out, x) + ops.bmm(y, x)
        return out, y, tokens


CHECKPOINT = Path(__file__).with_name("model.ckpt")
BUFFERS = ["mask"]


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Outputs()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    if checkpoint is not None:
        load(net, checkpoint)
    else:  # values that no initializer makes
        load(net, CHECKPOINT, BUFFERS)
    return net.set_train(False)


def load(net, checkpoint, only=None):
    """Load a .ckpt or .safetensors file, or `only` some names; raise ValueError unless it fits the net."""
    path = Path(checkpoint)
    values = ms.load_checkpoint(str(path), format=path.suffix[1:])
    wanted = {f"{n} {p.dtype}{p.shape}" for n, p in net.parameters_dict().items()}
    found = {f"{n} {v.dtype}{v.shape}" for n, v in values.items()}
    problems = [f"only in the net: {each}" for each in sorted(wanted - found)]
    problems += [f"only in the checkpoint: {each}" for each in sorted(found - wanted)]
    if problems:
        raise ValueError(f"{path} does not fit the net:\n" + "\n".join(problems))
    for name, parameter in net.parameters_dict().items():
        if only is None or name in only:
            parameter.set_data(values[name])
