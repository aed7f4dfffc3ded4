"""One training step of a MindSpore Cell in PyNative mode; the Cell's values are put back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...frameworks.mindspore import DROPPED
from ...frontends.class_source import is_library_class
from ...ir import ModelError
from .step import LEARNING_RATE, Step, Trained, output_weights


def mindspore_step(
    net: Any,
    cells: Sequence[Any],
    parameters: Mapping[str, Any],
    forward: Callable[[], list[Any]],
    seed: int,
    array: Callable[[Any], np.ndarray],
    ranks: Sequence[int] = (),
) -> Step:
    """Make one forward in training mode, one backward, one step of `nn.SGD`.

    Args:
        net: the Cell, already borrowed: whoever calls puts its attributes back.
        cells: every Cell of it.
        parameters: name -> Parameter, each once.
        forward: calls the Cell on the inputs and gives its output tensors, flat.
        seed: seed of the loss's weights.
        array: copies a tensor into an array.
        ranks: see `Trainer`.

    Raises:
        ModelError: when the forward draws random numbers besides Dropout (E702).
    """
    import mindspore
    from mindspore import Tensor, nn

    before = {name: array(p) for name, p in parameters.items()}
    trainable = {name: p for name, p in parameters.items() if p.requires_grad}
    try:
        zeroed = start_training(net, cells)
        with without_functions() as dropped:
            _refuse_random(forward, parameters, before, array)
            dropped.clear()

            def loss() -> tuple[Any, ...]:
                outputs = forward()
                total = Tensor(0.0, mindspore.float32)
                for index, output in enumerate(outputs):
                    if output.dtype in _floats():
                        rank = ranks[index] if ranks else index
                        weights = Tensor(output_weights(tuple(output.shape), seed, rank), output.dtype)
                        total = total + (output * weights).sum()
                return (total, *outputs)

            if trainable:
                value_and_grad: Any = mindspore.value_and_grad  # whose annotations do not know None
                step = value_and_grad(loss, None, list(trainable.values()), has_aux=True)
                (_, *outputs), gradients = step()
            else:
                outputs, gradients = loss()[1:], ()
        found = dict(zip(trainable, map(array, gradients), strict=True))
        moved = {name: array(p) for name, p in parameters.items()}
        if trainable:
            nn.SGD(list(trainable.values()), learning_rate=LEARNING_RATE)(tuple(gradients))
        return Step(
            [(f"output{i}", array(o)) for i, o in enumerate(outputs)],
            {
                name: Trained(before[name], moved[name], array(p), found.get(name), bool(p.requires_grad))
                for name, p in parameters.items()
            },
            ["Dropout ratios were 0 on both sides for the training step"] if zeroed or dropped else [],
            len(dropped),
        )
    finally:
        _restore(parameters, before)


def start_training(net: Any, cells: Sequence[Any]) -> bool:
    """Set training mode, with Dropouts that keep everything; returns whether there was a Dropout."""
    from mindspore import nn

    kinds = {getattr(nn, name): kept for name, kept in DROPPED.items() if hasattr(nn, name)}
    zeroed = False
    net.set_train(True)
    for cell in cells:
        cell.set_train(True)
        known = next((kept for kind, kept in kinds.items() if isinstance(cell, kind)), None)
        if known is not None:
            attribute, nothing = known
            zeroed = zeroed or getattr(cell, attribute) != nothing
            setattr(cell, attribute, nothing)
        elif is_library_class(type(cell)) and isinstance(vars(cell).get("dropout"), float):  # attention's
            zeroed = zeroed or bool(cell.dropout)
            cell.dropout = 0.0
    return zeroed


@contextmanager
def without_functions() -> Iterator[list[float]]:
    """Disable `ops.dropout` and related functions in a with block; yield the ratios that would drop."""
    from mindspore import ops

    names = ("dropout", "dropout1d", "dropout2d", "dropout3d")
    kept = {name: getattr(ops, name) for name in names}

    dropped: list[float] = []

    def same(x: Any, p: float = 0.5, training: bool = True, *_: Any, **__: Any) -> Any:
        if p and training:
            dropped.append(p)
        return x

    try:
        for name in names:
            setattr(ops, name, same)
        yield dropped
    finally:
        for name, function in kept.items():
            setattr(ops, name, function)


def _refuse_random(
    forward: Callable[[], list[Any]],
    parameters: Mapping[str, Any],
    before: Mapping[str, np.ndarray],
    array: Callable[[Any], np.ndarray],
) -> None:
    """Refuse a forward that returns something else the second time."""
    first = [array(t) for t in forward()]
    _restore(parameters, before)
    second = [array(t) for t in forward()]
    _restore(parameters, before)
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        if not np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True):
            raise ModelError(
                "E702",
                "expected a MindSpore forward in training mode without random numbers other than Dropout's, "
                "but "
                f"output {index} changes from run to run",
                hint="random dropout cannot be the same on both sides: set its ratio to 0",
            )


@contextmanager
def restored(parameters: Mapping[str, Any]) -> Iterator[None]:
    """Restore the values and training flags of Parameters after a with block."""
    kept = {name: (p.asnumpy().copy(), p.requires_grad) for name, p in parameters.items()}
    try:
        yield
    finally:
        _restore(parameters, {name: value for name, (value, _) in kept.items()})
        for name, parameter in parameters.items():
            parameter.requires_grad = kept[name][1]


def _restore(parameters: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> None:
    from mindspore import Tensor

    for name, parameter in parameters.items():
        parameter.set_data(Tensor(values[name], parameter.dtype))


def _floats() -> tuple[Any, ...]:
    import mindspore

    return (mindspore.float16, mindspore.float32, mindspore.float64, mindspore.bfloat16)
