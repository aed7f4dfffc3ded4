"""tie-weights: parameters that are one become one, and a subgraph gets a twin that shares its parameters."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import ClassVar, Literal

import numpy as np

from ..ir import Array, Graph, Parameter, PassError
from ..ir.analysis.ending import end_at
from ..ir.outside.page_cache import read_spots
from .base import Change, Pass
from .layouts.transposed_views import replace_by_transpose
from .twinning.branches import expand_pattern, find_branches, report_branch
from .twinning.copying import find_statistics, has_twin, make_twin
from .twinning.joining import join_twins
from .twinning.modules import join_modules

_RANKS = 5  # of tensors whose axes are tried in every order

_PROBED = 16  # elements of a tensor that are looked at first

_CHUNK = 1 << 16  # elements compared at a time: most tensors vary within the first


@dataclass(frozen=True)
class TieWeights(Pass):
    """Tie parameters, and make siamese twins.

    What it does:
        ``tie=A+B`` makes the parameters at these module paths one, with the first one's values; a ``*``
        stands for the rest of the names (``tie=*+sha-*``). Parameters that are the same memory are tied
        without being asked: that is a fact of the source. One that is another with its axes in another
        order (``head = Parameter(embed.weight.T)``) becomes a Transpose of it. ``by=value`` ties equal
        values too. Modules of one structure whose parameters were all tied by ``tie`` become one module,
        called for both.

        ``twin=INPUT+NEW`` clones what depends on an input onto a new input, with the same parameters and
        second calls of the same modules; the new outputs come after the old ones and are called
        ``OUTPUT_NEW``. ``twin=INPUT+NEW+NEWER`` makes triplets. ``prefix=b_+c_`` puts a prefix before the
        names of each twin's operators, labels and outputs, never before a parameter's. ``at=NAME`` ends the
        net at an internal output, a node or a module first. ``strategy=batch`` computes the branches once, on
        the inputs one behind the other along the batch axis, and splits the outputs again.

    Why:
        A tied weight that becomes two in a conversion trains apart, and is twice in the file. A framework
        whose symbols cannot be called twice needs the twin written out.

    Leaves alone:
        Equal values, unless asked: they are reported as the coincidence they may be. Tensors of one repeated
        number (fresh biases, norm weights) are never compared. Views of one memory that are not the same
        elements in the same order are reported.

    Refuses:
        Paths that no parameter has, and tensors of different shape or element type. A weight that is stored
        transposed, in memory of its own, is not the same parameter. A twin of state that a run updates.
        ``strategy=batch`` where a sample's result may depend on the others: of a BatchNormalization in
        training, of a sum over the batch, or of an operator that is not known to keep samples apart.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "embed" Embedding {weight=%w}
        ...   module "head" Linear {weight=%v}
        ...   %w = param "embed.weight" : f32[9,4]
        ...   %v = param "head.weight" : f32[9,4]
        ... }''')
        >>> for change in TieWeights(tie=(("embed.weight", "head.weight"),)).run(graph):
        ...     print(change)
        TW101 `head.weight` is now the same parameter as `embed.weight` - at embed.weight

    Attributes:
        tie: groups of module paths (or names); each group becomes one parameter.
        by: "storage" ties what is the same memory, "value" also what is equal, "none" nothing unasked.
        twin: (input, new inputs…) groups.
        at: where the net ends, for each group, else nowhere.
        prefix: before the names of what is copied, one for each new input.
        strategy: "calls" computes each branch, "batch" all of them as one batch.
    """

    name: ClassVar[str] = "tie-weights"
    codes: ClassVar[dict[str, str]] = {
        "TW101": "parameters were tied because the options ask for it",
        "TW102": "parameters are the same memory, and become one",
        "TW103": "parameters are different views of one memory, and stay separate",
        "TW104": "parameters have equal values: regarded as a coincidence by default",
        "TW106": "a parameter is another one transposed, the same memory, and becomes a Transpose of it",
        "TW105": "nodes that depend on an input have a twin on a new input",
        "TW109": "two branches with one structure, and names that differ in a prefix, train separately",
        "TW107": "the net ends at an internal output",
        "TW110": "modules whose parameters were all tied are one module, called several times",
        "TW108": "branches that share a BatchNormalization update its statistics once each in training",
    }

    tie: tuple[tuple[str, ...], ...] = ()
    by: Literal["storage", "value", "none"] = "storage"
    twin: tuple[tuple[str, ...], ...] = ()
    at: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    strategy: Literal["calls", "batch"] = "calls"

    def run(self, graph: Graph) -> list[Change]:
        """Tie; see the class."""
        changes: list[Change] = []
        tied: set[int] = set()
        for group in self.tie:
            for names in expand_pattern(graph, group):
                changes += _tie_group(graph, names)
                tied.add(_find(graph, names[0]).key)
        is_flat = graph.origin.framework and not graph.origin.has_modules  # its branches become modules whole
        changes += join_modules(graph, tied) if tied and not is_flat else []
        if self.by != "none":
            changes += _tie_same_memory(graph)
            apart = [] if self.by == "value" else find_branches(graph)
            changes += [report_branch(graph, branch) for branch in apart]
            known = {name for branch in apart for pair in branch.pairs for name in pair}
            changes += _tie_equal_values(graph, asked=self.by == "value", known=known)
        if self.at and len(self.at) != len(self.twin):
            raise PassError(
                "E501", f"expected an `at` for each of {len(self.twin)} groups of twins, got {len(self.at)}"
            )
        count = sum(len(group) - 1 for group in self.twin)
        if self.prefix and len(self.prefix) != count:
            raise PassError(
                "E501", f"expected a `prefix` for each of {count} new inputs, got {len(self.prefix)}"
            )
        prefixes = iter(self.prefix or [""] * count)
        for at, group in zip(self.at or [""] * len(self.twin), self.twin, strict=True):
            changes += _twins(graph, group, at, [next(prefixes) for _ in group[1:]], self.strategy)
        return changes


def _twins(graph: Graph, group: tuple[str, ...], at: str, prefixes: list[str], strategy: str) -> list[Change]:
    source, *others = group
    wanted = [(n, p) for n, p in zip(others, prefixes, strict=True) if not has_twin(graph, n, p)]
    changes: list[Change] = []
    if wanted and at:
        gone = end_at(graph, source, at)
        text = f"the net ends at `{at}`: {gone} parameters after it are no longer used"
        changes.append(Change("TW107", text, place=at))
    if wanted and strategy == "batch":
        made = join_twins(graph, source, [new for new, _ in wanted], [prefix for _, prefix in wanted])
        return changes + [
            _report_twin(source, new, names) for (new, _), names in zip(wanted, made, strict=True)
        ]
    twice = find_statistics(graph, source) if wanted else []
    if twice:
        shown = ", ".join(f"`{name}`" for name in twice[:3]) + (", …" if len(twice) > 3 else "")
        text = (
            f"{shown}: in training each branch is normalised by its own batch and updates the statistics, "
            f"{len(group)} times a step"
        )
        changes.append(Change("TW108", text, place=twice[0]))
    for new, prefix in wanted:
        changes.append(_report_twin(source, new, make_twin(graph, source, new, prefix)))
    return changes


def _report_twin(source: str, new: str, names: list[str]) -> Change:
    outputs = ", ".join(f"`{name}`" for name in names)
    message = f"what depends on `{source}` has a twin on the new input `{new}`, with outputs {outputs}"
    return Change("TW105", message, place=new)


def _path(graph: Graph, parameter: Parameter) -> str:
    return (graph.parameter_paths().get(parameter.key) or [parameter.name])[0]


def _find(graph: Graph, name: str) -> Parameter:
    """Return the parameter at a module path, or of a unique name."""
    parameters = graph.parameters()
    for key, paths in graph.parameter_paths().items():
        if name in paths:
            return graph.parameter(key)
    found = [p for p in parameters if name in (p.name, p.declared, *p.absorbed)]
    if len(found) != 1:
        known = ", ".join(f"`{_path(graph, p)}`" for p in parameters[:8])
        problem = "several parameters are" if found else "no parameter is"
        raise PassError("E501", f"{problem} called `{name}`", hint=f"parameters: {known}")
    return found[0]


def _tie_group(graph: Graph, names: tuple[str, ...]) -> list[Change]:
    changes: list[Change] = []
    kept = _find(graph, names[0])
    for name in names[1:]:
        other = _find(graph, name)
        if other.key == kept.key:
            continue
        if other.type != kept.type:
            first, second = kept.data.shape, other.data.shape
            hint = "only tensors of one shape and element type can be one parameter"
            if first != second and first == second[::-1]:
                hint = (
                    "one is the other transposed: use the first through a Transpose in the source, then tie"
                )
            raise PassError(
                "E501",
                f"expected `{name}` to be {kept.type} as `{names[0]}` is, got {other.type}",
                place=_path(graph, other),
                hint=hint,
            )
        differ = _has_data(kept, other) and not np.array_equal(kept.data.numpy(), other.data.numpy())
        message = f"`{_path(graph, other)}` is now the same parameter as `{_path(graph, kept)}`"
        changes.append(
            Change(
                "TW101",
                message + (", and its own values, which differ, are gone" if differ else ""),
                place=_path(graph, kept),
                severity="warning" if differ else "note",
            )
        )
        graph.replace_parameter(other.key, kept.key)
    return changes


def _has_data(*parameters: Parameter) -> bool:
    return all(p.data.load is not None for p in parameters)


def _tie_same_memory(graph: Graph) -> list[Change]:
    """Tie parameters that are the same elements of one storage in the same order."""
    groups: dict[object, list[Parameter]] = {}
    for parameter in graph.parameters():
        if parameter.data.storage is not None:
            groups.setdefault(parameter.data.storage, []).append(parameter)
    changes: list[Change] = []
    for group in groups.values():
        kept: list[Parameter] = []
        for parameter in sorted(group, key=lambda p: not _is_plain(p)) if len(group) > 1 else ():
            same = next((k for k in kept if _is_same_view(k, parameter)), None)
            turned = [(k, axes) for k in kept if (axes := _axes_in(k, parameter)) is not None]
            if same is not None:
                message = (
                    f"`{_path(graph, parameter)}` is the memory of `{_path(graph, same)}`: one parameter"
                )
                changes.append(Change("TW102", message, place=_path(graph, same)))
                graph.replace_parameter(parameter.key, same.key)
            elif turned and parameter.key not in graph.updates:
                whole, axes = turned[0]
                message = f"`{_path(graph, parameter)}` is `{_path(graph, whole)}` transposed: one parameter"
                changes.append(Change("TW106", message, place=_path(graph, whole)))
                replace_by_transpose(graph, parameter, whole, axes)
            else:
                if kept:
                    message = (
                        f"`{_path(graph, parameter)}` and `{_path(graph, kept[0])}` are views of one memory"
                    )
                    changes.append(
                        Change("TW103", message, place=_path(graph, kept[0]), severity="warning", fixed=False)
                    )
                kept.append(parameter)
    return changes


def _is_same_view(one: Parameter, other: Parameter) -> bool:
    """Whether two parameters of one storage are the same elements in the same order."""
    if one.type != other.type or not _has_data(one, other):
        return False
    a, b = one.data.numpy(), other.data.numpy()
    if _address(a) == _address(one.data.numpy()) and _address(b) == _address(other.data.numpy()):
        return _address(a) == _address(b) and a.strides == b.strides
    # a frontend that copies shows no addresses: equal values that vary are then proof enough
    return _varies(a) and np.array_equal(a, b)


def _is_plain(parameter: Parameter) -> bool:
    """Whether the elements lie in memory in their order."""
    return _has_data(parameter) and bool(parameter.data.numpy().flags.c_contiguous)


def _axes_in(one: Parameter, other: Parameter) -> tuple[int, ...] | None:
    """Return, for each axis of `other`, which axis of `one` it is; None if their memory is not the same."""
    rank = len(one.data.shape)
    if one.data.dtype != other.data.dtype or len(other.data.shape) != rank or not _has_data(one, other):
        return None
    if not 2 <= rank <= _RANKS or sorted(one.data.shape) != sorted(other.data.shape):
        return None
    a, b = one.data.numpy(), other.data.numpy()
    shown = _address(a) == _address(one.data.numpy()) and _address(b) == _address(other.data.numpy())
    for axes in permutations(range(rank)):
        view = a.transpose(axes)
        if view.shape != b.shape:
            continue
        if shown and _address(a) == _address(b) and view.strides == b.strides:
            return axes
        if not shown and _varies(a) and np.array_equal(view, b):  # as for views in one order
            return axes
    return None


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]


def _tie_equal_values(graph: Graph, *, asked: bool, known: Set[str]) -> list[Change]:
    """Report parameters of equal values, but for those already named, or tie them when asked."""
    candidates: dict[object, list[Parameter]] = {}
    for parameter in graph.parameters():
        if parameter.declared not in known and parameter.data.load is not None and parameter.data.shape:
            candidates.setdefault(parameter.type, []).append(parameter)
    groups: dict[object, list[Parameter]] = {}
    for type_, several in candidates.items():
        if len(several) > 1:
            for parameter, probe in [(p, _probe(p)) for p in several]:
                groups.setdefault((type_, probe), []).append(parameter)
    found: list[list[Parameter]] = []
    for suspects in groups.values():
        digests: dict[str, list[Parameter]] = {}
        if len(suspects) > 1 and _varies(suspects[0].data.numpy()):
            for parameter in suspects:
                digests.setdefault(parameter.data.content_digest(), []).append(parameter)
        found += [equal for equal in digests.values() if len(equal) > 1]
    return _make_equal_change(graph, found, asked=asked) if found else []


def _make_equal_change(graph: Graph, groups: list[list[Parameter]], *, asked: bool) -> list[Change]:
    """Return one change for all groups: a branch copied under other names has many."""
    listed = [", ".join(f"`{_path(graph, p)}`" for p in group) for group in groups]
    place = _path(graph, groups[0][0])
    if asked:
        for kept, *others in groups:
            for parameter in others:
                graph.replace_parameter(parameter.key, kept.key)
    if len(groups) == 1:
        what, members = listed[0], ()
    else:
        count = sum(map(len, groups))
        what, members = f"in {len(groups)} groups {count} parameters ({listed[0]}; …)", tuple(listed)
    if asked:
        done = "one parameter" + (" each" if members else "")
        return [Change("TW101", f"{what} have equal values and are now {done}", place=place, members=members)]
    pair = "by=value" if members else "tie=" + "+".join(_path(graph, p) for p in groups[0])
    why = (
        "one part of the net was copied under other names, or it is a coincidence"
        if members
        else ("regarded as a coincidence by default")
    )
    return [
        Change(
            "TW104",
            f"{what} have equal values: {why} (by=value, or tie=)",
            place=place,
            fixed=False,
            members=members,
            advice=f"`--pass tie-weights:{pair}` of `regraft rewrite`, which makes them one",
        )
    ]


def _probe(parameter: Parameter) -> bytes:
    """Return a few elements, which differ between most tensors, so that the rest need not be read."""
    data = parameter.data
    count = prod(data.shape)
    numbers = range(0, count, max(1, count // _PROBED))[: 2 * _PROBED]
    place = data.find_place()
    if place is None:
        return data.numpy().reshape(-1)[numbers.start : numbers.stop : numbers.step].tobytes()
    path, start = place
    size = data.nbytes // max(1, count)
    return read_spots(path, (start + size * number for number in numbers), size)


def _varies(array: Array) -> bool:
    """Whether an array has two different elements."""
    flat = array.reshape(-1)
    chunks = (flat[at : at + _CHUNK] for at in range(0, flat.size, _CHUNK))
    return any(bool((chunk != flat[0]).any()) for chunk in chunks)
