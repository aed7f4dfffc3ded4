"""The models that are measured, by name: the repository's own, and torchvision's where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

IMAGE = (3, 224, 224)
NAMES = ("resnet18", "resnet50", "bert_like", "vit_b_16", "efficientnet_b0", "densenet121")


class Missing(Exception):  # noqa: N818 - not an error: a line of the table
    """What a measurement needs and is not installed."""


def examples_resnet() -> ModuleType:
    """The repository's own ResNet."""
    path = Path(__file__).resolve().parent.parent / "examples" / "resnet.py"
    spec = importlib.util.spec_from_file_location("regraft_benchmark_resnet", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def model_and_input(name: str, batch: int = 2) -> tuple[Any, Any]:
    """A model with fresh weights in evaluation mode, and an example input.

    Raises:
        Missing: when the package that has the model cannot be imported.
    """
    import torch

    torch.manual_seed(0)
    if name.startswith("resnet"):
        return getattr(examples_resnet(), name)().eval(), torch.randn(batch, *IMAGE)
    if name.startswith("vit_small"):
        return _vit_small(whole_layers=name.endswith("_layers")).eval(), torch.randn(batch, *IMAGE)
    if name == "bert_base":
        return _bert_base().eval(), torch.randint(0, 30000, (batch, 128))
    if name == "bert_like":
        return _bert_like().eval(), torch.randint(0, 1000, (batch, 128))
    try:
        import torchvision  # type: ignore[import-not-found]
    except (ImportError, RuntimeError) as error:  # the latter where its build does not fit torch's
        raise Missing(f"`{name}` needs torchvision: {error}") from error
    return getattr(torchvision.models, name)().eval(), torch.randn(batch, *IMAGE)


def _bert_base() -> Any:
    try:
        from transformers import BertConfig, BertModel  # type: ignore[import-not-found]
    except (ImportError, RuntimeError) as error:
        raise Missing(f"`bert_base` needs transformers: {error}") from error
    return BertModel(BertConfig())


def draw_statistics(model: Any) -> None:
    """Give normalisations scales, shifts and statistics as those of a trained net, in place of 1 and 0."""
    from torch import nn

    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for tensor in (layer.running_mean, layer.bias.data):
                tensor.normal_()
            for tensor in (layer.running_var, layer.weight.data):
                tensor.uniform_(0.5, 2)


def _bert_like() -> Any:
    from torch import nn

    layer = nn.TransformerEncoderLayer(256, 8, 1024, activation="gelu", batch_first=True)
    return nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False))


def _vit_small(*, whole_layers: bool) -> Any:
    """ViT-S/16: 12 layers of width 384 with 6 heads, over 196 patches and a class token.

    Args:
        whole_layers: of nn.TransformerEncoderLayer; otherwise of blocks with one projection for queries, keys
            and values, as timm's and mindcv's nets.
    """
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int = 6) -> None:
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(width, 3 * width)
            self.proj = nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n, length, width = x.shape
            qkv = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            x = nn.functional.scaled_dot_product_attention(*qkv.unbind(0))
            return self.proj(x.transpose(1, 2).reshape(n, length, width))

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(width, 1e-6)
            self.attn = Attention(width)
            self.norm2 = nn.LayerNorm(width, 1e-6)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class VisionTransformer(nn.Module):
        def __init__(self, width: int = 384) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.class_token = nn.Parameter(torch.zeros(1, 1, width))
            self.positions = nn.Parameter(torch.randn(1, 197, width) * 0.02)
            if whole_layers:
                gelu = partial(nn.functional.gelu, approximate="tanh")  # as mindcv; the exact one is faster
                layer = nn.TransformerEncoderLayer(
                    width, 6, 4 * width, 0.0, gelu, layer_norm_eps=1e-6, batch_first=True, norm_first=True
                )
                self.blocks: nn.Module = nn.TransformerEncoder(layer, 12, None, False)
            else:
                self.blocks = nn.Sequential(*(Block(width) for _ in range(12)))
            self.norm = nn.LayerNorm(width, 1e-6)
            self.head = nn.Linear(width, 1000)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.positions
            return self.head(self.norm(self.blocks(x))[:, 0])

    return VisionTransformer()
