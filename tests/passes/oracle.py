"""The ONNX reference evaluator on a graph, and small graphs to run it on."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from regraft.ir import OPSET, Builder, Constant, Operator, Parameter, TensorData, TensorType, expand
from regraft.ir.inference import attribute_proto
from regraft.ir.operators import signature
from regraft.ir.types import onnx_dtype


def to_onnx(graph):
    """A flat graph of ONNX operators as a model; parameters and constants become initializers."""
    nodes, stored = [], []
    for node in graph.nodes():
        if isinstance(node, (Parameter, Constant)):
            stored.append(
                onnx.numpy_helper.from_array(np.asarray(node.data.numpy(), order="C"), f"v{node.key}_0")
            )
        elif isinstance(node, Operator):
            names = ["" if v is None else f"v{v.node}_{v.output}" for v in graph.operands(node.key)]
            proto = onnx.helper.make_node(
                node.op_type, names, [f"v{node.key}_{i}" for i in range(len(node.types))]
            )
            specs = signature(node.op_type).attributes
            proto.attribute.extend(attribute_proto(k, v, specs[k].kind) for k, v in node.attributes.items())
            nodes.append(proto)
    inputs = [
        onnx.helper.make_tensor_value_info(f"v{n.key}_0", onnx_dtype(n.type.dtype), n.type.shape)
        for n in graph.input_nodes()
    ]
    outputs = [
        onnx.helper.make_tensor_value_info(
            f"v{v.node}_{v.output}", onnx_dtype(graph.known_type(v).dtype), [None] * graph.known_type(v).rank
        )
        for _, v in graph.outputs
    ]
    body = onnx.helper.make_graph(nodes, "oracle", inputs, outputs, stored)
    return onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=10)


def run_onnxruntime(graph, *arrays):
    """The outputs of a flat graph of ONNX operators in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), options)
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})


def evaluate(graph, *arrays):
    """The outputs of a graph by the reference evaluator; composites are expanded first, on a copy."""
    graph = graph.copy()
    while composites := [n.key for n in graph.operators() if n.domain]:
        for key in composites:
            expand(Builder(graph), key)
    keys = [f"v{key}_0" for key in graph.inputs]
    outputs = ReferenceEvaluator(to_onnx(graph)).run(None, dict(zip(keys, arrays, strict=True)))
    return [np.asarray(output) for output in outputs]


def parameter(graph, name, array, **facts):
    """Add a parameter with data."""
    return graph.add_parameter(Parameter(name, name, TensorData.of(array), **facts))


def input_like(graph, name, array):
    """Add an input with the type of an array."""
    return graph.add_input(name, TensorType("float32", array.shape))
