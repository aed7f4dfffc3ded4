"""ONNX files as exporters leave them: torch's, normalisations kept; one of channels last; a quantised one."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from models import examples_resnet, model_and_input

SIZE = 128  # of images: times of a second would say no more


def _example(name: str) -> Any:
    path = Path(__file__).resolve().parent.parent / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"regraft_benchmark_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _export(model: Any, example: Any, file: Path) -> None:
    """Export a model by TorchScript, which needs no further package, normalisations as they are."""
    import torch

    torch.manual_seed(0)
    for parameter in model.parameters():  # exporters store equal tensors once, and new layers have many
        parameter.data += 0.02 * torch.randn_like(parameter)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(),
            (example,),
            file,
            dynamo=False,
            training=torch.onnx.TrainingMode.PRESERVE,
        )


def _resnet(file: Path) -> None:
    import torch

    _export(examples_resnet().resnet18(), torch.randn(1, 3, SIZE, SIZE), file)


def _mobilenet(file: Path) -> None:
    import torch

    _export(_example("mobilenet_v2").mobilenet_v2(), torch.randn(1, 3, SIZE, SIZE), file)


def _bert(file: Path) -> None:
    _export(*model_and_input("bert_like", 1), file)


def _vit(file: Path) -> None:
    _export(*model_and_input("vit_small", 1), file)


def _lstm(file: Path) -> None:
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(1000, 128)
            self.lstm = nn.LSTM(128, 128, 2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(256, 20)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm(self.embed(ids))[0]).log_softmax(-1)

    _export(Tagger(), torch.randint(0, 1000, (1, 64)), file)


def _yolo(file: Path) -> None:
    """A detector: three scales, whose boxes are decoded with grids and anchors that the graph computes."""
    import torch
    from torch import nn

    class Unit(nn.Sequential):
        def __init__(self, inputs: int, outputs: int, size: int = 1, stride: int = 1) -> None:
            conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
            super().__init__(conv, nn.BatchNorm2d(outputs), nn.SiLU())

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(Unit(3, 16, 3, 2), Unit(16, 32, 3, 2), Unit(32, 64, 3, 2))
            self.middle, self.deep = Unit(64, 128, 3, 2), Unit(128, 256, 3, 2)
            self.up, self.join = nn.Upsample(scale_factor=2), Unit(384, 128)
            self.heads = nn.ModuleList(nn.Conv2d(width, 27, 1) for width in (64, 128, 256))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            first = self.stem(image)
            second = self.middle(first)
            third = self.deep(second)
            second = self.join(torch.cat([second, self.up(third)], 1))
            found = []
            for level, (head, x) in enumerate(zip(self.heads, (first, second, third), strict=True)):
                n, _, h, w = x.shape
                y = head(x).view(n, 3, 9, h, w).permute(0, 1, 3, 4, 2).sigmoid()
                rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
                grid = torch.stack([columns, rows], 2).view(1, 1, h, w, 2).float()
                centres = (y[..., :2] * 2 - 0.5 + grid) * 2 ** (3 + level)
                sizes = (y[..., 2:4] * 2).exp() * 2 ** (4 + level)
                found.append(torch.cat([centres, sizes, y[..., 4:]], -1).view(n, -1, 9))
            return torch.cat(found, 1)

    _export(Detector(), torch.randn(1, 3, SIZE, SIZE), file)


def _keras(file: Path) -> None:
    """Images with channels last: a Transpose before and behind every convolution, as tf2onnx begins with."""
    import onnx
    from onnx import helper, numpy_helper

    draw = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: list[Any] = []

    def weight(name: str, array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(operator: str, name: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [f"{name}:0"], name=name, **attributes))
        return f"{name}:0"

    def first(operator: str, name: str, x: str, *others: str, **attributes: Any) -> str:
        """An operator that wants channels first."""
        x = node("Transpose", f"{name}__to", x, perm=[0, 3, 1, 2])
        x = node(operator, name, x, *others, **attributes)
        return node("Transpose", f"{name}__back", x, perm=[0, 2, 3, 1])

    def unit(name: str, x: str, inputs: int, outputs: int, stride: int = 1) -> str:
        kernel = weight(f"{name}/kernel", draw.normal(0, 0.1, (outputs, inputs, 3, 3)))
        x = first(
            "Conv",
            f"{name}/Conv2D",
            x,
            kernel,
            kernel_shape=[3, 3],
            strides=[stride] * 2,
            auto_pad="SAME_UPPER",
        )
        x = node("Add", f"{name}/BiasAdd", x, weight(f"{name}/bias", draw.normal(0, 0.1, outputs)))
        laws = {"gamma": (0.5, 1.5), "beta": (-0.1, 0.1), "mean": (-0.1, 0.1), "variance": (0.5, 1.5)}
        state = [weight(f"{name}/{law}", draw.uniform(*bounds, outputs)) for law, bounds in laws.items()]
        return first("BatchNormalization", f"{name}/FusedBatchNormV3", x, *state, epsilon=1e-3)

    x = node("Relu", "net/stem/Relu", unit("net/stem", "image", 3, 32, 2))
    x = first("MaxPool", "net/pool/MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for number in range(4):
        name = f"net/block{number}"
        y = node("Relu", f"{name}a/Relu", unit(f"{name}a", x, 32, 32))
        y = node("Add", f"{name}/add", unit(f"{name}b", y, 32, 32), x)
        x = node("Relu", f"{name}/Relu", y)
    x = node("ReduceMean", "net/mean/Mean", x, axes=[1, 2], keepdims=0)
    x = node("MatMul", "net/dense/MatMul", x, weight("net/dense/kernel", draw.normal(0, 0.1, (32, 10))))
    x = node("Add", "net/dense/BiasAdd", x, weight("net/dense/bias", draw.normal(0, 0.1, 10)))
    node("Softmax", "probabilities", x, axis=-1)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info("image", onnx.TensorProto.FLOAT, [1, SIZE, SIZE, 3])],
        [info("probabilities:0", onnx.TensorProto.FLOAT, [1, 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, file)


def _qdq(file: Path) -> None:
    """A ResNet with QuantizeLinear and DequantizeLinear around its operators."""
    import logging

    import onnxruntime.quantization as quantization

    plain = file.with_name("unquantised.onnx")
    _resnet(plain)
    draw = np.random.default_rng(0)

    class Batches(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            shape, name = (1, 3, SIZE, SIZE), "input.1"
            self._left = [{name: draw.standard_normal(shape).astype(np.float32)} for _ in range(2)]

        def get_next(self) -> Any:
            return self._left.pop() if self._left else None

    logging.disable(logging.WARNING)
    try:
        quantization.quantize_static(
            plain, file, Batches(), quant_format=quantization.QuantFormat.QDQ, per_channel=True
        )
    finally:
        logging.disable(logging.NOTSET)


FILES: dict[str, Callable[[Path], None]] = {
    "resnet18": _resnet,
    "mobilenet_v2": _mobilenet,
    "bert_like": _bert,
    "vit_small": _vit,
    "lstm": _lstm,
    "yolo_like": _yolo,
    "keras_like": _keras,
    "resnet18_qdq": _qdq,
}
"""Name -> what writes the file."""
