"""A last layer that is drawn as zeros hides what lies before it: other values on both sides show that."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import regraft
from regraft.verification import verify


class Modulated(nn.Module):
    """A block whose shift, scale and gate, and the net's last layer, start from zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8, elementwise_affine=False)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(8, 24))
        self.layer = nn.Linear(8, 8)
        self.out = nn.Linear(8, 4)
        for layer in (self.modulation[1], self.out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        shift, scale, gate = self.modulation(c).chunk(3, -1)
        return self.out(torch.relu(x + gate * self.layer(self.norm(x) * (1 + scale) + shift)))


@pytest.fixture(scope="module")
def graph() -> regraft.Graph:
    x, c = np.random.default_rng(0).standard_normal((2, 2, 8)).astype(np.float32)
    return regraft.load(Modulated(), (x, c))


def test_a_file_behind_zeros_is_proved(graph: regraft.Graph, tmp_path: Path) -> None:
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    before = {n: p.clone() for n, p in graph.origin.model.named_parameters()}  # type: ignore[union-attr]
    report = verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.summary()
    assert any("`modulation.1.weight`" in note and "one repeated number" in note for note in report.notes)
    after = dict(graph.origin.model.named_parameters())  # type: ignore[union-attr]
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(("old", "new"), [("Relu", "Abs"), ("Mul", "Add")])
def test_a_fault_behind_zeros_is_found(graph: regraft.Graph, tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, file)
    model = onnx.load(file)
    next(n for n in reversed(model.graph.node) if n.op_type == old).op_type = new
    onnx.save(model, file)
    report = verify(graph, file, modules=False)
    assert report.differs
    assert "parameters of one number drawn" in next(row.case for row in report.outputs if not row.passed)


def test_without_a_map_nothing_is_proved(graph: regraft.Graph, tmp_path: Path) -> None:
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    (tmp_path / "net.renames.json").unlink()
    report = verify(graph, tmp_path / "net.onnx", modules=False)
    assert not report.passed
    assert not report.differs


@pytest.mark.xdist_group("mindspore")
def test_source_behind_zeros_is_proved_and_its_faults_found(graph: regraft.Graph, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    regraft.save(regraft.rewrite(graph).graph, folder, to="mindspore")
    assert verify(graph, folder).passed
    text = (folder / "model.py").read_text()
    assert text.count("ops.relu(") == 1
    (folder / "model.py").write_text(text.replace("ops.relu(", "ops.abs("))
    report = verify(graph, folder, modules=False)
    assert report.differs, report.summary()


@pytest.mark.parametrize("number", [0.0, 0.02])
def test_a_light_model_has_layers_and_its_faults_are_found(number: float, tmp_path: Path) -> None:
    """Its weights are made by ConstantOfShape, as those of the light models of ONNX's zoo."""
    path, file = tmp_path / "net.onnx", tmp_path / "out.onnx"
    onnx.save(_light(number), path)
    graph = regraft.load(path)
    held = {p for paths in graph.parameter_paths().values() for p in paths}
    assert held == {"conv1.weight", "conv1.bias", "fc.weight", "fc.bias"}
    regraft.save(regraft.rewrite(graph).graph, file)
    report = verify(graph, file)
    assert report.passed, report.summary()
    assert any("`conv1.weight`" in note and "one repeated number" in note for note in report.notes)
    model = onnx.load(file)
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Neg"
    onnx.save(model, file)
    assert not verify(graph, file).passed


def test_weights_that_are_made_by_one_number_are_weights_of_their_own(tmp_path: Path) -> None:
    """A node that only reading held was told by its address, which the next one had too."""
    make, names = helper.make_node, [f"w{i}" for i in range(200)]
    value = numpy_helper.from_array(np.array([0.5], np.float32))
    nodes = [make("ConstantOfShape", ["shape"], [name], value=value) for name in names]
    for i, name in enumerate(names):
        nodes.append(make("Gemm", [f"x{i}" if i else "x", name], [f"x{i + 1}"]))
    info = helper.make_tensor_value_info
    ends = [info("x", 1, [1, 2])], [info("x200", 1, [1, 2])]
    shape = numpy_helper.from_array(np.array([2, 2]), "shape")
    onnx.save(helper.make_model(helper.make_graph(nodes, "made", *ends, [shape])), tmp_path / "net.onnx")
    held = regraft.load(tmp_path / "net.onnx").parameters()
    assert len({p.data.storage for p in held}) == len(held) == 200


@pytest.mark.parametrize("is_made", [True, False])
def test_a_scale_behind_a_normalisation_is_a_layer(is_made: bool, tmp_path: Path) -> None:
    """As Caffe's nets have them: in a file, two vectors that four operators read."""
    make, info, number = helper.make_node, helper.make_tensor_value_info, np.float32(0.02)
    stored, nodes, value = [], [], numpy_helper.from_array(np.full(1, number))
    for layer in ("a", "b"):
        for part in ("scale", "bias", "mean", "var", "sc_w", "sc_b"):
            name = f"{layer}/bn/{part}_0"
            stored.append(numpy_helper.from_array(np.array([3]), f"{name}__SHAPE"))
            nodes.append(make("ConstantOfShape", [f"{name}__SHAPE"], [name], value=value))
            if not is_made:
                stored[-1] = numpy_helper.from_array(np.full(3, number), name)
                nodes.pop()
    for layer, x, y in (("a", "x", "h"), ("b", "h", "y")):
        own = [f"{layer}/bn/{part}_0" for part in ("scale", "bias", "mean", "var", "sc_w", "sc_b")]
        at = [f"{layer}{n}" for n in range(5)]
        nodes += [
            make("BatchNormalization", [x, *own[:4]], [at[0]]),
            make("Unsqueeze", [own[4]], [at[1]], axes=[1, 2]),
            make("Mul", [at[0], at[1]], [at[2]]),
            make("Unsqueeze", [own[5]], [at[3]], axes=[1, 2]),
            make("Add", [at[2], at[3]], [at[4]]),
            make("Relu", [at[4]], [y]),
        ]
    ends = [info("x", 1, [1, 3, 4, 4])], [info("y", 1, [1, 3, 4, 4])]
    graph = helper.make_graph(nodes, "scales", *ends, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    read = regraft.load(tmp_path / "net.onnx")
    held = {p for paths in read.parameter_paths().values() for p in paths}
    assert {"a_bn_sc.weight", "a_bn_sc.bias", "b_bn_sc.weight", "b_bn_sc.bias"} <= held
    regraft.save(regraft.rewrite(read, to="torch").graph, tmp_path / "out", to="torch")
    assert verify(read, tmp_path / "out").passed
    assert "class Scale(nn.Module)" in (tmp_path / "out" / "model.py").read_text()


@pytest.mark.parametrize("change", [1.0, 1.001])
def test_a_sum_of_equal_products_is_rounded_one_way(change: float, tmp_path: Path) -> None:
    """Torch adds 4608 equal products up 300 units from ONNX Runtime's sum; another number is further."""
    make, info = helper.make_node, helper.make_tensor_value_info
    stored = [numpy_helper.from_array(np.full((8, 512, 3, 3), 0.02, np.float32), "c.weight")]
    ends = [info("x", 1, [1, 512, 28, 28])], [info("y", 1, [1, 8, 28, 28])]
    nodes = [make("Conv", ["x", "c.weight"], ["a"], pads=[1, 1, 1, 1]), make("Softmax", ["a"], ["y"], axis=1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "sum", *ends, stored)), tmp_path / "net.onnx")
    graph = regraft.load(tmp_path / "net.onnx", [np.full((1, 512, 28, 28), 1.37, np.float32)])
    out = tmp_path / "out"
    regraft.save(regraft.rewrite(graph, to="torch").graph, out, to="torch", checkpoint_format="pth")
    state = torch.load(out / "model.pth")
    torch.save({name: value * change for name, value in state.items()}, out / "model.pth")
    report = verify(graph, out)
    assert report.passed is (change == 1.0), report.summary()


def _light(number: float) -> onnx.ModelProto:
    make, stored, nodes = helper.make_node, [], []
    shapes = {"conv1_w_0": [4, 3, 3, 3], "conv1_b_0": [4], "fc_w_0": [5, 4], "fc_b_0": [5]}
    value = numpy_helper.from_array(np.array([number], np.float32))
    for name, shape in shapes.items():
        stored.append(numpy_helper.from_array(np.array(shape), f"{name}__SHAPE"))
        nodes.append(make("ConstantOfShape", [f"{name}__SHAPE"], [name], value=value))
    nodes += [
        make("Conv", ["x", "conv1_w_0", "conv1_b_0"], ["a"], pads=[1, 1, 1, 1]),
        make("Relu", ["a"], ["b"]),
        make("GlobalAveragePool", ["b"], ["c"]),
        make("Flatten", ["c"], ["d"]),
        make("Gemm", ["d", "fc_w_0", "fc_b_0"], ["e"], transB=1),
        make("Softmax", ["e"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "light", [info("x", 1, [1, 3, 8, 8])], [info("y", 1, [1, 5])], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Normed(nn.Module):
    """Normalisations as they are constructed, in one order or another with ReLU and a pool."""

    def __init__(self, *, order: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.bn = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)
        self.fc, self.order = nn.Linear(6, 4), order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        if self.order == "relu first":
            x = torch.max_pool2d(self.bn(x.relu()), 2)
        elif self.order == "pool first":
            x = self.bn(torch.max_pool2d(x, 2)).relu()
        elif self.order == "pool before relu":  # which is the same
            x = torch.max_pool2d(self.bn(x), 2).relu()
        else:
            x = torch.max_pool2d(self.bn(x).relu(), 2)
        return self.fc(x.mean((2, 3)))


@pytest.mark.parametrize(
    ("order", "equal"), [("relu first", False), ("pool first", False), ("pool before relu", True)]
)
def test_two_nets_are_compared_with_other_factors_and_shifts(
    order: str, *, equal: bool, without_search: None
) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32)
    source, target = Normed(), Normed(order=order)
    report = verify(regraft.load(source, x), regraft.load(target, x), own=True)
    assert report.passed == equal, report.summary()
    rows = [row for row in report.outputs if "of one number" in row.case]
    assert [row.passed for row in rows] == ([] if equal else [False])
    assert any("`bn.weight`, `bn.bias`" in note and "one repeated number" in note for note in report.notes)
    assert all((n.bn.weight == 1).all() and (n.bn.bias == 0).all() for n in (source, target))
