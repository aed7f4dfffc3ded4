"""The layers of a program from a file: what reads parameters of one prefix and lies in the scope of it.

A file has no call boundaries, and its scopes name the wrong instance where a Python function was used before.
The scope of what reads a layer's own parameters is right, and so a layer is as exact as these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from ..mindir import Program

_LONGEST = 64
"""Most nodes between the first and the last of a layer."""

_DEEPEST = 32
"""Most Cells around a layer."""

_IDLE = ("Load", "UpdateState", "Constant", "Depend", "MakeTuple")


@dataclass(slots=True)
class Layer:
    """A layer.

    Attributes:
        path: the prefix of its parameters' names, ``blocks.0.conv``.
        classes: of what holds it, from the root on, and its own, as the scope has them.
        nodes: numbers of its nodes.
        readers: those of them that read its parameters.
    """

    path: str
    classes: tuple[str, ...]
    nodes: list[int] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)


def find_layers(program: Program) -> tuple[dict[str, Layer], dict[str, int]]:
    """Return (path -> layer, name of a node -> number of its layer's call; 0 is the root's).

    A layer's nodes are those in its scope that read its parameters, and those between them. A path whose
    nodes do not lie together, as those of a layer that runs twice, is no layer.
    """
    loads = dict(program.parameters)
    found: dict[str, Layer] = {}
    makers: dict[str, int] = {}
    for number, node in enumerate(program.nodes):
        makers[node.name] = number
        if node.op == "Load" and node.inputs:
            loads[node.name] = loads.get(node.inputs[0], "")
        if node.op in _IDLE:
            continue
        path, classes = _scope(node.scope)
        read = {p for i in node.inputs if (p := loads.get(i, "").rpartition(".")[0])}
        if classes and read <= {path}:
            layer = found.setdefault(path, Layer(path, classes))
            layer.nodes.append(number)
            if read:
                layer.readers.append(number)
    users: dict[int, list[int]] = {}
    for number, node in enumerate(program.nodes):
        if node.op not in ("UpdateState", "Load"):
            for name in node.inputs:
                if name in makers:
                    users.setdefault(makers[name], []).append(number)
    layers: dict[str, Layer] = {}
    for path, layer in found.items():
        for nodes in (layer.nodes, layer.readers):  # a function may have left its scope here
            if layer.readers and _is_chain(program, nodes, makers, users):
                layer.nodes = nodes
                layers[path] = layer
                break
    layers = dict(sorted(layers.items(), key=lambda item: item[1].nodes[0]))
    calls = {
        program.nodes[number].name: at
        for at, layer in enumerate(layers.values(), 1)
        for number in layer.nodes
    }
    return layers, calls


def _scope(scope: str) -> tuple[str, tuple[str, ...]]:
    """Return (path, classes) of ``Default/blocks-SequentialCell/0-Block/conv-Conv2d/Conv2D-op0``."""
    parts = [part.rpartition("-") for part in scope.split("/")[1:-1]]
    fits = 0 < len(parts) <= _DEEPEST
    if not fits or not all(name and "." not in name and of.isidentifier() for name, _, of in parts):
        return "", ()
    return ".".join(name for name, _, _ in parts), tuple(of for _, _, of in parts)


def _is_chain(
    program: Program, nodes: list[int], makers: dict[str, int], users: dict[int, list[int]]
) -> bool:
    """Whether nodes follow one another, each read by the next alone, and read no parameter twice.

    Then they are one call, with the value that enters the first and leaves the last.
    """
    read: list[str] = []
    for number in nodes:
        loaded = (i for i in program.nodes[number].inputs if i in makers)
        read += [i for i in loaded if program.nodes[makers[i]].op == "Load"]
    follows = all(users.get(a) == [b] for a, b in pairwise(nodes))
    return follows and nodes[-1] - nodes[0] <= _LONGEST and len(read) == len(set(read))
