"""Parts of paths that one side's names have and the other's lack: `ema.`, `student.backbone.`, `module.`.

A rule is one such part. It holds where names without it are names of the other side; what the name of a part
means is not asked. Names that fit as they are count as a rule too, which leaves out nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..ir import ModelError, TensorData
from .spelling import universal_name

Parts = tuple[str, ...]
Shapes = Mapping[str, "tuple[int, ...] | None"]
"""Names and shapes; None where a shape is not known."""

_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"}
"""Modules that torch puts around another one at any depth, and that compute nothing themselves."""

_DEEPEST, _LONGEST = 16, 1024
"""Parts and characters of a name that is aligned; a name of a stranger's may be as long as its file."""

_MOST_RULES = 64
"""Rules that are weighed against each other, the largest; people's files have a handful."""


@dataclass(slots=True)
class Alignment:
    """Names of one side in the other's paths.

    Attributes:
        names: name -> the same name with the other side's path; as it is where nothing tells another.
        dropped: names that are of no use, since another name fits better where they would.
        notes: what was left out of names, or put into them.
        rivals: parts of which each fits the same names as well as the others.
    """

    names: dict[str, str]
    dropped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rivals: list[str] = field(default_factory=list)

    def applied(self, tensors: Mapping[str, TensorData]) -> dict[str, TensorData]:
        """Return the tensors under the names found."""
        return {self.names[name]: data for name, data in tensors.items() if name in self.names}


@dataclass(slots=True)
class _Rule:
    """Names that fit when one part is left out of them, or of the other side's.

    Attributes:
        part: the part; empty for names that fit as they are.
        insert: whether the other side has the part.
        pairs: name -> name of the other side.
        front: whether the part begins each of the names.
    """

    part: Parts
    insert: bool
    pairs: dict[str, str] = field(default_factory=dict)
    front: bool = True

    def beats(self, other: _Rule) -> bool:
        """Whether this rule explains all that the other explains, where both cannot hold."""
        mine, theirs = (set(r.pairs) for r in (self, other)), (set(r.pairs.values()) for r in (self, other))
        equal = True
        for ours, others in (mine, theirs):
            if ours & others:
                if not others <= ours:
                    return False
                equal &= others == ours
        return not equal or not self.part

    def contradicts(self, other: _Rule) -> bool:
        """Whether both rules have a name, or give two names one counterpart."""
        return not (
            self.pairs.keys().isdisjoint(other.pairs)
            and set(self.pairs.values()).isdisjoint(other.pairs.values())
        )

    def __str__(self) -> str:
        return f"`{'.'.join(self.part)}.`" if self.part else "no such part"


class _Table:
    """Names of one side by their parts."""

    def __init__(self, names: Iterable[str], parts: Callable[[str], Parts]) -> None:
        self.names = {name: found for name in names if (found := parts(name))}
        exact: dict[Parts, list[str]] = {}
        bare: dict[Parts, list[str]] = {}
        for name, found in self.names.items():
            exact.setdefault(found, []).append(name)
            bare.setdefault(_without_wrappers(found), []).append(name)
        self.exact = {key: held[0] for key, held in exact.items() if len({*map(universal_name, held)}) == 1}
        self.bare = {key: held[0] for key, held in bare.items() if len(held) == 1}
        self.wrapped = len(bare) < len(exact) or any(key not in exact for key in bare)

    def find(self, parts: Parts) -> str | None:
        """Return the one name of these parts, torch's wrappers apart."""
        found = self.exact.get(parts)
        if found is not None or (not self.wrapped and _WRAPPERS.isdisjoint(parts)):
            return found
        return self.bare.get(_without_wrappers(parts))


def align(mine: Shapes, theirs: Shapes, *, insert: bool = False) -> Alignment:
    """Find the names of one side in the other's paths.

    Args:
        mine: the names to be aligned.
        theirs: the other side's.
        insert: whether names may also lack what the other side's have.
    """
    parts = _splitter(mine, theirs)
    here, there = _Table(mine, parts), _Table(theirs, parts)
    same = _Rule((), insert=False)
    for name, found in here.names.items():
        other = name if name in theirs else there.exact.get(found)
        if other is not None:
            same.pairs[name] = other
    same.pairs = _single(same.pairs)
    done = Alignment({name: name for name in mine})
    second: list[_Rule] = []
    if len(same.pairs) == min(len(here.names), len(there.names)):
        kept = [same]
        second = _second_sets(here, there, same, mine, theirs)
    else:
        rules = [_wrapped(here, there), *_rules(here, there, insert=False)]
        if insert:
            rules += _rules(there, here, insert=True)
        kept, done.rivals = _chosen([same, *(r for r in rules if _is_sound(r, mine, theirs))])
    for rule in kept:
        for name, other in rule.pairs.items():
            if universal_name(name) != universal_name(other):
                done.names[name] = _moved(name, other)
        if rule.part:
            done.notes.append(_note(rule))
    taken = {new: name for name, new in done.names.items() if any(name in r.pairs for r in kept)}
    done.dropped = [n for n, new in done.names.items() if taken.get(new, n) != n]
    for name in done.dropped:
        done.notes.append(f"`{name}` was left out, as `{taken[done.names[name]]}` has its name so")
        del done.names[name]
    for rule in second:
        done.notes.append(f"{len(rule.pairs)} tensors under {rule} were left out; --part reads those")
        for name in rule.pairs:
            del done.names[name]
    return done


def aligned(
    tensors: Mapping[str, TensorData], known: Shapes, notes: list[str], *, insert: bool = False
) -> dict[str, TensorData]:
    """Return the tensors under names without, or with, the parts that tell them from the other side's.

    Args:
        tensors: by name.
        known: the other side's names.
        notes: gets a sentence where names were changed.
        insert: as for `align`.

    Raises:
        ModelError: E801 where several parts fit equally well.
    """
    found = align({name: data.shape for name, data in tensors.items()}, known, insert=insert)
    require_one(found)
    notes += found.notes
    return found.applied(tensors)


def without_prefix(
    tensors: Mapping[str, TensorData], is_known: Callable[[str], bool], notes: list[str]
) -> dict[str, TensorData]:
    """Return tensors without the prefix that hides most known names; unchanged if more are known already.

    Args:
        tensors: by name.
        is_known: whether the other side has a name, or a module that it begins with.
        notes: gets a sentence where a prefix was left out.
    """
    hits: dict[str, int] = {}
    for name in tensors:
        parts = _split(name)
        for end in range(1, len(parts)):
            if is_known(".".join(parts[end:])):
                prefix = f"{'.'.join(parts[:end])}."
                hits[prefix] = hits.get(prefix, 0) + 1
    best = max(hits, key=lambda prefix: (hits[prefix], -len(prefix)), default="")
    if not best or hits[best] <= sum(map(is_known, tensors)):
        return dict(tensors)
    found = {name.removeprefix(best): data for name, data in tensors.items()}
    if len(found) < len(tensors):
        return dict(tensors)
    notes.append(f"`{best}` before the names of {hits[best]} tensors was left out")
    return found


def _split(name: str) -> Parts:
    """Return the parts of a name; none of one that is too long to be a person's."""
    parts = tuple(name.split(".")) if len(name) <= _LONGEST else ()
    return parts if len(parts) <= _DEEPEST else ()


def require_one(found: Alignment, place: str = "") -> None:
    """Check that no two sets of names fit equally well.

    Raises:
        ModelError: E801 otherwise.
    """
    if found.rivals:
        raise ModelError(
            "E801",
            f"several sets of tensors fit the same names: those under {' and '.join(found.rivals)}",
            place=place,
            hint=f"say which with --part, such as --part {found.rivals[0].strip('`').rstrip('.')}",
        )


def _splitter(mine: Iterable[str], theirs: Iterable[str]) -> Callable[[str], Parts]:
    """Return the function that splits a name: at dots, also at `_` if one side is a symbol's."""
    flat = any(names and not any("." in name for name in names) for names in (list(mine), list(theirs)))
    ends = re.compile(r"[._]" if flat else r"\.")

    def parts(name: str) -> Parts:
        if len(name) > _LONGEST:
            return ()
        found = tuple(ends.split(universal_name(name)))
        return found if len(found) <= _DEEPEST else ()

    return parts


def _rules(mine: _Table, theirs: _Table, *, insert: bool) -> list[_Rule]:
    """Return the parts whose removal gives the other side's names; with `insert`, from that side's view."""
    found: dict[Parts, _Rule] = {}
    for name, parts in mine.names.items():
        for part, rest, front in _without_a_part(parts):
            other = theirs.find(rest)
            if other is None:
                continue
            rule = found.setdefault(part, _Rule(part, insert))
            if name not in rule.pairs:
                rule.pairs[name] = other
                rule.front &= front
    if not found:
        return []
    having: dict[Parts, int] = dict.fromkeys(found, 0)
    for parts in mine.names.values():
        held = {parts[i:j] for i in range(len(parts) - 1) for j in range(i + 1, len(parts))}
        for part in held & having.keys():
            having[part] += 1
    kept: list[_Rule] = []
    for part, rule in found.items():
        rule.pairs = _single(rule.pairs)
        if 2 * len(rule.pairs) > having[part]:
            if insert:
                rule.pairs = {other: name for name, other in rule.pairs.items()}
            kept.append(rule)
    return kept


def _second_sets(here: _Table, there: _Table, same: _Rule, mine: Shapes, theirs: Shapes) -> list[_Rule]:
    """Return parts under which a side has every name of the other's again, such as an average: `ema.`."""
    left = _Table([name for name in here.names if name not in same.pairs], here.names.__getitem__)
    rules = [r for r in _rules(left, there, insert=False) if r.front and _is_sound(r, mine, theirs)]
    return [r for r in rules if set(r.pairs.values()) == set(same.pairs.values())]


def _wrapped(mine: _Table, theirs: _Table) -> _Rule:
    """Return the names equal to the other side's apart from torch's wrappers, at several places."""
    pairs: dict[str, str] = {}
    removed: dict[str, None] = {}
    front = True
    for name, parts in mine.names.items():
        bare = _without_wrappers(parts)
        other = theirs.bare.get(bare)
        if other is not None and parts != bare and parts not in theirs.exact:
            pairs[name] = other
            removed |= dict.fromkeys(p for p in parts if p in _WRAPPERS)
            front &= parts[-len(bare) :] == bare
    return _Rule(tuple(removed), insert=False, pairs=_single(pairs), front=front)


def _without_a_part(parts: Parts) -> Iterator[tuple[Parts, Parts, bool]]:
    """Yield (a part, what is left without it, whether it is the front one), the last name of all apart."""
    last = len(parts) - 1
    for i in range(last):
        for j in range(i + 1, last + 1):
            yield parts[i:j], parts[:i] + parts[j:], i == 0
    for part in {p for p in parts[:last] if parts[:last].count(p) > 1}:
        rest = tuple(p for p in parts[:last] if p != part)
        yield (part,), (*rest, parts[last]), False


def _single(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return the pairs whose second name is in no other pair."""
    count: dict[str, int] = {}
    for other in pairs.values():
        count[other] = count.get(other, 0) + 1
    return {name: other for name, other in pairs.items() if count[other] == 1}


def _is_sound(rule: _Rule, mine: Shapes, theirs: Shapes) -> bool:
    """Whether the names that a rule makes equal are, for the most part, of tensors of one size."""
    good = sum(_fits(mine.get(name), theirs.get(other)) for name, other in rule.pairs.items())
    return 2 * good > len(rule.pairs)


def _fits(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    """Whether shapes differ in the order of axes alone, or in axes of one element."""
    if one is None or other is None:
        return True
    return sorted(n for n in one if n != 1) == sorted(n for n in other if n != 1)


def _chosen(rules: list[_Rule]) -> tuple[list[_Rule], list[str]]:
    """Return (the rules that hold, those of which each would do as well as another).

    Args:
        rules: the first leaves nothing out.
    """
    same = rules[0]
    left: list[_Rule] = []
    for rule in sorted(rules, key=lambda r: (-len(r.pairs), -len(r.part))):
        if len(left) > _MOST_RULES:
            break
        if rule.pairs and not any(k.pairs == rule.pairs for k in left):
            left.append(rule)
    left += [same] if same.pairs and same not in left else []
    left = [r for r in left if not any(k.contradicts(r) and k.beats(r) for k in left if k is not r)]
    rivals = [r for r in left if any(r.contradicts(k) for k in left if k is not r)]
    kept = [r for r in left if r not in rivals or r is same]
    return kept, [str(r) for r in sorted(rivals, key=lambda r: r is same)]


def _moved(name: str, other: str) -> str:
    """Return a name with another's path: what the name's own framework calls the parameter stays."""
    last = _dotted(name).rpartition(".")[2]
    path = _dotted(other).rpartition(".")[0]
    return f"{path}.{last}" if path else last


def _dotted(name: str) -> str:
    return name if "." in name else universal_name(name)


def _without_wrappers(parts: Parts) -> Parts:
    return tuple(p for p in parts if p not in _WRAPPERS)


def _note(rule: _Rule) -> str:
    count = len(rule.pairs)
    if rule.insert and rule.front:
        return f"{rule} was put before the names of {count} tensors"
    if rule.insert:
        return f"{rule} was put inside the names of {count} tensors"
    if rule.front:
        return f"{rule} before the names of {count} tensors was left out"
    return f"{rule} inside the names of {count} tensors was left out"
