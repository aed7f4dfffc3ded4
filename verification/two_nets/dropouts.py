"""Compares the dropouts of two nets in training, and advises on missing or different ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...frontends.class_source import is_library_class
from ...frontends.constructions import part_at
from ...ir import Graph
from ..structure.report import SettingRow
from ..structure.settings import DROPOUT, OF_NORMALISATIONS, compare_settings, settings_of
from .attributes import AttributeRow, above, class_name_of
from .remedies import Arguments, body_of, call_in_body, place_of

_REMARK = (
    "the ratio is the share that is dropped; the first argument of MindSpore's nn.Dropout is the share that "
    "is kept, so write p="
)
_INSIDE = ("LSTM", "GRU", "RNN", "MultiheadAttention", "Transformer")
"""Prefixes of classes that apply dropout between their parts."""


def dropouts(source: Graph, target: Graph, modules: Mapping[str, str]) -> list[AttributeRow]:
    """Return the differences as settings, where a ratio of 0 is none.

    Args:
        source: the source's graph.
        target: the target's.
        modules: path of a module in the source -> in the target.
    """
    sides = settings_of(source), settings_of(target)
    if sides[0] is None or sides[1] is None:
        return []
    back = {other: path for path, other in modules.items()}
    mine = [
        replace(s, module=_within(s.module, modules)) for s in sides[0] if s.kind not in OF_NORMALISATIONS
    ]
    theirs = [
        replace(s, module=back.get(_within(s.module, back), ""))
        for s in sides[1]
        if s.kind not in OF_NORMALISATIONS
    ]
    rows = compare_settings(mine, theirs)
    replaced = {row.module for row in rows if row.target is None}
    return [_row(source, target, modules, row, is_replaced=row.module in replaced) for row in rows]


def _row(
    source: Graph, target: Graph, modules: Mapping[str, str], row: SettingRow, *, is_replaced: bool
) -> AttributeRow:
    """A difference as a setting, with what to write in the target.

    Args:
        source: the source's graph.
        target: the target's.
        modules: path of a module in the source -> in the target.
        row: the difference.
        is_replaced: whether another row tells what stands there in the source.
    """
    other = modules.get(row.module, "")
    name = class_name_of(target, other)
    found = AttributeRow(
        row.module,
        other,
        name,
        "ratio" if row.setting == DROPOUT else row.setting.replace("Dropout of", "ratio of whole"),
        row.source or 0.0,
        row.target or 0.0,
        training=True,
        remark=_REMARK,
        place=place_of(target, other),
    )
    part = part_at(target.origin.model, other)
    if not other or part is None or not is_library_class(type(part)):
        statement, place = _of_function(target, row, other, is_replaced=is_replaced)
        return replace(found, statement=statement, place=place)
    if name.startswith(_INSIDE):
        return replace(found, arguments=(("dropout", f"{row.source or 0.0:.6g}"),))
    if row.source is None:
        return found if is_replaced else replace(found, statement=f"nn.Identity() in place of `nn.{name}`")
    if row.target is not None:
        return replace(found, arguments=_ratio(row.source))
    mine = class_name_of(source, row.module)
    layer = mine if mine.startswith("Dropout") else "Dropout" if row.setting == DROPOUT else "Dropout2d"
    return replace(found, statement=f"nn.{layer}(p={row.source:.6g}) in place of `nn.{name}`")


def _ratio(share: float) -> Arguments:
    return (("p", f"{share:.6g}"),)


def _of_function(target: Graph, row: SettingRow, path: str, *, is_replaced: bool) -> tuple[str, str]:
    """(what to write, where) in a method of the user's, where it calls a function that drops or should."""
    room = "ops" if target.origin.framework == "mindspore" else "F"
    function = "dropout" if row.setting == DROPOUT else "dropout2d"
    call, place = f"{room}.{function}", call_in_body(target, path, function) or row.places[1]
    if row.source is None:
        return ("" if is_replaced else f"no `{call}`"), place
    if row.target is not None:
        return f"p={row.source:.6g} in `{call}`", place
    where = f", as at {row.places[0]} of the source" if row.places[0] else ""
    text = f"`{call}(…, p={row.source:.6g}, training=self.training)`{where}"
    return text, body_of(target, path)


def _within(path: str, known: Mapping[str, str]) -> str:
    """The innermost known module that is a path or around it."""
    return path if path in known else above(path, known)
