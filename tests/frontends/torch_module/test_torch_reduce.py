"""Reductions, scans, sorting and matrix products."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.torch_version import TorchVersion

import regraft

from .comparison import Function


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_reductions(check):
    check(
        lambda x: [
            x.mean(),
            x.mean(1),
            x.mean((2, 3), keepdim=True),
            x.sum(),
            x.sum(-1),
            x.sum((1, 2)),
            x.prod(1),
            x.amax(1),
            x.amin((1, 2), keepdim=True),
            x.max(),
            x.min(),
            x.logsumexp(1),
            x.norm(dim=1),
            torch.linalg.vector_norm(x, 1, dim=(1, 2)),
            torch.linalg.vector_norm(x, 3, dim=1, keepdim=True),
            torch.linalg.vector_norm(x, float("inf"), dim=1),
            x.var(1),
            x.var((1, 2), unbiased=False, keepdim=True),
            x.std(-1),
            *torch.var_mean(x, 1),
            *torch.var_mean(x, 1, keepdim=True),
            x.cumsum(1),
            x.argmax(1),
            x.argmin(1, keepdim=True),
            (x > 0).any(1),
            (x > 0).all(),
            (x > 0).sum(1),
            (x > 0).prod(1, keepdim=True, dtype=torch.bool),
            x.sum((1, 2), dtype=torch.bool),
            x.double().mean(1),
            F.normalize(x, dim=1),
        ],
        floats(2, 3, 4, 5),
    )


def test_a_single_number_along_its_axis(check):
    zero, one = torch.tensor(0), torch.tensor([0])
    check(
        lambda x, y: [
            x.cumsum(0),
            x.softmax(0),
            x.logsumexp(0),
            x.amax(0),
            *x.max(0),
            *x.sort(-1),
            x.flip(0),
            x.roll(1),
            x.norm(3),
            x.gather(0, zero),
            x.index_select(0, one),
            x.index_select(0, zero),
            x.scatter(0, zero, y),
            x.scatter_add(0, zero, y),
            x.unsqueeze(-1),
            x.squeeze(0),
        ],
        floats(),
        floats(),
        dynamic=False,
    )


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_reductions_of_nothing(check):
    check(
        lambda x: [
            *(x.sum(1), x.mean(1), x.mean(), x.prod(1), x.var(1), *torch.var_mean(x, 1), x.norm(2, 1)),
            *(
                (x > 0).any(1),
                (x > 0).all(1),
                (x > 0).all(),
                x.sum(1, keepdim=True),
                x.sum(dtype=torch.int64),
            ),
        ],
        floats(2, 0, 3),
    )


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, float("inf"), -float("inf")])
def test_the_older_norm(check, order):
    check(lambda x: [torch.ops.aten.norm.Scalar(x, order), x.norm(order, 1)], floats(2, 3, 4))


def test_extremes_with_indices(check):
    check(
        lambda x: [*x.max(1), *x.min(-1, keepdim=True), *x.topk(2, 1), *x.sort(1), *x.sort(1, True)],
        floats(2, 5, 4),
    )


def test_counts_of_numbers(tmp_path):
    def function(x, weights):
        counts = torch.bincount(x % 4 + 4 * (x % 3), minlength=16)  # a matrix of confusion
        weighted = torch.bincount(x, weights if is_typed else None)
        return torch.bincount(x), weighted, counts.reshape(4, 4) / 2

    is_typed = TorchVersion(torch.__version__) >= "2.13"
    if not is_typed:
        with pytest.raises(regraft.UnsupportedError, match=r"before 2\.13"):
            regraft.load(Function(torch.bincount), (torch.tensor([1, 4]), torch.rand(2)))
    x, weights = torch.tensor([1, 4, 2, 2, 0]), torch.rand(5)
    graph = regraft.load(Function(function), (x, weights))
    for target in ("onnx", "mindspore"):
        out = tmp_path / ("net.onnx" if target == "onnx" else "net")
        regraft.save(regraft.rewrite(graph).graph, out, to=target)
        report = regraft.verify(graph, out)
        assert report.passed, report.render()


def test_products(check):
    check(
        lambda x, y: [
            x @ y,
            torch.bmm(x, y),
            torch.einsum("b i j, b j k -> b i k", x, y),
            x @ y[0],
            F.linear(x, y[0].mT),
            F.linear(x, y[0].mT, y[0, 0, 0] + torch.zeros(5)),
            torch.addmm(x[0, :, :1], x[0], y[0][:, :1], beta=0.5, alpha=2),
            torch.baddbmm(x[:, :, :1], x, y),
            x[0] @ y[0, :, 0],
        ],
        floats(2, 3, 4),
        floats(2, 4, 5),
    )


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4, 5), (5, 6)]),
        ("...i,...i->...", [(2, 3, 4), (3, 4)]),
        ("...i,...j", [(2, 3, 4), (5,)]),
        ("b...i,...ij->b...j", [(2, 3, 4), (1, 4, 5)]),
        ("...a,...a->...", [(2, 1, 4), (2, 3, 4)]),
    ],
)
def test_ellipses_of_different_ranks_and_sizes(check, equation, shapes):
    check(partial(torch.einsum, equation), *(floats(*shape) for shape in shapes))


def test_einsum_of_two_element_types(check):
    whole = np.arange(8).reshape(2, 4)
    check(lambda n, x: torch.einsum("bi,j->bij", n, x[0]), whole, floats(2, 3))
    check(lambda n, x: torch.einsum("bi,j->bij", n > 3, x[0]), whole, floats(2, 3))
    check(lambda n: torch.einsum("bi,j->bij", n > 3, n[0] > 1), whole)
    check(lambda n: torch.einsum("bi,bj->bij", n, n), whole.astype(np.uint8))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4), (2, 3, 5, 4)])
def test_linear(check, bias, shape):
    graph = check(nn.Linear(4, 6, bias=bias), floats(*shape))
    assert [o.qualified_name for o in graph.operators()] == ["regraft.Linear"]


def test_bilinear(check):
    check(nn.Bilinear(4, 5, 3), floats(2, 4), floats(2, 5))


@pytest.mark.parametrize("operators", ["cosine", "cross", "losses", "folded"])
def test_operators_that_pytorch_decomposes(check, operators):
    functions = {
        "cosine": lambda x: F.cosine_similarity(x, x * 2 + 1, dim=1),
        "cross": lambda x: [
            torch.linalg.cross(x[:, :, :3], x[:, :, 1:] + 1),
            torch.logaddexp(x, x * 2),
            torch.sinc(x),
        ],
        "losses": lambda x: [F.mse_loss(x, x * 2), F.huber_loss(x, x + 2), F.smooth_l1_loss(x, x * 2)],
        "folded": lambda x: F.unfold(x[:, None], (2, 2)),
    }
    check(functions[operators], floats(2, 3, 4))


def test_an_operator_decomposed_twice_keeps_its_outputs_apart(check):
    check(
        lambda x: [torch.diagonal(x, dim1=1, dim2=2), torch.trace(x[0]), torch.dist(x, x + 1)],
        floats(2, 3, 4),
    )
