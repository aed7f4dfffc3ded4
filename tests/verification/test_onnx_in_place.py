"""ONNX files are run from where they lie: no second copy of their weights, and the same values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from regraft.ir.outside.onnx_in_place import open_in_place
from regraft.verification.runners.onnx_runner import OnnxRunner


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weight, offset = rng.standard_normal((40, 30)).astype(np.float32), np.arange(30, dtype=np.float32)
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", float32, ["N", 40])],
        [helper.make_tensor_value_info("y", float32, ["N", 30])],
        [onnx.numpy_helper.from_array(weight, "w"), onnx.numpy_helper.from_array(offset, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_large_tensors_refer_to_the_file_and_everything_else_is_as_it_was(file: Path) -> None:
    whole, found = onnx.load(file), open_in_place(file)
    assert found is not None
    assert [t.data_location for t in found.graph.initializer] == [
        onnx.TensorProto.EXTERNAL,
        onnx.TensorProto.DEFAULT,
    ]
    assert not found.graph.initializer[0].raw_data
    onnx.load_external_data_for_model(found, str(file.parent))
    for tensor in found.graph.initializer:
        del tensor.external_data[:]
        tensor.ClearField("data_location")
    assert found == whole


def test_the_runner_computes_the_same_and_copies_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = {"x": np.ones((2, 40), np.float32)}
    in_memory = OnnxRunner(file)
    monkeypatch.setattr("regraft.verification.runners.onnx_runner._IN_MEMORY", 100)
    in_place = OnnxRunner(file)
    assert in_place.model.graph.initializer[0].external_data[0].value == "m.onnx"
    assert in_place._scratch is None
    np.testing.assert_array_equal(in_place.run(x).outputs[0][1], in_memory.run(x).outputs[0][1])
    doubled = {"w": 2 * onnx.numpy_helper.to_array(in_memory.model.graph.initializer[0])}
    np.testing.assert_array_equal(
        in_place.holding(doubled).run(x).outputs[0][1], in_memory.holding(doubled).run(x).outputs[0][1]
    )


@pytest.mark.parametrize("size", [1, 200, 2000])
def test_a_file_that_is_cut_off_is_left_to_whoever_says_what_is_wrong(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])
    assert open_in_place(file) is None


def test_a_link_is_read_as_a_whole(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link.onnx").symlink_to(file)
    assert open_in_place(tmp_path / "link.onnx") is None
