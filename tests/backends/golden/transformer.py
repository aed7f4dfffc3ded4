"""TransformerClassifier for MindSpore, rewritten from PyTorch `TransformerClassifier` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: ids: i64[N,16]
Captured in evaluation mode.
The source does not state the initial distribution of `position`; the checkpoint has the
values.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, nn, ops
from mindspore.common.initializer import (
    HeUniform,
    Normal,
    Uniform,
    XavierUniform,
    initializer,
)


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
    """The source's `MultiheadAttention`: `layers.0.self_attn`, `layers.1.self_attn`."""

    def __init__(self):
        super().__init__()
        self.in_proj_weight = Parameter(initializer(XavierUniform(), (96, 32)))
        self.in_proj_bias = Parameter(initializer("zeros", (96,)))
        self.out_proj = nn.Dense(
            32,
            32,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init="zeros",
            has_bias=True,
        )

    def construct(self, x):
        x = affine(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = ops.chunk(x, 3, axis=-1)
        v = v.reshape(-1, v.shape[1], 4, 8).transpose(0, 2, 1, 3)
        q = q.reshape(-1, q.shape[1], 4, 8).transpose(0, 2, 1, 3) * 0.35355338
        k = k.reshape(-1, k.shape[1], 4, 8).transpose(0, 2, 3, 1)
        q = ops.bmm(q, k)
        q = ops.softmax(q, axis=-1)
        q = ops.dropout(q, p=0.1, training=self.training)
        q = ops.bmm(q, v).transpose(0, 2, 1, 3)
        q = q.reshape(-1, q.shape[1], 32)
        return self.out_proj(q)


class TransformerEncoderLayer(nn.Cell):
    """The source's `TransformerEncoderLayer`: `layers.0`, `layers.1`."""

    def __init__(self):
        super().__init__()
        self.self_attn = MultiheadAttention()
        self.linear1 = dense(32, 128)
        self.dropout = nn.Dropout(p=0.1)
        self.linear2 = dense(128, 32)
        self.norm1 = nn.LayerNorm([32], epsilon=1e-05)
        self.norm2 = nn.LayerNorm([32], epsilon=1e-05)
        self.dropout1 = nn.Dropout(p=0.1)
        self.dropout2 = nn.Dropout(p=0.1)

    def construct(self, x):
        x = self.norm1(x + self.dropout1(self.self_attn(x)))
        out = ops.gelu(self.linear1(x), approximate="none")
        out = self.dropout2(self.linear2(self.dropout(out)))
        return self.norm2(x + out)


class TransformerClassifier(nn.Cell):
    """The source's `TransformerClassifier`."""

    def __init__(self):
        super().__init__()
        # initial distribution unknown
        self.position = Parameter(initializer("zeros", (1, 16, 32)))
        self.embed = nn.Embedding(100, 32, embedding_table=Normal(1.0))
        self.layers = nn.CellList(
            [TransformerEncoderLayer(), TransformerEncoderLayer()]
        )
        self.norm = nn.LayerNorm([32], epsilon=1e-05)
        self.head = dense(32, 5)

    def construct(self, ids):
        x = self.embed(ids) + self.position
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        x = x.mean(1)
        return self.head(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")
# parameters without a known initial distribution: their values come from the checkpoint
UNDRAWN = ["position"]


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = TransformerClassifier()
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
