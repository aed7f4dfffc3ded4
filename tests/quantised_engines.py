"""The kernels for which torch quantises in a test."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def quantising_for(engine: str) -> Iterator[None]:
    """Quantise for the kernels of one engine in a with block, from one seed."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    torch.manual_seed(0)
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
