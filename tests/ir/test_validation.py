"""Validation: every invariant, the culprit by name, and the text around it."""

import numpy as np
import pytest

from regraft.ir import (
    Builder,
    Graph,
    InvalidGraphError,
    ModuleCall,
    Operator,
    Parameter,
    TensorData,
    TensorType,
    Value,
    merge_types,
    parse_type,
    validate,
)
from regraft.ir.types import contradicts

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
    graph.modules._calls[9] = ModuleCall(9, 77, None)
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


def test_an_output_of_another_element_type_than_the_operands_give(graph):
    node = the(graph, "Relu")
    node.types = [TensorType("int64", (7,))]
    error = refused(graph, r"expected output 0 to be f32\[4\], which follows from the operands, got i64\[7\]")
    assert "`Relu`" in error.place
    assert "Relu" in error.hint


@pytest.mark.parametrize("type_", [TensorType("float32", (5,)), TensorType("float32", (4, 1))], ids=str)
def test_an_output_of_another_shape_than_the_operands_give(graph, type_):
    the(graph, "Relu").types = [type_]
    refused(graph, "output 0")


@pytest.mark.parametrize("shape", [None, (None,), ("N",), (4,)], ids=str)
def test_a_type_that_says_less_or_names_a_size_is_no_fault(graph, shape):
    the(graph, "Relu").types = [TensorType("float32", shape)]
    validate(graph)


def test_types_are_compared_at_the_nodes_asked_for(graph):
    relu, add = the(graph, "Relu"), the(graph, "Add")
    relu.types = [TensorType("int64", (4,))]
    validate(graph, typed=())
    for key in (relu.key, add.key):  # the operator itself, and what reads it
        with pytest.raises(InvalidGraphError):
            validate(graph, typed={key})


def test_an_update_may_have_another_type_than_its_parameter(graph):
    """Python code may assign a buffer a tensor of another size; what is updated must be a parameter."""
    (parameter,) = graph.parameters()
    b = Builder(graph)
    graph.updates[parameter.key] = b.op("Unsqueeze", Value(parameter.key), b.constant([0]))
    validate(graph)
    graph.updates = {the(graph, "Add").key: graph.outputs[0][1]}
    refused(graph, "expected an update of a parameter")


def test_an_alike_application_is_not_taken_for_another(graph):
    """What is remembered of an operator tells kinds of attributes and absent operands apart."""
    node = the(graph, "Relu")
    node.op_type, node.attributes = "Softmax", {"axis": 0}
    validate(graph)
    node.attributes = {"axis": 0.0}
    refused(graph, "`axis` of kind int")
    node.attributes = {"axis": [0]}
    refused(graph, "`axis` of kind int")


def test_constants_that_a_rule_reads_are_told_apart():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (2, 6)))
    shapes = [b.graph.type_of(b.op("Reshape", x, b.constant(s))) for s in ([3, 4], [4, 3], [3, 4])]
    assert [str(t) for t in shapes] == ["f32[3,4]", "f32[4,3]", "f32[3,4]"]


def test_faults_of_every_kind_in_a_rule_are_ours():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (2, 6)))
    with pytest.raises(InvalidGraphError, match="contradict its rule"):  # a ValidationError in onnx
        b.op("Conv", x, b.graph.add_input("w", TensorType("int64", (2, 6, 3))))
    with pytest.raises(
        InvalidGraphError, match="contradict its rule"
    ):  # an IndexError of the composite's rule
        b.ops("regraft.Unstack", x, outputs=2, axis=9)
    with pytest.raises(InvalidGraphError, match="contradict its rule"):  # a number that onnx cannot hold
        b.op("Relu", b.graph.add_input("y", TensorType("float32", (10**30,))))


def test_a_transposed_convolution_that_keeps_sizes_is_not_typed_by_onnx():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (1, 2, 5)))
    w = b.graph.add_input("w", TensorType("float32", (2, 3, 1)))
    y = b.op("ConvTranspose", x, w, strides=[2], auto_pad="SAME_UPPER")
    assert str(b.graph.type_of(y)) == "f32[1,3,?]"


# -- nested graphs -----------------------------------------------------------------------------------


def branches(captured=(2, "N"), result="f32[2,N]", condition=(), results=1):
    """An If whose branches negate or clip what they capture."""
    b = Builder(Graph())
    c = b.graph.add_input("c", TensorType("bool", condition))
    x = b.graph.add_input("x", TensorType("float32", (2, "N")))
    bodies = {}
    for name, op_type, shape in (("then_branch", "Relu", (2, "N")), ("else_branch", "Neg", captured)):
        body = Graph(name, b.graph.modules)
        value = Builder(body).op(op_type, body.add_capture(TensorType("float32", shape)))
        body.outputs += [(str(i), value) for i in range(results if op_type == "Neg" else 1)]
        bodies[name] = body
    operator = Operator("If", "", bodies, [parse_type(result)])
    b.graph.outputs.append(("y", b.graph.add_operator(operator, [c], [x])[0]))
    return b.graph


def test_a_branch_is_valid():
    validate(branches())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"captured": (3, "N")}, "expected capture 0 of `else_branch` to be"),
        ({"result": "i32[2,N]"}, "expected output 0, which `then_branch` gives,"),
        ({"result": "f32[2]"}, "expected output 0, which `then_branch` gives,"),
        ({"condition": (3,)}, "expected the condition to be one element"),
        ({"results": 2}, "expected number of results of `else_branch` to be 1, got 2"),
    ],
)
def test_a_branch_that_gives_another_type(fault, message):
    refused(branches(**fault), message)


def loop(formal=(2,), result="Relu", outputs=((2,), (None, 2)), start="float32"):
    """A Loop with one state and one output that collects it."""
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(start, (2,)))
    body = Graph("body", b.graph.modules)
    inner = Builder(body)
    body.add_input("i", TensorType("int64", ()))
    condition = body.add_input("c", TensorType("bool", ()))
    state = body.add_input("s", TensorType("float32", formal))
    new = inner.op(result, state)
    body.outputs += [("c", condition), ("s", new), ("all", new)]
    types = [TensorType("float32", shape) for shape in outputs]
    operator = Operator("Loop", "", {"body": body}, types)
    values = b.graph.add_operator(operator, [b.constant(3), b.constant(True, "bool"), x])
    b.graph.outputs += [(str(i), v) for i, v in enumerate(values)]
    return b.graph


def test_a_loop_is_valid():
    validate(loop())
    validate(loop(outputs=((2,), (3, 2))))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"formal": (3,)}, "input 2 of `body`"),
        ({"start": "float64"}, "input 2 of `body`"),
        ({"result": "Shape"}, "result 1 of `body`"),
        ({"outputs": ((3,), (None, 2))}, "expected output 0, which starts"),
        ({"outputs": ((2,), (2,))}, "expected output 1, of which `body` gives the slices,"),
    ],
)
def test_a_loop_that_gives_another_type(fault, message):
    refused(loop(**fault), message)


# -- types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "merged"),
    [
        ("f32[2,3]", "f32[2,4]", None),
        ("f32[2,3]", "i64[2,3]", None),
        ("f32[2,3]", "f32[2,3,1]", None),
        ("f32[2,?]", "f32[2,3]", "f32[2,3]"),
        ("f32[N,?]", "f32[2,3]", "f32[N,3]"),
        ("f32[*]", "f32[2,3]", "f32[2,3]"),
        ("f32[2,3]", "f32[*]", "f32[2,3]"),
        ("f32[N,3]", "f32[2,?]", "f32[N,3]"),
    ],
)
def test_merging_refines_or_refuses(a, b, merged):
    known, other = parse_type(a), parse_type(b)
    assert contradicts(known, other) == contradicts(other, known) == (merged is None)
    if merged is None:
        with pytest.raises(InvalidGraphError, match="expected a value of one type"):
            merge_types(known, other)
    else:
        assert str(merge_types(known, other)) == merged


# -- the graph ---------------------------------------------------------------------------------------


def test_what_an_update_reads_is_not_removed(graph):
    (parameter,) = graph.parameters()
    value = Builder(graph).op("Relu", Value(parameter.key))
    graph.updates[parameter.key] = value
    with pytest.raises(InvalidGraphError, match="without users"):
        graph.remove(value.node)
    other = graph.add_parameter(Parameter("v", "v", TensorData.of(np.ones(4, np.float32))))
    graph.updates = {other.node: value}
    with pytest.raises(InvalidGraphError, match="without users"):
        graph.remove(other.node)
    graph.updates = {}
    graph.remove(value.node, other.node)


def test_a_parameter_that_is_tied_takes_its_update_along(graph):
    (parameter,) = graph.parameters()
    other = graph.add_parameter(Parameter("v", "v", TensorData.of(np.ones(4, np.float32))))
    graph.updates[parameter.key] = Builder(graph).op("Relu", other)
    graph.replace_parameter(parameter.key, other.node)
    assert list(graph.updates) == [other.node]
    validate(graph)


def test_a_copy_has_notes_of_its_own(graph):
    graph.origin.notes, graph.origin.inputs = ["first"], {"x": np.ones(4)}
    new = graph.copy()
    new.origin.notes.append("second")
    new.origin.assumed.append("third")
    new.origin.inputs.clear()
    new.origin.landmarks["y", 0] = new.outputs[0][1]
    new.origin.framework = "other"
    old = graph.origin
    assert (old.notes, old.assumed, list(old.inputs), old.landmarks, old.framework) == (
        ["first"],
        [],
        ["x"],
        {},
        "",
    )
