"""A small Transformer encoder that classifies sequences of token ids."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TransformerClassifier(nn.Module):
    """Embedding plus learnt positions, encoder layers, the mean over the sequence, a linear head."""

    def __init__(
        self,
        vocabulary: int = 100,
        length: int = 16,
        width: int = 32,
        heads: int = 4,
        depth: int = 2,
        num_classes: int = 5,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(1, length, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, dim_feedforward=4 * width, activation="gelu", batch_first=True
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)
        nn.init.normal_(self.position, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))


def transformer() -> TransformerClassifier:
    return TransformerClassifier()
