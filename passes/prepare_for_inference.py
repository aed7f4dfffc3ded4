"""prepare-for-inference: BatchNormalization joins the layer before it, and Dropout goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..ir import DOMAIN, Constant, Graph, Operator, Parameter, TensorData, Value
from .base import Change, Pass
from .eliminate_identities import drop_idle_constants
from .places import Places

_EPSILON = 1e-5  # ONNX's default


@dataclass(frozen=True)
class PrepareForInference(Pass):
    """Fold what only training needs.

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
        Nothing. It is in no pipeline: the result cannot be trained as the source can.

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
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            for node in part.operators():
                place = places.of(part, node.key)
                if node.op_type in ("Dropout", "FeatureDropout") and _drop(part, node):
                    changes.append(Change("PI102", "does nothing in inference", place=place))
                elif node.domain == DOMAIN and node.float("dropout", 0.0):
                    del node.attributes["dropout"]
                    changes.append(Change("PI102", "drops nothing in inference", place=place))
                elif node.op_type == "BatchNormalization" and part is graph:
                    layer = _foldable(graph, node)
                    if layer is not None:
                        _fold(graph, layer, node)
                        if graph.provenance is not None and layer.call is not None:
                            graph.provenance.folded.add(graph.modules.call(layer.call).module)
                        changes.append(
                            Change("PI101", f"is folded into {places.of(graph, layer.key)}", place=place)
                        )
        return changes


def scale_and_shift(
    gamma: np.ndarray, beta: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """(scale, shift) per channel such that the normalisation is ``x * scale + shift``, in float64.

    Example:
        >>> one = np.ones(1)
        >>> [float(v[0]) for v in scale_and_shift(2 * one, 3 * one, 4 * one, 1 * one, 0.0)]
        [2.0, -5.0]
    """
    scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return scale, beta.astype(np.float64) - mean.astype(np.float64) * scale


def _drop(part: Graph, node: Operator) -> bool:
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
    """The weight's axis of output channels, or None where the layer is not one that a norm folds into."""
    if (layer.domain, layer.op_type) == ("", "Conv"):
        return 0
    if (layer.domain, layer.op_type) == ("", "ConvTranspose"):
        return 1 if layer.int("group", 1) == 1 else None
    type_ = layer.types[0]
    if (layer.domain, layer.op_type) == (DOMAIN, "Linear"):
        return 0 if type_ is not None and type_.rank == 2 else None  # else axis 1 is not the channels
    return None


def _foldable(graph: Graph, norm: Operator) -> Operator | None:
    """The layer that a normalisation folds into, or None."""
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


def _fold(graph: Graph, layer: Operator, norm: Operator) -> None:
    axis = _channel_axis(layer)
    assert axis is not None
    operands = [v for v in graph.operands(norm.key) if v is not None]
    statistics = [_data(graph, v) for v in operands[1:]]
    epsilon = norm.float("epsilon", _EPSILON)
    own = graph.operands(layer.key)
    assert own[1] is not None
    weight = graph.parameter(own[1].node)
    old_weight = weight.data

    def folded() -> tuple[np.ndarray, np.ndarray]:
        gamma, beta, mean, variance = (data.numpy() for data in statistics)
        return scale_and_shift(gamma, beta, mean, variance, epsilon)

    def new_weight() -> np.ndarray:
        shape = [1] * len(old_weight.shape)
        shape[axis] = -1
        array = old_weight.numpy()
        return (array.astype(np.float64) * folded()[0].reshape(shape)).astype(array.dtype)

    bias = graph.parameter(own[2].node) if len(own) > 2 and own[2] is not None else None
    old_bias = None if bias is None else bias.data

    def new_bias() -> np.ndarray:
        scale, shift = folded()
        before = 0.0 if old_bias is None else old_bias.numpy().astype(np.float64)
        return (before * scale + shift).astype(statistics[1].numpy().dtype)

    known = old_weight.load is not None and all(d.load is not None for d in statistics)
    weight.data = _lazy(old_weight, new_weight if known else None)
    if bias is None:
        graph.set_operand(layer.key, 2, Value(_add_bias(graph, weight, statistics[1])))
        bias = graph.parameter([v for v in graph.operands(layer.key) if v is not None][2].node)
    bias.data = _lazy(bias.data, new_bias if known else None)
    graph.replace_uses(Value(norm.key), Value(layer.key))
    graph.remove(norm.key)
    for value in operands[1:]:
        if value.node in graph and not graph.flow.out_degree(value.node) and not graph.is_output(value):
            graph.remove(value.node)


def _lazy(data: TensorData, load: Callable[[], np.ndarray] | None) -> TensorData:
    """Other values of the same type, in memory of their own."""
    return replace(data, load=load, storage=None, digest="")


def _add_bias(graph: Graph, weight: Parameter, like: TensorData) -> int:
    """A bias for a layer without one, registered where its weight is."""
    stem = weight.name.rpartition(".")[0]
    name = f"{stem}.bias" if stem else "bias"
    key = graph.add_parameter(Parameter(name, name, like, role="bias", location=weight.location)).node
    for module in graph.modules:
        if weight.key in module.parameters.values() and "bias" not in module.parameters:
            module.parameters["bias"] = key
            break
    return key
