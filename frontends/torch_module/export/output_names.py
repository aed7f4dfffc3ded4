"""Names of a model's outputs: one per leaf of what `forward` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .containers import children_of


def leaf_names(spec: Any) -> list[str]:
    """Names of a pytree spec's leaves: ``output`` for one, ``output_0``… of a sequence, a dict's keys."""
    import torch.utils._pytree as pytree

    try:
        whole = pytree.tree_unflatten([0] * spec.num_leaves, spec)
        paths = [[part(k) for k in path] for path, _ in pytree.tree_leaves_with_path(whole)]
    except ValueError:  # a class that a library registered without names
        paths = list(_paths(spec))
    names = ["_".join(path) for path in paths]
    names = [f"output_{n}" if n.isdigit() or n[:1].isdigit() else n or "output" for n in names]
    unique: list[str] = []
    for name in names:
        count = sum(u == name or u.startswith(f"{name}__") for u in unique)
        unique.append(f"{name}__{count}" if count else name)
    return unique


def are_keys(spec: Any, names: Sequence[str]) -> bool:
    """Whether the names of a pytree spec's leaves are keys and fields, each of one leaf alone."""
    placed = spec.is_leaf() or spec.type in (tuple, list)
    return not placed and not any(name.rpartition("__")[0] in names for name in names)


def _paths(spec: Any) -> Iterator[list[str]]:
    """Yield the way to every leaf of a spec: by the keys that a class tells of itself, or by position."""
    if spec.is_leaf():
        yield []
        return
    children = children_of(spec)
    told = spec.context if isinstance(spec.context, (list, tuple)) else ()
    keys = [str(k) for k in told] if len(told) == len(children) else [str(i) for i in range(len(children))]
    for key, child in zip(keys, children, strict=True):
        for rest in _paths(child):
            yield [key, *rest]


def named_outputs(result: Any) -> list[tuple[str, np.ndarray]]:
    """Return (name, array) of every output of a run of the live model, named and ordered as in the graph.

    Leaves that are None or texts have no output; complex ones have real and imaginary part on a last axis.
    """
    import torch
    import torch.utils._pytree as pytree

    from .tensors import array_of

    leaves, spec = pytree.tree_flatten(result)
    return [
        (name, array_of(_real(leaf)) if isinstance(leaf, torch.Tensor) else np.asarray(leaf))
        for name, leaf in zip(leaf_names(spec), leaves, strict=True)
        if leaf is not None and not isinstance(leaf, str)
    ]


def _real(tensor: Any) -> Any:
    """Return the tensor, a complex one as its real and imaginary part."""
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def part(key: Any) -> str:
    """Return one step of the way to a leaf: a key, an index or a field's name."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
