"""A Llama-like decoder without an embedding that is tied: the model of `large.py`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return values of the shape of `x`: [batch, tokens, width]."""
        q, k, v = (
            p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        found = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(found.transpose(1, 2).flatten(2))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return queries or keys, turned by the angles of their positions."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class FeedForward(nn.Module):
    """A gated layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return values of the shape of `x`."""
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and a feed-forward layer, each added to what enters it."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width, 1e-5)
        self.self_attn = Attention(width, heads)
        self.post_attention_layernorm = nn.RMSNorm(width, 1e-5)
        self.mlp = FeedForward(width, inner)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return values of the shape of `x`."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Logits of the next token; `ids` are of [batch, tokens]."""

    def __init__(self, width: int, inner: int, layers: int, vocabulary: int = 32000) -> None:
        super().__init__()
        self.head_width = 128
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, inner, width // self.head_width) for _ in range(layers))
        self.norm = nn.RMSNorm(width, 1e-5)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.bfloat16()

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits of [batch, tokens, vocabulary]."""
        x = self.embed_tokens(ids)
        half = torch.arange(0, self.head_width, 2, dtype=torch.float32) / self.head_width
        angles = torch.arange(ids.shape[1], dtype=torch.float32)[:, None] / 10000.0**half
        angles = torch.cat([angles, angles], -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.norm(x))
