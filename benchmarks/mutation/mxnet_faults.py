"""Faults in MXNet's files: in the nodes of the symbol, and in the parameters."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ...checkpoints import read_checkpoint, write_checkpoint
from ...ir import TensorData
from .mutants import Mutant, Target
from .values import exchanges, weight_faults

Load = Callable[[Path], Target]
"""Reads a symbol as the target of a comparison."""

_NEIGHBOURS = {
    "elemwise_add": ["elemwise_sub", "elemwise_mul"],
    "_Plus": ["elemwise_sub"],
    "broadcast_add": ["broadcast_sub", "broadcast_mul"],
    "broadcast_mul": ["broadcast_add", "broadcast_div"],
    "broadcast_sub": ["broadcast_add"],
    "broadcast_div": ["broadcast_mul"],
    "elemwise_mul": ["elemwise_add"],
    "elemwise_sub": ["elemwise_add"],
    "relu": ["sigmoid", "tanh"],
    "sigmoid": ["tanh", "hard_sigmoid"],
    "tanh": ["sigmoid", "softsign"],
    "softmax": ["log_softmax"],
    "mean": ["sum", "max"],
    "sum": ["mean"],
    "max": ["min"],
    "floor": ["ceil", "round"],
}

_WORDS = {
    "act_type": ["relu", "sigmoid", "tanh", "softrelu", "softsign", "leaky", "elu", "gelu"],
    "pool_type": ["max", "avg"],
    "pooling_convention": ["valid", "full"],
    "mode": ["lstm", "gru"],
    "sample_type": ["nearest", "bilinear"],
}

_FLAGS = frozenset(
    [
        "no_bias",
        "fix_gamma",
        "count_include_pad",
        "global_pool",
        "flatten",
        "transpose_a",
        "transpose_b",
        "keepdims",
        "bidirectional",
        "use_global_stats",
    ]
)


_LEFT_OUT = ("pad", "stride", "eps", "axis", "act_type", "pooling_convention", "fix_gamma", "slope")

_DEFAULTS = {
    ("BatchNorm", "eps"): "0.001",
    ("BatchNorm", "axis"): "1",
    ("LayerNorm", "eps"): "1e-05",
    ("LayerNorm", "axis"): "-1",
    ("InstanceNorm", "eps"): "0.001",
    ("softmax", "axis"): "-1",
    ("log_softmax", "axis"): "-1",
    ("", "fix_gamma"): "True",
    ("", "slope"): "0.25",
    ("", "pooling_convention"): "valid",
}
"""Operator and attribute -> what MXNet takes where it is left out."""


def mxnet_mutants(symbol: Path, params: Path, load: Load) -> Iterator[Mutant]:
    """Every fault that can be planted in the two files."""
    document = json.loads(symbol.read_text())

    def mutant(kind: str, place: str, change: Callable[[dict], None]) -> Mutant:
        def build(folder: Path) -> Target:
            new = copy.deepcopy(document)
            change(new)
            path = folder / symbol.name
            path.write_text(json.dumps(new))
            (folder / params.name).write_bytes(params.read_bytes())
            return load(path)

        return Mutant(kind, place, build)

    for n, node in enumerate(document["nodes"]):
        yield from _node(document, n, node, mutant)
    arrays = {name: np.asarray(t.numpy()) for name, t in read_checkpoint(params).items()}

    def valued(kind: str, place: str, changed: dict[str, np.ndarray]) -> Mutant:
        def build(folder: Path) -> Target:
            path = folder / symbol.name
            path.write_text(json.dumps(document))
            new = {n: TensorData.of(np.ascontiguousarray(a)) for n, a in {**arrays, **changed}.items()}
            write_checkpoint(folder / params.name, new, force=True)
            return load(path)

        return Mutant(kind, place, build)

    for name, array in arrays.items():
        for kind, change in weight_faults(name, array):
            yield valued(kind, name, {name: change(array)})
    for kind, a, b in exchanges(arrays):
        yield valued(kind, f"{a}, {b}", {a: arrays[b], b: arrays[a]})


def _node(
    document: dict, n: int, node: dict, mutant: Callable[[str, str, Callable[[dict], None]], Mutant]
) -> Iterator[Mutant]:
    if node["op"] == "null":
        return
    key = next((k for k in ("attrs", "attr", "param") if k in node), "attrs")
    place = f"{node['op']} `{node['name']}`"
    for other in _NEIGHBOURS.get(node["op"], []):
        yield mutant(
            "neighbour of the operator",
            f"{place} -> {other}",
            lambda d, o=other: d["nodes"][n].__setitem__("op", o),
        )

    def attribute(kind: str, name: str, value: str) -> Mutant:
        return mutant(
            kind,
            f"{place} {name} = {value}",
            lambda d: d["nodes"][n].setdefault(key, {}).__setitem__(name, value),
        )

    attributes = node.get(key, {})
    for name, text in attributes.items():
        yield from _attribute(attribute, name, str(text))
        if name in _LEFT_OUT and not _is_default(node["op"], name, str(text)):
            yield mutant("argument left out", f"{place} {name}", lambda d, a=name: d["nodes"][n][key].pop(a))
    if node["op"] == "BatchNorm":
        for kind, name, value in (("epsilon x 10", "eps", "0.01"), ("flag turned", "fix_gamma", "False")):
            if name not in attributes:
                yield attribute(kind, name, value)
    entries = [list(e) for e in node["inputs"]]
    data = [i for i, e in enumerate(entries) if document["nodes"][e[0]]["op"] != "null" or e[0] == 0]
    if len(data) > 1 and node["op"] not in (
        "elemwise_add",
        "_Plus",
        "broadcast_add",
        "elemwise_mul",
        "broadcast_mul",
    ):
        yield mutant(
            "operands swapped", place, lambda d: _exchange(d["nodes"][n]["inputs"], data[0], data[1])
        )
    for slot in data[:1]:
        if node["op"] not in ("Convolution", "FullyConnected", "Embedding", "Flatten", "Pooling"):
            yield mutant("node dropped", place, lambda d, s=slot: _bypass(d, n, entries[s]))
    for slot in data:
        others = [i for i in range(entries[slot][0]) if document["nodes"][i]["op"] != "null" or i == 0]
        for other in others[-2:]:
            old, new = (document["nodes"][i]["name"] for i in (entries[slot][0], other))
            what = f"{place} operand {slot}: {old} -> {new}"
            yield mutant(
                "edge to another value",
                what,
                lambda d, s=slot, o=other: d["nodes"][n]["inputs"].__setitem__(s, [o, 0, 0]),
            )


def _is_default(op: str, name: str, text: str) -> bool:
    known = _DEFAULTS.get((op, name)) or _DEFAULTS.get(("", name))
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text == known
    if name in ("pad", "stride"):
        sizes = value if isinstance(value, tuple) else (value,)
        return all(size == (name == "stride") for size in sizes)
    return known is not None and value == ast.literal_eval(known)


def _attribute(make: Callable[[str, str, str], Mutant], name: str, text: str) -> Iterator[Mutant]:
    for other in _WORDS.get(name, []):
        if text in _WORDS[name] and other != text:
            yield make("mode changed" if name != "act_type" else "neighbour of the operator", name, other)
    if name in _FLAGS and text in ("True", "False", "1", "0"):
        yield make("flag turned", name, "False" if text in ("True", "1") else "True")
        return
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return
    if name == "eps":
        yield make("epsilon x 10", name, str(value * 10))
    elif name in (
        "slope",
        "alpha",
        "scalar",
        "scale",
        "p_value",
        "lower_bound",
        "a_min",
        "a_max",
        "knorm",
        "beta",
    ):
        yield make("float attribute x 1.1", name, str(float(value) * 1.1))
        yield make("float attribute x 1.001", name, str(float(value) * 1.001))
    elif name in ("kernel", "stride", "dilate", "pad") and isinstance(value, tuple):
        kinds = {
            "stride": "stride + 1",
            "dilate": "dilation + 1",
            "pad": "padding + 1",
            "kernel": "kernel shape + 1",
        }
        yield make(kinds[name], name, str(tuple(v + 1 for v in value)))
        if len(set(value)) > 1:
            yield make("tuple reordered", name, str(tuple(reversed(value))))
    elif name in ("axis", "dim") and isinstance(value, int):
        yield make("axis shifted", name, str(value + 1))
        yield make("axis shifted", name, str(value - 1))
    elif (
        name in ("num_group", "nsize", "num_outputs", "begin", "end") and isinstance(value, int) and value > 1
    ):
        yield make("integer attribute + 1", name, str(value + 1))


def _exchange(items: list, first: int, second: int) -> None:
    items[first], items[second] = items[second], items[first]


def _bypass(document: dict, n: int, entry: list) -> None:
    """Whatever read output 0 of a node reads the node's own input instead."""
    for later in document["nodes"]:
        later["inputs"] = [list(entry) if e[0] == n and e[1] == 0 else e for e in later["inputs"]]
    document["heads"] = [list(entry) if e[0] == n and e[1] == 0 else e for e in document["heads"]]
