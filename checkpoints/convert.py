"""A checkpoint of the source's side becomes one of the target's, or back, by a map alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..formats.renames import Rename, computed
from ..formats.shard_index import parse_size
from ..frontends.given_values import hint_on_counters
from ..ir import ModelError, TensorData, TensorType, UsageError, near_names, numpy_dtype, system_errors_told
from . import is_folder, read_training, write_checkpoint
from .fixed_gammas import doubt, doubtful_gammas, with_fixed_gammas
from .joins import read_fused, take_joined
from .mapping import ALIAS, DERIVED, Map, applied, read_map, unpacked, zeros
from .negative_variances import note_of_negative_variances
from .optimizer_state import RESUME, OptimizerState, as_mindspore, as_torch, carried
from .packed import packed_again, taken_apart
from .pairs import inverted, read_pairs
from .prefixes import aligned
from .unmapped import spelled_map, unwrapped

MapMaker = Callable[[dict[str, TensorData], list[str]], tuple[Map, dict[str, TensorData]]]
"""Makes the map of a checkpoint's weights and gives them the names that it has, and adds notes."""

_LISTED = 20
_FILLED, _FILLED_RATIO = 1 << 28, 16
"""Bytes of zeros that a map may ask for: so many, or so many times the checkpoint."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion.

    Attributes:
        path: the file written.
        reverse: whether it went from the map's target to its source.
        tensors: how many tensors were written.
        notes: what was not carried over, and what was filled in.
    """

    path: Path
    reverse: bool
    tensors: int
    notes: list[str] = field(default_factory=list)


@system_errors_told()
def convert_checkpoint(
    source: Path | str,
    target: Path | str,
    map_: Path | str | MapMaker | None = None,
    *,
    reverse: bool | None = None,
    force: bool = False,
    max_shard_size: int | str | None = None,
    part: str | None = None,
) -> Converted:
    """Convert a checkpoint; see `api.weights.convert_checkpoint`.

    Args:
        source: as there.
        target: as there.
        map_: as there; or a function that makes the map, in the checkpoint's direction.
        reverse: as there.
        force: as there.
        max_shard_size: as there.
        part: as there.
    """
    notes: list[str] = []
    if max_shard_size is not None:
        parse_size(max_shard_size)
        is_folder(Path(target), max_shard_size)
    given, state = read_training(source, notes, part)
    given = {name: data.in_parts() for name, data in given.items()}
    if Path(target).suffix != ".params":
        given = with_fixed_gammas(given, Path(source), notes)
        doubtful = {id(given[name]): name for name in doubtful_gammas(given, Path(source))}
    else:
        doubtful = {}
    raw = {id(data): name for name, data in given.items()}
    pairs = None if map_ is None or callable(map_) else read_pairs(map_)
    if callable(map_):
        (mapping, given), back = map_(given, notes), False
    elif map_ is None or pairs is not None:
        if reverse is not None:
            raise UsageError(
                "E001",
                "expected a renames.json with --forward or --reverse; without one, the "
                "names show the direction",
            )
        given = unwrapped(given, [*pairs, *inverted(pairs)] if pairs else [], notes)
        fused = [] if map_ is None else read_fused(map_)
        joins = [join for each in fused for join in each.joins(given, {})]
        _, alone = take_joined(joins, given)
        mapping = spelled_map(alone, Path(source), Path(target), pairs, notes)
        mapping, back = replace(mapping, joins=joins), False
    else:
        mapping = read_map(map_)
        given = aligned(given, mapping.shapes, notes)
        parts = taken_apart([*mapping.packed[0], *mapping.packed[1]], given)
        back = _is_reverse(mapping, parts, Path(source)) if reverse is None else reverse
    if state is not None:
        names = {raw[id(data)]: name for name, data in given.items()}
        state.slots = {names[name]: terms for name, terms in state.slots.items() if name in names}
    carried_over = {mapping.source_name(row) for row in mapping.rows if row.target}
    if names := [doubtful[id(d)] for n, d in given.items() if id(d) in doubtful and n in carried_over]:
        notes.append(doubt(names, Path(source)))
    if negative := note_of_negative_variances(given):
        notes.append(negative)
    mine, theirs = mapping.packed[::-1] if back else mapping.packed
    given = taken_apart(mine, given)
    joins = [join.turned() for join in mapping.joins] if back else mapping.joins
    joined, alone = take_joined(joins, given)
    made, more = (backward if back else forward)(mapping, alone, str(source))
    made = _in_types(packed_again(theirs, made | joined), mapping.types, more)
    count = len(made)
    if Path(target).suffix == ".params":
        buffers = {mapping.source_name(r) if back else r.target for r in mapping.rows if r.buffer}
        made = {f"{'aux' if name in buffers else 'arg'}:{name}": data for name, data in made.items()}
    if state is not None:
        made = _with_optimizer(made, state, mapping, back, Path(target), more)
    write_checkpoint(target, made, force=force, max_shard_size=max_shard_size)
    return Converted(Path(target), back, count, notes + more)


def _in_types(
    made: dict[str, TensorData], types: Mapping[str, str], notes: list[str]
) -> dict[str, TensorData]:
    """Return the tensors in the element types of a net, where both are floating-point."""
    count: Counter[tuple[str, str]] = Counter()
    for name, data in made.items():
        dtype = types.get(name, data.dtype)
        if dtype != data.dtype and "float" in dtype and "float" in data.dtype:
            made[name] = TensorData(dtype, data.shape, partial(_cast, name, data, dtype))
            count[data.dtype, dtype] += 1
    notes += [
        f"{n} tensors were cast from {old} to {new}, as the net has them" for (old, new), n in count.items()
    ]
    return made


def _cast(name: str, data: TensorData, dtype: str) -> np.ndarray:
    array = data.numpy()
    with np.errstate(over="ignore"):
        made = array.astype(numpy_dtype(dtype))
    if np.isfinite(array).all() and not np.isfinite(made).all():
        raise ModelError(
            "E801", f"`{name}` has numbers that overflow to infinity in {dtype}, the net's element type"
        )
    return made


def _with_optimizer(
    made: dict[str, TensorData],
    state: OptimizerState,
    mapping: Map,
    back: bool,
    target: Path,
    notes: list[str],
) -> dict[str, Any]:
    """Return the target's tensors and the optimizer's state with them; a note where it cannot follow."""
    if state.missing:
        notes.append(f"the optimizer's state is not carried over: {state.missing}")
        return made
    if target.suffix == ".params":
        notes.append("the optimizer's state is not carried over: MXNet keeps it in files of its own")
        return made
    done, left = carried(state, mapping, reverse=back)
    if left:
        notes.append(
            f"the optimizer's state is not carried over for {_some(left)}, which the rewrite changed"
        )
    terms = ", ".join(dict.fromkeys(term for slots in done.slots.values() for term in slots))
    if target.suffix in (".pth", ".pt"):
        notes.append(
            f"the optimizer's state ({terms}) is stored in it by name, the weights under `model`: {RESUME}"
        )
        return {"model": made, "optimizer": as_torch(done)}
    slots = as_mindspore(done)
    heads = dict.fromkeys(f"`{n.partition('.')[0]}`" for n in slots)
    notes.append(f"the optimizer's state follows ({terms}) as {', '.join(heads)}")
    if done.steps is None:
        notes.append("it counts no steps, so a schedule of the learning rate by `global_step` starts anew")
    return {**made, **slots}


def forward(
    mapping: Map, given: Mapping[str, TensorData], place: str
) -> tuple[dict[str, TensorData], list[str]]:
    """Return (tensors of the target, notes) from tensors of the source.

    Raises:
        ModelError: E801 when names, shapes or element types do not fit.
    """
    problems = _Problems(mapping, place, given)
    made: dict[str, TensorData] = {}
    used: set[str] = set()
    notes: list[str] = []
    groups: dict[str, list[Rename]] = {}
    for row in mapping.rows:
        groups.setdefault(row.target, []).append(row)
    counters = mapping.counters(given)
    for row in groups.pop("", []):
        used.add(name := mapping.source_name(row))
        if row.values and name in given:
            problems.require_settled(row, given[name])
    own = {counter: name for name, counter in counters.items() if counter in groups}
    used |= counters.keys()
    left = sorted((used & set(given)) - mapping.taken_in - set(own.values()))
    for target, rows in groups.items():
        here = {n: r for r in rows if (r.norms if (n := mapping.source_name(r)) == "" else n in given)}
        used.update(mapping.source_name(r) for r in rows)
        primary = rows[0]
        if any(r.transform == DERIVED for r in rows):
            continue  # `_Problems` lists it
        if here:
            fitting = [problems.makes(r) for r in here.values()]  # each, so that all problems are listed
            if all(fitting):
                found = [mapping.made(r, given) for r in here.values()]
                _assert_tied(list(here), found, problems)
                made[target] = found[0]
        elif target in own and given[own[target]].type == TensorType(primary.dtype, tuple(primary.shape)):
            made[target] = given[own[target]]
        elif primary.values:
            shape = tuple(primary.target_shape)
            made[target] = unpacked(primary.values, primary.dtype, shape, target)
        else:
            problems.missing[mapping.source_name(primary)] = None
    problems.unknown = [name for name in given if name not in used]
    problems.other += [
        f"`{name}`: several tensors of the source have this name, and a checkpoint by it holds only one"
        for name in problems.unknown
        if name in mapping.colliding
    ]
    problems.raise_if_any()
    if left:
        notes.append(f"not in the target, so not carried over: {_some(left)}")
    return made, notes


def backward(
    mapping: Map, given: Mapping[str, TensorData], place: str
) -> tuple[dict[str, TensorData], list[str]]:
    """Return (tensors of the source, notes) from tensors of the target.

    Raises:
        ModelError: E801 when names, shapes or element types do not fit.
    """
    problems = _Problems(mapping, place, given, reverse=True)
    made: dict[str, TensorData] = {}
    filled: list[str] = []
    left: list[str] = []
    shared: dict[tuple[str, str], TensorData] = {}
    for row in mapping.rows:
        name = mapping.source_name(row)
        if computed(row.transform):
            continue  # `_Problems` lists it
        if not row.target:
            if row.values:
                made[name] = unpacked(row.values, row.dtype, tuple(row.shape), name)
                continue
            made[name] = zeros(row.dtype, tuple(row.shape))
            filled.append(name)
        elif row.target not in given:
            if not row.values and not row.tie:
                problems.missing[row.target] = None
        elif row.values:  # the source's checkpoints do not hold it
            if not row.source:
                left.append(row.target)
        elif problems.fits(row.target, given[row.target], row.dtype, row.target_shape):
            form = row.target, row.transform
            if form not in shared:
                shared[form] = applied(row, given[row.target], reverse=True)
            other = made.get(name, shared[form])
            if other is not shared[form] and not np.array_equal(other.numpy(), shared[form].numpy()):
                problems.other.append(f"`{name}` is one tensor there, and `{row.target}` not equal to it")
            made[name] = shared[form]
    targets = {row.target for row in mapping.rows}
    constants = mapping.constants(given)
    counters = mapping.counters(given, reverse=True)
    left += sorted(counters.keys() - targets)
    problems.unknown = [n for n in given if n not in targets and n not in constants and n not in counters]
    problems.raise_if_any()
    room = max(_FILLED, _FILLED_RATIO * sum(data.nbytes for data in given.values()))
    if sum(made[name].nbytes for name in filled) > room:
        raise ModelError(
            "E106",
            f"the map asks for zeros of more than {room >> 20} MB that the checkpoint does not hold",
            place=str(mapping.path),
        )
    notes = [f"constants of the graph, so not carried over: {_some(sorted(constants))}"] if constants else []
    if filled:
        notes.append(f"not in the checkpoint, so written as zeros: {_some(filled)}")
    if left:
        notes.append(f"not in the source, so not carried over: {_some(left)}")
    return made, notes


def _is_reverse(mapping: Map, given: Mapping[str, TensorData], path: Path) -> bool:
    """Whether a checkpoint is of the map's target: the side that fewer of its names and shapes contradict."""
    rows = mapping.rows
    sides = [
        {mapping.source_name(r): tuple(r.shape) for r in rows if r.source},
        {r.target: tuple(r.target_shape) for r in rows if r.target},
    ]
    for join in mapping.joins:
        sides[0] |= join.source
        sides[1] |= join.target
    optional = {mapping.source_name(r) for r in rows if r.values or r.by == ALIAS}
    counters = mapping.counters(given).keys() | mapping.counters(given, reverse=True).keys()
    source, target = (
        sum(given[n].shape != side[n] if n in side else 1 for n in given if n not in counters)
        + sum(n not in given and n not in optional for n in side)
        for side in sides
    )
    if source != target:
        return target < source
    aliases = {mapping.source_name(r) for r in rows if r.by == ALIAS}
    if mapping.source == mapping.target and not aliases <= given.keys():  # an original has every name
        return True
    suffixes = {"mindspore": (".ckpt",), "mxnet": (".params",), "torch": (".pth",), "onnx": (".onnx",)}
    source_suffixes = suffixes.get(mapping.source, ())
    if mapping.source == "onnx":  # whose original may be a model of torch
        source_suffixes += suffixes["torch"]
    return path.suffix in suffixes.get(mapping.target, ()) and path.suffix not in source_suffixes


def _assert_tied(names: list[str], found: list[TensorData], problems: _Problems) -> None:
    """Require one value for the names that share a tensor in the target."""
    for name, data in zip(names[1:], found[1:], strict=True):
        if data.storage is not None and data.storage == found[0].storage:
            continue
        if not np.array_equal(data.numpy(), found[0].numpy()):
            problems.other.append(f"`{names[0]}` and `{name}` are tied in the target, and differ here")


def _some(names: list[str]) -> str:
    shown = ", ".join(f"`{n}`" for n in names[:3]) + (", …" if len(names) > 3 else "")
    return f"{len(names)} tensor{'s' if len(names) != 1 else ''} ({shown})"


class _Problems:
    """Everything about a checkpoint that a map does not fit, for one error."""

    def __init__(
        self, mapping: Map, place: str, given: Mapping[str, TensorData], *, reverse: bool = False
    ) -> None:
        self.mapping, self.place, self.given = mapping, place, given
        self.missing: dict[str, None] = {}
        self.unknown: list[str] = []
        self.derived = [
            f"`{row.target or mapping.source_name(row)}`: not the source's values, a pass computed with them"
            for row in mapping.rows
            if row.transform == DERIVED or (reverse and row.norms)
        ]
        self.other: list[str] = []
        self.misfits: list[str] = []

    def makes(self, row: Rename) -> bool:
        """Whether all that the target's tensor is made of is there, of the types of their rows."""
        names = self.mapping.read_by(row)
        absent = [name for name in names if name not in self.given]
        self.missing |= dict.fromkeys(absent)
        rows = [(name, self.mapping.by_name.get(name, row)) for name in names if name in self.given]
        fitting = [self.fits(name, self.given[name], r.dtype, r.shape) for name, r in rows]
        return not absent and all(fitting)

    def fits(self, name: str, data: TensorData, dtype: str, shape: Iterable[int]) -> bool:
        """Whether a tensor has the type of its row."""
        good = (data.dtype, data.shape) == (dtype, tuple(shape))
        if not good:
            self.misfits.append(name)
            self.other.append(
                f"`{name}`: expected {dtype} {list(shape)}, got {data.dtype} {list(data.shape)}"
            )
        return good

    def require_settled(self, row: Rename, data: TensorData) -> None:
        """Require the values that a buffer has as a constant of the target."""
        name, shape = self.mapping.source_name(row), tuple(row.shape)
        held = unpacked(row.values, row.dtype, shape, name)
        if self.fits(name, data, row.dtype, shape) and not np.array_equal(data.numpy(), held.numpy()):
            self.other.append(f"`{name}`: other values than those that the target has as a constant")

    def raise_if_any(self) -> None:
        missing = list(self.missing)
        lines = self._names("only in the checkpoint", self.unknown, missing)
        lines += self._names("only in the map", missing, self.unknown)
        lines += [f"  {text}" for text in [*self.other[:_LISTED], *self.derived[:_LISTED]]]
        count = len(self.unknown) + len(self.missing) + len(self.other) + len(self.derived)
        if not count:
            return
        hint = "use the map that was written beside the model, and save the parameters of the net alone"
        if count == len(self.unknown):
            hint = hint_on_counters(self.unknown) or hint
        if lost := sorted(self.mapping.computed & {*self.unknown, *self.missing, *self.misfits}):
            hint = (
                f"the file holds only what its exporter computed with {_some(lost)}: export the model with "
                f"torch.onnx.export(..., dynamo=True, optimize=False), and rewrite that file"
            )
        if self.derived:
            hint = "rewrite the model again, from the new weights"
            if not any(row.transform == DERIVED for row in self.mapping.rows):
                hint = "an ONNX model that keeps its normalisations (--no-fold) converts back"
        more = [f"  and {count - len(lines)} more"] if count > len(lines) else []
        head = f"the checkpoint `{self.place}` does not fit the map `{self.mapping.path}`:"
        if str(self.mapping.path) == self.place:  # a map that was made for a net
            head = f"the checkpoint `{self.place}` does not fit the net:"
            hint = "a file with two values comes from a model in which they are not tied"
        raise ModelError("E801", "\n".join([head, *lines, *more]), hint=hint)

    @staticmethod
    def _names(what: str, names: list[str], others: list[str]) -> list[str]:
        lines = []
        for name in names[:_LISTED]:
            near = near_names(name, others, 1, 0.6)
            lines.append(f"  {what}: `{name}`" + (f" (near `{near[0]}`)" if near else ""))
        return lines
