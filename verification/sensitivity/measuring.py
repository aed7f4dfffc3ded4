"""Measures whether a wrong parameter would be noticed: changes each by a hundredth, and sees what moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from ...ir import Graph, ModelError, Operator, Parameter, Value
from ..compare import EPSILON, kind_of
from ..coverage import Sensitivity
from ..inputs import batch_symbols, bindings, resize_inputs
from ..report import ModuleRow, OutputRow
from ..runners.runs import CallRecord, ElementProber, Run, Runner, Varying

CHANGE = 1e-2
"""Share of an element that is added to it or subtracted; an absolute number if all elements are 0."""

_TIMES = 10
"""Least size of a change, as a multiple of the outputs' tolerance relative to their scale."""

TRIED = 24
"""Number of parameters that are changed, one run each, in a source without gradients."""

LIMIT = 1_000_000_000
"""Bytes of parameters above which no gradients are computed, which take as much again."""

_LARGE = 1_000_000
"""Bytes of inputs above which gradients are computed for one example, as they keep every value."""

_SOME = 2**14
"""Number of a parameter's first elements that are looked at before all of them."""

_AT_ONCE = 2**20
"""Number of elements that are changed at once, in float64."""

_ROOT, _OF_ROOT = "#1", 8
"""Call of the whole model, and the number of parameters of its own that are changed for a run each."""

_TRIES = 48
"""Number of runs in which parameters are changed whose gradient does not tell what they move."""

_BRIEF = 80
"""Number of characters of a framework's own message that are shown."""

_AROUND = 3
"""Number of enclosing modules that are tried for a parameter that moves no output."""

_FAR = 4
"""Factor by which parameters changed at once must stay below what is noticed, to be not tried one by one."""

_REPLAYED = 6
"""Number of modules whose values alone are kept: parameters of one, and of those around it, come in a row."""


@runtime_checkable
class Differentiable(Protocol):
    """A runner that can differentiate its model."""

    def gradients(
        self, inputs: Mapping[str, np.ndarray], weights: Sequence[np.ndarray | None]
    ) -> dict[str, np.ndarray]:
        """Name of a parameter -> the gradient of the sum of all outputs times weights, in evaluation mode.

        Args:
            inputs: arrays by input name.
            weights: one array of an output's shape for each output; None leaves it out.

        Raises:
            ModelError: when the model cannot be differentiated.
        """
        ...


class Measuring:
    """The measurement for one source.

    Args:
        graph: the source's graph.
        runner: the source's runner, after a run that recorded modules.
        inputs: inputs of that run.
        run: results of that run.
        outputs: the rows of its outputs.
        rows: the rows of its modules.
        alone: whether every module was compared on equal values, so that what moves its results is noticed.
    """

    def __init__(
        self,
        graph: Graph,
        runner: Runner,
        inputs: Mapping[str, np.ndarray],
        run: Run,
        outputs: Sequence[OutputRow],
        rows: Sequence[ModuleRow],
        *,
        alone: bool = False,
    ) -> None:
        self._modules_alone = alone
        self._graph, self._runner, self._inputs, self._run = graph, runner, inputs, run
        self._tolerances = [row.tolerance for row in outputs]
        self._rows = {row.call: row for row in rows}
        self._replayed: dict[str, list[np.ndarray]] = {}
        self._shrink = 1.0
        paths = graph.parameter_paths()
        self._names = {
            p.key: paths.get(p.key, [p.declared])[0] for p in graph.parameters() if _is_measured(graph, p)
        }
        relative = [row.tolerance / s for row, s in zip(outputs, self._scales(), strict=False) if s]
        self._change = max(CHANGE, _TIMES * max(relative, default=0.0))

    def _scales(self) -> list[float]:
        found = [
            np.abs(a[np.isfinite(a)]) if kind_of(a) == "f" else np.zeros(0) for _, a in self._run.outputs
        ]
        return [float(a.max(initial=0.0)) for a in found]

    def sensitivity(self) -> Sensitivity | None:
        """Return the effects of changing the parameters; None if there are none."""
        if not self._names:
            return None
        if isinstance(self._runner, Varying):
            return self._by_runs(self._runner)
        if not isinstance(self._runner, Differentiable):
            return Sensitivity(len(self._names), 0, unmeasured="not changed in the source's runtime")
        moved, why = (set[int](), "") if self._modules_alone else self._by_gradients(self._runner)
        left = [key for key in self._names if key not in moved]
        if not moved:  # then the outputs are the root's own values
            self._rows[_ROOT] = _row_of_root(self._tolerances)
            own = self._calls_around(left, 0).get(_ROOT, [])
            untried = own[_OF_ROOT:]
            if untried:
                why = f"{why}, and " if why else ""
                why += f"{len(untried)} of the model's own were not tried"
                left = [key for key in left if key not in untried]
        alone = self._find_alone(left)
        return Sensitivity(
            len(self._names),
            len(moved),
            [self._names[key] for key in left if key in alone],
            [self._names[key] for key in left if key not in alone],
            why,
            by_modules=self._modules_alone,
        )

    def change(self, array: np.ndarray, pattern: int = 0) -> np.ndarray:
        """Return a parameter with every element changed at a random sign; non-finite ones stay.

        Each `pattern` has other signs.

        In an array of ones and zeros, such as a mask, both are exchanged, because a comparison would not
        notice a hundredth.
        """
        random = np.random.default_rng([array.size, pattern] if pattern else array.size)
        if _is_mask(array):
            return (1 - array.astype(np.float64)).astype(array.dtype)
        flat, found = array.reshape(-1), np.empty_like(array).reshape(-1)
        zeros = not np.any(np.isfinite(flat) & (flat != 0))
        for at in range(0, flat.size, _AT_ONCE):
            wide = flat[at : at + _AT_ONCE].astype(np.float64)
            by = np.full(wide.shape, self._change) if zeros else np.abs(wide) * self._change
            signs = random.integers(0, 2, wide.shape) * 2.0 - 1.0
            found[at : at + _AT_ONCE] = np.where(np.isfinite(wide), wide + by * signs, wide)
        return found.reshape(array.shape)

    def _steps(self, array: np.ndarray) -> np.ndarray:
        """Return how far `change` moves each element, in float64; without its sign."""
        if _is_mask(array):
            return np.ones(array.shape)
        found = np.abs(array, dtype=np.float64)
        if not np.any(np.isfinite(found) & (found != 0)):
            return np.full(array.shape, self._change)
        found *= self._change
        return found

    def _by_runs(self, runner: Varying) -> Sensitivity:
        """Measure with one run for each of some parameters, taken at even distances."""
        names = [self._graph.parameter(key).name for key in self._names]
        step = max(1, -(-len(names) // TRIED))
        tried = names[::step]
        expected = [array for _, array in self._run.outputs]
        moved: set[str] = set()
        try:
            for name, found in runner.run_varied(self._inputs, tried, self.change):
                rows = zip(expected, found, self._tolerances, strict=True)
                if any(_distance(a, b) > tolerance for a, b, tolerance in rows):
                    moved.add(name)
        except ModelError as error:
            return Sensitivity(len(names), 0, unmeasured=_brief(error))
        unnoticed = [name for name in tried if name not in moved]
        untried = f"{len(names) - len(tried)} were not tried" if step > 1 else ""
        return Sensitivity(len(tried), len(moved), [], unnoticed, untried)

    def _by_gradients(self, runner: Differentiable) -> tuple[set[int], str]:
        """Return the parameters that move an output beyond its tolerance, and why that is unknown, or ""."""
        if sum(self._graph.parameter(key).data.nbytes for key in self._names) > LIMIT:
            return set(), "its parameters are too large for gradients beside them"
        sizes = bindings(self._graph, self._inputs)
        one = {**sizes, **dict.fromkeys(batch_symbols(self._graph) & set(sizes), 1)}
        why = ""
        large = sum(array.nbytes for array in self._inputs.values()) > _LARGE
        for inputs in (*([resize_inputs(self._graph, self._inputs, one)] if large else []), self._inputs):
            try:
                run = self._run if inputs is self._inputs else self._runner.run(inputs, calls=False)
                weights = [self._weights(at, array) for at, (_, array) in enumerate(run.outputs)]
                gradients = runner.gradients(inputs, self._shrunk(weights))
                found = {key for key in self._names if self._is_moving(key, gradients)}
                return found | self._by_values([k for k in self._names if k not in found], gradients), ""
            except ModelError as error:
                why = _brief(error)
        return set(), why

    def _shrunk(self, weights: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
        """Return weights of at most 1, as float16 has none above 65504, and keep by what to multiply."""
        given = [w for w in weights if w is not None and w.size]
        self._shrink = max((float(np.abs(w).max()) for w in given), default=0.0) or 1.0
        return [None if w is None else w / self._shrink for w in weights]

    def _by_values(self, left: Sequence[int], gradients: Mapping[str, np.ndarray]) -> set[int]:
        """Return the parameters that move an output although their gradient does not show it.

        There is none behind a comparison, an integer or a stopped gradient, and a function may have one of
        its own. All are changed at once first, and by halves where that moves an output.
        """
        found, runs = set[int](), 0
        hidden = [key for key in left if self._is_hidden(key, gradients)]
        groups = [hidden] if hidden else []
        while groups and runs < _TRIES:
            group, runs = groups.pop(0), runs + 1
            if not self._moves_output(group):
                continue
            if len(group) == 1:
                found.add(group[0])
            else:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
        return found

    def _is_hidden(self, key: int, gradients: Mapping[str, np.ndarray]) -> bool:
        """Whether a gradient does not tell what a parameter moves: there is none, or it is 0 or no number."""
        gradient = gradients.get(self._names[key])
        if gradient is None:
            gradient = self._of_statistic(key, gradients)
        if gradient is None or _is_mask(self._graph.parameter(key).data.numpy()):
            return True
        return not (gradient.any() and np.isfinite(gradient).all())

    def _moves_output(self, keys: Sequence[int]) -> bool:
        try:
            with ExitStack() as changed:
                for number, key in enumerate(keys):
                    change = partial(self.change, pattern=number)
                    changed.enter_context(self._runner.altered(change, only=self._names[key]))
                found = self._runner.run(self._inputs, calls=False).outputs
        except ModelError:
            return False
        rows = zip(self._run.outputs, found, self._tolerances, strict=True)
        return any(_distance(a, b) > tolerance for (_, a), (_, b), tolerance in rows)

    def _weights(self, at: int, array: np.ndarray) -> np.ndarray | None:
        """Return random weights by which a sum moves by about 1 where the output moves by its bound."""
        if kind_of(array) != "f" or at >= len(self._tolerances) or not array.size:
            return None
        bound = self._tolerances[at] or EPSILON.get(array.dtype.name, 2.0**-23)
        drawn = np.random.default_rng([at, *array.shape]).standard_normal(array.shape)
        return np.where(np.isfinite(array), drawn / (bound * np.sqrt(array.size)), 0.0)

    def _is_moving(self, key: int, gradients: Mapping[str, np.ndarray]) -> bool:
        """Whether changing a parameter, as `change` does, moves an output beyond its tolerance."""
        gradient = gradients.get(self._names[key])
        value = self._graph.parameter(key).data.numpy()
        if gradient is None:
            gradient = self._of_statistic(key, gradients)
        if gradient is None or gradient.shape != value.shape or not gradient.any():
            return False
        some = value.reshape(-1)[:_SOME]
        if _tells(some) and self._squares(some, gradient.reshape(-1)[:_SOME]) > 1:
            return True
        return self._squares(value, gradient) > 1

    def _squares(self, value: np.ndarray, gradient: np.ndarray) -> float:
        """Return the sum of the squares by which each element's change moves the weighted outputs."""
        with np.errstate(all="ignore"):
            terms = self._steps(value)
            terms *= gradient
            squares = float(np.vdot(terms, terms))
            if not np.isfinite(squares):
                squares = float(np.square(terms[np.isfinite(terms)]).sum())
        return squares * self._shrink**2

    def _of_statistic(self, key: int, gradients: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return the gradient of a running mean or variance, derived from beta's or gamma's.

        Of ``y = gamma * x + beta`` with ``x = (input - mean) / sqrt(variance + epsilon)``, the mean moves y
        as beta does times ``-gamma / sqrt(variance + epsilon)``, the variance as gamma does times
        ``-gamma / (2 * (variance + epsilon))``.
        """
        for user, slot in self._graph.users(Value(key)):
            node = self._graph.node(user)
            if not isinstance(node, Operator) or node.op_type != "BatchNormalization" or slot not in (3, 4):
                continue
            _, gamma, beta, _, variance = self._graph.operands(user)[:5]
            known = beta if slot == 3 else gamma
            gradient = None if known is None else gradients.get(self._names.get(known.node, ""))
            scale, spread = self._values(gamma), self._values(variance)
            if gradient is not None and scale is not None and spread is not None:
                spread = spread.astype(np.float64) + node.float("epsilon")
                return -gradient * scale / (np.sqrt(spread) if slot == 3 else 2 * spread)
        return None

    def _values(self, value: Value | None) -> np.ndarray | None:
        node = None if value is None else self._graph.node(value.node)
        return node.data.numpy() if isinstance(node, Parameter) else self._graph.constant_value(value)

    def _find_alone(self, left: Sequence[int]) -> set[int]:
        """Return the parameters that move the results of a module around them that was compared alone.

        The module that holds a parameter is tried first, then those around it, unless the parameter is read
        in that module alone and moves nothing there.
        """
        found, still = set[int](), set[int]()
        for level in range(_AROUND):
            farthest: dict[int, float] = {}
            rest = [key for key in left if key not in found | still]
            for call, keys in self._calls_around(rest, level).items():
                row, record = self._rows.get(call), self._run.calls.get(call)
                if row is None or not row.isolated_passed or record is None:
                    moved = dict.fromkeys(keys, 1.0)  # which is not known
                elif level and self._stays(call, record, keys, row):
                    continue
                else:
                    moved = {key: self._measure_move(call, record, key, row) for key in keys}
                farthest.update({key: max(by, farthest.get(key, 0.0)) for key, by in moved.items()})
            found |= {key for key, by in farthest.items() if by > 1}
            still |= {key for key, by in farthest.items() if not by and self._is_read_within(key)}
        return found

    def _is_read_within(self, key: int) -> bool:
        """Whether every operator that reads a parameter is called inside a module that holds it."""
        tree, graph = self._graph.modules, self._graph
        holding = {module.key for module in tree if key in module.parameters.values()}
        readers = [getattr(graph.node(user), "call", None) for user, _ in graph.users(Value(key))]
        return all(any(tree.call(c).module in holding for c in tree.ancestors(call)) for call in readers)

    def _calls_around(self, left: Collection[int], level: int) -> dict[str, list[int]]:
        """Return name of a call -> the parameters of modules that are called so many levels inside it."""
        tree, found, wanted = self._graph.modules, dict[str, list[int]](), set(left)
        names = tree.call_names()
        for call in tree.calls():
            held = [key for key in tree.module(call.module).parameters.values() if key in wanted]
            around = tree.ancestors(call.key) if held else []
            if level < len(around):
                within = found.setdefault(names[around[level]], [])
                within += [key for key in held if key not in within]
        return found

    def _stays(self, call: str, record: CallRecord, keys: Sequence[int], row: ModuleRow) -> bool:
        """Whether a call gives the same by far with all of several parameters changed at once.

        Most parameters that move nothing in their own module move nothing around it: one run shows that of
        all. Each has signs of its own, so that changes do not cancel each other; those of masks might.
        """
        if len(keys) < 2 or any(_is_mask(self._graph.parameter(key).data.numpy()) for key in keys):
            return False
        moved = self._find_move(call, record, keys)
        return moved is not None and moved <= _bound(row) / _FAR

    def _measure_move(self, call: str, record: CallRecord, key: int, row: ModuleRow) -> float:
        """Return how far a parameter alone moves what a call gives, in multiples of what is noticed."""
        bound = _bound(row)
        if self._moves_some(call, record, key, bound):
            return np.inf
        moved = self._find_move(call, record, [key])
        if moved is None:
            return 1.0  # which is not known
        return moved / bound if bound else np.inf if moved else 0.0

    def _find_move(self, call: str, record: CallRecord, keys: Sequence[int]) -> float | None:
        """Return how far what a call gives moves with parameters changed; None where it does not run."""
        try:
            before = self._replayed.pop(call, None) or self._runner.run_module(call, record.inputs)
            self._replayed[call] = before  # the last one used stands last
            if len(self._replayed) > _REPLAYED:
                del self._replayed[next(iter(self._replayed))]
            with ExitStack() as changed:
                for number, key in enumerate(keys):
                    change = partial(self.change, pattern=number)
                    changed.enter_context(self._runner.altered(change, call, self._names[key]))
                after = self._runner.run_module(call, record.inputs)
        except (ModelError, KeyError):
            return None
        return max((_distance(a, b) for a, b in zip(before, after, strict=False)), default=0.0)

    def _moves_some(self, call: str, record: CallRecord, key: int, bound: float) -> bool:
        """Whether a few elements of what a call gives show already that a parameter moves them."""
        if not isinstance(self._runner, ElementProber):
            return False
        found = self._runner.probe_elements(call, record, self._names[key], self._change_some)
        if found is None or _distance(found.recorded, found.before) > bound:
            return False
        return _distance(found.before, found.after) > bound

    def _change_some(self, array: np.ndarray, part: slice | np.ndarray) -> np.ndarray | None:
        """Change a part of a parameter as `change` does; None where that depends on the rest of many."""
        if array.size <= _SOME:
            return self.change(array)[part]
        return self.change(array[part]) if _tells(array[part]) else None


def _row_of_root(tolerances: Sequence[float]) -> ModuleRow:
    """Return the row of a whole model of which all outputs agree."""
    return ModuleRow(_ROOT, "", tolerance=max(tolerances, default=0.0), isolated_passed=True, passed=True)


def _bound(row: ModuleRow) -> float:
    """Return how far what a call alone gives may be off."""
    return row.isolated_tolerance or row.tolerance or 0.0


def _brief(error: ModelError) -> str:
    line = next(iter(error.message.splitlines()), "")
    return line if len(line) <= _BRIEF else f"{line[:_BRIEF]}…"


def _tells(some: np.ndarray) -> bool:
    """Whether some elements of a parameter tell how it is changed: it is no mask, and not all zeros."""
    return bool(((some != 0) & (some != 1) & np.isfinite(some)).any())


def _is_mask(array: np.ndarray) -> bool:
    """Whether an array holds ones and zeros, and both."""
    zeros = array.size - int(np.count_nonzero(array))
    return 0 < zeros < array.size and zeros + int(np.count_nonzero(array == 1)) == array.size


def _is_measured(graph: Graph, parameter: Parameter) -> bool:
    """Whether a parameter holds real numbers that an operator reads."""
    return (
        parameter.data.load is not None
        and "float" in parameter.type.dtype
        and bool(graph.flow.out_degree(parameter.key))
    )


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference; infinite where shapes differ, or which elements are finite."""
    if a.shape != b.shape:
        return np.inf
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        found = np.abs(x - y)
    most = float(found.max(initial=0.0))
    if np.isfinite(most):
        return most
    both = np.isnan(x) & np.isnan(y)
    return float(np.nan_to_num(np.where(both | (a == b), 0.0, found), nan=np.inf).max(initial=0.0))
