"""What training scripts put before every name of a checkpoint, peeled where the names fit without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import TensorData

_PREFIXES = ("module.", "_orig_mod.", "model.", "state_dict.", "net.", "network.")
"""Of DataParallel, torch.compile, Lightning and the like."""
_DEEPEST = 8
"""Wrappers one in another; a name may be as long as its file."""


def peeled(
    tensors: Mapping[str, TensorData], is_known: Callable[[str], bool], notes: list[str]
) -> dict[str, TensorData]:
    """The tensors under names without what wrappers put before them; unchanged where more names fit so.

    Args:
        tensors: by name.
        is_known: whether the other side has a name.
        notes: gets a sentence where anything was peeled.
    """
    found, taken = dict(tensors), list[str]()
    for _ in range(_DEEPEST):
        hits = sum(map(is_known, found))
        for prefix in _PREFIXES:
            if not any(name.startswith(prefix) for name in found):
                continue
            shorter = {name.removeprefix(prefix): data for name, data in found.items()}
            deeper = sum(is_known(without_any(name)) for name in shorter)
            if len(shorter) == len(found) and deeper > hits:
                found = shorter
                taken.append(prefix)
                break
        else:
            break
    if taken:
        notes.append(f"`{''.join(taken)}` before the names of {len(found)} tensors was left out")
    return found


def without_any(name: str) -> str:
    """A name without any of the prefixes: two wrappers may lie one in the other."""
    for _ in range(_DEEPEST):
        name = name.removeprefix(next((p for p in _PREFIXES if name.startswith(p)), ""))
    return name
