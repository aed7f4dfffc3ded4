"""Reading a net of equal blocks, beside the bare capture that traces each of them."""

from __future__ import annotations

from functools import partial

from llama import Llama
from measuring import in_turns, print_ratios

LAYERS = (12, 48)


def run(repeat: int) -> None:
    """Print a table for each number of layers of a small Llama-like decoder."""
    import torch

    import regraft

    torch.set_num_threads(1)
    for layers in LAYERS:
        torch.manual_seed(0)
        model, ids = Llama(256, 512, layers, 1000).eval(), torch.randint(0, 999, (2, 16))
        jobs = {
            "torch.export (bare, static)": partial(torch.export.export, model, (ids,)),
            "regraft.load, dynamic batch": partial(regraft.load, model, (ids,)),
        }
        print_ratios(f"load of a decoder of {layers} equal layers", in_turns(jobs, repeat))
