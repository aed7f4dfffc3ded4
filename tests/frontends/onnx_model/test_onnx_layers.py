"""Layers and their parameters in ONNX files: what exporters merge, fold and write out is one layer again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import ModelProto, StringStringEntryProto, TensorProto, helper, numpy_helper

import regraft
from regraft.ir import Graph, ModelError
from regraft.passes import GroupModules

DRAW = np.random.default_rng(0)


def net(
    nodes: list[onnx.NodeProto], inputs: list[int | str], outputs: list[int | str], **weights: np.ndarray
) -> ModelProto:
    """A model from `x` to `y`; ``__`` in the names of weights is a dot in the file."""
    names = {name: name.replace("__", ".") for name in weights}
    for node in nodes:
        for slot, name in enumerate(node.input):
            node.input[slot] = names.get(name, name)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", TensorProto.FLOAT, inputs)],
        [info("y", TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(a.astype(np.float32), names[n]) for n, a in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def state(node: onnx.NodeProto, *scopes: tuple[str, str]) -> onnx.NodeProto:
    """Give a node the scopes that torch's exporter states: (path, class)."""
    for key, at in (("name_scopes", 0), ("class_hierarchy", 1)):
        values = [("", "net.Net")[at], *(scope[at] for scope in scopes), "op"]
        node.metadata_props.append(StringStringEntryProto(key=f"pkg.torch.onnx.{key}", value=str(values)))
    return node


def paths(graph: Graph) -> set[str]:
    return {path for found in graph.parameter_paths().values() for path in found}


def scaled(vector: np.ndarray) -> ModelProto:
    """Two layers that read one vector, as exporters store equal tensors; the second is called twice."""
    make, first, second = helper.make_node, ("a", "net.Scale"), ("b", "net.Scale")
    nodes = [
        state(make("Mul", ["x", "a__scale"], ["h"], name="m0"), first),
        state(make("Mul", ["h", "a__scale"], ["k"], name="m1"), second),
        state(make("Relu", ["k"], ["r"], name="r"), ("act", "net.ReLU")),
        state(make("Mul", ["r", "a__scale"], ["y"], name="m2"), second),
    ]
    return net(nodes, [2, 3], [2, 3], a__scale=vector)


def test_a_vector_of_one_number_that_an_exporter_stored_once_is_of_each_layer() -> None:
    graph = regraft.load(scaled(np.ones(3)))
    assert len(graph.parameters()) == 2
    assert {path.partition(".")[0] for path in paths(graph)} == {"a", "b"}


def test_a_checkpoint_goes_to_all_layers_of_a_vector_and_back_as_long_as_they_are_equal(
    tmp_path: Path,
) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "out"
    onnx.save(scaled(np.ones(3)), path)
    regraft.save(
        regraft.rewrite(regraft.load(path)).graph, out, to="mindspore", checkpoint_format="safetensors"
    )
    target, renames = out / "model.safetensors", out / "renames.json"
    assert regraft.diff(path, target, map=renames).equal
    regraft.convert_checkpoint(target, tmp_path / "back.params", renames)
    assert regraft.diff(path, tmp_path / "back.params").equal
    arrays = safetensors.numpy.load_file(target)
    next(iter(arrays.values()))[0] = 2
    safetensors.numpy.save_file(arrays, target)
    with pytest.raises(ModelError, match=r"one tensor there, and `\w\.\w+` not equal to it"):
        regraft.convert_checkpoint(target, tmp_path / "other.params", renames)


def test_a_vector_of_several_numbers_is_one_parameter_of_all_that_read_it() -> None:
    graph = regraft.load(scaled(np.arange(3.0)))
    assert [p.name for p in graph.parameters()] == ["a.scale"]


def test_an_identity_gives_an_equal_vector_the_name_that_it_has_in_its_layer() -> None:
    make = helper.make_node
    nodes = [
        make("Identity", ["a__bias"], ["b.bias"], name="Identity_0"),
        make("Gemm", ["x", "a__weight", "a__bias"], ["h"], name="/a/Gemm"),
        make("Gemm", ["h", "b__weight", "b.bias"], ["y"], name="/b/Gemm"),
    ]
    weights = {f"{n}__weight": DRAW.normal(size=(3, 3)) for n in "ab"}
    graph = regraft.load(net(nodes, [2, 3], [2, 3], a__bias=np.zeros(3), **weights))
    assert paths(graph) == {"a.weight", "a.bias", "b.weight", "b.bias"}
    assert {p.name for p in graph.parameters()} == paths(graph)
    assert [o.op_type for o in graph.operators()] == ["Gemm", "Gemm"]


def test_a_convolution_that_a_normalisation_was_folded_into_has_its_own_name() -> None:
    node = helper.make_node("Conv", ["x", "block__conv1__weight", "block__bn1__bias"], ["y"], name="conv")
    norm = ("block.bn1", "torch.nn.modules.batchnorm.BatchNorm2d")
    weights = {
        "block__conv1__weight": DRAW.normal(size=(4, 3, 1, 1)),
        "block__bn1__bias": DRAW.normal(size=4),
    }
    proto = net([state(node, ("block", "net.Block"), norm)], [1, 3, 5, 5], [1, 4, 5, 5], **weights)
    assert paths(regraft.load(proto)) == {"block.conv1.weight", "block.conv1.bias"}


def test_a_layer_in_no_normalisation_keeps_the_scope_that_the_file_states() -> None:
    node = helper.make_node("Gemm", ["x", "block__embed__weight"], ["y"], name="head")
    proto = net(
        [state(node, ("block", "net.Block"), ("block.head", "torch.nn.modules.linear.Linear"))],
        [2, 3],
        [2, 4],
        block__embed__weight=DRAW.normal(size=(3, 4)),
    )
    assert paths(regraft.load(proto)) == {"block.head.weight"}


def residual(depth: int) -> ModelProto:
    """Residual blocks ``layer1.0``… whose nodes have no scopes: only weights say where they are."""
    make, nodes, weights, x = helper.make_node, [], {}, "x"
    for number in range(depth):
        for at in (1, 2):
            name = f"layer1__{number}__conv{at}__weight"
            weights[name] = DRAW.normal(size=(4, 4, 3, 3))
            source = x if at == 1 else f"relu{number}"
            pads = {"pads": [1, 1, 1, 1]}
            nodes.append(make("Conv", [source, name], [f"c{number}{at}"], name=f"Conv_{len(nodes)}", **pads))
            if at == 1:
                nodes.append(make("Relu", [f"c{number}1"], [f"relu{number}"], name=f"Relu_{len(nodes)}"))
        nodes.append(make("Add", [f"c{number}2", x], [f"s{number}"], name=f"Add_{len(nodes)}"))
        x = "y" if number == depth - 1 else f"o{number}"
        nodes.append(make("Relu", [f"s{number}"], [x], name=f"Relu_{len(nodes)}"))
    return net(nodes, [1, 4, 6, 6], [1, 4, 6, 6], **weights)


@pytest.mark.parametrize("depth", [2, 3])
def test_dotted_names_of_weights_are_the_modules_of_a_file_without_scopes(depth: int) -> None:
    graph = regraft.load(residual(depth))
    GroupModules().run(graph)
    blocks = range(depth)
    assert paths(graph) == {f"layer1.{n}.conv{at}.weight" for n in blocks for at in (1, 2)}
    tree = graph.modules
    root = [o for o in graph.operators() if o.call is not None and tree.call(o.call).parent is None]
    assert root == []  # the activation behind a block is the block's


def test_a_product_and_a_sum_are_one_dense_layer_of_mindspore(tmp_path: Path) -> None:
    """A weight lies (in, out) in the file, also a square one, and a bias is a row."""
    make = helper.make_node
    nodes = [
        make("MatMul", ["x", "first"], ["p0"], name="MatMul"),
        make("Add", ["p0", "intercepts"], ["a0"], name="Add"),
        make("Relu", ["a0"], ["h"], name="Relu"),
        make("MatMul", ["h", "square"], ["p1"], name="MatMul1"),
        make("Add", ["intercepts1", "p1"], ["y"], name="Add1"),
    ]
    weights = {"first": DRAW.normal(size=(3, 5)), "intercepts": DRAW.normal(size=(1, 5))}
    weights |= {"square": DRAW.normal(size=(5, 5)), "intercepts1": DRAW.normal(size=5)}
    path = tmp_path / "mlp.onnx"
    onnx.save(net(nodes, ["n", 3], ["n", 5], **weights), path)
    graph = regraft.load(path)
    assert [m.class_name for m in graph.modules][1:] == ["MatMul", "MatMul"]
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", to="mindspore")
    text = (tmp_path / "out" / "model.py").read_text()
    assert "nn.Dense(3, 5, has_bias=True)" in text
    assert "matmul" not in text.replace("self.MatMul", "").replace("MatMul.", "")
    rows = json.loads((tmp_path / "out" / "renames.json").read_text())["parameters"]
    assert {row["source"]: row["transform"] for row in rows} == {
        "first": "transpose:1,0",
        "intercepts": "reshape",
        "square": "transpose:1,0",
        "intercepts1": "identity",
    }
    assert regraft.verify(graph, tmp_path / "out").passed
    report = regraft.diff(path, tmp_path / "out" / "model.ckpt", map=tmp_path / "out" / "renames.json")
    assert report.equal
