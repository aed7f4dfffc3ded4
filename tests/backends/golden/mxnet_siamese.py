"""Siamese for MindSpore, rewritten from MXNet `siamese-symbol.json` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: sim: f32[N], data1: f32[N,1,28,28], data2: f32[N,1,28,28]
Outputs: loss_output: f32[N], dist_output: f32[N]
Parameters from siamese-0000.params.
Pass normalise-initializers: `Convolution.weight` (2 parameters) starts from mxnet's
uniform(low=-0.07, high=0.07) (and 1 more).
Pass group-modules: 4 layers form one `Branch` (and 2 more).
Pass rename-parameters: `shared0_weight` is now called `branch.conv0.weight` (and 7
more).
"""

from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import Uniform


class Branch(nn.Cell):
    """Grouped by name and structure: `branch`."""

    def __init__(self):
        super().__init__()
        self.conv0 = nn.Conv2d(
            1,
            20,
            5,
            pad_mode="valid",
            has_bias=True,
            weight_init=Uniform(0.07),
            bias_init="zeros",
        )
        self.conv1 = nn.Conv2d(
            20,
            50,
            5,
            pad_mode="valid",
            has_bias=True,
            weight_init=Uniform(0.07),
            bias_init="zeros",
        )
        self.fc0 = nn.Dense(
            800, 100, weight_init=Uniform(0.07), bias_init="zeros", has_bias=True
        )
        self.fc1 = nn.Dense(
            100, 2, weight_init=Uniform(0.07), bias_init="zeros", has_bias=True
        )

    def construct(self, x):
        x = ops.relu(self.conv0(x))
        x = ops.max_pool2d(x, 2, stride=2)
        x = ops.relu(self.conv1(x))
        x = ops.max_pool2d(x, 2, stride=2)
        x = ops.flatten(x)
        x = ops.relu(self.fc0(x))
        return self.fc1(x)


class Siamese(nn.Cell):
    """The source's `Siamese`."""

    def __init__(self):
        super().__init__()
        self.branch = Branch()

    def construct(self, sim, data1, data2):
        x = self.branch(data1)
        branch = self.branch(data2)
        x = x - branch
        x = ops.sqrt((x * x).sum(1) + 1e-08)
        out = ops.maximum(1.0 - x, 0.0)
        y = ops.stop_gradient(x)
        return sim * (x * x) + (1.0 - sim) * (out * out), y


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
