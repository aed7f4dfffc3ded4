"""The form of an initializer's record: the class or function that draws from a law, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isclose, sqrt

from ..ir import Initializer

Number = float | str
Written = tuple[tuple[str, str, Number], ...]
"""For each argument: the keyword (empty if positional), the law's name of it, and its value."""

_MEANT = {("uniform", "low"): -1.0, ("uniform", "high"): 1.0, ("normal", "std"): 1.0}
"""(law, argument) -> its value in a law that does not state it, where initializers have other defaults."""


@dataclass(frozen=True, slots=True)
class Term:
    """An argument of an initializer.

    Attributes:
        name: the law's name of it.
        keyword: the initializer's; empty for one that it lacks.
        default: its value where it is left out, which gives the type of all its values.
        always: whether it is written where it has that value, too.
        named: whether it is written with its keyword.
    """

    name: str
    keyword: str
    default: Number
    always: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """An initializer of a framework.

    Attributes:
        law: the law that it draws from.
        function: its class, or its function.
        terms: its arguments, in their order.
        more: gives further arguments for a law.
    """

    law: str
    function: str
    terms: tuple[Term, ...] = ()
    more: Callable[[Initializer], Written] | None = None

    def read(self, given: Mapping[str, object]) -> Initializer | None:
        """Return the law that arguments stand for, by keyword; None where one of them is no number."""
        values: dict[str, Number] = {}
        for term in self.terms:
            value = given.get(term.keyword, term.default)
            if not isinstance(value, (int, float, str)):
                return None
            try:
                values[term.name] = type(term.default)(value)
            except ValueError:
                return None
        if self.law == "uniform":
            values.setdefault("low", -float(values["high"]))
        return Initializer.of(self.law, **values)

    def write(self, law: Initializer) -> Written | None:
        """Return the arguments that give a law; None where the initializer lacks one that matters.

        Those at their defaults are left out, but for positional ones before another that is written.
        """
        values = [law.argument(t.name, _MEANT.get((law.law, t.name), t.default)) for t in self.terms]
        if self.law == "uniform" and len(values) == 1 and law.number("low", -1.0) != -float(values[0]):
            return None
        pairs = list(zip(self.terms, values, strict=True))
        needed = [t.always or value != t.default for t, value in pairs]
        if any(each and not t.keyword for t, each in zip(self.terms, needed, strict=True)):
            return None
        rest = any(each for t, each in zip(self.terms[1:], needed[1:], strict=True) if not t.named)
        found = tuple(
            (t.keyword if t.named else "", t.name, value)
            for (t, value), each in zip(pairs, needed, strict=True)
            if each or (rest and t.keyword and not t.named)
        )
        return found if self.more is None else (*found, *self.more(law))


def relu_gain(law: Initializer) -> Written:
    """Return what He's initializers are given too: with a slope of 0, leaky_relu's gain is relu's."""
    return () if law.number("a") else (("nonlinearity", "nonlinearity", "relu"),)


def spelled(function: str, written: Written, number: Callable[[float], str], tensor: str = "") -> str:
    """Return the call of an initializer as source code.

    Args:
        function: the initializer.
        written: its arguments.
        number: writes a number.
        tensor: a first argument; empty for none.
    """
    texts = [tensor] if tensor else []
    for keyword, name, value in written:
        text = f'"{value}"' if isinstance(value, str) else root(name, value) or number(value)
        texts.append(f"{keyword}={text}" if keyword else text)
    return f"{function}({', '.join(texts)})"


def root(name: str, value: float) -> str:
    """Return how a slope of sqrt(5) is written; empty for any other argument."""
    return "math.sqrt(5)" if name == "a" and isclose(value, sqrt(5)) else ""
