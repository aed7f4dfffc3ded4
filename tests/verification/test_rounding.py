"""Sums of products in an ONNX model are moved by their own rounding; nothing else is."""

import numpy as np
import onnx
import onnx.parser
import pytest

from regraft.backends.onnx_model import to_model
from regraft.ir import Builder, Graph, TensorType
from regraft.verification.conditioning import Change
from regraft.verification.runners.onnx_rounding import round_results
from regraft.verification.runners.onnx_runner import OnnxRunner


def model(operator: str, dtype: str = "float32", **attributes: object):
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(dtype, (3, 3)))
    operands = [x] if operator == "Relu" else [x, x]
    b.graph.outputs.append(("y", b.op(operator, *operands, **attributes)))
    return to_model(b.graph)


def assert_square_is_off(moved):
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    round_results(moved, Change(1, 64))
    runner = OnnxRunner(moved)
    try:
        found = runner.run({"x": x}).outputs[0][1]
    finally:
        runner.close()
    assert not np.array_equal(found, x @ x)
    np.testing.assert_allclose(found, x @ x, rtol=64 * 2.0**-23)


@pytest.mark.parametrize(("operator", "attributes"), [("MatMul", {}), ("Einsum", {"equation": "ij,jk->ik"})])
def test_a_sum_of_products_is_off_by_its_rounding(operator, attributes):
    moved = model(operator, **attributes)
    assert_square_is_off(moved)


@pytest.mark.parametrize(
    ("operator", "dtype"), [("Relu", "float32"), ("Add", "float32"), ("MatMul", "int32")]
)
def test_what_is_not_rounded_stays(operator, dtype):
    moved = model(operator, dtype)
    before = [node.op_type for node in moved.graph.node]
    round_results(moved, Change(1, 64))
    assert [node.op_type for node in moved.graph.node] == before


def test_a_product_in_a_file_of_an_old_opset_is_off_too():
    moved = onnx.parser.parse_model(
        '<ir_version: 4, opset_import: ["" : 9]> net (float[3, 3] x) => (float[3, 3] y) { y = MatMul (x, x) }'
    )
    assert_square_is_off(moved)
