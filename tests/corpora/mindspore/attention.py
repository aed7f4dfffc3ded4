"""Transformer parts, written by hand and MindSpore's own."""

import mindspore
from mindspore import Parameter, nn, ops
from mindspore.common.initializer import initializer


class EncoderLayer(nn.Cell):
    """MindSpore's own layer, batch first."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def construct(self, x):
        return self.layer(x)


class Attention(nn.Cell):
    """Self-attention from reshapes, transposes and products."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.size = width // heads
        self.qkv = nn.Dense(width, 3 * width)
        self.out = nn.Dense(width, width)

    def construct(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, self.size).transpose(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * self.size**-0.5, -1)
        y = ops.matmul(scores, v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        return self.out(y)


class Vision(nn.Cell):
    """A ViT in small: patches, a class token broadcast over the batch, positions, one block, a head."""

    def __init__(self, width=8, heads=2, patches=4, classes=3):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4, pad_mode="valid", has_bias=True)
        self.token = Parameter(ops.ones((1, 1, width), mindspore.float32), name="token")
        self.position = Parameter(initializer("normal", (1, patches + 1, width), mindspore.float32))
        self.norm = nn.LayerNorm((width,), epsilon=1e-6)
        self.attention = Attention(width, heads)
        self.mlp = nn.SequentialCell(nn.Dense(width, 16), nn.GELU(approximate=False), nn.Dense(16, width))
        self.drop = nn.Dropout(p=0.1)
        self.head = nn.Dense(width, classes)

    def construct(self, x):
        x = self.patch(x)
        batch, width = x.shape[0], x.shape[1]
        x = x.reshape(batch, width, -1).transpose(0, 2, 1)
        x = ops.concat((ops.broadcast_to(self.token, (batch, 1, width)), x), 1) + self.position
        x = x + self.attention(self.norm(x))
        x = x + self.drop(self.mlp(self.norm(x)))
        return self.head(x[:, 0])
