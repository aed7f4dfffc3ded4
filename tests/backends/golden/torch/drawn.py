"""Drawn for PyTorch, rewritten from PyTorch `tests/backends/test_torch_source.py:Drawn` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: ids: i64[N,5]
Captured in evaluation mode.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


def linear(in_features, out_features):
    """nn.Linear with the source's initializers."""
    layer = nn.Linear(in_features, out_features)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


class Drawn(nn.Module):
    """The source's `Drawn`."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.register_buffer("table", torch.zeros(5, 8))
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.first = linear(8, 8)
        self.second = linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.register_buffer(
            "constant",
            torch.triu(torch.ones(5, 5, dtype=torch.bool), 1),
            persistent=False,
        )
        self.head.weight = self.embed.weight  # tied

    def forward(self, ids):
        x = F.gelu(self.first(self.embed(ids) + self.table)) * self.scale
        out = torch.where(self.constant, float("-inf"), x @ x.transpose(-2, -1))
        out = self.second(F.softmax(out, dim=-1) @ x)
        return self.head(out)


CHECKPOINT = Path(__file__).with_name("model.safetensors")
FROZEN = {"second.weight"}
BUFFERS = ["table"]


def build(checkpoint=CHECKPOINT, device=None, dtype=None):
    """Return the net in evaluation mode, with a checkpoint's weights; None initialises new ones."""
    net = Drawn()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name not in FROZEN)
    if checkpoint is not None:
        load(net, checkpoint)
    else:  # values that no initializer makes
        drawn = {n: v.clone() for n, v in net.state_dict().items() if n not in BUFFERS}
        load(net, CHECKPOINT)
        net.load_state_dict(drawn, strict=False)
    return net.to(device=device, dtype=dtype).eval()


def load(net, checkpoint):
    """Load a .safetensors or .pth file; raise an error unless it fits the net."""
    path = Path(checkpoint)
    if path.suffix == ".safetensors":
        values = load_file(path)
    else:
        values = torch.load(path, weights_only=True)
    # a tensor of several names may be there under some of them
    tensors = net.state_dict(keep_vars=True)
    held = {id(t): values[n] for n, t in tensors.items() if n in values}
    shared = {n: held[id(t)] for n, t in tensors.items() if id(t) in held}
    net.load_state_dict(shared | values)
