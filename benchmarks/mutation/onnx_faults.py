"""Faults in an ONNX file: operators, edges, initializers, and what only some batches show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .mutants import Mutant, NotApplicableError
from .operators import Edit, edits
from .values import exchanges, weight_faults

_COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or", "Equal", "Sum"})

_THROUGH_FLOAT16 = [("Cast", {"to": TensorProto.FLOAT16}), ("Cast", {"to": TensorProto.FLOAT})]


def onnx_mutants(path: Path) -> Iterator[Mutant]:
    """Every fault that can be planted in the file."""
    plan = _Plan(path)
    yield from plan.operators()
    yield from plan.edges()
    yield from plan.weights()
    yield from plan.outputs()
    yield from plan.batches()


class _Plan:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._model = onnx.load(path)
        graph = onnx.shape_inference.infer_shapes(self._model, data_prop=True).graph
        self._types: dict[str, tuple[int, tuple[object, ...]]] = {}
        self._weights = {t.name: numpy_helper.to_array(t) for t in self._model.graph.initializer}
        for name, array in self._weights.items():
            self._types[name] = (helper.np_dtype_to_tensor_dtype(array.dtype), tuple(array.shape))
        for part in _graphs(graph):
            for info in [*part.input, *part.value_info, *part.output]:
                tensor = info.type.tensor_type
                dims = tuple(d.dim_param or d.dim_value for d in tensor.shape.dim)
                self._types.setdefault(info.name, (tensor.elem_type, dims))

    def _mutant(self, kind: str, place: str, change: Callable[[onnx.ModelProto], None]) -> Mutant:
        def build(folder: Path) -> Path:
            model = onnx.ModelProto()
            model.CopyFrom(self._model)
            change(model)
            onnx.save(model, folder / "net.onnx")
            renames = self._path.with_suffix(".renames.json")
            shutil.copyfile(renames, folder / renames.name)
            return folder / "net.onnx"

        return Mutant(kind, place, build)

    def _nodes(self) -> Iterator[tuple[int, int, onnx.NodeProto]]:
        for g, graph in enumerate(_graphs(self._model.graph)):
            for n, node in enumerate(graph.node):
                yield g, n, node

    def operators(self) -> Iterator[Mutant]:
        """Other operators, attributes and operands; dropped nodes; float16 within; branches swapped."""
        for g, n, node in self._nodes():
            place = f"{node.op_type} `{node.output[0]}`"
            operands = [bool(name) for name in node.input]
            dims = self._types.get(node.input[0], (0, None))[1] if node.input else None
            given = {a.name: _value(a) for a in node.attribute if a.type != a.GRAPH}
            rank = None if dims is None else len(dims)
            for edit in edits(node.op_type, given, operands, rank):
                yield self._mutant(edit.kind, f"{place}: {edit.what}", self._applied(g, n, edit))
            if {a.name for a in node.attribute} >= {"then_branch", "else_branch"}:
                yield self._mutant(
                    "branches swapped", place, lambda m, at=(g, n): _swap_branches(_node(m, *at))
                )
            kind, shape = self._types.get(node.output[0], (0, None))
            if kind == TensorProto.FLOAT and node.op_type != "Identity":
                yield self._mutant("float16 inside", place, lambda m, at=(g, n): _through_float16(m, *at))
            for name in node.input:
                if name and self._types.get(name) == (kind, shape) and shape and name not in self._weights:
                    drop = self._dropping(g, n, name)
                    yield self._mutant("node dropped", f"{place} for `{name}`", drop)

    @staticmethod
    def _dropping(g: int, n: int, kept: str) -> Callable[[onnx.ModelProto], None]:
        def change(model: onnx.ModelProto) -> None:
            node = _node(model, g, n)
            if len([o for o in node.output if o]) > 1:
                raise NotApplicableError
            new = helper.make_node("Identity", [kept], [node.output[0]], name=node.name)
            node.CopyFrom(new)

        return change

    def _applied(self, g: int, n: int, edit: Edit) -> Callable[[onnx.ModelProto], None]:
        def change(model: onnx.ModelProto) -> None:
            node = _node(model, g, n)
            kind = self._types.get(node.input[0], (TensorProto.FLOAT, ()))[0]
            attributes = {a.name: a for a in node.attribute}
            for name, value in edit.attributes.items():
                attributes.pop(name, None)
                if value is not None:
                    attributes[name] = helper.make_attribute(name, value)
            kept = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in attributes.values()]
            del node.attribute[:]
            node.attribute.extend(kept)
            if edit.order is not None:
                old = list(node.input)
                del node.input[:]
                node.input.extend("" if i < 0 else old[i] for i in edit.order)
            for i, value in enumerate(edit.scalars):
                name = f"mutation_scalar_{i}"
                array = np.array(value, helper.tensor_dtype_to_np_dtype(kind))
                model.graph.initializer.append(numpy_helper.from_array(array, name))
                node.input.append(name)
            if edit.op_type:
                node.op_type = edit.op_type

        return change

    def edges(self) -> Iterator[Mutant]:
        """An operand becomes another value of its type that was there before."""
        for g, graph in enumerate(_graphs(self._model.graph)):
            before = [i.name for i in graph.input]
            for n, node in enumerate(graph.node):
                for slot, name in enumerate(node.input):
                    if not name or name in self._weights:
                        continue
                    others = [
                        o for o in before if o != name and self._types.get(o) == self._types.get(name, 0)
                    ]
                    paired = set(node.input) == {*node.input} and node.op_type in _COMMUTATIVE
                    for other in others[-2:]:
                        if paired and other in node.input and len(others) > 1:
                            continue
                        place = f"{node.op_type} `{node.output[0]}` operand {slot}: `{name}` -> `{other}`"
                        yield self._mutant(
                            "edge to another value", place, lambda m, at=(g, n, slot, other): _rewire(m, *at)
                        )
                before += [o for o in node.output if o]

    def weights(self) -> Iterator[Mutant]:
        """Values of initializers; two that change places; one of two uses that gets a copy of its own."""
        for name, array in self._weights.items():
            for kind, change in weight_faults(name, array):
                if array.ndim or kind in ("weight x 1.0001", "weight zeroed", "weight negated"):
                    yield self._mutant(kind, name, self._valued(name, change(array)))
            if array.dtype.kind == "i" and array.size:
                for at in range(min(array.size, 4)):
                    new = array.copy()
                    new.flat[at] += 1
                    yield self._mutant("integer constant + 1", f"{name}[{at}]", self._valued(name, new))
        for kind, first, second in exchanges(self._weights):
            a, b = self._weights[first], self._weights[second]

            def change(model: onnx.ModelProto, first: str = first, second: str = second, a=a, b=b) -> None:
                self._valued(first, b)(model)
                self._valued(second, a)(model)

            yield self._mutant(kind, f"{first}, {second}", change)
        uses: dict[str, list[tuple[int, int, int]]] = {}
        for g, n, node in self._nodes():
            for slot, name in enumerate(node.input):
                if (
                    name in self._weights
                    and self._weights[name].ndim
                    and self._weights[name].dtype.kind == "f"
                ):
                    uses.setdefault(name, []).append((g, n, slot))
        for name, places in uses.items():
            for at in places[1:]:
                for kind, factor in (("tied weight untied", 1.0), ("tied weight untied, x 1.0001", 1.0001)):
                    yield self._mutant(
                        kind, f"{name} use {places.index(at)}", self._untied(name, *at, factor=factor)
                    )

    @staticmethod
    def _valued(name: str, array: np.ndarray) -> Callable[[onnx.ModelProto], None]:
        def change(model: onnx.ModelProto) -> None:
            tensor = next(t for t in model.graph.initializer if t.name == name)
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))

        return change

    def _untied(
        self, name: str, g: int, n: int, slot: int, *, factor: float
    ) -> Callable[[onnx.ModelProto], None]:
        def change(model: onnx.ModelProto) -> None:
            array = self._weights[name] * self._weights[name].dtype.type(factor)
            model.graph.initializer.append(numpy_helper.from_array(array, f"{name}_copy"))
            _node(model, g, n).input[slot] = f"{name}_copy"

        return change

    def outputs(self) -> Iterator[Mutant]:
        """Order and element types of outputs."""
        outputs = list(self._model.graph.output)
        for i in range(len(outputs) - 1):

            def swap(model: onnx.ModelProto, i: int = i) -> None:
                kept = [onnx.ValueInfoProto.FromString(o.SerializeToString()) for o in model.graph.output]
                kept[i], kept[i + 1] = kept[i + 1], kept[i]
                del model.graph.output[:]
                model.graph.output.extend(kept)

            yield self._mutant("outputs swapped", f"{outputs[i].name}, {outputs[i + 1].name}", swap)
        for i, output in enumerate(outputs):
            kind = output.type.tensor_type.elem_type
            others = {
                TensorProto.FLOAT: ("FLOAT16", "DOUBLE"),
                TensorProto.INT64: ("INT32",),
                TensorProto.BOOL: ("INT64",),
            }
            for other in others.get(kind, ()):
                yield self._mutant(
                    "output of another type",
                    f"{output.name}: {other}",
                    lambda m, i=i, other=other: _behind_output(
                        m, i, [("Cast", {"to": getattr(TensorProto, other)})], other
                    ),
                )
            if kind == TensorProto.FLOAT:
                yield self._mutant(
                    "output through float16",
                    output.name,
                    lambda m, i=i: _behind_output(m, i, _THROUGH_FLOAT16),
                )

    def batches(self) -> Iterator[Mutant]:
        """An output that is wrong at batch 1 only, from 4 on only, or where an input is extreme."""
        graph = self._model.graph
        inputs = [i.name for i in graph.input if i.name not in self._weights]
        batched = [n for n in inputs if isinstance((self._types[n][1] or (0,))[0], str)]
        for output in (o for o in graph.output if o.type.tensor_type.elem_type == TensorProto.FLOAT):
            for name in batched[:1]:
                for kind, operator, bound in (
                    ("wrong at batch 1 only", "Less", 2),
                    ("wrong from batch 4 on", "Greater", 3),
                ):
                    yield self._mutant(kind, output.name, self._only(output.name, name, operator, bound))
            for name in (n for n in inputs[:1] if self._types[n][0] == TensorProto.FLOAT):
                for kind, operator, bound in (
                    ("wrong where an input is above 6", "Greater", 6.0),
                    ("wrong where an input is below -6", "Less", -6.0),
                    ("wrong where all inputs are at least 0", "AllGreater", -1e-9),
                ):
                    yield self._mutant(kind, output.name, self._only(output.name, name, operator, bound))

    def _only(self, output: str, name: str, operator: str, bound: float) -> Callable[[onnx.ModelProto], None]:
        """Scale an output by 1.1 where the batch, or an extreme of the input, is beyond a bound."""

        def change(model: onnx.ModelProto) -> None:
            graph, made = model.graph, []
            for tensor, value in (("bound", bound), ("factor", 1.1), ("one", 1.0)):
                dtype = np.int64 if tensor == "bound" and isinstance(bound, int) else np.float32
                graph.initializer.append(
                    numpy_helper.from_array(np.array(value, dtype), f"mutation_{tensor}")
                )
            if isinstance(bound, int):
                graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), "mutation_zero"))
                made.append(helper.make_node("Shape", [name], ["mutation_shape"]))
                made.append(
                    helper.make_node("Gather", ["mutation_shape", "mutation_zero"], ["mutation_measure"])
                )
            else:
                reduce = "ReduceMax" if operator == "Greater" else "ReduceMin"
                made.append(helper.make_node(reduce, [name], ["mutation_measure"], keepdims=0))
            test = operator.removeprefix("All")
            made.append(helper.make_node(test, ["mutation_measure", "mutation_bound"], ["mutation_test"]))
            made.append(
                helper.make_node(
                    "Where", ["mutation_test", "mutation_factor", "mutation_one"], ["mutation_by"]
                )
            )
            made.append(helper.make_node("Mul", ["mutation_right", "mutation_by"], [output]))
            _hide(model, output, "mutation_right")
            graph.node.extend(made)

        return change


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _node(model: onnx.ModelProto, g: int, n: int) -> onnx.NodeProto:
    return list(_graphs(model.graph))[g].node[n]


def _value(attribute: onnx.AttributeProto) -> object:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return [v.decode() if isinstance(v, bytes) else v for v in value]
    return value


def _swap_branches(node: onnx.NodeProto) -> None:
    named = {a.name: a for a in node.attribute}
    one, other = named["then_branch"], named["else_branch"]
    one.name, other.name = "else_branch", "then_branch"


def _rewire(model: onnx.ModelProto, g: int, n: int, slot: int, other: str) -> None:
    _node(model, g, n).input[slot] = other


def _through_float16(model: onnx.ModelProto, g: int, n: int) -> None:
    """What a node computes goes through float16 and back, under its old name."""
    graph = list(_graphs(model.graph))[g]
    node = graph.node[n]
    name = node.output[0]
    node.output[0] = "mutation_wide"
    graph.node.insert(
        n + 1, helper.make_node("Cast", ["mutation_wide"], ["mutation_half"], to=TensorProto.FLOAT16)
    )
    graph.node.insert(n + 2, helper.make_node("Cast", ["mutation_half"], [name], to=TensorProto.FLOAT))


def _hide(model: onnx.ModelProto, output: str, name: str) -> None:
    """What makes an output makes `name` instead, for its other users and the recorded calls too."""
    graph = model.graph
    if not any(output in node.output for node in graph.node):
        raise NotApplicableError
    for node in graph.node:
        for slot, value in enumerate(node.input):
            if value == output:
                node.input[slot] = name
        for slot, value in enumerate(node.output):
            if value == output:
                node.output[slot] = name
    for entry in model.metadata_props:
        if entry.key == "regraft.calls":
            calls = json.loads(entry.value)
            for record in calls.values():
                for side in ("inputs", "outputs"):
                    record[side] = [name if value == output else value for value in record[side]]
            entry.value = json.dumps(calls)


def _behind_output(
    model: onnx.ModelProto, index: int, operators: list[tuple[str, Mapping[str, int]]], kind: str = ""
) -> None:
    """Operators between what makes an output and the output."""
    output = model.graph.output[index]
    _hide(model, output.name, "mutation_value")
    values = ["mutation_value", *(f"mutation_step_{i}" for i in range(len(operators) - 1)), output.name]
    for (op_type, attributes), source, target in zip(operators, values, values[1:], strict=False):
        model.graph.node.append(helper.make_node(op_type, [source], [target], **attributes))
    if kind:
        output.type.tensor_type.elem_type = getattr(TensorProto, kind)
