"""Cuts parts out of an ONNX model by value names."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx


class Slices:
    """Cuts parts out of a model by value names."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        graph = model.graph
        self.infos = {i.name: i for i in [*graph.value_info, *graph.input, *graph.output]}
        self.initializers = {t.name: t for t in graph.initializer}
        self.producer = {name: i for i, node in enumerate(graph.node) for name in node.output if name}

    def with_outputs(self, further: Sequence[str]) -> onnx.ModelProto:
        """Return the whole model with further values as outputs."""
        new = onnx.ModelProto()
        new.CopyFrom(self.model)
        new.graph.output.extend(self.infos.get(n, onnx.ValueInfoProto(name=n)) for n in further)
        return new

    def sizes(self, feeds: Mapping[str, np.ndarray]) -> dict[str, int]:
        """Return symbol -> size, from the arrays that are fed."""
        return {
            dim.dim_param: size
            for name, array in feeds.items()
            if name in self.infos
            for dim, size in zip(self.infos[name].type.tensor_type.shape.dim, array.shape, strict=False)
        }

    def group_names(
        self, names: Sequence[str], feeds: Mapping[str, np.ndarray], budget: int
    ) -> list[list[str]]:
        """Return names of values in groups, each of at most `budget` bytes or of one value."""
        sizes = self.sizes(feeds)
        known = {name: self._bytes(name, sizes) for name in names}
        largest = max((size for size in known.values() if size is not None), default=0)
        groups: list[list[str]] = []
        held = 0
        for name in names:
            size = known[name]
            needed = largest if size is None else size
            if not groups or held + needed > budget:
                groups.append([])
                held = 0
            groups[-1].append(name)
            held += needed
        return groups

    def _bytes(self, name: str, sizes: Mapping[str, int]) -> int | None:
        """Return the size of a value in memory; None if its shape is unknown."""
        info = self.infos.get(name)
        if info is None or not info.type.tensor_type.HasField("shape"):
            return None
        tensor = info.type.tensor_type
        dims = [sizes.get(d.dim_param) if d.dim_param else d.dim_value for d in tensor.shape.dim]
        if any(d is None for d in dims):
            return None
        item = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
        return item * math.prod(d for d in dims if d is not None)

    def between(self, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
        """Return the part of the model that computes `outputs` from `inputs`."""
        graph = self.model.graph
        kept, used = self.needed(inputs, outputs)
        new = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        new.graph.name = "module"
        new.graph.input.extend(self.infos.get(n, onnx.ValueInfoProto(name=n)) for n in inputs)
        new.graph.output.extend(self.infos.get(n, onnx.ValueInfoProto(name=n)) for n in outputs)
        new.graph.node.extend(graph.node[i] for i in kept)
        new.graph.initializer.extend(self.initializers[n] for n in used)
        return new

    def needed(self, inputs: Collection[str], outputs: Sequence[str]) -> tuple[list[int], list[str]]:
        """Return the numbers of the nodes that compute values from others, and the initializers they read."""
        needed, used, stack = set(inputs), set[str](), list(outputs)
        kept: set[int] = set()
        while stack:
            name = stack.pop()
            if name in needed:
                continue
            needed.add(name)
            if name in self.initializers:
                used.add(name)
            elif name in self.producer and self.producer[name] not in kept:
                kept.add(self.producer[name])
                stack.extend(values_read(self.model.graph.node[self.producer[name]]))
        return sorted(kept), sorted(used)


def values_read(node: onnx.NodeProto) -> list[str]:
    """Return the names of the values that a node reads, those that its nested graphs use included."""
    return [name for name in [*node.input, *_implicit(node)] if name]


def _implicit(node: onnx.NodeProto) -> list[str]:
    """Return the outer values that the nested graphs of a node use."""
    found: list[str] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            body = attribute.g
            inner = {i.name for i in body.input} | {t.name for t in body.initializer}
            inner |= {name for n in body.node for name in n.output}
            used = [name for n in body.node for name in [*n.input, *_implicit(n)]]
            found += [name for name in used if name and name not in inner]
    return found
