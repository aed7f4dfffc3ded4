"""Modules whose values have their axes in another order in the target, as `move-transposes` leaves them."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import regraft

NET = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[2,9,7,3] image) => (float[2,4] y) {
  "a_0" = Transpose <perm = [0, 3, 1, 2]> (image)
  "a_1" = Conv ("a_0", "net/a/kernel")
  "a_2" = Transpose <perm = [0, 2, 3, 1]> ("a_1")
  "a_3" = Add ("a_2", "net/a/bias")
  "a_4" = Relu ("a_3")
  "b_0" = Transpose <perm = [0, 3, 1, 2]> ("a_4")
  "b_1" = Conv ("b_0", "net/b/kernel")
  "b_2" = Transpose <perm = [0, 2, 3, 1]> ("b_1")
  "b_3" = Add ("b_2", "net/b/bias")
  "c_0" = Add ("b_3", "a_4")
  y = ReduceMean <axes = [1, 2], keepdims = 0> ("c_0")
}
"""


@pytest.fixture
def source(tmp_path: Path) -> regraft.Graph:
    model = onnx.parser.parse_model(NET)
    draw = np.random.default_rng(0)
    for scope, width in (("a", 3), ("b", 4)):
        for name, shape in (("kernel", (4, width, 1, 1)), ("bias", (4,))):
            array = draw.standard_normal(shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, f"net/{scope}/{name}"))
    for node in model.graph.node:
        scope = node.output[0][0]
        node.name = f"net/{scope}/{node.op_type}_{node.output[0]}" if scope in "ab" else node.output[0]
    onnx.save(model, tmp_path / "net.onnx")
    return regraft.load(str(tmp_path / "net.onnx"))


def test_modules_are_compared_in_the_sources_order(source: regraft.Graph, tmp_path: Path) -> None:
    regraft.save(regraft.rewrite(source).graph, tmp_path / "out.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert kinds.count("Transpose") == 1
    report = regraft.verify(source, tmp_path / "out.onnx")
    assert report.passed, report.render()
    assert {row.call: row.passed for row in report.modules} == {
        "a#1": True,
        "b#1": True,
    }
    assert any("axes in another order" in note for note in report.notes)


@pytest.mark.parametrize("scope", ["a", "b"])
def test_a_fault_in_one_of_them_is_named(source: regraft.Graph, scope: str, tmp_path: Path) -> None:
    regraft.save(regraft.rewrite(source).graph, tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    weight = next(t for t in model.graph.initializer if t.name == f"{scope}.weight")
    array = onnx.numpy_helper.to_array(weight)
    weight.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array[::-1]), weight.name))
    onnx.save(model, tmp_path / "out.onnx")
    report = regraft.verify(source, tmp_path / "out.onnx")
    assert report.verdict == "different"
    assert report.first_divergence == f"{scope}#1", report.render()
