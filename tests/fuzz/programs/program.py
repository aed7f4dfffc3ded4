"""A random program: lines of Python, each of which makes one more value of those before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

EXAMPLE, OTHERS = 2, (3, 5)
"""The batch size that is loaded, and those that are run too."""


@dataclass
class Program:
    """What is drawn.

    Attributes:
        inputs: name -> shape without the batch, and element type.
        lines: name -> the expression that makes it.
        outputs: the names that are returned.
        fixed: whether only the batch size of the example is right for it.
    """

    inputs: dict[str, tuple[tuple[int, ...], str]]
    lines: dict[str, str] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    fixed: bool = False

    def source(self, head: str = "") -> str:
        """A function, as text."""
        body = "".join(f"    {name} = {text}\n" for name, text in self.lines.items())
        given = ", ".join([*(["self"] if head else []), *self.inputs])
        return f"def {head or 'program'}({given}):\n{body}    return {', '.join(self.outputs)},\n"

    def arrays(self, batch: int, seed: int = 0) -> list[np.ndarray]:
        """Inputs whose arithmetic is exact: eighths, small integers."""
        random = np.random.default_rng(seed)
        return [exact(random, (batch, *shape), dtype) for shape, dtype in self.inputs.values()]

    def __repr__(self) -> str:
        kinds = ", ".join(f"{n}: {d}[N, {', '.join(map(str, s))}]" for n, (s, d) in self.inputs.items())
        return f"{kinds}\n{self.source()}"


def exact(random: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Values of which sums and products are the same in every order."""
    if dtype == "bool":
        return random.random(shape) < 0.5
    whole = random.integers(-16, 17, shape)
    return (whole / 8 if np.dtype(dtype).kind == "f" else whole).astype(dtype)


Template = Callable[[st.DrawFn, "Values"], str]
"""Draws an expression over values there are."""


@dataclass
class Values:
    """The values of a program under way, as its framework computes them for the example.

    Attributes:
        program: the program.
        known: name -> the framework's tensor.
        rough: values that were rounded, which must not decide anything: another library's may differ.
        kind: tensor -> NumPy's letter for its type.
    """

    program: Program
    known: dict[str, Any]
    kind: Callable[[Any], str]
    rough: set[str] = field(default_factory=set)

    def pick(
        self,
        draw: st.DrawFn,
        kinds: str = "f",
        *,
        rank: int | None = None,
        least: int = 0,
        sharp: bool = False,
    ) -> str:
        """A value of one of these kinds and ranks.

        Raises:
            LookupError: when there is none.
        """
        fitting = [
            name
            for name, value in self.known.items()
            if self.kind(value) in kinds
            and len(value.shape) >= least
            and (rank is None or len(value.shape) == rank)
            and not (sharp and name in self.rough)
        ]
        if not fitting:
            raise LookupError("no such value")
        return draw(st.sampled_from(fitting[::-1]))

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.known[name].shape)

    def axis(self, draw: st.DrawFn, name: str, *, first: int = 1) -> int:
        """An axis of a value, that of the batch not among them unless asked for."""
        rank = len(self.shape(name))
        if rank <= first:
            raise LookupError("no such axis")
        return draw(st.integers(first, rank - 1))


def grow(
    draw: st.DrawFn,
    values: Values,
    templates: Sequence[Template],
    rounding: Sequence[Template],
    evaluate: Callable[[str], Any],
    length: int,
) -> Program:
    """Add lines to a program until it has as many, and return the last values."""
    program = values.program
    for _ in range(length):
        template = draw(st.sampled_from([*templates, *rounding]))
        try:
            text = template(draw, values)
            found = evaluate(text)
        except LookupError:
            continue
        name = f"v{len(program.lines)}"
        program.lines[name] = text
        values.known[name] = found
        used = {n for n in values.known if n != name and _reads(text, n)}
        if template in rounding or used & values.rough:
            values.rough.add(name)
    program.outputs = list(program.lines)[-3:] or list(program.inputs)[:1]
    return program


def _reads(text: str, name: str) -> bool:
    return any(word == name for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def close(got: np.ndarray, want: np.ndarray, name: str) -> None:
    """Assert that two results are equal but for rounding in their type.

    Raises:
        AssertionError: when they are not.
    """
    assert got.dtype == want.dtype, f"{name}: {got.dtype} for {want.dtype}"
    assert got.shape == want.shape, f"{name}: {got.shape} for {want.shape}"
    if want.dtype.kind not in "f":
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    share = 2e-2 if want.dtype == np.float16 else 1e-3
    finite = want[np.isfinite(want)].astype(np.float64)
    scale = float(np.abs(finite).max(initial=1.0))
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=share, atol=share * scale / 10, err_msg=name
    )
