"""The Builder: calls are checked and typed through the schema."""

import doctest
import importlib

import numpy as np
import pytest

from regraft.ir import Builder, Graph, InvalidGraphError, Operator, TensorType, render

IMAGE = TensorType("float32", ("N", 3, 8, 8))


@pytest.fixture
def b():
    return Builder(Graph())


@pytest.fixture
def x(b):
    return b.graph.add_input("x", IMAGE)


def test_types_follow_from_the_schema_and_keep_the_batch(b, x):
    weight = b.constant(np.zeros((4, 3, 3, 3), np.float32))
    assert str(b.type_of(b.op("Conv", x, weight, strides=[2, 2], pads=[1, 1, 1, 1]))) == "f32[N,4,4,4]"


def test_a_frontends_type_is_kept_and_refined(b, x):
    shape = b.graph.add_input("s", TensorType("int64", (2,)))
    stated = TensorType("float32", ("N", None))
    assert b.type_of(b.op("Reshape", x, shape, types=[stated])) == stated
    refined = b.op("Relu", x, types=[TensorType("float32", (None, None, None, None))])
    assert b.type_of(refined) == IMAGE


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "message"),
    [
        ("Conv", 1, {}, "expected 2 to 3 inputs, got 1"),
        ("Relu", 2, {}, "expected 1 to 1 inputs, got 2"),
        ("Relu", 1, {"slope": 1.0}, "got `slope`"),
        ("Softmax", 1, {"axis": "last"}, "of kind int"),
        ("MaxPool", 1, {"strides": [1, 1]}, "the attribute `kernel_shape`"),
        ("NoSuchOp", 1, {}, "`NoSuchOp`"),
        ("regraft.NoSuchComposite", 1, {}, "expected a composite"),
        ("other.Relu", 1, {}, "expected the domain"),
        ("MatMul", 2, {}, "contradict"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_source_line(b, op_type, operands, attributes, message):
    values = [b.graph.add_input(f"x{i}", TensorType("float32", (2 + i, 5))) for i in range(operands)]
    b.location = "net.py:7"
    with pytest.raises(InvalidGraphError, match=message):
        b.op(op_type, *values, **attributes)


def test_attributes_are_plain_values(b, x):
    y = b.op("Softmax", x, axis=np.int64(1))
    z = b.op("ReduceMean", y, b.constant([1]), keepdims=True)
    u = b.op("Transpose", y, perm=(0, 2, 3, 1))
    assert [b.graph.operator(v.node).attributes for v in (y, z, u)] == [
        {"axis": 1},
        {"keepdims": 1},
        {"perm": [0, 2, 3, 1]},
    ]
    assert b.graph.operator(b.op("LeakyRelu", x, alpha=None).node).attributes == {}


def test_absent_operands_at_the_end_are_dropped_and_in_the_middle_kept(b, x):
    y = b.op("Clip", x, None, b.constant(6.0))
    assert [v is None for v in b.graph.operands(y.node)] == [False, True, False]
    assert len(b.graph.operands(b.op("Clip", x, None, None).node)) == 1


def test_several_outputs_each_have_a_type(b, x):
    parts = b.ops("Split", x, outputs=3, axis=1, num_outputs=3)
    assert [str(b.type_of(part)) for part in parts] == ["f32[N,1,8,8]"] * 3


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, "int64"), (1.5, "float32"), (True, "bool"), ([1, 2], "int64"), (np.float64(2), "float32")],
)
def test_constants_have_the_obvious_type(b, value, dtype):
    constant = b.constant(value)
    assert b.type_of(constant).dtype == dtype
    np.testing.assert_array_equal(b.graph.constant_value(constant), value)


def test_operators_are_in_the_current_call_and_line(b, x):
    root = b.graph.modules.add("Net")
    call = b.graph.modules.add_call(root)
    with b.inside(call, "net.py:3"):
        y = b.op("Relu", x)
    z = b.op("Relu", x)
    inside, outside = b.graph.operator(y.node), b.graph.operator(z.node)
    assert (inside.call, inside.location) == (call, "net.py:3")
    assert (outside.call, outside.location) == (None, "")


def test_an_operator_with_branches_has_the_types_that_its_builder_states(b, x):
    body = Graph("body", b.graph.modules)
    body.outputs.append(("y", Builder(body).op("Relu", body.add_capture(IMAGE))))
    condition = b.graph.add_input("c", TensorType("bool", ()))
    (y,) = b.ops("If", condition, types=[IMAGE], captures=[x], then_branch=body, else_branch=body.copy())
    assert b.type_of(y) == IMAGE
    assert "captures (%x)" in render(b.graph)


@pytest.mark.parametrize("name", ["builder", "composites.pool", "modules", "types", "graph", "tensors"])
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(f"regraft.ir.{name}")).failed == 0


def test_hints_name_values_in_the_text(b, x):
    (y,) = b.graph.add_operator(Operator("Relu", types=[IMAGE], hint="activated"), [x])
    b.graph.outputs.append(("y", y))
    assert "%activated = Relu(%x)" in render(b.graph)
