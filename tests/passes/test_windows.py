"""Explicit pads against others' reading of SAME and VALID, on random windows.

The oracle of convolutions is the ONNX reference evaluator, since ONNX Runtime refuses dilation there. Where
the stride exceeds the window, neither is one: the evaluator and ONNX Runtime pad pools and transposed
convolutions by negative amounts, each in its own way. There it is MindSpore, whose rule it is.
"""

import doctest

import numpy as np
import pytest

from regraft.ir import Builder, Graph
from regraft.passes import NormaliseConvPadding, windows

from .oracle import evaluate, input_like, parameter, run_onnxruntime

MODES = ("SAME_UPPER", "SAME_LOWER", "VALID")


def drawn(seed, *, overlapping=False):
    """(random, sizes, kernel, strides, dilations): awkward ones, windows that fit the input."""
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 3))
    kernel = random.integers(1, 5, rank)
    dilations = random.integers(1, 4, rank)
    strides = random.integers(1, 4, rank)
    if overlapping:
        strides = np.minimum(strides, dilations * (kernel - 1) + 1)
    sizes = dilations * (kernel - 1) + random.integers(1, 6, rank)
    return random, *(v.tolist() for v in (sizes, kernel, strides, dilations))


def before_and_after(graph, *arrays, run=evaluate):
    """The oracle's outputs before and after the pass, which must have removed every rule."""
    expected = run(graph, *arrays)
    assert any(change.code == "CP101" for change in NormaliseConvPadding().run(graph))
    assert not any("auto_pad" in node.attributes for node in graph.operators())
    return expected, run(graph, *arrays)


@pytest.mark.parametrize("mode", MODES)
def test_convolutions(mode):
    for seed in range(100):
        random, sizes, kernel, strides, dilations = drawn(seed)
        group = int(random.integers(1, 3))
        x = random.standard_normal((2, 2 * group, *sizes)).astype(np.float32)
        weight = random.standard_normal((2 * group, 2, *kernel)).astype(np.float32)
        b = Builder(Graph())
        y = b.op(
            "Conv",
            input_like(b.graph, "x", x),
            parameter(b.graph, "w", weight),
            auto_pad=mode,
            strides=strides,
            dilations=dilations,
            group=group,
        )
        b.graph.outputs.append(("y", y))
        (expected,), (found,) = before_and_after(b.graph, x)
        assert expected.shape == found.shape, (seed, b.graph)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=str(seed))
        if mode != "VALID":
            assert found.shape[2:] == tuple(-(-h // s) for h, s in zip(sizes, strides, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_pools(op_type, mode):
    for seed in range(60):
        random, sizes, kernel, strides, _ = drawn(seed)
        strides = [min(s, k) for s, k in zip(strides, kernel, strict=True)]  # no dilation
        x = (random.standard_normal((1, 2, *sizes)) - 3).astype(np.float32)  # below 0: a padded 0 would show
        b = Builder(Graph())
        y = b.op(op_type, input_like(b.graph, "x", x), auto_pad=mode, kernel_shape=kernel, strides=strides)
        b.graph.outputs.append(("y", y))
        (expected,), (found,) = before_and_after(b.graph, x, run=run_onnxruntime)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{seed} {b.graph}")


@pytest.mark.parametrize("mode", MODES)
def test_transposed_convolutions(mode):
    for seed in range(60):
        random, sizes, kernel, strides, dilations = drawn(seed, overlapping=True)
        x = random.standard_normal((1, 2, *sizes)).astype(np.float32)
        weight = random.standard_normal((2, 3, *kernel)).astype(np.float32)
        b = Builder(Graph())
        y = b.op(
            "ConvTranspose",
            input_like(b.graph, "x", x),
            parameter(b.graph, "w", weight),
            auto_pad=mode,
            strides=strides,
            dilations=dilations,
        )
        b.graph.outputs.append(("y", y))
        (expected,), (found,) = before_and_after(b.graph, x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=f"{seed} {b.graph}")


def test_the_arithmetic_of_its_own():
    assert doctest.testmod(windows).failed == 0


@pytest.mark.parametrize(("size", "kernel", "stride"), [(3, 1, 3), (8, 2, 3), (7, 2, 4), (9, 3, 2)])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_pools_whose_stride_may_exceed_the_window_are_mindspores(op_type, size, kernel, stride):
    import mindspore as ms

    x = np.random.default_rng(0).standard_normal((1, 2, size, size)).astype(np.float32) - 3
    net = {"MaxPool": ms.nn.MaxPool2d, "AveragePool": ms.nn.AvgPool2d}[op_type](
        kernel, stride, pad_mode="same"
    )
    b = Builder(Graph())
    shape = [kernel, kernel]
    value = input_like(b.graph, "x", x)
    y = b.op(op_type, value, auto_pad="SAME_UPPER", kernel_shape=shape, strides=[stride, stride])
    b.graph.outputs.append(("y", y))
    NormaliseConvPadding().run(b.graph)
    (found,) = evaluate(b.graph, x)
    np.testing.assert_allclose(found, net(ms.Tensor(x)).asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("size", "kernel", "stride"), [(3, 2, 3), (4, 1, 2), (5, 3, 2), (4, 4, 2)])
def test_transposed_convolutions_whose_stride_may_exceed_the_window_are_mindspores(size, kernel, stride):
    import mindspore as ms

    random = np.random.default_rng(0)
    x = random.standard_normal((1, 2, size, size)).astype(np.float32)
    weight = random.standard_normal((2, 3, kernel, kernel)).astype(np.float32)
    net = ms.nn.Conv2dTranspose(2, 3, kernel, stride, pad_mode="same", weight_init=ms.Tensor(weight))
    b = Builder(Graph())
    w = parameter(b.graph, "w", weight)
    y = b.op("ConvTranspose", input_like(b.graph, "x", x), w, auto_pad="SAME_UPPER", strides=[stride, stride])
    b.graph.outputs.append(("y", y))
    NormaliseConvPadding().run(b.graph)
    (found,) = evaluate(b.graph, x)
    np.testing.assert_allclose(found, net(ms.Tensor(x)).asnumpy(), rtol=1e-4, atol=1e-4)
