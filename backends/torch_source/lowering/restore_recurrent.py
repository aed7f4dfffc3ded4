"""restore-recurrent: ONNX's recurrent operators on parameters become the layers that they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ....ir import Builder, Graph, Operator, Parameter, TensorData, Value
from ....ir.composites.recurrent import KINDS
from ....ir.provenance import Parts, record
from ....passes.base import Change, Pass
from ....passes.places import Places

_USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@dataclass(frozen=True)
class _Layer:
    """A recurrent operator of ONNX as one layer of a stack.

    Attributes:
        node: the operator.
        x: what it reads.
        weights: its weights and, where it has one, its bias.
        states: the states that it begins with; None for zeros.
        settings: kind, hidden size, number of directions, and nonlinearity.
        flat: its output with directions beside each other, as torch has it; None where nothing makes that.
        is_reverse: whether it runs backwards only, as torch's does on a sequence that is turned round.
    """

    node: Operator
    x: Value
    weights: tuple[Parameter, ...]
    states: tuple[Value | None, ...]
    settings: tuple[str, int, int, str]
    flat: Value | None
    is_reverse: bool = False


@dataclass(frozen=True)
class RestoreRecurrent(Pass):
    """Make layers of ONNX's recurrent operators on parameters.

    What it does:
        In a call of a module without children, replaces an LSTM, GRU or RNN on parameters, or a chain of
        them, by the layer of torch's: weights are taken apart by direction, and their gates reordered.

    Why:
        nn.LSTM, nn.GRU and nn.RNN read better than a function of the file's own, and run fused.

    Leaves alone:
        Weights that are computed or shared, lengths, peepholes, clipped gates, other activations, a GRU that
        resets before its product, a chain with an operator that runs backwards only, and operators outside of
        a module.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "rnn" Rnn {weight_ih=%w, weight_hh=%r}
        ...   %x = input "x" : f32[5,N,3]
        ...   %w = param "rnn.weight_ih" : f32[1,4,3]
        ...   %r = param "rnn.weight_hh" : f32[1,4,4]
        ...   %0 = RNN(%x, %w, %r) {hidden_size=4} : f32[5,1,N,4], f32[1,N,4] @ "rnn#1"
        ...   return "y" = %0:1
        ... }''')
        >>> for change in RestoreRecurrent().run(graph):
        ...     print(change)
        TS103 is a layer of torch's - at `RNN` in `rnn#1`
    """

    name: ClassVar[str] = "restore-recurrent"
    codes: ClassVar[dict[str, str]] = {"TS103": "recurrent operators on parameters are layers of torch's"}

    def run(self, graph: Graph) -> list[Change]:
        """Restore; see the class."""
        tree, places = graph.modules, Places(graph)
        inside: dict[int, list[Operator]] = {}
        for node in graph.operators():
            if node.call is not None and node.qualified_name in _USUAL:
                inside.setdefault(node.call, []).append(node)
        changes: list[Change] = []
        for key, nodes in inside.items():
            call = tree.call(key)
            is_leaf = call.parent is not None and not tree.module(call.module).children
            if not is_leaf or len(tree.calls(call.module)) > 1:
                continue
            layers = [layer for node in nodes if (layer := _read(graph, node)) is not None]
            own = set(tree.module(call.module).parameters.values())
            are_own = all(w.key in own for layer in layers for w in layer.weights)
            if len(layers) == len(nodes) and are_own and _is_chain(graph, layers):
                changes += [
                    Change("TS103", "is a layer of torch's", places.of(graph, n.key)) for n in nodes[:1]
                ]
                _restore(graph, layers)
        if changes:
            graph.remove_dead()
        return changes


def _read(graph: Graph, node: Operator) -> _Layer | None:
    """Return an operator as a layer; None for a form that no layer of torch has."""
    kind, operands = node.op_type, [*graph.operands(node.key), *[None] * 8][:8]
    x, *held, lengths, hidden, cell, peepholes = operands
    direction = node.str("direction")
    names = node.attribute("activations")
    given = [str(name) for name in names] if isinstance(names, (list, tuple)) else []
    directions = 2 if direction == "bidirectional" else 1
    usual = _USUAL[kind] * directions
    is_relu = kind == "RNN" and given[:directions] == ["Relu"] * directions
    if given and not is_relu and given[: len(usual)] != usual:  # two are the default of one direction too
        return None
    if x is None or lengths is not None or peepholes is not None:
        return None
    if node.int("layout") or node.attribute("clip") is not None:
        return None
    if (kind == "LSTM" and node.int("input_forget")) or (
        kind == "GRU" and not node.int("linear_before_reset")
    ):
        return None
    weights = [None if v is None else graph.node(v.node) for v in held]
    kept = [w for w in weights if isinstance(w, Parameter) and _is_alone(graph, w)]
    if len(kept) != sum(v is not None for v in held) or len(kept) < 2 or weights[0] is None:
        return None
    states = tuple(None if _is_zero(graph, s) else s for s in (hidden, cell)[: KINDS[kind].states])
    hidden_size = kept[1].data.shape[-1]
    settings = (kind, hidden_size, directions, "relu" if is_relu else "tanh")
    flat = _flat(graph, node, directions)
    return _Layer(node, x, tuple(kept), states, settings, flat, direction == "reverse")


def _is_alone(graph: Graph, parameter: Parameter) -> bool:
    value = Value(parameter.key)
    return len(graph.users(value)) == 1 and not graph.is_output(value)


def _is_zero(graph: Graph, state: Value | None) -> bool:
    known = graph.constant_value(state)
    return state is None or (known is not None and not known.any())


def _flat(graph: Graph, node: Operator, directions: int) -> Value | None:
    """Return the output with directions beside each other, which ONNX's files compute behind the operator."""
    if directions == 1:
        squeezed = _only_user(graph, Value(node.key), "Squeeze")
        if squeezed is None:
            return None
        axes = (
            graph.constant_value(graph.operands(squeezed.key)[1])
            if len(graph.operands(squeezed.key)) > 1
            else None
        )
        return Value(squeezed.key) if axes is not None and axes.reshape(-1).tolist() == [1] else None
    turned = _only_user(graph, Value(node.key), "Transpose")
    if turned is None or turned.ints("perm") != [0, 2, 1, 3]:
        return None
    joined = _only_user(graph, Value(turned.key), "Reshape")
    if joined is None or joined.int("allowzero"):
        return None
    shape = graph.constant_value(graph.operands(joined.key)[1])
    return Value(joined.key) if shape is not None and shape.tolist() == [0, 0, -1] else None


def _only_user(graph: Graph, value: Value, op_type: str) -> Operator | None:
    users = graph.users(value)
    node = graph.node(users[0][0]) if len(users) == 1 and not graph.is_output(value) else None
    return node if isinstance(node, Operator) and node.qualified_name == op_type else None


def _is_chain(graph: Graph, layers: Sequence[_Layer]) -> bool:
    """Whether layers are alike and each reads what the one before gives, which nothing else reads."""
    if len(layers) == 1:
        return True
    if any(layer.is_reverse for layer in layers):
        return False
    for first, second in pairwise(layers):
        if first.flat is None or second.x != first.flat or len(graph.users(first.flat)) > 1:
            return False
        if first.settings != second.settings or graph.is_output(first.flat):
            return False
        if len(first.weights) != len(second.weights):
            return False
    if any(s is not None for layer in layers for s in layer.states):
        return False
    finals = [[Value(n.node.key, at) for n in layers] for at in range(1, len(layers[0].node.types))]
    return all(
        _joined(graph, values) is not None or not any(graph.is_read(v) for v in values) for values in finals
    )


def _joined(graph: Graph, finals: Sequence[Value]) -> Value | None:
    """Return the final states of all layers one behind another, which is all that reads them; else None."""
    joined = _only_user(graph, finals[0], "Concat")
    if joined is None or joined.int("axis") not in (0, -3) or graph.operands(joined.key) != list(finals):
        return None
    is_all = all(_only_user(graph, value, "Concat") is joined for value in finals)
    return Value(joined.key) if is_all else None


def _restore(graph: Graph, layers: Sequence[_Layer]) -> None:
    first, last = layers[0], layers[-1]
    kind, hidden, directions, nonlinearity = first.settings
    call = first.node.call
    assert call is not None
    made = graph.modules.call(call)
    held = graph.modules.module(made.module).parameters
    parameters = [p for at, layer in enumerate(layers) for p in _taken_apart(graph, layer, held, at)]
    attributes: dict[str, Any] = {
        "hidden_size": hidden,
        "num_layers": len(layers),
        "bidirectional": int(directions == 2),
        "has_bias": int(len(first.weights) > 2),
    }
    if kind == "RNN":
        attributes["nonlinearity"] = nonlinearity
    b, count, x = Builder(graph), KINDS[kind].states, first.x
    if first.is_reverse:
        with b.inside(made.parent, first.node.location):
            x = _turned_round(b, x)
    with b.inside(call, first.node.location):
        y, *states = b.ops(
            f"regraft.{kind}", x, None, *first.states, *parameters, outputs=1 + count, **attributes
        )
    with b.inside(made.parent, first.node.location):
        if first.is_reverse and graph.is_read(Value(last.node.key)):
            y = _turned_round(b, y)
        if last.flat is not None:
            graph.replace_uses(last.flat, y)
        elif graph.is_read(Value(last.node.key)):
            apart = b.op("Reshape", y, b.constant([0, 0, directions, hidden]))
            graph.replace_uses(Value(last.node.key), b.op("Transpose", apart, perm=[0, 2, 1, 3]))
    for at in range(1, len(last.node.types)):
        finals = [Value(layer.node.key, at) for layer in layers]
        found = finals[0] if len(layers) == 1 else _joined(graph, finals)
        if found is not None:
            graph.replace_uses(found, states[at - 1])


def _turned_round(b: Builder, sequence: Value) -> Value:
    """Return a sequence from its last element to its first."""
    first, before, axis, step = ([n] for n in (-1, -sys.maxsize, 0, -1))
    return b.op("Slice", sequence, *map(b.constant, (first, before, axis, step)))


def _taken_apart(graph: Graph, layer: _Layer, held: dict[str, int], at: int) -> list[Value]:
    """Return the parameters of a layer as torch's has them, in the order of its operands."""
    kind, _, directions, _ = layer.settings
    names = {key: name for name, key in held.items()}
    for parameter in layer.weights:
        held.pop(names[parameter.key], None)
    whole = [(w, w.data, slice(None)) for w in layer.weights[:2]]
    if len(layer.weights) > 2:
        bias = layer.weights[2]
        size = bias.data.shape[1] // 2
        whole += [(bias, bias.data, slice(0, size)), (bias, bias.data, slice(size, 2 * size))]
    found: list[Value] = []
    parts: dict[int, list[int]] = {}
    for direction in range(directions):
        suffix = f"_l{at}" + ("_reverse" if direction else "")
        for name, (source, data, rows) in zip(_NAMES, whole, strict=False):
            found.append(_piece(graph, source, data, kind, direction, rows, name + suffix, held))
            parts.setdefault(source.key, []).append(found[-1].node)
    order = np.argsort(KINDS[kind].gates)
    graph.provenance = graph.provenance or record(graph)
    for key, keys in parts.items():
        gates = [int(number * len(order) + gate) for number in range(len(keys)) for gate in order]
        graph.provenance.parts[key] = Parts(tuple(keys), tuple(gates))
    return found


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _piece(
    graph: Graph,
    source: Parameter,
    data: TensorData,
    kind: str,
    direction: int,
    rows: slice,
    name: str,
    held: dict[str, int],
) -> Value:
    """Return the parameter of one direction; the first piece keeps the node that the source's record has."""
    order = np.argsort(KINDS[kind].gates)
    length = len(range(*rows.indices(data.shape[1])))

    def load() -> np.ndarray:
        part = data.numpy()[direction][rows]
        return np.concatenate([np.split(part, len(order))[gate] for gate in order])

    piece = TensorData(data.dtype, (length, *data.shape[2:]), None if data.load is None else load)
    prefix, dot, _ = source.name.rpartition(".")
    if direction == 0 and rows.start in (None, 0):
        source.data, source.name = piece, f"{prefix}{dot}{name}"
        value = Value(source.key)
    else:
        value = graph.add_parameter(replace(source, name=f"{prefix}{dot}{name}", data=piece, key=-1))
    held[name] = value.node
    return value
