"""Compares both sides with other values of parameters that are one number, which hide what lies behind them.

A last layer that is drawn as zeros makes every output 0, whatever is computed before it; with weights of
0.02 alone, every channel is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from ..checkpoints.mapping import Map, read_map
from ..ir import Array, Graph, ModelError, TensorData, numpy_dtype
from .cases import case_of
from .inputs import bindings, make_inputs
from .report import OutputRow
from .runners.onnx_runner import OnnxRunner
from .runners.registry import renames_of_output
from .runners.runs import ModelRunner, Runner
from .runners.select_runner import Target, paired_runner, target_runner
from .sides import Sides
from .structure.comparing import Describing
from .structure.sharing import Held, held_by_graph
from .structure.values import expected_from

if TYPE_CHECKING:
    from .two_nets.nets import NetComparison

_SIZE = 0.25
"""Standard deviation of the other values: of the order in which layers are drawn."""

_MOST = 1 << 28
"""Bytes of such parameters above which they are left as they are."""


def compare_redrawn(
    sides: Sides,
    target: Target,
    renames: Path | None,
    inputs: Mapping[str, Array] | None,
    seed: int,
) -> list[OutputRow]:
    """Compare outputs with other values of the parameters that are one number, the same on both sides.

    Args:
        sides: the two sides; they stay as they are.
        target: what was written from the source.
        renames: its ``renames.json``, where that does not lie beside it.
        inputs: arrays by input name; None draws them.
        seed: of inputs and values.

    Returns:
        The outputs' rows; none where no parameter is one number, or the files do not tell where one went.
    """
    source = sides.graph
    values = _other_values(source, seed)
    found = _find_map(sides, target, renames) if values else None
    if found is None:
        return []
    mapping, held = found
    theirs = expected_from(source, values, held, mapping)
    if not theirs:
        return []
    return _compare(sides, values, lambda: _holding(sides, target, theirs), inputs, seed)


def compare_pair_redrawn(
    sides: Sides,
    target: Graph,
    paired: NetComparison,
    inputs: Mapping[str, Array] | None,
    seed: int,
    explain: Callable[[Sides], None],
) -> list[OutputRow]:
    """Compare outputs of two nets with other values of the parameters that are one number in the source.

    A normalisation as it is constructed commutes with what follows it, as ReLU and pools do.

    Args:
        sides: the two sides; they stay as they are.
        target: the target's graph.
        paired: which parameters are which.
        inputs: arrays by input name; None draws them.
        seed: of inputs and values.
        explain: is called with the sides as they are compared, if they differ.

    Returns:
        The outputs' rows where one differs; else none, and a note of the sides says what was compared.
    """
    alone = paired.alone()
    values = {name: data for name, data in _other_values(sides.graph, seed).items() if name in alone}
    if not values:
        return []
    theirs = {**paired.values(), **paired.given({name: data.numpy() for name, data in values.items()})}
    rows = _compare(
        sides,
        values,
        lambda: paired_runner(target, theirs, paired.modules, order=paired.order),
        inputs,
        seed,
        explain,
    )
    return [] if all(row.passed for row in rows) else rows


def _compare(
    sides: Sides,
    values: Mapping[str, TensorData],
    holding: Callable[[], Runner],
    inputs: Mapping[str, Array] | None,
    seed: int,
    explain: Callable[[Sides], None] = lambda _: None,
) -> list[OutputRow]:
    """Compare outputs with other values of the source's parameters.

    Args:
        sides: the two sides.
        values: name of a parameter of the source -> its other values.
        holding: gives a runner of the target that has them.
        inputs: as in `compare_redrawn`.
        seed: likewise.
        explain: is called with the sides as they are compared, if they differ.
    """
    source = sides.graph
    given = make_inputs(source, bindings(source), seed) if inputs is None else dict(inputs)
    mine: Runner | None = None
    other: Runner | None = None
    try:
        mine = paired_runner(source, {name: data.numpy() for name, data in values.items()}, modules={})
        other = holding()
        both = Sides(source, mine, other, None, by_hand=sides.by_hand)
        run = mine.run(given, calls=False)
        case = f"{case_of(bindings(source, given))}, parameters of one number drawn"
        rows = both.outputs(case, run, other.run(given, calls=False), both.rounding(given, run))
        if not all(row.passed for row in rows):
            explain(both)
    except ModelError as error:
        sides.notes.append(f"parameters that are one number were not given other values: {error.message}")
        return []
    finally:
        for runner in (other, mine):
            if runner is not None:
                runner.close()
    names = ", ".join(f"`{name}`" for name in list(values)[:3])
    more = f" and {len(values) - 3} more" if len(values) > 3 else ""
    sides.notes.append(
        f"compared with other values of {names}{more} too, each of which holds one repeated number"
    )
    return rows


def _other_values(source: Graph, seed: int) -> dict[str, TensorData]:
    """Return first path -> other values, of the floating-point parameters that are one number."""
    found: dict[str, TensorData] = {}
    paths, size = source.parameter_paths(), 0
    for parameter in source.parameters():
        data = parameter.data
        if parameter.is_buffer or data.load is None or numpy_dtype(data.dtype).kind != "f":
            continue
        array = data.numpy()
        if not array.size or (array != array.reshape(-1)[0]).any() or (array.size == 1 and array.any()):
            continue
        size += data.nbytes
        if size > _MOST:
            return {}
        drawn = _draw(array, np.random.default_rng([seed, len(found), *array.shape]))
        name = paths.get(parameter.key, [parameter.declared])[0]
        found[name] = TensorData.of(drawn.astype(numpy_dtype(data.dtype)))
    return found


def _draw(array: Array, draw: np.random.Generator) -> Array:
    """Return other values for a tensor of one number, of the order in which layers are drawn."""
    if not array.any():
        return draw.standard_normal(array.shape) * _SIZE
    if array.ndim < 2:  # of both signs: a maximum commutes with a factor above 0
        return array * draw.uniform(0.5, 1.5, array.shape) * draw.choice([-1, 1], array.shape)
    return draw.standard_normal(array.shape) * math.sqrt(2 / math.prod(array.shape[1:]))


def _find_map(sides: Sides, target: Target, renames: Path | None) -> tuple[Map, Sequence[Held]] | None:
    """Return which tensor of the target is which, and those tensors; None where nothing says it."""
    runner = sides.target
    held: Sequence[Held] | None = None
    if isinstance(target, Graph):
        held = held_by_graph(target)
    elif isinstance(target, (str, Path)) and isinstance(runner, (OnnxRunner, Describing)):
        renames, held = renames_of_output(Path(target)), runner.held()
    if held is None or renames is None or not renames.is_file():
        return None
    return read_map(renames), held


def _holding(sides: Sides, target: Target, values: Mapping[str, Array]) -> Runner:
    """Return a runner of the target with other values of some of its tensors."""
    if isinstance(sides.target, OnnxRunner) and not isinstance(target, Graph):
        return sides.target.holding(values)
    if isinstance(target, Graph):
        return paired_runner(target, values, modules={})
    runner = cast(ModelRunner, target_runner(target))
    runner.fill(values)
    return runner
