"""Assigns the tensors of a checkpoint to the parameters of a net, and finds those lost when it was saved.

MindSpore saves by the parameters' names, and a name that several of them have is written once: with the last
one's values, in the order of registration, whatever `save_checkpoint` is given and in either format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..ir import Graph, Parameter, TensorData
from .prefixes import aligned
from .slots import is_global, slot_in
from .spelling import COUNTER, plain_name, plain_shape


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter of the net.

    Attributes:
        name: what a checkpoint of the mended net calls it.
        declared: what the net as it is calls it.
        paths: every module path that holds it.
        data: the values that the net has now.
        unregistered: whether only a plain list or dict reaches it, so that MindSpore never saves it.
    """

    name: str
    declared: str
    paths: tuple[str, ...]
    data: TensorData
    unregistered: bool = False

    @property
    def path(self) -> str:
        """Its first path."""
        return self.paths[0] if self.paths else self.declared


@dataclass(frozen=True, slots=True)
class Shared:
    """A name in a file that several parameters of the net had when it was saved.

    Attributes:
        saved: the name.
        members: the parameters.
        kept: whose values the file holds; None where that cannot be known.
        by: what tells: "shape", "value" or "order".
    """

    saved: str
    members: tuple[Member, ...]
    kept: Member | None
    by: str


@dataclass(slots=True)
class Placement:
    """A checkpoint laid on a net.

    Attributes:
        members: the net's parameters, in the order in which they are saved.
        given: the file's tensors, by name without what wrappers put before it.
        placed: name in the file -> (parameter, what tells: "name", "path", "shape", "value" or "order").
        shared: names that stood for several parameters.
        misfits: name in the file -> parameters of that name, none of which has its shape.
        slots: name in the file of an optimizer's slot -> its name after its parameter's.
        globals: names that an optimizer or a callback saves once.
        counters: names in the file of torch's counts of batches that the net does not keep.
        uncounted: counts of batches of the net that the file does not have.
        unknown: names that belong to nothing of the net.
        absent: parameters that no name of the file stands for.
        tied: further names in the file of a tensor that the net has once -> the name that is placed.
        copies: names of the net that the file lacks, of parameters that it has -> the name that it has.
        notes: what was left out of the names.
        taken: identities of the parameters that have a tensor.
    """

    members: list[Member]
    given: dict[str, TensorData] = field(default_factory=dict)
    placed: dict[str, tuple[Member, str]] = field(default_factory=dict)
    shared: list[Shared] = field(default_factory=list)
    misfits: dict[str, list[Member]] = field(default_factory=dict)
    slots: dict[str, str] = field(default_factory=dict)
    globals: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    uncounted: list[Member] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    absent: list[Member] = field(default_factory=list)
    tied: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)

    @property
    def lost(self) -> list[Member]:
        """Parameters whose values another one's were saved over, or that had to share with unknown ones."""
        return [m for s in self.shared for m in s.members if id(m) not in self.taken]

    @property
    def clashing(self) -> bool:
        """Whether parameters of the net as it is still share names."""
        names = [m.declared for m in self.members if not m.unregistered]
        return len(set(names)) < len(names)

    @property
    def whole(self) -> bool:
        """Whether every parameter has a tensor and every tensor a place."""
        return not (self.lost or self.misfits or self.unknown or self.absent)

    @property
    def wanted(self) -> int:
        """The number of the net's parameters, without counts of batches that only torch keeps."""
        return len(self.members) - len(self.uncounted)

    @property
    def moved(self) -> int:
        """The number of tensors whose parameters have other names in the net."""
        return sum(saved != member.name for saved, (member, _) in self.placed.items())


def place(net: Graph, given: Mapping[str, TensorData]) -> Placement:
    """Lay a checkpoint on a net: nothing is guessed, and what decided is said.

    Args:
        net: the static part of the net; as it was when it was saved, or mended since.
        given: the file's tensors by name.
    """
    members = _members(net)
    known = {path: m.data.shape for m in members for path in (*m.paths, m.declared)}
    done = Placement(members)
    done.given = found = aligned(given, known, done.notes)
    names = _Names(members)
    slots = {
        name: slot for name in found if not names.has(name) and (slot := slot_in(name, found)) is not None
    }
    saved_here = net.origin.framework == "mindspore" and any(map(names.has, found))
    for name, data in found.items():
        if name not in slots:
            _place_one(done, name, data, names, saved_here or names.has(name))
    for name, (prefix, base) in slots.items():
        if base in done.placed:
            done.slots[name] = f"{prefix}{done.placed[base][0].name}"
        else:
            done.unknown.append(name)
    told = [*done.lost, *(m for some in done.misfits.values() for m in some)]
    known_of = done.taken | {id(m) for m in told}
    placed = {id(m.data): n for n, (m, _) in done.placed.items()}
    for member in members:
        if id(member) in known_of:
            continue
        if _is_counter(member.path):
            done.uncounted.append(member)
        elif id(member.data) in placed:  # one parameter under several names, of which the file has another
            done.copies[member.name] = placed[id(member.data)]
        else:
            done.absent.append(member)
    return done


def _place_one(done: Placement, name: str, data: TensorData, names: _Names, saved_here: bool) -> None:
    """Place a tensor; `saved_here`: whether the order in which this net is saved may decide."""
    candidates, by = names.standing_for(name)
    if not candidates:
        single = done.globals if is_global(name) or not data.shape else done.unknown
        (done.counters if _is_counter(name) else single).append(name)
        return
    fitting = [m for m in candidates if plain_shape(m.data.shape) == plain_shape(data.shape)]
    if not fitting:
        done.misfits[name] = candidates
        return
    kept: Member | None = fitting[0]
    if len(candidates) > 1:
        kept, by = _kept(candidates, fitting, data, saved_here)
        done.shared.append(Shared(name, tuple(candidates), kept, by))
    if kept is not None and id(kept) in done.taken:
        _place_again(done, name, kept, by)
    elif kept is not None:
        done.placed[name] = kept, by
        done.taken.add(id(kept))


def _is_counter(name: str) -> bool:
    return name.rpartition(".")[2] == COUNTER


def _place_again(done: Placement, name: str, member: Member, by: str) -> None:
    """Place a further tensor of a parameter: the same one under another of its paths, or one of nothing."""
    first = next(n for n, (m, _) in done.placed.items() if m is member)
    if not is_one(done.given[first], done.given[name]):
        done.unknown.append(name)
        done.notes.append(f"`{first}` and `{name}` are one tensor in the net, but differ in the file")
    elif name == member.name:
        done.tied[first] = name
        del done.placed[first]
        done.placed[name] = member, by
    else:
        done.tied[name] = first


def is_one(a: TensorData, b: TensorData) -> bool:
    """Whether two tensors of a file are one and the same, by where they lie or by their elements."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return (a.storage is not None and a.storage == b.storage) or np.array_equal(a.numpy(), b.numpy())


def _kept(
    candidates: list[Member], fitting: list[Member], data: TensorData, saved_here: bool
) -> tuple[Member | None, str]:
    """Return (whose tensor a shared name holds, what tells); no one where nothing tells."""
    if len(fitting) == 1:
        return fitting[0], "shape"
    array = data.numpy()
    if array.size and not bool((array == array.reshape(-1)[0]).all()):  # a constant says nothing
        same = [m for m in fitting if _is_equal(m.data, array)]
        if len(same) == 1:
            return same[0], "value"
    ordered = saved_here and candidates[-1] is fitting[-1]
    return (candidates[-1], "order") if ordered else (None, "")


def _is_equal(data: TensorData, array: np.ndarray) -> bool:
    return data.load is not None and np.array_equal(data.numpy().reshape(-1), array.reshape(-1))


class _Names:
    """The members by every name that a file may have for them."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = list(members)
        self.saved = [m for m in self.members if not m.unregistered]
        self.exact: list[tuple[str, dict[str, list[Member]]]] = []
        for by, named in (
            ("name", lambda m: [m.declared]),
            ("path", lambda m: m.paths),
            ("spelling", lambda m: map(plain_name, {m.declared, *m.paths})),
        ):
            table: dict[str, list[Member]] = {}
            for member in self.saved:
                for key in dict.fromkeys(named(member)):
                    table.setdefault(key, []).append(member)
            self.exact.append((by, table))
        self.last: dict[str, list[Member]] = {}
        for member in self.saved:
            for key in {plain_name(p).rpartition(".")[2] for p in member.paths}:
                self.last.setdefault(key, []).append(member)

    def has(self, name: str) -> bool:
        """Whether a parameter is called so, in a path or by itself."""
        return any(name in table for _, table in self.exact)

    def standing_for(self, name: str) -> tuple[list[Member], str]:
        """Return (the parameters that a name of a file stands for, in the order of saving; what tells)."""
        for by, table in self.exact:
            key = plain_name(name) if by == "spelling" else name
            if key in table:
                return table[key], by
        wanted = plain_name(name).split(".")
        left: dict[int, list[Member]] = {}
        for member in self.last.get(wanted[-1], ()):
            for path in map(plain_name, member.paths):
                parts = path.split(".")
                if _is_within(wanted, parts):
                    left.setdefault(len(parts) - len(wanted), []).append(member)
                    break
        return (left[min(left)], "path") if left else ([], "")


def _is_within(short: list[str], path: list[str]) -> bool:
    """Whether a path has these parts in this order, others between them."""
    at = iter(path)
    return all(part in at for part in short)


def _members(net: Graph) -> list[Member]:
    paths = net.parameter_paths()
    loose = _loose_paths(net)
    registered = sorted(net.parameters(), key=lambda p: p.key)
    held = [(p, tuple(paths.get(p.key) or [p.declared])) for p in registered]
    names = [p.declared for p, where in held if not set(where) <= loose]
    clash = len(set(names)) < len(names)
    if net.origin.framework == "torch":  # a shared parameter is saved under each of its paths
        return [Member(path, path, (path,), p.data, path in loose) for p, where in held for path in where]
    return [_member(p, where, where[0] if clash else p.declared, loose) for p, where in held]


def _member(parameter: Parameter, paths: tuple[str, ...], name: str, loose: set[str]) -> Member:
    return Member(name, parameter.declared, paths, parameter.data, set(paths) <= loose)


def _loose_paths(net: Graph) -> set[str]:
    """Return paths of parameters that lead through a plain list, tuple or dict."""
    found: set[str] = set()
    for path, key, _ in net.modules.registrations():
        if net.modules.module(key).arguments.get("unregistered"):
            found.add(path)
    return {
        path
        for paths in net.parameter_paths().values()
        for path in paths
        if any(path.startswith(f"{above}.") for above in found)
    }
