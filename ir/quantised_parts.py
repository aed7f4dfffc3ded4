"""Roles of the parameters of which a quantised weight consists: its integers, and what scales them.

A role names the weight and the part, ``weight.codes``; a frontend states it, and passes find the parts by it.
"""

from __future__ import annotations

CODES = "codes"
"""The part that holds the integers."""


def part_role(weight: str, part: str) -> str:
    """Return the role of a part of a weight, by the name that the weight has in its module."""
    return f"{weight}.{part}"


def weight_of(role: str) -> str:
    """Return the name of the weight whose integers have a role; empty for any other role.

    Example:
        >>> weight_of("weight.codes"), weight_of("weight.scale"), weight_of("weight")
        ('weight', '', '')
    """
    return role.removesuffix(f".{CODES}") if role.endswith(f".{CODES}") else ""


def is_part(role: str, weight: str) -> bool:
    """Whether a role is that of a part of a weight."""
    return role.startswith(f"{weight}.")
