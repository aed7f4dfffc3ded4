"""Files that no exporter writes: one error each, with its place."""

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest

import regraft

NET = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[2,3,8,8] x) => (float[a,b] y) {
  [conv] c = Conv (x, w)
  [relu] r = Relu (c)
  [flat] y = Flatten (r)
}
"""
Spoil = Callable[[onnx.ModelProto], object]


def attribute(name: str, value: object) -> Spoil:
    return lambda model: model.graph.node[0].attribute.append(onnx.helper.make_attribute(name, value))


def twice(model: onnx.ModelProto) -> None:
    attribute("group", 1)(model)
    attribute("group", 3)(model)


def doubling_functions(model: onnx.ModelProto) -> None:
    """Forty functions, each of which calls the one before it twice: 2 ** 40 nodes."""
    model.opset_import.add(domain="own", version=1)
    before = ("Relu", "")
    for number in range(40):
        nodes = [
            onnx.helper.make_node(before[0], [a], [b], domain=before[1]) for a, b in (("a", "t"), ("t", "b"))
        ]
        opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]
        model.functions.append(onnx.helper.make_function("own", f"F{number}", ["a"], ["b"], nodes, opsets))
        before = (f"F{number}", "own")
    model.graph.node[1].op_type, model.graph.node[1].domain = before


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (twice, "E101 expected the attribute `group` once, got it twice - at node `conv`"),
        (attribute("group", 0), "E101 expected a group of 1 or more, got 0 - at node `conv`"),
        (attribute("group", -1), "E101 expected a group of 1 or more, got -1 - at node `conv`"),
        (lambda m: m.graph.ClearField("output"), "E101 expected an ONNX model with outputs, got none"),
        (lambda m: m.opset_import.add(version=11), "E101 expected one opset of ai.onnx, got 17 and 11"),
    ],
)
def test_is_refused_with_its_place(spoil: Spoil, said: str) -> None:
    model = onnx.parser.parse_model(NET)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w"))
    spoil(model)
    with pytest.raises(regraft.RegraftError) as raised:
        regraft.load(model)
    assert said in str(raised.value)


def test_functions_that_double_end_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from regraft.frontends.onnx_model import lowering

    monkeypatch.setattr(lowering, "_FEW", 500)  # the same without the seconds that many nodes take
    monkeypatch.setattr(lowering, "_REPEATED", 5)
    model = onnx.parser.parse_model(NET)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w"))
    doubling_functions(model)
    with pytest.raises(regraft.ModelError, match="E106 expected nodes in proportion to the file"):
        regraft.load(model)
