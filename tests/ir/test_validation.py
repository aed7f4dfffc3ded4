"""Validation: every invariant, the culprit by name, and the text around it."""

import numpy as np
import pytest

from regraft.ir import (
    Builder,
    Call,
    Graph,
    InvalidGraphError,
    Operator,
    Parameter,
    TensorData,
    TensorType,
    Value,
    validate,
)

VECTOR = TensorType("float32", (4,))


@pytest.fixture
def graph():
    """x -> Relu in a module with a weight that is added."""
    b = Builder(Graph())
    root = b.graph.modules.add("Net")
    b.call = b.graph.modules.add_call(root)
    x = b.graph.add_input("x", VECTOR)
    w = b.graph.add_parameter(Parameter("w", "w", TensorData.of(np.ones(4, np.float32))))
    b.graph.modules.module(root).parameters["w"] = w.node
    b.graph.outputs.append(("y", b.op("Add", b.op("Relu", x), w)))
    validate(b.graph)
    return b.graph


def the(graph, op_type):
    (node,) = [node for node in graph.operators() if node.op_type == op_type]
    return node


def refused(graph, message):
    with pytest.raises(InvalidGraphError, match=message) as caught:
        validate(graph)
    assert caught.value.code == "E301"
    return caught.value


def test_a_missing_operand_is_named_with_its_formal_and_shown(graph):
    graph.set_operand(the(graph, "Add").key, 0, None)
    error = refused(graph, "operand in slot 0 .`A`.")
    assert "`Add`" in error.place
    assert "> " in error.hint


def test_too_many_operands(graph):
    node = the(graph, "Relu")
    graph.set_operand(node.key, 1, Value(graph.inputs[0]))
    assert "`Relu`" in refused(graph, "expected 1 to 1 inputs, got 2").place


def test_an_attribute_that_there_is_not(graph):
    the(graph, "Relu").attributes["slope"] = 0.1
    refused(graph, "got `slope`")


def test_an_attribute_of_the_wrong_kind(graph):
    node = the(graph, "Relu")
    node.op_type, node.attributes = "Softmax", {"axis": 1.5}
    refused(graph, "`axis` of kind int")


def test_an_attribute_that_is_required():
    graph = Graph()
    x = graph.add_input("x", VECTOR)
    (y,) = graph.add_operator(Operator("Cast", types=[VECTOR]), [x])
    graph.outputs.append(("y", y))
    refused(graph, "the attribute `to`")


def test_an_operator_that_onnx_does_not_have(graph):
    the(graph, "Relu").op_type = "Rilu"
    refused(graph, "`Rilu`")


def test_a_cycle(graph):
    relu, add = the(graph, "Relu"), the(graph, "Add")
    graph.set_operand(relu.key, 0, Value(add.key))
    refused(graph, "cycle")


def test_an_output_that_is_not_there(graph):
    graph.outputs.append(("z", Value(99)))
    refused(graph, "output `z`")


def test_an_output_number_that_is_not_there(graph):
    graph.outputs.append(("z", Value(graph.inputs[0], 1)))
    refused(graph, "output `z`")


def test_two_inputs_of_one_name(graph):
    graph.add_input("x", VECTOR)
    refused(graph, "distinct input names")


def test_an_update_of_something_else_than_a_parameter(graph):
    graph.updates[graph.inputs[0]] = graph.outputs[0][1]
    refused(graph, "update of a parameter")


def test_a_call_that_is_not_there(graph):
    the(graph, "Relu").call = 7
    refused(graph, "call 7")


def test_a_call_made_in_a_call_that_is_not_there(graph):
    graph.modules.add_call(0, parent=50)
    refused(graph, "made in a call that is not there")


def test_a_call_of_a_module_that_is_not_there(graph):
    graph.modules._calls[9] = Call(9, 77, None)
    refused(graph, "of a module that is not there")


def test_a_module_that_holds_something_else_than_a_parameter(graph):
    graph.modules.module(0).parameters["v"] = graph.inputs[0]
    refused(graph, "holds `v`")


def test_captures_in_a_root_graph(graph):
    graph.add_capture(VECTOR)
    refused(graph, "no captures in a root graph")


def branch(graph, change):
    """An If over x whose branches are changed by `change` before it is added."""
    branches = {}
    for name in ("then_branch", "else_branch"):
        body = Graph(name, graph.modules)
        body.outputs.append(("y", Builder(body).op("Relu", body.add_capture(VECTOR))))
        change(body)
        branches[name] = body
    condition = graph.add_input("c", TensorType("bool", ()))
    (y,) = graph.add_operator(
        Operator("If", attributes=dict(branches), types=[VECTOR]), [condition], [Value(graph.inputs[0])]
    )
    graph.outputs.append(("z", y))


def test_a_valid_branch(graph):
    branch(graph, lambda body: None)
    validate(graph)


def test_a_parameter_in_a_nested_graph(graph):
    branch(graph, lambda body: body.add_parameter(Parameter("v", "v", TensorData.of(np.ones(4, np.float32)))))
    refused(graph, "parameters in the root graph only")


def test_a_nested_graph_with_more_captures_than_its_operator_gives(graph):
    branch(graph, lambda body: body.add_capture(VECTOR))
    refused(graph, "captures 2 values")


def test_a_nested_graph_with_a_module_tree_of_its_own(graph):
    def own(body):
        body.modules = type(body.modules)()

    branch(graph, own)
    refused(graph, "module tree of its own")


def test_a_fault_inside_a_branch_is_found(graph):
    def spoil(body):
        body.operators()[0].op_type = "Rilu"

    branch(graph, spoil)
    refused(graph, "`Rilu`")
