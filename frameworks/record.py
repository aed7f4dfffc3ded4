"""The form of a layer's record: its class, and its parameters with their default distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod, sqrt

from ..ir import Initializer
from .drawing import Drawing, Written

Shape = tuple[int, ...]
Law = Initializer | Callable[[Shape, Shape], Initializer | None]
"""A distribution, or what gives it for the shapes of the tensor and of its layer's weight."""

ZEROS, ONES = Initializer.of("zeros"), Initializer.of("ones")
HE = Initializer.of("he_uniform", a=sqrt(5), mode="fan_in")
"""torch's and, since 2.1, MindSpore's law of a convolution's or dense layer's weight."""
SLOPE = Initializer.of("constant", value=0.25)


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
    """

    name: str
    states: tuple[State, ...] = ()

    def state(self, attribute: str) -> State | None:
        """Return the parameter or buffer that an attribute holds; None for another attribute."""
        return next((state for state in self.states if fnmatchcase(attribute, state.name)), None)


class Framework:
    """The layers of a framework by class, and its initializers by law."""

    def __init__(self, layers: Iterable[Layer], drawings: Iterable[Drawing]) -> None:
        self.layers = {layer.name: layer for layer in layers}
        self.drawings = {drawing.law: drawing for drawing in drawings}
        self._named = {name.lower(): d for d in self.drawings.values() for name in (d.law, d.function)}

    def drawing(self, name: str) -> Drawing | None:
        """Return the initializer of a name, which may be its law's; None where there is none."""
        return self._named.get(name.lower())

    def drawn(self, law: Initializer) -> tuple[str, Written] | None:
        """Return the initializer of a law and its arguments; None where there is none."""
        drawing = self.drawings.get(law.law)
        written = None if drawing is None else drawing.write(law)
        return None if drawing is None or written is None else (drawing.function, written)

    def layer(self, class_name: str) -> Layer | None:
        """Return the record of a class; None where there is none."""
        return self.layers.get(class_name) or self.layers.get("*")

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
        layer = self.layer(class_name)
        state = None if layer is None else layer.state(attribute)
        law = None if state is None else state.law
        return law(shape, shape if weight is None else weight) if callable(law) else law
