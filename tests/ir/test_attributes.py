"""Attributes read through the operator: as given, else as the schema or the composite's declaration says."""

import numpy as np
import onnx
import pytest

from regraft.ir import COMPOSITES, OPSET, Operator, signature
from regraft.ir.traits import CLASSIFIED


def test_what_is_given_comes_before_the_default():
    assert Operator("LeakyRelu").float("alpha") == 0.01
    assert Operator("LeakyRelu", attributes={"alpha": 0.3}).float("alpha") == 0.3
    assert Operator("Flatten").int("axis") == 1
    assert Operator("Softmax").int("axis") == -1
    assert Operator("Conv").str("auto_pad") == "NOTSET"
    assert Operator("LSTM", "regraft").int("num_layers") == 1
    assert Operator("RNN", "regraft").str("nonlinearity") == "tanh"


def test_what_has_no_default_is_none_or_empty():
    assert Operator("Unique").attribute("axis") is None
    assert Operator("Transpose").ints("perm") == []
    assert Operator("ScaledDotProductAttention", "regraft").attribute("scale") is None


def test_an_attribute_that_an_operator_does_not_have_is_a_fault_of_ours():
    with pytest.raises(AssertionError, match="`GlobalAveragePool` has no attribute `ceil_mode`"):
        Operator("GlobalAveragePool").int("ceil_mode")
    with pytest.raises(AssertionError, match=r"`regraft.Linear` has no attribute `axis`"):
        Operator("Linear", "regraft").int("axis")


def test_defaults_are_the_schemas_to_the_bit_and_written_short():
    for name in CLASSIFIED:
        schema = onnx.defs.get_schema(name, OPSET, "")
        for key, attribute in schema.attributes.items():
            default = signature(name).attributes[key].default
            if not attribute.default_value.name:
                assert default is None
                continue
            stated = onnx.helper.get_attribute_value(attribute.default_value)
            if isinstance(stated, float):
                assert np.float32(default) == np.float32(stated)
                assert len(repr(default)) <= 9
            elif isinstance(stated, bytes):
                assert default == stated.decode()
            else:
                assert (
                    default == [s.decode() if isinstance(s, bytes) else s for s in stated]
                    if (isinstance(stated, list))
                    else default == stated
                )


def test_defaults_of_composites_are_of_their_kind():
    kinds = {"int": int, "float": float, "string": str, "ints": list}
    for name, composite in COMPOSITES.items():
        for spec in composite.signature.attributes.values():
            assert spec.default is None or type(spec.default) is kinds[spec.kind], (name, spec.name)
            assert not (spec.required and spec.default is not None), (name, spec.name)


def test_spatial_attributes_are_what_onnx_says_in_words():
    pool = Operator("MaxPool", attributes={"kernel_shape": [3, 3]})
    assert pool.spatial("strides", 2) == [1, 1]
    assert pool.spatial("dilations", 2) == [1, 1]
    assert pool.spatial("pads", 2) == [0, 0, 0, 0]
    assert Operator("ConvTranspose").spatial("output_padding", 3) == [0, 0, 0]
    assert Operator("Conv", attributes={"strides": [2, 1]}).spatial("strides", 2) == [2, 1]
    pool.spatial("pads", 2)[0] = 5
    assert pool.spatial("pads", 2) == [0, 0, 0, 0]
