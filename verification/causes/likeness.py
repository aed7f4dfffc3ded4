"""Translates the arguments of a source's call for its counterpart in the target."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from ...frontends.function_arguments import KIN
from ...frontends.layer_arguments import arguments_like
from .calls import Given, given_to, has_tensor
from .hosts import Host
from .tape import Record, Tape


class Likeness(NamedTuple):
    """Arguments of a target's call as its source's call has them.

    Attributes:
        wanted: name in the target -> the value that differs there.
        fewest: how many of them are changed at least: one alone may be tried elsewhere.
    """

    wanted: Mapping[str, Any]
    fewest: int


def likenesses(tape: Tape, record: Record, other: Record | None, host: Host) -> list[Likeness]:
    """Return the ways to give a target's call what one of the source's has.

    Args:
        tape: the target's calls.
        record: one of them.
        other: the source's call that stands for it; None where there is none.
        host: the source's framework.
    """
    like = None if other is None else given_to(other, host)
    given = None if like is None else given_to(record, tape.host)
    if other is None or like is None or given is None:
        return []
    found = [Likeness(_by_name(tape, given, like), 2)]
    translated = _by_layer(tape, record, given, other, like, host)
    return [*found, Likeness(translated, 1)] if translated else found


def _by_name(tape: Tape, given: Given, like: Given) -> dict[str, Any]:
    """The arguments that both have under one name or under names that mean the same."""
    wanted: dict[str, Any] = {}
    for name, value in given.values.items():
        if has_tensor(value, tape.host) or name in ("name", "out", "dtype"):
            continue
        found = next((like.values[n] for n in (name, *KIN.get(name, ())) if n in like.values), value)
        found = tuple(found) if isinstance(found, list) else found
        if not has_tensor(found, tape.host) and not hasattr(found, "shape") and not is_same(found, value):
            wanted[name] = found
    return wanted


def _by_layer(
    tape: Tape, record: Record, given: Given, other: Record, like: Given, host: Host
) -> dict[str, Any]:
    """The arguments as the target's layer of the same kind means them: of a function, those of its layer."""
    if host.name == tape.host.name:
        return {}
    class_name = (
        type(other.function).__name__
        if other.kind == "layer"
        else _layers(host.name).get(other.name.replace("_", ""), "")
    )
    rank = next((tape.value(ref).ndim for ref in record.refs()), None)
    settings = {n: v for n, v in like.values.items() if not has_tensor(v, host) and not hasattr(v, "shape")}
    try:
        found = arguments_like(class_name, settings, host.name, tape.host.name, rank) if class_name else {}
    except (KeyError, TypeError):  # a function lacks arguments that its layer has
        return {}
    found = {n: tuple(v) if isinstance(v, list) else v for n, v in found.items()}
    return {
        n: v
        for n, v in found.items()
        if n in given.values and v is not None and not is_same(v, given.values[n])
    }


@cache
def _layers(framework: str) -> Mapping[str, str]:
    """Name of a function -> the class of its layer, for all of a framework's layers."""
    if framework == "torch":
        from torch import nn
    else:
        from mindspore import nn
    return {name.lower(): name for name, cls in vars(nn).items() if isinstance(cls, type)}


def is_same(a: Any, b: Any) -> bool:
    """Whether two arguments are one value."""
    try:
        return bool(a == b)
    except Exception:  # a value of any class may refuse to be compared
        return a is b
