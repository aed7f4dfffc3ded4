"""One operator of the IR as the backends are given it: its operands and attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from regraft.ir import Builder, Graph, Parameter, TensorData, TensorType, Value

BACKENDS = frozenset(("mindspore", "mxnet"))


@dataclass(frozen=True, eq=False)
class Input:
    """An operand that is an input of the model."""

    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Weight:
    """An operand that is a parameter."""

    array: np.ndarray
    name: str = "weight"


Build = Callable[..., "Value | Sequence[Value]"]


class Case:
    """An operator on operands: an `Input`, a `Weight`, None, or a constant.

    Args:
        row: the operator's name, ``Conv`` or ``regraft.Linear``.
        operands: by slot.
        outputs: how many results it has, all of which are compared.
        compared: the results that are compared, where the others are empty or for training.
        backends: that take this form, of all that have the operator.
        build: makes the case's values from a builder and the operands, where it takes more than one operator.
        oracle: of a composite, gives from operands and attributes what its expansion is compared with.
        attributes: of the operator.
    """

    def __init__(
        self,
        row: str,
        *operands: Any,
        outputs: int = 1,
        compared: int | None = None,
        backends: Sequence[str] = tuple(BACKENDS),
        build: Build | None = None,
        oracle: Callable[..., np.ndarray] | None = None,
        **attributes: object,
    ) -> None:
        self.row, self.operands, self.outputs, self.backends = row, operands, outputs, frozenset(backends)
        self.compared = outputs if compared is None else compared
        self.build, self.oracle, self.attributes = build, oracle, attributes

    def firsts(self) -> Iterator[Case]:
        """The same operator with fewer of its results read: the first, the first two, …"""
        for count in range(1, self.compared):
            case = copy(self)
            case.compared = count
            yield case

    def add(self, b: Builder, inputs: dict[int, Value], module: int) -> list[Value]:
        """Add it to a graph, its weights to a module; returns the results that are compared."""
        values: list[Value | None] = []
        for operand in self.operands:
            if isinstance(operand, Input):
                values.append(inputs[id(operand.array)])
            elif isinstance(operand, Weight):
                held, path = b.graph.modules.module(module).parameters, b.graph.modules.path(module)
                name = operand.name if path else f"{operand.name}{len(held)}"
                declared = f"{path}.{name}" if path else name
                values.append(
                    b.graph.add_parameter(Parameter(declared, declared, TensorData.of(operand.array)))
                )
                held[name] = values[-1].node
            else:
                values.append(None if operand is None else b.constant(operand))
        if self.build is not None:
            found = self.build(b, *values)
            return [found] if isinstance(found, Value) else list(found)
        return b.ops(self.row, *values, outputs=self.outputs, **self.attributes)[: self.compared]


def graph_of(cases: Sequence[Case], *, modules: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    """All cases in one graph and the inputs by name.

    Args:
        cases: what is computed, each an output or several.
        modules: whether each is a module's of its own, which owns its weights.
    """
    b = Builder(Graph())
    tree = b.graph.modules
    root = tree.add_call(tree.add("Rows"))
    arrays = {id(o.array): o.array for c in cases for o in c.operands if isinstance(o, Input)}
    inputs, given = {}, {}
    for number, (key, array) in enumerate(arrays.items()):
        type_ = TensorType(str(array.dtype), array.shape)
        inputs[key] = b.graph.add_input(f"x{number}", type_)
        given[f"x{number}"] = array
    for number, case in enumerate(cases):
        module, call = 0, root
        if modules:
            module = tree.add("Row", 0, f"row{number}")
            call = tree.add_call(module, root)
        with b.inside(call):
            for index, value in enumerate(case.add(b, inputs, module)):
                b.graph.outputs.append((f"{case.row.replace('.', '_').lower()}{number}_{index}", value))
    return b.graph, given


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(*shape: int, high: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, high, shape)
