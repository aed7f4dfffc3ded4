"""Files with TensorFlow's and Paddle's names: what has the weights of a layer is the layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import regraft
from regraft.ir import Graph

DRAW = np.random.default_rng(0)
MODEL = "StatefulPartitionedCall/model"


class File:
    """A model that grows node by node; each is named as its output without ``:0``, as tf2onnx names them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, *shape: int) -> str:
        array = DRAW.uniform(0.5, 1.5, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [f"{name}:0"], name, **attributes))
        return f"{name}:0"

    def model(self, inputs: list[int], output: str, rank: int = 2) -> onnx.ModelProto:
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "net",
            [info("x", TensorProto.FLOAT, inputs)],
            [info(output, TensorProto.FLOAT, [None] * rank)],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
        onnx.checker.check_model(made)
        return made


def keras(scope: str = MODEL) -> onnx.ModelProto:
    """Two convolutions, one with its bias behind a transpose, a normalisation and a dense layer."""
    file = File()
    x = file.add("Transpose", f"{scope}/conv1/Conv2D__6", "x", perm=[0, 3, 1, 2])
    kernel = file.weight(f"{scope}/conv1/Conv2D/ReadVariableOp:0", 4, 3, 3, 3)
    bias = file.weight(f"{scope}/conv1/BiasAdd/ReadVariableOp:0", 4)
    x = file.add("Conv", f"{scope}/conv1/BiasAdd", x, kernel, bias)
    x = file.add("Relu", f"{scope}/conv1/Relu", x)
    x = file.add("Conv", "Conv__60", x, file.weight(f"{scope}/conv2/Conv2D/ReadVariableOp:0", 4, 4, 1, 1))
    x = file.add("Transpose", "Transpose__61", x, perm=[0, 2, 3, 1])
    x = file.add(
        "Add", f"{scope}/conv2/BiasAdd", x, file.weight(f"{scope}/conv2/BiasAdd/ReadVariableOp:0", 4)
    )
    x = file.add("Transpose", f"{scope}/bn/FusedBatchNormV3__7", x, perm=[0, 3, 1, 2])
    names = ["ReadVariableOp:0", "ReadVariableOp_1:0", "Fused/ReadVariableOp:0", "Fused/ReadVariableOp_1:0"]
    state = [file.weight(f"{scope}/bn/{name}", 4) for name in names]
    x = file.add("BatchNormalization", f"{scope}/bn/FusedBatchNormV3", x, *state)
    x = file.add("Relu", f"{scope}/re_lu/Relu", x)
    x = file.add("GlobalAveragePool", f"{scope}/gap/Mean", x)
    x = file.add("Squeeze", f"{scope}/gap/Mean_Squeeze__9", x, axes=[2, 3])
    x = file.add(
        "MatMul", f"{scope}/dense/MatMul", x, file.weight(f"{scope}/dense/MatMul/ReadVariableOp:0", 4, 5)
    )
    x = file.add(
        "Add", f"{scope}/dense/BiasAdd", x, file.weight(f"{scope}/dense/BiasAdd/ReadVariableOp:0", 5)
    )
    return file.model([2, 8, 8, 3], file.add("Softmax", f"{scope}/dense/Softmax", x))


def names(graph: Graph) -> list[str]:
    return sorted(path for found in graph.parameter_paths().values() for path in found)


def test_the_layers_of_keras_are_modules_and_the_model_around_them_is_the_root(tmp_path: Path) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "out"
    onnx.save(keras(), path)
    graph = regraft.load(path)
    norm = [f"bn.{role}" for role in ("beta", "gamma", "moving_mean", "moving_var")]
    layers = [f"{name}.{role}" for name in ("conv1", "conv2", "dense") for role in ("bias", "weight")]
    assert names(graph) == norm + layers
    regraft.save(regraft.rewrite(graph).graph, out, to="mindspore")
    source = (out / "model.py").read_text()
    assert "Parameter(" not in source
    assert source.count("nn.Cell)") == 1
    for layer in (
        "self.conv1 = nn.Conv2d(3",
        "self.conv2 = nn.Conv2d(4",
        "self.bn = nn.Batch",
        "self.dense = nn.Dense(",
    ):
        assert layer in source
    assert regraft.verify(graph, out).passed


def test_modules_that_hold_layers_stay_and_layers_that_share_a_scope_are_apart() -> None:
    file = File()
    first = file.weight("net/block/separable_conv2d/ReadVariableOp:0", 2, 1, 3, 3)
    x = file.add("Conv", "net/block/separable_conv2d/depthwise", "x", first, group=2)
    second = file.weight("net/block/separable_conv2d/ReadVariableOp_1:0", 4, 2, 1, 1)
    x = file.add("Conv", "net/block/separable_conv2d", x, second)
    x = file.add("Mul", "net/scale/mul", x, file.weight("net/scale/mul/ReadVariableOp:0", 1, 4, 1, 1))
    graph = regraft.load(file.model([1, 2, 8, 8], file.add("Relu", "net/Relu", x), rank=4))
    assert names(graph) == ["block.conv.weight", "block.conv2.weight", "scale.scale"]


def test_a_layer_called_twice_is_one_module() -> None:
    file = File()
    kernel = file.weight("net/dense/MatMul/ReadVariableOp:0", 4, 4)
    x = file.add("MatMul", "net/dense/MatMul", "x", kernel)
    x = file.add("Tanh", "net/act/Tanh", x)
    x = file.add("MatMul", "net/dense_1/MatMul", x, kernel)
    tree = regraft.load(file.model([2, 4], x)).modules
    assert sorted(tree.call_name(call.key) for call in tree.calls()) == ["#1", "act#1", "dense#1", "dense#2"]


def test_names_that_paddle_makes_up_do_not_name_weights(tmp_path: Path) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "out"
    file = File()
    x = file.add("Conv", "Conv.0", "x", file.weight("conv2d_0.w_0", 4, 3, 1, 1))
    x = file.add("Add", "Add.0", x, file.weight("p2o.pd_op.reshape.0.0", 1, 4, 1, 1))
    onnx.save(
        file.model([1, 3, 4, 4], file.add("Mul", "Mul.0", x, file.weight("helper.reshape.0", 4, 1, 1))), path
    )
    graph = regraft.load(path)
    assert names(graph) == ["conv2d_0.bias", "conv2d_0.weight", "scale"]
    regraft.save(regraft.rewrite(graph).graph, out, to="mindspore")
    assert "has_bias=True" in (out / "model.py").read_text()
    assert regraft.verify(graph, out).passed


def test_nodes_of_the_root_have_a_scope_in_files_of_torch() -> None:
    """Half of the nodes of small nets are constants and shapes of the root: ``/Constant``."""
    file = File()
    x = file.add("MatMul", "/net/fc/MatMul", "x", file.weight("onnx::MatMul_5", 4, 4))
    for number in range(3):
        x = file.add("Neg", f"/Neg_{number}", x)
    graph = regraft.load(file.model([2, 4], x))
    assert graph.origin.has_modules
    assert names(graph) == ["net.fc.weight"]
