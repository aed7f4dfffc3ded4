"""Gluon's structural names (``0.weight``, of `save_parameters`) given back the names that the symbol has.

They are in the order of the layers' construction, as are the numbers at the end of Gluon's own names
(``net_conv0``, ``net_conv1``). Which layer is which follows from that order and from the shapes; where layers
of one kind run side by side under different names, nothing tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...ir import Dim, ModelError, TensorData
from .attributes import TextAttributes
from .parameter_shapes import parameter_shapes
from .reader import Symbol, SymbolNode
from .signatures import parameter_slots

_UNKNOWN = (None,) * 5  # axes of data


@dataclass(slots=True)
class _Layer:
    """Parameters with one stem: `names` are of the symbol by what follows the stem."""

    stem: str
    first: SymbolNode
    names: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[Dim, ...]] = field(default_factory=dict)

    @property
    def scope(self) -> tuple[str, int]:
        """The stem without its number, and the number."""
        match = re.fullmatch(r"(.*?)(\d+)", self.stem)
        return (match[1], int(match[2])) if match else (self.stem, 0)


def find_structural(
    symbol: Symbol, parameters: Sequence[str], stored: Mapping[str, TensorData]
) -> dict[str, str]:
    """Return parameter of the symbol -> structural name in a file; empty where the file has no such names.

    Raises:
        ModelError: E101 when the file's layers are not the symbol's, or are not told apart.
    """
    if not stored or any("." not in name for name in stored) or set(parameters) & stored.keys():
        return {}
    layers = _layers(symbol, parameters, {name.rpartition(".")[2] for name in stored})
    held: dict[str, dict[str, TensorData]] = {}
    for name, data in stored.items():
        path, _, leaf = name.rpartition(".")
        held.setdefault(path, {})[leaf] = data
    if layers is None or len(layers) != len(held):
        count = "others" if layers is None else str(len(layers))
        raise _refusal(f"expected structural names of the symbol, got {len(held)} layers for {count}")
    found: dict[str, str] = {}
    left = _in_order_of_construction(layers)
    for path, tensors in held.items():
        layer = next((each for each in left if _fits(each, tensors)), None)
        if layer is None:
            raise _refusal(f"expected a layer of the symbol for `{path}`, got none of its shapes")
        _require_apart(symbol, layer, [each for each in left if each is not layer and _fits(each, tensors)])
        left.remove(layer)
        found |= {name: f"{path}.{leaf}" for leaf, name in layer.names.items()}
    return found


def _refusal(message: str) -> ModelError:
    return ModelError(
        "E101",
        message,
        hint="give the file that `net.export` wrote: its names match the symbol's, so order does not matter",
    )


def _layers(symbol: Symbol, parameters: Sequence[str], leaves: set[str]) -> list[_Layer] | None:
    """Return the symbol's layers in the order of its nodes; None where a name ends like none in the file."""
    wanted, layers = set(parameters), dict[str, _Layer]()
    variables = {node.index: node.name for node in symbol.nodes if node.is_variable and node.name in wanted}
    for node in symbol.operators():
        slots = parameter_slots(node.op, node.attributes)
        probe = TextAttributes(node.attributes, node.op, node.place)
        shapes = parameter_shapes(node.op, probe, _UNKNOWN) if slots else {}
        for slot, (index, _) in enumerate(node.inputs):
            name = variables.pop(index, None)
            if name is None:
                continue
            leaf = max((e for e in leaves if name.endswith(f"_{e}")), key=len, default=None)
            if leaf is None:
                return None
            stem = name.removesuffix(f"_{leaf}")
            layer = layers.setdefault(stem, _Layer(stem, node))
            layer.names[leaf] = name
            layer.shapes[leaf] = shapes.get(slots.get(slot, ""), ())
    return None if variables else list(layers.values())


def _in_order_of_construction(layers: Sequence[_Layer]) -> list[_Layer]:
    """Return layers as they run, but those of one scope by their numbers in the places that they have."""
    scopes: dict[str, list[_Layer]] = {}
    for layer in layers:
        scopes.setdefault(layer.scope[0], []).append(layer)
    following = {scope: iter(sorted(found, key=lambda e: e.scope[1])) for scope, found in scopes.items()}
    return [next(following[layer.scope[0]]) for layer in layers]


def _fits(layer: _Layer, tensors: Mapping[str, TensorData]) -> bool:
    if layer.names.keys() != tensors.keys():
        return False
    for leaf, shape in layer.shapes.items():
        found = tensors[leaf].shape
        if shape and (
            len(shape) != len(found) or any(d not in (None, n) for d, n in zip(shape, found, strict=True))
        ):
            return False
    return True


def _require_apart(symbol: Symbol, layer: _Layer, others: Sequence[_Layer]) -> None:
    """Require that layers of other scopes that would fit as well run behind this one."""
    strangers = [other for other in others if other.scope[0] != layer.scope[0]]
    if not strangers:
        return
    reached = {layer.first.index}
    for node in symbol.operators():  # operands come first
        if any(index in reached for index, _ in node.inputs):
            reached.add(node.index)
    beside = next((other for other in strangers if other.first.index not in reached), None)
    if beside is not None:
        raise _refusal(
            f"expected names that tell `{layer.stem}` and `{beside.stem}` apart, which run side by side"
        )
