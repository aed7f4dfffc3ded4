"""Modules of files whose nodes have TensorFlow's names, ``model/conv1/Conv2D``: a scope and an operation.

A layer of Keras is a scope of several operations: its product, the sum of its bias, an activation, transposes
that the exporter adds. What has the weights becomes the module of the scope; the rest belongs to its caller.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import onnx

from ...ir.operators import traits_of
from .scopes import SLOTS, Path, clean_name

_FEW = 3
"""Operators next to a layer, or without weights, up to which a scope is written into its caller."""

_OPERATIONS = frozenset(
    [
        "BatchNorm",
        "BiasAdd",
        "Conv2D",
        "MatMul",
        "Tensordot",
        "batchnorm",
        "conv2d_transpose",
        "conv_transpose",
        "convolution",
        "depthwise",
        "einsum",
        "embedding_lookup",
        "moments",
        "separable_conv2d",
    ]
)
"""Operations of TensorFlow that are scopes of others: no modules."""

_MADE_UP = re.compile(
    r"(ReadVariableOp|BiasAdd|MatMul|Mul|mul|Add|add|Sub|sub|Squeeze|Reshape|Const|const_fold_opt|unsqueeze|\w+_fused_bn)"
    r"(_+\d+)*"
)
"""Last part of a weight's name that says which operation reads it, and not what it is."""

TORCH = "onnx::"
"""Begins names that torch's exporter makes up."""

_EXPORTERS = (TORCH, "p2o.", "helper.", "auto.")
"""Prefixes of the names that exporters invent: torch's, and Paddle's."""

_KINDS = {
    **dict.fromkeys(("Conv", "ConvInteger"), "conv"),
    "ConvTranspose": "deconv",
    **dict.fromkeys(("MatMul", "Gemm"), "dense"),
    "Gather": "embedding",
    "BatchNormalization": "bn",
}
"""Operator -> the name of a layer of it among others in one scope."""

_ROLES = {"Add": "bias", "Sub": "bias", "Mul": "scale", "Div": "scale"}
"""Operator -> what a weight without a name of its own is to it."""


def is_operation_path(name: str) -> bool:
    """Whether a node's name is a path of TensorFlow's; torch's begin with a slash."""
    return "/" in name.strip("/") and not name.startswith("/")


def weight_name(name: str, operator: str) -> str:
    """Return what a weight is called in its layer, from its name in the file and the operator that reads it.

    Returns:
        An empty text for a name that tells neither.

    Example:
        >>> weight_name("net/fc/kernel:0", "MatMul"), weight_name("net/fc/BiasAdd/ReadVariableOp:0", "Add")
        ('kernel', 'bias')
        >>> weight_name("block.scale", "Mul")
        ''
    """
    last = re.sub(r":\d+$", "", name).rpartition("/")[2]
    if name.startswith(_EXPORTERS) or _MADE_UP.fullmatch(last):
        return _ROLES.get(operator, "weight")
    return clean_name(last) if is_operation_path(name) else ""


@dataclass
class _Layer:
    """An operator with weights, and what belongs to it.

    Attributes:
        node: its number.
        weights: that it reads.
        others: numbers of the sum of its bias, and of transposes before that.
    """

    node: int
    weights: tuple[str, ...]
    others: list[int] = field(default_factory=list[int])


class OperationScopes:
    """Finds the modules of the nodes of a graph.

    Args:
        graph: of the file.
        weights: names of the initializers that are weights.
    """

    def __init__(self, graph: onnx.GraphProto, weights: Container[str]) -> None:
        self._nodes = graph.node
        self._weights = weights
        self._producer = {
            name: number for number, node in enumerate(graph.node) for name in node.output if name
        }
        self._users: dict[str, list[int]] = {}
        for number, node in enumerate(graph.node):
            for name in node.input:
                self._users.setdefault(name, []).append(number)
        self._returned = {output.name for output in graph.output}
        self._layers = list(self._find_layers())

    def paths(self) -> list[Path]:
        """Return the path of every node's module, the root's first and left out."""
        paths = self._place_unnamed([_scope(node.name) for node in self._nodes])
        for layer in self._layers:
            for number in layer.others:
                paths[number] = paths[layer.node]
        fixed = self._separate_layers(paths)
        self._dissolve_small(paths, fixed)
        return _without_shared(paths, {paths[number] for number in fixed})

    # -- layers ----------------------------------------------------------------------------------

    def _find_layers(self) -> Iterator[_Layer]:
        for number, node in enumerate(self._nodes):
            roles = SLOTS.get(node.op_type, ())
            own = tuple(n for n, role in zip(node.input, roles, strict=False) if role and n in self._weights)
            if own:
                layer = _Layer(number, own)
                if node.op_type in ("Conv", "ConvTranspose", "MatMul") and len(node.input) < 3:
                    layer.others = self._find_bias(number)
                yield layer

    def _find_bias(self, number: int) -> list[int]:
        """Return the sum that adds a weight behind a layer, and the transposes between; none without one."""
        found: list[int] = []
        while (following := self._only_user(number)) is not None:
            node = self._nodes[following]
            found.append(following)
            if node.op_type == "Add":
                return found if any(name in self._weights for name in node.input) else []
            if node.op_type != "Transpose":
                return []
            number = following
        return []

    def _only_user(self, number: int) -> int | None:
        outputs = [name for name in self._nodes[number].output if name]
        users = [user for name in outputs for user in self._users.get(name, ())]
        return users[0] if len(users) == 1 and not self._returned & set(outputs) else None

    def _separate_layers(self, paths: list[Path]) -> set[int]:
        """Give each layer a module that has nothing else in it; returns the nodes of layers."""
        layers = {layer.node: layer for layer in self._layers}
        inside: dict[Path, list[int]] = {}
        for number, path in enumerate(paths):
            inside.setdefault(path, []).append(number)
        around = {path[:cut] for path in inside for cut in range(len(path))}
        known: dict[tuple[str, str], Path] = {}
        taken = Counter[Path]()
        fixed: set[int] = set()
        for path, numbers in inside.items():
            own = [layers[n] for n in numbers if n in layers]
            belonging = {n for layer in own for n in (layer.node, *layer.others)}
            rest = [n for n in numbers if n not in belonging]
            bare = not any(name in self._weights for n in rest for name in self._nodes[n].input)
            alone = len({layer.weights[0] for layer in own}) == 1 and path and path not in around
            alone = alone and bare and len(rest) <= _FEW
            for layer in own:
                kind = self._nodes[layer.node].op_type
                place = known.get((kind, layer.weights[0]))
                if place is None:
                    place = path if alone else self._name_layer(layer, path, taken)
                    known[kind, layer.weights[0]] = place
                for number in (layer.node, *layer.others):
                    paths[number] = place
                    fixed.add(number)
            if alone:
                for number in rest:
                    paths[number] = path[:-1]
        return fixed

    def _name_layer(self, layer: _Layer, path: Path, taken: Counter[Path]) -> Path:
        """Return a module for a layer among others: the scope of its weight, else one by its kind."""
        node = self._nodes[layer.node]
        stated = _scope(layer.weights[0])
        if stated and not _scope(node.name) and not taken[stated]:
            taken[stated] += 1
            return stated
        place = (*path, _KINDS.get(node.op_type, node.op_type.lower()))
        taken[place] += 1
        return place if taken[place] == 1 else (*path, f"{place[-1]}{taken[place]}")

    # -- other operators -------------------------------------------------------------------------

    def _place_unnamed(self, paths: Sequence[Path | None]) -> list[Path]:
        """Return paths with one for each node without a name: what those before and behind it share."""
        before: list[Path | None] = list(paths)
        behind: list[Path | None] = list(paths)
        for number, node in enumerate(self._nodes):
            if paths[number] is None:
                sources = [self._producer[name] for name in node.input if name in self._producer]
                before[number] = _shared([before[s] for s in sources if s < number])
        for number in reversed(range(len(self._nodes))):
            if paths[number] is None:
                users = [u for name in self._nodes[number].output for u in self._users.get(name, ())]
                behind[number] = _shared([behind[u] for u in users if u > number])
        return [_shared(pair) or () for pair in zip(before, behind, strict=True)]

    def _dissolve_small(self, paths: list[Path], fixed: Container[int]) -> None:
        """Write scopes of a few operators without weights into their callers; a single layer stays one."""
        inside: dict[Path, list[int]] = {}
        for number, path in enumerate(paths):
            inside.setdefault(path, []).append(number)
        around = {path[:cut] for path in inside for cut in range(len(path))}
        for path, numbers in inside.items():
            if path in around or len(numbers) > _FEW or any(n in fixed for n in numbers):
                continue
            if len(numbers) == 1 and _is_layer(self._nodes[numbers[0]]):
                continue
            if any(name in self._weights for n in numbers for name in self._nodes[n].input):
                continue
            for number in numbers:
                paths[number] = path[:-1]


def _scope(name: str) -> Path | None:
    """Return the scope that a name states; None for a name that is no path."""
    if not is_operation_path(name):
        return None
    parts = [part for part in name.split("/") if part][:-1]
    while len(parts) > 1 and parts[-1] in _OPERATIONS:
        parts.pop()
    return tuple(map(clean_name, parts))


def _shared(paths: Iterable[Path | None]) -> Path | None:
    """Return what paths have in common; None where all of them are unknown."""
    known = [path for path in paths if path is not None]
    if not known:
        return None
    return tuple(names[0] for names in takewhile(lambda n: len(set(n)) == 1, zip(*known, strict=False)))


def _is_layer(node: onnx.NodeProto) -> bool:
    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
        return False
    traits = traits_of(node.op_type)
    return traits.activation or traits.pool or bool(traits.dropout)


def _without_shared(paths: list[Path], layers: Container[Path]) -> list[Path]:
    """Return paths without the outer modules that all nodes are in, which are the model itself."""
    shared = _shared(paths) or ()
    shared = shared[:-1] if shared in layers else shared
    return [path[len(shared) :] for path in paths]
