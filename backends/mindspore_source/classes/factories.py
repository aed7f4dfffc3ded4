"""Factory functions of an emitted file: what many layers share is said once, ``conv2d(64, 128, 3)``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..emitters.initializers import fan_in_of
from ..text.expressions import MISSING, Call, Literal, Part, Renderer, literal_source

_PLACES = 3
"""Textual places from which a factory is worth its own lines."""
_LINE = 66
"""Columns of a constructor that an attribute's line has room for."""


@dataclass
class Factory:
    """One function that constructs a layer.

    Attributes:
        callee: the layer, ``nn.Conv2d``.
        name: the function's name.
        positional: its arguments without default.
        passed: its keyword arguments and their defaults.
        fixed: what it gives the layer itself, as source.
    """

    callee: str
    name: str = ""
    positional: list[str] = field(default_factory=list)
    passed: dict[str, object] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)

    def applied(self, call: Call) -> Call:
        """The constructor call as a call of this function."""
        kept = [a for a in call.arguments if not a.name or a.name in self.passed]
        return Call(self.name, tuple(kept))

    def text(self) -> str:
        """The function's definition."""
        formals = [*self.positional, *(f"{n}={literal_source(v)}" for n, v in self.passed.items())]
        given = [*self.positional, *(f"{n}={n}" for n in self.passed)]
        given += [f"{n}={text}" for n, text in self.fixed.items()]
        return (
            f"def {self.name}({', '.join(formals)}):\n"
            f'    """{self._docstring()}"""\n'
            f"    return {self.callee}({', '.join(given)})\n"
        )

    def _docstring(self) -> str:
        said = {"True": "with bias", "False": "without bias"}.get(self.fixed.get("has_bias", ""), "")
        padded = "padded as told" if self.fixed.get("pad_mode") == '"pad"' else ""
        drawn = "drawn as in the source" if any(n.endswith("_init") for n in self.fixed) else ""
        return f"{self.callee} {', '.join(p for p in (said, padded, drawn) if p)}".strip() + "."


class Factories:
    """The factories of one file, chosen among all its layers before any class is written.

    Args:
        layers: (place in the source's text, constructor) of every layer.
    """

    def __init__(self, layers: Iterable[tuple[object, Part | None]]) -> None:
        groups: dict[object, list[tuple[object, Call]]] = {}
        for place, call in layers:
            if isinstance(call, Call) and (style := _style(call)) is not None:
                groups.setdefault(style, []).append((place, call))
        self.chosen: dict[object, Factory] = {}
        by_size = sorted(groups.items(), key=lambda item: -len({place for place, _ in item[1]}))
        for style, group in by_size:
            factory = _factory([call for _, call in group])
            if factory is not None and _worth(factory, group):
                factory.name = self._name(factory)
                self.chosen[style] = factory

    def applied(self, part: Part) -> Part:
        """A layer's constructor through its factory, where it has one."""
        if not isinstance(part, Call):
            return part
        factory = self.chosen.get(_style(part))
        return part if factory is None else factory.applied(part)

    def names(self) -> set[str]:
        """Names of the functions, which no constructor argument may take."""
        return {f.name for f in self.chosen.values()}

    def text(self) -> str:
        """The definitions of all factories, in the order of their names."""
        return "\n\n".join(f.text() for f in sorted(self.chosen.values(), key=lambda f: f.name))

    def _name(self, factory: Factory) -> str:
        layer = factory.callee.removeprefix("nn.")
        base = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", layer).lower()
        others = [f for f in self.chosen.values() if f.callee == factory.callee]
        if not others:
            return base
        biases = {f.fixed.get("has_bias") for f in others}
        if factory.fixed.get("has_bias") not in biases:
            return f"{base}_with_bias" if factory.fixed.get("has_bias") == "True" else f"{base}_without_bias"
        return f"{base}_{len(others) + 1}"


def _style(call: Call) -> object | None:
    """What calls of one factory share; None for a call that takes none."""
    if not isinstance(call.callee, str) or not call.callee.startswith("nn."):
        return None
    style: list[object] = [call.callee]
    for argument in call.arguments:
        value = argument.value
        if not argument.name and isinstance(value, Literal):
            style.append((value.hint, type(value.value).__name__))
        elif not argument.name:
            return None
        elif argument.default is not MISSING and isinstance(value, Literal):
            style.append(argument.name)
        elif fan_in_of(value) is not None:
            style.append((argument.name, "fan-in"))
        else:
            style.append((argument.name, Renderer().text(value)))
    return tuple(style)


def _factory(calls: list[Call]) -> Factory | None:
    """The function that makes all these calls; None where their bounds follow no rule."""
    first = calls[0]
    found = Factory(str(first.callee))
    for at, argument in enumerate(first.arguments):
        values = [c.arguments[at].value for c in calls]
        if not argument.name:
            assert isinstance(argument.value, Literal)
            found.positional.append(argument.value.hint)
        elif argument.default is not MISSING and isinstance(argument.value, Literal):
            if any(isinstance(v, Literal) and v.value != argument.default for v in values):
                found.passed[argument.name] = argument.default
        elif fan_in_of(argument.value) is not None:
            rule = _rule(calls, [fan_in_of(v) or 0 for v in values])
            if rule is None:
                return None
            found.fixed[argument.name] = f"Uniform(1 / math.sqrt({rule}))"
        else:
            found.fixed[argument.name] = Renderer().text(argument.value)
    if found.fixed.get("pad_mode") == '"pad"' and "padding" not in found.passed:
        found.fixed["pad_mode"] = '"valid"'
    return found


_RULES: dict[str, Callable[[dict[str, int]], int]] = {
    "in_channels": lambda a: a["in_channels"],
    "in_channels * kernel_size": lambda a: a["in_channels"] * a["kernel_size"],
    "in_channels * kernel_size**2": lambda a: a["in_channels"] * a["kernel_size"] ** 2,
    "in_channels * kernel_size**3": lambda a: a["in_channels"] * a["kernel_size"] ** 3,
    "in_channels // group * kernel_size": lambda a: a["in_channels"] // a["group"] * a["kernel_size"],
    "in_channels // group * kernel_size**2": lambda a: a["in_channels"] // a["group"] * a["kernel_size"] ** 2,
    "out_channels * kernel_size**2": lambda a: a["out_channels"] * a["kernel_size"] ** 2,
}
"""Fan-ins of a layer's weight as its arguments give them; the first that holds for every layer is written."""


def _rule(calls: list[Call], fan_ins: list[int]) -> str | None:
    """The fan-in as a product of the arguments, where one product holds for every call."""
    known = [_numbers(call) for call in calls]
    for text, product in _RULES.items():
        names = re.findall(r"[a-z_]+", text)
        if all(isinstance(numbers.get(n), int) for numbers in known for n in names) and all(
            product(numbers) == fan_in for numbers, fan_in in zip(known, fan_ins, strict=True)
        ):
            return text
    return None


def _numbers(call: Call) -> dict[str, int]:
    """The integer arguments of a call by name."""
    found: dict[str, int] = {}
    for argument in call.arguments:
        if isinstance(argument.value, Literal) and isinstance(argument.value.value, int):
            found[argument.name or argument.value.hint] = argument.value.value
    return found


def _worth(factory: Factory, group: list[tuple[object, Call]]) -> bool:
    """Whether the function saves more lines than it takes."""
    places = {place: _lines(call) - _lines(factory.applied(call)) for place, call in group}
    return len(places) >= _PLACES and sum(places.values()) > factory.text().count(",") + 4


def _lines(call: Call) -> int:
    """About as many lines as `ruff format` makes of a constructor."""
    text = Renderer().text(call)
    if len(text) <= _LINE:
        return 1
    arguments = Renderer().arguments(call)
    return 3 if len(arguments) <= _LINE + 6 else 2 + arguments.count(", ") + 1
