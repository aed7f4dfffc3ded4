"""What a runtime's arithmetic may cost, told from what operators are."""

import pytest
from onnx import TensorProto, helper

from regraft.ir import Operator
from regraft.verification.runners.mindspore_runner import MindSporeRunner
from regraft.verification.runners.onnx_runner import OnnxRunner
from regraft.verification.sides import _scale_of


def test_how_far_below_zero_exponential_units_go_is_onnx_own_default():
    assert _scale_of(Operator("Selu")) == pytest.approx(1.6732632 * 1.0507010)
    assert _scale_of(Operator("Elu")) == 1.0
    assert _scale_of(Operator("Celu", attributes={"alpha": -0.5})) == 0.5


def test_mindspore_is_coarse_where_a_tanh_is_computed_in_cells_too():
    runner = MindSporeRunner.__new__(MindSporeRunner)
    coarse = [Operator("Tanh"), Operator("LSTM"), Operator("GRU", "regraft"), Operator("RNNCell", "regraft")]
    assert [runner.ulp_tolerance([operator]) for operator in coarse] == [2048] * 4
    assert runner.ulp_tolerance([Operator("Sigmoid"), Operator("Linear", "regraft")]) == 64


def test_onnx_runtime_is_allowed_less_where_nothing_adds_many_elements_up():
    runner = OnnxRunner.__new__(OnnxRunner)
    assert runner.ulp_tolerance([Operator("Conv"), Operator("MaxPool"), Operator("Relu")]) == 16


def test_positions_along_a_long_axis_are_rounded_as_it_is_long():
    name, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 1, 7, 13])
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    ends = [name("x", kind, [1, 1, 224, 200])], [name("y", kind, [1, 1, 7, 13])]
    runner = OnnxRunner(helper.make_model(helper.make_graph([node], "g", *ends, [sizes])))
    assert runner.ulp_tolerance([Operator("Resize"), Operator("Relu")]) == 448
    assert runner.ulp_tolerance([Operator("Relu")]) == 16
    runner.close()
