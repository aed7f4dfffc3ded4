"""The default distributions of layers against what the frameworks really draw."""

from math import prod, sqrt

import numpy as np
import pytest

from regraft.frameworks.mindspore import MINDSPORE
from regraft.frameworks.torch import TORCH

CONSTANTS = {"zeros": 0.0, "ones": 1.0}


def spread(law, shape):
    """(mean, standard deviation, largest deviation) of a law on a tensor."""
    fan_in, fan_out = prod(shape[1:]), prod((*shape[:1], *shape[2:]))
    if law.law in CONSTANTS or law.law == "constant":
        value = CONSTANTS.get(law.law, law.argument("value", 0.0))
        return value, 0.0, 0.0
    if law.law == "normal":
        return law.argument("mean", 0.0), law.argument("std", 1.0), np.inf
    if law.law == "uniform":
        bound = law.argument("high", 0.0)
        assert law.argument("low", 0.0) == -bound
    elif law.law == "he_uniform":
        assert law.argument("mode", "") == "fan_in"
        bound = sqrt(6 / ((1 + law.argument("a", 0.0) ** 2) * fan_in))
    elif law.law == "xavier_normal":
        return 0.0, law.argument("gain", 1.0) * sqrt(2 / (fan_in + fan_out)), np.inf
    else:
        assert law.law == "xavier_uniform", law
        bound = law.argument("gain", 1.0) * sqrt(6 / (fan_in + fan_out))
    return 0.0, bound / sqrt(3), bound


def check(framework, class_name, parameters):
    """Compare every tensor of a layer with the law that the record gives it."""
    for role, array in parameters.items():
        weight = parameters.get("weight", array)
        law = framework.default_law(class_name, role, array.shape, weight.shape)
        assert law is not None, (class_name, role)
        mean, deviation, largest = spread(law, array.shape)
        message = f"{class_name}.{role}: {law}"
        tolerance = 6 * deviation / sqrt(array.size)
        assert abs(array.mean() - mean) <= tolerance + 1e-6, message
        assert abs(array.std() - deviation) <= tolerance + 1e-6, message
        assert np.abs(array - mean).max() <= largest * (1 + 1e-5) + 1e-6, message
        if deviation and array.size > 1000 and largest != np.inf:
            assert np.abs(array).max() > 0.98 * largest, message


TORCHS = {
    "Conv1d": (64, 32, 5),
    "Conv2d": (64, 32, 3),
    "Conv3d": (16, 8, 3),
    "ConvTranspose2d": (64, 32, 3),
    "Linear": (300, 200),
    "Bilinear": (30, 20, 10),
    "Embedding": (100, 64),
    "BatchNorm2d": (64,),
    "GroupNorm": (4, 64),
    "LayerNorm": (64,),
    "PReLU": (1,),
    "LSTM": (64, 100),
    "GRU": (64, 100),
    "RNN": (64, 100),
    "LSTMCell": (64, 100),
    "LSTM projected": (64, 100),
}


@pytest.mark.parametrize("class_name", TORCHS)
def test_torchs_layers(class_name):
    import torch

    torch.manual_seed(0)
    class_name, _, projected = class_name.partition(" ")
    layer = getattr(torch.nn, class_name)(*TORCHS[class_name], **({"proj_size": 50} if projected else {}))
    arrays = {name: t.detach().numpy().astype(np.float64) for name, t in layer.state_dict().items()}
    check(TORCH, class_name, arrays)


def test_torchs_attention():
    import torch

    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(64, 4, add_bias_kv=True)
    own = {name: t.detach().numpy() for name, t in layer.named_parameters(recurse=False)}
    inner = {name: t.detach().numpy() for name, t in layer.out_proj.named_parameters()}
    check(TORCH, "MultiheadAttention", own)
    check(TORCH, type(layer.out_proj).__name__, inner)


MINDSPORES = {
    "Conv1d": (32, 64, 5),
    "Conv2d": (32, 64, 3),
    "Conv2dTranspose": (32, 64, 3),
    "Dense": (200, 300),
    "Embedding": (100, 64),
    "BatchNorm2d": (64,),
    "GroupNorm": (4, 64),
    "LayerNorm": ((64,),),
    "PReLU": (1,),
    "LSTM": (64, 100),
    "MultiheadAttention": (64, 4),
}


@pytest.mark.parametrize("class_name", MINDSPORES)
def test_mindspores_layers(class_name):
    import mindspore as ms

    ms.set_seed(0)
    more = {"has_bias": True} if class_name.startswith("Conv") else {}
    layer = getattr(ms.nn, class_name)(*MINDSPORES[class_name], **more)
    arrays = {
        name: p.asnumpy().astype(np.float64)
        for name, p in layer.parameters_and_names()
        if not name.startswith("out_proj.")
    }
    check(MINDSPORE, class_name, arrays)


def test_what_has_no_row_has_no_law():
    assert TORCH.default_law("MyLayer", "weight", (3, 4)) is None
    assert TORCH.default_law("Linear", "mask", (3, 4)) is None
