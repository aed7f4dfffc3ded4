"""Advises on the calls that construct the target's layers: one call may construct several of them."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...frontends.constructions import Construction, asked_at, call_at, construction_of, part_at
from ...ir import Graph
from .attributes import AttributeRow
from .laws import LawRow
from .remedies import Arguments


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Arguments that one call of the user's is to have.

    Attributes:
        construction: the call.
        class_name: the class that it calls.
        layers: paths in the target of the layers that differ.
        arguments: keyword -> source code.
        positions: of each argument among those without keyword, -1 for one that is not among them.
        instead: of each argument, name and place of another that says the same, ("", -1) for none.
        settings: what differs, each in words.
    """

    construction: Construction
    class_name: str
    layers: tuple[str, ...]
    arguments: Arguments
    positions: tuple[int, ...]
    instead: tuple[tuple[str, int], ...]
    settings: tuple[str, ...]


def arguments_of_calls(
    target: Graph, settings: Sequence[AttributeRow], equal: Sequence[AttributeRow], laws: Iterable[LawRow]
) -> list[CallArguments]:
    """Return the wanted arguments of every call, as far as one fits all layers that it constructs.

    Args:
        target: the target's graph.
        settings: the settings that differ.
        equal: those that do not, of layers that the same calls may construct.
        laws: the initial distributions.
    """
    groups: dict[tuple[Construction, str], list[tuple[str, Arguments, str]]] = {}
    kept: dict[Construction, list[AttributeRow]] = {}
    for row in equal:
        made = construction_of(target.origin.model, row.target)
        if made is not None:
            kept.setdefault(made, []).append(row)
    for row in settings:
        made = construction_of(target.origin.model, row.target)
        if made is not None and row.arguments:
            same = [r for r in kept.get(made, ()) if r.attribute == row.attribute and r.arguments]
            wanted = [(r.target, r.arguments, "") for r in same]
            groups.setdefault((made, row.attribute), wanted).append((row.target, row.arguments, str(row)))
    for law in laws:
        made = construction_of(target.origin.model, law.layer)
        keyword, equals, text = law.remedy.partition("=")
        if law.passed is False and made is not None and equals and keyword.isidentifier():
            what = f"{law.source_law} against {law.target_law or 'unknown'}"
            groups.setdefault((made, keyword), []).append((law.layer, ((keyword, text),), what))
    constructed = _constructed_by_calls(target)
    calls: dict[Construction, CallArguments] = {}
    for (made, setting), wanted in groups.items():
        part = part_at(target.origin.model, next(path for path, _, what in wanted if what))
        name = type(part).__name__
        call = call_at(made, name)
        if setting == "bias" and len(wanted) < constructed[made]:
            continue  # others that it constructs are right as they are
        arguments = None if call is None else _common(call, type(part), setting, target, wanted)
        if arguments is None:
            continue
        found = CallArguments(
            made,
            name,
            tuple(path for path, _, what in wanted if what),
            arguments,
            tuple(_position(type(part), keyword) for keyword, _ in arguments),
            tuple(_superseded(type(part), keyword) for keyword, _ in arguments),
            tuple(dict.fromkeys(what for _, _, what in wanted if what)),
        )
        calls[made] = _joined(calls[made], found) if made in calls else found
    return list(calls.values())


def advised_by(calls: Sequence[CallArguments], row: AttributeRow) -> AttributeRow:
    """A row whose arguments are those that fit all layers of its call."""
    for call in calls:
        if row.target in call.layers:
            known = dict(call.arguments)
            return replace(row, arguments=tuple((n, known.get(n, text)) for n, text in row.arguments))
    return row


def placed_by(
    calls: Sequence[CallArguments], target: Graph, rows: Iterable[AttributeRow]
) -> list[AttributeRow]:
    """Rows with the line to edit: the caller's of a function whose one call makes other layers otherwise."""
    constructed = _constructed_by_calls(target)
    edited = {(path, name) for call in calls for path in call.layers for name, _ in call.arguments}
    out: list[AttributeRow] = []
    for row in rows:
        several = constructed.get(construction_of(target.origin.model, row.target), 0) > 1
        fits = all((row.target, name) in edited for name, _ in row.arguments)
        caller = "" if fits or not several else asked_at(target.origin.model, row.target)
        out.append(replace(row, place=caller or row.place))
    return out


def _common(
    call: ast.Call, cls: Any, setting: str, target: Graph, wanted: Sequence[tuple[str, Arguments, str]]
) -> Arguments | None:
    """The arguments that all layers of a call want; None where they want different ones."""
    texts = {arguments for _, arguments, _ in wanted}
    if len(texts) == 1:
        return wanted[0][1]
    kernel = next((k.value for k in call.keywords if k.arg == "kernel_size"), None)
    at = _position(cls, "kernel_size")
    kernel = call.args[at] if kernel is None and 0 <= at < len(call.args) else kernel
    if setting != "padding" or not isinstance(kernel, ast.Name):
        return None
    for path, arguments, _ in wanted:
        size = getattr(part_at(target.origin.model, path), "kernel_size", None)
        sizes = set(size) if isinstance(size, (tuple, list)) else {size}
        if len(sizes) != 1 or dict(arguments)["padding"] != str(int(sizes.pop() or 0) // 2):
            return None
    return tuple((n, f"{kernel.id} // 2" if n == "padding" else text) for n, text in wanted[0][1])


def _constructed_by_calls(target: Graph) -> Counter[Construction | None]:
    """Count the modules that each call constructs."""
    paths = {target.modules.path(module.key) for module in target.modules}
    return Counter(construction_of(target.origin.model, path) for path in paths)


def _position(cls: Any, keyword: str) -> int:
    try:
        names = list(inspect.signature(cls.__init__).parameters.values())[1:]
    except (TypeError, ValueError):
        return -1
    places = [p.name for p in names if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return places.index(keyword) if keyword in places else -1


def _superseded(cls: Any, keyword: str) -> tuple[str, int]:
    """Name and place of the argument that another one, which is to be given, makes void."""
    other = "keep_prob" if keyword == "p" else ""  # MindSpore's Dropouts take either
    at = _position(cls, other)
    return (other, at) if at >= 0 else ("", -1)


def _joined(a: CallArguments, b: CallArguments) -> CallArguments:
    """Both; of one keyword, the first."""
    fresh = [i for i, (name, _) in enumerate(b.arguments) if name not in dict(a.arguments)]
    return replace(
        a,
        layers=tuple(dict.fromkeys([*a.layers, *b.layers])),
        arguments=(*a.arguments, *(b.arguments[i] for i in fresh)),
        positions=(*a.positions, *(b.positions[i] for i in fresh)),
        instead=(*a.instead, *(b.instead[i] for i in fresh)),
        settings=tuple(dict.fromkeys([*a.settings, *b.settings])),
    )
