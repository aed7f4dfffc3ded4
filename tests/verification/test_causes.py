"""What methods call is compared: an argument, operator or function that differs is named at its line."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch

import regraft
from regraft.ir.validation import verify_each
from regraft.verification.causes.repairs import Repair, Repairing

SOURCE = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
TARGET = "import mindspore as ms\nfrom mindspore import nn, ops\n"
SQUARE = "2x3x4x4"

# name: (input, torch, wrong, what is named, what to write, right)
ROWS: dict[str, tuple[str, str, str, str, str, str]] = {
    "axis of softmax": (
        "2x3x4x5",
        "F.softmax(x, dim=1)",
        "ops.softmax(x)",
        "axis 1 against -1",
        "axis=1",
        "ops.softmax(x, axis=1)",
    ),
    "degrees of freedom": (
        "4x6",
        "x.var(1)",
        "x.var(1)",
        "ddof 1 against 0",
        "ddof=1",
        "x.var(1, ddof=1)",
    ),
    "order of a norm": (
        "4x6",
        "torch.norm(x, p=1, dim=1)",
        "ops.norm(x, dim=1)",
        "ord 1 against None",
        "ord=1",
        "ops.norm(x, ord=1, dim=1)",
    ),
    "axes of a mean": (
        "2x3x4x5",
        "x.mean((2, 3))",
        "x.mean((1, 2))",
        "axis 2, 3 against 1, 2",
        "axis=(2, 3)",
        "x.mean((2, 3))",
    ),
    "kept axis": (
        "2x3x4",
        "x.mean(1, keepdim=True)",
        "x.mean(1)",
        "True against False",
        "=True",
        "x.mean(1, True)",
    ),
    "form of gelu": (
        "4x6",
        "F.gelu(x)",
        "nn.GELU()(x)",
        "approximate False against True",
        "approximate=False",
        "nn.GELU(approximate=False)(x)",
    ),
    "slope": (
        "4x6",
        "F.leaky_relu(x)",
        "ops.leaky_relu(x)",
        "alpha 0.01 against 0.2",
        "alpha=0.01",
        "ops.leaky_relu(x, 0.01)",
    ),
    "both bounds": (
        "4x6",
        "F.hardtanh(x, -2, 2)",
        "ops.hardtanh(x)",
        "min_val, max_val -2, 2 against -1.0, 1.0",
        "min_val=-2, max_val=2",
        "ops.clamp(x, -2, 2)",
    ),
    "zeros counted in a mean": (
        SQUARE,
        "F.avg_pool2d(x, 3, stride=1, padding=1)",
        "ops.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)",
        "count_include_pad True against False",
        "count_include_pad=True",
        "ops.avg_pool2d(x, 3, stride=1, padding=1)",
    ),
    "corners of a resize": (
        SQUARE,
        "F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)",
        "ops.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode='bilinear', align_corners=True)",
        "align_corners False against True",
        "align_corners=False",
        "ops.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode='bilinear', align_corners=False)",
    ),
    "rounding of a quotient": (
        "4x6",
        "torch.div(x * 7, 2, rounding_mode='floor')",
        "ops.div(x * 7, 2, rounding_mode='trunc')",
        "rounding_mode floor against trunc",
        'rounding_mode="floor"',
        "ops.floor(x * 3.5)",
    ),
    "kind of padding": (
        SQUARE,
        "F.pad(x, (1, 1, 1, 1), mode='reflect')",
        "ops.pad(x, (1, 1, 1, 1))",
        "mode reflect against constant",
        'mode="reflect"',
        "nn.ReflectionPad2d(1)(x)",
    ),
    "order of paddings": (
        SQUARE,
        "F.pad(x, (1, 0, 2, 0))",
        "ops.pad(x, (2, 0, 1, 0))",
        "padding 1, 0, 2, 0 against 2, 0, 1, 0",
        "padding=(1, 0, 2, 0)",
        "ops.pad(x, (1, 0, 2, 0))",
    ),
    "order of axes": (
        "2x3x3x3",
        "x.permute(0, 2, 3, 1)",
        "x.permute(0, 3, 1, 2)",
        "permute 0, 2, 3, 1 against 0, 3, 1, 2",
        "permute(0, 2, 3, 1)",
        "ops.transpose(x, (0, 2, 3, 1))",
    ),
    "a product with a transpose": (
        "4x4",
        "x @ x.t()",
        "ops.matmul(x, x)",
        "call `x @ x.t()` against `ops.matmul(x, x)`",
        "`x @ x.swapaxes(0, 1)` in place of `ops.matmul(x, x)`",
        "ops.matmul(x, x.T)",
    ),
    "axis of a concatenation": (
        "2x4x4",
        "torch.cat([x, x * 2], dim=1)",
        "ops.cat((x, x * 2), axis=2)",
        "axis 1 against 2",
        "axis=1",
        "ops.cat((x, x + x), axis=1)",
    ),
    "order of a concatenation": (
        "2x4x4",
        "torch.cat([x, x * 2], dim=1)",
        "ops.cat((x * 2, x), axis=1)",
        "order of the tensors second, first against first, second",
        "the tensors in the order second, first",
        "ops.cat((x, 2 * x), axis=1)",
    ),
    "operands": (
        "4x6",
        "x - x.mean(1, keepdim=True)",
        "x.mean(1, True) - x",
        "operands",
        "the operands exchanged",
        "-(x.mean(1, True) - x)",
    ),
    "a mask that is inverted": (
        "4x6",
        "x.masked_fill(x > 0, -1.0)",
        "x.masked_fill(x <= 0, -1.0)",
        "operator `>` against `<=`",
        "`>` in place of `<=`",
        "ops.where(x > 0, ms.Tensor(-1.0), x)",
    ),
    "a factor": ("4x6", "x * 0.125", "x * 0.25", "0.125 against 0.25", "0.125 in place of 0.25", "x / 8"),
    "the scale of attention": (
        "2x4x8",
        "F.scaled_dot_product_attention(x, x * 2, x + 1)",
        "ops.matmul(ops.softmax(ops.matmul(x, (x * 2).swapaxes(1, 2)), axis=-1), x + 1)",
        "call `F.scaled_dot_product_attention(x, x * 2, x + 1)` against",
        "`ops.softmax(x @ (x * 2).swapaxes(-2, -1) * 0.353553, axis=-1) @ (x + 1)` in place of",
        "ops.matmul(ops.softmax(ops.matmul(x, (x * 2).swapaxes(1, 2)) / 8 ** 0.5, axis=-1), x + 1)",
    ),
    "a variance of a norm that is written out": (
        "4x6",
        "F.layer_norm(x, (6,))",
        "(x - x.mean(1, True)) / ops.sqrt(x.var(1, ddof=1, keepdims=True) + 1e-5)",
        "ddof 0 against 1",
        "ddof=0",
        "(x - x.mean(1, True)) / ops.sqrt(((x - x.mean(1, True)) ** 2).mean(1, True) + 1e-5)",
    ),
    "a function that is missing": (
        "4x6",
        "F.relu(x) + 1",
        "x + 1",
        "call `F.relu`",
        "ops.relu(x) before `x + 1`",
        "1 + ops.relu(x)",
    ),
    "a function that is missing at the end": (
        "4x6",
        "torch.tanh(x + 1)",
        "x + 1",
        "call `torch.tanh(x + 1)`",
        "`ops.tanh(x + 1)` in place of `x + 1`",
        "(1 + x).tanh()",
    ),
    "a function too many": (
        "4x6",
        "x * 2",
        "ops.relu(x) * 2",
        "call none against `ops.relu`",
        "no `ops.relu`",
        "x + x",
    ),
    "another function": (
        "4x6",
        "F.silu(x)",
        "ops.relu(x)",
        "function `silu` against `relu`",
        "`ops.silu` in place of `ops.relu`",
        "x * ops.sigmoid(x)",
    ),
    "reduction of a loss": (
        "4x6",
        "F.mse_loss(x, x * 2, reduction='sum')",
        "ops.mse_loss(x, x * 2)",
        "reduction sum against mean",
        'reduction="sum"',
        "(x * x).sum()",
    ),
    "an ignored label": (
        "4x6",
        "F.cross_entropy(x, torch.tensor([0, 1, 2, 3]), ignore_index=0)",
        "ops.cross_entropy(x, ms.Tensor([0, 1, 2, 3], ms.int32))",
        "ignore_index 0 against -100",
        "ignore_index=0",
        "ops.cross_entropy(x[1:], ms.Tensor([1, 2, 3], ms.int32))",
    ),
    "which elements": (
        "4x6",
        "x[:, 1:4]",
        "x[:, 0:3]",
        "index [:, 1:4] against [:, 0:3]",
        "[:, 1:4]",
        "x[:, 1:-2]",
    ),
    "order of the largest": (
        "4x6",
        "torch.topk(x, 3, largest=False)[0]",
        "ops.topk(x, 3)[0]",
        "largest False against True",
        "largest=False",
        "ops.sort(x)[0][:, :3]",
    ),
    "axis of classes": (
        "4:int64[0,5)",
        "F.one_hot(x, 6).float()",
        "ops.one_hot(x, 6, ops.ones((), ms.float32), ops.zeros((), ms.float32), 0)",
        "axis 1 against 0",
        "axis=1",
        "ops.one_hot(x, 6, ops.ones((), ms.float32), ops.zeros((), ms.float32), -1)",
    ),
    "a function of almost the same name": (
        "4x6",
        "torch.split(x, [1, 5], 1)[1]",
        "ops.tensor_split(x, [1, 5], 1)[1]",
        "call `torch.split(x, [1, 5], 1)` against `ops.tensor_split(x, [1, 5], 1)`",
        "ops.split(x, (1, 5), axis=1)",
        "x[:, 1:]",
    ),
    "a sum of multiples": (
        "4x6",
        "torch.add(x.sin(), x.cos(), alpha=0.3) * 2",
        "ops.add(x.sin(), x.cos()) * 2",
        "call `torch.add(x.sin(), x.cos(), alpha=0.3)` against `ops.add(x.sin(), x.cos())`",
        "x.sin() + 0.3 * x.cos()",
        "(x.sin() + x.cos() * 0.3) * 2",
    ),
    "a norm of all elements, in a longer line": (
        "4x6",
        "x / torch.norm(x.sin(), 3)",
        "x / ops.norm(x.sin(), 1)",
        "call `torch.norm(x.sin(), 3)` against `ops.norm(x.sin(), 1)`",
        "ops.norm(x.sin().reshape(-1), 3)",
        "x / ops.norm(x.sin().reshape(-1), 3)",
    ),
    "a mask that is inverted by name": (
        "4x6",
        "x.masked_fill(x > 0, 2.0)",
        "x.masked_fill(~(x > 0), 2.0)",
        "call none against `~(x > 0)`",
        "`x > 0` in place of `~(x > 0)`",
        "ops.where(x > 0, ms.Tensor(2.0), x)",
    ),
    "a result of several": (
        "4x4",
        "torch.linalg.svdvals(x)",
        "ops.svd(x)[1]",
        "index [0] against [1]",
        "[0]",
        "ops.svd(x, compute_uv=False)",
    ),
    "a transpose that is missing": (
        "2x3x4",
        "x.transpose(1, 2).reshape(2, 12) * 2",
        "x.reshape(2, 12) * 2",
        "call `x.transpose(1, 2).reshape(2, 12)` against `x.reshape(2, 12)`",
        ".reshape(2, 12)` in place of `x.reshape(2, 12)`",
        "2 * x.swapaxes(1, 2).view(2, 12)",
    ),
    "the gate of two halves": (
        "4x6",
        "torch.chunk(x, 2, 1)[0] * F.silu(torch.chunk(x, 2, 1)[1])",
        "ops.chunk(x, 2, 1)[0] * ops.sigmoid(ops.chunk(x, 2, 1)[1])",
        "function `silu` against `sigmoid`",
        "`ops.silu` in place of `ops.sigmoid`",
        "x[:, :3] * ops.silu(x[:, 3:])",
    ),
    "values that are no numbers": (
        "4x6",
        "torch.log(x).nan_to_num(0.5).sum()",
        "ops.log(x).nan_to_num(0.0).sum()",
        "nan 0.5 against 0",
        "nan=0.5",
        "ops.where(x > 0, ops.log(x), ms.Tensor(0.5)).sum()",
    ),
    "a cast": (
        "4x6",
        "x * 1.1",
        "(x.astype(ms.float16) * 1.1).astype(ms.float32)",
        "call none against `x.astype`",
        "no `x.astype`",
        "1.1 * x",
    ),
    "queries and keys in each other's place": (
        "2x4x8",
        "F.softmax((x + 1) @ (x * x).transpose(1, 2), -1) @ x",
        "ops.softmax((x * x) @ (x + 1).swapaxes(1, 2), -1) @ x",
        "`x + 1`, `x * x` exchanged",
        "`x + 1` and `x * x` exchanged",
        "ops.softmax(ops.matmul(x + 1, ops.square(x).swapaxes(1, 2)), -1) @ x",
    ),
    "halves in each other's place": (
        "4x6",
        "F.glu(x)",
        "x[:, 3:] * ops.sigmoid(x[:, :3])",
        "exchanged",
        "`x[:, :3]` and `x[:, 3:]` exchanged",
        "x[:, :3] * ops.sigmoid(x[:, 3:])",
    ),
    "rotated pairs in place of halves": (
        "2x3x8",
        "x * 0.8 + torch.cat([-x[..., 4:], x[..., :4]], dim=-1) * 0.6",
        "x * 0.8 + ops.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape) * 0.6",
        "call `torch.cat([-x[..., 4:], x[..., :4]], dim=-1)`",
        "`ops.cat([-x[..., 4:], x[..., :4]], axis=-1)` in place of `ops.stack(",
        "0.6 * ops.concat((-x[..., 4:], x[..., :4]), -1) + 0.8 * x",
    ),
    "a small number behind the root": (
        "4x6",
        "x / torch.sqrt(x.pow(2) + 0.01)",
        "x / (ops.sqrt(x.pow(2)) + 0.01)",
        "call `torch.sqrt(x.pow(2) + 0.01)`",
        "`ops.sqrt(x.pow(2) + 0.01)` in place of `ops.sqrt(x.pow(2)) + 0.01`",
        "x * ops.rsqrt(x * x + 0.01)",
    ),
    "a sum in place of a mean": (
        "4x6",
        "x.pow(2).mean(-1, keepdim=True)",
        "x.pow(2).sum(-1, keepdims=True)",
        "call `x.pow(2).mean(-1, keepdim=True)`",
        "`ops.mean(x.pow(2), -1, keep_dims=True)` in place of `x.pow(2).sum(-1, keepdims=True)`",
        "ops.square(x).mean(-1, True)",
    ),
    "an addition before a function": (
        "4x6",
        "x + F.relu(x - 1)",
        "ops.relu(x + (x - 1))",
        "call `x + F.relu(x - 1)`",
        "`x + ops.relu(x - 1)` in place of",
        "ops.relu(x - 1) + x",
    ),
    "the first of a sequence": (
        "2x5x6",
        "x[:, 0] * 2",
        "x.mean(1) * 2",
        "call `x[:, 0]` against `x.mean(1)`",
        "`x[:, 0]` in place of `x.mean(1)`",
        "2 * x[:, 0, :]",
    ),
    "weights of classes": (
        "4x6",
        "F.cross_entropy(x, torch.tensor([0, 1, 5, 3]), weight=torch.tensor([1., 2., 3., 4., 5., 6.]))",
        "ops.cross_entropy(x, ms.Tensor([0, 1, 5, 3], ms.int32))",
        "call `F.cross_entropy",
        "weight=ms.Tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))` in place of",
        "ops.cross_entropy(x, ms.Tensor([0, 1, 5, 3], ms.int32),"
        " ms.Tensor([1., 2., 3., 4., 5., 6.], ms.float32))",
    ),
    "a share of the second operand": (
        "4x6",
        "torch.sub(x, x.sin(), alpha=0.3)",
        "x - x.sin()",
        "call `torch.sub(x, x.sin(), alpha=0.3)`",
        "alpha=0.3)` in place of `x - x.sin()`",
        "x - 0.3 * x.sin()",
    ),
    "an attention that sees what follows": (
        "2x4x8",
        "F.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True)",
        "ops.softmax(x @ (x * 2).swapaxes(1, 2) / 8 ** 0.5, -1) @ (x + 1)",
        "is_causal=True",
        '.masked_fill(ops.triu(ops.ones((4, 4)), 1).bool(), float("-inf"))',
        "ops.softmax((x @ (x * 2).swapaxes(1, 2) / 8 ** 0.5).masked_fill("
        "ops.triu(ops.ones((4, 4)), 1).bool(), -1e9), -1) @ (x + 1)",
    ),
    "the sign of a rotation": (
        "4x8",
        "torch.cat([-x[:, 4:], x[:, :4]], 1)",
        "ops.cat([x[:, 4:], -x[:, :4]], 1)",
        "call `torch.cat([-x[:, 4:], x[:, :4]], 1)`",
        "`ops.cat([-x[:, 4:], x[:, :4]], 1)` in place of",
        "ops.concat((-x[:, 4:], x[:, :4]), 1)",
    ),
    "another form of gelu that is written out": (
        "4x6",
        "F.gelu(x)",
        "x * ops.sigmoid(1.702 * x)",
        "call `F.gelu(x)` against `x * ops.sigmoid(1.702 * x)`",
        "`ops.gelu(x)` in place of",
        "x * 0.5 * (1 + ops.erf(x / 2 ** 0.5))",
    ),
    "the diagonal of a mask": (
        "2x4x4",
        "x.masked_fill(torch.ones(4, 4).triu(1).bool(), -1e4).softmax(-1)",
        "x.masked_fill(ops.triu(ops.ones((4, 4)), 0).bool(), -1e4).softmax(-1)",
        "diagonal 1 against 0",
        "diagonal=1",
        "ops.softmax(x + ops.triu(ops.ones((4, 4)), 1) * -1e4, -1)",
    ),
    "a mask of the other triangle": (
        "2x4x4",
        "x.masked_fill(torch.ones(4, 4).triu(1).bool(), -1e4).softmax(-1)",
        "ops.softmax(x.masked_fill(ops.tril(ops.ones((4, 4)), -1).bool(), -1e4), -1)",
        "call `torch.ones(4, 4).triu(1)`",
        "`ops.triu(ops.ones((4, 4)), diagonal=1)` in place of `ops.tril(ops.ones((4, 4)), -1)`",
        "ops.softmax(x.masked_fill(ops.triu(ops.ones((4, 4)), 1).bool(), -1e4), -1)",
    ),
}


def _written(folder: Path) -> tuple[Path, Path]:
    """The files of both sides, a class each row."""
    source, target = [SOURCE], [TARGET]
    for at, (_, torch_, wrong, _, _, right) in enumerate(ROWS.values()):
        source.append(f"\n\nclass Net{at}(nn.Module):\n    def forward(self, x):\n        return {torch_}\n")
        for name, text in (("Wrong", wrong), ("Right", right)):
            target.append(
                f"\n\nclass {name}{at}(nn.Cell):\n    def construct(self, x):\n        return {text}\n"
            )
    paths = folder / "theirs.py", folder / "mine.py"
    for path, lines in zip(paths, (source, target), strict=True):
        path.write_text("".join(lines))
    return paths


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return _written(tmp_path_factory.mktemp("causes"))


@pytest.mark.parametrize("row", ROWS)
def test_a_call_that_differs_is_named_with_what_to_write(row: str, files: tuple[Path, Path]) -> None:
    at = list(ROWS).index(row)
    inputs, _, _, difference, write, _ = ROWS[row]
    report = regraft.verify(f"{files[0]}:Net{at}", f"{files[1]}:Wrong{at}", inputs)
    assert report.verdict == "different"
    found = report.nets.settings[0]
    assert difference in str(found)
    assert write in found.write
    line = 3 + files[1].read_text().split("\n").index(f"class Wrong{at}(nn.Cell):")
    assert found.place == f"mine.py:{line}"


@pytest.mark.parametrize("row", ROWS)
def test_another_spelling_is_equal_and_nothing_is_named(row: str, files: tuple[Path, Path]) -> None:
    at = list(ROWS).index(row)
    report = regraft.verify(f"{files[0]}:Net{at}", f"{files[1]}:Right{at}", ROWS[row][0])
    assert report.verdict == "equal", report.render(brief=True)
    assert not [row for row in report.nets.settings if not row.structure]


NETS = """

class Net(nn.{base}):
    def __init__(self):
        super().__init__()
        self.first = nn.{linear}(6, 6)
        self.second = nn.{linear}(6, 6)
        self.recurrent = nn.LSTM({lstm})

    def {method}(self, x):
        {first}
        {second}
        return self.recurrent(x)[0].sum(2)
"""


def test_several_mistakes_are_named_each_at_its_line(tmp_path: Path) -> None:
    source, target = tmp_path / "theirs.py", tmp_path / "mine.py"
    first, second = "x = F.softmax(self.first(x), dim=1)", "x = F.elu(self.second(x).clamp(-0.2, 0.2))"
    torch_ = {"base": "Module", "linear": "Linear", "method": "forward", "lstm": "6, 5, batch_first=True"}
    source.write_text(SOURCE + NETS.format(**torch_, first=first, second=second))
    first, second = "x = ops.softmax(self.first(x))", "x = ops.elu(ops.clamp(self.second(x), -0.1, 0.1))"
    cells = {"base": "Cell", "linear": "Dense", "method": "construct", "lstm": "6, 5"}
    target.write_text(TARGET + NETS.format(**cells, first=first, second=second))
    report = regraft.verify(f"{source}:Net", f"{target}:Net", "3x4x6")
    found = {(row.write, row.place) for row in report.nets.settings}
    lines = target.read_text().split("\n")
    places = [f"mine.py:{1 + next(i for i, line in enumerate(lines) if t in line)}" for t in (first, second)]
    assert {("axis=1", places[0]), ("min=-0.2, max=0.2", places[1])} <= found
    assert any(write == "batch_first=True" for write, _ in found)


def test_a_leaky_relu_that_mindspore_writes_out_is_not_missing(tmp_path: Path) -> None:
    """`ops.leaky_relu` is the maximum of two values there, in a net that differs in something else."""
    body = "def {}(self, x):\n        return {}.leaky_relu(self.norm(x), 0.1)\n"
    made = "\n\nclass Net(nn.{}):\n    def __init__(self):\n        super().__init__()\n"
    made += "        self.norm = {}\n    "
    (tmp_path / "theirs.py").write_text(
        SOURCE + made.format("Module", "nn.BatchNorm1d(6)") + body.format("forward", "F")
    )
    (tmp_path / "mine.py").write_text(
        TARGET + made.format("Cell", "nn.BatchNorm1d(6, eps=0.1)") + body.format("construct", "ops")
    )
    report = regraft.verify(f"{tmp_path}/theirs.py:Net", f"{tmp_path}/mine.py:Net", "3x6")
    assert [row.attribute for row in report.nets.settings] in (["eps"], ["epsilon"])


class Doubled(ms.nn.Cell):
    """Adds its input, which its source does not, in one of three ways."""

    def __init__(self, way: int) -> None:
        super().__init__()
        self.fc, self.way = ms.nn.Dense(4, 4), way

    def construct(self, x):
        y = self.fc(x)
        if self.way == 0:
            y = y + x
        elif self.way == 1:
            y = x + y
        else:
            y = ms.ops.add(x, y)
        return ms.ops.tanh(y)


@pytest.mark.parametrize(("way", "now"), [(0, "y + x"), (1, "x + y"), (2, "ms.ops.add(x, y)")])
def test_the_operand_that_stays_is_the_one_that_the_source_has(way: int, now: str) -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.tanh(self.fc(x))

    [row] = regraft.verify(Plain(), Doubled(way), ["2x4"]).nets.settings
    assert row.write == f"`y` in place of `{now}`"
    assert row.rewrite is not None
    assert row.rewrite.text == "y"


@pytest.mark.parametrize("where", ["finding.find_causes", "tape.leaves"])
def test_a_fault_of_the_search_is_told_and_the_verdict_stands(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is raised within a run of the net, as a fault of its own would be."""

    class Plain(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(x)

    class Other(ms.nn.Cell):
        def construct(self, x):
            return ms.ops.sin(x)

    monkeypatch.setattr(f"regraft.verification.causes.{where}", None)  # which cannot be called
    verify_each(on=False)
    try:
        report = regraft.verify(Plain(), Other(), ["2x4"])
    finally:
        verify_each(on=True)
    assert report.verdict == "different"
    assert any("please report it: TypeError at" in note for note in report.notes)


def test_a_repair_keeps_names_of_numbers_and_the_other_outputs(tmp_path: Path) -> None:
    made = "\n\nclass Net(nn.{}):\n    def __init__(self):\n        super().__init__()\n"
    made += "        self.mean = 0.45\n\n    def {}(self, x):\n        return x * self.mean, {}\n"
    source = made.format("Module", "forward", "x + F.relu(x - self.mean)")
    (tmp_path / "theirs.py").write_text(SOURCE + source)
    for target, write in (
        ("ops.cos(x)", "`x + ops.relu(x - self.mean)` in place of `ops.cos(x)`"),
        ("x", "`(x * self.mean, x + ops.relu(x - self.mean))` in place of `(x * self.mean, x)`"),
    ):
        (tmp_path / "mine.py").write_text(TARGET + made.format("Cell", "construct", target))
        report = regraft.verify(f"{tmp_path}/theirs.py:Net", f"{tmp_path}/mine.py:Net", "4x6")
        assert write in report.nets.settings[0].write


def test_a_mistake_behind_a_packed_sequence_is_named(tmp_path: Path) -> None:
    made = "\n\nclass Net(nn.{}):\n    def __init__(self):\n        super().__init__()\n"
    made += "        self.recurrent = nn.LSTM(6, 3, batch_first=True, bidirectional=True)\n\n"
    packed = "    def forward(self, x, n):\n"
    packed += "        x = pack_padded_sequence(x, n, True, enforce_sorted=False)\n"
    packed += "        x, _ = pad_packed_sequence(self.recurrent(x)[0], True, total_length=5)\n"
    imported = "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence\n"
    source = SOURCE + imported + made.format("Module") + packed + "        return F.softmax(x, dim=1)\n"
    (tmp_path / "theirs.py").write_text(source)
    target = "    def construct(self, x, n):\n        x = self.recurrent(x, None, n)[0]\n"
    target += "        return ops.softmax(x, axis=2)\n"
    (tmp_path / "mine.py").write_text(TARGET + made.format("Cell") + target)
    x, n = np.random.default_rng(0).normal(size=(3, 5, 6)).astype(np.float32), np.array([5, 2, 3])
    report = regraft.verify(f"{tmp_path}/theirs.py:Net", f"{tmp_path}/mine.py:Net", (x, n))
    [row] = report.nets.settings
    assert (row.write, row.place) == ("axis=1", "mine.py:12")


def test_changes_of_calls_leave_time_for_an_expression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change takes a quarter of a second to try here, and more are tried than there is time for."""
    made = "\n\nclass Net(nn.{}):\n    def {}(self, x):\n        {}\n        return y * 2 + x\n"
    source = made.format("Module", "forward", "y = x + F.relu(x - 0.45)")
    (tmp_path / "theirs.py").write_text(SOURCE + source)
    wrong = "y = ops.softmax(ops.elu(ops.clamp(x, -0.3, 0.4)))"
    (tmp_path / "mine.py").write_text(TARGET + made.format("Cell", "construct", wrong))
    now = 0.0
    is_right = Repairing._is_right

    def slow(self: Repairing, repair: Repair) -> bool:
        nonlocal now
        now += 0.25
        return is_right(self, repair)

    monkeypatch.setattr(Repairing, "_is_right", slow)
    monkeypatch.setattr("time.process_time", lambda: now)
    report = regraft.verify(f"{tmp_path}/theirs.py:Net", f"{tmp_path}/mine.py:Net", "4x6")
    assert "`x + ops.relu(x - 0.45)` in place of" in report.nets.settings[0].write
