"""The cause is named where the source is a file without methods: an ONNX model, or a symbol of MXNet's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft
from regraft.ir import Graph

from ..corpora.mxnet.cases import save_params

HEADS = {
    "torch": "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n",
    "mindspore": "import mindspore as ms\nfrom mindspore import nn, ops\n",
}
CLASS = """

class {name}({base}):
    def __init__(self):
        super().__init__()
{layers}
    def {method}(self, x{more}):
        {before}
        return {result}
"""
Node = tuple[str, Sequence[str], Sequence[str], dict[str, Any]]


@dataclass(frozen=True)
class Onnx:
    """A model: its nodes, its input's sizes, and its tensors (a shape is drawn, values are constants)."""

    nodes: Sequence[Node]
    sizes: Sequence[int]
    tensors: dict[str, Any] = field(default_factory=dict)
    opset: int = 17
    further: dict[str, Sequence[int]] = field(default_factory=dict)

    def load(self, folder: Path) -> Graph:
        random = np.random.default_rng(0)
        tensors = {
            k: v if isinstance(v, np.ndarray) else random.standard_normal(v).astype("f4") / 2
            for k, v in self.tensors.items()
        }
        inputs = {"x": self.sizes, **self.further}
        graph = helper.make_graph(
            [helper.make_node(op, i, o, **attributes) for op, i, o, attributes in self.nodes],
            "net",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in tensors.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 9
        onnx.save(model, folder / "net.onnx")
        return regraft.load(folder / "net.onnx")


@dataclass(frozen=True)
class Symbol:
    """A symbol: (operator, name, inputs, attributes) of its nodes, its input's sizes, its tensors' shapes."""

    steps: Sequence[tuple[str, str, Sequence[str], dict[str, str]]]
    sizes: str
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def load(self, folder: Path) -> Graph:
        nodes: list[dict[str, Any]] = []
        places: dict[str, int] = {}

        def add(op: str, name: str, inputs: Sequence[str], attributes: dict[str, str]) -> None:
            for other in inputs:
                if other not in places:
                    add("null", other, [], {})
            places[name] = len(nodes)
            uses = [[places[other], 0, 0] for other in inputs]
            nodes.append({"op": op, "name": name, "attrs": attributes, "inputs": uses})

        for step in self.steps:
            add(*step)
        variables = [at for at, node in enumerate(nodes) if node["op"] == "null"]
        document = {"nodes": nodes, "arg_nodes": variables, "heads": [[len(nodes) - 1, 0, 0]]}
        (folder / "net-symbol.json").write_text(json.dumps(document))
        random = np.random.default_rng(0)
        arrays = {
            f"{'aux' if 'moving' in name else 'arg'}:{name}": random.uniform(0.1, 2, shape).astype("f4")
            for name, shape in self.shapes.items()
        }
        save_params(folder / "net-0000.params", arrays)
        return regraft.load(folder / "net-symbol.json", {"data": self.sizes})


class Port(NamedTuple):
    """The wrong and the right port, what to write, and the text of the line to write it at."""

    wrong: str
    right: str
    write: str
    layers: str = ""
    right_layers: str = ""
    line: str = ""


def _one(op: str, **attributes: Any) -> list[Node]:
    return [(op, ["x"], ["y"], attributes)]


def _pool(**attributes: Any) -> list[Node]:
    return _one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], **attributes)


SQUARE = (2, 3, 7, 7)
STATISTICS = ("bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var")
CORNERS = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
RESPONSES = {"nsize": "5", "alpha": "0.1", "beta": "0.75", "knorm": "2"}
NEAREST = {"scale": "2", "sample_type": "nearest", "num_args": "1"}
RESIZED = {"s": np.array([2, 3, 7, 9])}
GATES: list[Node] = [
    ("Gemm", ["x", "w.weight", "w.bias"], ["g"], {"transB": 1}),
    ("Split", ["g"], ["i", "f", "c", "o"], {"axis": 1}),
    ("Sigmoid", ["i"], ["si"], {}),
    ("Sigmoid", ["o"], ["so"], {}),
    ("Tanh", ["c"], ["tc"], {}),
    ("Mul", ["si", "tc"], ["m"], {}),
    ("Tanh", ["m"], ["tm"], {}),
    ("Mul", ["so", "tm"], ["y"], {}),
]
GATED = "{0}.sigmoid(o) * {0}.tanh({0}.sigmoid(i) * {0}.{1}(c))"
FULL = {"kernel": "(3, 3)", "stride": "(2, 2)", "pool_type": "max", "pooling_convention": "full"}

# what differs: (source, ports by framework)
ROWS: dict[str, tuple[Onnx | Symbol, dict[str, Port]]] = {
    "windows that are rounded up": (
        Symbol([("Pooling", "p", ["data"], FULL), ("mean", "m", ["p"], {"axis": "(2, 3)"})], "2x3x8x8"),
        {
            "torch": Port(
                "self.p(x).mean((2, 3))",
                "self.p(x).mean((2, 3))",
                "ceil_mode=True",
                "self.p = nn.MaxPool2d(3, 2)",
                "self.p = nn.MaxPool2d(3, 2, ceil_mode=True)",
            ),
            "mindspore": Port(
                "self.p(x).mean((2, 3))",
                "self.p(x).mean((2, 3))",
                'pad_mode="pad", ceil_mode=True',
                "self.p = nn.MaxPool2d(3, 2)",
                'self.p = nn.MaxPool2d(3, 2, pad_mode="pad", ceil_mode=True)',
            ),
        },
    ),
    "zeros counted in a mean": (
        Onnx(_pool(count_include_pad=0), SQUARE),
        {
            "torch": Port(
                "F.avg_pool2d(x, 3, 2, 1)",
                "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)",
                "count_include_pad=False",
            ),
            "mindspore": Port(
                "self.p(x)",
                "self.p(x)",
                "count_include_pad=False",
                "self.p = nn.AvgPool2d(3, 2, pad_mode='pad', padding=1)",
                "self.p = nn.AvgPool2d(3, 2, pad_mode='pad', padding=1, count_include_pad=False)",
            ),
        },
    ),
    "channels last before a flattening": (
        Onnx(
            [("Transpose", ["x"], ["t"], {"perm": [0, 2, 3, 1]}), ("Flatten", ["t"], ["y"], {})], (2, 3, 4, 5)
        ),
        {
            "torch": Port(
                "x.flatten(1)",
                "x.permute(0, 2, 3, 1).flatten(1)",
                "`torch.flatten(x.permute(0, 2, 3, 1), start_dim=1)` in place of `x.flatten(1)`",
            ),
            "mindspore": Port(
                "ops.flatten(x)",
                "ops.flatten(x.permute(0, 2, 3, 1))",
                "`ops.flatten(x.permute(0, 2, 3, 1), start_dim=1)` in place of `ops.flatten(x)`",
            ),
        },
    ),
    "channels last that are none": (
        Symbol(
            [("FullyConnected", "fc", ["data", "fc_weight", "fc_bias"], {"num_hidden": "3", "flatten": "1"})],
            "2x3x4x4",
            {"fc_weight": (3, 48), "fc_bias": (3,)},
        ),
        {
            "mindspore": Port(
                "self.fc(x.permute(0, 2, 3, 1).reshape(x.shape[0], -1))",
                "self.fc(x.reshape(x.shape[0], -1))",
                "no `x.permute`",
                "self.fc = nn.Dense(48, 3)",
            )
        },
    ),
    "the smallest variance": (
        Symbol(
            [
                (
                    "BatchNorm",
                    "bn",
                    ["data", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"],
                    {"eps": "1e-3"},
                )
            ],
            "2x3x4x4",
            dict.fromkeys(STATISTICS, (3,)),
        ),
        {
            "torch": Port(
                "self.bn(x)",
                "self.bn(x)",
                "eps=0.001",
                "self.bn = nn.BatchNorm2d(3)",
                "self.bn = nn.BatchNorm2d(3, 1e-3)",
            ),
            "mindspore": Port(
                "self.bn(x)",
                "self.bn(x)",
                "eps=0.001",
                "self.bn = nn.BatchNorm2d(3)",
                "self.bn = nn.BatchNorm2d(3, 1e-3)",
            ),
        },
    ),
    "slope": (
        Symbol([("LeakyReLU", "act", ["data"], {"act_type": "leaky"})], "2x3x4x4"),
        {
            "torch": Port(
                "self.a(x)",
                "self.a(x)",
                "negative_slope=0.25",
                "self.a = nn.LeakyReLU()",
                "self.a = nn.LeakyReLU(0.25)",
            ),
            "mindspore": Port("ops.leaky_relu(x, 0.1)", "ops.leaky_relu(x, 0.25)", "alpha=0.25"),
        },
    ),
    "axis of softmax": (
        Onnx(_one("Softmax", axis=1), SQUARE),
        {
            "torch": Port("F.softmax(x, -1)", "F.softmax(x, 1)", "dim=1"),
            "mindspore": Port("ops.softmax(x)", "ops.softmax(x, 1)", "axis=1"),
        },
    ),
    "responses of neighbours": (
        Symbol([("LRN", "n", ["data"], RESPONSES)], "2x7x4x4"),
        {
            "torch": Port(
                "F.local_response_norm(x, 5, 0.1, 0.75)", "F.local_response_norm(x, 5, 0.1, 0.75, 2)", "k=2.0"
            ),
            "mindspore": Port(
                "ops.lrn(x, 2, 2.0, 0.1, 0.75)", "ops.lrn(x, 2, 2.0, 0.02, 0.75)", "alpha=0.02"
            ),
        },
    ),
    "corners of a resize": (
        Onnx(
            [
                (
                    "Resize",
                    ["x", "", "", "s"],
                    ["y"],
                    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
                )
            ],
            (2, 3, 4, 5),
            RESIZED,
        ),
        {
            "torch": Port(
                "F.interpolate(x, size=(7, 9), mode='bilinear')",
                "F.interpolate(x, size=(7, 9), mode='bilinear', align_corners=True)",
                "align_corners=True",
            ),
            "mindspore": Port(
                "ops.interpolate(x, size=(7, 9), mode='bilinear')",
                "ops.interpolate(x, size=(7, 9), mode='bilinear', align_corners=True)",
                "align_corners=True",
            ),
        },
    ),
    "kind of padding": (
        Onnx(
            [("Pad", ["x", "p"], ["y"], {"mode": "reflect"})],
            SQUARE,
            {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])},
        ),
        {
            "torch": Port("F.pad(x, (1, 1, 1, 1))", "F.pad(x, (1, 1, 1, 1), 'reflect')", 'mode="reflect"'),
            "mindspore": Port(
                "ops.pad(x, (1, 1, 1, 1))", "ops.pad(x, (1, 1, 1, 1), 'reflect')", 'mode="reflect"'
            ),
        },
    ),
    "form of gelu": (
        Onnx(_one("Gelu", approximate="tanh"), (2, 6), opset=20),
        {
            "torch": Port("F.gelu(x)", "F.gelu(x, approximate='tanh')", 'approximate="tanh"'),
            "mindspore": Port("ops.gelu(x)", "ops.gelu(x, approximate='tanh')", 'approximate="tanh"'),
        },
    ),
    "axes of a mean": (
        Onnx(_one("ReduceMean", axes=[2, 3], keepdims=0), (2, 3, 4, 5)),
        {
            "torch": Port("x.mean((1, 2))", "x.mean((2, 3))", "dim=(2, 3)"),
            "mindspore": Port("x.mean((1, 2))", "x.mean((2, 3))", "axis=(2, 3)"),
        },
    ),
    "axis of a concatenation": (
        Symbol(
            [
                ("_mul_scalar", "d", ["data"], {"scalar": "2"}),
                ("Concat", "c", ["data", "d"], {"dim": "2", "num_args": "2"}),
            ],
            "2x4x4",
        ),
        {
            "torch": Port("torch.cat([x, x * 2], 1)", "torch.cat([x, x * 2], 2)", "dim=2"),
            "mindspore": Port("ops.cat((x, x * 2), 1)", "ops.cat((x, x * 2), 2)", "axis=2"),
        },
    ),
    "both bounds": (
        Onnx(
            [("Clip", ["x", "l", "h"], ["y"], {})],
            (2, 6),
            {"l": np.array(-0.5, "f4"), "h": np.array(0.75, "f4")},
        ),
        {
            "torch": Port("x.clamp(-0.75, 0.75)", "x.clamp(-0.5, 0.75)", "min=-0.5"),
            "mindspore": Port("ops.clamp(x, -0.5, 0.5)", "ops.clamp(x, -0.5, 0.75)", "max=0.75"),
        },
    ),
    "the smallest in place of the largest": (
        Onnx([("TopK", ["x", "k"], ["y", "i"], {"largest": 0})], (3, 6), {"k": np.array([2])}),
        {
            "torch": Port("x.topk(2)[0]", "x.topk(2, largest=False)[0]", "largest=False"),
            "mindspore": Port("ops.topk(x, 2)[0]", "ops.topk(x, 2, largest=False)[0]", "largest=False"),
        },
    ),
    "the last of several maxima": (
        Onnx(
            [
                ("Floor", ["x"], ["f"], {}),
                ("ArgMax", ["f"], ["i"], {"axis": 1, "keepdims": 0, "select_last_index": 1}),
                ("Cast", ["i"], ["y"], {"to": TensorProto.FLOAT}),
            ],
            (8, 12),
        ),
        {
            "torch": Port(
                "x.floor().argmax(1).float()",
                "(11 - x.floor().flip(1).argmax(1)).float()",
                "11 - torch.argmax(torch.flip(x.floor(), (1,)), dim=1, keepdim=False)",
            )
        },
    ),
    "what a resize is between": (
        Symbol(
            [("UpSampling", "u", ["data"], NEAREST)],
            "2x3x4x4",
        ),
        {
            "torch": Port(
                "F.interpolate(x, scale_factor=2, mode='bilinear')",
                "F.interpolate(x, scale_factor=2)",
                'mode="nearest"',
            )
        },
    ),
    "order of gates": (
        Onnx(GATES, (3, 4), {"w.weight": (20, 4), "w.bias": (20,)}, opset=13),
        {
            "torch": Port(
                "i, o, c, f = self.w(x).chunk(4, 1); " + GATED.format("torch", "tanh"),
                "i, f, c, o = self.w(x).chunk(4, 1); " + GATED.format("torch", "tanh"),
                "`torch.sigmoid(f)` in place of `torch.sigmoid(o)`",
                "self.w = nn.Linear(4, 20)",
            ),
            "mindspore": Port(
                "i, f, c, o = ops.chunk(self.w(x), 4, 1); " + GATED.format("ops", "sigmoid"),
                "i, f, c, o = ops.chunk(self.w(x), 4, 1); " + GATED.format("ops", "tanh"),
                "`ops.tanh` in place of `ops.sigmoid`",
                "self.w = nn.Dense(4, 20)",
            ),
        },
    ),
    "another slope of hard sigmoid": (
        Onnx(_one("HardSigmoid", alpha=0.2), (2, 6)),
        {
            "torch": Port(
                "F.hardsigmoid(x)",
                "(x * 0.2 + 0.5).clamp(0, 1)",
                "`torch.clamp(x * 0.2 + 0.5, min=0, max=1)` in place of `F.hardsigmoid(x)`",
            ),
            "mindspore": Port(
                "ops.hardsigmoid(x)",
                "ops.clamp(x * 0.2 + 0.5, 0, 1)",
                "x * 0.2 + 0.5, min=0, max=1)` in place of `ops.hardsigmoid(x)`",
            ),
        },
    ),
    "a sum without its own element": (
        Onnx([("CumSum", ["x", "a"], ["y"], {"exclusive": 1})], (2, 5), {"a": np.array(1)}),
        {
            "torch": Port("x.cumsum(1)", "x.cumsum(1) - x", "- x` in place of `x.cumsum(1)`"),
            "mindspore": Port("x.cumsum(1)", "x.cumsum(1) - x", "- x` in place of `x.cumsum(1)`"),
        },
    ),
    "order of the blocks of channels": (
        Onnx(_one("DepthToSpace", blocksize=2), (2, 8, 3, 3)),
        {
            "torch": Port(
                "F.pixel_shuffle(x, 2)",
                "x.reshape(2, 2, 2, 2, 3, 3).permute(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 6)",
                ".permute(0, 3, 4, 1, 5, 2)",
            )
        },
    ),
    "what lies outside of the grid": (
        Onnx(
            [("GridSample", ["x", "g"], ["y"], {"padding_mode": "border", "align_corners": 1})],
            (2, 3, 4, 5),
            opset=16,
            further={"g": (2, 3, 3, 2)},
        ),
        {
            "torch": Port(
                "F.grid_sample(x, g, align_corners=True)",
                "F.grid_sample(x, g, padding_mode='border', align_corners=True)",
                'padding_mode="border"',
            ),
            "mindspore": Port(
                "ops.grid_sample(x, g, padding_mode='border')",
                "ops.grid_sample(x, g, padding_mode='border', align_corners=True)",
                "align_corners=True",
            ),
        },
    ),
    "a temperature that is missing": (
        Symbol([("softmax", "s", ["data"], {"axis": "1", "temperature": "2.0"})], "2x5"),
        {
            "torch": Port("torch.softmax(x, 1)", "torch.softmax(x / 2, 1)", "x / 2.0 before `torch.softmax`"),
            "mindspore": Port("ops.softmax(x, 1)", "ops.softmax(x / 2, 1)", "x / 2.0 before `ops.softmax`"),
        },
    ),
    "a share that is kept in training only": (
        Symbol(
            [
                ("FullyConnected", "fc", ["data", "fc_weight", "fc_bias"], {"num_hidden": "4"}),
                ("Dropout", "d", ["fc"], {"p": "0.5"}),
                ("Activation", "a", ["d"], {"act_type": "tanh"}),
            ],
            "2x6",
            {"fc_weight": (4, 6), "fc_bias": (4,)},
        ),
        {
            "torch": Port(
                "torch.tanh(self.fc(x) * 0.5)",
                "torch.tanh(self.fc(x))",
                "`self.fc(x)` in place of `self.fc(x) * 0.5`",
                "self.fc = nn.Linear(6, 4)",
            )
        },
    ),
    "a part of another place": (
        Symbol([("slice_axis", "s", ["data"], {"axis": "1", "begin": "1", "end": "3"})], "2x5x2"),
        {
            "torch": Port("x[:, 0:2]", "x[:, 1:3]", "[:, 1:3]"),
            "mindspore": Port("x[:, 0:2]", "x[:, 1:3]", "[:, 1:3]"),
        },
    ),
    "the axis of indices": (
        Onnx([("Gather", ["x", "i"], ["y"], {"axis": 2})], (2, 4, 4), {"i": np.array([2, 0])}),
        {
            "torch": Port("torch.index_select(x, 1, torch.tensor([2, 0]))", "x[:, :, [2, 0]]", "dim=2"),
            "mindspore": Port(
                "ops.gather(x, ms.Tensor([2, 0]), 1)", "ops.gather(x, ms.Tensor([2, 0]), 2)", "axis=2"
            ),
        },
    ),
}
PAIRS = [(row, framework) for row, (_, ports) in ROWS.items() for framework in ports]


def _net(name: str, framework: str, layers: str, body: str, more: str) -> str:
    """The source code of a port's class."""
    before, _, result = body.rpartition("; ")
    base, method = ("nn.Module", "forward") if framework == "torch" else ("nn.Cell", "construct")
    return CLASS.format(
        name=name,
        base=base,
        method=method,
        layers=f"        {layers}\n" if layers else "",
        more=more,
        before=before or "pass",
        result=result,
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ports")
    texts = dict(HEADS)
    for at, (row, framework) in enumerate(PAIRS):
        source, ports = ROWS[row]
        port = ports[framework]
        more = "".join(f", {name}" for name in (source.further if isinstance(source, Onnx) else ()))
        texts[framework] += _net(f"Wrong{at}", framework, port.layers, port.wrong, more)
        texts[framework] += _net(f"Right{at}", framework, port.right_layers or port.layers, port.right, more)
    paths = {framework: folder / f"{framework}_ports.py" for framework in texts}
    for framework, path in paths.items():
        path.write_text(texts[framework])
    return paths


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_a_difference_from_a_file_is_named_with_what_to_write(
    pair: tuple[str, str], files: dict[str, Path], tmp_path: Path
) -> None:
    source, ports = ROWS[pair[0]]
    port, path, at = ports[pair[1]], files[pair[1]], PAIRS.index(pair)
    report = regraft.verify(source.load(tmp_path), f"{path}:Wrong{at}")
    assert report.verdict == "different"
    assert report.nets is not None
    rows = [row for row in report.nets.settings if not row.training]
    assert len(rows) == 1, report.render(brief=True)
    assert port.write in rows[0].write
    lines = path.read_text().split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(f"class Wrong{at}("))
    wanted = port.layers if port.right_layers else port.wrong.rpartition("; ")[2]
    line = next(i for i, text in enumerate(lines) if i > start and wanted in text)
    assert rows[0].place == f"{path.name}:{line + 1}"


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_the_right_port_of_a_file_is_equal_and_nothing_is_named(
    pair: tuple[str, str], files: dict[str, Path], tmp_path: Path
) -> None:
    source, at = ROWS[pair[0]][0], PAIRS.index(pair)
    report = regraft.verify(source.load(tmp_path), f"{files[pair[1]]}:Right{at}")
    assert report.verdict == "equal", report.render(brief=True)
    assert report.nets is not None
    assert not [row for row in report.nets.settings if not row.training and not row.structure]
