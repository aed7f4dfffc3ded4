"""From a torch module to PyTorch source and its weights, not verified, beside a bare static ``torch.export``.

The nets are those of the zoo (torchvision's and timm's) that are installed. One run reads, rewrites and
writes; reading alone is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from measuring import in_turns, print_ratios
from verified import models, print_medians


def convert(model: Any, example: Any, out: Path) -> None:
    """Write a model as PyTorch source with its weights."""
    import regraft

    regraft.save(regraft.rewrite(regraft.load(model, (example,))), out, to="torch", force=True)


def run(repeat: int, folder: Path, library: str = "") -> None:
    """Print a table a model, and the medians."""
    import torch
    import zoo

    import regraft

    torch.set_num_threads(1)
    ratios: dict[str, list[float]] = {}
    names = models(library)
    for name in names:
        model, example = getattr(zoo, name)(), torch.randn(1, 3, 224, 224)
        jobs: dict[str, Callable[[], object]] = {
            "torch.export (bare, static)": partial(torch.export.export, model, (example,), strict=False),
            "regraft.load": partial(regraft.load, model, (example,)),
            "load, rewrite, save, not verified": partial(convert, model, example, folder / "net"),
        }
        for job, ratio in print_ratios(f"conversion of {name}", in_turns(jobs, repeat), keep=False).items():
            ratios.setdefault(job, []).append(ratio)
    print_medians("conversion to PyTorch source", names, ratios)
