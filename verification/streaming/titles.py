"""Names a runtime that runs a model in pieces."""

from __future__ import annotations


def name_in_pieces(runtime: str, real: str = "") -> str:
    """Return the name of a runtime with the element type it computes in, if not the model's, and the pieces.

    Example:
        >>> name_in_pieces("PyTorch 2.13.0 (evaluation mode)", "float32")
        'PyTorch 2.13.0 (evaluation mode, float32, in pieces)'
    """
    return f"{runtime.removesuffix(')')}{real and f', {real}'}, in pieces)"
