"""The form of a layer's record: its class, its arguments, and its parameters with their distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import isclose, prod, sqrt
from typing import Any

from ..ir import Initializer
from ..ir.initializers import LAWS
from .drawing import Drawing, Written, spelled

Shape = tuple[int, ...]
Arguments = dict[str, object]
"""Keyword of a constructor -> its value."""
Law = Initializer | Callable[[Shape, Shape], Initializer | None]
"""A distribution, or what gives it for the shapes of the tensor and of its layer's weight."""

ZEROS, ONES = Initializer.of("zeros"), Initializer.of("ones")
HE = Initializer.of("he_uniform", a=sqrt(5), mode="fan_in")
"""torch's and, since 2.1, MindSpore's law of a convolution's or dense layer's weight."""
SLOPE = Initializer.of("constant", value=0.25)


def same(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """Return one number for equal numbers, else a tuple."""
    return int(numbers[0]) if len(set(numbers)) == 1 else tuple(int(n) for n in numbers)


def symmetric(bound: float) -> Initializer:
    """Return the uniform distribution from -bound to bound."""
    return Initializer.of("uniform", low=-bound, high=bound)


def normal(std: float) -> Initializer:
    """Return the normal distribution about 0."""
    return Initializer.of("normal", mean=0.0, std=std)


def inverse_root(count: int) -> Initializer | None:
    """Return uniform(±1/sqrt(count)); None for a count of 0."""
    return symmetric(1 / sqrt(count)) if count > 0 else None


def over_fan_in(_: Shape, weight: Shape) -> Initializer | None:
    """Return uniform(±1/sqrt(fan-in)), whose fan-in is the weight's second dimension times its kernel."""
    return inverse_root(prod(weight[1:]))


def over_hidden(gates: int) -> Law:
    """Return uniform(±1/sqrt(hidden size)); the rows of a gate-stacked tensor give the hidden size."""
    return lambda own, _: inverse_root(own[0] // gates)


def is_same(law: Initializer | None, other: Initializer | None) -> bool:
    """Whether two laws are known and one, up to the digits of their numbers."""
    if law is None or other is None or law.law != other.law:
        return False
    numbers = [name for name in LAWS[law.law] if name != "mode"]
    alike = law.argument("mode", "") == other.argument("mode", "")
    return alike and all(isclose(law.number(name), other.number(name), rel_tol=1e-6) for name in numbers)


@dataclass(frozen=True, slots=True)
class State:
    """A parameter or buffer of a layer.

    Attributes:
        name: its attribute in the layer, as a pattern of `fnmatch`.
        law: what the framework draws it from by default.
        argument: the constructor's argument for its initializer; empty for none.
        role: torch's name for it, where that is another.
        kept: the attribute in which the layer keeps that argument, where that is another.
        number: the constructor's argument for the one number that it begins at; empty for none.
    """

    name: str
    law: Law
    argument: str = ""
    role: str = ""
    kept: str = ""
    number: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a framework.

    Attributes:
        name: its class; "*" for any.
        states: its parameters and buffers.
        defaults: keyword of its constructor -> what it is where it is left out; `...` for one that never is.
        like: torch's class for the same, where that is another.
        keywords: setting -> its keyword, where the framework's other layers have another.
    """

    name: str
    states: tuple[State, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict[str, object])
    like: str = ""
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])


class Framework:
    """The layers of a framework by class, and its initializers by law.

    A setting has the name of the attribute of ONNX's operator, else that of torch's argument.

    Args:
        layers: the layers.
        drawings: the initializers.
        keywords: setting -> the keyword that layers have for it, where that is another word.
        meanings: setting -> what layers are given for a value of ONNX's attribute, where that is another,
            or the arguments that they are given.
        padding: gives a layer's arguments for padding, all begins before all ends; None where it has none.
        prefix: stands before the name of an initializer.
        number: writes a number.
    """

    def __init__(
        self,
        layers: Iterable[Layer],
        drawings: Iterable[Drawing],
        keywords: Mapping[str, str] | None = None,
        meanings: Mapping[str, Callable[[Any], float | Arguments | None]] | None = None,
        padding: Callable[[str, Sequence[int]], Arguments | None] = lambda _, __: None,
        prefix: str = "",
        number: Callable[[float], str] = "{:g}".format,
    ) -> None:
        self.layers = {layer.name: layer for layer in layers}
        self.likes = {layer.like or layer.name: layer.name for layer in self.layers.values()}
        self.keywords, self.meanings, self.padding = keywords or {}, meanings or {}, padding
        self.prefix, self.number = prefix, number
        self.drawings = {drawing.law: drawing for drawing in drawings}
        self._named = {name.lower(): d for d in self.drawings.values() for name in (d.law, d.function)}

    def drawing(self, name: str) -> Drawing | None:
        """Return the initializer of a name, which may be its law's; None where there is none."""
        return self._named.get(name.lower())

    def drawn(self, law: Initializer) -> tuple[str, Written] | None:
        """Return the initializer of a law and its arguments; None where there is none."""
        drawing = self.drawings.get(law.law)
        written = None if drawing is None else drawing.write(law)
        return None if drawing is None or written is None else (self.prefix + drawing.function, written)

    def text(self, law: Initializer, tensor: str = "") -> str:
        """Return the initializer of a law as source code; empty where there is none.

        Args:
            law: the law.
            tensor: what the initializer is given first; empty for one that a layer is given.
        """
        found = self.drawn(law)
        if found is not None and not tensor and law.law in ("zeros", "ones"):
            return f'"{law.law}"'
        return "" if found is None else spelled(*found, self.number, tensor)

    def state(self, class_name: str, attribute: str) -> State | None:
        """Return the parameter or buffer that an attribute of a layer holds; None where there is none."""
        layers = [self.layers[name] for name in (class_name, "*") if name in self.layers]
        states = [state for layer in layers for state in layer.states]
        return next((state for state in states if fnmatchcase(attribute, state.name)), None)

    def keyword(self, class_name: str, setting: str) -> str:
        """Return the keyword that a setting has in a class, whether or not the class takes it."""
        layer = self.layers.get(class_name)
        own = None if layer is None else layer.keywords.get(setting)
        return own or self.keywords.get(setting, setting)

    def taken(self, class_name: str, setting: str) -> str:
        """Return the keyword of a layer for a setting; empty where the layer takes none."""
        layer, found = self.layers.get(class_name), self.keyword(class_name, setting)
        return found if layer is not None and found in layer.defaults else ""

    def setting(self, class_name: str, keyword: str) -> str:
        """Return the setting that a layer's keyword is."""
        layer = self.layers.get(class_name)
        for keywords in ({} if layer is None else layer.keywords, self.keywords):
            found = next((setting for setting, word in keywords.items() if word == keyword), "")
            if found:
                return found
        return keyword

    def arguments(
        self, class_name: str, setting: str, value: object, pads: Sequence[int] | None = None
    ) -> Arguments:
        """Return the constructor's arguments that give a layer a setting; empty where there are none.

        Args:
            class_name: its class.
            setting: the setting.
            value: the setting as ONNX's attribute has it.
            pads: of "padding", all begins before all ends.
        """
        keyword = self.taken(class_name, setting)
        if setting == "padding":
            return (self.padding(class_name, pads) or {}) if keyword and pads is not None else {}
        meaning = self.meanings.get(setting)
        found = {keyword: value} if meaning is None else meaning(value)
        return {} if not keyword else found if isinstance(found, dict) else {keyword: found}

    def default_law(
        self, class_name: str, attribute: str, shape: Shape, weight: Shape | None = None
    ) -> Initializer | None:
        """Return what a layer draws a parameter from by default; None where that is not known.

        Args:
            class_name: the layer's class.
            attribute: the parameter's name in it.
            shape: the parameter's.
            weight: the shape of the layer's weight; None where it has none.
        """
        state = self.state(class_name, attribute)
        law = None if state is None else state.law
        return law(shape, shape if weight is None else weight) if callable(law) else law
