"""A target whose sizes are fixed is compared at those, with a note; one that fails at others is wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import onnx
import pytest
import torch
from torch import nn

import regraft
from regraft.verification.verify_written import verify_written

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
NOTE = "only with N=2: the target has no other size"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        return self.fc(self.conv(x).relu().mean((2, 3)))


class Cell(ms.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = ms.nn.Conv2d(3, 4, 3, has_bias=True)
        self.fc = ms.nn.Dense(4, 5)

    def construct(self, x):
        return self.fc(ms.ops.relu(self.conv(x)).mean((2, 3)))


def onnx_of_torch(folder: Path) -> tuple[object, Path]:
    net = Net().eval()
    graph = regraft.load(net, (torch.from_numpy(IMAGES),), dynamic_batch=False)
    regraft.save(regraft.rewrite(graph).graph, folder / "net.onnx", to="onnx")
    return net, folder / "net.onnx"


def program_of_torch(folder: Path) -> tuple[object, Path]:
    net = Net().eval()
    torch.export.save(torch.export.export(net, (torch.from_numpy(IMAGES),)), folder / "net.pt2")
    return net, folder / "net.pt2"


def mindir_of_cell(folder: Path) -> tuple[object, Path]:
    net = Cell().set_train(False)
    ms.export(net, ms.Tensor(IMAGES), file_name=str(folder / "net"), file_format="MINDIR")
    return net, folder / "net.mindir"


@pytest.mark.parametrize("make", [onnx_of_torch, program_of_torch, mindir_of_cell])
@pytest.mark.parametrize("batch", [2, 5])
def test_a_file_that_was_exported_for_one_batch(
    make: Callable[[Path], tuple[object, Path]], batch: int, tmp_path: Path
) -> None:
    net, path = make(tmp_path)
    report = regraft.verify(regraft.load(net, (f"{batch}x3x6x6",)), path)
    assert report.passed, report.render()
    assert NOTE in report.notes
    assert {row.shape[0] for row in report.outputs} == {2}
    given = np.concatenate([IMAGES, IMAGES, IMAGES])[:batch] + 1
    report = regraft.verify(net, path, (given,))
    assert report.passed, report.render()
    assert NOTE in report.notes


def test_a_source_that_was_exported_for_one_batch(tmp_path: Path) -> None:
    net, path = onnx_of_torch(tmp_path)
    report = regraft.verify(path, net)
    assert report.passed, report.render()


def test_a_fault_of_such_a_file_is_found(tmp_path: Path) -> None:
    net, path = onnx_of_torch(tmp_path)
    model = onnx.load(path)
    bias = next(t for t in model.graph.initializer if list(t.dims) == [5])
    bias.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + np.float32(0.01), bias.name)
    )
    onnx.save(model, path)
    report = regraft.verify(regraft.load(net, ("2x3x6x6",)), path)
    assert report.verdict == "different"


def test_a_batch_that_only_an_inner_operator_fixes_is_a_fault(tmp_path: Path) -> None:
    """The file says that it takes any batch."""
    net, path = onnx_of_torch(tmp_path)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    last = model.graph.node[-1]
    (name,) = last.output
    last.output[0] = "flexible"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 5]), "baked"))
    model.graph.node.append(onnx.helper.make_node("Reshape", ["flexible", "baked"], [name]))
    onnx.save(model, path)
    report = regraft.verify(regraft.load(net, ("2x3x6x6",)), path)
    assert report.verdict == "different"
    assert NOTE not in report.notes


class Rows(nn.Module):
    """A net whose batch stands in its code once it was exported for one."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        return self.fc(x).reshape(x.shape[0] * 5)


def test_a_folder_that_was_written_for_one_batch_says_so(tmp_path: Path) -> None:
    net = Rows().eval()
    graph = regraft.load(net, ("2x6",), dynamic_batch=False)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    assert json.loads((tmp_path / "net" / "renames.json").read_text())["inputs"] == [[2, 6]]
    report = regraft.verify(regraft.load(net, ("3x6",)), tmp_path / "net")
    assert report.passed, report.render()
    assert NOTE in report.notes
    regraft.save(regraft.rewrite(regraft.load(net, ("2x6",))).graph, tmp_path / "open", to="mindspore")
    assert "inputs" not in json.loads((tmp_path / "open" / "renames.json").read_text())


def test_a_batch_that_is_fixed_only_in_what_was_written_is_a_fault(tmp_path: Path) -> None:
    net, path = onnx_of_torch(tmp_path)
    fixed = regraft.load(net, ("2x3x6x6",), dynamic_batch=False)
    assert verify_written(fixed, fixed, [path], path, "onnx").passed
    graph = regraft.load(net, ("2x3x6x6",))
    report = verify_written(graph, graph, [path], path, "onnx")
    assert not report.passed
    assert {row.reason for row in report.outputs if not row.passed} == {
        "the target has only N=2, which is open in the source"
    }
