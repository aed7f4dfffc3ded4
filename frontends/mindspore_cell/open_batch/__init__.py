"""One compile for a batch of any size: which nets take it, and what its sizes are called."""

from .program import OpenBatch, makes_of_sizes

__all__ = ["OpenBatch", "makes_of_sizes"]
