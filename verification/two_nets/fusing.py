"""Layers that one net keeps together and the other apart: a `qkv` against `q`, `k` and `v`.

Side by side they are no pairs of one shape, so before pairing the parts are put together as one layer of the
whole's shape. In which order their rows stand no shape tells: `layouts` lists what is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple

from ...checkpoints.joins import Fused as FusedPaths
from ...checkpoints.joins import Join, stacked
from ...checkpoints.spelling import plain_name
from ...ir import Graph, ModelError, Operator, Parameter
from .layers import Layer, Net

_PARTS = (3, 2)
"""Maximum number of layers tried as the parts of one."""
_FURTHEST = 64
"""Operators after a layer among which its number of heads is looked for."""
_Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fused:
    """A layer of one net and the layers of the other that it holds.

    Attributes:
        whole: the layer.
        parts: the others, in the order of their calls.
        in_source: whether the whole is the source's.
        roles: (role of the whole's parameter, roles of the parts') of what both sides have.
        stated: the layout that the user states; None where it is to be found.
    """

    whole: Layer
    parts: tuple[Layer, ...]
    in_source: bool
    roles: tuple[tuple[str, tuple[str, ...]], ...]
    stated: Layout | None = None

    def parameters(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(node key of a parameter of the whole, those of the parts), a pair for every role."""
        for role, theirs in self.roles:
            parts = (layer.parameters[r] for layer, r in zip(self.parts, theirs, strict=True))
            yield self.whole.parameters[role], tuple(parts)

    def joins(self, layout: Layout, names: Sequence[Mapping[int, str]], nets: Sequence[Net]) -> list[Join]:
        """The groups of tensors from the source to the target, by a layout.

        Args:
            layout: the layout.
            names: node key -> name, of the source and of the target.
            nets: the source and the target.
        """
        at = 0 if self.in_source else 1
        made: list[Join] = []
        for whole, parts in self.parameters():
            kept = nets[at].parameter(whole).data
            shapes = {
                names[1 - at][parts[i]]: nets[1 - at].parameter(parts[i]).data.shape for i in layout.order
            }
            join = stacked(shapes, names[at][whole], kept.shape, kept.dtype, layout.heads)
            made.append(join.turned() if self.in_source else join)
        return made


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """The order of the rows in a joined tensor.

    Attributes:
        heads: how many times the parts alternate; 1 where each stands in one piece.
        order: the parts, in the order in which they stand.
    """

    heads: int
    order: tuple[int, ...]

    def __str__(self) -> str:
        return "rows one after another" if self.heads == 1 else f"rows alternating by {self.heads} heads"


def layouts(fused: Fused, nets: Sequence[Net]) -> list[Layout]:
    """The layout that is stated, or all that shapes allow: by heads that the sides compute with."""
    if fused.stated is not None:
        return [fused.stated]
    at = 0 if fused.in_source else 1
    rows = [_rows(nets[1 - at], layer) for layer in fused.parts]
    heads = {1}
    if len(set(rows)) == 1:
        seen = _sizes(nets[at].graph, [fused.whole]) | _sizes(nets[1 - at].graph, fused.parts)
        heads |= {n for n in seen if 1 < n <= rows[0] and rows[0] % n == 0}
    return [Layout(n, order) for n in sorted(heads) for order in permutations(range(len(rows)))]


def _rows(net: Net, layer: Layer) -> int:
    return _weight(net, layer)[0]


def _sizes(graph: Graph, layers: Sequence[Layer]) -> set[int]:
    """Lengths of axes of what is computed from some layers' results, up to the next layers."""
    own = {key for layer in layers for key in layer.parameters.values()}
    waiting, seen, found = list(own), set(own), set[int]()
    for at in range(len(own) + _FURTHEST):
        if at == len(waiting):
            break
        for user in sorted(graph.flow.succ[waiting[at]]):
            node = graph.node(user)
            others = {v.node for v in graph.operands(user) if v is not None} - own
            foreign = any(isinstance(graph.node(key), Parameter) for key in others)
            if user in seen or foreign or not isinstance(node, Operator):
                continue
            seen.add(user)
            waiting.append(user)
            found |= {d for t in node.types if t is not None for d in (t.shape or ()) if isinstance(d, int)}
    return found


def _weight(net: Net, layer: Layer) -> _Shape:
    """The shape of what a layer multiplies with; empty for any other layer."""
    key = next((layer.parameters[r] for r in ("weight", "in_proj_weight", "") if r in layer.parameters), None)
    shape = () if key is None else net.parameter(key).data.shape
    return shape if len(shape) > 1 and "running_mean" not in layer.parameters else ()


def groups_of(net: Net, other: Net) -> list[Layer]:
    """The groups of a net's layers that another net may keep in one, as a layer each."""
    lacking = Counter(filter(None, (_weight(other, layer) for layer in other.layers)))
    lacking -= Counter(filter(None, (_weight(net, layer) for layer in net.layers)))
    wanted = {_weight(other, layer): layer for layer in other.layers if _weight(other, layer) in lacking}
    theirs = {(plain_name(layer.path), layer.signature) for layer in other.layers}
    free = [layer for layer in net.layers if (plain_name(layer.path), layer.signature) not in theirs]
    groups: list[Layer] = []
    taken: set[str] = set()
    for alike in (True, False):  # those with one input first
        for parts in _neighbours(net, free, alike):
            shape = _together(net, parts)
            if lacking[shape] > 0 and not taken & {layer.path for layer in parts}:
                lacking[shape] -= 1
                taken |= {layer.path for layer in parts}
                groups.append(_group(parts, wanted[shape]))
    return groups


class Stated(NamedTuple):
    """A group that the user states.

    Attributes:
        group: the parts as one layer.
        whole: path of the layer that holds them.
        in_source: whether the whole is the source's.
        layout: how they stand there.
    """

    group: Layer
    whole: str
    in_source: bool
    layout: Layout


def stated_groups(nets: Sequence[Net], said: Sequence[FusedPaths], place: str) -> list[Stated]:
    """The groups that the user states, of the source's layers or of the target's.

    Raises:
        ModelError: when no side has the whole and the other all parts, or they do not go together (E703).
    """
    paths = [{plain_name(layer.path): layer for layer in net.layers} for net in nets]
    found: list[Stated] = []
    for each in said:
        sides = [at for at in (0, 1) if plain_name(each.whole) in paths[at]]
        sides = [at for at in sides if all(plain_name(p) in paths[1 - at] for p in each.parts)]
        if not sides:
            parts = ", ".join(f"`{path}`" for path in each.parts)
            what = f"expected a layer `{each.whole}` in one net and {parts} in the other, each in one record"
            raise ModelError("E703", what, place=place)
        at = sides[0]
        whole = paths[at][plain_name(each.whole)]
        parts = tuple(paths[1 - at][plain_name(p)] for p in each.parts)
        shapes = (_together(nets[1 - at], parts), _weight(nets[at], whole))
        rows = [_rows(nets[1 - at], part) for part in parts] if shapes[0] else []
        if shapes[0] != shapes[1] or (each.heads > 1 and (len(set(rows)) > 1 or rows[0] % each.heads)):
            what = f"`{each.whole}` {list(shapes[1])} is not {len(parts)} parts of {each.heads} pieces each"
            raise ModelError("E703", what, place=place)
        for side, taken in ((at, [whole]), (1 - at, parts)):
            for layer in taken:
                paths[side].pop(plain_name(layer.path), None)
        layout = Layout(each.heads, tuple(range(len(parts))))
        found.append(Stated(_group(parts, whole), whole.path, at == 0, layout))
    return found


def _neighbours(net: Net, free: Sequence[Layer], alike: bool) -> Iterator[tuple[Layer, ...]]:
    """Layers that follow one another in one module; `alike`: that take one input."""
    siblings: dict[object, list[Layer]] = {}
    for layer in free:
        parent = layer.path.rpartition(".")[0]
        come = net.before.get(layer.path)
        if (come or not alike) and (alike or parent) and _weight(net, layer):
            siblings.setdefault((parent, come if alike else None), []).append(layer)
    for group in siblings.values():
        for count in _PARTS:
            for at in range(len(group) - count + 1):
                yield tuple(group[at : at + count])


def _together(net: Net, parts: Sequence[Layer]) -> _Shape:
    """The shape of a whole; empty for parts of several widths, types or roles."""
    shapes = [_weight(net, layer) for layer in parts]
    types = {net.parameter(key).data.dtype for layer in parts for key in layer.parameters.values()}
    known = all(layer.parameters.keys() <= {"weight", "bias", ""} for layer in parts)
    if not known or len(types) > 1 or len({shape[1:] for shape in shapes}) > 1:
        return ()
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _group(parts: tuple[Layer, ...], whole: Layer) -> Layer:
    parent = parts[0].path.rpartition(".")[0]
    names = ",".join(layer.path.rpartition(".")[2] for layer in parts)
    path = f"{parent}.{{{names}}}" if parent else f"{{{names}}}"
    return Layer(path, parts[0].module, {}, whole.signature, parts[0].place, parts)


def put_together(net: Net, groups: Sequence[Layer]) -> Net:
    """The net with one layer in place of every group."""
    named = {part.path: group.path for group in groups for part in group.parts}
    layers = [layer for layer in net.layers if layer.path not in named]
    sides: list[dict[str, frozenset[str]]] = []
    for edges in (net.before, net.after):
        found: dict[str, frozenset[str]] = {}
        for path, near in edges.items():
            key = named.get(path, path)
            known = frozenset(named.get(n, n) for n in near) - {key}
            found[key] = found.get(key, frozenset()) | known
        sides.append(found)
    layers = sorted([*layers, *groups], key=lambda layer: layer.place)
    return replace(net, layers=layers, before=sides[0], after=sides[1])


def fused_of(source: Layer, target: Layer, nets: Sequence[Net]) -> Fused | None:
    """The pair of a layer and a group, either way round; None where their parameters do not go together."""
    in_source = bool(target.parts)
    whole, parts = (source, target.parts) if in_source else (target, source.parts)
    roles: list[tuple[str, tuple[str, ...]]] = []
    for role in whole.parameters:
        kind = "bias" if role.endswith("bias") else "weight"
        found = [
            next((r for r in (kind, "") if r in p.parameters and (r or kind != "bias")), None) for p in parts
        ]
        theirs = tuple(r for r in found if r is not None)
        if len(theirs) == len(parts):
            roles.append((role, theirs))
    at = 0 if in_source else 1
    made = Fused(whole, parts, in_source, tuple(roles))
    types = {nets[at].parameter(key).data.dtype for key, _ in made.parameters()}
    types |= {nets[1 - at].parameter(key).data.dtype for _, keys in made.parameters() for key in keys}
    return made if roles and len(types) == 1 else None
