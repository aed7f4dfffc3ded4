"""Two nets that were written apart, paired and compared before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from ...checkpoints.joins import Join
from ...checkpoints.spelling import plain_name, role_of
from ...frameworks import framework_of
from ...frontends.constructions import is_fresh
from ...ir import Graph, Parameter, TensorData
from ..report import ModuleRow
from .attributes import AttributeRow, compare_attributes, moved
from .calls import advised_by, arguments_of_calls, placed_by
from .checkpoint_names import notes_on_names, unlike_prefixes
from .constants import constants_of, constants_of_layers, names_of, without_effect
from .draws import draws_of
from .dropouts import dropouts
from .laws import compare_laws
from .module_pairs import module_pairs
from .orientation import Turned, turned
from .output_keys import find_order
from .pair_map import PairMap
from .pairing import Pairing, ParameterPair, pair
from .remedies import place_of
from .report import Nets
from .ties import compare_ties
from .training_only import freeze_of, frozen_rows, kept_statistics, stopped_gradients


class NetComparison:
    """Two graphs of live models, paired and compared before anything runs.

    Both must hold the values they were constructed with.

    Args:
        source: the source's graph.
        target: the target's.
        mapping: what the user says of their pairs.
        copy: whether the target is given the source's values; None gives them to nets that were drawn apart,
            where no weight is equal, or only by the seed that both were constructed from.
        train: whether what acts in training only counts.
        inference: whether neither can be trained here.

    Raises:
        ModelError: when they cannot be paired (E703).
    """

    def __init__(
        self,
        source: Graph,
        target: Graph,
        mapping: PairMap | None,
        *,
        copy: bool | None = None,
        train: bool = False,
        inference: bool = False,
    ) -> None:
        self.pairing: Pairing = pair(source, target, mapping, tied=True)
        self.modules = module_pairs(self.pairing, mapping)
        self.order = find_order(source, target)
        rows: list[ParameterPair] = []
        equal: list[str] = []
        drawn_alike = is_fresh(source.origin.model) and is_fresh(target.origin.model)
        other: list[str] = []
        for keys, p in self.pairing.parameters.items():
            mine, theirs, same = source.parameter(keys[0]), target.parameter(keys[1]), None
            if p.fits and None not in (mine.data.load, theirs.data.load):
                a, b = (
                    p.applied(self.pairing.source.data(keys[0]).numpy()),
                    self.pairing.target.data(keys[1]).numpy(),
                )
                same = bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
                drawn = a.size > 1 and bool((a != a.flat[0]).any() or (b != b.flat[0]).any())
                if drawn or not same:
                    (equal if same else other).append(p.source)
                    drawn_alike &= not same or (_is_drawn(mine) and _is_drawn(theirs))
            rows.append(replace(p, equal=same))
        apart = bool(other or self.pairing.fused)
        # both are constructed from one seed, so what they draw first may be equal and prove nothing
        self.copied = apart and (copy if copy is not None else not equal or drawn_alike)
        settings, agreeing = (
            compare_attributes(source, target, self.modules) if target.operators() else ([], [])
        )
        stopped = stopped_gradients(source, target, self.modules) if target.operators() else []
        stopped += kept_statistics(source, target, self.modules)
        dropped = dropouts(source, target, self.modules) if target.operators() else []
        lying = [_turned_row(target, row) for row in turned(self.pairing)]
        settings = [*lying, *settings, *dropped, *stopped]
        ties = compare_ties(self.pairing, self.modules)
        settings += ties.values()
        frozen = frozen_rows(self.pairing)
        elsewhere = moved(source, target, settings)
        self.moved = {row.module for row in elsewhere if row.module}
        self.modules = {path: other for path, other in self.modules.items() if path not in self.moved}
        settings = [row for row in settings if row not in elsewhere]
        biases = _biases(self.pairing, self.modules)
        # what is to be tied is not drawn
        laws = [row for row in compare_laws(self.pairing) if row.target not in ties]
        calls = arguments_of_calls(target, [*settings, *biases], agreeing, laws)
        settings = placed_by(calls, target, [advised_by(calls, row) for row in settings])
        self.sides = (self.pairing.source, self.pairing.target)
        self.names = [net.names for net in self.sides]
        self.proven: list[Join] = []
        self._joined: list[str] = []
        unread = [_unread(graph) | names_of(graph, without_effect(graph)) for graph in (source, target)]
        self.nets = Nets(
            target.origin.framework,
            rows,
            [n for n in self.pairing.only_source if n not in unread[0]],
            [n for n in self.pairing.only_target if n not in unread[1]],
            self.copied,
            [] if self.copied else other,
            settings,
            laws,
            train,
            dict(self.modules),
            inference,
            biases,
            calls,
            draws_of(target, laws),
            frozen=frozen,
            freeze=freeze_of(target, frozen),
            prefixes=unlike_prefixes(self.pairing),
        )

    def notes(self) -> list[str]:
        """Return notes on how the nets were read and paired."""
        target = self.pairing.target.graph
        known = [] if target.operators() else target.origin.notes
        sides = zip(self.sides, ("source", "target"), strict=True)
        names = dict.fromkeys(note for net, side in sides for note in notes_on_names(net.graph, side))
        return [*known, *self._casts(), *self.pairing.notes, *names, *self._joined]

    def accept_constants(self) -> list[str]:
        """Take what one net alone holds, and nothing changes, as constants that equal outputs prove.

        Returns:
            A note of those of the source, which a checkpoint of it may have otherwise.
        """
        graphs = [net.graph for net in self.sides]
        own = names_of(graphs[0], constants_of_layers(graphs[0]))
        mine = own | names_of(graphs[0], constants_of(graphs[0], followed=True))
        theirs = names_of(graphs[1], constants_of(graphs[1], followed=False))
        written = [name for name in self.nets.only_source if name in mine and name not in own]
        self.nets = replace(
            self.nets,
            only_source=[name for name in self.nets.only_source if name not in mine],
            only_target=[name for name in self.nets.only_target if name not in theirs],
            biases=[row for row in self.nets.biases if f"{row.target}.bias" not in own | mine],
        )
        if not written:
            return []
        names = ", ".join(f"`{name}`" for name in written[:_LISTED])
        more = ", …" if len(written) > _LISTED else ""
        return [f"constants that the target writes out: {names}{more}; a checkpoint cannot change them there"]

    def settle(self, joins: list[Join], proven: list[Join], notes: list[str]) -> None:
        """Take what was found of fused layers, or why nothing was.

        Args:
            joins: groups of tensors by their names in the graphs, from the source to the target.
            proven: those that may be written; with others the nets are compared, no more.
            notes: what a reader should know of them.
        """
        self.pairing.joins, self.proven, self._joined = joins, proven, notes
        other = [] if self.copied else [n for j in joins if not self.is_equal(j) for n in j.source]
        mine = {name for join in joins for name in join.source}
        theirs = {name for join in joins for name in join.target}
        self.nets = replace(
            self.nets,
            only_source=[name for name in self.nets.only_source if name not in mine],
            only_target=[name for name in self.nets.only_target if name not in theirs],
            joined=(len(mine), len(theirs)),
            differing=self.nets.differing + other,
        )

    def is_equal(self, join: Join) -> bool:
        """Whether both sides hold the same values, by a join."""
        mine, theirs = self._held()
        made = join.applied(mine)
        return all(np.array_equal(data.numpy(), theirs[name].numpy()) for name, data in made.items())

    def _held(self) -> list[dict[str, TensorData]]:
        """The parameters of both sides by name."""
        return [{name: net.parameter(key).data for key, name in net.names.items()} for net in self.sides]

    def joined(self, joins: Iterable[Join]) -> dict[str, np.ndarray]:
        """Return the values that joins give the target: parameter -> values of the source."""
        mine, theirs = self._held()
        made = {name: data for join in joins for name, data in join.applied(mine).items()}
        return {name: data.numpy().astype(theirs[name].numpy().dtype) for name, data in made.items()}

    def _casts(self) -> list[str]:
        """A note of every input that is an integer of one type in the source and of another in the target."""
        sides = (self.pairing.source.graph.input_nodes(), self.pairing.target.graph.input_nodes())
        return [
            f"input `{mine.name}` is {mine.type.dtype} in the source and {theirs.type.dtype} in the target: "
            "it was cast"
            for mine, theirs in zip(*sides, strict=False)
            if mine.type.dtype != theirs.type.dtype
            and {mine.type.dtype, theirs.type.dtype} == {"int32", "int64"}
        ]

    def judged(
        self, rows: list[ModuleRow], culprit: str | None, agree: bool
    ) -> tuple[list[ModuleRow], str | None]:
        """Module rows and culprit, knowing that the boundaries of modules need not be in the same places.

        Args:
            rows: the comparison's rows.
            culprit: the call that it found.
            agree: whether the nets' outputs do.
        """
        known = {row.module for row in self.nets.settings if not row.structure}
        made_otherwise = {row.module for row in self.nets.settings}
        out: list[ModuleRow] = []
        for row in rows:
            path = row.call.rpartition("#")[0]
            if path not in self.modules:
                where = "its boundary lies elsewhere" if path in self.moved else "it has no counterpart"
                row = replace(row, reason=f"{where} in the target")
            elif row.driven and path in made_otherwise:
                known.add(path)  # its boundary agreed: it is the module that gives something else
            elif agree and row.passed is False and path not in known:
                row = replace(row, passed=None, reason="its boundary lies elsewhere in the target")
            out.append(row)
        wrong = not agree or (culprit or "").rpartition("#")[0] in known
        return out, culprit if wrong else None

    def values(self) -> dict[str, np.ndarray]:
        """Return the target's values: parameter -> the source's values in its shape and element type."""
        return self.source_values() | self.joined(self.pairing.joins) if self.copied else {}

    def source_values(self) -> dict[str, np.ndarray]:
        """The source's values of the pairs, in the target's shapes and element types.

        Of several parameters that the target holds in one, the first is given.
        """
        source = self.pairing.source
        return self.given(
            {
                p.source: source.data(mine).numpy()
                for (mine, _), p in self.pairing.parameters.items()
                if p.fits
            }
        )

    def given(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what parameters of the target hold where their counterparts in the source have values."""
        target = self.pairing.target
        return {
            p.target: p.applied(values[p.source]).astype(target.parameter(theirs).data.numpy().dtype)
            for (_, theirs), p in reversed(self.pairing.parameters.items())
            if p.fits and p.source in values
        }

    def alone(self) -> set[str]:
        """Return the source's parameters that have counterparts of their own in the target."""
        source, held = self.pairing.source, Counter(theirs for _, theirs in self.pairing.parameters)
        return {
            p.source
            for (mine, theirs), p in self.pairing.parameters.items()
            if p.fits and held[theirs] == 1 and source.data(mine) is source.graph.parameter(mine).data
        }


_LISTED = 6
"""Names that a note lists."""


def _is_drawn(parameter: Parameter) -> bool:
    """Whether the law that a parameter's values come from is known."""
    return parameter.initializer is not None and parameter.initializer.law != "unknown"


def _unread(graph: Graph) -> set[str]:
    """Names of the parameters that no operator reads; none where nothing was captured."""
    if not graph.operators():
        return set()
    paths = graph.parameter_paths()
    unread = [
        p for p in graph.parameters() if not graph.flow.out_degree(p.key) and p.key not in graph.updates
    ]
    return {name for p in unread for name in paths.get(p.key, [p.declared])}


def _biases(pairing: Pairing, modules: dict[str, str]) -> list[AttributeRow]:
    """Biases that a layer has on one side only, as settings of it.

    One that both sides have is unpaired because another parameter of its layer does not fit; what MindSpore
    holds for `affine=False` is none.
    """
    target = pairing.target.graph
    fixed = [names_of(net.graph, constants_of_layers(net.graph)) for net in (pairing.source, pairing.target)]
    framework = target.origin.framework
    back = {other: path for path, other in modules.items()}
    rows: list[AttributeRow] = []
    sides = tuple(
        [name for name in names if name not in constants]
        for names, constants in zip((pairing.only_source, pairing.only_target), fixed, strict=True)
    )
    for names, opposite, wanted in ((*sides, True), (*sides[::-1], False)):
        held, missing = {plain_name(name) for name in names}, {plain_name(name) for name in opposite}
        for name in names:
            layer, _, last = name.rpartition(".")
            path, other = (layer, modules.get(layer)) if wanted else (back.get(layer), layer)
            if f"{other if wanted else path}.bias" in missing or role_of(last) != "bias":
                continue
            module = None if other is None else target.modules.find(other)
            if not path or not other or module is None:
                continue
            alone = f"{plain_name(layer)}.weight" not in held
            keyword = framework_of(framework).taken(module.class_name, "bias" if alone else "affine")
            if keyword:
                rows.append(
                    AttributeRow(
                        path,
                        other,
                        module.class_name,
                        "bias" if alone else keyword,
                        wanted,
                        not wanted,
                        arguments=((keyword, str(wanted)),),
                        place=place_of(target, other),
                    )
                )
    return rows


def _turned_row(target: Graph, found: Turned) -> AttributeRow:
    """A matrix that is multiplied the other way round, as a setting of its layer."""
    module = target.modules.find(found.layer)
    text = f"`{found.target}.T`" if found.axes[1] == "(in, out)" else f"`{found.target}` as it is"
    return AttributeRow(
        found.source,
        found.layer,
        "" if module is None else module.class_name,
        "weight multiplied as",
        *found.axes,
        statement=f"{text} in that product, or convert the weight transposed",
        place=found.operator.location.partition(" ")[0],
    )
