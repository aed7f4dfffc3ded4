"""prepare-for-inference: BatchNormalization joins the layer before it, and Dropout goes."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from ..ir import DOMAIN, Array, Constant, Graph, Module, Operator, Parameter, TensorData, Value
from ..ir.folding import Fold, fold_normalisations
from .base import Change, Pass
from .eliminate_identities import drop_idle_constants
from .places import Places


@dataclass(frozen=True)
class PrepareForInference(Pass):
    """Fold BatchNormalization into the layer before it, and remove Dropout.

    What it does:
        Folds a BatchNormalization into the weight and bias of the Conv, ConvTranspose or Linear before it,
        and removes Dropout, also that inside attention and recurrent layers. The new values are computed
        when they are written, in float64.

    Why:
        A network that is not trained any more runs a normalisation per layer for nothing.

    Leaves alone:
        A normalisation in training mode; one whose layer has other users, shares its weight or is grouped
        and transposed; one whose statistics are not parameters or constants.

    Refuses:
        Nothing. Only ONNX models, which are files to run, get it by default: the result cannot be trained as
        the source can.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,3,8,8]
        ...   %w = param "conv.weight" : f32[4,3,1,1]
        ...   %0 = Conv(%x, %w) : f32[N,4,8,8]
        ...   %g = param "gamma" : f32[4]
        ...   %b = param "beta" : f32[4]
        ...   %m = param "mean" : f32[4]
        ...   %v = param "var" : f32[4]
        ...   %y = BatchNormalization(%0, %g, %b, %m, %v) : f32[N,4,8,8]
        ...   return "y" = %y
        ... }''')
        >>> for change in PrepareForInference().run(graph):
        ...     print(change)
        PI101 is folded into `Conv` - at `BatchNormalization`
    """

    name: ClassVar[str] = "prepare-for-inference"
    codes: ClassVar[dict[str, str]] = {
        "PI101": "a BatchNormalization is folded into the layer before it",
        "PI102": "a Dropout, or a layer's own, does nothing in inference",
    }
    needs_dataflow: ClassVar[bool] = True

    def run(self, graph: Graph) -> list[Change]:
        """Prepare; see the class."""
        places = Places(graph)
        folding = _Folding(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            for node in part.operators():
                place = places.of(part, node.key)
                if node.traits.dropout and _drop(part, node):
                    changes.append(Change("PI102", "does nothing in inference", place=place))
                elif node.traits.drops_inside and node.float("dropout"):
                    del node.attributes["dropout"]
                    changes.append(Change("PI102", "drops nothing in inference", place=place))
                elif node.op_type == "BatchNormalization" and part is graph:
                    layer = _find_layer_to_fold_into(graph, node)
                    if layer is not None:
                        folding.fold(layer, node)
                        changes.append(
                            Change("PI101", f"is folded into {places.of(graph, layer.key)}", place=place)
                        )
        folding.remove_statistics()
        return changes


class _Folding:
    """Folds the normalisations of one graph, and records what became of the source's."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._statistics: dict[int, None] = {}
        self._taken: dict[int, tuple[TensorData | None, list[tuple[list[TensorData], float]]]] = {}

    @cached_property
    def _names(self) -> set[str]:
        return {p.name for p in self.graph.parameters()}

    @cached_property
    def _holders(self) -> dict[int, Module]:
        """Parameter key -> the first module that holds it."""
        found: dict[int, Module] = {}
        for module in self.graph.modules:
            for key in module.parameters.values():
                found.setdefault(key, module)
        return found

    @cached_property
    def _single(self) -> set[int]:
        """Keys of the calls that consist of one operator."""
        operators = Counter(node.call for node in self.graph.operators())
        outer = {call.parent for call in self.graph.modules.calls()}
        return {call for call, count in operators.items() if call is not None and count == 1} - outer

    def fold(self, layer: Operator, norm: Operator) -> None:
        """Fold a normalisation into the layer before it."""
        graph = self.graph
        axis = _channel_axis(layer)
        assert axis is not None
        operands = [v for v in graph.operands(norm.key) if v is not None]
        epsilon = norm.float("epsilon")
        own = graph.operands(layer.key)
        assert own[1] is not None
        weight = graph.parameter(own[1].node)
        if len(own) > 2 and own[2] is not None:
            bias = graph.parameter(own[2].node)
            before = bias.data
        else:
            bias, before = self._bias_beside(weight, _data(graph, operands[2])), None
            graph.set_operand(layer.key, 2, Value(bias.key))
        self._take_in(weight, weight.data, operands[1:], epsilon, axis)
        self._take_in(bias, before, operands[1:], epsilon, -1)
        self._mark_calls(layer, norm)
        graph.replace_uses(Value(norm.key), Value(layer.key))
        graph.remove(norm.key)
        self._statistics.update((value.node, None) for value in operands[1:])

    def remove_statistics(self) -> None:
        """Remove the statistics that nothing reads any more."""
        returned = {value.node for _, value in self.graph.outputs}
        flow = self.graph.flow
        self.graph.remove(*(k for k in self._statistics if not flow.out_degree(k) and k not in returned))

    def _take_in(
        self, into: Parameter, before: TensorData | None, norm: list[Value], epsilon: float, axis: int
    ) -> None:
        """Apply the statistics of a normalisation to a weight or bias; `before` is None for a new bias."""
        statistics = [_data(self.graph, value) for value in norm]
        provenance = self.graph.provenance
        if provenance is not None:
            sources, taken = provenance.parameters, provenance.folds.get(into.key, ())
            if before is None or taken or (into.key in sources and sources[into.key].data is before):
                own = tuple(
                    value.node if value.node in sources and sources[value.node].data is data else data
                    for value, data in zip(norm, statistics, strict=True)
                )
                provenance.folds[into.key] = (*taken, Fold(own, epsilon, axis))

        first, norms = self._taken.setdefault(into.key, (before, []))
        norms.append((statistics, epsilon))

        def load() -> Array:
            array = None if first is None else first.numpy()
            own = [([data.numpy() for data in statistics], epsilon) for statistics, epsilon in norms]
            return fold_normalisations(array, own, axis)

        known = all(d.load is not None for d in statistics) and (before is None or before.load is not None)
        into.data = replace(into.data, load=load if known else None, storage=None, digest="", place=None)

    def _bias_beside(self, weight: Parameter, like: TensorData) -> Parameter:
        """Return a new bias, registered in the module that holds the weight."""
        stem = weight.name.removesuffix("weight")
        base = f"{stem}bias" if stem != weight.name else f"{weight.name}_bias"
        numbered = (f"{base}_{number}" for number in itertools.count(1))
        name = next(n for n in itertools.chain([base], numbered) if n not in self._names)
        self._names.add(name)
        bias = Parameter(name, name, like, role="bias", location=weight.location)
        key = self.graph.add_parameter(bias).node
        if weight.key in self._holders:
            self._holders[weight.key].parameters.setdefault("bias", key)
        return bias

    def _mark_calls(self, layer: Operator, norm: Operator) -> None:
        """Record in the provenance the calls whose inputs or outputs differ from the source's now.

        A call around the layer alone has no result of the source's any more, or gives that of the
        normalisation's call. Calls around the normalisation alone are entered by normalised values.
        """
        provenance, modules = self.graph.provenance, self.graph.modules
        if provenance is None or layer.call is None:
            return
        around: set[int] = set() if norm.call is None else set(modules.ancestors(norm.call))
        for call in set(modules.ancestors(layer.call)) - around:
            provenance.folded[call] = None
        provenance.entered |= around - set(modules.ancestors(layer.call))
        if norm.call is not None and layer.call != norm.call and {layer.call, norm.call} <= self._single:
            provenance.folded[layer.call] = norm.call


def _drop(part: Graph, node: Operator) -> bool:
    """Remove a Dropout; False if an output needs the operator, or the mask is used."""
    operands = part.operands(node.key)
    value = Value(node.key)
    source = operands[0]
    if source is None or len(node.types) > 1 or len(operands) > 2:
        return False
    if part.is_output(value) and (part.is_output(source) or not isinstance(part.producer(source), Operator)):
        return False
    part.replace_uses(value, source)
    part.remove(node.key)
    drop_idle_constants(part, operands[1:])
    return True


def _channel_axis(layer: Operator) -> int | None:
    """Return the weight's axis of output channels; None for layers that take no normalisation in."""
    if (layer.domain, layer.op_type) == ("", "Conv"):
        return 0
    if (layer.domain, layer.op_type) == ("", "ConvTranspose"):
        return 1 if layer.int("group") == 1 else None
    type_ = layer.types[0]
    if (layer.domain, layer.op_type) == (DOMAIN, "Linear"):
        return 0 if type_ is not None and type_.rank == 2 else None  # else axis 1 is not the channels
    return None


def _find_layer_to_fold_into(graph: Graph, norm: Operator) -> Operator | None:
    """Return the layer that a normalisation can be folded into, or None."""
    operands = graph.operands(norm.key)
    source = operands[0]
    if norm.int("training_mode") or len(norm.types) > 1 or source is None:
        return None
    layer = graph.producer(source)
    if not isinstance(layer, Operator) or _channel_axis(layer) is None:
        return None
    if len(graph.users(source)) != 1 or graph.is_output(source):
        return None
    if any(v is None or not _is_data(graph, v) for v in operands[1:]):
        return None
    own = graph.operands(layer.key)[1:]
    for value in own:
        if value is None or not isinstance(graph.producer(value), Parameter) or len(graph.users(value)) > 1:
            return None
    return layer


def _is_data(graph: Graph, value: Value) -> bool:
    return isinstance(graph.producer(value), (Parameter, Constant)) and value.node not in graph.updates


def _data(graph: Graph, value: Value) -> TensorData:
    node = graph.producer(value)
    assert isinstance(node, (Parameter, Constant))
    return node.data
