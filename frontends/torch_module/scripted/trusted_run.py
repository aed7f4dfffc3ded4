"""Runs a TorchScript archive in TorchScript itself, which the user allows with ``--trust``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....ir import ModelError
from ..export.tensors import tensor_of

if TYPE_CHECKING:
    from ..export.capture import Captured


def compare_with_torch(path: Path, captured: Captured) -> str:
    """Return a note that TorchScript gives the outputs of regraft's reading on the example inputs.

    Args:
        path: the archive, which torch loads and runs.
        captured: what regraft read of it.

    Raises:
        ModelError: E101 when torch refuses the archive, E104 when the outputs differ.
    """
    import torch
    from torch.utils import _pytree as pytree

    assert captured.module is not None
    assert captured.arrange is not None
    given, keywords = captured.arrange([tensor_of(array) for array in captured.examples])
    try:
        with torch.no_grad():
            theirs = torch.jit.load(str(path), map_location="cpu").eval()(*given, **keywords)
    except Exception as error:  # torch raises many kinds, and the program any
        raise ModelError(
            "E101", f"TorchScript refuses the file: {str(error).splitlines()[0]}", place=str(path)
        ) from error
    with torch.no_grad():
        mine = captured.module(*given, **keywords)
    pairs = pytree.tree_leaves(mine), pytree.tree_leaves(theirs)
    same = len(pairs[0]) == len(pairs[1]) and all(map(_are_close, *pairs))
    if not same:
        raise ModelError(
            "E104",
            "regraft reads another function than TorchScript runs: their outputs differ on the example "
            "inputs",
            place=str(path),
            hint="this is a fault in regraft: name the module that was scripted as file.py:Net",
        )
    return "TorchScript ran the file on the example inputs and gave the outputs of regraft's reading"


def _are_close(a: object, b: object) -> bool:
    import torch

    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a == b
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
