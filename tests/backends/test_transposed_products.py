"""Products in emitted source that transpose their operands: results and gradients are torch's."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regraft

from .test_mindspore_constructs import Function, load_emitted, mode_of

pytestmark = pytest.mark.xdist_group("mindspore")


def attend(q, k):
    return q @ k.transpose(-1, -2)


def gather(q, k):
    return q.transpose(-1, -2) @ k


def turn_both(q, k):
    return q.mT @ k.mT


FOLDED = {
    "rank 3": (attend, (2, 5, 4), (2, 6, 4), "transpose_b=True"),
    "rank 4": (attend, (2, 3, 5, 4), (2, 3, 6, 4), "transpose_b=True"),
    "rank 5": (attend, (2, 1, 3, 5, 4), (2, 1, 3, 6, 4), "transpose_b=True"),
    "first": (gather, (2, 3, 4, 5), (2, 3, 4, 6), "transpose_a=True"),
    "both": (turn_both, (2, 4, 5), (2, 6, 4), "transpose_a=True, transpose_b=True"),
}

LEFT = {
    "two readers": (lambda q, k: q @ k.mT + k.mT.sum(), (2, 5, 4), (2, 6, 4)),
    "matrices": (attend, (5, 4), (6, 4)),
    "another rank": (attend, (2, 3, 5, 4), (3, 6, 4)),
    "broadcast batch": (attend, (2, 3, 5, 4), (2, 1, 6, 4)),
}


def arrays(dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


class SumOfSquares(ms.nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def construct(self, *operands):
        return self.net(*operands).square().sum()


def write(function, folder: Path, given: list[np.ndarray]) -> str:
    graph = regraft.rewrite(regraft.load(Function(function), given)).graph
    regraft.save(graph, folder, to="mindspore")
    return (folder / "model.py").read_text()


def of_torch(function, given: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The product, and the gradients of the sum of its squares."""
    tensors = [torch.from_numpy(a).requires_grad_() for a in given]
    product = function(*tensors)
    product.square().sum().backward()
    return product.detach().numpy(), [t.grad.numpy() for t in tensors]


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["PyNative", "graph"])
@pytest.mark.parametrize("case", FOLDED)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_folded_product_and_its_gradients_are_torchs(case, dtype, mode, tmp_path):
    function, a, b, flags = FOLDED[case]
    given = arrays(dtype, a, b)
    text = write(function, tmp_path / "out", given)
    assert f"ops.BatchMatMul({flags})" in text
    assert "transpose(" not in text
    net = load_emitted(tmp_path / "out").build()
    near = {"rtol": 2e-2, "atol": 5e-2} if dtype == "float16" else {"rtol": 1e-5, "atol": 1e-5}
    want, gradients = of_torch(function, given)
    with mode_of(mode):
        tensors = [ms.Tensor(array) for array in given]
        for _ in range(2):
            got = net(*tensors)
            assert got.asnumpy().dtype == dtype
            np.testing.assert_allclose(got.asnumpy(), want, **near)
        found = ms.grad(SumOfSquares(net), grad_position=(0, 1))(*tensors)
    for gradient, expected in zip(found, gradients, strict=True):
        np.testing.assert_allclose(gradient.asnumpy(), expected, **near)


@pytest.mark.parametrize("case", LEFT)
def test_other_products_stay_as_they_are(case, tmp_path):
    function, a, b = LEFT[case]
    given = arrays("float32", a, b)
    assert "BatchMatMul" not in write(function, tmp_path / "out", given)
    net = load_emitted(tmp_path / "out").build()
    want = of_torch(function, given)[0]
    np.testing.assert_allclose(net(*map(ms.Tensor, given)).asnumpy(), want, rtol=1e-5, atol=1e-5)


def test_integers_stay_as_they_are(tmp_path):
    given = [np.arange(n, dtype=np.int32).reshape(2, -1, 4) for n in (40, 48)]
    assert "BatchMatMul" not in write(attend, tmp_path / "out", given)


def test_two_products_of_one_class_share_an_attribute(tmp_path):
    def attend_twice(q, k):
        return q @ k.mT, k @ q.mT

    given = arrays("float32", (2, 5, 4), (2, 6, 4))
    text = write(attend_twice, tmp_path / "out", given)
    assert text.count("ops.BatchMatMul(") == 1
    assert text.count("self.matmul_nt(") == 2
    net = load_emitted(tmp_path / "out").build()
    want = attend_twice(*map(torch.from_numpy, given))
    for w, g in zip(want, net(*map(ms.Tensor, given)), strict=True):
        np.testing.assert_allclose(g.asnumpy(), w.numpy(), rtol=1e-5, atol=1e-5)


ROWS = {
    "matrix": ((3, 4), (5, 4), (5,)),
    "batch": ((2, 3, 4), (5, 4), (5,)),
    "no bias": ((2, 1, 3, 4), (5, 4)),
}


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["PyNative", "graph"])
@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_product_with_a_weight_and_its_gradients_are_torchs(case, dtype, mode, tmp_path):
    given = arrays(dtype, *ROWS[case])
    text = write(F.linear, tmp_path / "out", given)
    assert "affine(" in text
    assert "ops.dense(" not in text
    net = load_emitted(tmp_path / "out").build()
    near = {"rtol": 2e-2, "atol": 0.2} if dtype == "float16" else {"rtol": 1e-5, "atol": 1e-5}
    want, gradients = of_torch(F.linear, given)
    with mode_of(mode):
        tensors = [ms.Tensor(array) for array in given]
        np.testing.assert_allclose(net(*tensors).asnumpy(), want, **near)
        found = ms.grad(SumOfSquares(net), grad_position=tuple(range(len(given))))(*tensors)
    for gradient, expected in zip(found, gradients, strict=True):
        np.testing.assert_allclose(gradient.asnumpy(), expected, **near)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["PyNative", "graph"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_no_rows_are_a_result_of_no_rows(dtype, mode, tmp_path):
    given = arrays(dtype, *ROWS["batch"])
    write(F.linear, tmp_path / "out", given)
    net = load_emitted(tmp_path / "out").build()
    with mode_of(mode):
        got = net(*map(ms.Tensor, [given[0][:0], *given[1:]]))
    assert got.shape == (0, 3, 5)


def test_float64_is_left_to_a_kernel_that_takes_no_rows(tmp_path):
    """MindSpore's product of matrices of float64 ends the process on an empty batch."""
    given = arrays("float64", *ROWS["batch"])
    assert "ops.dense(" in write(F.linear, tmp_path / "out", given)
