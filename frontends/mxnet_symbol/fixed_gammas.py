"""Scales that BatchNorm fixes at 1 (``fix_gamma``, true unless stated), whatever is stored of them."""

from __future__ import annotations

from pathlib import Path

from .reader import Symbol, SymbolNode, read_symbol
from .variables import Stored, rename_structural

_NORMS = ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm")


def fixed_variables(symbol: Symbol) -> set[int]:
    """Return the variables of a symbol that nothing uses but as a scale that is fixed, by index."""
    fixed: set[int] = set()
    used: set[int] = set()
    for node in symbol.operators():
        for slot, (index, *_) in enumerate(node.inputs):
            (fixed if slot == 1 and is_fixed(node) else used).add(index)
    return fixed - used


def is_fixed(node: SymbolNode) -> bool:
    """Whether a node is a BatchNorm whose scale counts as 1."""
    return node.op in _NORMS and node.attributes.get("fix_gamma", "True").lower() in ("true", "1")


def fixed_gammas(symbol: Path, params: Path) -> list[str]:
    """Return the names, in a file of parameters, of the scales that its symbol fixes.

    Raises:
        ModelError: when a file is malformed.
    """
    found, stored = read_symbol(symbol), Stored.read(params)
    rename_structural(found, stored)
    names = [found.nodes[index].name for index in sorted(fixed_variables(found))]
    return [stored.structural.get(name, name) for name in names]
