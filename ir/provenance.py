"""The source's state before any pass: names, types, and where each tensor went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .folding import Fold
from .tensors import TensorData

if TYPE_CHECKING:
    from .graph import Graph


@dataclass(frozen=True, slots=True)
class SourceParameter:
    """One parameter or buffer as the source has it.

    Attributes:
        declared: its name in the source.
        paths: every module path that holds it.
        data: its values.
        is_buffer: whether no gradient reaches it by design.
        persistent: whether the source saves it in its checkpoints.
    """

    declared: str
    paths: tuple[str, ...]
    data: TensorData
    is_buffer: bool = False
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class Parts:
    """The parameters that a backend took one parameter apart into.

    Attributes:
        keys: keys of the parts, in order.
        order: for each block of the parts one after another, the block of the whole; all are of one size.
    """

    keys: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(slots=True)
class Provenance:
    """The state of a source, and what passes did to it.

    Attributes:
        parameters: key -> what it was.
        modules: key of a module -> its path in the source.
        dropped: key -> name of the pass after which it was gone, other than by being tied.
        tied: key -> the key of the parameter that it was tied into.
        turned: key of a parameter that was tied transposed -> the holder's axis for each of its own.
        merged: key of a removed module -> key of the module whose further calls replace its calls.
        folds: key of a parameter -> the normalisations that it took in, in order.
        folded: key of a call into whose layer a normalisation was folded -> key of the normalisation's call,
            whose result the former now gives; None where the call runs more than that layer.
        entered: keys of calls whose inputs are not the source's, because a normalisation that they began with
            is now done before them.
        parts: key of a parameter, which may be that of one of its parts now -> its parts.
        changes: (name of the pass, what it changed in words), in the order in which it was done; without
            those that only write an operator in another form.
    """

    parameters: dict[int, SourceParameter] = field(default_factory=dict[int, SourceParameter])
    modules: dict[int, str] = field(default_factory=dict[int, str])
    dropped: dict[int, str] = field(default_factory=dict[int, str])
    tied: dict[int, int] = field(default_factory=dict[int, int])
    turned: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    merged: dict[int, int] = field(default_factory=dict[int, int])
    folds: dict[int, tuple[Fold, ...]] = field(default_factory=dict[int, tuple[Fold, ...]])
    folded: dict[int, int | None] = field(default_factory=dict[int, int | None])
    entered: set[int] = field(default_factory=set[int])
    parts: dict[int, Parts] = field(default_factory=dict[int, Parts])
    changes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def copy(self) -> Provenance:
        """Return an independent one; tensor data is shared."""
        return Provenance(
            dict(self.parameters),
            dict(self.modules),
            dict(self.dropped),
            dict(self.tied),
            dict(self.turned),
            dict(self.merged),
            dict(self.folds),
            dict(self.folded),
            set(self.entered),
            dict(self.parts),
            list(self.changes),
        )

    def note_dropped(self, graph: Graph, by: str) -> None:
        """Record which parameters have gone from `graph` since the last call, as dropped by the pass `by`."""
        for key in self.parameters:
            if key not in graph and key not in self.tied:
                self.dropped.setdefault(key, by)

    def holder_of(self, key: int) -> int:
        """Return the key of the parameter that has the values of `key` now: its own unless it was tied."""
        while key in self.tied:
            key = self.tied[key]
        return key

    def group_by_holder(self) -> dict[int, list[int]]:
        """Return, by key of a parameter that is left, the keys whose values it has now, its own first."""
        found: dict[int, list[int]] = {}
        for key in self.parameters:
            found.setdefault(self.holder_of(key), []).append(key)
        return found


def record(graph: Graph) -> Provenance:
    """Return the state of a graph as it is now."""
    paths = graph.parameter_paths()
    return Provenance(
        {
            p.key: SourceParameter(
                p.declared, tuple(paths.get(p.key, ())), p.data, p.is_buffer, p.role != "non_persistent"
            )
            for p in graph.parameters()
        },
        {m.key: graph.modules.path(m.key) for m in graph.modules},
    )


def source_call_names(graph: Graph) -> dict[int, str]:
    """Return the name of every call by its key; of modules that became one, those of the source in turn."""
    names, provenance = graph.modules.call_names(), graph.provenance
    turns: dict[int, list[str]] = {}
    for gone, kept in provenance.merged.items() if provenance is not None else ():
        paths = provenance.modules if provenance is not None else {}
        if gone in paths and kept in paths and kept in graph.modules:
            turns.setdefault(kept, [paths[kept]]).append(paths[gone])
    for module, paths in turns.items():
        for turn, call in enumerate(graph.modules.calls(module)):
            names[call.key] = f"{paths[turn % len(paths)]}#{turn // len(paths) + 1}"
    return names
