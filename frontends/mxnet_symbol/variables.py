"""Divides the variables of a symbol into inputs, parameters and labels, and finds their stored values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...formats.params_file import SavedArray, read_params
from ...ir import ModelError, TensorData
from .reader import Symbol, SymbolNode
from .signatures import AUXILIARY_SLOTS, is_label, parameter_slots, slot_names
from .structural_names import find_structural


@dataclass(slots=True)
class Stored:
    """The arrays of a ``.params`` file by name, arguments and auxiliary states apart.

    Attributes:
        path: the file, or None when there is none.
        structural: name in the symbol -> Gluon's structural name in the file, where it has such.
    """

    path: Path | None = None
    arguments: dict[str, TensorData] = field(default_factory=dict)
    auxiliary: dict[str, TensorData] = field(default_factory=dict)
    structural: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def read(path: Path | None) -> Stored:
        """Return the arrays of a file.

        Raises:
            ModelError: when it cannot be read, or holds a list without names.
        """
        stored = Stored(path)
        for array in read_params(path) if path is not None else []:
            stored.add(array)
        return stored

    def add(self, array: SavedArray) -> None:
        """Add one array under the name that it has in the symbol."""
        if not array.name:
            raise ModelError(
                "E101",
                "expected arrays with names, got a list without any",
                place=str(self.path),
                hint="save a dictionary: mx.nd.save(file, {'arg:name': array})",
            )
        kind, _, name = array.name.partition(":")
        if kind == "aux" and name:
            self.auxiliary[name] = array.data
        else:
            self.arguments[name if kind == "arg" and name else array.name] = array.data

    def find(self, name: str, *, auxiliary: bool) -> TensorData | None:
        """Return the array of a variable; a file without prefixes keeps everything as arguments."""
        first, second = self.auxiliary, self.arguments
        if not auxiliary:
            first, second = second, first
        return first.get(name, second.get(name))


@dataclass(slots=True)
class Variables:
    """The variables of a symbol by what they are; node index -> node, in the symbol's order."""

    inputs: dict[int, SymbolNode] = field(default_factory=dict)
    parameters: dict[int, SymbolNode] = field(default_factory=dict)
    labels: dict[int, SymbolNode] = field(default_factory=dict)
    auxiliary: set[int] = field(default_factory=set)
    idle: set[int] = field(default_factory=set)
    """Operators that lead from labels to labels: a Reshape of one, say."""

    def are_single(self, stored: Stored) -> bool:
        """Whether the parameters are of float32: a symbol without any computes in what it is given."""
        found = [
            stored.find(node.name, auxiliary=index in self.auxiliary)
            for index, node in self.parameters.items()
        ]
        types = {data.dtype for data in found if data is not None}
        return "float32" in types and "float64" not in types


def classify(symbol: Symbol, stored: Stored, given: Collection[str] = ()) -> Variables:
    """Tell inputs, parameters and labels apart.

    What only loss heads use, as their label, is a label, also behind operators on labels. What is stored or
    sits in a layer's parameter slot is a parameter, unless an input of that name is given. Everything else
    is an input.
    """
    uses: dict[int, list[tuple[SymbolNode, int]]] = {n.index: [] for n in symbol.nodes}
    for node in symbol.operators():
        for slot, (source, _) in enumerate(node.inputs):
            uses[source].append((node, slot))
    returned = {index for index, _ in symbol.heads}
    found = Variables(idle=_idle(symbol, stored, given, uses))
    for node in (n for n in symbol.nodes if n.is_variable):
        roles = [slot_names(user.op, user.attributes)[slot : slot + 1] for user, slot in uses[node.index]]
        in_parameter_slot = any(
            slot in parameter_slots(user.op, user.attributes) for user, slot in uses[node.index]
        )
        auxiliary = any(set(role) & AUXILIARY_SLOTS for role in roles)
        if auxiliary:
            found.auxiliary.add(node.index)
        labelled = [_leads_to_label(user, slot, found.idle) for user, slot in uses[node.index]]
        if labelled and all(labelled) and node.index not in returned:
            found.labels[node.index] = node
        elif node.name not in given and (
            in_parameter_slot
            or "__init__" in node.hidden
            or stored.find(node.name, auxiliary=auxiliary) is not None
        ):
            found.parameters[node.index] = node
        else:
            found.inputs[node.index] = node
    return found


def _leads_to_label(user: SymbolNode, slot: int, idle: Collection[int]) -> bool:
    return user.index in idle or is_label(user.op, user.attributes, slot)


def _idle(
    symbol: Symbol,
    stored: Stored,
    given: Collection[str],
    uses: Mapping[int, Sequence[tuple[SymbolNode, int]]],
) -> set[int]:
    """Return the operators that read no input and no parameter, and that only labels are made of."""
    known = {
        n.index
        for n in symbol.nodes
        if n.is_variable and (n.name in given or stored.find(n.name, auxiliary=False) is not None)
    }
    free = {n.index for n in symbol.nodes if n.is_variable} - known
    for node in symbol.operators():
        if node.inputs and all(source in free for source, _ in node.inputs):
            free.add(node.index)
    returned = {index for index, _ in symbol.heads}
    found: set[int] = set()
    for node in reversed(symbol.operators()):
        users = uses[node.index]
        is_free = node.index in free and node.index not in returned
        if is_free and users and all(_leads_to_label(user, slot, found) for user, slot in users):
            found.add(node.index)
    return found


def rename_structural(symbol: Symbol, stored: Stored, given: Collection[str] = ()) -> None:
    """Give stored arrays with Gluon's structural names (``0.weight``) the names that the symbol has.

    Args:
        symbol: where the names are; inputs that are `given` are none of them.
        stored: changed in place.
        given: names of inputs.

    Raises:
        ModelError: E101 where the symbol does not tell which is which.
    """
    variables = {node.name for node in symbol.nodes if node.is_variable}
    if stored.auxiliary or not stored.arguments or variables & stored.arguments.keys():
        return
    names = [node.name for node in classify(symbol, Stored(), given).parameters.values()]
    found = find_structural(symbol, names, stored.arguments)
    if found:
        stored.structural = found
        stored.arguments = {name: stored.arguments[path] for name, path in found.items()}
