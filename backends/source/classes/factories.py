"""Factory functions of an emitted file: they state once what many layers share, ``conv2d(64, 128, 3)``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..dialect import ABSENT_PARAMETER, MADE_LAYER, Dialect
from ..expressions import MISSING, Argument, Call, FanIn, Literal, NnClass, Part, Tuple, literal_source
from ..names import snake_case
from ..rendering import Renderer
from ..traversal import children, literals, rebuild, walk

_PLACES = 3
"""Least number of places in the text for which a factory is worth its lines."""
_LINE = 66
"""Columns available for a constructor on an attribute's line."""


@dataclass
class Factory:
    """One function that constructs a layer.

    Attributes:
        callee: the layer, ``nn.Conv2d``.
        dialect: what it is written in.
        name: the function's name.
        positional: its arguments without default.
        passed: its keyword arguments and their defaults.
        fixed: what it gives the layer itself.
        is_padded: whether it gives the layer the mode in which its padding counts.
    """

    callee: NnClass
    dialect: Dialect
    name: str = ""
    positional: list[str] = field(default_factory=list)
    passed: dict[str, object] = field(default_factory=dict)
    fixed: dict[str, Part] = field(default_factory=dict)
    is_padded: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether nothing but a function can state what its layers are drawn from."""
        return bool(self._drawn())

    @property
    def has_bias(self) -> bool | None:
        """Whether its layers have a bias; None where that is an argument, or they never have one."""
        bias = self.dialect.bias_argument
        if self.fixed.get(f"{bias}{self.dialect.drawing}") == ABSENT_PARAMETER:
            return False
        found = self.fixed.get(bias)
        return bool(found.value) if isinstance(found, Literal) else None

    def apply(self, call: Call) -> Call:
        """Return the constructor call as a call of this function."""
        kept = [a for a in call.arguments if not a.name or a.name in self.passed]
        return Call(self.name, tuple(kept))

    def text(self) -> str:
        """Return the function's definition."""
        renderer = Renderer()
        arguments = [*self.positional, *(f"{n}={literal_source(v)}" for n, v in self.passed.items())]
        given = [*self.positional, *(f"{n}={n}" for n in self.passed)]
        fixed = {n: part for n, part in self.fixed.items() if not _is_drawing(n, self.dialect)}
        given += [f"{n}={renderer.text(part)}" for n, part in fixed.items()]
        layer = renderer.text(self.callee)
        head = f'def {self.name}({", ".join(arguments)}):\n    """{self._describe(layer)}."""\n'
        if not self._drawn():
            return f"{head}    return {layer}({', '.join(given)})\n"
        lines = [f"{MADE_LAYER} = {layer}({', '.join(given)})"]
        for name, part in self._drawn().items():
            attribute = f"{MADE_LAYER}.{name.removesuffix(self.dialect.drawing)}"
            if part == ABSENT_PARAMETER:
                lines.append(f"{attribute} = {ABSENT_PARAMETER}")
                continue
            assert isinstance(part, Call)
            given_first = (Argument("", attribute), *part.arguments)
            lines.append(renderer.text(replace(part, arguments=given_first)))
        return head + "".join(f"    {line}\n" for line in [*lines, f"return {MADE_LAYER}"])

    def _drawn(self) -> dict[str, Part]:
        """Return the distributions that are statements: argument for them -> call without its tensor."""
        return {name: part for name, part in self.fixed.items() if _is_drawing(name, self.dialect)}

    def _describe(self, layer: str) -> str:
        """Describe the layer in one phrase: ``nn.Conv2d without bias, with explicit padding``."""
        found = ["without bias"] if self.has_bias is False else []
        features = self._features()[len(found) :]
        *others, last = features or [""]
        if last:
            found.append(f"with {', '.join(others)} and {last}" if others else f"with {last}")
        return f"{layer} {', '.join(found)}".strip()

    def _features(self) -> list[str]:
        """Return the layer's features, for the docstring."""
        found = [] if self.has_bias is None else ["bias"]
        found += ["explicit padding"] if self.is_padded else []
        drawn = [part for part in self._drawn().values() if part != ABSENT_PARAMETER]
        initializers = len(drawn) or len(self.dialect.distribution_arguments & set(self.fixed))
        if initializers:
            found.append(f"the source's initializer{'s' * (initializers > 1)}")
        return found

    def separators(self) -> int:
        """Return how many commas the definition has, as a measure of its length."""
        count = len(self.positional) + len(self.passed)
        listed = [count, count + len(self.fixed), len(self._features())]
        inner = sum(_value_separators(v) for v in self.passed.values())
        return sum(max(n - 1, 0) for n in listed) + inner + sum(map(_separators, self.fixed.values()))


class Factories:
    """The factories of one file, chosen among all its layers before any class is written.

    Args:
        layers: (place in the source's text, constructor) of every layer.
        dialect: what they are written in.
    """

    def __init__(self, layers: Iterable[tuple[object, Part | None]], dialect: Dialect) -> None:
        groups: dict[object, list[tuple[object, Call]]] = {}
        for place, call in layers:
            if isinstance(call, Call) and (style := _group_key(call)) is not None:
                groups.setdefault(style, []).append((place, call))
        self.chosen: dict[object, Factory] = {}
        by_size = sorted(groups.items(), key=lambda item: -len({place for place, _ in item[1]}))
        for style, group in by_size:
            factory = _make_factory([call for _, call in group], dialect)
            if factory is not None and (factory.is_needed or _is_worth_it(factory, group)):
                factory.name = self._name(factory)
                self.chosen[style] = factory

    def apply(self, part: Part) -> Part:
        """Return a layer's constructor through its factory, where it has one."""
        if not isinstance(part, Call):
            return part
        factory = self.chosen.get(_group_key(part))
        return part if factory is None else factory.apply(part)

    def names(self) -> set[str]:
        """Return the names of the functions, which no constructor argument may take."""
        return {f.name for f in self.chosen.values()}

    def text(self) -> str:
        """Return the definitions of all factories, in the order of their names."""
        return "\n\n".join(f.text() for f in sorted(self.chosen.values(), key=lambda f: f.name))

    def _name(self, factory: Factory) -> str:
        base = snake_case(factory.callee.name)
        others = [f for f in self.chosen.values() if f.callee == factory.callee]
        if not others:
            return base
        if factory.has_bias not in {f.has_bias for f in others}:
            return f"{base}_without_bias" if factory.has_bias is False else f"{base}_with_bias"
        return f"{base}_{len(others) + 1}"


def _is_drawing(name: str, dialect: Dialect) -> bool:
    """Whether an argument is a distribution that is written as a statement."""
    return bool(dialect.drawing) and name.endswith(dialect.drawing)


def _group_key(call: Call) -> object | None:
    """Return what the calls of one factory share; None for a call that no factory takes."""
    if not isinstance(call.callee, NnClass):
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


def _make_factory(calls: list[Call], dialect: Dialect) -> Factory | None:
    """Return the function that makes all these calls; None where their bounds follow no rule."""
    first = calls[0]
    assert isinstance(first.callee, NnClass)
    found = Factory(first.callee, dialect)
    for at, argument in enumerate(first.arguments):
        values = [c.arguments[at].value for c in calls]
        if not argument.name:
            assert isinstance(argument.value, Literal)
            found.positional.append(argument.value.hint)
        elif argument.default is not MISSING and isinstance(argument.value, Literal):
            if any(isinstance(v, Literal) and v.value != argument.default for v in values):
                found.passed[argument.name] = argument.default
        elif fan_in_of(argument.value) is not None:
            rule = _find_rule(calls, [fan_in_of(v) or 0 for v in values])
            if rule is None:
                return None
            found.fixed[argument.name] = _with_fan_in(argument.value, rule.text())
        else:
            found.fixed[argument.name] = argument.value
    names = {argument.name for argument in first.arguments}
    for argument in first.arguments:
        if argument.instead is not None:
            found.is_padded = argument.instead[0] in found.passed or argument.instead[0] not in names
            found.fixed[argument.name] = argument.value if found.is_padded else argument.instead[1]
    return found


def fan_in_of(part: Part) -> int | None:
    """Return the fan-in that a distribution depends on; None for one that depends on none."""
    found = next((inner for inner in walk(part) if isinstance(inner, FanIn)), None)
    if found is None:
        return None
    return math.prod(int(str(literal.value)) for literal, _ in literals(found))


def _with_fan_in(part: Part, text: str) -> Part:
    """Return a distribution with the fan-in written as `text`."""
    return text if isinstance(part, FanIn) else rebuild(part, lambda inner: _with_fan_in(inner, text))


@dataclass(frozen=True, slots=True)
class _FanIn:
    """The fan-in of a layer's weight as a product of its arguments.

    Attributes:
        channels: the argument that counts the channels.
        axes: the spatial axes, over each of which the kernel is as long.
        is_grouped: whether the channels are divided among groups.
    """

    channels: str
    axes: int = 0
    is_grouped: bool = False

    def value(self, given: dict[str, int]) -> int | None:
        """Return the product of these arguments; None where one is missing."""
        names = [
            self.channels,
            *(["kernel_size"] if self.axes else []),
            *(["group"] if self.is_grouped else []),
        ]
        if not all(name in given for name in names):
            return None
        channels = given[self.channels] // (given["group"] if self.is_grouped else 1)
        return channels * (given["kernel_size"] ** self.axes if self.axes else 1)

    def text(self) -> str:
        """Return the product as source."""
        channels = f"{self.channels} // group" if self.is_grouped else self.channels
        kernel = "kernel_size" if self.axes == 1 else f"kernel_size**{self.axes}"
        return f"{channels} * {kernel}" if self.axes else channels


_RULES = (
    *(_FanIn("in_channels", axes) for axes in range(4)),
    *(_FanIn("in_channels", axes, is_grouped=True) for axes in (1, 2)),
    _FanIn("out_channels", 2),
)
"""Products for the fan-in; the first that holds for every layer is written."""


def _find_rule(calls: list[Call], fan_ins: list[int]) -> _FanIn | None:
    """Return the fan-in as one product of arguments that holds for every call; None if there is none."""
    known = [_integers(call) for call in calls]
    for rule in _RULES:
        if all(rule.value(numbers) == fan_in for numbers, fan_in in zip(known, fan_ins, strict=True)):
            return rule
    return None


def _integers(call: Call) -> dict[str, int]:
    """Return the integer arguments of a call by name."""
    found: dict[str, int] = {}
    for argument in call.arguments:
        if isinstance(argument.value, Literal) and isinstance(argument.value.value, int):
            found[argument.name or argument.value.hint] = argument.value.value
    return found


def _is_worth_it(factory: Factory, group: list[tuple[object, Call]]) -> bool:
    """Whether the function saves more lines than it costs."""
    places = {place: _estimate_lines(call) - _estimate_lines(factory.apply(call)) for place, call in group}
    return len(places) >= _PLACES and sum(places.values()) > factory.separators() + 4


def _estimate_lines(call: Call) -> int:
    """Estimate how many lines `ruff format` makes of a constructor."""
    if len(Renderer().text(call)) <= _LINE:
        return 1
    return 3 if len(Renderer().arguments(call)) <= _LINE + 6 else 3 + _separators(call)


def _separators(part: Part) -> int:
    """Return how many commas separate what a part is written of."""
    if isinstance(part, Literal):
        return _value_separators(part.value)
    inner = [c for c in children(part) if not isinstance(c, str)]
    if isinstance(part, Call):
        inner = [a.value for a in part.arguments if not Renderer().is_default(a)]
    own = len(inner) - 1 if isinstance(part, (Call, Tuple)) and inner else 0
    return own + sum(map(_separators, inner))


def _value_separators(value: object) -> int:
    """Return how many commas a literal is written with."""
    if not isinstance(value, (tuple, list)):
        return 0
    return max(len(value) - 1, 0) + sum(map(_value_separators, value))
