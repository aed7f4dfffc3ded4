"""ViT for MindSpore, rewritten from PyTorch `ViT` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
Captured in evaluation mode.
The source does not tell the initial distribution of `positions`: the checkpoint's
values.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, nn, ops
from mindspore.common.initializer import HeUniform, Uniform, initializer


def redrawn(layer, **laws):
    """The layer with parameters whose names start so drawn from other laws than MindSpore's."""
    for name, parameter in layer.parameters_and_names():
        for start, law in laws.items():
            if name == start or name.split("_l")[0].startswith(start):
                parameter.set_data(initializer(law, parameter.shape, parameter.dtype))
    return layer


def dense(in_channels, out_channels):
    """nn.Dense with bias, drawn as in the source."""
    return nn.Dense(
        in_channels,
        out_channels,
        weight_init=HeUniform(math.sqrt(5)),
        bias_init=Uniform(1 / math.sqrt(in_channels)),
        has_bias=True,
    )


class EncoderBlock(nn.Cell):
    """The source's `EncoderBlock`: `blocks.0`, `blocks.1` and 1 more."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm([24], epsilon=1e-06)
        self.attention = redrawn(
            nn.MultiheadAttention(24, 4, batch_first=True), **{"out_proj.bias": "zeros"}
        )
        self.norm2 = nn.LayerNorm([24], epsilon=1e-06)
        self.mlp = nn.SequentialCell(
            dense(24, 96),
            nn.GELU(approximate=False),
            nn.Dropout(p=0.1),
            dense(96, 24),
            nn.Dropout(p=0.1),
        )

    def construct(self, x):
        out = self.norm1(x)
        out = self.attention(out, out, out, need_weights=False)[0]
        x = x + out
        return x + self.mlp(self.norm2(x))


class ViT(nn.Cell):
    """The source's `ViT`."""

    def __init__(self):
        super().__init__()
        self.class_token = Parameter(initializer("zeros", (1, 1, 24)))
        # initial distribution unknown
        self.positions = Parameter(initializer("zeros", (1, 17, 24)))
        self.patches = nn.Conv2d(
            3,
            24,
            8,
            stride=8,
            pad_mode="valid",
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(3 * 64)),
        )
        self.dropout = nn.Dropout(p=0.1)
        self.blocks = nn.SequentialCell(*[EncoderBlock() for _ in range(3)])
        self.norm = nn.LayerNorm([24], epsilon=1e-06)
        self.head = dense(24, 10)

    def construct(self, x):
        x = self.patches(x)
        x = x.reshape(-1, 24, 16).transpose(0, 2, 1)
        out = ops.broadcast_to(self.class_token, (x.shape[0], 1, 24))
        out = self.dropout(ops.cat((out, x), axis=1) + self.positions)
        out = self.norm(self.blocks(out))
        out = out[:, 0]
        return self.head(out)


CHECKPOINT = Path(__file__).with_name("model.ckpt")
# initial distributions that nobody knows: these values are the checkpoint's
UNDRAWN = ["positions"]


def build(checkpoint=CHECKPOINT):
    """The net in inference mode, parameters named by their paths; None draws them anew."""
    net = ViT()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    if checkpoint is not None:
        load(net, checkpoint)
    else:  # what is not drawn
        values = ms.load_checkpoint(str(CHECKPOINT), format=CHECKPOINT.suffix[1:])
        ms.load_param_into_net(net, {name: values[name] for name in UNDRAWN})
    return net.set_train(False)


def load(net, checkpoint):
    """Load a .ckpt or .safetensors file; ValueError unless it fits the net exactly."""
    path = Path(checkpoint)
    values = ms.load_checkpoint(str(path), format=path.suffix[1:])
    wanted = {f"{n} {p.dtype}{p.shape}" for n, p in net.parameters_dict().items()}
    found = {f"{n} {v.dtype}{v.shape}" for n, v in values.items()}
    problems = [f"only in the net: {each}" for each in sorted(wanted - found)]
    problems += [f"only in the checkpoint: {each}" for each in sorted(found - wanted)]
    if problems:
        raise ValueError(f"{path} does not fit the net:\n" + "\n".join(problems))
    ms.load_param_into_net(net, values, strict_load=True)
