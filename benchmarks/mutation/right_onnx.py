"""Other ways to write the same ONNX model: what tools and people do to a file that is right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Rewrite = tuple[str, Callable[[Path], Path]]

_CALLS = "regraft.calls"


def onnx_rewrites(path: Path) -> Iterator[Rewrite]:
    """(what is done, what does it in an empty folder) of every rewrite that keeps the meaning."""
    model = onnx.load(path)

    def changed(change: Callable[[onnx.ModelProto], bool]) -> Callable[[Path], Path]:
        def build(folder: Path) -> Path:
            new = onnx.ModelProto()
            new.CopyFrom(model)
            change(new)
            onnx.save(new, folder / "right.onnx")
            return _with_map(path, folder / "right.onnx")

        return build

    changes: list[tuple[str, Callable[[onnx.ModelProto], bool]]] = [
        ("values renamed", _rename),
        ("independent nodes reordered", _reorder),
        ("initializers as Constant nodes", _constants),
        ("without metadata", _bare),
        ("operators written out", _write_out),
        ("weights doubled, results halved", _scale),
        ("identities inserted", _identities),
        ("layouts changed and changed back", _transposed),
    ]
    for name, change in changes:
        trial = onnx.ModelProto()
        trial.CopyFrom(model)
        if change(trial):
            yield name, changed(change)
    for level in ("BASIC", "EXTENDED", "ALL"):
        yield (
            f"optimised by ONNX Runtime, {level.lower()}",
            lambda folder, level=level: _optimised(path, folder, level),
        )


def _optimised(path: Path, folder: Path, level: str) -> Path:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "right.onnx")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return _with_map(path, folder / "right.onnx")


def _with_map(path: Path, new: Path) -> Path:
    """The new file with the old one's ``renames.json`` beside it."""
    shutil.copyfile(path.with_suffix(".renames.json"), new.with_suffix(".renames.json"))
    return new


def _inner(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g
                yield from _inner(attribute.g)


def _rename(model: onnx.ModelProto) -> bool:
    """Every value within gets another name, in the record of calls too."""
    graph = model.graph
    kept = {i.name for i in [*graph.input, *graph.output]} | {""}
    names: dict[str, str] = {}
    for part in [graph, *_inner(graph)]:
        for name in [o for n in part.node for o in n.output]:
            names.setdefault(name, name if name in kept else f"value{len(names)}")
    for part in [graph, *_inner(graph)]:
        for node in part.node:
            node.input[:] = [names.get(n, n) for n in node.input]
            node.output[:] = [names.get(n, n) for n in node.output]
            node.name = ""
        for output in part.output if part is not graph else ():
            output.name = names.get(output.name, output.name)
        for info in part.value_info:
            info.name = names.get(info.name, info.name)
    for entry in model.metadata_props:
        if entry.key == _CALLS:
            calls = json.loads(entry.value)
            for record in calls.values():
                for side in ("inputs", "outputs"):
                    record[side] = [names.get(n, n) for n in record[side]]
            entry.value = json.dumps(calls)
    return True


def _reorder(model: onnx.ModelProto) -> bool:
    """Nodes as late as their users allow, so that independent ones change places."""
    graph = model.graph
    nodes = list(graph.node)
    made = {o: i for i, n in enumerate(nodes) for o in n.output if o}
    order: list[int] = []
    done: set[int] = set()

    def visit(root: int) -> None:
        stack = [(root, False)]
        while stack:
            at, ready = stack.pop()
            if ready:
                order.append(at)
            elif at not in done:
                done.add(at)
                stack.append((at, True))
                inner = [n for g in _inner_of(nodes[at]) for node in g.node for n in node.input]
                stack += [
                    (made[n], False) for n in [*nodes[at].input, *inner] if n in made and made[n] not in done
                ]

    for at in reversed(range(len(nodes))):
        visit(at)
    seen: set[str] = set()
    for at in order:
        assert all(n not in made or n in seen for n in nodes[at].input)
        seen |= set(nodes[at].output)
    copies = [onnx.NodeProto.FromString(nodes[at].SerializeToString()) for at in order]
    del graph.node[:]
    graph.node.extend(copies)
    return order != list(range(len(nodes)))


def _inner_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
            yield from _inner(attribute.g)


def _constants(model: onnx.ModelProto) -> bool:
    tensors = list(model.graph.initializer)
    made = [helper.make_node("Constant", [], [t.name], value=t) for t in tensors]
    del model.graph.initializer[:]
    for node in reversed(made):
        model.graph.node.insert(0, node)
    return bool(made)


def _bare(model: onnx.ModelProto) -> bool:
    had = bool(model.metadata_props)
    del model.metadata_props[:]
    del model.graph.value_info[:]
    return had


class _Writer:
    """Puts nodes in place of a node."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model, self.count, self.nodes = model, 0, list[onnx.NodeProto]()

    def op(self, op_type: str, *inputs: str, to: str = "", **attributes: object) -> str:
        """Add a node; returns the name of its output."""
        self.count += 1
        name = to or f"right_{self.count}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def number(self, value: float) -> str:
        """Add a float32 scalar; returns its name."""
        return self.tensor(np.array(value, np.float32))

    def tensor(self, array: np.ndarray) -> str:
        """Add an initializer; returns its name."""
        self.count += 1
        name = f"right_{self.count}"
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name


def _write_out(model: onnx.ModelProto) -> bool:
    """Operators as several simpler ones."""
    graph = model.graph
    inferred = onnx.shape_inference.infer_shapes(model).graph
    kinds = {i.name: i.type.tensor_type for i in [*inferred.value_info, *inferred.input, *inferred.output]}
    writer = _Writer(model)
    wrote = False
    for node in list(graph.node):
        kind = kinds.get(node.output[0]) if node.output else None
        before = len(writer.nodes)
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if kind is not None and kind.elem_type == TensorProto.FLOAT and node.op_type in _WRITTEN:
            _WRITTEN[node.op_type](writer, node, given)
        if len(writer.nodes) == before:
            writer.nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
        else:
            wrote = True
    del graph.node[:]
    graph.node.extend(writer.nodes)
    return wrote


def _gemm(w: _Writer, node: onnx.NodeProto, given: dict) -> None:
    if given.get("alpha", 1.0) != 1 or given.get("beta", 1.0) != 1 or given.get("transA"):
        return
    weight = w.op("Transpose", node.input[1], perm=[1, 0]) if given.get("transB") else node.input[1]
    if len(node.input) == 2:
        w.op("MatMul", node.input[0], weight, to=node.output[0])
    else:
        w.op("Add", w.op("MatMul", node.input[0], weight), node.input[2], to=node.output[0])


def _conv(w: _Writer, node: onnx.NodeProto, given: dict) -> None:
    weight = next((t for t in w.model.graph.initializer if t.name == node.input[1]), None)
    if len(node.input) < 3 or weight is None:
        return
    bias = w.op("Reshape", node.input[2], w.tensor(np.array([1, -1] + [1] * (len(weight.dims) - 2))))
    w.op("Add", w.op("Conv", *node.input[:2], **given), bias, to=node.output[0])


def _norm(w: _Writer, node: onnx.NodeProto, given: dict) -> None:
    arrays = {t.name: numpy_helper.to_array(t) for t in w.model.graph.initializer}
    if not all(name in arrays for name in node.input[1:]) or len(node.output) > 1:
        return
    gamma, beta, mean, var = (arrays[name].astype(np.float64) for name in node.input[1:])
    factor = gamma / np.sqrt(var + given.get("epsilon", 1e-5))
    shape = w.tensor(np.array([1, -1] + [1] * 2))
    scale, shift = (w.tensor(a.astype(np.float32)) for a in (factor, beta - mean * factor))
    inferred = onnx.shape_inference.infer_shapes(w.model).graph
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in [*inferred.value_info, *inferred.input]}
    if ranks.get(node.input[0]) != 4:
        return
    product = w.op("Mul", node.input[0], w.op("Reshape", scale, shape))
    w.op("Add", product, w.op("Reshape", shift, shape), to=node.output[0])


def _softmax(w: _Writer, node: onnx.NodeProto, given: dict) -> None:
    axis = w.tensor(np.array([given.get("axis", -1)]))
    powers = w.op("Exp", w.op("Sub", node.input[0], w.op("ReduceMax", node.input[0], axis)))
    w.op("Div", powers, w.op("ReduceSum", powers, axis), to=node.output[0])


def _layer_norm(w: _Writer, node: onnx.NodeProto, given: dict) -> None:
    if given.get("axis", -1) != -1 or len([o for o in node.output if o]) > 1:
        return
    axis = w.tensor(np.array([-1]))
    centred = w.op("Sub", node.input[0], w.op("ReduceMean", node.input[0], axis))
    spread = w.op("ReduceMean", w.op("Mul", centred, centred), axis)
    root = w.op("Sqrt", w.op("Add", spread, w.number(given.get("epsilon", 1e-5))))
    scaled = w.op(
        "Mul", w.op("Div", centred, root), node.input[1], to="" if len(node.input) > 2 else node.output[0]
    )
    if len(node.input) > 2:
        w.op("Add", scaled, node.input[2], to=node.output[0])


def _gelu(w: _Writer, node: onnx.NodeProto, given: dict) -> None:
    if given.get("approximate", b"none") != b"none":
        return
    half = w.op("Mul", node.input[0], w.number(0.5))
    erf = w.op("Erf", w.op("Div", node.input[0], w.number(2**0.5)))
    w.op("Mul", half, w.op("Add", erf, w.number(1)), to=node.output[0])


def _hard_swish(w: _Writer, node: onnx.NodeProto, _: dict) -> None:
    clipped = w.op("Clip", w.op("Add", node.input[0], w.number(3)), w.number(0), w.number(6))
    w.op("Mul", node.input[0], w.op("Div", clipped, w.number(6)), to=node.output[0])


def _sigmoid(w: _Writer, node: onnx.NodeProto, _: dict) -> None:
    power = w.op("Exp", w.op("Neg", node.input[0]))
    w.op("Div", w.number(1), w.op("Add", power, w.number(1)), to=node.output[0])


def _relu(w: _Writer, node: onnx.NodeProto, _: dict) -> None:
    w.op("Max", node.input[0], w.number(0), to=node.output[0])


def _mean(w: _Writer, node: onnx.NodeProto, _: dict) -> None:
    w.op("ReduceMean", node.input[0], w.tensor(np.array([2, 3])), to=node.output[0])


def _leaky(w: _Writer, node: onnx.NodeProto, given: dict) -> None:
    slope = w.op("Mul", node.input[0], w.number(given.get("alpha", 0.01)))
    w.op("Where", w.op("Less", node.input[0], w.number(0)), slope, node.input[0], to=node.output[0])


def _tanh(w: _Writer, node: onnx.NodeProto, _: dict) -> None:
    twice = w.op("Sigmoid", w.op("Mul", node.input[0], w.number(2)))
    w.op("Sub", w.op("Mul", twice, w.number(2)), w.number(1), to=node.output[0])


_WRITTEN: dict[str, Callable[[_Writer, onnx.NodeProto, dict], None]] = {
    "Gemm": _gemm,
    "Conv": _conv,
    "BatchNormalization": _norm,
    "Softmax": _softmax,
    "LayerNormalization": _layer_norm,
    "Gelu": _gelu,
    "HardSwish": _hard_swish,
    "Sigmoid": _sigmoid,
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "Tanh": _tanh,
}


def _scale(model: onnx.ModelProto) -> bool:
    """Weights of matrix products and convolutions times 2, and what they give times a half: exact."""
    uses: dict[str, int] = {}
    for part in [model.graph, *_inner(model.graph)]:
        for node in part.node:
            for name in node.input:
                uses[name] = uses.get(name, 0) + 1
    tensors = {t.name: t for t in model.graph.initializer}
    writer = _Writer(model)
    wrote = False
    for node in list(model.graph.node):
        copied = onnx.NodeProto.FromString(node.SerializeToString())
        weights = [n for n in node.input[1:3] if n]
        fitting = node.op_type in ("Conv", "Gemm", "MatMul") and all(
            n in tensors and uses[n] == 1 and tensors[n].data_type == TensorProto.FLOAT for n in weights
        )
        if fitting and weights:
            for name in weights:
                array = numpy_helper.to_array(tensors[name]) * np.float32(2)
                tensors[name].CopyFrom(numpy_helper.from_array(array, name))
            copied.output[0] = f"{node.output[0]}_doubled"
            writer.nodes.append(copied)
            writer.op("Mul", copied.output[0], writer.number(0.5), to=node.output[0])
            wrote = True
        else:
            writer.nodes.append(copied)
    del model.graph.node[:]
    model.graph.node.extend(writer.nodes)
    return wrote


def _identities(model: onnx.ModelProto) -> bool:
    """An Identity behind every node."""
    made: list[onnx.NodeProto] = []
    for node in model.graph.node:
        copied = onnx.NodeProto.FromString(node.SerializeToString())
        if len([o for o in node.output if o]) == 1:
            copied.output[0] = f"{node.output[0]}_before"
            made += [copied, helper.make_node("Identity", [copied.output[0]], [node.output[0]])]
        else:
            made.append(copied)
    del model.graph.node[:]
    model.graph.node.extend(made)
    return True


def _transposed(model: onnx.ModelProto) -> bool:
    """Every input of a 2-d convolution to channels last and back."""
    writer = _Writer(model)
    tensors = {t.name: t for t in model.graph.initializer}
    wrote = False
    for node in list(model.graph.node):
        copied = onnx.NodeProto.FromString(node.SerializeToString())
        if node.op_type == "Conv" and node.input[1] in tensors and len(tensors[node.input[1]].dims) == 4:
            last = writer.op("Transpose", node.input[0], perm=[0, 2, 3, 1])
            copied.input[0] = writer.op("Transpose", last, perm=[0, 3, 1, 2])
            wrote = True
        writer.nodes.append(copied)
    del model.graph.node[:]
    model.graph.node.extend(writer.nodes)
    return wrote
