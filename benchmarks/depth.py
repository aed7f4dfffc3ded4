"""Reading a net of equal blocks, beside the bare capture that traces each of them.

The transformer of images needs torchvision.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

from llama import Llama
from measuring import in_turns, print_ratios

LAYERS = (12, 48)


def run(repeat: int) -> None:
    """Print a table for each number of layers, of a Llama-like decoder and of a transformer of images."""
    import torch

    import regraft

    torch.set_num_threads(1)
    for layers in LAYERS:
        torch.manual_seed(0)
        nets: dict[str, tuple[Any, Any]] = {
            f"decoder of {layers} equal layers": (
                Llama(256, 512, layers, 1000),
                torch.randint(0, 999, (2, 16)),
            )
        }
        if importlib.util.find_spec("torchvision"):
            from torchvision.models import VisionTransformer

            sizes = {"image_size": 32, "patch_size": 8, "num_heads": 4, "hidden_dim": 96, "mlp_dim": 192}
            net = VisionTransformer(num_layers=layers, **sizes)
            nets[f"vision transformer of {layers} equal layers"] = net, torch.randn(2, 3, 32, 32)
        for name, (model, example) in nets.items():
            jobs = {
                "torch.export (bare, static)": partial(torch.export.export, model.eval(), (example,)),
                "regraft.load, dynamic batch": partial(regraft.load, model, (example,)),
            }
            print_ratios(f"load of a {name}", in_turns(jobs, repeat))
