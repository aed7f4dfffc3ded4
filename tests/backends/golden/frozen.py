"""SharedStem for MindSpore, rewritten from PyTorch `SharedStem` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,4]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import HeUniform, Uniform, initializer


class SharedStem(nn.Cell):
    """The source's `SharedStem`."""

    def __init__(self):
        super().__init__()
        self.scale = Parameter(initializer("zeros", (4,)), requires_grad=False)
        self.fc = nn.Dense(
            4,
            4,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(4)),
            has_bias=True,
        )
        self.constant = Tensor([1.0, 2.0, 3.0, 4.0], ms.float32)

    def construct(self, x):
        x = self.fc(x)
        return x * self.scale + self.constant


CHECKPOINT = Path(__file__).with_name("model.ckpt")
FROZEN = {"fc.weight"}
BUFFERS = ["scale"]


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = SharedStem()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
        parameter.requires_grad = parameter.requires_grad and path not in FROZEN
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
