"""Sequence models in MindSpore: the library's Transformer encoder, one by hand, tied embeddings."""

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer


class LibraryEncoder(nn.Cell):
    """nn.TransformerEncoder over embedded tokens, averaged and classified."""

    def __init__(self, vocabulary=50, dim=16, heads=2, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=layers)
        self.classifier = nn.Dense(dim, 3)

    def construct(self, tokens):
        x = self.encoder(self.embedding(tokens))
        return self.classifier(x.mean(axis=1))


class LibraryLayer(nn.Cell):
    """One nn.TransformerEncoderLayer, pre-norm, with gelu."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            16, 4, 32, batch_first=True, norm_first=True, activation="gelu"
        )

    def construct(self, x):
        return self.layer(x)


class SelfAttention(nn.Cell):
    """Three Dense projections, heads by reshape and transpose, softmax(q k' / sqrt d) v."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.query = nn.Dense(dim, dim)
        self.key = nn.Dense(dim, dim)
        self.value = nn.Dense(dim, dim)
        self.output = nn.Dense(dim, dim)
        self.softmax = nn.Softmax(axis=-1)
        self.dropout = nn.Dropout(p=0.1)
        self.scale = Tensor(1.0 / math.sqrt(self.size), ms.float32)

    def split(self, x):
        n, t, _ = x.shape
        return x.reshape(n, t, self.heads, self.size).transpose(0, 2, 1, 3)

    def construct(self, x, mask=None):
        n, t, c = x.shape
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale
        if mask is not None:
            scores = ops.masked_fill(scores, mask == 0, -1e9)
        attention = self.dropout(self.softmax(scores))
        context = ops.matmul(attention, v).transpose(0, 2, 1, 3).reshape(n, t, c)
        return self.output(context)


class EncoderLayer(nn.Cell):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = SelfAttention(dim, heads)
        self.norm1 = nn.LayerNorm((dim,), epsilon=1e-5)
        self.norm2 = nn.LayerNorm((dim,), epsilon=1e-5)
        self.mlp = nn.SequentialCell(
            nn.Dense(dim, 2 * dim), nn.GELU(), nn.Dropout(p=0.1), nn.Dense(2 * dim, dim)
        )

    def construct(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class HandEncoder(nn.Cell):
    """Token and position embeddings, layers in a CellList, the first token classified."""

    def __init__(self, vocabulary=40, dim=16, heads=4, layers=2, length=12):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.positions = Parameter(initializer(Normal(0.02), (1, length, dim), ms.float32), name="positions")
        self.layers = nn.CellList([EncoderLayer(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm((dim,))
        self.pooler = nn.Dense(dim, dim, activation="tanh")
        self.head = nn.Dense(dim, 3)

    def construct(self, tokens):
        x = self.tokens(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.pooler(self.norm(x)[:, 0]))


class MaskedEncoder(nn.Cell):
    """Tokens and a padding mask, both with the batch; a causal mask held as a Tensor."""

    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Embedding(30, dim)
        self.layer = EncoderLayer(dim, 2)
        self.causal = Tensor(np.tril(np.ones((1, 1, 8, 8), np.float32)))
        self.out = nn.Dense(dim, 30, has_bias=False)

    def construct(self, tokens, mask):
        allowed = mask.expand_dims(1).expand_dims(1) * self.causal
        return self.out(self.layer(self.embed(tokens), allowed))


class VisionTransformer(nn.Cell):
    """Patches by a convolution, a class token broadcast over the batch, one qkv projection."""

    def __init__(self, dim=16, heads=2, classes=5):
        super().__init__()
        self.heads = heads
        self.patch = nn.Conv2d(3, dim, 8, 8, pad_mode="valid", has_bias=True)
        self.cls_token = Parameter(initializer(Normal(0.02), (1, 1, dim)), name="cls")
        self.pos_embed = Parameter(initializer(Normal(0.02), (1, 17, dim)), name="pos")
        self.norm = nn.LayerNorm((dim,), epsilon=1e-6)
        self.qkv = nn.Dense(dim, 3 * dim)
        self.proj = nn.Dense(dim, dim)
        self.head = nn.Dense(dim, classes)

    def construct(self, x):
        x = self.patch(x)
        n, c = x.shape[:2]
        x = x.reshape(n, c, -1).transpose(0, 2, 1)
        cls = ops.broadcast_to(self.cls_token, (n, -1, -1))
        x = ops.concat((cls, x), axis=1) + self.pos_embed
        t = x.shape[1]
        qkv = self.qkv(self.norm(x)).reshape(n, t, 3, self.heads, c // self.heads).transpose(2, 0, 3, 1, 4)
        q, k, v = ops.unstack(qkv, axis=0)
        attention = ops.softmax(ops.bmm(q, k.swapaxes(-2, -1)) * (c // self.heads) ** -0.5, axis=-1)
        y = ops.bmm(attention, v).transpose(0, 2, 1, 3).reshape(n, t, c)
        x = x + self.proj(y)
        return self.head(x[:, 0, :])


class TiedLanguageModel(nn.Cell):
    """The output layer's weight is the embedding's own table."""

    def __init__(self, vocabulary=32, dim=12):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim, embedding_table=Normal(0.1))
        self.hidden = nn.Dense(dim, dim, activation="tanh")
        self.decoder = nn.Dense(dim, vocabulary, has_bias=False)
        self.decoder.weight = self.embedding.embedding_table

    def construct(self, tokens):
        return self.decoder(self.hidden(self.embedding(tokens)))


class TiedByMatMul(nn.Cell):
    """Tied by use: hidden states times the table, transposed."""

    def __init__(self, vocabulary=32, dim=12):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim, embedding_table=Normal(0.1))
        self.hidden = nn.Dense(dim, dim)
        self.matmul = ops.MatMul(transpose_b=True)

    def construct(self, tokens):
        x = self.hidden(self.embedding(tokens))
        flat = x.reshape(-1, x.shape[-1])
        return self.matmul(flat, self.embedding.embedding_table)


class TextCnn(nn.Cell):
    """Convolutions of several widths over word vectors, max over time."""

    def __init__(self, vocabulary=40, dim=10, length=14):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.convs = nn.CellList([nn.Conv1d(dim, 6, k, pad_mode="valid", has_bias=True) for k in (2, 3)])
        self.drop = nn.Dropout(p=0.3)
        self.fc = nn.Dense(12, 2)

    def construct(self, tokens):
        x = self.embedding(tokens).transpose(0, 2, 1)
        pooled = []
        for conv in self.convs:
            pooled.append(ops.relu(conv(x)).max(axis=2))
        return self.fc(self.drop(ops.concat(pooled, axis=1)))
