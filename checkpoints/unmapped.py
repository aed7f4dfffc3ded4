"""A checkpoint in another framework's own spelling, where names and shapes leave one possibility."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ..formats.renames import Rename
from ..frameworks import GLUON, MINDSPORE
from ..ir import ModelError, TensorData
from ..ir.outside.file_kinds import kind_of
from .mapping import Map
from .packed import is_vector
from .pairs import Renaming, inverted
from .prefixes import align, without_prefix
from .spelling import COUNTER, dotted, gluon_role, plain_name, plain_shape, universal_name

_LISTED = 10
_FORMATS = {".pth": "torch", ".pt": "torch", ".params": "mxnet", ".ckpt": "mindspore"}
_KINDS = {"torch": "torch", "params": "mxnet"}
_NORMS = {"mindspore": MINDSPORE.layers["BatchNorm2d"], "mxnet": GLUON.layers["BatchNorm"]}
_TERMS = {name: {state.role: state.name for state in layer.states} for name, layer in _NORMS.items()}
"""Framework -> torch's term for a parameter of a normalisation -> its own."""
_OWN = {*_TERMS["mindspore"].values(), *_TERMS["mxnet"].values(), "embedding_table"}


def spelled_map(
    given: Mapping[str, TensorData],
    source: Path,
    target: Path,
    pairs: Mapping[str, str | None] | None,
    notes: list[str],
) -> Map:
    """Return the map that the frameworks' own spelling says, for a file and the suffix of another.

    Args:
        given: the source's tensors, without what wrappers put before names.
        source: the file.
        target: the file to write; its suffix tells the framework, ``.safetensors`` keeps the spelling.
        pairs: what the user says of names, in either direction.
        notes: gets what was said and left out.

    Raises:
        ModelError: E801 for names that may be spelled in several ways, or pairs that fit no name.
    """
    renaming = _turned(given, pairs, str(source))
    here = framework_of(source, given)
    there = here if target.suffix == ".safetensors" else _FORMATS.get(target.suffix, here)
    named = {name: renaming(dotted(name, here)) for name in given}
    again = here != there
    placed = Renaming({path: new for path, new in renaming.pairs.items() if new is not None})
    layers = _layers(given, {name: placed(dotted(name, here)) or "" for name in given})
    problems: list[str] = []
    rows: list[Rename] = []
    for name, data in given.items():
        new = named[name]
        if new is not None and again and name.endswith("parameters") and is_vector(name, data.shape):
            problems.append(
                f"`{name}` {list(data.shape)}: a vector of recurrent layers that it does not tell"
            )
        elif new is not None and again and name not in renaming.pairs:
            new = _respelled(new, layers, there, problems)
        rows.append(
            Rename(
                name,
                name,
                new or "",
                "spelling",
                "identity",
                list(data.shape),
                list(data.shape),
                data.dtype,
                buffer=plain_name(name).endswith(("running_mean", "running_var")),
            )
        )
    count = Counter(r.target for r in rows if r.target)
    problems += [f"`{name}`: several names become this one" for name, n in count.items() if n > 1]
    if problems:
        more = [f"  and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
        raise ModelError(
            "E801",
            "\n".join(
                [f"names alone do not tell what these are called in {there}:"]
                + [f"  {p}" for p in problems[:_LISTED]]
                + more
            ),
            place=str(source),
            hint="name the net that the checkpoint is to fit (--like net.py:Net), or give --map",
        )
    changed = sum(r.source != r.target != "" for r in rows)
    if again:
        notes.append(f"no map: {changed} of {len(rows)} names respelled from {here}'s terms to {there}'s")
    return Map(source, here, there, rows)


def framework_of(path: Path, names: Iterable[str]) -> str:
    """Return the framework whose spelling a file has: by its suffix or, if that is shared, by its names."""
    if path.suffix in (".pth", ".pt", ".params"):
        return _FORMATS[path.suffix]
    kind = kind_of(path)
    if kind in _KINDS:
        return _KINDS[kind]
    last = {re.split(r"[._]", name)[-1] if "." not in name else name.rpartition(".")[2] for name in names}
    if last & {COUNTER, "running_mean"}:
        return "torch"
    if path.suffix == ".ckpt" or kind == "ckpt" or last & _OWN:
        return "mindspore"
    return "torch"


def _turned(given: Mapping[str, TensorData], pairs: Mapping[str, str | None] | None, place: str) -> Renaming:
    """Return the pairs in the direction of a checkpoint's names."""
    forth = Renaming(pairs or {})
    if not pairs:
        return forth
    back = Renaming(inverted(pairs))
    forth_hits, back_hits = (sum(each.head(n) is not None for n in given) for each in (forth, back))
    if not forth_hits and not back_hits:
        raise ModelError("E801", "no name of the checkpoint is in the map, on either side", place=place)
    return forth if forth_hits >= back_hits else back


@dataclass(frozen=True, slots=True)
class _Layers:
    """The layers of a checkpoint, from its names and shapes.

    Attributes:
        roles: path of a layer -> role in torch's terms -> shape.
        flat: whether every kernel has one row: then nothing says that a convolution has two dimensions.
        deep: whether some kernel has three dimensions.
    """

    roles: dict[str, dict[str, tuple[int, ...]]]
    flat: bool
    deep: bool


def _layers(given: Mapping[str, TensorData], named: Mapping[str, str]) -> _Layers:
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, data in given.items():
        new = named[name]
        layer, _, role = plain_name(new).rpartition(".")
        found.setdefault(layer, {})[role] = data.shape
        if new.rpartition(".")[2] == "embedding_table":
            found[layer]["embedding_table"] = data.shape
    kernels = [roles.get("weight", ()) for roles in found.values()]
    flat = all(shape[2] == 1 for shape in kernels if len(shape) == 4)
    return _Layers(found, flat, any(len(shape) == 5 for shape in kernels))


def _respelled(name: str, layers: _Layers, framework: str, problems: list[str]) -> str | None:
    """Return a name in another framework's terms; None for what it does not keep."""
    plain = plain_name(name)
    layer, _, role = plain.rpartition(".")
    roles = layers.roles.get(layer, {})
    kept = name.rpartition(".")[2]
    shape = roles.get("weight", ())
    if kept in ("gamma", "beta") and not {"weight", "bias"} <= roles.keys():
        problems.append(f"`{name}`: a layer's scale, or a parameter of a class of its own")
    if framework == "torch":
        if len(shape) == 4 and shape[2] == 1 != shape[3] and role == "weight" and layers.flat:
            problems.append(f"`{name}`: the kernel of a 1-d convolution, or of a 2-d one")
        return plain
    if role == COUNTER:
        return None
    terms, path = _TERMS[framework], f"{layer}." if layer else ""
    if "running_mean" in roles:
        if layers.deep:
            problems.append(f"`{name}`: of a BatchNorm3d, which MindSpore keeps under `bn2d`, or of another")
        new = f"{path}{terms.get(role, role)}"
    elif len(shape) == 1 and roles.get("bias") == shape:
        new = f"{path}{terms.get(role, role)}"
    elif role == "weight" and len(shape) in (1, 3):
        kinds = {1: "a PReLU's slope or a norm's scale", 3: "a 1-d convolution's or a bilinear form's"}
        problems.append(f"`{name}` {list(shape)}: {kinds[len(shape)]}")
        new = plain
    elif role == "weight" and len(shape) == 2 and framework == "mindspore" and "bias" not in roles:
        if "embedding_table" not in roles:
            problems.append(f"`{name}` {list(shape)}: a Dense layer's without bias, or an embedding's table")
        new = plain
    else:
        new = plain
    if framework == "mxnet":
        new = f"{path}{gluon_role(new.rpartition('.')[2])}"
    return new.replace(".", "_") if framework == "mxnet" else new


def unwrapped(given: dict[str, TensorData], pairs: Iterable[str], notes: list[str]) -> dict[str, TensorData]:
    """Return a checkpoint without the parts that wrappers put before names, by a map's or usual names."""
    heads = {path.partition(".")[0] for path in pairs}
    found = without_prefix(given, lambda name: name.partition(".")[0] in heads, notes)
    for prefix in ("module.", "_orig_mod.", "module."):
        if found and not heads and all(name.startswith(prefix) for name in found):
            found = {name.removeprefix(prefix): data for name, data in found.items()}
            notes.append(f"`{prefix}` before the names of {len(found)} tensors was left out")
    return found


def pair_names(
    a: dict[str, TensorData],
    b: dict[str, TensorData],
    pairs: Mapping[str, str | None] | None,
    notes: list[str],
) -> tuple[dict[str, TensorData], dict[str, TensorData], dict[str, str], set[str]]:
    """(one checkpoint, the other, name in one -> name in the other, names without counterpart by the map).

    Names are paired whatever the framework's spelling of them is; both come back without wrappers' prefixes.
    """
    if pairs:
        a, b = (unwrapped(side, [*pairs, *inverted(pairs)], notes) for side in (a, b))
    renaming = _turned(a, pairs, "the first")
    b = _towards(b, {renaming(name) or "": data for name, data in a.items()}, notes)
    if not pairs:
        a = _towards(a, b, notes)
    others: dict[str, list[str]] = {}
    for name in b:
        others.setdefault(universal_name(name), []).append(name)
    found: dict[str, str] = {}
    without: set[str] = set()
    taken: set[str] = set()
    for name in a:
        new = renaming(name)
        if new is None:
            without.add(name)
            continue
        same = [new] if new in b else others.get(universal_name(new), [])
        if len(same) == 1 and same[0] not in taken:
            found[name] = same[0]
            taken.add(same[0])
    spelled = sum(renaming(n) != other for n, other in found.items())
    if spelled:
        notes.append(f"{spelled} names were paired across the frameworks' spelling of them")
    return a, b, found, without


def _towards(
    side: dict[str, TensorData], other: Mapping[str, TensorData], notes: list[str]
) -> dict[str, TensorData]:
    """Return a checkpoint without parts of names that the other lacks; note several equal fits."""
    shapes = [{name: data.shape for name, data in each.items()} for each in (side, other)]
    found = align(*shapes)
    notes += found.notes
    if found.rivals:
        notes.append(
            f"names under {' and '.join(found.rivals)} fit the other side equally well, so none was removed"
        )
    return found.applied(side)


def layout(
    data: TensorData, other: TensorData, *, turned: bool = False, flat: bool = True
) -> tuple[TensorData, str]:
    """(a tensor in the shape of another, "reshape" or "transpose:1,0"); as it is where neither does it.

    Args:
        data: the tensor.
        other: one of the shape.
        turned: whether it may be a matrix that the other side holds transposed.
        flat: whether one side may have axes of one element that the other has not.
    """
    shape = other.shape
    if data.shape == shape or not data.shape or not shape:
        return data, ""
    if flat and plain_shape(data.shape) == plain_shape(shape) and prod(data.shape) == prod(shape):
        return TensorData(data.dtype, shape, lambda: data.numpy().reshape(shape), data.storage), "reshape"
    if turned and len(shape) == 2 and data.shape == shape[::-1]:
        return TensorData(data.dtype, shape, lambda: data.numpy().T, data.storage), "transpose:1,0"
    return data, ""
