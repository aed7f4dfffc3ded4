"""Right ports that were once called wrong, and beside each the mistake that must still be told."""

from pathlib import Path

import mindspore as ms
import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from torch import nn as tnn

import regraft

nn, ops = ms.nn, ms.ops

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 9, 9)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((3, 32)).astype(np.float32)


def verified(source: tnn.Module, target: object, inputs: np.ndarray, **options: object) -> regraft.Report:
    torch.manual_seed(0)
    return regraft.verify(source, target, (torch.from_numpy(inputs),), **options)


class Pooled(tnn.Module):
    def __init__(self, padding: int) -> None:
        super().__init__()
        self.conv = tnn.Conv2d(3, 4, 3, padding=1)
        self.pool = tnn.AvgPool2d(3, 2, padding=padding)

    def forward(self, x):
        return self.pool(self.conv(x))


class PooledPort(nn.Cell):
    def __init__(self, padding: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=True)
        where = {"pad_mode": "pad", "padding": padding, "count_include_pad": False} if padding else {}
        self.pool = nn.AvgPool2d(3, 2, **where)

    def construct(self, x):
        return self.pool(self.conv(x))


def test_whether_padding_counts_says_nothing_where_there_is_none() -> None:
    report = verified(Pooled(0), PooledPort(0), IMAGES)
    assert report.passed, report.render()
    assert not report.nets.settings


def test_whether_padding_counts_is_told_where_there_is_some() -> None:
    report = verified(Pooled(1), PooledPort(1), IMAGES)
    assert not report.passed
    assert [str(row) for row in report.nets.settings] == ["count_include_pad 1 against 0"]


class PooledInside(tnn.Module):
    """A pool that pads, or one behind a Pad."""

    def __init__(self, pool: str, *, before: float | None = None, padding: int = 0) -> None:
        super().__init__()
        self.conv = tnn.Conv2d(3, 4, 3, padding=1)
        self.pool, self.before, self.padding = pool, before, padding

    def forward(self, x):
        x = self.conv(x)
        if self.before is not None:
            x = tnn.functional.pad(x, (1, 1, 1, 1), value=self.before)
        return getattr(tnn.functional, f"{self.pool}_pool2d")(x, 3, 2, self.padding)


def test_the_pad_before_a_pool_is_its_padding() -> None:
    for pool, number, settings in (
        ("avg", 0.0, []),
        ("max", -float("inf"), []),
        ("avg", 1.0, ["padding [1, 1] against [0, 0]"]),
    ):
        nets = PooledInside(pool, padding=1), PooledInside(pool, before=number)
        report = verified(*nets, IMAGES)
        assert report.passed is (not settings), report.render()
        assert [str(row) for row in report.nets.settings][:1] == settings


class Stacked(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = tnn.Sequential(tnn.Conv2d(3, 4, 3, padding=1), tnn.BatchNorm2d(4), tnn.ReLU())
        self.fc = tnn.Linear(4, 5)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


class HeldTwice(nn.Cell):
    """Its layers are in a `SequentialCell` and, first, outside it."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=True)
        self.norm = nn.BatchNorm2d(4, eps=eps)
        self.body = nn.SequentialCell(self.conv, self.norm, nn.ReLU())
        self.fc = nn.Dense(4, 5)

    def construct(self, x):
        return self.fc(self.body(x).mean((2, 3)))


@pytest.mark.parametrize("train", [False, True])
def test_a_layer_in_a_sequential_cell_and_outside_it(train: bool) -> None:
    report = verified(Stacked(), HeldTwice(), IMAGES, train=train)
    assert report.passed, report.render()
    assert report.coverage.sensitivity.moved == 8
    wrong = verified(Stacked(), HeldTwice(0.5), IMAGES, train=train)
    assert [str(row) for row in wrong.nets.settings] == ["epsilon 1e-05 against 0.5"]
    assert not wrong.passed


class HalfInside(tnn.Module):
    """Computes in float16 and gives float32."""

    def __init__(self) -> None:
        super().__init__()
        self.a = tnn.Linear(32, 64).half()
        self.b = tnn.Linear(64, 8).half()

    def forward(self, x):
        return self.b(torch.relu(self.a(x.half()))).float()


class HalfInsidePort(nn.Cell):
    def __init__(self, slope: float = 0.0) -> None:
        super().__init__()
        self.a = nn.Dense(32, 64, dtype=ms.float16)
        self.b = nn.Dense(64, 8, dtype=ms.float16)
        self.slope = slope

    def construct(self, x):
        x = self.a(x.astype(ms.float16))
        x = ops.relu(x) + x * ms.Tensor(self.slope, ms.float16) if self.slope else ops.relu(x)
        return self.b(x).astype(ms.float32)


@pytest.mark.usefixtures("without_search")
@pytest.mark.parametrize("seed", range(4))
def test_modules_that_compute_in_float16_behind_a_float32_output(seed: int) -> None:
    inputs = np.random.default_rng(seed).standard_normal((3, 32)).astype(np.float32)
    report = verified(HalfInside(), HalfInsidePort(), inputs)
    assert report.passed, report.render()
    assert not verified(HalfInside(), HalfInsidePort(0.05), inputs).passed


class ToHalf(nn.Cell):
    """As the guide does it: the net in float16, its normalisation in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, pad_mode="pad", padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Dense(8, 5)
        self.to_float(ms.float16)
        self.norm.to_float(ms.float32)

    def construct(self, x):
        return self.fc(ops.relu(self.norm(self.conv(x))).mean((2, 3)))


def test_a_net_in_float16_equals_itself() -> None:
    ms.set_seed(0)
    net = ToHalf()
    report = regraft.verify(net, net, (IMAGES,))
    assert report.passed, report.render()
    assert max(row.max_rel for row in report.outputs) == 0


class Gated(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sigmoid = tnn.Sigmoid()
        self.a, self.b, self.c = (tnn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        first = self.sigmoid(self.a(x))
        return self.c(first * x) + self.sigmoid(self.b(x))


class GatedPort(nn.Cell):
    """Its one Sigmoid runs first where the source's runs last."""

    def __init__(self, swapped: bool = False) -> None:
        super().__init__()
        self.sigmoid = nn.Sigmoid()
        self.a, self.b, self.c = (nn.Dense(32, 32) for _ in range(3))
        self.swapped = swapped

    def construct(self, x):
        last, first = self.sigmoid(self.b(x)), self.sigmoid(self.a(x))
        return self.c((last if self.swapped else first) * x) + (first if self.swapped else last)


def test_a_module_that_is_called_twice_in_another_order() -> None:
    report = verified(Gated(), GatedPort(), ROWS)
    assert report.passed, report.render()
    assert not verified(Gated(), GatedPort(True), ROWS).passed


class Normalised(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (tnn.Conv2d(n, 8, 3, padding=1) for n in (3, 8))
        self.norm_a, self.norm_b = tnn.BatchNorm2d(8), tnn.BatchNorm2d(8)

    def forward(self, x):
        x = torch.relu(self.norm_a(self.a(x)))
        return torch.relu(self.norm_b(self.b(x))).mean((2, 3))


class NormalisedPort(nn.Cell):
    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.a, self.b = (nn.Conv2d(n, 8, 3, pad_mode="pad", padding=1, has_bias=True) for n in (3, 8))
        self.norm_a, self.norm_b = (nn.BatchNorm2d(8, momentum=momentum) for _ in range(2))

    def construct(self, x):
        x = ops.relu(self.norm_a(self.a(x)))
        return ops.relu(self.norm_b(self.b(x))).mean((2, 3))


@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_right_where_only_running_statistics_differ(seed: int) -> None:
    """Beside a kink of an activation, too."""
    inputs = np.random.default_rng(seed).standard_normal((2, 3, 9, 9)).astype(np.float32)
    report = verified(Normalised(), NormalisedPort(0.1), inputs, train=True)
    failed = {row.parameter for row in report.training if not row.passed}
    assert failed == {f"norm_{n}.running_{kind}" for n in "ab" for kind in ("mean", "var")}
    assert verified(Normalised(), NormalisedPort(0.9), inputs, train=True).passed


class Chosen(nn.Cell):
    def construct(self, x):
        return ops.topk(ops.relu(x), 20)[1], ops.relu(x).topk(20, 0, False)[1]


def test_the_first_of_equal_elements_is_found_on_both_sides(tmp_path) -> None:
    graph = regraft.load(Chosen(), (np.repeat(ROWS, 8, 0),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx", to="onnx")
    own = ops.topk
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()
    assert ops.topk is own
    assert "topk" not in vars(ms.Tensor)


def tied_logits(path: Path, *, otherwise: bool = False) -> Path:
    """Write a net of eight equal logits of 1e8; `otherwise`: half of them added up in another order."""
    inner = onnx.parser.parse_graph(
        """tied (float[1,64] x) => (float[1,8] y) {
             h = MatMul(x, "body.weight")
             scaled = Mul(h, factor)
             y_logits = MatMul(scaled, filled)
             y = Softmax <axis = -1> (y_logits)
           }"""
    )
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    given = {"body.weight": weight, "factor": np.float32(1e8), "filled": np.full((64, 8), 0.02, np.float32)}
    if otherwise:
        nodes = onnx.parser.parse_graph(
            """parts (float[1,64] scaled) => (float[1,8] y_logits) {
                 first = MatMul(scaled, half)
                 turned = Gather <axis = 1> (scaled, backwards)
                 second = MatMul(turned, half)
                 y_logits = Concat <axis = 1> (first, second)
               }"""
        ).node
        kept = list(inner.node)
        del inner.node[:]
        inner.node.extend([*kept[:2], *nodes, *kept[3:]])
        given = {**given, "half": given.pop("filled")[:, :4], "backwards": np.arange(64)[::-1].copy()}
    inner.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in given.items())
    onnx.save(onnx.helper.make_model(inner, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    return path


def test_equal_logits_that_rounding_splits_are_not_proven_and_not_called_different(tmp_path: Path) -> None:
    source = regraft.load(str(tied_logits(tmp_path / "a.onnx")))
    other = regraft.verify(source, str(tied_logits(tmp_path / "b.onnx", otherwise=True)))
    assert other.verdict == "unproven", other.render()
    assert any(row.max_abs > 0.05 for row in other.outputs), "the other order has to show"


def test_a_fault_before_equal_logits_is_told_by_its_module(tmp_path: Path) -> None:
    source = regraft.load(str(tied_logits(tmp_path / "a.onnx")))
    out = tmp_path / "b.onnx"
    regraft.save(regraft.rewrite(source).graph, out)
    model = onnx.load(out)
    weight = next(t for t in model.graph.initializer if t.name == "body.weight")
    weight.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * np.float32(1.01), weight.name)
    )
    onnx.save(model, out)
    report = regraft.verify(source, out)
    assert report.verdict == "different", report.render()
    assert report.first_divergence == "body#1", report.render()


class Critic(torch.nn.Module):
    """The loss of a critic: the difference of two long means that are nearly equal."""

    def __init__(self) -> None:
        super().__init__()
        self.score = torch.nn.Conv2d(3, 1, 3, bias=False)

    def forward(self, real, fake):
        return self.score(real).mean() - self.score(fake).mean()


def test_means_that_nearly_cancel_are_equal(tmp_path: Path) -> None:
    torch.manual_seed(2)
    images = [torch.randn(2, 3, 128, 128) for _ in range(2)]
    graph = regraft.load(Critic(), tuple(images))
    regraft.save(graph, tmp_path / "net.onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").passed


def test_a_mean_that_is_off_by_little_is_not_equal(tmp_path: Path) -> None:
    torch.manual_seed(0)
    images = [torch.randn(2, 3, 128, 128) for _ in range(2)]
    net = Critic()
    regraft.save(regraft.load(net, tuple(images)), tmp_path / "net.onnx")
    with torch.no_grad():
        net.score.weight[0, 1, 2, 2] *= 1.001
    assert not regraft.verify(regraft.load(net, tuple(images)), tmp_path / "net.onnx").passed
