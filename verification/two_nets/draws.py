"""Advises on the user's calls that draw parameters, and on layers that draw their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...frontends.constructions import Construction, construction_of
from ...ir import Graph
from .laws import LawRow


@dataclass(frozen=True, slots=True)
class Draw:
    """The wanted draw of one of the user's calls.

    Attributes:
        call: the call that draws, or that constructs the layer.
        remedy: the statement that draws as it should, of `layer`.
        after: whether the statement is to follow the call, which constructs a layer.
    """

    call: Construction
    remedy: str
    after: bool = False


def draws_of(target: Graph, laws: Sequence[LawRow]) -> list[Draw]:
    """Return the wanted changes of draws, as far as one statement fits every draw of a call.

    Args:
        target: the target's graph.
        laws: the initial distributions.
    """
    found: list[Draw] = []
    rows: dict[Construction, list[LawRow]] = {}
    for row in laws:
        if row.drawn is not None:
            rows.setdefault(row.drawn, []).append(row)
    for call, drawn in rows.items():
        if all(row.passed is False for row in drawn) and len({row.remedy for row in drawn}) == 1:
            found.append(Draw(call, drawn[0].remedy))
    return [*found, *_after_layers(target, laws)]


def _after_layers(target: Graph, laws: Iterable[LawRow]) -> list[Draw]:
    """Return the statement after a call that constructs one layer of torch, which takes no distribution."""
    if target.origin.framework != "torch":
        return []
    tree, model = target.modules, target.origin.model
    constructed = Counter(construction_of(model, tree.path(module.key)) for module in tree)
    found: list[Draw] = []
    for row in laws:
        made = construction_of(model, row.layer)
        own = row.passed is False and row.drawn is None and row.remedy.startswith("nn.init.")
        if own and made is not None and constructed[made] == 1:
            found.append(Draw(made, row.remedy, after=True))
    return found
