"""The module tree of a symbol: a root, and one module for every node that has parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import Graph, ModelError, Parameter, TensorData, Value
from .binding import declared_dtype, declared_sizes
from .fixed_gammas import is_fixed
from .initializers import default_initializer, stated_initializer
from .reader import Symbol, SymbolNode
from .signatures import parameter_slots
from .variables import Stored, Variables

_SUFFIXES = ("weight", "bias", "gamma", "beta", "moving_mean", "moving_var", "running_mean", "running_var")


@dataclass(slots=True)
class Tree:
    """The modules and parameters of a graph under construction.

    Attributes:
        graph: the graph.
        modules: operator node index -> key of its module.
        parameters: variable node index -> its value in the graph.
    """

    graph: Graph
    modules: dict[int, int] = field(default_factory=dict)
    parameters: dict[int, Value] = field(default_factory=dict)


def build_tree(graph: Graph, symbol: Symbol, variables: Variables, stored: Stored, name: str) -> Tree:
    """Add the modules and parameters of a symbol to a graph.

    Args:
        graph: the graph.
        symbol: the symbol.
        variables: its variables.
        stored: the values; where a file is there, every parameter must be in it.
        name: class name of the root.

    Raises:
        ModelError: when the file lacks a parameter.
    """
    tree = Tree(graph)
    _check_stored(variables, stored)
    root = graph.modules.add(name)
    taken: dict[str, int] = {}
    for node in symbol.operators():
        slots = parameter_slots(node.op, node.attributes)
        held = {
            slot: index
            for slot, (index, _) in enumerate(node.inputs)
            if slot in slots and index in variables.parameters
        }
        if held:
            module = graph.modules.add(
                node.op, root, _unique(node.name, taken), location=node.name, arguments=dict(node.attributes)
            )
            tree.modules[node.index] = module
            for slot, index in held.items():
                value = _parameter(tree, variables, stored, index, slots[slot])
                graph.modules.module(module).parameters[slots[slot]] = value.node
                arguments = graph.modules.module(module).arguments
                arguments |= _multipliers(variables.parameters[index], slots[slot])
    for index, node in variables.parameters.items():  # those that no layer holds
        if index not in tree.parameters:
            role = next((s for s in _SUFFIXES if node.name.endswith(s)), "")
            value = _parameter(tree, variables, stored, index, role)
            attribute = _unique(node.name, taken)
            graph.modules.module(root).parameters[attribute] = value.node
            graph.modules.module(root).arguments |= _multipliers(node, attribute)
    _fix_gammas(tree, symbol)
    return tree


def add_parameters(graph: Graph, variables: Variables, stored: Stored) -> Tree:
    """Add a root and the parameters of a symbol alone, which is what types follow from."""
    tree = Tree(graph)
    graph.modules.add("")
    for index, node in variables.parameters.items():
        data = _data(node, index, variables, stored)
        tree.parameters[index] = graph.add_parameter(Parameter(node.name, node.name, data))
    return tree


def _check_stored(variables: Variables, stored: Stored) -> None:
    if stored.path is None:
        return
    missing = [
        n.name
        for i, n in variables.parameters.items()
        if stored.find(n.name, auxiliary=i in variables.auxiliary) is None
    ]
    if missing:
        raise ModelError(
            "E101",
            f"expected every parameter of the symbol, got none for {', '.join(f'`{n}`' for n in missing[:5])}"
            + (f" and {len(missing) - 5} more" if len(missing) > 5 else ""),
            place=str(stored.path),
            hint="give the file that belongs to this symbol with --params",
        )


def _parameter(tree: Tree, variables: Variables, stored: Stored, index: int, role: str) -> Value:
    if index in tree.parameters:
        return tree.parameters[index]
    node = variables.parameters[index]
    auxiliary = index in variables.auxiliary
    data = _data(node, index, variables, stored)
    stated = node.hidden.get("__init__")
    gluon = "__storage_type__" in node.hidden  # which Module never writes
    value = tree.graph.add_parameter(
        Parameter(
            node.name,
            node.name,
            data,
            trainable=not auxiliary,
            is_buffer=auxiliary,
            initializer=default_initializer(role, gluon=gluon)
            if stated is None
            else stated_initializer(stated, data.shape),
            location=node.place,
            role=role,
        )
    )
    tree.parameters[index] = value
    return value


def _data(node: SymbolNode, index: int, variables: Variables, stored: Stored) -> TensorData:
    """Return the stored data of a parameter, else the type that its variable states."""
    data = stored.find(node.name, auxiliary=index in variables.auxiliary)
    if data is None:
        return TensorData(declared_dtype(node) or "float32", declared_sizes(node) or (), None)
    # nodes of one name are parameters of their own, which start from the same values
    return TensorData(data.dtype, data.shape, data.load, (data.storage, index))


def _multipliers(node: SymbolNode, slot: str) -> dict[str, object]:
    """Return the factors on learning rate and decay in a variable, as old files wrote them on layers."""
    factors = {f"{slot}_{key}": node.hidden.get(f"__{key}__", "1.0") for key in ("lr_mult", "wd_mult")}
    return {name: value for name, value in factors.items() if value != "1.0"}


def _fix_gammas(tree: Tree, symbol: Symbol) -> None:
    """Freeze the gammas that BatchNorm fixes at 1."""
    for node in symbol.operators():
        if is_fixed(node) and len(node.inputs) > 1:
            gamma = tree.parameters.get(node.inputs[1][0])
            if gamma is not None:
                tree.graph.parameter(gamma.node).trainable = False


def _unique(name: str, taken: dict[str, int]) -> str:
    """Return a node name as a unique attribute name without dots; `taken` holds the last number of each."""
    plain = name.replace(".", "_") or "unnamed"
    result = plain
    while result in taken:
        taken[plain] += 1
        result = f"{plain}_{taken[plain]}"
    taken[result] = 0
    return result
