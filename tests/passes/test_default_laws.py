"""The tables of default distributions against what the frameworks really draw."""

from math import prod, sqrt

import numpy as np
import pytest

from regraft.passes.default_laws import default_law, rows_of

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
    else:
        assert law.law == "xavier_uniform", law
        bound = law.argument("gain", 1.0) * sqrt(6 / (fan_in + fan_out))
    return 0.0, bound / sqrt(3), bound


def check(rows, class_name, parameters):
    """Compare every tensor of a layer with the law that the table gives it."""
    for role, array in parameters.items():
        told_by = parameters.get("weight", array) if role == "bias" else array
        law = default_law(rows, class_name, role, told_by.shape)
        assert law is not None, (class_name, role)
        mean, deviation, largest = spread(law, array.shape)
        message = f"{class_name}.{role}: {law}"
        tolerance = 6 * deviation / sqrt(array.size)
        assert abs(array.mean() - mean) <= tolerance + 1e-6, message
        assert abs(array.std() - deviation) <= tolerance + 1e-6, message
        assert np.abs(array - mean).max() <= largest * (1 + 1e-5) + 1e-6, message
        if deviation and array.size > 1000 and largest != np.inf:
            assert np.abs(array).max() > 0.98 * largest, message


TORCH = {
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
}


@pytest.mark.parametrize("class_name", TORCH)
def test_torchs_layers(class_name):
    import torch

    torch.manual_seed(0)
    layer = getattr(torch.nn, class_name)(*TORCH[class_name])
    arrays = {name: t.detach().numpy().astype(np.float64) for name, t in layer.state_dict().items()}
    check(rows_of("torch", mindspore="2.1", mxnet="gluon"), class_name, arrays)


def test_torchs_attention():
    import torch

    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(64, 4)
    rows = rows_of("torch", mindspore="2.1", mxnet="gluon")
    own = {name: t.detach().numpy() for name, t in layer.named_parameters(recurse=False)}
    inner = {name: t.detach().numpy() for name, t in layer.out_proj.named_parameters()}
    check(rows, "MultiheadAttention", own)
    check(rows, type(layer.out_proj).__name__, inner)


MINDSPORE = {
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
}


@pytest.mark.parametrize("class_name", MINDSPORE)
def test_mindspores_layers(class_name):
    import mindspore as ms

    ms.set_seed(0)
    more = {"has_bias": True} if class_name.startswith("Conv") else {}
    layer = getattr(ms.nn, class_name)(*MINDSPORE[class_name], **more)
    arrays = {name: p.asnumpy().astype(np.float64) for name, p in layer.parameters_and_names()}
    check(rows_of("mindspore", mindspore="2.1", mxnet="gluon"), class_name, arrays)


def test_what_has_no_row_has_no_law():
    rows = rows_of("torch", mindspore="2.1", mxnet="gluon")
    assert default_law(rows, "MyLayer", "weight", (3, 4)) is None
    assert default_law(rows, "Linear", "mask", (3, 4)) is None
    assert rows_of("", mindspore="2.1", mxnet="gluon") == {}
