"""Runs a decoder over tokens, in one pass or step by step, as a model that gives something for each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...ir import ModelError, UsageError, numpy_dtype
from ..runners.runs import ForwardingRunner, Run, Runner
from .feeding import Feeding, Pair, token_symbol
from .ports import Port

Arrays = Mapping[str, np.ndarray]


@dataclass(slots=True)
class Feeder:
    """Makes the inputs of a side for some of the tokens.

    Args:
        feeding: what feeds each input.
        streams: names of the streams for the inputs that take tokens or one value in every step.
        count: the number of tokens in all.
    """

    feeding: Feeding
    streams: Mapping[str, str]
    count: int

    def batch(self, streams: Arrays) -> int:
        """Return the number of examples."""
        for port in self.feeding.named("token"):
            array = streams[self.streams[port.name]]
            return array.shape[0] if array.ndim > 1 else 1
        return 1

    def feed(self, streams: Arrays, begin: int, end: int, caches: Arrays) -> dict[str, np.ndarray]:
        """Return the inputs for the tokens from `begin` to `end`, in the side's order."""
        found: dict[str, np.ndarray] = {}
        for port in self.feeding.ports.inputs:
            role = self.feeding.roles.get(port.name)
            if role is None:
                found[port.name] = caches[port.name]
            elif role in ("token", "same"):
                array = streams[self.streams[port.name]]
                found[port.name] = self._tokens(port, array, begin, end) if role == "token" else array
            else:
                found[port.name] = self._made(port, role, self.batch(streams), begin, end)
        return found

    def empty(self, streams: Arrays) -> dict[str, np.ndarray]:
        """Return the caches before the first token: without tokens, or zeros of a fixed size."""
        return {name: self._empty(pair, streams) for name, pair in self.feeding.pairs.items()}

    def _tokens(self, port: Port, array: np.ndarray, begin: int, end: int) -> np.ndarray:
        axis = min(array.ndim - 1, 1)
        part = array[begin:end] if axis == 0 else array[:, begin:end]
        alone = port.rank is not None and port.rank == array.ndim - 1 and end - begin == 1
        return np.ascontiguousarray(part.squeeze(axis) if alone else part)

    def _made(self, port: Port, role: str, batch: int, begin: int, end: int) -> np.ndarray:
        """Return positions, a number of tokens, or a mask."""
        dtype = numpy_dtype(port.dtype)
        dims = port.dims if port.dims is not None else (None, None)
        if role == "mask":
            return self._mask(port, batch, begin, end).astype(dtype)
        if role == "positions" and dims:
            at = np.arange(begin, end).astype(dtype)
            leading = [d if isinstance(d, int) else batch for d in dims[:-1]]
            leading[:] = [batch if at == len(leading) - 1 else d for at, d in enumerate(leading)]
            return np.ascontiguousarray(np.broadcast_to(at, (*leading, end - begin)))
        number = {"position": begin, "positions": begin, "last": end - 1, "length": end}[role]
        shape = [d if isinstance(d, int) else batch if axis == 0 else 1 for axis, d in enumerate(dims)]
        return np.full(shape, number, dtype)

    def _mask(self, port: Port, batch: int, begin: int, end: int) -> np.ndarray:
        """Return a mask: ones for the tokens up to `end`, or the triangle below them where it has rows."""
        dims = port.dims if port.dims is not None else (None, None)
        last, own = dims[-1] if dims else None, token_symbol(self.feeding)
        new = not self.feeding.pairs or (own is not None and last == own)
        width = last if isinstance(last, int) and last >= end else end - begin if new else end
        keys = np.arange(width)
        if len(dims) <= 2:
            seen = keys < (width if new else end)
            return np.broadcast_to(seen, (batch, width) if len(dims) == 2 else (width,)).copy()
        seen = keys[None, :] <= np.arange(begin, end)[:, None]
        leading = [d if isinstance(d, int) else batch if axis == 0 else 1 for axis, d in enumerate(dims[:-2])]
        values: np.ndarray = np.broadcast_to(seen, (*leading, end - begin, width))
        if "float" not in port.dtype:
            return values.copy()
        lowest = -65504.0 if port.dtype == "float16" else -3.4028234663852886e38
        return np.where(values, 0.0, lowest)

    def _empty(self, pair: Pair, streams: Arrays) -> np.ndarray:
        port = pair.input
        example = self.feeding.ports.examples.get(port.name)
        dims = port.dims if port.dims is not None else () if example is None else example.shape
        shape: list[int] = []
        for axis, dim in enumerate(dims):
            if axis == pair.axis:
                shape.append(0)
            elif axis == self._batch_axis(pair) and not isinstance(dim, int):
                shape.append(self.batch(streams))
            elif isinstance(dim, int):
                shape.append(dim)
            elif example is not None:
                shape.append(example.shape[axis])
            else:
                raise UsageError(
                    "E103",
                    f"expected a known size of axis {axis} of the cache `{port.name}`, got {list(dims)}",
                    place=self.feeding.ports.side,
                    hint=f"give it with --input {port.name}=SHAPE",
                )
        return np.zeros(shape, numpy_dtype(port.dtype))

    def _batch_axis(self, pair: Pair) -> int:
        """Return the axis of the examples: that of the symbol which the tokens have there, else the first."""
        symbols = {
            port.dims[0]
            for port in self.feeding.named("token")
            if port.dims and isinstance(port.dims[0], str)
        }
        dims = pair.input.dims or ()
        return next((a for a, dim in enumerate(dims) if dim in symbols), 0)


class TokenAxis(NamedTuple):
    """The axis of an output along which tokens lie.

    Attributes:
        axis: in one pass.
        kept: whether the output of a step has it too, of size 1.
    """

    axis: int
    kept: bool


@dataclass(slots=True)
class Traced:
    """The outputs of a run for each token, the token first, and the caches that it left.

    Attributes:
        plain: one array for each output that is no cache.
        caches: name of an input -> the cache after each step, or after the pass.
    """

    plain: list[np.ndarray]
    caches: dict[str, list[np.ndarray]] = field(default_factory=dict[str, list[np.ndarray]])


class DecoderRunner(ForwardingRunner):
    """A runner of a decoder whose outputs are those of all tokens, the token first.

    Args:
        runner: the model's own.
        feeder: makes its inputs.
        steps: whether it steps from token to token, or passes over all at once.
        axes: index among the outputs that are no cache -> the axis along which tokens lie; None for an
            output of the last token alone, which takes a pass for each token.

    Attributes:
        start: the caches after the first token, from which the steps begin; None for no token.
    """

    def __init__(
        self, runner: Runner, feeder: Feeder, *, steps: bool, axes: Mapping[int, TokenAxis | None]
    ) -> None:
        super().__init__(runner)
        self.feeder, self.steps, self.axes = feeder, steps, axes
        self.start: dict[str, np.ndarray] | None = None

    def run(self, inputs: Arrays, *, calls: bool = True) -> Run:
        """Run over all tokens; see `Runner`."""
        del calls
        return Run(list(zip(self.run_names, self.trace(inputs).plain, strict=True)))

    @property
    def run_names(self) -> list[str]:
        """The names of the outputs that are compared."""
        ports = self.feeder.feeding.ports.outputs
        return [ports[at].name for at in self._compared]

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one module call on its own; see `Runner`."""
        return self._runner.run_module(call, inputs)

    def run_with(self, inputs: Arrays, given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the model with other values in place of what some calls return; see `Runner`."""
        return self._runner.run_with(inputs, given)

    def trace(self, streams: Arrays) -> Traced:
        """Run over all tokens, and return the caches too."""
        return self._step(streams) if self.steps else self._pass(streams)

    def outputs(self, streams: Arrays, begin: int, end: int, caches: Arrays) -> list[np.ndarray]:
        """Return all outputs for some tokens."""
        run = self._runner.run(self.feeder.feed(streams, begin, end, caches), calls=False)
        return [array for _, array in run.outputs]

    def continued(self, streams: Arrays, caches: Arrays) -> list[np.ndarray]:
        """Return the outputs that are no cache of the last step, from other caches."""
        count = self.feeder.count
        found = self.outputs(streams, count - 1, count, caches)
        return [found[at] for at in self._compared]

    @property
    def _compared(self) -> list[int]:
        """The indices of the outputs that are compared."""
        plain = self.feeder.feeding.plain
        return [plain[at] for at in self.axes]

    def _step(self, streams: Arrays) -> Traced:
        feeding = self.feeder.feeding
        caches = self.feeder.empty(streams) if self.start is None else dict(self.start)
        found: list[list[np.ndarray]] = []
        kept: dict[str, list[np.ndarray]] = {name: [] for name in feeding.pairs}
        for step in range(0 if self.start is None else 1, self.feeder.count):
            outputs = self.outputs(streams, step, step + 1, caches)
            found.append([outputs[at] for at in self._compared])
            for name, pair in feeding.pairs.items():
                caches[name] = _next(caches[name], outputs[pair.output], pair)
                kept[name].append(caches[name])
        columns = zip(*found, strict=True)
        return Traced(
            [_stacked(some, axis) for some, axis in zip(columns, self.axes.values(), strict=True)], kept
        )

    def _pass(self, streams: Arrays) -> Traced:
        feeding, count = self.feeder.feeding, self.feeder.count
        caches = self.feeder.empty(streams)
        outputs = self.outputs(streams, 0, count, caches)
        before: list[list[np.ndarray]] = []
        if None in self.axes.values():
            before = [self.outputs(streams, 0, end, caches) for end in range(1, count)]
        found = [
            np.stack([*(run[at] for run in before), outputs[at]])
            if axis is None
            else np.moveaxis(outputs[at], axis.axis, 0)
            for at, axis in zip(self._compared, self.axes.values(), strict=True)
        ]
        left = {
            name: [_next(caches[name], outputs[pair.output], pair)] for name, pair in feeding.pairs.items()
        }
        return Traced(found, left)


def find_token_axes(
    whole: Sequence[np.ndarray], step: Sequence[np.ndarray], count: int
) -> dict[int, TokenAxis | None]:
    """Return index of an output -> the axis of a pass's along which tokens lie; None for the last token's.

    An output whose shapes are related in another way (weights of attention) is left out.

    Args:
        whole: the outputs of a pass over all tokens.
        step: those of a step.
        count: the number of tokens.
    """
    found: dict[int, TokenAxis | None] = {}
    for index, (a, b) in enumerate(zip(whole, step, strict=False)):
        if a.shape == b.shape:
            found[index] = None
            continue
        axes = [
            axis
            for axis in range(a.ndim)
            if a.shape[axis] == count
            and b.shape in (_with_size(a.shape, axis, (1,)), _with_size(a.shape, axis, ()))
        ]
        if axes:
            found[index] = TokenAxis(1 if 1 in axes else axes[0], a.ndim == b.ndim)
    return found


def _with_size(shape: tuple[int, ...], axis: int, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with another size of an axis, or without the axis."""
    return (*shape[:axis], *size, *shape[axis + 1 :])


def _next(cache: np.ndarray, output: np.ndarray, pair: Pair) -> np.ndarray:
    """Return the cache for the step after."""
    if not pair.appends:
        return output
    axis = pair.axis if pair.axis is not None else max(output.ndim - 2, 0)
    return np.concatenate([cache, output], axis)


def _stacked(arrays: Sequence[np.ndarray], axis: TokenAxis | None) -> np.ndarray:
    """Return an output of all steps as one array, without the axis of the one token.

    Raises:
        ModelError: if their shapes differ from step to step (E702).
    """
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1:
        some = ", ".join(str(list(shape)) for shape in sorted(shapes)[:3])
        raise ModelError("E702", f"expected outputs of one shape in every step, got {some}")
    found = np.stack(arrays)
    return np.squeeze(found, axis.axis + 1) if axis is not None and axis.kept else found
