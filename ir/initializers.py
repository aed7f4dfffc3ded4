"""Initial distributions of parameters: a law and its arguments."""

from __future__ import annotations

from dataclasses import dataclass

LAWS: dict[str, tuple[str, ...]] = {
    "zeros": (),
    "ones": (),
    "constant": ("value",),
    "uniform": ("low", "high"),
    "normal": ("mean", "std"),
    "trunc_normal": ("mean", "std", "low", "high"),
    "he_uniform": ("a", "mode"),
    "he_normal": ("a", "mode"),
    "xavier_uniform": ("gain",),
    "xavier_normal": ("gain",),
    "orthogonal": ("gain",),
    "identity": (),
    "dirac": ("groups",),
    "sparse": ("sparsity", "std"),
    "bilinear": (),
    "lstm_bias": ("forget_bias",),
    "unknown": (),
}
"""Law -> names of its arguments.

``uniform(low, high)`` and ``normal(mean, std)`` are literal bounds and moments; ``he_*`` take the negative
slope ``a`` and ``mode`` ("fan_in" or "fan_out"); ``trunc_normal`` cuts at the values ``low`` and ``high``;
``unknown`` states that no single law drew the parameter, which no default may replace.
"""


@dataclass(frozen=True, slots=True)
class Initializer:
    """An initial distribution, e.g. ``Initializer.of("he_uniform", a=5 ** 0.5, mode="fan_in")``."""

    law: str
    arguments: tuple[tuple[str, float | str], ...] = ()

    @staticmethod
    def of(law: str, **arguments: float | str) -> Initializer:
        """Return the initializer of a law with its arguments.

        Raises:
            ValueError: for a law or argument that `LAWS` does not have.
        """
        if law not in LAWS or not set(arguments) <= set(LAWS[law]):
            raise ValueError(f"no initial distribution `{law}` with arguments {sorted(arguments)}")
        return Initializer(law, tuple((name, arguments[name]) for name in LAWS[law] if name in arguments))

    def argument(self, name: str, default: float | str) -> float | str:
        """Return one argument, or `default` where it is not given."""
        return dict(self.arguments).get(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        """Return one argument that is a number, or `default` where it is not given."""
        return float(self.argument(name, default))

    def __str__(self) -> str:
        inner = ", ".join(f'{k}="{v}"' if isinstance(v, str) else f"{k}={v!r}" for k, v in self.arguments)
        return f"{self.law}({inner})"
