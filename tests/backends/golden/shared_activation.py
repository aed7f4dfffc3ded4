"""SharedActivation for MindSpore, rewritten from PyTorch `SharedActivation` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,4]
Captured in evaluation mode.
Pass deduplicate-modules: one `ReLU` is registered as `first.1`, `first.3`, `second.1`;
kept as `first.1` and `second.1`.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn
from mindspore.common.initializer import HeUniform, Uniform


def dense(in_channels, out_channels):
    """nn.Dense with bias and the source's initializers."""
    return nn.Dense(
        in_channels,
        out_channels,
        weight_init=HeUniform(math.sqrt(5)),
        bias_init=Uniform(1 / math.sqrt(in_channels)),
        has_bias=True,
    )


class SharedActivation(nn.Cell):
    """The source's `SharedActivation`."""

    def __init__(self):
        super().__init__()
        self.first = nn.SequentialCell(dense(4, 4), nn.ReLU(), dense(4, 4), nn.ReLU())
        self.second = nn.SequentialCell(dense(4, 3), nn.ReLU())

    def construct(self, x):
        x = self.first(x)
        return self.second(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = SharedActivation()
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
