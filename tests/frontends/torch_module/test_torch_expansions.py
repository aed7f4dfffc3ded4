"""Operators that are expanded here because torch does not decompose them, against torch itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.nn import functional as F

import regraft


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_special_functions(check):
    check(
        lambda x: [
            torch.lgamma(x),
            torch.erfc(x),
            torch.special.erfcx(x),
            torch.polygamma(2, x.abs() + 0.1),
            torch.special.i0e(x),
            torch.special.bessel_j0(x),
            torch.special.log_ndtr(x),
            torch.atan2(x, x.flip(0)),
            torch.copysign(x, x.flip(0)),
            torch.special.chebyshev_polynomial_t(x, 5),
            torch.special.hermite_polynomial_h(x, 3),
            *torch.frexp(x),
        ],
        floats(3, 4),
        atol=1e-4,
    )


def test_order_statistics_and_scans(check):
    check(
        lambda x: [
            *x.cummax(1),
            *x.cummin(2),
            x.cumprod(1),
            x.logcumsumexp(1),
            *x.kthvalue(2, 1),
            *x.median(1),
            x.median(),
            *x.mode(2),
            torch.quantile(x, 0.3, dim=1),
            torch.nanquantile(x, 0.7, dim=2, keepdim=True, interpolation="nearest"),
            torch.quantile(x, 0.7, interpolation="midpoint"),
            torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
            torch.isin(x.round(), torch.tensor([0.0, 1.0])),
            torch.histc(x, 5, -2, 2),
        ],
        floats(2, 5, 4),
        dynamic=False,
    )


@pytest.mark.parametrize(
    ("reduce", "include"), itertools.product(["sum", "prod", "mean", "amax", "amin"], [True, False])
)
def test_reductions_by_index(check, reduce, include):
    index = torch.tensor([[0, 2, 0, 1], [1, 1, 1, 0]])
    rows = torch.tensor([2, 0, 2])

    def both(x, y):
        found = x.scatter_reduce(0, index, y, reduce, include_self=include)
        if reduce == "sum":
            return found, x.index_add(1, torch.tensor([0, 2, 0, 3]), x)
        return found, x.index_reduce(0, rows, x.flip(0), reduce, include_self=include)

    check(both, floats(3, 4), floats(2, 4, seed=1), dynamic=False)


def test_reads_and_writes_by_place(check):
    places = (torch.tensor([0, 2]), torch.tensor([1, 1]))

    def both(x):
        y = x.clone()
        y[:, places[0], places[1]] = 0.5
        z = x.clone()
        z[:, :, places[0]] += 1.0
        return [y, z, x.take(places[0]), x.index_copy(2, places[0], x[:, :, :2]), x.diagonal(0, 1, 2)]

    check(both, floats(2, 3, 4))


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.AdaptiveMaxPool1d(3, return_indices=True), (2, 3, 7)),
        (lambda: nn.AdaptiveMaxPool2d((3, 2), return_indices=True), (2, 3, 7, 5)),
        (lambda: nn.AdaptiveMaxPool3d((2, 3, 2)), (2, 3, 5, 7, 3)),
        (lambda: nn.MaxPool1d(3, 2, 1, return_indices=True), (2, 3, 7)),
        (lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True, return_indices=True), (2, 3, 7, 6)),
        (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, divisor_override=2), (2, 3, 7, 6)),
        (lambda: nn.AvgPool3d(2, divisor_override=3), (2, 3, 4, 5, 4)),
    ],
)
def test_pools(check, make, shape):
    check(make(), floats(*shape))


def test_fractional_pools(check):
    samples = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(0))
    pool = nn.FractionalMaxPool2d((2, 3), output_size=(4, 3), return_indices=True, _random_samples=samples)
    check(pool, floats(2, 3, 9, 10), dynamic=False)


@pytest.mark.parametrize(
    ("reduction", "lengths"), itertools.product(["none", "mean", "sum"], [list, torch.tensor])
)
def test_ctc(check, reduction, lengths):
    loss = nn.CTCLoss(reduction=reduction, zero_infinity=True)
    labels = torch.tensor([[1, 2, 2], [3, 1, 0]])
    given = lengths([8, 6]), lengths([3, 2])
    check(lambda x: loss(x.log_softmax(2), labels, *given), floats(8, 2, 5), dynamic=False)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(check, reduction):
    target = torch.tensor([1, 0, 3])
    labels = torch.tensor([[1, -1, -1, -1], [0, 2, -1, -1], [3, -1, -1, -1]])

    def losses(x, y):
        return [
            F.gaussian_nll_loss(x, y, x.abs() + 0.1, full=True, reduction=reduction),
            F.cross_entropy(x, target, label_smoothing=0.2, ignore_index=3, reduction=reduction),
            F.multi_margin_loss(x, target, reduction=reduction),
            F.multilabel_margin_loss(x, labels, reduction=reduction),
            F.margin_ranking_loss(x, y, y.sign(), 0.3, reduction=reduction),
            F.hinge_embedding_loss(x, y.sign(), reduction=reduction),
            F.huber_loss(x, y, reduction=reduction),
            F.kl_div(x, y.softmax(1), reduction=reduction),
        ]

    check(losses, floats(3, 4), floats(3, 4, seed=1), dynamic=False)


def test_linear_algebra(check):
    def algebra(x):
        a = x @ x.mT + 2 * torch.eye(4)
        factor = torch.linalg.cholesky(a)
        b = x[..., :2]
        return [
            torch.linalg.solve(a, b),
            torch.linalg.det(a),
            torch.linalg.inv(x),
            torch.linalg.matrix_power(x, -2),
            factor,
            torch.cholesky_solve(b, factor),
            torch.linalg.solve_triangular(a, b, upper=True),
            *torch.linalg.lu_factor(a),
            torch.matrix_exp(x / 4),
            torch.cdist(x, x, 3),
        ]

    check(algebra, floats(3, 4, 4), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(check, mode):
    bag = nn.EmbeddingBag(7, 3, mode=mode, padding_idx=2)
    check(lambda i: bag(i), np.random.default_rng(0).integers(0, 7, (3, 4)))


def test_windows_and_copies(check):
    check(
        lambda x: [
            x + torch.hamming_window(4) - torch.kaiser_window(4, periodic=False, beta=8.0),
            x * torch.blackman_window(4, periodic=False) + torch.bartlett_window(4),
            x + torch.fft.fftfreq(4, 0.5) + torch.range(0, 3),
            torch.select_copy(x, 1, 2),
            torch.slice_copy(x, 1, 1, 3),
            torch.narrow_copy(x, 1, 1, 2),
            *torch.split_copy(x, 2, 1),
            torch.detach_copy(x),
        ],
        floats(2, 4),
    )


def test_a_sum_of_products_of_a_batch(check):
    check(
        lambda x, y, z: torch.addbmm(x, y, z, beta=0.5, alpha=2.0),
        floats(3, 5),
        floats(2, 3, 4),
        floats(2, 4, 5, seed=1),
        dynamic=False,
    )


@pytest.mark.parametrize("density", [False, True])
def test_histograms_of_points(check, density):
    check(
        lambda x, w: [
            *_flat(torch.histogramdd(x, [2, 3, 1], weight=w, density=density)),
            *_flat(torch.histogramdd(x, 2, range=[-1.0, 1.0] * 3, density=density)),
            torch.histogramdd(x, [torch.tensor([-1.0, 0.5, 2.0])] * 3, density=density)[0],
        ],
        floats(40, 3),
        np.abs(floats(40, seed=1)),
        dynamic=False,
    )


def _flat(found):
    return [found[0], *found[1]]


@pytest.mark.parametrize("kind", ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l"])
def test_polynomials_of_degrees_that_are_data(check, kind):
    """Also of a number at several degrees."""
    x, n = floats(2, 5), np.array([[0, 1, 2.7, 3, -1], [5, 8, 9, 4, 0]], np.float32)
    polynomial = getattr(torch.special, kind)
    check(lambda x, n: [polynomial(x, n), polynomial(0.3, n)], x, n, atol=1e-3, dynamic=False)


def test_what_scales_down_to_a_norm(check):
    ids = np.random.default_rng(0).integers(0, 7, (2, 5))
    check(lambda x: [torch.renorm(x, 2, 0, 1.0), torch.renorm(x, 1, -1, 2.0)], floats(2, 3, 4))
    check(lambda ids, table: F.embedding(ids, table, max_norm=1.0), ids, floats(7, 4))
    graph = check(nn.Embedding(7, 4, max_norm=0.5), ids)
    assert not graph.updates


def test_forms_without_a_batch(check):
    check(
        lambda x, y: [
            F.pixel_shuffle(x, 2),
            F.multi_margin_loss(y, torch.tensor(2), reduction="none"),
            F.multi_margin_loss(y, torch.tensor(2), p=2, weight=torch.arange(5.0)),
        ],
        floats(8, 3, 3),
        floats(5),
        dynamic=False,
    )
    check(nn.RReLU(0.1, 0.4), floats(2, 3))


class Masked(nn.Module):
    """A mask by rule, mapped over queries and keys of every sample, as transformers' masks are."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        nn.init.uniform_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x, blocks):
        def seen(row, query, key):
            return (key <= query) | (row[query] == row[key])

        over_keys = torch.vmap(seen, in_dims=(None, None, 0))
        over_queries = torch.vmap(over_keys, in_dims=(None, 0, None))
        places = torch.arange(x.shape[1])
        with TransformGetItemToIndex():
            mask = torch.vmap(over_queries, in_dims=(0, None, None))(blocks, places, places)
        y = self.norm(x)
        return F.scaled_dot_product_attention(y, y, y, attn_mask=mask)


def test_vmap_is_written_out(check):
    graph = check(Masked(), floats(2, 4, 3), np.array([[0, 0, 1, 1], [1, 0, 2, 0]]))
    norm = next(o for o in graph.operators() if o.op_type == "BatchNormalization")
    assert graph.modules.path(graph.modules.call(norm.call).module) == "norm"


def test_vmap_within_vmap_is_written_out(check):
    """torch.export leaves slices of its own trace behind that nothing reads."""
    weight = torch.arange(12.0).reshape(4, 3) / 12

    def rows(x):
        return torch.vmap(lambda each: torch.vmap(lambda row: weight @ row)(each.cos()))(x)

    check(rows, floats(2, 5, 3))


def test_checks_of_data_compute_nothing(check):
    def filled(x, marks, found):
        chosen = (marks == 2).unsqueeze(-1).expand_as(x)
        torch._check_tensor_all(marks >= 0)  # as transformers checks the places of images
        torch._check(x[chosen].numel() <= found.numel())
        return x.masked_scatter(chosen, found)

    marks = np.array([[2, 0, 2, 1], [0, 2, 1, 2]])
    check(filled, floats(2, 4, 3), marks, floats(2, 4, 3, seed=1))


@pytest.mark.parametrize("mark", [0, 3])
def test_masks_may_choose_nothing(check, mark):
    """As a batch of text alone does in a model of text and images."""
    norm = nn.LayerNorm(3)

    def normed(x, marks):
        chosen = marks == mark
        x = x.masked_scatter(chosen.unsqueeze(-1), norm(x[chosen]))
        y = x.clone()
        y[~chosen] += norm(x[~chosen])
        return y

    check(normed, floats(2, 4, 3), np.array([[0, 0, 0, 0], [0, 0, 0, 0]]))


def test_weight_norm(check):
    """Of a bias too, whose every element is a slice of its own."""
    layer = nn.utils.parametrizations.weight_norm
    for dim in (0, 1, None):
        check(layer(nn.Conv1d(3, 4, 2), dim=dim), floats(2, 3, 5))
    check(layer(nn.Linear(4, 5), "bias"), floats(2, 4))


def test_covariances_of_one_variable_are_a_number(check):
    check(torch.cov, floats(3, 5))
    check(lambda x: [torch.cov(x), torch.corrcoef(x)], floats(1, 5), dynamic=False)


class Renewed(nn.Module):
    """A layer that the first call constructs and gives the weights of another, as BigBird does."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), None

    def forward(self, x):
        if self.second is None:
            self.second = nn.Linear(3, 3)
            self.second.weight = self.first.weight
            self.second.bias = self.first.bias
        torch.randn_like(x)
        return self.second(x)


def test_draws_that_nothing_reads_are_dropped(check):
    graph = check(Renewed(), floats(2, 3))
    assert [o.op_type for o in graph.operators()] == ["Linear"]


def test_draws_into_a_view_that_is_read_are_refused():
    class Drawn(nn.Module):
        def forward(self, x):
            weight = torch.empty(3, 3)
            weight.view(9).uniform_(-1, 1)
            return x @ weight

    with pytest.raises(regraft.UnsupportedError, match=r"E201 .*\n.*aten.uniform_"):
        regraft.load(Drawn(), floats(2, 3))
