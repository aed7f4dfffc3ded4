"""Unique names for the parameters of a live Cell."""

from __future__ import annotations

from typing import Any

from ..frontends.registry import frontend_of_model
from ..ir import UsageError


def unique_names(cell: Any) -> dict[str, str]:
    """Tell the parameters of a live Cell apart, in place, where several have one name.

    Every parameter is then called by its path, as MindSpore itself names them when it meets the conflict in
    the net's first call. Where all names differ already, nothing is changed. Values, flags and the order of
    `trainable_params()` stay, so `nn.Adam(cell.trainable_params())` may follow.

    Args:
        cell: a ``mindspore.nn.Cell``.

    Returns:
        New name -> old name of every parameter that has another name now.

    Raises:
        UsageError: when `cell` is no Cell, or two of its paths are one.
    """
    row = frontend_of_model(cell)
    if row is None or row.framework != "mindspore":
        raise UsageError("E001", f"expected a MindSpore Cell, got `{type(cell).__name__}`")
    found = list(cell.parameters_and_names())
    if len({parameter.name for _, parameter in found}) == len(found):
        return {}
    if len({path for path, _ in found}) < len(found):
        raise UsageError("E001", "two parameters of the Cell have one path", place=type(cell).__name__)
    changed = {path: parameter.name for path, parameter in found if parameter.name != path}
    for path, parameter in found:
        parameter.name = path
    return changed
