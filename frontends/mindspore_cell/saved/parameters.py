"""The parameters of a ``.mindir`` file: their bytes in it, or in the folder of data beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ....frameworks.mindspore import MINDSPORE
from ....ir import Graph, ModelError, Parameter, TensorData, Value
from ....ir.outside.mapped import MappedFile
from ...infer_initializers import UNKNOWN
from ..mindir import element_type
from .layers import Layer

_STATISTICS = ("moving_mean", "moving_variance")


def add_parameters(
    graph: Graph, root: int, file: MappedFile, tensors: Iterable[Any], layers: Mapping[str, Layer]
) -> tuple[dict[str, Value], list[int]]:
    """Add the layers of a file, and its parameters: to the layer that a name begins with, else to the root.

    Returns:
        Name of a value in the program -> the parameter, and the modules of the layers in their order.

    Raises:
        ModelError: when a file does not hold what is stated (E101).
    """
    opened: dict[str, MappedFile] = {}
    modules = _add_layers(graph, root, layers)
    values: dict[str, Value] = {}
    names: set[str] = set()
    loose: set[str] = set()
    for tensor in tensors:
        name = tensor.name.partition(":")[2] or tensor.name
        if name in names:
            raise file.fail(f"expected every name once, got `{name}` again", tensor.start)
        names.add(name)
        path, _, attribute = name.rpartition(".")
        role = attribute if attribute.isidentifier() else ""
        values[tensor.name] = value = graph.add_parameter(
            Parameter(
                name=name,
                declared=name,
                data=_data(file, tensor, name, opened),
                trainable=role not in _STATISTICS,
                is_buffer=role in _STATISTICS,
                initializer=MINDSPORE.default_law("BatchNorm2d", role, ()) or UNKNOWN,
                role=role,
            )
        )
        held = attribute if path in modules else _attribute(name, loose)
        loose.add(held)
        graph.modules.module(modules.get(path, root)).parameters[held] = value.node
    return values, [modules[path] for path in layers]


def _add_layers(graph: Graph, root: int, layers: Mapping[str, Layer]) -> dict[str, int]:
    """Add modules of layers, and of what holds them, which nothing calls: a file shows no calls.

    Returns:
        Path of a layer -> its module.
    """
    found = {"": root}
    for path in sorted(layers, key=lambda path: path.count(".")):  # what holds others comes first
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            inner, above = ".".join(parts[:depth]), ".".join(parts[: depth - 1])
            if inner not in found:
                found[inner] = graph.modules.add(
                    layers[path].classes[depth - 1], found[above], parts[depth - 1], location=inner
                )
    return {path: found[path] for path in layers}


def _attribute(path: str, taken: Collection[str]) -> str:
    """Return a path as a name without dots that is not taken."""
    plain = path.replace(".", "_") or "unnamed"
    return plain if plain not in taken else f"{plain}_{len(taken)}"


def _data(file: MappedFile, tensor: Any, name: str, opened: dict[str, MappedFile]) -> TensorData:
    """Return a handle on the elements of a parameter."""
    dtype, shape = element_type(tensor.data_type), tuple(tensor.dims)
    if dtype is None:
        raise file.fail(f"expected an element type of `{name}`, got number {tensor.data_type}", tensor.start)
    if tensor.held is not None:
        return file.tensor(name, dtype, shape, [tensor.held])
    external = tensor.external_data
    if external is None:
        raise file.fail(f"expected the elements of `{name}`, got none", tensor.start)
    held = opened.get(external.location) or _open_beside(file, external.location, tensor.start)
    opened[external.location] = held
    start, length = external.offset, external.length
    if start < 0 or length < 0 or start + length > held.size:
        raise held.fail(f"expected {length} bytes of `{name}` here, got a file of {held.size}", max(start, 0))
    return held.tensor(name, dtype, shape, [(start, length)])


def _open_beside(file: MappedFile, location: str, at: int) -> MappedFile:
    """Open a file of data, which must lie in the folder of the model, links followed.

    Raises:
        ModelError: when it lies elsewhere, or is not there.
    """
    folder = file.path.resolve().parent
    plain = bool(location) and location.isprintable() and not Path(location).is_absolute()
    path = (folder / location).resolve() if plain else folder
    if not plain or not path.is_relative_to(folder) or path == folder:
        raise file.fail(f"expected data in the folder of the model, got `{location[:200]}`", at)
    if not path.is_file():
        raise ModelError(
            "E101",
            f"the model's data file is missing: `{path}`",
            place=f"{file.path}, byte {at}",
            hint="copy the folder `…_variables` that mindspore.export wrote along with the model",
        )
    return MappedFile(path, "the data of a model that `mindspore.export` wrote")
