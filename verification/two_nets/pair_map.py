"""Reads ``--map``: the pairs of modules and parameters of the source and the target.

The file is a JSON object of paths, ``{"layer1.0": "stage1.block0", "fc.weight": "head.weight"}``: a module
stands for everything below it under equal names, null for what has no counterpart. ``renames.json`` does too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...checkpoints.joins import Fused, read_fused
from ...checkpoints.pairs import Renaming, inverted, read_pairs
from ...checkpoints.spelling import plain_name
from ...formats.renames import read_renames
from ...ir import ModelError, near_names, require_name


@dataclass(frozen=True, slots=True)
class PairMap:
    """Paths in the source and in the target.

    Attributes:
        pairs: path in the source -> path in the target; of a module or of a parameter.
        without: paths in the source or in the target that have no counterpart.
        place: the file.
        strict: whether a name that neither side has is an error.
        fused: layers that one side keeps together and the other apart.
    """

    pairs: dict[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    place: str = ""
    strict: bool = True
    fused: tuple[Fused, ...] = ()

    def expanded(
        self,
        layers: Sequence[Iterable[str]],
        parameters: Sequence[Mapping[str, str]],
        names: Sequence[Iterable[str]],
    ) -> dict[str, str]:
        """Layer's path in the source -> in the target, of all that the map speaks of.

        Args:
            layers: paths of the layers, per side.
            parameters: name of a parameter -> its layer's path, per side.
            names: all parameters, also those of no layer because they are left out, per side.

        Raises:
            ModelError: for a name that its side does not have (E703).
        """
        paths = [{plain_name(p): p for p in side} for side in layers]
        found: dict[str, str] = {}
        # the longest first: what is said of a layer comes before what is said of the module around it
        for source, target in sorted(self.pairs.items(), key=lambda item: -item[0].count(".")):
            if source in parameters[0] and target in parameters[1]:
                found.setdefault(parameters[0][source], parameters[1][target])
                continue
            below = [_below(side, name) for side, name in zip(paths, (source, target), strict=True)]
            for name, held, side in ((source, below[0], 0), (target, below[1], 1)):
                if not held and self.strict and not _below({n: n for n in names[side]}, name):
                    raise self._unknown(name, side, [*layers[side], *parameters[side]])
            for rest, path in below[0].items():
                if rest in below[1]:
                    found.setdefault(path, below[1][rest])
        return found

    def is_left_out(self, side: int) -> Callable[[str], bool]:
        """Return the test whether a name of the source (0) or the target (1) has no counterpart."""
        alone = dict.fromkeys(self.without)
        table = {**alone, **self.pairs}
        if side:
            named = Renaming(self.pairs)
            table = {**alone, **dict.fromkeys(map(named, self.without)), **inverted(self.pairs)}
        renaming = Renaming(table)
        return lambda name: renaming(name) is None

    def _unknown(self, name: str, side: int, known: Sequence[str]) -> ModelError:
        near = near_names(name, known)
        return ModelError(
            "E703",
            f"`{name}` is neither a module with parameters nor a parameter of the "
            f"{('source', 'target')[side]}"
            + (f"; near: {', '.join(f'`{n}`' for n in near)}" if near else ""),
            place=self.place,
        )


def _below(paths: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the rest of a path after `name` -> the path, for the module of that name and all below it."""
    name = plain_name(name)
    return {
        p.removeprefix(name): path for p, path in paths.items() if not name or f"{p}.".startswith(f"{name}.")
    }


def read_pair_map(path: Path | str) -> PairMap:
    """Read a map.

    Raises:
        ModelError: when it is missing, malformed, or no object of paths (E101).
    """
    document = read_pairs(path)
    if document is None:
        return _of_renames(read_renames(Path(path)), str(path))
    return PairMap(
        {k: v for k, v in document.items() if v is not None},
        frozenset(k for k, v in document.items() if v is None),
        str(path),
        fused=tuple(read_fused(path)),
    )


def _of_renames(document: Mapping[str, object], place: str) -> PairMap:
    rows = document.get("parameters")
    if not isinstance(rows, list) or not all(
        isinstance(r, dict) and isinstance(r.get("target"), str) and isinstance(r.get("source"), str)
        for r in rows
    ):
        raise ModelError("E101", "expected a list of rows under `parameters`", place=place)
    for row in rows:
        for name in (row["source"], row["target"], row.get("source_path") or ""):
            if not isinstance(name, str):
                raise ModelError("E101", f"expected the name of a parameter, got `{name}`", place=place)
            require_name(name, "the name of a parameter", place)
    pairs = {
        str(row.get("source_path") or row["source"]): row["target"]
        for row in rows
        if row["source"] and row["target"] and not row.get("tie")
    }
    return PairMap(pairs, place=place, strict=False)
