"""Compares the settings of paired modules, as their operators have them: padding and the like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import cast

import numpy as np

from ...ir import Graph, Operator
from ..structure.settings import DROPOUT, OF_NORMALISATIONS, compare_settings, settings_of

_WINDOWS = ("strides", "dilations", "padding")
_READ: dict[str, tuple[str, ...]] = {
    "Conv": (*_WINDOWS, "group"),
    "ConvTranspose": (*_WINDOWS, "group"),
    "MaxPool": ("kernel_shape", *_WINDOWS, "ceil_mode"),
    "AveragePool": ("kernel_shape", *_WINDOWS, "ceil_mode", "count_include_pad"),
    "BatchNormalization": ("epsilon", "momentum"),
    "LayerNormalization": ("epsilon",),
    "GroupNormalization": ("epsilon", "num_groups"),
    "InstanceNormalization": ("epsilon",),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "Gelu": ("approximate",),
}
"""Operator -> its attributes that people get wrong; "padding" is what every kind of padding comes to."""

_COUNTED = (*_READ, "Add", "Concat", "Relu", "Sigmoid", "Softmax", "Tanh")
_TRAINING = ("momentum",)
_REMARKS = {
    "momentum": "the share of the old statistics that is kept, as MindSpore counts; PyTorch's is 1 minus it",
    DROPOUT: "the share that is dropped; MindSpore's nn.Dropout takes what it keeps first: write p=",
}


@dataclass(frozen=True, slots=True)
class AttributeRow:
    """One setting in which two paired modules differ.

    Attributes:
        module: path in the source.
        target: path in the target.
        class_name: class in the target.
        attribute: ``epsilon``, ``padding``…; ``number of Add``, ``order of calls`` for structure.
        source: its value in the source.
        target_value: its value in the target.
        training: whether it acts in training only.
        structure: whether it is what the modules are made of, which may differ and compute the same.
        remark: what the value means.
    """

    module: str
    target: str
    class_name: str
    attribute: str
    source: object
    target_value: object
    training: bool = False
    structure: bool = False
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.attribute} {shown(self.source)} against {shown(self.target_value)}"


def shown(value: object) -> str:
    """A setting as a report writes it."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def compare_attributes(source: Graph, target: Graph, modules: Mapping[str, str]) -> list[AttributeRow]:
    """The settings in which paired modules differ, in the order of the source's calls.

    Args:
        source: the source's graph, captured.
        target: the target's.
        modules: path of a module in the source -> in the target.
    """
    held = [_by_module(source, set(modules)), _by_module(target, set(modules.values()))]
    order = _called(source)
    rows: list[AttributeRow] = []
    for path in sorted(modules, key=lambda p: order.get(p, len(order))):
        other = modules[path]
        name = _class_name(target, other)
        sides = _Side(source, held[0].get(path, [])), _Side(target, held[1].get(other, []))
        for setting, a, b in _settings(*sides):
            training, remark = setting in _TRAINING, _REMARKS.get(setting, "")
            rows.append(AttributeRow(path, other, name, setting, a, b, training, remark=remark))
        if _is_leaf(source, path) and _is_leaf(target, other):  # one layer may be several operators
            continue
        for op_type, a, b in _numbers(*sides):
            rows.append(AttributeRow(path, other, name, f"number of {op_type}", a, b, structure=True))
    return rows + _dropouts(source, target, modules) + _orders(source, target, modules)


def moved(source: Graph, target: Graph, rows: Sequence[AttributeRow]) -> list[AttributeRow]:
    """Rows of operators that only lie in another module: both graphs have as many in all.

    Args:
        source: the source's graph.
        target: the target's.
        rows: what `compare_attributes` found.
    """
    sides = _Side(source, source.operators()), _Side(target, target.operators())
    equal = {
        f"number of {op_type}" for op_type in _COUNTED if sides[0].count(op_type) == sides[1].count(op_type)
    }
    return [row for row in rows if row.structure and row.attribute in equal]


def _is_leaf(graph: Graph, path: str) -> bool:
    module = graph.modules.find(path)
    return module is not None and bool(path) and not module.children


def _class_name(graph: Graph, path: str) -> str:
    module = graph.modules.find(path)
    return "" if module is None else module.class_name


def _by_module(graph: Graph, paired: set[str]) -> dict[str, list[Operator]]:
    """Path of a paired module -> the operators of its first call that no paired module in it has."""
    names = graph.modules.call_names()
    found: dict[str, list[Operator]] = {}
    for operator in sorted(graph.operators(), key=lambda o: o.key):
        for call in graph.modules.ancestors(operator.call):
            path, _, number = names[call].rpartition("#")
            if path in paired:
                if number == "1":
                    found.setdefault(path, []).append(operator)
                break
        else:
            found.setdefault("", []).append(operator)
    return found


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two paired modules: the operators of its first call, in the graph that holds them."""

    graph: Graph
    operators: Sequence[Operator]

    def read(self, op_type: str) -> list[dict[str, object]]:
        """The attributes of every operator of a type."""
        return [_read(self.graph, o, op_type) for o in self.operators if _is(o, op_type)]

    def count(self, op_type: str) -> int:
        """How many operators count as one of a type."""
        return sum(_counts(self.graph, o, op_type) for o in self.operators)


def _settings(source: _Side, target: _Side) -> Iterator[tuple[str, object, object]]:
    """(attribute, its value in the source, in the target) where they differ, operator by operator."""
    for op_type, attributes in _READ.items():
        read = [source.read(op_type), target.read(op_type)]
        if op_type == "LeakyRelu" and len(read[0]) != len(read[1]):
            read = [read[0] or _decomposed(source), read[1] or _decomposed(target)]
        if len(read[0]) != len(read[1]):
            continue
        for mine, theirs in zip(*read, strict=True):
            for attribute in attributes:
                a, b = mine.get(attribute), theirs.get(attribute)
                if a is None or b is None or _same(a, b):
                    continue
                if attribute == "ceil_mode" and mine["output"] == theirs["output"]:
                    continue
                if attribute == "count_include_pad" and not (_is_padded(mine) or _is_padded(theirs)):
                    continue
                yield attribute, a, b


def _is_padded(read: Mapping[str, object]) -> bool:
    """Whether a window may reach padding: "SAME_…" is what nobody could work out."""
    padding = read.get("padding")
    return any(padding) if isinstance(padding, list) else padding is not None


def _numbers(source: _Side, target: _Side) -> Iterator[tuple[str, int, int]]:
    """(operator, how many the source has, the target) where one of two modules has more."""
    for op_type in _COUNTED:
        a, b = source.count(op_type), target.count(op_type)
        if a != b:
            yield op_type, a, b


def _dropouts(source: Graph, target: Graph, modules: Mapping[str, str]) -> list[AttributeRow]:
    """What one net drops in training and the other does not, or in another share: 0 is none."""
    sides = settings_of(source), settings_of(target)
    if sides[0] is None or sides[1] is None:
        return []
    back = {other: path for path, other in modules.items()}
    mine = [
        replace(s, module=_within(s.module, modules)) for s in sides[0] if s.kind not in OF_NORMALISATIONS
    ]
    theirs = [
        replace(s, module=back.get(_within(s.module, back), ""))
        for s in sides[1]
        if s.kind not in OF_NORMALISATIONS
    ]
    return [
        AttributeRow(
            row.module,
            modules.get(row.module, ""),
            _class_name(target, modules.get(row.module, "")),
            _ratio_of(row.setting),
            row.source or 0.0,
            row.target or 0.0,
            training=True,
            remark=_REMARKS[DROPOUT],
        )
        for row in compare_settings(mine, theirs)
    ]


def _ratio_of(dropped: str) -> str:
    """The ratio of a kind of Dropout in words: ``ratio of whole channels`` of "Dropout of channels"."""
    return "ratio" if dropped == DROPOUT else dropped.replace("Dropout of", "ratio of whole")


def _within(path: str, known: Mapping[str, str]) -> str:
    """The innermost known module that is a path or around it."""
    return path if path in known else _above(path, known)


def _orders(source: Graph, target: Graph, modules: Mapping[str, str]) -> list[AttributeRow]:
    """Modules whose paired children are called in another order."""
    places = [_called(source), _called(target)]
    back = {other: path for path, other in modules.items()}
    rows: list[AttributeRow] = []
    for path, other in modules.items():
        mine = [p for p in modules if p and _above(p, modules) == path and p in places[0]]
        theirs = [p for p in back if p and _above(p, back) == other and p in places[1]]
        common = {p for p in mine if modules[p] in theirs}
        sequences = (
            tuple(sorted(common, key=places[0].__getitem__)),
            tuple(sorted(common, key=lambda p: places[1][modules[p]])),
        )
        if sequences[0] != sequences[1]:
            at = next(i for i, (a, b) in enumerate(zip(*sequences, strict=True)) if a != b)
            parts = [tuple(p.removeprefix(f"{path}.") for p in s[at : at + 3]) for s in sequences]
            name = _class_name(target, other)
            rows.append(AttributeRow(path, other, name, "order of calls", parts[0], parts[1], structure=True))
    return rows


def _above(path: str, known: Mapping[str, str]) -> str:
    """The innermost known module around a path."""
    path = path.rpartition(".")[0]
    while path and path not in known:
        path = path.rpartition(".")[0]
    return path


def _called(graph: Graph) -> dict[str, int]:
    """Path of a module -> place of its first call."""
    found: dict[str, int] = {}
    for at, name in enumerate(graph.modules.call_names().values()):
        found.setdefault(name.rpartition("#")[0], at)
    return found


# -- reading an operator -------------------------------------------------------------------------------


def _is(operator: Operator, op_type: str) -> bool:
    return operator.op_type == op_type and operator.domain == ""


def _counts(graph: Graph, operator: Operator, op_type: str) -> bool:
    """Whether an operator counts as one of its type: an Add of two computed values is a shortcut."""
    if not _is(operator, op_type):
        return False
    if op_type != "Add":
        return True
    return all(
        v is not None and isinstance(graph.node(v.node), Operator) for v in graph.operands(operator.key)
    )


def _decomposed(side: _Side) -> list[dict[str, object]]:
    """The slope of ``max(slope * x, x)``, which is MindSpore's LeakyReLU."""
    found: list[dict[str, object]] = []
    graph = side.graph
    for operator in side.operators:
        operands = [v for v in graph.operands(operator.key) if v is not None]
        if operator.op_type != "Max" or len(operands) != 2:
            continue
        for product, plain in (operands, operands[::-1]):
            node = graph.node(product.node)
            if isinstance(node, Operator) and node.op_type == "Mul":
                factors = [v for v in graph.operands(node.key) if v is not None]
                slopes = [graph.constant_value(v) for v in factors if v != plain]
                if plain in factors and len(slopes) == 1 and slopes[0] is not None and slopes[0].size == 1:
                    found.append({"alpha": float(slopes[0].reshape(()))})
                    break
    return found


def _read(graph: Graph, operator: Operator, op_type: str) -> dict[str, object]:
    """The attributes of an operator, defaults filled in and padding worked out."""
    spec = operator.signature.attributes
    found = {
        name: value
        for name in _READ[op_type]
        if name in spec and (value := operator.attribute(name)) is not None
    }
    type_ = operator.types[0] if operator.types else None
    found["output"] = None if type_ is None or type_.shape is None else type_.shape[2:]
    if "padding" in _READ[op_type]:
        found |= _windows(graph, operator)
    return found


def _windows(graph: Graph, operator: Operator) -> dict[str, object]:
    """Window, stride, dilation and padding of every spatial axis but those where nothing happens."""
    operands = graph.operands(operator.key)
    kernel = operator.ints("kernel_shape")
    if not kernel and len(operands) > 1 and operands[1] is not None:
        kernel = [int(n) for n in (graph.known_type(operands[1]).shape or ())[2:]]  # type: ignore[arg-type]
    rank = len(kernel)
    strides = operator.spatial("strides", rank)
    dilations = operator.spatial("dilations", rank)
    pads = operator.spatial("pads", rank)
    if operator.str("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        type_ = None if operands[0] is None else graph.type_of(operands[0])
        sizes = [] if type_ is None or type_.shape is None else type_.shape[2:]
        if not sizes or not all(isinstance(n, int) for n in sizes) or operator.op_type == "ConvTranspose":
            return {"strides": strides, "dilations": dilations, "padding": operator.str("auto_pad")}
        pads = _same_padding(
            cast("list[int]", list(sizes)), kernel, strides, dilations, operator.str("auto_pad")
        )
    kept = [
        i
        for i in range(rank)
        if (kernel[i], strides[i], pads[i], pads[rank + i]) != (1, 1, 0, 0) or rank == 1
    ]

    def chosen(values: Sequence[int]) -> list[int]:
        return [values[i] for i in kept]

    begin, end = chosen(pads[:rank]), chosen(pads[rank:])
    found: dict[str, object] = {
        "strides": chosen(strides),
        "dilations": [d for i, d in zip(kept, chosen(dilations), strict=True) if kernel[i] > 1],
        "padding": begin if begin == end else [*begin, *end],
    }
    return {**found, "kernel_shape": chosen(kernel)} if operator.traits.pool else found


def _same_padding(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], kind: str
) -> list[int]:
    """What ``pad_mode="same"`` comes to at a size: begins, then ends."""
    begins, ends = [], []
    for size, window, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(large if kind == "SAME_LOWER" else small)
        ends.append(small if kind == "SAME_LOWER" else large)
    return [*begins, *ends]


def _same(a: object, b: object) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return isclose(a, b, rel_tol=1e-4, abs_tol=1e-12)
    return bool(np.array_equal(a, b)) if isinstance(a, list) and isinstance(b, list) else a == b
