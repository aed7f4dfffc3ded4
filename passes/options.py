"""Parses passes: ``NAME[:KEY=VALUE[+VALUE]…[,KEY=…]…]``, converted by the types of the pass's fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from difflib import get_close_matches
from typing import Literal, get_args, get_origin, get_type_hints

from ..ir import PassError
from .base import Pass

_SWITCH = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


def parse_options(text: str) -> list[tuple[str, list[str]]]:
    """Return (key, values) pairs in order; a key without ``=`` has no values.

    Example:
        >>> parse_options("tie=embed.weight+head.weight,by=value")
        [('tie', ['embed.weight', 'head.weight']), ('by', ['value'])]
    """
    pairs: list[tuple[str, list[str]]] = []
    for part in text.split(",") if text else []:
        key, equals, value = part.partition("=")
        pairs.append((key.strip(), [v.strip() for v in value.split("+")] if equals else []))
    return pairs


def make_pass(registry: Mapping[str, type[Pass]], text: str) -> Pass:
    """Return the pass that `text` names, with its options.

    Raises:
        PassError: for a pass or option that there is not (E502), or a value that does not fit (E501).
    """
    name, _, rest = text.partition(":")
    name = name.strip()
    if name not in registry:
        raise PassError("E502", f"no pass is called `{name}`", hint=_near(name, registry, "passes"))
    cls = registry[name]
    options = {field.name.replace("_", "-"): field for field in fields(cls)}  # type: ignore[arg-type] - every pass is a dataclass
    hints = get_type_hints(cls)
    found: dict[str, list[list[str]]] = {}
    for key, values in parse_options(rest):
        if key not in options:
            near = _near(key, options, "options") if options else f"`{name}` has no options"
            raise PassError("E502", f"`{name}` has no option `{key}`", hint=near)
        found.setdefault(key, []).append(values)
    return cls(
        **{options[k].name: _convert(name, options[k], hints[options[k].name], v) for k, v in found.items()}
    )


def _convert(name: str, field: Field[object], hint: object, given: list[list[str]]) -> object:
    """Return the value of one option, by the type of its field.

    A ``tuple[tuple[str, …], …]`` may repeat and joins values with ``+``; a ``tuple[str, …]`` takes all
    values; anything else takes one.
    """
    key = field.name.replace("_", "-")
    if get_origin(hint) is tuple:
        if get_origin(get_args(hint)[0]) is tuple:
            for values in given:
                if len(values) < 2 or not all(values):
                    raise PassError(
                        "E501", f"expected `{key}=A+B` for `{name}`, got `{key}={'+'.join(values)}`"
                    )
            return tuple(tuple(values) for values in given)
        return tuple(value for values in given for value in values)
    if len(given) > 1 or len(given[0]) > 1:
        raise PassError("E501", f"expected one value of `{key}` for `{name}`, got {given}")
    value = given[0][0] if given[0] else ""
    if hint is bool:
        if value.lower() not in {*_SWITCH, ""}:
            raise PassError("E501", f"expected `{key}=on` or `{key}=off` for `{name}`, got `{value}`")
        return _SWITCH.get(value.lower(), True)
    if get_origin(hint) is Literal and value not in get_args(hint):
        choices = ", ".join(f"`{choice}`" for choice in get_args(hint))
        raise PassError("E501", f"expected `{key}` of `{name}` to be one of {choices}, got `{value}`")
    try:
        if hint is int:
            return int(value)
        return float(value) if hint is float else value
    except ValueError:
        raise PassError("E501", f"expected a number for `{key}` of `{name}`, got `{value}`") from None


def _near(name: str, among: Mapping[str, object], what: str) -> str:
    close = get_close_matches(name, among, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(f'`{c}`' for c in close)}?"
    return f"{what}: {', '.join(among)}"
