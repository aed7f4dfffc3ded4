"""What a runtime's arithmetic may cost, told from what operators are."""

import pytest

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
