"""Pairs the layers of two nets that people wrote apart: by a map, by name, by neighbours, by order and shape.

A pair is made only where nothing else could be meant. What can be meant in several ways is either paired in
the order of the calls, with a note that lists it, or refused with the candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import prod

import numpy as np

from ...checkpoints.joins import Join
from ...checkpoints.prefixes import align
from ...checkpoints.spelling import plain_name, plain_shape
from ...ir import Graph, ModelError
from .constants import constants_of_layers
from .fusing import Fused, Stated, fused_of, groups_of, put_together, stated_groups
from .layers import Layer, Net, describe, in_order_of_calls, tied_layers, with_tied
from .orientation import is_turned
from .outer_biases import find_outer_biases
from .pair_map import PairMap

_NORMALISING = {"weight", "bias", "running_mean", "running_var"}

_LISTED = 8
"""Names of one side that a message lists."""


@dataclass(frozen=True, slots=True)
class ParameterPair:
    """A parameter of the source and the target's that stands for it.

    Attributes:
        source: name in the source.
        target: name in the target.
        by: why: "map", "name", "prefix", "neighbours", "order" or "surroundings".
        shape: in the source.
        target_shape: in the target.
        equal: whether both held the same values when the comparison began; None where that is not compared,
            as where shapes differ.
        turned: whether the target's values are the source's transposed, as it multiplies them the other way.
    """

    source: str
    target: str
    by: str
    shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    equal: bool | None = None
    turned: bool = False

    @property
    def fits(self) -> bool:
        """Whether the values of one are those of the other: transposed, or with axes of one element added."""
        shapes = self.shape, self.target_shape
        if min(map(len, shapes)) == 1:  # a vector, which the other side may write as [1, n, 1, 1]
            return prod(shapes[0]) == prod(shapes[1]) == max(map(max, shapes))
        return self.turned or (
            prod(shapes[0]) == prod(shapes[1]) and plain_shape(shapes[0]) == plain_shape(shapes[1])
        )

    def applied(self, array: np.ndarray) -> np.ndarray:
        """An array of the source's shape in the target's."""
        return np.ascontiguousarray(array.T) if self.turned else array.reshape(self.target_shape)

    @property
    def form(self) -> str:
        """The transform of a map's row from the source's array to the target's."""
        if self.turned:
            return "transpose:1,0"
        return "identity" if self.shape == self.target_shape else "reshape"


@dataclass(slots=True)
class Pairing:
    """The corresponding layers and parameters of two nets.

    Attributes:
        source: the source, described.
        target: the target, described.
        layers: path of a layer in the source -> the target's.
        by: path of a layer in the source -> why.
        parameters: node keys on both sides -> the pair, in the source's order of calls.
        only_source: names of parameters without a counterpart.
        only_target: likewise in the target.
        notes: pairs that the order of the calls alone decided.
        fused: layers that one side keeps together and the other apart, whose layout nothing tells yet.
        joins: groups of their parameters by a layout, from the source to the target, under the nets' names.
    """

    source: Net
    target: Net
    layers: dict[str, str] = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)
    parameters: dict[tuple[int, int], ParameterPair] = field(default_factory=dict)
    only_source: list[str] = field(default_factory=list)
    only_target: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fused: list[Fused] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)


def pair(
    source: Graph,
    target: Graph,
    mapping: PairMap | None = None,
    *,
    in_order: bool = False,
    tied: bool = False,
) -> Pairing:
    """Pair the layers and parameters of two graphs.

    Args:
        source: the source's graph, or its static part.
        target: likewise.
        mapping: what the user says; it comes before everything else.
        in_order: whether what is left of one shape is paired in its order where both sides have as many.
        tied: whether a parameter that several layers of one net hold is paired in each of them: the other net
            may have as many parameters.

    Raises:
        ModelError: when layers of one shape remain on both sides and nothing tells which is which, or a name
            of the map is on neither side (E703).
    """
    mapping = mapping or PairMap()
    nets = (describe(source, mapping.is_left_out(0)), describe(target, mapping.is_left_out(1)))
    for net in nets if not tied else ():
        net.tied.clear()
    stated = stated_groups(nets, mapping.fused, mapping.place)
    said = [[s.group for s in stated if s.in_source is whole] for whole in (False, True)]
    nets = [put_together(net, side) for net, side in zip(nets, said, strict=True)]
    groups = [groups_of(nets[0], nets[1]), groups_of(nets[1], nets[0])]
    while any(groups):
        try:
            together = [put_together(*side) for side in zip(nets, groups, strict=True)]
            found = _paired(together, mapping, stated, in_order)
        except ModelError:  # what was put together is no layer of the other side
            break
        held = {layer.path for fused in found.fused for layer in fused.parts}
        kept = [[g for g in side if held >= {p.path for p in g.parts}] for side in groups]
        if kept == groups:
            return found
        groups = kept
    return _paired(nets, mapping, stated, in_order)


def _paired(nets: Sequence[Net], mapping: PairMap, stated: Sequence[Stated], in_order: bool) -> Pairing:
    search = _Search(nets[0], nets[1], mapping, stated)
    search.run()
    if in_order:
        search.pair_in_order()
    search.refuse_ambiguity()
    return search.result()


_ENDS = ("<", ">")
"""Prefixes of inputs' and outputs' names where a path is expected; the root's path is empty."""


class _Search:
    def __init__(self, source: Net, target: Net, mapping: PairMap, stated: Sequence[Stated]) -> None:
        self.mapping = mapping
        self.stated = {s.group.path: s for s in stated}
        self.pairing = Pairing(source, target)
        self.free = [{layer.path: layer for layer in net.layers} for net in (source, target)]
        self.tied = [tied_layers(net) for net in (source, target)]
        self.all = [with_tied(net, tied) for net, tied in zip((source, target), self.tied, strict=True)]
        self.number: list[dict[str, int]] = [{}, {}]  # path -> number of its pair

    # -- rounds ------------------------------------------------------------------------------------

    def run(self) -> None:
        own = [dict(side) for side in self.free]
        self.free = [dict(side) for side in self.all]
        self._by_map()
        self._by_name()
        left = [
            {n: tied[n] for n in side if n in tied} for side, tied in zip(self.free, self.tied, strict=True)
        ]
        for side in (0, 1):  # what another layer holds too is no layer of its own to those that follow
            self.free[side] = {n: layer for n, layer in own[side].items() if n in self.free[side]}
        self._by_prefix()
        self._leave_constants()
        self._by_calls()
        if any(left):
            for side, more in enumerate(left):
                more = {n: layer for n, layer in more.items() if n not in self.number[side]}
                self.free[side] = in_order_of_calls({**self.free[side], **more})
            self._by_calls()

    def _by_calls(self) -> None:
        """Pair what names do not, by neighbours, order and surroundings, as long as that finds a pair."""
        rounds = [self._by_neighbours, self._by_order, self._by_surroundings]
        if (
            not self.is_called
        ):  # a file may have sorted its names: what surrounds them tells more than their order
            rounds.reverse()
        while any(each() for each in rounds):
            pass

    @property
    def is_called(self) -> bool:
        """Whether layers stand in the order of calls, and not in that of a file."""
        return bool(self.pairing.source.graph.operators())

    def _join(self, source: str, target: str, by: str) -> None:
        number = len(self.pairing.layers)
        self.pairing.layers[source], self.pairing.by[source] = target, by
        for side, path in enumerate((source, target)):
            self.number[side][path] = number
            del self.free[side][path]

    def _by_map(self) -> None:
        for each in self.stated.values():
            pair = (each.whole, each.group.path) if each.in_source else (each.group.path, each.whole)
            self._join(pair[0], pair[1], "map")
        names = [net.names.values() for net in (self.pairing.source, self.pairing.target)]
        stated = self.mapping.expanded([list(side) for side in self.free], self._names(), names)
        for source, target in stated.items():
            if source in self.free[0] and target in self.free[1]:
                self._join(source, target, "map")

    def _names(self) -> list[dict[str, str]]:
        """Per side: a parameter's name -> its layer's path."""
        nets = (self.pairing.source, self.pairing.target)
        return [
            {
                name: layer.path
                for layer in side.values()
                for key in layer.parameters.values()
                for name in paths.get(key, [net.names[key]])
            }
            for side, net, paths in zip(
                self.free, nets, [net.graph.parameter_paths() for net in nets], strict=True
            )
        ]

    def _by_name(self) -> None:
        """The same path, and the same shapes."""
        theirs = {plain_name(path): path for path in self.free[1]}
        for path, layer in list(self.free[0].items()):
            other = theirs.get(plain_name(path))
            if other not in self.free[1]:
                continue
            theirs_layer = self.free[1][other]
            if (
                theirs_layer.signature == layer.signature
                or self._is_turned(layer, theirs_layer)
                or self._is_one_normalisation(layer, theirs_layer)
            ):
                self._join(path, other, "name")

    def _is_one_normalisation(self, mine: Layer, theirs: Layer) -> bool:
        """Whether two layers are normalisations of one size, of which one has no statistics or no scale."""
        sides = ((mine, self._net(0)), (theirs, self._net(1)))
        shapes = [{net.parameter(k).data.shape for k in layer.parameters.values()} for layer, net in sides]
        roles = [set(layer.parameters) for layer, _ in sides]
        statistics = [bool(held & {"running_mean", "running_var"}) for held in roles]
        return (
            shapes[0] == shapes[1]
            and len(shapes[0]) == 1
            and statistics[0] != statistics[1]
            and all(held <= _NORMALISING for held in roles)
        )

    def _leave_constants(self) -> None:
        """Leave alone what layers hold for `affine=False`, which stands for no parameter of another name."""
        for side in (0, 1):
            fixed = constants_of_layers(self._net(side).graph)
            for path, layer in list(self.free[side].items()):
                if fixed and fixed.issuperset(layer.parameters.values()):
                    del self.free[side][path]

    def _is_turned(self, mine: Layer, theirs: Layer) -> bool:
        """Whether two layers differ in their weight alone, which one multiplies transposed."""
        if not self.is_called or mine.parameters.keys() != theirs.parameters.keys():
            return False
        for role, key in mine.parameters.items():
            other = theirs.parameters[role]
            same = self._net(0).parameter(key).data.shape == self._net(1).parameter(other).data.shape
            if not same and not (role == "weight" and self._is_reversed(key, other)):
                return False
        return True

    def _is_reversed(self, mine: int, theirs: int) -> bool:
        """Whether one matrix can be the other transposed, by their shapes and the products with them."""
        source, target = self._net(0), self._net(1)
        shapes = source.parameter(mine).data.shape, target.parameter(theirs).data.shape
        return (
            len(shapes[0]) == 2
            and shapes[0] == shapes[1][::-1]
            and max(shapes[0]) > 1
            and is_turned(source.graph, mine, target.graph, theirs)
        )

    def _turn(self) -> None:
        """Pair matrices as transposed whose shapes tell it, or their values, or others of their classes.

        A square one of none of these may be multiplied the wrong way round: it stays as it is.
        """
        nets = self.pairing.source, self.pairing.target
        owners = [{k: layer.path for layer in net.layers for k in layer.parameters.values()} for net in nets]
        found: dict[tuple[int, int], tuple[str, ...]] = {}
        for keys in self.pairing.parameters:
            if self._is_reversed(*keys):
                modules = [n.graph.modules.find(o[k]) for n, o, k in zip(nets, owners, keys, strict=True)]
                found[keys] = tuple("" if m is None else m.class_name for m in modules)
        pairs = self.pairing.parameters
        told = {keys for keys in found if pairs[keys].shape != pairs[keys].target_shape}
        classes = {found[keys] for keys in told}
        for keys, names in found.items():
            if keys in told or names in classes or self._is_transposed(*keys):
                pairs[keys] = replace(pairs[keys], turned=True)
        turned = [p.source for p in pairs.values() if p.turned]
        if turned:
            listed = ", ".join(f"`{name}`" for name in turned[:_LISTED])
            self.pairing.notes.append(
                f"matrices that the target stores and multiplies transposed: {listed}"
                f"{', …' if len(turned) > _LISTED else ''}; a checkpoint of the source fits after "
                f"transposing them, as the map of --write-map does"
            )

    def _is_transposed(self, mine: int, theirs: int) -> bool:
        """Whether the values of one matrix are the other's transposed, and not the other's."""
        if None in (self._net(0).parameter(mine).data.load, self._net(1).parameter(theirs).data.load):
            return False
        a, b = self._net(0).data(mine).numpy(), self._net(1).data(theirs).numpy()
        return np.array_equal(a.T, b) and not np.array_equal(a, b)

    def pair_in_order(self) -> None:
        """Pair what is left of one shape in its order, where both sides have as many."""
        groups: list[dict[object, list[str]]] = [{}, {}]
        for side, found in zip(self.free, groups, strict=True):
            for path, layer in side.items():
                found.setdefault(layer.signature, []).append(path)
        for signature, mine in groups[0].items():
            theirs = groups[1].get(signature, [])
            if len(mine) == len(theirs):
                for source, target in zip(mine, theirs, strict=True):
                    self._join(source, target, "order")

    def _by_prefix(self) -> None:
        """The same path behind a part that one net has more: all layers of a net, or none."""
        shapes = [
            {
                path: next((net.parameter(key).data.shape for key in layer.parameters.values()), None)
                for path, layer in side.items()
            }
            for side, net in zip(self.free, (self.pairing.source, self.pairing.target), strict=True)
        ]
        found = align(*shapes, insert=True).names
        theirs = {plain_name(path): path for path in self.free[1]}
        pairs = [(a, b) for a, new in found.items() if (b := theirs.get(plain_name(new))) is not None]
        fitting = all(self.free[0][a].signature == self.free[1][b].signature for a, b in pairs)
        if pairs and fitting and len(pairs) == min(map(len, self.free)):
            for a, b in pairs:
                self._join(a, b, "prefix")

    def _by_neighbours(self) -> bool:
        """Layers of one shape whose inputs come from, or whose results go to, the same paired layers.

        Pairs are followed from the inputs onwards and from the outputs back, each for itself, and made where
        neither way contradicts the other: of four layers in a row and three, nobody knows which is missing.
        """
        nets = (self.pairing.source, self.pairing.target)
        ways = [self._followed([n.before for n in nets]), self._followed([n.after for n in nets])]
        backs = [{target: source for source, target in way.items()} for way in ways]
        agreed = {
            source: target
            for way in ways
            for source, target in way.items()
            if all(w.get(source, target) == target for w in ways)
            and all(b.get(target, source) == source for b in backs)
        }
        for source, target in agreed.items():
            self._join(source, target, "neighbours")
        return bool(agreed)

    def _followed(self, edges: Sequence[Mapping[str, frozenset[str]]]) -> dict[str, str]:
        """The pairs that follow from those made, one after another, in one direction."""
        number = [dict(side) for side in self.number]
        found: dict[str, str] = {}
        while made := list(self._unique(edges, number)):
            for source, target in made:
                found[source] = target
                for side, path in enumerate((source, target)):
                    number[side][path] = -len(found)  # numbers of pairs that are made are not negative
        return found

    def _unique(
        self, edges: Sequence[Mapping[str, frozenset[str]]], number: Sequence[Mapping[str, int]]
    ) -> Iterator[tuple[str, str]]:
        groups: list[dict[object, list[str]]] = [{}, {}]
        for side in (0, 1):
            for path, layer in self.free[side].items():
                known = edges[side].get(path)
                if path in number[side] or not known:
                    continue
                if any(not n.startswith(_ENDS) and n not in number[side] for n in known):
                    continue
                token = frozenset(n if n.startswith(_ENDS) else number[side][n] for n in known)
                groups[side].setdefault((layer.signature, token), []).append(path)
        for token, paths in groups[0].items():
            others = groups[1].get(token, [])
            if len(paths) == len(others) == 1:
                yield paths[0], others[0]

    def _by_order(self) -> bool:
        """Pair layers between the same two pairs in the order of calls, if shapes leave one possibility."""
        gaps = [self._gaps(side) for side in (0, 1)]
        for between, mine in gaps[0].items():
            theirs = gaps[1].get(between, [])
            shapes = [[layer.signature for layer in layers] for layers in (mine, theirs)]
            if shapes[0] == shapes[1]:
                if self.is_called:
                    self._note_parallel(mine, theirs)
                for source, target in zip(mine, theirs, strict=True):
                    self._join(source.path, target.path, "order")
                return True
            single = [
                (a.path, b.path)
                for a in mine
                for b in theirs
                if a.signature == b.signature
                and shapes[0].count(a.signature) == 1 == shapes[1].count(b.signature)
            ]
            for source, target in single:
                self._join(source, target, "order")
            if single:
                return True
        return False

    def _by_surroundings(self) -> bool:
        """The one layer of its shape that is left in each of two modules around the same pairs.

        A branch whose result nobody adds has no neighbours behind it, and may be called at another place.
        """
        around = [self._around(side) for side in (0, 1)]
        for pairs, mine in around[0].items():
            theirs = around[1].get(pairs, [])
            shapes = [Counter(layer.signature for layer in layers) for layers in (mine, theirs)]
            single = [
                (a.path, b.path)
                for a in mine
                for b in theirs
                if a.signature == b.signature and shapes[0][a.signature] == 1 == shapes[1][b.signature]
            ]
            for source, target in single:
                self._join(source, target, "surroundings")
            if single:
                return True
        return False

    def _around(self, side: int) -> dict[frozenset[int], list[Layer]]:
        """Numbers of the pairs in a module -> the unpaired layers in it, none in a smaller one with pairs."""
        numbers: dict[str, set[int]] = {}
        for path, number in self.number[side].items():
            for above in _above(path):
                numbers.setdefault(above, set()).add(number)
        found: dict[frozenset[int], list[Layer]] = {}
        for path, layer in self.free[side].items():
            module = next((above for above in _above(path) if above in numbers), None)
            if module is not None:
                found.setdefault(frozenset(numbers[module]), []).append(layer)
        return found

    def _gaps(self, side: int) -> dict[tuple[int, int], list[Layer]]:
        """(number of the pair before, of that after) -> the unpaired layers between, in order."""
        found: dict[tuple[int, int], list[Layer]] = {}
        open_: list[Layer] = []
        last = -1
        for path, layer in [*self.all[side].items(), ("", None)]:
            if layer is not None and path not in self.number[side]:
                if path in self.free[side]:
                    open_.append(layer)
                continue
            number = -1 if layer is None else self.number[side].get(path, -1)
            if open_:
                found[last, number] = open_
            open_, last = [], number
        return found

    def _note_parallel(self, mine: Sequence[Layer], theirs: Sequence[Layer]) -> None:
        """A note for layers of one shape with one input: only the order of the calls tells them apart."""
        groups: dict[object, list[int]] = {}
        for at, layer in enumerate(mine):
            come = self.pairing.source.before.get(layer.path)
            groups.setdefault((layer.signature, come), []).append(at)
        for group in groups.values():
            if len(group) > 1:
                pairs = ", ".join(f"`{mine[i].path}` with `{theirs[i].path}`" for i in group[:_LISTED])
                self.pairing.notes.append(
                    f"paired by the order of the calls alone, as they have one shape and one input: {pairs}; "
                    "if that is wrong, give the pairs with --map"
                )

    # -- what is left ------------------------------------------------------------------------------

    def refuse_ambiguity(self) -> None:
        """Refuse when layers of one shape remain on both sides."""
        shapes = [{layer.signature for layer in side.values()} for side in self.free]
        common = shapes[0] & shapes[1]
        left = [[path for path, layer in side.items() if layer.signature in common] for side in self.free]
        if not left[0]:
            return
        lines = []
        for what, at in (("only in the source", 0), ("only in the target", 1)):
            for path in left[at][:_LISTED]:
                layer = self.free[at][path]
                same = [n for n in left[1 - at] if self.free[1 - at][n].signature == layer.signature]
                near = get_close_matches(path, same, 1, 0.3) or same[:1]
                many = f", or {len(same) - 1} more of its shape" if len(same) > 1 else ""
                lines.append(f"  {what}: `{path}` {_shape(layer, self._net(at))} (near `{near[0]}`{many})")
            if len(left[at]) > _LISTED:
                lines.append(f"  {what}: {len(left[at]) - _LISTED} more")
        example = f'{{"{left[0][0]}": "{left[1][0]}"}}'
        raise ModelError(
            "E703",
            "expected names, neighbours or the order of calls to identify each layer, but several of these "
            "have one shape:\n" + "\n".join(lines),
            hint=f"pair them with --map FILE, an object of paths in the source and in the target: {example}; "
            "null for what has no counterpart",
        )

    def _net(self, side: int) -> Net:
        return self.pairing.target if side else self.pairing.source

    def result(self) -> Pairing:
        """The parameters of the paired layers, role by role."""
        done = self.pairing
        nets = (done.source, done.target)
        self._take_fused([with_tied(*side) for side in zip(nets, self.tied, strict=True)])
        whole = [with_tied(*side) for side in zip(nets, self.tied, strict=True)]
        alone: list[tuple[int, str]] = []
        for layer in whole[0].values():
            path = done.layers.get(layer.path)  # "" is a path: that of the root's own parameters
            target = None if path is None else whole[1].get(path)
            theirs = dict(target.parameters) if target is not None else {}
            for role, key in layer.parameters.items():
                name = done.source.names[key]
                other = theirs.pop(role, None)
                if other is None and role in ("", "weight"):  # a layer's weight, or one that stands alone
                    other = theirs.pop("weight" if not role else "", None)
                if other is None:
                    alone.append((key, name))
                    continue
                done.parameters[key, other] = self._pair_of(key, other, done.by[layer.path])
        if self.is_called:
            for keys in find_outer_biases(nets, whole, done.layers, done.parameters):
                done.parameters[keys] = self._pair_of(*keys, "neighbours")
        taken = [{keys[side] for keys in done.parameters} for side in (0, 1)]
        done.only_source = list(dict.fromkeys(name for key, name in alone if key not in taken[0]))
        done.only_target = [
            done.target.names[key]
            for layer in done.target.layers
            for key in layer.parameters.values()
            if key not in taken[1]
        ]
        if self.is_called:
            self._turn()
        return done

    def _pair_of(self, source: int, target: int, by: str) -> ParameterPair:
        mine, theirs = self._net(0), self._net(1)
        shapes = mine.parameter(source).data.shape, theirs.parameter(target).data.shape
        return ParameterPair(mine.names[source], theirs.names[target], by, *shapes)

    def _take_fused(self, held: Sequence[Mapping[str, Layer]]) -> None:
        """Set the pairs of a layer and of what was put together aside: their parameters are no pairs."""
        done, nets = self.pairing, (self.pairing.source, self.pairing.target)
        for source, target in list(done.layers.items()):
            layers = held[0][source], held[1][target]
            if layers[0].parts or layers[1].parts:
                del done.layers[source], done.by[source]
                if (fused := fused_of(*layers, nets)) is not None:
                    said = self.stated.get(source) or self.stated.get(target)
                    done.fused.append(fused if said is None else replace(fused, stated=said.layout))
        for net in nets:
            net.layers = [part for layer in net.layers for part in layer.parts or (layer,)]


def _above(path: str) -> Iterator[str]:
    """The modules around a layer, the innermost first; not the root."""
    while path := path.rpartition(".")[0]:
        yield path


def _shape(layer: Layer, net: Net) -> str:
    return " ".join(str(list(net.parameter(key).data.shape)) for key in list(layer.parameters.values())[:1])
