"""Planted type faults: ONNX's cases of every operator are accepted, and refused with another output type."""

import warnings
from collections import defaultdict

import numpy as np
import onnx
import pytest

from regraft.ir import COMPOSITES, Graph, InvalidGraphError, Operator, TensorType, validate
from regraft.ir.signatures import OPSET
from regraft.ir.types import type_of_proto

from .test_composites import CASES, build

NEWER = {"Attention": ("7", "window_size"), "SpaceToDepth": ("mode",)}
"""Operator -> what the messages hold on cases that opsets after ours added."""

UNTOLD = {"BlackmanWindow", "HammingWindow", "HannWindow", "MaxUnpool", "MelWeightMatrix"}
"""Operators whose rank follows from the value of an operand that these cases do not state, or is not told."""


@pytest.fixture(scope="module")
def cases():
    """Operator -> graphs with that one operator, with the types that ONNX's tests state."""
    from onnx.backend.test.case.node import collect_testcases

    found = defaultdict(list)
    with warnings.catch_warnings():  # of NumPy, on the numbers of the cases
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        graph = _graph(case)
        if graph is not None:
            found[case.model.graph.node[0].op_type].append(graph)
    return found


def _graph(case):
    """The graph of a case with one operator of ours, plain attributes and tensors; else None."""
    proto = case.model.graph
    node = proto.node[0]
    if len(proto.node) > 1 or node.domain or not onnx.defs.has(node.op_type, OPSET):
        return None
    if onnx.defs.get_schema(node.op_type, OPSET, "").since_version > case.model.opset_import[0].version:
        return None
    if any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
        return None
    graph, values = Graph(), {"": None}
    try:
        given = [(each.name, type_of_proto(each.type)) for each in proto.input]
        stated = {each.name: type_of_proto(each.type) for each in proto.output}
    except KeyError:  # an element type that we do not have
        return None
    if not all(type_ is not None for _, type_ in given) or not all(t is not None for t in stated.values()):
        return None
    for (name, type_), array in zip(given, case.data_sets[0][0], strict=True):
        if type_.dtype == "int64":  # shapes and axes, which the rules read
            values[name] = graph.add_constant(np.asarray(array))
        else:
            values[name] = graph.add_input(name, type_)
    attributes = {a.name: _plain(onnx.helper.get_attribute_value(a)) for a in node.attribute}
    operator = Operator(node.op_type, "", attributes, [stated.get(name) for name in node.output])
    outputs = graph.add_operator(operator, [values[name] for name in node.input])
    graph.outputs = [(str(number), value) for number, value in enumerate(outputs)]
    return graph


def _plain(value):
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (int, float, str)):
        return value
    return [_plain(v) for v in value]


def _accepted(graph):
    try:
        validate(graph)
    except InvalidGraphError as error:
        return str(error)
    return ""


def _spoilt(type_, fault):
    if fault == "dtype":
        return TensorType("float16" if type_.dtype != "float16" else "int8", type_.shape)
    if fault == "rank":
        return type_.with_shape((*type_.shape, 7))
    return type_.with_shape((*type_.shape[:-1], type_.shape[-1] + 1))


def _missed(graph, fault):
    """The outputs that may have another type."""
    (node,) = graph.operators()
    missed = []
    for number, type_ in enumerate(node.types):
        if type_ is None or (fault == "size" and not (type_.shape and isinstance(type_.shape[-1], int))):
            continue
        node.types[number] = _spoilt(type_, fault)
        if not _accepted(graph):
            missed.append(number)
        node.types[number] = type_
    return missed


@pytest.mark.slow
def test_every_case_of_onnx_is_accepted(cases):
    assert len(cases) > 170
    for name, graphs in cases.items():
        for graph in graphs:
            refusal = _accepted(graph)
            assert not refusal or any(part in refusal for part in NEWER[name]), refusal


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["dtype", "rank"])
def test_another_output_type_is_refused_of_every_operator(cases, fault):
    for name, graphs in cases.items():
        for graph in graphs:
            if fault == "dtype" or name not in UNTOLD:
                assert _accepted(graph) or not _missed(graph, fault), str(graph)


@pytest.mark.slow
def test_another_size_is_refused_of_nearly_every_operator(cases):
    missed = {name for name, graphs in cases.items() if any(_missed(g, "size") for g in graphs)}
    assert missed == UNTOLD | {
        "Compress",  # as many as the values of the condition say
        "ConvTranspose",  # auto_pad of SAME_UPPER: see `inference._trusted`
        "ImageDecoder",
        "NonZero",
        "OneHot",  # a depth that is no constant here
        "Range",
        "Resize",  # scales that are no constants here
        "StringNormalizer",
        "StringSplit",
        "Unique",  # as many as there are different values
    }


@pytest.mark.parametrize("case", [c for c in CASES if c.name in COMPOSITES], ids=str)
@pytest.mark.parametrize("fault", ["dtype", "rank", "size"])
def test_another_output_type_is_refused_of_every_composite(case, fault):
    graph = build(case)
    assert not _accepted(graph)
    assert not _missed(graph, fault)
