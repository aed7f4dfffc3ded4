"""Tied for MindSpore, rewritten from PyTorch `Tied` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: tokens: i64[N,5]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Normal, Uniform

ON_CPU = ms.get_current_device().device_target == "CPU"


def tanh(x):
    """Return ops.tanh(x); on CPU in float64, because float32 is 1e-4 off near 5 there."""
    if ON_CPU:
        return ops.tanh(x.astype(ms.float64)).astype(x.dtype)
    return ops.tanh(x)


class Tied(nn.Cell):
    """The source's `Tied`."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, embedding_table=Normal(1.0))
        self.mix = nn.Dense(
            8,
            8,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(8)),
            has_bias=True,
        )
        self.head = nn.Dense(8, 20, weight_init=Normal(1.0), has_bias=False)
        self.head.weight = self.embed.embedding_table  # tied

    def construct(self, tokens):
        x = self.embed(tokens)
        x = tanh(self.mix(x))
        return self.head(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Tied()
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
