"""Pairs that nothing but the order of a checkpoint and of a net makes, and their refusal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ...ir import ModelError, near_names
from .pairing import Pairing

_LISTED, _MAPPED = 8, 200
"""Layers of a side, and pairs, that a message lists."""


def pairs_by_order(pairing: Pairing) -> dict[str, str]:
    """The layers of a checkpoint that order alone pairs: several have one shape.

    Args:
        pairing: of a checkpoint's tensors, which nothing calls, and a net.
    """
    ordered: dict[object, list[str]] = {}
    for layer in pairing.source.layers:
        if pairing.by.get(layer.path) == "order":
            ordered.setdefault(layer.signature, []).append(layer.path)
    return {path: pairing.layers[path] for some in ordered.values() if len(some) > 1 for path in some}


def order_refused(pairing: Pairing, pairs: Mapping[str, str], place: str) -> ModelError:
    """The error for pairs that order alone makes: both sides, with the near names, and a map to edit."""
    lines: list[str] = []
    sides = (list(pairs), list(pairs.values()))
    nets = (pairing.source, pairing.target)
    for what, names, others, net in zip(
        ("the checkpoint", "the net"), sides, reversed(sides), nets, strict=True
    ):
        layers = {layer.path: layer for layer in net.layers}
        for name in names[:_LISTED]:
            shapes = [list(net.parameter(key).data.shape) for key in layers[name].parameters.values()]
            near = near_names(name, others, 1, 0.3)
            lines.append(f"  only in {what}: `{name}` {shapes[0]}" + (f" (near `{near[0]}`)" if near else ""))
        if len(names) > _LISTED:
            lines.append(f"  only in {what}: {len(names) - _LISTED} more")
    text = json.dumps(dict(list(folded(pairs, pairing.layers).items())[:_MAPPED]))
    return ModelError(
        "E703",
        "expected names that identify each tensor, but several of these have one shape, and a file may have "
        "any order:\n" + "\n".join(lines),
        place=place,
        hint="give --by-order where the file has the net's order, or these pairs, corrected, with "
        f"--map FILE: {text}",
    )


def text_of_pairs(pairs: Mapping[str, str]) -> str:
    """The first pairs, for a note."""
    shown = [f"`{mine}` with `{theirs}`" for mine, theirs in list(pairs.items())[:_LISTED]]
    return ", ".join(shown) + (", …" if len(pairs) > _LISTED else "")


def folded(pairs: Mapping[str, str], made: Mapping[str, str]) -> dict[str, str]:
    """Pairs of modules in place of those of all layers below them, where these have equal names.

    Args:
        pairs: layer of the source -> of the target.
        made: all pairs that are made; none may contradict that of the modules around it.
    """
    found = dict(pairs)
    while True:
        above: dict[tuple[str, str], list[str]] = {}
        for mine, theirs in found.items():
            heads = mine.rpartition("."), theirs.rpartition(".")
            if heads[0][0] and heads[1][0] and heads[0][2] == heads[1][2]:
                above.setdefault((heads[0][0], heads[1][0]), []).append(mine)
        good = {
            sides: layers
            for sides, layers in above.items()
            if len(layers) > 1 and _is_whole(sides, made) and _is_alone(sides[0], layers, found)
        }
        if not good:
            return found
        for (mine, theirs), layers in good.items():
            found = {k: v for k, v in found.items() if k not in layers} | {mine: theirs}


def _is_whole(sides: tuple[str, str], made: Mapping[str, str]) -> bool:
    """Whether all layers below a module of the source have counterparts of their names in the target's."""
    mine, theirs = sides
    return all(
        other == theirs + path.removeprefix(mine)
        for path, other in made.items()
        if path.startswith(f"{mine}.")
    )


def _is_alone(module: str, layers: Sequence[str], found: Iterable[str]) -> bool:
    """Whether a module has no pairs below it but these."""
    return {path for path in found if path.startswith(f"{module}.")} == set(layers)
