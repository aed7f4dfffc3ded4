"""DenseNet for MindSpore, rewritten from PyTorch `DenseNet` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,16,16]
Captured in evaluation mode.
"""

import math
from collections import OrderedDict
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


class DenseLayer(nn.Cell):
    """The source's `DenseLayer`: `features.block1.denselayer1` and 5 more."""

    def __init__(self, num_features):
        super().__init__()
        self.norm = nn.BatchNorm2d(num_features, eps=1e-05, momentum=0.9)
        self.conv = nn.Conv2d(
            num_features,
            4,
            3,
            pad_mode="pad",
            padding=1,
            has_bias=False,
            weight_init=HeUniform(math.sqrt(5)),
        )

    def construct(self, *inputs):
        x = ops.cat(inputs, axis=1)
        x = ops.relu(self.norm(x))
        return self.conv(x)


class DenseBlock(nn.Cell):
    """The source's `DenseBlock`: `features.block1`, `features.block2`."""

    def __init__(self, num_layers, num_features):
        super().__init__()
        self.num_layers = num_layers
        for i in range(num_layers):
            setattr(self, f"denselayer{i + 1}", DenseLayer(num_features + 4 * i))

    def construct(self, x):
        features = (x,)
        for i in range(self.num_layers):
            features += (getattr(self, f"denselayer{i + 1}")(*features),)
        return ops.cat(features, axis=1)


class DenseNet(nn.Cell):
    """The source's `DenseNet`."""

    def __init__(self):
        super().__init__()
        self.features = nn.SequentialCell(
            OrderedDict(
                conv0=nn.Conv2d(
                    3,
                    8,
                    3,
                    pad_mode="pad",
                    padding=1,
                    has_bias=False,
                    weight_init=HeUniform(math.sqrt(5)),
                ),
                block1=DenseBlock(2, 8),
                pool=nn.AvgPool2d(2, stride=2, pad_mode="valid"),
                block2=DenseBlock(4, 16),
                norm=nn.BatchNorm2d(32, eps=1e-05, momentum=0.9),
            )
        )
        self.classifier = nn.Dense(
            32,
            5,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(32)),
            has_bias=True,
        )

    def construct(self, x):
        x = ops.relu(self.features(x)).mean((2, 3))
        return self.classifier(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = DenseNet()
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
