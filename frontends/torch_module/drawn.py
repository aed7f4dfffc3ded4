"""Tells from its values that a parameter was re-initialised, and with which of the usual laws.

A model that calls ``nn.init.kaiming_normal_`` in its constructor leaves no trace but the values. Where they
contradict the law of the layer's class and pass the tests of a usual law, that law is the source's.
Trained values pass none of them, and keep the law of the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from ...ir import Initializer

if TYPE_CHECKING:
    from torch import Tensor

_SAMPLE = 65536  # values looked at: enough to tell two per cent in the spread
_FEWEST = 1000  # fewer do not tell one spread from another
_SIGMAS = 5.0  # a test that a sample of the law itself fails once in millions


def drawn_from(values: Tensor, law: Initializer | None) -> Initializer | None:
    """The law that fresh values show; `law` where they do not contradict it or tell no other.

    Args:
        values: the parameter, of any shape.
        law: what its class draws it from, or None.
    """
    if law is None or values.device.type == "meta" or not values.is_floating_point() or values.numel() < 2:
        return law
    sample = values.detach().flatten()[:_SAMPLE].double().cpu().numpy()
    if (sample == sample[0]).all():
        return _constant(float(sample[0]), law)
    if law.law in ("zeros", "ones", "constant") or len(sample) < _FEWEST:
        return law
    if _follows(sample, law, values.shape):
        return law
    return next((c for c in _usual(values.shape) if _follows(sample, c, values.shape)), law)


def _constant(value: float, law: Initializer) -> Initializer:
    """All values are one number: only a constant draws that."""
    if law.law == "constant":
        return law
    named = {0.0: "zeros", 1.0: "ones"}.get(value)
    return Initializer.of(named) if named else Initializer.of("constant", value=value)


def _usual(shape: tuple[int, ...]) -> Iterator[Initializer]:
    """The laws that models re-initialise with."""
    if len(shape) > 1:
        for mode in ("fan_out", "fan_in"):
            yield Initializer.of("he_normal", a=0.0, mode=mode)
            yield Initializer.of("he_uniform", a=0.0, mode=mode)
        yield Initializer.of("xavier_uniform", gain=1.0)
        yield Initializer.of("xavier_normal", gain=1.0)
    for std in (0.01, 0.02, 0.001, 1.0):
        yield Initializer.of("normal", mean=0.0, std=std)


def _follows(sample: np.ndarray, law: Initializer, shape: tuple[int, ...]) -> bool:
    """Whether a sample has the mean, the spread and the tails of a law, within what chance allows."""
    spread = _spread(law, shape)
    if spread is None:
        return True  # a law that this cannot test is not contradicted
    std, is_uniform = spread
    n = len(sample)
    kurtosis = 1.8 if is_uniform else 3.0
    centred = sample / std
    moments = (
        (abs(centred.mean()), 1.0),
        (abs((centred**2).mean() - 1), sqrt(kurtosis - 1)),
        (abs((centred**4).mean() - kurtosis), 2.4 if is_uniform else sqrt(96.0)),  # E z^8 is 9 and 105
    )
    within = all(found <= _SIGMAS * deviation / sqrt(n) for found, deviation in moments)
    return within and not (is_uniform and np.abs(sample).max() > std * sqrt(3) * (1 + 1e-5))


def _spread(law: Initializer, shape: tuple[int, ...]) -> tuple[float, bool] | None:
    """(standard deviation, whether uniform) of a law for a tensor of this shape; None where not simple."""
    number = lambda name, default: float(law.argument(name, default))  # noqa: E731
    if law.law == "uniform":
        return (number("high", 1.0) - number("low", -1.0)) / sqrt(12), True
    if law.law == "normal" and number("mean", 0.0) == 0:
        return number("std", 1.0), False
    if len(shape) < 2 or 0 in shape:
        return None
    field = prod(shape[2:])
    fans = {"fan_in": shape[1] * field, "fan_out": shape[0] * field}
    uniform = law.law.endswith("uniform")
    if law.law.startswith("he_"):
        gain = sqrt(2 / (1 + number("a", 0.0) ** 2))
        return gain / sqrt(fans[str(law.argument("mode", "fan_in"))]), uniform
    if law.law.startswith("xavier_"):
        return number("gain", 1.0) * sqrt(2 / sum(fans.values())), uniform
    return None
