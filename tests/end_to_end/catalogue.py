"""The nets of this folder: what builds each, its inputs at any batch, how to run it in its own framework."""

from __future__ import annotations

import importlib.util
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]

NETS = Path(__file__).parent / "nets"


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32 numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def tokens(below: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Integers from 0 up to and without `below`, int64."""
    return np.random.default_rng([seed, below, *shape]).integers(0, below, shape)


@dataclass(frozen=True)
class Case:
    """A net and its inputs.

    Attributes:
        file: stem of the file in ``nets/``, which starts with the framework's name.
        name: class or factory in it.
        inputs: batch size -> input arrays.
        heavy: takes more than a few seconds.
        fixed_batch: why the batch cannot be symbolic; empty where it is.
    """

    file: str
    name: str
    inputs: Callable[[int], Arrays]
    heavy: bool = False
    fixed_batch: str = ""

    @property
    def framework(self) -> str:
        """ "torch" or "mindspore"."""
        return self.file.partition("_")[0]

    @property
    def label(self) -> str:
        """What pytest shows."""
        return f"{self.file}.{self.name}"

    def build(self, further: int = 0) -> Any:
        """The net in evaluation mode, with seeded weights and statistics in which no value is trivial.

        Args:
            further: above 0, other weights of the same laws.
        """
        seed = zlib.crc32(self.label.encode()) % 1000 + 1000 * further
        make = getattr(nets(self.file), self.name)
        return _torch_net(make, seed) if self.framework == "torch" else _mindspore_net(make, seed)

    def run(self, net: Any, inputs: Arrays) -> list[np.ndarray]:
        """What the net itself computes in its own framework, outputs flattened in order."""
        if self.framework == "torch":
            import torch

            with torch.no_grad():
                return flat(net(*(torch.from_numpy(x.copy()) for x in inputs)))
        import mindspore

        return flat(net(*(mindspore.Tensor(x.copy()) for x in inputs)))


def nets(stem: str) -> ModuleType:
    """Import a file of nets under a name that MindSpore's compiler finds in `sys.modules`."""
    return imported(f"end_to_end_{stem}", NETS / f"{stem}.py")


def imported(name: str, file: Path) -> ModuleType:
    """Import a file under a name, once."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def flat(result: Any) -> list[np.ndarray]:
    """The arrays of nested tuples, lists and dicts of tensors, in order."""
    return list(_flat(result))


def _flat(result: Any) -> Iterator[np.ndarray]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _flat(part)
    elif result is not None:
        yield np.array(result.asnumpy() if hasattr(result, "asnumpy") else result.detach().numpy())


def _torch_net(make: Callable[[], Any], seed: int) -> Any:
    import torch

    torch.manual_seed(seed)
    net = make()
    with torch.no_grad():
        for name, tensor in net.state_dict(keep_vars=True).items():
            if name.endswith("running_mean"):
                tensor.normal_(0, 0.1)
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
            elif tensor.requires_grad and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.rand_like(tensor) * 0.4 - 0.2)
    return net.eval()


def _mindspore_net(make: Callable[[], Any], seed: int) -> Any:
    import mindspore as ms

    ms.set_seed(seed)
    net = make()
    random = np.random.default_rng(seed)
    for path, parameter in net.parameters_and_names():
        value = parameter.asnumpy()
        if path.endswith("moving_mean"):
            value = random.normal(0, 0.1, value.shape)
        elif path.endswith("moving_variance"):
            value = random.uniform(0.5, 1.5, value.shape)
        elif (value == value.flat[0]).all():
            value = value + random.uniform(-0.2, 0.2, value.shape)
        else:
            continue
        parameter.set_data(ms.Tensor(value.astype(np.float32)))
    return net.set_train(False)


def _image(*rest: int) -> Callable[[int], Arrays]:
    return lambda n: (floats(n, *rest),)


def _text(below: int, length: int) -> Callable[[int], Arrays]:
    return lambda n: (tokens(below, n, length),)


def _pair(*rest: int) -> Callable[[int], Arrays]:
    return lambda n: (floats(n, *rest), floats(n, *rest, seed=1))


CASES = [
    Case("torch_vision", "Vgg", _image(3, 32, 32)),
    Case("torch_vision", "vgg_bn", _image(3, 32, 32)),
    Case("torch_vision", "ResNet", _image(3, 32, 32)),
    Case("torch_vision", "MobileNetV2", _image(3, 32, 32)),
    Case("torch_vision", "MobileNetV3", _image(3, 24, 24)),
    Case("torch_vision", "DenseNet", _image(3, 16, 16)),
    Case("torch_vision", "LeNet", _image(1, 32, 32)),
    Case("torch_vision", "SqueezeNet", _image(3, 30, 30)),
    Case("torch_vision", "OddConvolutions", _image(4, 14, 15)),
    Case("torch_vision", "Decoder", _image(6)),
    Case("torch_vision", "UNet", _image(3, 16, 16)),
    Case("torch_vision", "Pools", _image(3, 13, 13)),
    Case("torch_vision", "ShuffleNet", _image(3, 16, 16)),
    Case("torch_text", "VisionTransformer", _image(3, 32, 32)),
    Case("torch_text", "HandAttention", _image(9, 16)),
    Case("torch_text", "FusedAttention", _image(7, 16)),
    Case("torch_text", "TiedLanguageModel", _text(40, 12)),
    Case("torch_text", "TransformerEncoder", _text(50, 10)),
    Case("torch_text", "pre_norm_encoder", _text(50, 10)),
    Case("torch_text", "SequenceFirst", _image(5, 12)),
    Case("torch_text", "TextCnn", _text(60, 11)),
    Case("torch_text", "AudioCnn", _image(2, 48)),
    Case("torch_recurrent", "Tagger", _text(40, 6)),
    Case("torch_recurrent", "Translator", lambda n: (floats(n, 5, 6), floats(n, 4, 6, seed=1))),
    Case("torch_recurrent", "Stepwise", _image(3, 5)),
    Case("torch_odd", "Mlp", _image(3, 4, 4)),
    Case("torch_odd", "Siamese", _pair(1, 8, 8)),
    Case("torch_odd", "SharedLayers", _image(8)),
    Case("torch_odd", "TiedAutoencoder", _image(12)),
    Case("torch_odd", "Containers", _image(6)),
    Case("torch_odd", "Functional", _image(3, 8, 8)),
    Case("torch_odd", "InPlace", _image(3, 6, 6)),
    Case("torch_odd", "TwoOutputs", _image(3, 8, 8)),
    Case("torch_odd", "DictOutput", _image(3, 9, 12)),
    Case("torch_odd", "AlignedCorners", _image(3, 6, 5)),
    Case("torch_odd", "Normalisations", _image(3, 6, 6)),
    Case("torch_odd", "Activations", _image(3, 5, 5)),
    Case("torch_odd", "Buffers", _image(3, 8, 8)),
    Case("torch_odd", "OneBatched", lambda n: (floats(n, 10), floats(4, 6))),
    Case("torch_odd", "KeywordInputs", lambda n: (tokens(20, n), tokens(30, n, seed=1))),
    Case("torch_odd", "Reserved", _image(6)),
    Case("torch_odd", "Gated", _image(8)),
    Case("torch_odd", "StatefulDepth", _image(6)),
    Case("torch_odd", "Unused", _image(5)),
    Case("mindspore_vision", "ResNet", _image(3, 33, 30)),
    Case("mindspore_vision", "Vgg", _image(3, 16, 16)),
    Case("mindspore_vision", "MobileNetV2", _image(3, 24, 24)),
    Case("mindspore_vision", "DenseNet", _image(3, 12, 12)),
    Case("mindspore_vision", "LeNet5", _image(1, 32, 32)),
    Case("mindspore_vision", "Mlp", _image(4, 16)),
    Case("mindspore_vision", "SamePadding", _image(2, 13, 16)),
    Case("mindspore_vision", "Transposed", _image(4, 6, 5)),
    Case("mindspore_vision", "Activations", _image(3, 4, 4)),
    Case("mindspore_vision", "NormAxes", _image(2, 5, 6)),
    Case("mindspore_vision", "Segmentation", _image(3, 16, 16)),
    Case("mindspore_vision", "AlignedCorners", _image(2, 6, 5, 4)),
    Case("mindspore_text", "LibraryEncoder", _text(50, 7)),
    Case("mindspore_text", "LibraryLayer", _image(6, 16)),
    Case("mindspore_text", "HandEncoder", _text(40, 12)),
    Case(
        "mindspore_text",
        "MaskedEncoder",
        lambda n: (tokens(30, n, 8), (np.arange(8) < 6).astype(np.float32)[None].repeat(n, 0)),
    ),
    Case("mindspore_text", "VisionTransformer", _image(3, 32, 32)),
    Case("mindspore_text", "TiedLanguageModel", _text(32, 6)),
    Case("mindspore_text", "TiedByMatMul", _text(32, 6)),
    Case("mindspore_text", "TextCnn", _text(40, 14)),
    Case("mindspore_recurrent", "Tagger", _text(40, 6)),
    Case("mindspore_recurrent", "Translator", lambda n: (floats(n, 5, 6), floats(n, 4, 6, seed=1))),
    Case("mindspore_recurrent", "Stepwise", _image(3, 5)),
    Case("mindspore_recurrent", "Lengths", lambda n: (floats(n, 4, 5), np.array([4, 2, 3])[:n])),
    Case("mindspore_odd", "Inserted", _image(6)),
    Case("mindspore_odd", "InsertedIntoSequential", _image(6)),
    Case("mindspore_odd", "ListOfCells", _image(6)),
    Case("mindspore_odd", "CellListsInList", _image(6)),
    Case("mindspore_odd", "NoPrefix", _image(6)),
    Case("mindspore_odd", "SameExplicitName", _image(6)),
    Case("mindspore_odd", "TupleOfParameters", _image(6)),
    Case("mindspore_odd", "ReusedCell", _image(6)),
    Case("mindspore_odd", "Siamese", _pair(1, 8, 8)),
    Case("mindspore_odd", "RepeatedBlocks", _image(6)),
    Case("mindspore_odd", "Renamed", _image(6)),
    Case("mindspore_odd", "ConstantTensors", _image(3, 6, 6)),
    Case("mindspore_odd", "Arithmetic", _image(8)),
    Case(
        "mindspore_odd", "SetItem", _image(6), fixed_batch="MindSpore compiles assigned indices as constants"
    ),
]
"""Every net of the matrix."""
