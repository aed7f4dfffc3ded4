"""Sequence models in PyTorch: Transformers, attention by hand, convolutions over text, tied embeddings."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class PatchEmbed(nn.Module):
    def __init__(self, patch=8, width=24):
        super().__init__()
        self.proj = nn.Conv2d(3, width, kernel_size=patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class EncoderBlock(nn.Module):
    """torchvision's ViT block: nn.MultiheadAttention with need_weights=False."""

    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )

    def forward(self, input):  # noqa: A002
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x)
        x = x + input
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    """Class token, learned positions, MultiheadAttention; (N, 3, 32, 32) to (N, 10)."""

    def __init__(self, width=24, depth=2, heads=4, classes=10):
        super().__init__()
        self.patch_embed = PatchEmbed(8, width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.blocks = nn.Sequential(*[EncoderBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed(x)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls, x), dim=1) + self.pos_embed
        x = self.norm(self.blocks(x))
        return self.head(x[:, 0])


class Attention(nn.Module):
    """timm's attention: one qkv projection, reshape, permute, unbind."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.num_heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=True)
        self.attn_drop = nn.Dropout(0.1)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(x)


class CausalAttention(nn.Module):
    """nanoGPT's attention: chunk the projection, view into heads, a registered mask, masked_fill."""

    def __init__(self, dim, heads, block):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim)
        self.register_buffer(
            "bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block), persistent=False
        )

    def forward(self, x):
        n, t, c = x.size()
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(n, t, c)
        return self.c_proj(y)


class GptBlock(nn.Module):
    def __init__(self, dim, heads, block):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim)
        self.attn = CausalAttention(dim, heads, block)
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(dim, 2 * dim),
                "act": nn.GELU(approximate="tanh"),
                "c_proj": nn.Linear(2 * dim, dim),
            }
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))


class TiedLanguageModel(nn.Module):
    """nanoGPT: the head's weight is the embedding's own Parameter; (N, 12) tokens to (N, 12, 40)."""

    def __init__(self, vocabulary=40, dim=16, heads=2, block=16, depth=2):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, dim),
                "wpe": nn.Embedding(block, dim),
                "drop": nn.Dropout(0.1),
                "h": nn.ModuleList([GptBlock(dim, heads, block) for _ in range(depth)]),
                "ln_f": nn.LayerNorm(dim),
            }
        )
        self.lm_head = nn.Linear(dim, vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx):
        _, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


class HandAttention(nn.Module):
    """Two of timm's attention blocks over (N, 9, 16)."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Attention(16) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(2)])

    def forward(self, x):
        for norm, block in zip(self.norms, self.blocks, strict=True):
            x = x + block(norm(x))
        return x


class FusedAttention(nn.Module):
    """F.scaled_dot_product_attention, plain, with a causal flag and with a boolean mask."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48, bias=False)
        self.out = nn.Linear(16, 16)
        self.register_buffer("mask", torch.tril(torch.ones(7, 7, dtype=torch.bool)))

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v)
        b = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        c = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, dropout_p=0.0)
        return self.out((a + b - c).transpose(1, 2).reshape(n, t, 16))


class TransformerEncoder(nn.Module):
    """torch's own nn.TransformerEncoder over (N, 10) tokens, sinusoidal positions in a buffer."""

    def __init__(self, vocabulary=50, dim=16, norm_first=False, activation="relu"):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(vocabulary, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(
            dim, 2, 32, dropout=0.1, batch_first=True, norm_first=norm_first, activation=activation
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        position = torch.arange(32).unsqueeze(1)
        div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = torch.zeros(32, dim)
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe)
        self.classify = nn.Linear(dim, 3)

    def forward(self, tokens):
        x = self.embed(tokens) * math.sqrt(self.dim)
        x = x + self.pe[: tokens.size(1)]
        return self.classify(self.encoder(x).mean(dim=1))


def pre_norm_encoder():
    return TransformerEncoder(norm_first=True, activation="gelu")


class SequenceFirst(nn.Module):
    """nn.MultiheadAttention's default layout (L, N, E), weights asked for."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3)

    def forward(self, x):
        x = x.permute(1, 0, 2)
        y, weights = self.attention(x, x, x)
        return y.permute(1, 0, 2), weights


class TextCnn(nn.Module):
    """Kim's convolutions over word vectors: Conv1d of several widths, max over time."""

    def __init__(self, vocabulary=60, dim=12):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, 8, k) for k in (2, 3, 4)])
        self.bn = nn.BatchNorm1d(24)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(24, 4)

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        x = [F.max_pool1d(F.relu(conv(x)), conv(x).shape[2]).squeeze(2) for conv in self.convs]
        return self.fc(self.dropout(self.bn(torch.cat(x, dim=1))))


class AudioCnn(nn.Module):
    """Strided and dilated Conv1d, BatchNorm1d, pools over time, on (N, 2, 48)."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(2, 8, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=4),
            nn.AvgPool1d(3, stride=2, padding=1),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(8, 2),
        )

    def forward(self, x):
        return self.net(x)
