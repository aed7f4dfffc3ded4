"""The parameters of a graph: made where they are read first, held by the module that reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from ...ir import Graph, Parameter, TensorData, Value
from ...ir.types import STORED_DTYPES
from .operation_scopes import TORCH, weight_name
from .scales import Scale
from .scopes import SLOTS, Modules, Scope

_STATISTICS = 3  # slot of BatchNormalization from which on its operands are not trained
_FOLDED_INTO = ("Conv", "ConvTranspose", "Gemm")


class Weights:
    """The initializers of a model that are weights.

    Args:
        graph: the root graph.
        stored: the initializers.
        uses: how many operands each of them is that is a weight.
        modules: the module tree.
        scoped: whether the file states scopes.
        stated: whether it states the calls of modules, so that a module which reads a weight holds it.
        scales: Caffe's Scale layers, of a file without scopes.
    """

    def __init__(
        self,
        graph: Graph,
        stored: Mapping[str, TensorData],
        uses: Mapping[str, int],
        modules: Modules,
        *,
        scoped: bool,
        stated: bool = False,
        scales: Sequence[Scale] = (),
    ) -> None:
        self._graph, self._stored, self._uses = graph, dict(stored), dict(uses)
        self._modules, self._scoped, self._stated = modules, scoped, stated
        self._parameters: dict[tuple[str, object], Value] = {}
        self._copies: dict[str, int] = {}
        self._apart: dict[str, bool] = {}
        self._renamed: dict[str, str] = {}  # names that Identities give -> the file's
        self._called: dict[int, str] = {}  # parameter -> its name in the graph of the file
        self._held: set[int] = set()
        self._scales = {result: scale.weight for scale in scales for result in scale.results}
        self._roles = dict(pair for s in scales for pair in ((s.weight, "weight"), (s.bias, "bias")))
        self._products: dict[str, tuple[tuple[int, ...], Scope]] = {}  # name -> its bias's shape, layer

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def value(self, name: str, scope: Scope | None = None, role: str = "") -> Value:
        """Return the parameter or constant that an initializer is.

        Args:
            name: of the initializer.
            scope: of the node that reads it; None where the file has none.
            role: what it is to the node.
        """
        data = self._stored[name]
        if name not in self._uses:
            return self._graph.add_constant(data)
        if not self._is_apart(name):
            use = None
        else:
            use = (scope, role) if self._scoped and scope is not None else object()
        if (name, use) not in self._parameters:
            self._parameters[name, use] = self._add(name, data)
        return self._parameters[name, use]

    def is_shared(self, name: str) -> bool:
        """Whether all uses of an initializer are of one value."""
        return name not in self._uses or not self._is_apart(name)

    def rename(self, name: str, other: str) -> bool:
        """Give a weight of layers that share it by chance the name that one of them has for it.

        Returns:
            Whether it is such a weight.
        """
        if name not in self._uses or not self._is_apart(name):
            return False
        data = self._stored[name]
        self._stored[other] = replace(data, storage=(data.storage, other))
        self._uses[other], self._renamed[other] = 1, self._renamed.get(name, name)
        return True

    def _is_apart(self, name: str) -> bool:
        """Whether layers that read an initializer share it by chance.

        Exporters store equal tensors once. A name that torch's made up stands for all that were equal; so
        does a vector of one number, which is what biases and scales of new layers are.
        """
        if name not in self._apart:
            self._apart[name] = name.startswith(TORCH) or (self._scoped and self._is_plain(name))
        return self._apart[name]

    def _is_plain(self, name: str) -> bool:
        data = self._stored[name]
        if self._uses[name] < 2 or len(data.shape) != 1 or data.load is None or not data.shape[0]:
            return False
        array = data.numpy()
        return bool((array == array[0]).all())

    def _add(self, name: str, data: TensorData) -> Value:
        count = self._copies[name] = self._copies.get(name, 0) + 1
        if count > 1:
            data = replace(data, storage=(data.storage, count))
        own = name if count == 1 else f"{name}.{count}"
        trained = "float" in data.dtype and data.dtype not in STORED_DTYPES
        declared = self._renamed.get(name, name)
        parameter = Parameter(own, declared, data, trainable=trained, is_buffer=not trained)
        value = self._graph.add_parameter(parameter)
        self._called[value.node] = name
        return value

    def hold(self, operator: str, operands: Sequence[Value | None], module: int) -> None:
        """Register the parameters that an operator reads first with the module that it is in."""
        if operator == "Identity":  # gives them another name
            return
        names = SLOTS.get(operator, ())
        for slot, value in enumerate(operands):
            node = None if value is None else self._graph.node(value.node)
            if not isinstance(node, Parameter):
                continue
            if node.key in self._held:
                if self._stated:
                    self._hold_again(node, module, names[slot] if slot < len(names) else "")
                continue
            self._held.add(node.key)
            called = self._called[node.key]
            node.role = names[slot] if slot < len(names) else self._roles.get(called, node.role)
            if operator == "BatchNormalization" and slot >= _STATISTICS:
                node.trainable, node.is_buffer = False, True
            *path, last = called.split(".")
            if path and module and not self._scoped:
                self._graph.modules.module(module).location = ".".join(path)
            stated = self._modules.find(path) if path and self._scoped else None
            if self._is_apart(called) and stated != module:
                stated = None
            held = self._graph.modules.module(module if stated is None else stated).parameters
            if stated is not None and last.isidentifier():
                own = last
            else:
                own = self._name_within(module, [*path, last]) or node.role
                own = own or weight_name(called, operator) or attribute_name(last)
            held[_unique(own, held)] = node.key

    def _hold_again(self, parameter: Parameter, module: int, name: str) -> None:
        """Register a parameter with a further module that the file states."""
        held = self._graph.modules.module(module).parameters
        called = self._called[parameter.key].rpartition(".")[2]
        if parameter.key not in held.values() and module:
            held[_unique(name or attribute_name(called), held)] = parameter.key

    def _name_within(self, module: int, names: Sequence[str]) -> str:
        """Return what a path names within a module above it: ``out_proj_weight``; empty for one elsewhere."""
        for cut in range(len(names) - 2, 0, -1):
            if self._scoped and self._modules.find(names[:cut]) == module:
                return attribute_name("_".join(names[cut:]))
        return ""

    def hold_aliases(self, aliases: Mapping[str, str]) -> None:
        """Register parameters that two modules have with both; see `Traced.aliases`."""
        keys = {name: key for key, name in self._called.items()}
        for other, name in aliases.items():
            for *path, leaf in (other.split("."), name.split(".")):
                module = self._modules.find(path)
                if module is not None and name in keys:
                    self._graph.modules.module(module).parameters.setdefault(leaf, keys[name])

    def hold_rest(self) -> None:
        """Register the parameters that only nested graphs read with the root."""
        root = self._graph.modules.module(0).parameters
        for parameter in self._graph.parameters():
            if parameter.key not in self._held:
                root[_unique(attribute_name(parameter.declared), root)] = parameter.key

    def before_norm(self, operator: str, scope: Scope, operands: Sequence[Value | None]) -> Scope:
        """Return the scope of the layer that a normalisation was folded into, for a node of the latter.

        Args:
            operator: of the layer.
            scope: as the file states it.
            operands: what it reads.
        """
        if operator not in _FOLDED_INTO or not scope or not scope[-1][1].startswith("BatchNorm"):
            return scope
        weight = operands[1] if len(operands) > 1 else None
        held = None if weight is None else self._graph.node(weight.node)
        path = held.declared.split(".")[:-1] if isinstance(held, Parameter) else []
        if path[:-1] != [name for name, _ in scope[:-1]] or not path:
            return scope
        return (*scope[:-1], (path[-1], ""))

    def scope(self, node: onnx.NodeProto, operands: Sequence[Value | None]) -> Scope:
        """Return the module that a layer with weights is in a file without scopes.

        Args:
            node: of the layer, or of the sum that adds the bias of a product with a matrix.
            operands: what it reads.
        """
        operator, names = node.op_type, SLOTS.get(node.op_type, ())
        scale = self._scales.get(node.output[0])
        if scale is not None:
            told = _OF_WEIGHTS.fullmatch(scale)
            name = attribute_name(told[1] if told else scale)
            return ((name if name.endswith(("sc", "scale")) else f"{name}_scale", "Scale"),)
        if operator == "Add" and len(operands) == 2:
            return self._scope_of_product(node, operands)
        for slot, value in enumerate(operands[: len(names)]):
            held = None if value is None else self._graph.node(value.node)
            if isinstance(held, Parameter) and names[slot]:
                path = held.declared.rpartition(".")[0]
                scope = ((attribute_name(path or _layer_name(node, held.declared)), operator),)
                if operator == "MatMul" and slot == 1 and len(held.data.shape) == 2:
                    self._products[node.output[0]] = held.data.shape[1:], scope
                elif operator == "Conv" and slot == 1 and len(operands) == 2:
                    shape = (held.data.shape[0], *(1 for _ in held.data.shape[2:]))
                    self._products[node.output[0]] = shape, scope
                return scope
        return ()

    def _scope_of_product(self, node: onnx.NodeProto, operands: Sequence[Value | None]) -> Scope:
        """Return the module of the product that a bias is added to; the root for any other sum."""
        for name, value in zip(node.input, reversed(operands), strict=True):
            shape, scope = self._products.get(name, ((), ()))
            bias = None if value is None else self._graph.node(value.node)
            if shape and isinstance(bias, Parameter) and bias.data.shape in (shape, (1, *shape)):
                bias.role = bias.role or "bias"
                return scope
        return ()


_OF_WEIGHTS = re.compile(r"(\w.*?)[_/](w|W|weights?|kernel|s|scale|gamma)(_0)?")
"""Name of a weight that begins with its layer's, as Caffe2's ``conv1_w_0`` does."""


def _layer_name(node: onnx.NodeProto, weight: str) -> str:
    """Return the name of a layer: its node's unless that is a number, else what its weight tells."""
    if node.name and not re.fullmatch(r"n?\d+", node.name):
        return node.name
    told = _OF_WEIGHTS.fullmatch(weight)
    return told.group(1) if told else node.name or node.output[0]


def attribute_name(text: str) -> str:
    """Return a name of Python's for a text of a file."""
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in text).strip("_") or "unnamed"
    return plain if plain.isidentifier() or plain.isdigit() else f"n{plain}"


def _unique(name: str, taken: Mapping[str, int]) -> str:
    """Return a name that is not taken: itself, or with a number."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found
