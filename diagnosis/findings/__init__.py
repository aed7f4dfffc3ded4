"""The findings, a file each: `CODES`, and `find(subject)`; the table is their order."""

from __future__ import annotations

from collections.abc import Callable

from ...passes import Change
from ..subject import Subject
from . import (
    forward_without_construct,
    name_of_another,
    nameless_parameter,
    names_change,
    never_run_children,
    numpy_in_construct,
    plain_list,
    raises_below,
    thrown_away_layer,
    unlike_reference,
)

FINDINGS: tuple[tuple[dict[str, str], Callable[[Subject], list[Change]]], ...] = (
    (forward_without_construct.CODES, forward_without_construct.find),
    (numpy_in_construct.CODES, numpy_in_construct.find),
    (plain_list.CODES, plain_list.find),
    (never_run_children.CODES, never_run_children.find),
    (thrown_away_layer.CODES, thrown_away_layer.find),
    (nameless_parameter.CODES, nameless_parameter.find),
    (name_of_another.CODES, name_of_another.find),
    (names_change.CODES, names_change.find),
)

CODES: dict[str, str] = {
    code: meaning
    for codes in (*(row[0] for row in FINDINGS), raises_below.CODES, unlike_reference.CODES)
    for code, meaning in codes.items()
}
"""Code -> what the finding means, in one line."""
