"""ViT for MindSpore, rewritten from PyTorch `ViT` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
Captured in evaluation mode.
The source does not state the initial distribution of `positions`; the checkpoint has
the values.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, nn, ops
from mindspore.common.initializer import HeUniform, Uniform, XavierUniform, initializer


def affine(x, weight, bias=None):
    """Compute ops.dense as nn.Dense does: ops.dense copies the weight at every call in PyNative mode."""
    y = ops.MatMul(transpose_b=True)(x.reshape(-1, weight.shape[1]), weight)
    if bias is not None:
        y = ops.bias_add(y, bias)
    return y.reshape(*x.shape[:-1], weight.shape[0])


def dense(in_channels, out_channels):
    """nn.Dense with bias and the source's initializers."""
    return nn.Dense(
        in_channels,
        out_channels,
        weight_init=HeUniform(math.sqrt(5)),
        bias_init=Uniform(1 / math.sqrt(in_channels)),
        has_bias=True,
    )


class MultiheadAttention(nn.Cell):
    """The source's `MultiheadAttention`: `blocks.0.attention` and 2 more."""

    def __init__(self):
        super().__init__()
        self.in_proj_weight = Parameter(initializer(XavierUniform(), (72, 24)))
        self.in_proj_bias = Parameter(initializer("zeros", (72,)))
        self.out_proj = nn.Dense(
            24,
            24,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init="zeros",
            has_bias=True,
        )

    def construct(self, x):
        x = affine(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = ops.chunk(x, 3, axis=-1)
        v = v.reshape(-1, v.shape[1], 4, 6).transpose(0, 2, 1, 3)
        q = q.reshape(-1, q.shape[1], 4, 6).transpose(0, 2, 1, 3) * 0.4082483
        k = k.reshape(-1, k.shape[1], 4, 6).transpose(0, 2, 3, 1)
        q = ops.bmm(q, k)
        q = ops.softmax(q, axis=-1)
        q = ops.bmm(q, v).transpose(0, 2, 1, 3)
        q = q.reshape(-1, q.shape[1], 24)
        return self.out_proj(q)


class EncoderBlock(nn.Cell):
    """The source's `EncoderBlock`: `blocks.0`, `blocks.1` and 1 more."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm([24], epsilon=1e-06)
        self.attention = MultiheadAttention()
        self.norm2 = nn.LayerNorm([24], epsilon=1e-06)
        self.mlp = nn.SequentialCell(
            dense(24, 96),
            nn.GELU(approximate=False),
            nn.Dropout(p=0.1),
            dense(96, 24),
            nn.Dropout(p=0.1),
        )

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
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
# parameters without a known initial distribution: their values come from the checkpoint
UNDRAWN = ["positions"]


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = ViT()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    if checkpoint is not None:
        load(net, checkpoint)
    else:  # values that no initializer makes
        load(net, CHECKPOINT, UNDRAWN)
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
