"""The facts about a net for pairing: layers with parameters, their shapes, order and neighbours."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...checkpoints.spelling import COUNTER, plain_shape, role_of
from ...frontends.constructions import arguments_of, part_at
from ...ir import Graph, Module, Operator, Parameter, TensorData, numpy_dtype
from ...ir.fixed_scales import is_fixed_scale

_LAYER_ROLES = re.compile(
    r"^(weight|bias|running_mean|running_var|parameters|in_proj_weight|in_proj_bias|bias_[kv]|[qkv]_proj_weight"
    r"|(weight|bias)_(ih|hh)(_?l?\d*(_reverse)?)?)$"
)


@dataclass(frozen=True, slots=True)
class Layer:
    """A module that holds parameters, or a parameter that a class of the user's holds itself.

    Attributes:
        path: of the module; of the parameter where it stands alone.
        module: the module's key.
        parameters: role in torch's terms -> the parameter's node key.
        signature: what two layers must share to be paired by order: their shapes, without biases.
        place: where it is first called; its registration where nothing was captured.
        parts: the layers that were put together as this one, which then has no parameters itself.
    """

    path: str
    module: int
    parameters: dict[str, int]
    signature: tuple[object, ...]
    place: tuple[int, int] = (0, 0)
    parts: tuple[Layer, ...] = ()


@dataclass(slots=True)
class Net:
    """One side of a comparison.

    Attributes:
        graph: its graph.
        layers: in the order of their calls; a parameter that several hold is the first one's.
        tied: path of a layer that holds a parameter of another one -> the layer with all that it holds.
        names: parameter's node key -> its name: the first path that holds it.
        before: layer's path -> what its input comes from: layers' paths, and ``>0`` for input 0.
        after: layer's path -> where its result goes: layers' paths, and ``<0`` for output 0.
    """

    graph: Graph
    layers: list[Layer]
    names: dict[int, str]
    tied: dict[str, Layer] = field(default_factory=dict)
    before: dict[str, frozenset[str]] = field(default_factory=dict)
    after: dict[str, frozenset[str]] = field(default_factory=dict)

    def parameter(self, key: int) -> Parameter:
        """A parameter by its key."""
        return self.graph.parameter(key)

    def data(self, key: int) -> TensorData:
        """The values that the net computes with: ones for a scale that a symbol fixes, whatever is stored."""
        parameter = self.graph.parameter(key)
        data = parameter.data
        if data.load is None or not is_fixed_scale(self.graph, parameter):
            return data
        return TensorData(data.dtype, data.shape, lambda: np.ones(data.shape, numpy_dtype(data.dtype)))


def describe(graph: Graph, is_left_out: Callable[[str], bool]) -> Net:
    """The layers of a graph, captured or static.

    Args:
        graph: the graph.
        is_left_out: whether a parameter of this name has no counterpart by the map: then no layer holds it.
    """
    names = {key: paths[0] for key, paths in graph.parameter_paths().items()}
    for parameter in graph.parameters():
        names.setdefault(parameter.key, parameter.declared)
    left_out = {key for key, name in names.items() if is_left_out(name)}
    net = Net(graph, _layers(graph, names, left_out), names, _tied(graph, names, left_out))
    _connect(net)
    return net


def _layers(graph: Graph, names: dict[int, str], left_out: set[int]) -> list[Layer]:
    found: list[Layer] = []
    seen = set(left_out)
    calls = graph.modules.calls()
    first = {call.module: at for at, call in reversed(list(enumerate(calls)))}
    reader = {p.key: min(graph.flow.succ[p.key], default=len(graph)) for p in graph.parameters()}
    for registered, module in enumerate(graph.modules):
        held = {n: k for n, k in module.parameters.items() if k not in seen and role_of(n) != COUNTER}
        seen |= set(held.values())
        held = {n: k for n, k in held.items() if not _is_idle(graph, module, n, k)}
        if not held:
            continue
        path = re.sub(r"\.bn2d$", "", graph.modules.path(module.key))
        at = first.get(module.key, len(calls) + registered) if calls else registered
        if all(_LAYER_ROLES.match(role_of(n)) for n in held):
            roles = {role_of(n): k for n, k in held.items()}
            found.append(Layer(path, module.key, roles, _signature(graph, roles), (at, 0)))
            continue
        for key in held.values():
            place = (at, reader[key])
            found.append(Layer(names[key], module.key, {"": key}, _signature(graph, {"": key}), place))
    for parameter in graph.parameters():  # what no module holds: a symbol without structure
        if parameter.key not in seen and parameter.role != COUNTER:
            key = parameter.key
            alone = {"": key}
            found.append(Layer(names[key], -1, alone, _signature(graph, alone), (len(calls), reader[key])))
    return sorted(found, key=lambda layer: layer.place)


def _tied(graph: Graph, names: dict[int, str], left_out: set[int]) -> dict[str, Layer]:
    """The layers that hold a parameter under another path than its first, and modules that have two paths."""
    found: dict[str, Layer] = {}
    calls = graph.modules.calls()
    for registered, module in enumerate(graph.modules):
        held = {n: k for n, k in module.parameters.items() if k not in left_out and role_of(n) != COUNTER}
        held = {n: k for n, k in held.items() if not _is_idle(graph, module, n, k)}
        called = [at for at, call in enumerate(calls) if call.module == module.key]
        for number, path in enumerate(graph.modules.paths(module.key)):
            full = {n: f"{path}.{n}" if path else n for n in held}
            if all(full[n] == names[k] for n, k in held.items()):
                continue
            place = called[min(number, len(called) - 1)] if called else len(calls) + registered
            if all(_LAYER_ROLES.match(role_of(n)) for n in held):
                roles = {role_of(n): k for n, k in held.items()}
                found[path] = Layer(path, module.key, roles, _signature(graph, roles), (place, 0))
                continue
            for name, key in held.items():
                if full[name] != names[key]:
                    alone = {"": key}
                    found[full[name]] = Layer(
                        full[name], module.key, alone, _signature(graph, alone), (place, 1)
                    )
    return found


def tied_layers(net: Net) -> dict[str, Layer]:
    """The layers with a parameter of another one, but for those that were put together with others."""
    parts = {part.path for layer in net.layers for part in layer.parts}
    return {path: layer for path, layer in net.tied.items() if path not in parts}


def with_tied(net: Net, tied: Mapping[str, Layer]) -> dict[str, Layer]:
    """The layers of a net by path, with those that hold a parameter of another one, in the order of calls."""
    return in_order_of_calls({**{layer.path: layer for layer in net.layers}, **tied})


def in_order_of_calls(layers: Mapping[str, Layer]) -> dict[str, Layer]:
    """The layers, sorted by where they are called first."""
    return dict(sorted(layers.items(), key=lambda item: item[1].place))


def _is_idle(graph: Graph, module: Module, name: str, key: int) -> bool:
    """Whether a parameter is a statistic that its layer neither reads nor updates: it has the batch's own."""
    if role_of(name) not in ("running_mean", "running_var"):
        return False
    if graph.operators():
        return not graph.flow.out_degree(key) and key not in graph.updates
    given = arguments_of(part_at(graph.origin.model, graph.modules.path(module.key)))
    return (given or {}).get("use_batch_statistics") is True


def _signature(graph: Graph, roles: dict[str, int]) -> tuple[object, ...]:
    shapes = {role: plain_shape(graph.parameter(key).data.shape) for role, key in roles.items()}
    if "running_mean" in shapes:
        return ("statistics", shapes["running_mean"])
    if len(shapes.get("", ())) > 1:  # what a class of the user's holds itself may be a layer's weight there
        return (("weight", shapes[""]),)
    return tuple(sorted((r, s) for r, s in shapes.items() if not r.startswith("bias") or len(shapes) == 1))


def _connect(net: Net) -> None:
    """Fill in the neighbours of every layer, through operators without parameters."""
    graph = net.graph
    owner = {key: layer.path for layer in net.layers for key in layer.parameters.values()}
    pure: dict[int, frozenset[str]] = {}  # nodes computed from parameters and constants alone -> their layers
    anchors: dict[int, frozenset[str]] = {}
    order = graph.order()
    for key in order:
        operands = [v.node for v in graph.operands(key) if v is not None]
        if key in owner:
            pure[key] = frozenset({owner[key]})
        elif not isinstance(graph.node(key), Operator):
            if not operands and key not in {n.key for n in graph.input_nodes()}:
                pure[key] = frozenset()
        elif all(o in pure for o in operands):
            pure[key] = frozenset().union(*(pure[o] for o in operands))
        else:
            layers = frozenset().union(*(pure[o] for o in operands if o in pure))
            if layers:
                anchors[key] = layers
    inputs = {n.key: f">{i}" for i, n in enumerate(graph.input_nodes())}
    before: dict[str, set[str]] = {}
    reach: dict[int, frozenset[str]] = {}
    for key in order:
        operands = [v.node for v in graph.operands(key) if v is not None and v.node not in pure]
        come = frozenset().union(*(reach[o] for o in operands)) if operands else frozenset()
        for path in anchors.get(key, ()):
            before.setdefault(path, set()).update(come - {path})
        reach[key] = anchors.get(key, frozenset({inputs[key]}) if key in inputs else come)
    after: dict[str, set[str]] = {}
    leave: dict[int, set[str]] = {}
    for at, (_, value) in enumerate(graph.outputs):
        leave.setdefault(value.node, set()).add(f"<{at}")
    for key in reversed(order):
        go = leave.setdefault(key, set())
        for user in graph.flow.succ[key]:
            go |= set(anchors[user]) if user in anchors else leave.get(user, set())
        for path in anchors.get(key, ()):
            after.setdefault(path, set()).update(go - {path})
    net.before = {path: frozenset(found) for path, found in before.items()}
    net.after = {path: frozenset(found) for path, found in after.items()}
