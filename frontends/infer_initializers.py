"""Tells from their values that parameters were re-initialised, and with which of the usual laws.

A model that calls ``nn.init.kaiming_normal_`` in its constructor leaves no trace but the values. Parameters
of one kind (the weights of all convolutions, say) are judged together, because a small or a square one alone
cannot tell one law from another: the law that explains most of them is taken first, the class's own before
any other. In a model that shows training otherwise, what no law explains keeps the law of its class. In one
that shows none, it is a plain normal or uniform law with the spread that the values show, where they are
distributed so, and else it is not known, as nothing is where no law explains most of them: another law than
the model's own would pass for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, isclose, log10, prod, sqrt

import numpy as np

from ..frameworks.mindspore import UNIFORM_SCALE
from ..frameworks.record import symmetric
from ..ir import Initializer

UNKNOWN = Initializer.of("unknown")
"""Distribution of values that match neither their class's law nor another one."""

SAMPLE = 65536
"""Values of a parameter that are looked at: enough to tell two per cent in the spread."""

_GLANCE = 64
_FEWEST = 1000  # fewer do not tell a law by themselves, they only join one
_SIGMAS = 5.0  # a test that a sample of the law itself fails once in millions
_SMALL_SIGMAS = 9.0  # and where there are so few values that their squares are not nearly normal
_CONSTANT = ("zeros", "ones", "constant")
_USUAL = (  # what models re-initialise with; at last MindSpore's Uniform and the norms of adversarial nets
    *(
        Initializer.of(law, a=0.0, mode=mode)
        for mode in ("fan_out", "fan_in")
        for law in ("he_normal", "he_uniform")
    ),
    Initializer.of("xavier_uniform", gain=1.0),
    Initializer.of("xavier_normal", gain=1.0),
    *(Initializer.of("normal", mean=0.0, std=std) for std in (0.01, 0.02, 0.001, 1e-6, 1.0)),
    symmetric(UNIFORM_SCALE),
    Initializer.of("normal", mean=1.0, std=0.02),
)


@dataclass(frozen=True, slots=True)
class Held:
    """A parameter as a module holds it.

    Attributes:
        shape: its shape.
        values: gives its first `SAMPLE` values, flat; None where it has none that tell anything.
        law: what the module's class draws it from; None where that is not known.
        kind: equal for parameters that one line of a constructor would draw.
    """

    shape: tuple[int, ...]
    values: Callable[[], np.ndarray | None]
    law: Initializer | None
    kind: Hashable


@dataclass(frozen=True, slots=True)
class _Sample:
    """The first values of a parameter, by their moments about 0."""

    at: int
    held: Held
    count: int
    mean: float
    square: float
    fourth: float
    largest: float


def infer_laws(parameters: Sequence[Held]) -> list[Initializer | None]:
    """Infer the law of every parameter from the values of all of them.

    `UNKNOWN` where they contradict the class and follow no other law; None where nothing states a law.
    """
    laws = [held.law for held in parameters]
    kinds: dict[Hashable, list[_Sample]] = defaultdict(list)
    room = np.empty(SAMPLE)  # for one after another: new memory for each costs more than what is computed
    trained = 0  # parameters that their class would set to one number, and that hold others
    for at, held in enumerate(parameters):
        values = held.values()
        if values is None or not values.size:
            continue
        sample = _take_sample(at, held, values, room)
        if isinstance(sample, _Sample):
            constant_law = held.law is not None and held.law.law in _CONSTANT
            trained += constant_law
            if held.law is None or constant_law or _law_moments(held.law, held.shape) is not None:
                kinds[held.kind].append(sample)  # any other is taken at its word
        elif prod(held.shape) > 1 or held.law is None:
            laws[at] = _constant(sample, held.law)
    unexplained: list[_Sample] = []
    for samples in kinds.values():
        left = list(samples)
        while found := _explain_most(left):
            followers, law = found
            for sample in followers:
                laws[sample.at] = law or sample.held.law
            explained = {s.at for s in followers}
            left = [s for s in left if s.at not in explained]
        unexplained += left
    if not trained:
        most = 2 * len(unexplained) > sum(map(len, kinds.values()))  # it may be trained: no spread is a law
        for sample in unexplained:
            contradicted = None if sample.held.law is None else UNKNOWN
            laws[sample.at] = (None if most else _plain(sample)) or contradicted
    return laws


def drawn(values: np.ndarray) -> np.ndarray:
    """Return the drawn elements of a tensor, flat: without the row of zeros of a table's padding."""
    if values.ndim != 2 or values.shape[0] < 2 or not values.shape[1]:
        return values.reshape(-1)
    empty = np.flatnonzero(values[:, 0] == 0)  # few rows begin so, and the others need no look
    empty = empty[~values[empty].any(axis=1)]
    return values.reshape(-1) if len(empty) != 1 else np.delete(values, empty[0], axis=0).reshape(-1)


def _take_sample(at: int, held: Held, x: np.ndarray, room: np.ndarray) -> _Sample | float:
    """Return a parameter's moments, computed in `room`; its value if all its values are one number."""
    if bool((x[:_GLANCE] == x[0]).all()) and bool((x == x[0]).all()):
        return float(x[0])
    values = room[: len(x)]
    values[:] = x
    mean, largest = float(values.mean()), float(max(values.max(), -values.min()))
    squares = np.multiply(values, values, out=values)
    return _Sample(
        at,
        held,
        len(x),
        mean,
        float(squares.mean()),
        float(squares.dot(squares)) / len(x),
        largest,
    )


def _constant(value: float, law: Initializer | None) -> Initializer:
    """Return the constant law of a tensor whose values are all one number."""
    if law is not None and law.law == "constant":
        return law
    return constant(value)


def constant(value: float) -> Initializer:
    """Return the law of a tensor that is one number everywhere."""
    name = {0.0: "zeros", 1.0: "ones"}.get(value)
    return Initializer.of(name) if name else Initializer.of("constant", value=value)


def find_usual_law(law: Initializer, shape: tuple[int, ...]) -> Initializer:
    """Return the usual law that is the same distribution for a tensor of this shape; else `law` itself."""
    own = _law_moments(law, shape) if law.law in ("uniform", "normal") else None
    if own is None or own[0] != 0 or len(shape) < 2:
        return law
    for usual in _USUAL:
        moments = _law_moments(usual, shape)
        if (
            usual.law not in ("normal", "uniform")
            and moments
            and moments[2] == own[2]
            and isclose(moments[1], own[1])
        ):
            return usual
    return law


def _explain_most(samples: list[_Sample]) -> tuple[list[_Sample], Initializer | None] | None:
    """Return the samples that the law of most of them explains, and that law: None for the class's own."""
    own = [s for s in samples if s.held.law is not None and _follows(s, s.held.law)]
    best: tuple[list[_Sample], Initializer | None] | None = (own, None) if own else None
    for law in _USUAL:
        followers = [s for s in samples if _follows(s, law)]
        told_by_itself = any(s.count >= _FEWEST for s in followers)
        if told_by_itself and (best is None or len(followers) > len(best[0])):
            best = followers, law
    return best


def _follows(sample: _Sample, law: Initializer) -> bool:
    """Whether a sample has the mean, the spread and the tails of a law, within what chance allows."""
    moments = _law_moments(law, sample.held.shape)
    if moments is None:
        return False
    mean, std, is_uniform = moments
    if std == 0:
        return False
    many = sample.count >= _FEWEST
    if mean:  # about its own mean; how far it may be off is told by the first two moments alone
        centre, square = (sample.mean - mean) / std, (sample.square - sample.mean**2) / std**2
        tails = 3.0
    else:
        centre, square, tails = sample.mean / std, sample.square / std**2, sample.fourth / std**4
    kurtosis = 1.8 if is_uniform else 3.0
    far = [
        (abs(centre), 1.0),
        (abs(square - 1), sqrt(kurtosis - 1)),
        (abs(tails - kurtosis) if many else 0.0, 2.4 if is_uniform else sqrt(96.0)),  # E z^8 is 9 and 105
    ]
    sigmas = _SIGMAS if many else _SMALL_SIGMAS
    within = all(found <= sigmas * deviation / sqrt(sample.count) for found, deviation in far)
    return within and not (is_uniform and sample.largest > std * sqrt(3) * (1 + 1e-5))


def _plain(sample: _Sample) -> Initializer | None:
    """Return a normal or uniform law about 0 with the spread of many values; None if neither fits."""
    if sample.count < _FEWEST:
        return None
    std = sqrt(sample.square)
    if std == 0:
        return None
    digits = 1 - floor(log10(std))
    rounded = round(std, digits)
    for measured in dict.fromkeys((rounded, round(std, digits + 1))):
        law = Initializer.of("normal", mean=0.0, std=measured)
        if _follows(sample, law):
            return law
    unit = 10.0 ** (floor(log10(sample.largest)) - 3)
    bound = float(f"{ceil(sample.largest / unit) * unit:.4g}")
    law = Initializer.of("uniform", low=-bound, high=bound)
    return law if _follows(sample, law) else None


@lru_cache(maxsize=1024)
def _law_moments(law: Initializer, shape: tuple[int, ...]) -> tuple[float, float, bool] | None:
    """(mean, standard deviation, whether uniform) of a law for a shape; None where they are not simple."""
    if law.law == "uniform":
        low, high = law.number("low", -1.0), law.number("high", 1.0)
        return (low + high) / 2, (high - low) / sqrt(12), True
    if law.law == "normal":
        return law.number("mean", 0.0), law.number("std", 1.0), False
    if len(shape) < 2 or 0 in shape:
        return None
    field = prod(shape[2:])
    fans = {"fan_in": shape[1] * field, "fan_out": shape[0] * field}
    uniform = law.law.endswith("uniform")
    if law.law.startswith("he_"):
        gain = sqrt(2 / (1 + law.number("a", 0.0) ** 2))
        return 0.0, gain / sqrt(fans[str(law.argument("mode", "fan_in"))]), uniform
    if law.law.startswith("xavier_"):
        return 0.0, law.number("gain", 1.0) * sqrt(2 / sum(fans.values())), uniform
    return None
